//! Calls and messages between programs and members.
//!
//! Messages of a call arrive in order and once, or not at all. Neither end is told when a call is cut; messages
//! that were sent meanwhile arrive when it is mended. When a process ends, its kernel closes its calls.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenure_api::wire::tenure::v1 as pb;
use tenure_replica::{Moment, command::Command};
use tokio::sync::mpsc;
use tonic::Status;

use super::trace_events::{self, Route};
use crate::cluster::{World, member::MemberNumber};

pub type ProgramId = usize;
pub type CallId = u64;

/// The request that opens a call.
#[derive(Debug)]
pub enum RpcRequest {
    Session(pb::OpenSession),
    End(pb::EndSessionRequest),
    Candidates(pb::CandidatesRequest),
    Observe(pb::ObserveRequest),
    /// A write that is guarded by the program's token.
    Write(Box<Command>),
}

/// A message from a program to a member.
#[derive(Debug)]
pub enum ClientMessage {
    Request(RpcRequest),
    SessionRequest(Box<pb::SessionRequest>),
    /// The program's end is closed. `gone`: by its kernel, because the connection broke or the process ended.
    Close {
        gone: bool,
    },
}

/// A message from a member to a program.
#[derive(Debug)]
pub enum ServerMessage {
    Accepted,
    Session(Result<Box<pb::SessionResponse>, Status>),
    Observed(Result<Box<pb::ObserveResponse>, Status>),
    Ended(Result<(), Status>),
    Candidates(Result<pb::CandidatesResponse, Status>),
    /// Whether a guarded write was taken.
    Wrote(Result<bool, Status>),
    /// This member cannot serve the call.
    Failed(Status),
    Close,
}

/// A message that was sent and is not on its way yet.
#[derive(Debug)]
pub enum QueuedMessage {
    Open { call: CallId, program: ProgramId, member: MemberNumber, request: RpcRequest },
    ToMember(CallId, ClientMessage),
    ToProgram(CallId, ServerMessage),
}

/// Takes the messages of programs and services. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ProgramNetwork(Arc<Mutex<NetworkState>>);

#[derive(Debug, Default)]
struct NetworkState {
    last_call: CallId,
    out: VecDeque<QueuedMessage>,
    /// The program's receiver of each call.
    receivers: BTreeMap<CallId, mpsc::UnboundedSender<ServerMessage>>,
}

impl ProgramNetwork {
    fn state(&self) -> MutexGuard<'_, NetworkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a call to a member. The receiver gets the member's messages.
    pub fn open_call(
        &self,
        program: ProgramId,
        member: MemberNumber,
        request: RpcRequest,
    ) -> (CallId, mpsc::UnboundedReceiver<ServerMessage>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        state.last_call += 1;
        let call = state.last_call;
        state.receivers.insert(call, sender);
        state.out.push_back(QueuedMessage::Open { call, program, member, request });
        (call, receiver)
    }

    pub fn send_to_member(&self, call: CallId, what: ClientMessage) {
        self.state().out.push_back(QueuedMessage::ToMember(call, what));
    }

    pub fn send_to_program(&self, call: CallId, what: ServerMessage) {
        self.state().out.push_back(QueuedMessage::ToProgram(call, what));
    }

    /// The program has closed its end.
    pub fn close_receiver(&self, call: CallId) {
        let closed = self.state().receivers.remove(&call);
        drop(closed);
    }

    pub fn take(&self) -> Option<QueuedMessage> {
        self.state().out.pop_front()
    }

    /// A message has arrived at the program.
    pub fn deliver(&self, call: CallId, what: ServerMessage) {
        let ends = matches!(what, ServerMessage::Close);
        let receiver = self.state().receivers.get(&call).cloned();
        if let Some(receiver) = receiver {
            let _ = receiver.send(what);
        }
        if ends {
            self.close_receiver(call);
        }
    }
}

/// An open call, with its messages under way.
#[derive(Debug)]
pub struct RpcCall {
    id: CallId,
    pub program: ProgramId,
    pub member: MemberNumber,
    pub up: MessageQueue<ClientMessage>,
    pub down: MessageQueue<ServerMessage>,
}

impl RpcCall {
    pub fn new(id: CallId, program: ProgramId, member: MemberNumber) -> RpcCall {
        RpcCall { id, program, member, up: MessageQueue::default(), down: MessageQueue::default() }
    }

    /// The program sends a message, which arrives at that moment at the earliest.
    pub fn send_up(&mut self, arrives: Moment, what: ClientMessage, world: &mut World) {
        let number = world.next_message();
        let said = world.trace.is_read().then(|| trace_events::up(&what));
        let arrives = self.up.send(number, arrives, what);
        trace_events::trace_sent(said, self.upward(number), arrives, world);
    }

    /// The member sends a message, which arrives at that moment at the earliest.
    pub fn send_down(&mut self, arrives: Moment, what: ServerMessage, world: &mut World) {
        let number = world.next_message();
        let said = world.trace.is_read().then(|| trace_events::down(&what));
        let arrives = self.down.send(number, arrives, what);
        trace_events::trace_sent(said, self.downward(number), arrives, world);
    }

    pub fn upward(&self, number: u64) -> Route {
        Route { call: self.id, program: self.program, member: self.member, up: true, number }
    }

    pub fn downward(&self, number: u64) -> Route {
        Route { up: false, ..self.upward(number) }
    }

    /// When its next message arrives.
    pub fn due(&self) -> Option<Moment> {
        [self.up.due(), self.down.due()].into_iter().flatten().min()
    }
}

/// The messages under way in one direction of a call.
#[derive(Debug)]
pub struct MessageQueue<T>(VecDeque<InFlight<T>>);

/// A message under way: its number, and when it arrives.
#[derive(Debug)]
pub struct InFlight<T> {
    pub number: u64,
    pub arrives: Moment,
    pub what: T,
}

impl<T> Default for MessageQueue<T> {
    fn default() -> MessageQueue<T> {
        MessageQueue(VecDeque::new())
    }
}

impl<T> MessageQueue<T> {
    /// Queues a message behind those before. Returns when it arrives.
    pub fn send(&mut self, number: u64, arrives: Moment, what: T) -> Moment {
        let arrives = self.0.back().map_or(arrives, |last| arrives.max(last.arrives));
        self.0.push_back(InFlight { number, arrives, what });
        arrives
    }

    pub fn due(&self) -> Option<Moment> {
        self.0.front().map(|first| first.arrives)
    }

    pub fn take(&mut self, now: Moment) -> Option<InFlight<T>> {
        self.due().filter(|due| *due <= now)?;
        self.0.pop_front()
    }

    /// The call is cut; its messages arrive at that moment at the earliest.
    pub fn delay_until(&mut self, until: Moment) {
        for sent in &mut self.0 {
            sent.arrives = sent.arrives.max(until);
        }
    }
}
