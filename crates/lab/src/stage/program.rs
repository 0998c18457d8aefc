//! One process's part in an algorithm.

use std::{fmt::Display, time::Duration};

use serde_json::Value;
use tenure_replica::Moment;

use super::{NodeId, View};
use crate::engine::Dice;

/// What processes of one algorithm say to each other.
pub trait Word: Clone + Display + 'static {
    /// In one word, for drawings and counts.
    fn kind(&self) -> &'static str;

    /// Said all the time, election or not: heartbeats, renewals. Counted apart.
    fn is_routine(&self) -> bool {
        false
    }
}

/// One process. Its fields are its memory and its disk: [`Program::start`] must forget what was only
/// in memory.
pub trait Program<M: Word> {
    /// It starts, for the first time or again.
    fn start(&mut self, scene: &mut Scene<'_, M>);

    /// A message came.
    fn receive(&mut self, from: NodeId, word: M, scene: &mut Scene<'_, M>);

    /// An alarm that it set rings.
    fn ring(&mut self, _alarm: &'static str, _scene: &mut Scene<'_, M>) {}

    /// It leads, as far as it knows, and the time has come to write. Whoever checks before acting, checks
    /// here.
    fn may_write(&mut self, _scene: &mut Scene<'_, M>) -> bool {
        true
    }

    /// A write was taken or refused.
    fn written(&mut self, _taken: bool, _scene: &mut Scene<'_, M>) {}

    /// A connection to another process stands, on a stage with connections.
    fn opened(&mut self, _to: NodeId, _scene: &mut Scene<'_, M>) {}

    /// The other process has ended, and its kernel has closed the connection.
    fn closed(&mut self, _by: NodeId, _scene: &mut Scene<'_, M>) {}

    /// The alarm at which it stops to lead by itself, if it sets one: until then it believes.
    fn stops_at(&self) -> Option<&'static str> {
        None
    }

    /// The lines and leases that it keeps, if it does: in plain words, and as they are drawn.
    fn lines(&self) -> Option<(String, Value)> {
        None
    }

    /// What it looks like.
    fn view(&self) -> View;
}

/// What a process wants done.
#[derive(Debug)]
pub(super) enum Wish<M> {
    Send(NodeId, M),
    Alarm(&'static str, Duration),
    Cancel(&'static str),
    Lead(Option<u64>),
    StepDown,
    Detect,
    Say(String),
    Restart(NodeId),
    Take { writer: NodeId, tenure: u64 },
    Refuse,
    Kept(&'static str),
    Broke(&'static str, String),
}

/// What a process sees and can do while it acts.
#[derive(Debug)]
pub struct Scene<'a, M> {
    pub me: NodeId,
    pub(super) now: Moment,
    pub(super) wall: Duration,
    pub(super) names: &'a [String],
    pub(super) contenders: usize,
    pub(super) tenure: u64,
    pub(super) dice: &'a mut Dice,
    pub(super) wishes: Vec<Wish<M>>,
}

impl<M: Word> Scene<'_, M> {
    /// What its monotonic clock says. It does not stand still in a pause, and runs fast or slow.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// What its wall clock says: time since a day that all agree on. May be wrong, may jump.
    pub fn wall(&self) -> Duration {
        self.wall
    }

    pub fn dice(&mut self) -> &mut Dice {
        self.dice
    }

    /// Those who may lead: they have the lowest numbers.
    pub fn contenders(&self) -> impl Iterator<Item = NodeId> + use<M> {
        0..self.contenders as NodeId
    }

    /// The contenders but itself.
    pub fn others(&self) -> impl Iterator<Item = NodeId> + use<M> {
        let me = self.me;
        self.contenders().filter(move |other| *other != me)
    }

    /// More than half of the contenders.
    pub fn majority(&self) -> usize {
        self.contenders / 2 + 1
    }

    pub fn name(&self, of: NodeId) -> &str {
        &self.names[of as usize]
    }

    /// The number of a process by its name.
    pub fn named(&self, name: &str) -> NodeId {
        let found = self.names.iter().position(|known| known == name);
        found.expect("algorithms name processes of their own stage") as NodeId
    }

    pub fn send(&mut self, to: NodeId, word: M) {
        self.wishes.push(Wish::Send(to, word));
    }

    /// Sends to all other contenders.
    pub fn broadcast(&mut self, word: &M) {
        self.others().for_each(|to| self.wishes.push(Wish::Send(to, word.clone())));
    }

    /// Sets the alarm of this name, in place of an earlier one.
    pub fn alarm(&mut self, name: &'static str, after: Duration) {
        self.wishes.push(Wish::Alarm(name, after));
    }

    pub fn cancel(&mut self, name: &'static str) {
        self.wishes.push(Wish::Cancel(name));
    }

    /// It believes from now on that it leads.
    pub fn lead(&mut self, token: Option<u64>) {
        self.wishes.push(Wish::Lead(token));
    }

    /// It does not believe so any more.
    pub fn step_down(&mut self) {
        self.wishes.push(Wish::StepDown);
    }

    /// It has noticed that the leader is gone.
    pub fn detect(&mut self) {
        self.wishes.push(Wish::Detect);
    }

    /// It starts another process that has ended.
    pub fn restart(&mut self, who: NodeId) {
        self.wishes.push(Wish::Restart(who));
    }

    /// For people who follow the story.
    pub fn say(&mut self, text: impl Into<String>) {
        self.wishes.push(Wish::Say(text.into()));
    }

    /// The tenure in which it leads, to be passed on to a storage of the algorithm's own.
    pub fn tenure(&self) -> u64 {
        self.tenure
    }

    /// It is a storage and takes a write of that process's tenure.
    pub fn take(&mut self, writer: NodeId, tenure: u64) {
        self.wishes.push(Wish::Take { writer, tenure });
    }

    /// It is a storage and refuses a write.
    pub fn refuse(&mut self) {
        self.wishes.push(Wish::Refuse);
    }

    /// A promise of the algorithm's own ([`Promise::Own`](super::Promise::Own)) was looked at and kept.
    pub fn kept(&mut self, promise: &'static str) {
        self.wishes.push(Wish::Kept(promise));
    }

    /// A promise of the algorithm's own was broken.
    pub fn broke(&mut self, promise: &'static str, how: impl Into<String>) {
        self.wishes.push(Wish::Broke(promise, how.into()));
    }
}
