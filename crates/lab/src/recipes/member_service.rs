//! A member's end of the calls: the server's own service for sessions and elections, on an executor in the
//! member's process. Its submissions go to the member's replica, and the replica's answers and events go back.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{StreamExt, stream};
use tenure::host::{Host, Leash};
use tenure_api::{ClusterId, Principal, wire::tenure::v1 as pb};
use tenure_replica::{
    Answer, Operation, Outcome, Reply, RequestId,
    command::ELECTIONS_SINCE,
    election::listeners::{Listener, ListenerEvent, ListenerInput},
};
use tenure_server::{
    Admitted,
    grpc::{Env, InProcessService},
    node::{self, Stamp, Submission},
};
use tokio::sync::{mpsc, oneshot, watch};
use tonic::Status;

use super::network::{CallId, ClientMessage, ProgramNetwork, RpcRequest, ServerMessage};
use crate::{
    cluster::{
        World,
        member::{MemberNumber, id},
    },
    engine::Executor,
};

/// The service of one member, for one life of its process.
pub struct MemberService {
    pub life: u64,
    pub executor: Executor,
    number: MemberNumber,
    network: ProgramNetwork,
    service: InProcessService,
    handle: node::NodeHandle,
    submissions: mpsc::UnboundedReceiver<Submission>,
    status: watch::Sender<Arc<tenure_replica::Status>>,
    answers: BTreeMap<RequestId, oneshot::Sender<Answer>>,
    /// The service's number of a listener, and the simulation's.
    listeners: BTreeMap<Listener, Listener>,
    subscriptions: BTreeMap<Listener, mpsc::Sender<(ListenerEvent, Stamp)>>,
    calls: BTreeMap<CallId, OpenCall>,
}

/// The member's end of one call.
struct OpenCall {
    /// For a session's stream: the program's requests.
    requests: Option<mpsc::UnboundedSender<Result<pb::SessionRequest, Status>>>,
    gone: Arc<AtomicBool>,
    work: Leash,
}

impl MemberService {
    /// The service of a member; none if its process does not run.
    pub fn new(
        number: MemberNumber,
        life: u64,
        seed: u64,
        network: ProgramNetwork,
        world: &World,
    ) -> Option<MemberService> {
        let process = world.members[&number].process.as_ref()?;
        let (status, seen) = watch::channel(Arc::new(process.replica.status()));
        let (handle, submissions) = node::NodeHandle::alone(id(number), ClusterId(1), seen);
        let executor = Executor::new(seed);
        let (numbers, pauses) = (executor.clone(), executor.clone());
        let env = Env::new(
            move || numbers.seed(),
            move |time| {
                let executor = pauses.clone();
                Box::pin(async move { executor.pause(time).await })
            },
        );
        Some(MemberService {
            life,
            executor,
            number,
            network,
            service: InProcessService::new(handle.clone(), env),
            handle,
            submissions,
            status,
            answers: BTreeMap::new(),
            listeners: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            calls: BTreeMap::new(),
        })
    }

    /// A message of a program has arrived.
    pub fn receive(&mut self, call: CallId, what: ClientMessage) {
        match what {
            ClientMessage::Request(ask) => self.accept(call, ask),
            ClientMessage::SessionRequest(request) => {
                if let Some(requests) = self.calls.get(&call).and_then(|end| end.requests.as_ref())
                {
                    let _ = requests.send(Ok(*request));
                }
            }
            ClientMessage::Close { gone } => {
                let Some(end) = self.calls.remove(&call) else { return };
                end.gone.store(gone, Ordering::Release);
                end.work.abort();
            }
        }
    }

