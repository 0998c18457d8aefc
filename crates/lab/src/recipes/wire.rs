//! A program's end of the calls: `tenure.v1` without gRPC.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tenure::{
    backend::{Attached, Boxed, Heard, Reach, Wire, stream_error},
    grpc::{ClientError, Code},
    host::Host,
};
use tenure_api::wire::tenure::v1 as pb;
use tenure_replica::command::Command;
use tokio::sync::mpsc;
use tonic::Status;

use super::post::{Ask, CallId, Down, Post, ProgramId, Up};
use crate::{cluster::member::Number, engine::Executor};

/// How a program reaches the members.
#[derive(Clone, Debug)]
pub struct Phone {
    pub program: ProgramId,
    pub members: Vec<Number>,
    pub executor: Executor,
    pub post: Post,
}

impl Reach for Phone {
    fn any(&self, attempt_max: Duration) -> Arc<dyn Wire> {
        Arc::new(self.line(self.members.clone(), attempt_max))
    }

    fn each(&self, attempt_max: Duration) -> Vec<Arc<dyn Wire>> {
        let alone = |member: &Number| self.line(vec![*member], attempt_max);
        self.members.iter().map(|member| Arc::new(alone(member)) as Arc<dyn Wire>).collect()
    }
}

impl Phone {
    /// To these members; to one that is any of them at first.
    pub fn line(&self, members: Vec<Number>, attempt_max: Duration) -> Line {
        let first = self.executor.seed() as usize % members.len();
        Line { phone: self.clone(), members, turn: AtomicUsize::new(first), attempt_max }
    }
}

/// The way to some members, of which one is asked at a time.
#[derive(Debug)]
pub struct Line {
    phone: Phone,
    members: Vec<Number>,
    turn: AtomicUsize,
    attempt_max: Duration,
}

/// A call that hangs up when nobody wants it any more.
struct Calling {
    call: CallId,
    heard: mpsc::UnboundedReceiver<Down>,
    phone: Phone,
}

impl Drop for Calling {
    fn drop(&mut self) {
        // Of a dead process the kernel takes care.
        if !self.phone.executor.is_dead() {
            self.phone.post.up(self.call, Up::HangUp { gone: false });
            self.phone.post.deafen(self.call);
        }
    }
}

impl Calling {
    async fn hear(&mut self) -> Result<Down, ClientError> {
        match self.heard.recv().await {
            Some(Down::Failed(status)) => Err(failed(&status)),
            Some(Down::HangUp) | None => Err(broken()),
            Some(heard) => Ok(heard),
        }
    }
}

impl Line {
    fn dial(&self, ask: Ask) -> Calling {
        let member = self.members[self.turn.load(Ordering::Relaxed) % self.members.len()];
        let (call, heard) = self.phone.post.dial(self.phone.program, member, ask);
        Calling { call, heard, phone: self.phone.clone() }
    }

    /// The first thing that is heard, in time.
    async fn first(&self, ask: Ask) -> Result<(Calling, Down), ClientError> {
        let turn = self.turn();
        let mut calling = self.dial(ask);
        let executor = &self.phone.executor;
        let heard = tokio::select! {
            biased;
            heard = calling.hear() => heard,
            () = executor.pause(self.attempt_max) => {
                Err(ClientError::TimedOut { after: self.attempt_max, outcome_unknown: false })
            }
        };
        if heard.is_err() {
            self.leave(turn);
        }
        heard.map(|heard| (calling, heard))
    }

    /// Writes something; whether it was taken.
    ///
    /// # Errors
    /// If that is not known.
    pub async fn write(&self, command: Command) -> Result<bool, ClientError> {
        match self.first(Ask::Write(Box::new(command))).await?.1 {
            Down::Wrote(wrote) => wrote.map_err(|status| failed(&status)),
            other => Err(unexpected(&other)),
        }
    }
}

impl Wire for Line {
    fn attach(&self, open: pb::OpenSession) -> Boxed<'_, Result<Attached, ClientError>> {
        Box::pin(async move {
            let (calling, first) = self.first(Ask::Session(open)).await?;
            if !matches!(first, Down::Accepted) {
                return Err(unexpected(&first));
            }
            let (ask, mut asked) = mpsc::unbounded_channel();
            let (post, call) = (calling.phone.post.clone(), calling.call);
            self.phone.executor.spawn(Box::pin(async move {
                while let Some(request) = asked.recv().await {
                    post.up(call, Up::Says(Box::new(request)));
                }
                post.up(call, Up::HangUp { gone: false });
            }));
            let answers = stream::unfold(calling, async |mut calling| {
                let said = match calling.heard.recv().await? {
                    Down::Session(Ok(said)) => Ok(*said),
                    Down::Session(Err(status)) => Err(stream_error(&status)),
                    Down::HangUp => return None,
                    other => Err(unexpected(&other)),
                };
                Some((said, calling))
            });
            Ok(Attached { ask, answers: answers.boxed() })
        })
    }

    fn end(&self, session: i64, stopped: bool) -> Boxed<'_, Result<(), ClientError>> {
        Box::pin(async move {
            match self.first(Ask::End(pb::EndSessionRequest { session, stopped })).await?.1 {
                Down::Ended(ended) => ended.map_err(|status| failed(&status)),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn candidates(&self, name: String) -> Boxed<'_, Result<pb::CandidatesResponse, ClientError>> {
        Box::pin(async move {
            match self.first(Ask::Candidates(pb::CandidatesRequest { name })).await?.1 {
                Down::Candidates(found) => found.map_err(|status| failed(&status)),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn observe(
        &self,
        request: pb::ObserveRequest,
    ) -> Boxed<'_, Result<Heard<pb::ObserveResponse>, ClientError>> {
        Box::pin(async move {
            let (calling, first) = self.first(Ask::Observe(request)).await?;
            if !matches!(first, Down::Accepted) {
                return Err(unexpected(&first));
            }
            let told = stream::unfold(calling, async |mut calling| {
                let told = match calling.heard.recv().await? {
                    Down::Observed(Ok(told)) => Ok(*told),
                    Down::Observed(Err(status)) => Err(stream_error(&status)),
                    Down::HangUp => return None,
                    other => Err(unexpected(&other)),
                };
                Some((told, calling))
            });
            Ok(told.boxed())
        })
    }

    fn turn(&self) -> usize {
        self.turn.load(Ordering::Relaxed)
    }

    fn leave(&self, turn: usize) {
        let next = turn.wrapping_add(1);
        let (seen, set) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.turn.compare_exchange(turn, next, seen, set);
    }
}

/// As the library's own client tells a refusal from a member that cannot serve.
fn failed(status: &Status) -> ClientError {
    let text = status.message().to_owned();
    match status.code() {
        code @ (Code::Unavailable | Code::DeadlineExceeded) => {
            ClientError::Unavailable { code, text }
        }
        code => ClientError::Refused { code, text },
    }
}

fn broken() -> ClientError {
    ClientError::Unavailable { code: Code::Unavailable, text: "the connection broke".to_owned() }
}

fn unexpected(down: &impl fmt::Debug) -> ClientError {
    panic!("a door says what nobody asked for: {down:?}")
}
