//! A member's end of the calls: the server's own service for sessions and lines, on an executor of the
//! member's process. What the service hands in goes to the member's replica, and what that says goes back.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{StreamExt, stream};
use tenure::host::{Host, Leash};
use tenure_api::{ClusterId, wire::tenure::v1 as pb};
use tenure_replica::{
    Answer, Outcome, Reply, Request, RequestId,
    command::LINES_SINCE,
    queue::listeners::{LineInput, LineNews, Listener},
};
use tenure_server::{
    grpc::{Bare, Means},
    node::{self, Stamp, Submission},
};
use tokio::sync::{mpsc, oneshot, watch};
use tonic::Status;

use super::post::{Ask, CallId, Down, Post, Up};
use crate::{
    cluster::{
        World,
        member::{Number, id},
    },
    engine::Executor,
};

/// The door of one life of one member.
pub struct Door {
    pub life: u64,
    pub executor: Executor,
    number: Number,
    post: Post,
    bare: Bare,
    door: node::Door,
    handed_in: mpsc::UnboundedReceiver<Submission>,
    status: watch::Sender<Arc<tenure_replica::Status>>,
    answers: BTreeMap<RequestId, oneshot::Sender<Answer>>,
    /// The service's number of a listener, and the world's.
    ears: BTreeMap<Listener, Listener>,
    outlets: BTreeMap<Listener, mpsc::Sender<(LineNews, Stamp)>>,
    ends: BTreeMap<CallId, End>,
}

/// This end of one call.
struct End {
    /// Of a session's stream: what the program says.
    requests: Option<mpsc::UnboundedSender<Result<pb::SessionRequest, Status>>>,
    gone: Arc<AtomicBool>,
    work: Leash,
}

impl Door {
    /// The door of a member whose process runs.
    pub fn new(number: Number, life: u64, seed: u64, post: Post, world: &World) -> Option<Door> {
        let process = world.members[&number].process.as_ref()?;
        let (status, seen) = watch::channel(Arc::new(process.replica.status()));
        let (door, handed_in) = node::Door::alone(id(number), ClusterId(1), seen);
        let executor = Executor::new(seed);
        let (numbers, pauses) = (executor.clone(), executor.clone());
        let means = Means::new(
            move || numbers.seed(),
            move |time| {
                let executor = pauses.clone();
                Box::pin(async move { executor.pause(time).await })
            },
        );
        Some(Door {
            life,
            executor,
            number,
            post,
            bare: Bare::new(door.clone(), means),
            door,
            handed_in,
            status,
            answers: BTreeMap::new(),
            ears: BTreeMap::new(),
            outlets: BTreeMap::new(),
            ends: BTreeMap::new(),
        })
    }

    /// Something has come up a call.
    pub fn take(&mut self, call: CallId, what: Up) {
        match what {
            Up::Ask(ask) => self.accept(call, ask),
            Up::Says(request) => {
                if let Some(requests) = self.ends.get(&call).and_then(|end| end.requests.as_ref()) {
                    let _ = requests.send(Ok(*request));
                }
            }
            Up::HangUp { gone } => {
                let Some(end) = self.ends.remove(&call) else { return };
                end.gone.store(gone, Ordering::Release);
                end.work.abort();
            }
        }
    }

