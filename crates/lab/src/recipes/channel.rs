//! A program's connections to the members: `tenure.v1` without gRPC.

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

use super::network::{CallId, ClientMessage, ProgramId, ProgramNetwork, RpcRequest, ServerMessage};
use crate::{cluster::member::MemberNumber, engine::Executor};

/// Opens channels from a program to the members.
#[derive(Clone, Debug)]
pub struct Connector {
    pub program: ProgramId,
    pub members: Vec<MemberNumber>,
    pub executor: Executor,
    pub network: ProgramNetwork,
}

impl Reach for Connector {
    fn any(&self, attempt_max: Duration) -> Arc<dyn Wire> {
        Arc::new(self.channel(self.members.clone(), attempt_max))
    }

    fn each(&self, attempt_max: Duration) -> Vec<Arc<dyn Wire>> {
        let alone = |member: &MemberNumber| self.channel(vec![*member], attempt_max);
        self.members.iter().map(|member| Arc::new(alone(member)) as Arc<dyn Wire>).collect()
    }
}

impl Connector {
    /// A channel to these members; chance picks the one that it uses first.
    pub fn channel(&self, members: Vec<MemberNumber>, attempt_max: Duration) -> Channel {
        let first = self.executor.seed() as usize % members.len();
        Channel { connector: self.clone(), members, turn: AtomicUsize::new(first), attempt_max }
    }
}

/// A channel to some members, of which it uses one at a time.
#[derive(Debug)]
pub struct Channel {
    connector: Connector,
    members: Vec<MemberNumber>,
    turn: AtomicUsize,
    attempt_max: Duration,
}

/// The program's end of a call. Dropping it closes the call.
struct ClientCall {
    id: CallId,
    received: mpsc::UnboundedReceiver<ServerMessage>,
    connector: Connector,
}

impl Drop for ClientCall {
    fn drop(&mut self) {
        // The kernel closes the calls of a dead process.
        if !self.connector.executor.is_dead() {
            self.connector.network.send_to_member(self.id, ClientMessage::Close { gone: false });
            self.connector.network.close_receiver(self.id);
        }
    }
}

impl ClientCall {
    async fn receive(&mut self) -> Result<ServerMessage, ClientError> {
        match self.received.recv().await {
            Some(ServerMessage::Failed(status)) => Err(failed(&status)),
            Some(ServerMessage::Close) | None => Err(broken()),
            Some(received) => Ok(received),
        }
    }
}

impl Channel {
    fn open_call(&self, ask: RpcRequest) -> ClientCall {
        let member = self.members[self.turn.load(Ordering::Relaxed) % self.members.len()];
        let (id, received) = self.connector.network.open_call(self.connector.program, member, ask);
        ClientCall { id, received, connector: self.connector.clone() }
    }

    /// Starts a call and waits for its first message, for at most `attempt_max`.
    async fn first(&self, ask: RpcRequest) -> Result<(ClientCall, ServerMessage), ClientError> {
        let turn = self.turn();
        let mut call = self.open_call(ask);
        let executor = &self.connector.executor;
        let received = tokio::select! {
            biased;
            received = call.receive() => received,
            () = executor.pause(self.attempt_max) => {
                Err(ClientError::TimedOut { after: self.attempt_max, outcome_unknown: false })
            }
        };
        if received.is_err() {
            self.leave(turn);
        }
        received.map(|received| (call, received))
    }

    /// Sends a guarded write. True if it was taken.
    ///
    /// # Errors
    /// If the outcome is not known.
    pub async fn write(&self, command: Command) -> Result<bool, ClientError> {
        match self.first(RpcRequest::Write(Box::new(command))).await?.1 {
            ServerMessage::Wrote(wrote) => wrote.map_err(|status| failed(&status)),
            other => Err(unexpected(&other)),
        }
    }
}

impl Wire for Channel {
    fn attach(&self, open: pb::OpenSession) -> Boxed<'_, Result<Attached, ClientError>> {
        Box::pin(async move {
            let (call, first) = self.first(RpcRequest::Session(open)).await?;
            if !matches!(first, ServerMessage::Accepted) {
                return Err(unexpected(&first));
            }
            let (ask, mut asked) = mpsc::unbounded_channel();
            let (network, id) = (call.connector.network.clone(), call.id);
            self.connector.executor.spawn(Box::pin(async move {
                while let Some(request) = asked.recv().await {
                    network.send_to_member(id, ClientMessage::SessionRequest(Box::new(request)));
                }
                network.send_to_member(id, ClientMessage::Close { gone: false });
            }));
            let answers = stream::unfold(call, async |mut call| {
                let said = match call.received.recv().await? {
                    ServerMessage::Session(Ok(said)) => Ok(*said),
                    ServerMessage::Session(Err(status)) => Err(stream_error(&status)),
                    ServerMessage::Close => return None,
                    other => Err(unexpected(&other)),
                };
                Some((said, call))
            });
            Ok(Attached { ask, answers: answers.boxed() })
        })
    }

    fn end(&self, request: pb::EndSessionRequest) -> Boxed<'_, Result<(), ClientError>> {
        Box::pin(async move {
            match self.first(RpcRequest::End(request)).await?.1 {
                ServerMessage::Ended(ended) => ended.map_err(|status| failed(&status)),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn candidates(&self, name: String) -> Boxed<'_, Result<pb::CandidatesResponse, ClientError>> {
        Box::pin(async move {
            match self.first(RpcRequest::Candidates(pb::CandidatesRequest { name })).await?.1 {
                ServerMessage::Candidates(found) => found.map_err(|status| failed(&status)),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn observe(
        &self,
        request: pb::ObserveRequest,
    ) -> Boxed<'_, Result<Heard<pb::ObserveResponse>, ClientError>> {
        Box::pin(async move {
            let (call, first) = self.first(RpcRequest::Observe(request)).await?;
            if !matches!(first, ServerMessage::Accepted) {
                return Err(unexpected(&first));
            }
            let told = stream::unfold(call, async |mut call| {
                let told = match call.received.recv().await? {
                    ServerMessage::Observed(Ok(told)) => Ok(*told),
                    ServerMessage::Observed(Err(status)) => Err(stream_error(&status)),
                    ServerMessage::Close => return None,
                    other => Err(unexpected(&other)),
                };
                Some((told, call))
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

/// Tells a refusal from a member that cannot serve, as the library's own client does.
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
    panic!("a member's service sent an unexpected message: {down:?}")
}
