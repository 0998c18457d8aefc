//! What travels between programs and members.
//!
//! A call is a connection: what is said on it arrives in order and once, or not at all. One that is cut
//! says nothing; what was sent meanwhile arrives when the way is free again. When a process ends, its
//! kernel hangs up for it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenure_api::wire::tenure::v1 as pb;
use tenure_replica::{Moment, command::Command};
use tokio::sync::mpsc;
use tonic::Status;

use super::story::{self, Way};
use crate::cluster::{World, member::Number};

pub type ProgramId = usize;
pub type CallId = u64;

/// What a program calls a member for.
#[derive(Debug)]
pub enum Ask {
    Session(pb::OpenSession),
    End(pb::EndSessionRequest),
    Candidates(pb::CandidatesRequest),
    Observe(pb::ObserveRequest),
    /// Something that the program does under its token.
    Write(Box<Command>),
}

/// From a program to a member.
#[derive(Debug)]
pub enum Up {
    Ask(Ask),
    Says(Box<pb::SessionRequest>),
    /// Nothing more is said or heard. `gone`: by the program's kernel, for all its connection.
    HangUp {
        gone: bool,
    },
}

/// From a member to a program.
#[derive(Debug)]
pub enum Down {
    Accepted,
    Session(Result<Box<pb::SessionResponse>, Status>),
    Observed(Result<Box<pb::ObserveResponse>, Status>),
    Ended(Result<(), Status>),
    Candidates(Result<pb::CandidatesResponse, Status>),
    /// Whether a guarded write was taken.
    Wrote(Result<bool, Status>),
    /// It cannot be served here.
    Failed(Status),
    HangUp,
}

/// What has been put in, and not yet been taken to the network.
#[derive(Debug)]
pub enum Parcel {
    Dial { call: CallId, program: ProgramId, member: Number, ask: Ask },
    Up(CallId, Up),
    Down(CallId, Down),
}

/// Where programs and doors put what they send. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Post(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    last_call: CallId,
    out: VecDeque<Parcel>,
    /// Who hears what comes down a call.
    ears: BTreeMap<CallId, mpsc::UnboundedSender<Down>>,
}

impl Post {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a member; what comes of it is heard at the other end.
    pub fn dial(
        &self,
        program: ProgramId,
        member: Number,
        ask: Ask,
    ) -> (CallId, mpsc::UnboundedReceiver<Down>) {
        let (tell, heard) = mpsc::unbounded_channel();
        let mut inside = self.inside();
        inside.last_call += 1;
        let call = inside.last_call;
        inside.ears.insert(call, tell);
        inside.out.push_back(Parcel::Dial { call, program, member, ask });
        (call, heard)
    }

    pub fn up(&self, call: CallId, what: Up) {
        self.inside().out.push_back(Parcel::Up(call, what));
    }

    pub fn down(&self, call: CallId, what: Down) {
        self.inside().out.push_back(Parcel::Down(call, what));
    }

    /// The program has hung up.
    pub fn deafen(&self, call: CallId) {
        let deaf = self.inside().ears.remove(&call);
        drop(deaf);
    }

    pub fn take(&self) -> Option<Parcel> {
        self.inside().out.pop_front()
    }

    /// Something has come down to the program.
    pub fn hear(&self, call: CallId, what: Down) {
        let ends = matches!(what, Down::HangUp);
        let ear = self.inside().ears.get(&call).cloned();
        if let Some(ear) = ear {
            let _ = ear.send(what);
        }
        if ends {
            self.deafen(call);
        }
    }
}

/// A call that stands, or is being made, with all that is under way on it.
#[derive(Debug)]
pub struct Call {
    id: CallId,
    pub program: ProgramId,
    pub member: Number,
    pub up: Lane<Up>,
    pub down: Lane<Down>,
}

impl Call {
    pub fn new(id: CallId, program: ProgramId, member: Number) -> Call {
        Call { id, program, member, up: Lane::default(), down: Lane::default() }
    }

    /// The program says something, which gets there then at the earliest.
    pub fn say_up(&mut self, arrives: Moment, what: Up, world: &mut World) {
        let number = world.next_message();
        let said = world.trace.is_read().then(|| story::up(&what));
        let arrives = self.up.send(number, arrives, what);
        story::tell_sent(said, self.upward(number), arrives, world);
    }

    /// The member does.
    pub fn say_down(&mut self, arrives: Moment, what: Down, world: &mut World) {
        let number = world.next_message();
        let said = world.trace.is_read().then(|| story::down(&what));
        let arrives = self.down.send(number, arrives, what);
        story::tell_sent(said, self.downward(number), arrives, world);
    }

    pub fn upward(&self, number: u64) -> Way {
        Way { call: self.id, program: self.program, member: self.member, up: true, number }
    }

    pub fn downward(&self, number: u64) -> Way {
        Way { up: false, ..self.upward(number) }
    }

    /// When the next thing arrives on it.
    pub fn due(&self) -> Option<Moment> {
        [self.up.due(), self.down.due()].into_iter().flatten().min()
    }
}

/// One direction of a call.
#[derive(Debug)]
pub struct Lane<T>(VecDeque<Sent<T>>);

/// Something under way: the message's number, and when it arrives.
#[derive(Debug)]
pub struct Sent<T> {
    pub number: u64,
    pub arrives: Moment,
    pub what: T,
}

impl<T> Default for Lane<T> {
    fn default() -> Lane<T> {
        Lane(VecDeque::new())
    }
}

impl<T> Lane<T> {
    /// Puts it behind what was sent before. Answers when it arrives.
    pub fn send(&mut self, number: u64, arrives: Moment, what: T) -> Moment {
        let arrives = self.0.back().map_or(arrives, |last| arrives.max(last.arrives));
        self.0.push_back(Sent { number, arrives, what });
        arrives
    }

    pub fn due(&self) -> Option<Moment> {
        self.0.front().map(|first| first.arrives)
    }

    pub fn take(&mut self, now: Moment) -> Option<Sent<T>> {
        self.due().filter(|due| *due <= now)?;
        self.0.pop_front()
    }

    /// The way is not free; it is tried again then.
    pub fn put_off(&mut self, until: Moment) {
        for sent in &mut self.0 {
            sent.arrives = sent.arrives.max(until);
        }
    }
}