    fn accept(&mut self, call: CallId, ask: Ask) {
        let gone = Arc::new(AtomicBool::new(false));
        let (post, bare) = (self.post.clone(), self.bare.clone());
        if self.status.borrow().cluster_version < LINES_SINCE {
            post.down(call, Down::Failed(Status::unavailable("not every member can do this yet")));
            post.down(call, Down::HangUp);
            return;
        }
        let mut says = None;
        let work = match ask {
            Ask::Session(open) => {
                let (requests, asked) = mpsc::unbounded_channel();
                let does = Some(pb::session_request::Does::Open(open));
                let _ = requests.send(Ok(pb::SessionRequest { request: 0, does }));
                says = Some(requests);
                let asked = stream::unfold(asked, async |mut asked| {
                    asked.recv().await.map(|request| (request, asked))
                });
                let (serve, mut responses) = bare.session(Arc::clone(&gone), asked.boxed());
                self.executor.spawn(serve);
                self.executor.spawn(Box::pin(async move {
                    post.down(call, Down::Accepted);
                    while let Some(said) = responses.recv().await {
                        post.down(call, Down::Session(said.map(Box::new)));
                    }
                    post.down(call, Down::HangUp);
                }))
            }
            Ask::Observe(request) => self.executor.spawn(Box::pin(async move {
                match bare.observe(request).await {
                    Ok(mut told) => {
                        post.down(call, Down::Accepted);
                        while let Some(seen) = told.next().await {
                            post.down(call, Down::Observed(seen.map(Box::new)));
                        }
                    }
                    Err(status) => post.down(call, Down::Failed(status)),
                }
                post.down(call, Down::HangUp);
            })),
            Ask::End(request) => self.executor.spawn(Box::pin(async move {
                post.down(call, Down::Ended(bare.end(request).await));
                post.down(call, Down::HangUp);
            })),
            Ask::Candidates(request) => self.executor.spawn(Box::pin(async move {
                post.down(call, Down::Candidates(bare.candidates(request).await));
                post.down(call, Down::HangUp);
            })),
            Ask::Write(command) => {
                let asked = self.door.begin(Request::Write(*command));
                self.executor.spawn(Box::pin(async move {
                    post.down(call, Down::Wrote(wrote(asked.await)));
                    post.down(call, Down::HangUp);
                }))
            }
        };
        self.ends.insert(call, End { requests: says, gone, work });
    }

    /// Lets the service run.
    pub fn run(&mut self, world: &World) {
        let process = world.members[&self.number].process.as_ref();
        let Some(process) = process else { return };
        self.status.send_replace(Arc::new(process.replica.status()));
        self.executor.run();
    }

    /// Carries what the service handed in to the member.
    pub fn hand_in(&mut self, me: usize, world: &mut World) -> bool {
        let mut any = false;
        while let Ok(submission) = self.handed_in.try_recv() {
            any = true;
            match submission {
                Submission::Request(request, reply) => {
                    if let Some(id) = world.ask(me, self.number, request) {
                        self.answers.insert(id, reply);
                    }
                }
                Submission::Listen(input, outlet) => {
                    let Some(id) = world.open_stream(me, self.number) else { continue };
                    self.ears.insert(input.listener(), id);
                    self.outlets.insert(id, outlet);
                    world.listen(self.number, numbered(input, id));
                }
                Submission::Deafen(listener) => {
                    let Some(id) = self.ears.remove(&listener) else { continue };
                    self.outlets.remove(&id);
                    world.streams.remove(&id);
                    world.listen(self.number, LineInput::Close(id));
                }
                Submission::Watch(_) | Submission::Open(..) | Submission::HandOver => {
                    unreachable!("sessions and lines hand in none of these")
                }
            }
        }
        any
    }

    /// The member has answered. False if it was not asked here.
    pub fn answered(&mut self, answer: &Answer) -> bool {
        let Some(reply) = self.answers.remove(&answer.to) else { return false };
        let Answer { to, ref result, revision, term } = *answer;
        let _ = reply.send(Answer { to, result: result.clone(), revision, term });
        true
    }

    /// The member has said something to a listener. False if that is not one of ours.
    pub fn told(&mut self, listener: Listener, news: &LineNews, world: &World) -> bool {
        let Some(outlet) = self.outlets.get(&listener) else { return false };
        let process = world.members[&self.number].process.as_ref();
        let status = process.expect("who speaks lives").replica.status();
        let stamp = Stamp { revision: status.revision, term: status.term };
        if outlet.try_send((news.clone(), stamp)).is_err() {
            self.outlets.remove(&listener);
        }
        true
    }
}

fn numbered(input: LineInput, listener: Listener) -> LineInput {
    match input {
        LineInput::Await { name, key, created, .. } => {
            LineInput::Await { listener, name, key, created }
        }
        LineInput::Observe { name, after, .. } => LineInput::Observe { listener, name, after },
        LineInput::Attach { session, by, .. } => LineInput::Attach { listener, session, by },
        LineInput::Close(_) => LineInput::Close(listener),
    }
}

fn wrote(answer: Result<Answer, tenure_api::Failure>) -> Result<bool, Status> {
    let result = answer.and_then(|answer| answer.result);
    match result {
        Ok(Reply::Wrote(Outcome::Txn(done))) => Ok(done.succeeded),
        Ok(other) => panic!("a transaction was answered with {other:?}"),
        Err(failure) => Err(Status::unavailable(failure.to_string())),
    }
}