    fn accept(&mut self, call: CallId, ask: RpcRequest) {
        let gone = Arc::new(AtomicBool::new(false));
        let (network, service) = (self.network.clone(), self.service.clone());
        if self.status.borrow().cluster_version < ELECTIONS_SINCE {
            network.send_to_program(
                call,
                ServerMessage::Failed(Status::unavailable(
                    "not every member supports elections yet",
                )),
            );
            network.send_to_program(call, ServerMessage::Close);
            return;
        }
        let mut sender = None;
        let work = match ask {
            RpcRequest::Session(open) => {
                let (requests, asked) = mpsc::unbounded_channel();
                let request = Some(pb::session_request::Request::Open(open));
                let _ = requests.send(Ok(pb::SessionRequest { request_id: 0, request }));
                sender = Some(requests);
                let asked = stream::unfold(asked, async |mut asked| {
                    asked.recv().await.map(|request| (request, asked))
                });
                let (serve, mut responses) = service.session(Arc::clone(&gone), asked.boxed());
                self.executor.spawn(serve);
                self.executor.spawn(Box::pin(async move {
                    network.send_to_program(call, ServerMessage::Accepted);
                    while let Some(said) = responses.recv().await {
                        network.send_to_program(call, ServerMessage::Session(said.map(Box::new)));
                    }
                    network.send_to_program(call, ServerMessage::Close);
                }))
            }
            RpcRequest::Observe(request) => self.executor.spawn(Box::pin(async move {
                match service.observe(request).await {
                    Ok(mut told) => {
                        network.send_to_program(call, ServerMessage::Accepted);
                        while let Some(seen) = told.next().await {
                            network
                                .send_to_program(call, ServerMessage::Observed(seen.map(Box::new)));
                        }
                    }
                    Err(status) => network.send_to_program(call, ServerMessage::Failed(status)),
                }
                network.send_to_program(call, ServerMessage::Close);
            })),
            RpcRequest::End(request) => self.executor.spawn(Box::pin(async move {
                network.send_to_program(call, ServerMessage::Ended(service.end(request).await));
                network.send_to_program(call, ServerMessage::Close);
            })),
            RpcRequest::Candidates(request) => self.executor.spawn(Box::pin(async move {
                network.send_to_program(
                    call,
                    ServerMessage::Candidates(service.candidates(request).await),
                );
                network.send_to_program(call, ServerMessage::Close);
            })),
            RpcRequest::Write(command) => {
                let by = Admitted::in_process(Principal::Anonymous);
                let asked = self.handle.begin(&by, Operation::Write(*command));
                self.executor.spawn(Box::pin(async move {
                    network.send_to_program(call, ServerMessage::Wrote(wrote(asked.await)));
                    network.send_to_program(call, ServerMessage::Close);
                }))
            }
        };
        self.calls.insert(call, OpenCall { requests: sender, gone, work });
    }

    /// Runs the service's tasks.
    pub fn run(&mut self, world: &World) {
        let process = world.members[&self.number].process.as_ref();
        let Some(process) = process else { return };
        self.status.send_replace(Arc::new(process.replica.status()));
        self.executor.run();
    }

    /// Hands the service's submissions to the member. True if there were any.
    pub fn submit(&mut self, me: usize, world: &mut World) -> bool {
        let mut any = false;
        while let Ok(submission) = self.submissions.try_recv() {
            any = true;
            match submission {
                Submission::Request(request, reply) => {
                    if let Some(id) = world.send_request_by(me, self.number, request.by, request.op)
                    {
                        self.answers.insert(id, reply);
                    }
                }
                Submission::Listen(by, input, subscription) => {
                    let Some(id) = world.open_stream(me, self.number) else { continue };
                    self.listeners.insert(input.listener(), id);
                    self.subscriptions.insert(id, subscription);
                    world.listen_by(self.number, by, numbered(input, id));
                }
                Submission::Unsubscribe(listener) => {
                    let Some(id) = self.listeners.remove(&listener) else { continue };
                    self.subscriptions.remove(&id);
                    world.streams.remove(&id);
                    world.listen(self.number, ListenerInput::Close(id));
                }
                Submission::Watch(_) | Submission::Open(..) | Submission::HandOver => {
                    unreachable!("sessions and elections submit none of these")
                }
            }
        }
        any
    }

    /// The member has answered a request. False if it was not submitted here.
    pub fn answered(&mut self, answer: &Answer) -> bool {
        let Some(reply) = self.answers.remove(&answer.to) else { return false };
        let Answer { to, ref result, revision, term } = *answer;
        let _ = reply.send(Answer { to, result: result.clone(), revision, term });
        true
    }

    /// The member has an event for a listener. False if it is not a listener of this service.
    pub fn deliver_event(
        &mut self,
        listener: Listener,
        news: &ListenerEvent,
        world: &World,
    ) -> bool {
        let Some(subscription) = self.subscriptions.get(&listener) else { return false };
        let process = world.members[&self.number].process.as_ref();
        let status = process.expect("a member that has events runs").replica.status();
        let stamp = Stamp { revision: status.revision, term: status.term };
        if subscription.try_send((news.clone(), stamp)).is_err() {
            self.subscriptions.remove(&listener);
        }
        true
    }
}

fn numbered(input: ListenerInput, listener: Listener) -> ListenerInput {
    match input {
        ListenerInput::Await { name, key, created, .. } => {
            ListenerInput::Await { listener, name, key, created }
        }
        ListenerInput::Observe { name, after, .. } => {
            ListenerInput::Observe { listener, name, after }
        }
        ListenerInput::Attach { session, by, .. } => {
            ListenerInput::Attach { listener, session, by }
        }
        ListenerInput::Close(_) => ListenerInput::Close(listener),
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
