//! What a textbook algorithm implements: one actor for each process, and the messages between them.

use std::{fmt::Display, time::Duration};

use serde_json::Value;
use tenure_replica::Moment;

use super::{ProcessId, ProcessView};
use crate::engine::Dice;

/// A message between processes of one algorithm.
pub trait ProtocolMessage: Clone + Display + 'static {
    /// Its kind in one word, for traces and counts.
    fn kind(&self) -> &'static str;

    /// Whether it is sent all the time, election or not, as heartbeats and renewals are. Counted separately.
    fn is_routine(&self) -> bool {
        false
    }
}

/// One process of an algorithm. Its fields are its memory and its disk: [`Actor::start`] must reset what
/// was only in memory.
pub trait Actor<M: ProtocolMessage> {
    /// The process starts, for the first time or again.
    fn start(&mut self, context: &mut Context<'_, M>);

    /// A message arrives.
    fn receive(&mut self, from: ProcessId, message: M, context: &mut Context<'_, M>);

    /// An alarm that this process set is due.
    fn ring(&mut self, _alarm: &'static str, _scene: &mut Context<'_, M>) {}

    /// This process believes to lead, and its next write is due. An algorithm that checks before it acts
    /// checks here.
    fn may_write(&mut self, _scene: &mut Context<'_, M>) -> bool {
        true
    }

    /// The storage took a write of this process, or refused it.
    fn written(&mut self, _taken: bool, _scene: &mut Context<'_, M>) {}

    /// A connection to another process was opened, on a stage with connections.
    fn opened(&mut self, _to: ProcessId, _scene: &mut Context<'_, M>) {}

    /// The other process has ended, and its kernel has closed the connection.
    fn closed(&mut self, _by: ProcessId, _scene: &mut Context<'_, M>) {}

    /// The alarm at which a leader stops by itself, if it sets one. Until then it believes to lead.
    fn stops_at(&self) -> Option<&'static str> {
        None
    }

    /// The elections and leases that this process keeps, if it keeps any: as text, and as JSON for traces.
    fn elections(&self) -> Option<(String, Value)> {
        None
    }

    /// The state of this process, as traces show it.
    fn view(&self) -> ProcessView;
}

/// What an actor asks the stage to do.
#[derive(Debug)]
pub(super) enum Effect<M> {
    Send(ProcessId, M),
    Alarm(&'static str, Duration),
    Cancel(&'static str),
    Lead(Option<u64>),
    StepDown,
    Detect,
    Say(String),
    Restart(ProcessId),
    Take { writer: ProcessId, tenure: u64 },
    Refuse,
    Kept(&'static str),
    Broke(&'static str, String),
}

/// What an actor can read and do while it handles an event.
#[derive(Debug)]
pub struct Context<'a, M> {
    pub me: ProcessId,
    pub(super) now: Moment,
    pub(super) wall: Duration,
    pub(super) names: &'a [String],
    pub(super) contenders: usize,
    pub(super) tenure: u64,
    pub(super) dice: &'a mut Dice,
    pub(super) effects: Vec<Effect<M>>,
}

impl<M: ProtocolMessage> Context<'_, M> {
    /// This process's monotonic clock. It goes on during a pause, and runs fast or slow.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// This process's wall clock, as time since an epoch that all processes share. It may be wrong and may jump.
    pub fn wall(&self) -> Duration {
        self.wall
    }

    pub fn dice(&mut self) -> &mut Dice {
        self.dice
    }

    /// The processes that may lead. They have the lowest numbers.
    pub fn contenders(&self) -> impl Iterator<Item = ProcessId> + use<M> {
        0..self.contenders as ProcessId
    }

    /// All contenders but this process.
    pub fn others(&self) -> impl Iterator<Item = ProcessId> + use<M> {
        let me = self.me;
        self.contenders().filter(move |other| *other != me)
    }

    /// More than half of the contenders.
    pub fn majority(&self) -> usize {
        self.contenders / 2 + 1
    }

    pub fn name(&self, of: ProcessId) -> &str {
        &self.names[of as usize]
    }

    /// The number of a process by its name.
    pub fn named(&self, name: &str) -> ProcessId {
        let found = self.names.iter().position(|known| known == name);
        found.expect("algorithms name processes of their own stage") as ProcessId
    }

    pub fn send(&mut self, to: ProcessId, message: M) {
        self.effects.push(Effect::Send(to, message));
    }

    /// Sends to all other contenders.
    pub fn broadcast(&mut self, message: &M) {
        self.others().for_each(|to| self.effects.push(Effect::Send(to, message.clone())));
    }

    /// Sets the alarm of this name, in place of an earlier one.
    pub fn alarm(&mut self, name: &'static str, after: Duration) {
        self.effects.push(Effect::Alarm(name, after));
    }

    pub fn cancel(&mut self, name: &'static str) {
        self.effects.push(Effect::Cancel(name));
    }

    /// This process believes from now on that it leads.
    pub fn lead(&mut self, token: Option<u64>) {
        self.effects.push(Effect::Lead(token));
    }

    /// This process does not believe to lead any more.
    pub fn step_down(&mut self) {
        self.effects.push(Effect::StepDown);
    }

    /// This process has noticed that the leader is gone.
    pub fn detect(&mut self) {
        self.effects.push(Effect::Detect);
    }

    /// Starts another process that has ended.
    pub fn restart(&mut self, who: ProcessId) {
        self.effects.push(Effect::Restart(who));
    }

    /// Writes a line of text to the trace.
    pub fn say(&mut self, text: impl Into<String>) {
        self.effects.push(Effect::Say(text.into()));
    }

    /// The tenure in which this process leads, for algorithms with a storage of their own.
    pub fn tenure(&self) -> u64 {
        self.tenure
    }

    /// This process is a storage and takes a write of that process's tenure.
    pub fn take(&mut self, writer: ProcessId, tenure: u64) {
        self.effects.push(Effect::Take { writer, tenure });
    }

    /// This process is a storage and refuses a write.
    pub fn refuse(&mut self) {
        self.effects.push(Effect::Refuse);
    }

    /// A promise of the algorithm's own ([`Promise::Own`](super::Promise::Own)) was checked and holds.
    pub fn kept(&mut self, promise: &'static str) {
        self.effects.push(Effect::Kept(promise));
    }

    /// A promise of the algorithm's own is broken.
    pub fn broke(&mut self, promise: &'static str, how: impl Into<String>) {
        self.effects.push(Effect::Broke(promise, how.into()));
    }
}
