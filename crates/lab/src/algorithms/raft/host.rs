//! A member as clusters have it, on a stage: messages, alarms and the clock come from there.
//!
//! The log stays so short here that no snapshot is needed.

use std::time::Duration;

use tenure_replica::{Effects, Input, Message, Moment, Replica, ReplicaConfig};

use crate::{
    cluster::member::{MemberNumber, MembershipState, SimMember, id, listed},
    engine::{RunCounts, SimClock, us},
    stage::{Context, ProcessId, ProtocolMessage},
};

pub(crate) struct StageMember {
    member: SimMember,
    /// The stage's process of member 1. Consecutive processes run the others.
    first: ProcessId,
}

impl StageMember {
    /// A member of a cluster of `members`.
    pub(crate) fn new(
        process: ProcessId,
        first: ProcessId,
        members: usize,
        seed: u64,
    ) -> StageMember {
        let founders = (1..=members as MemberNumber).map(listed).collect();
        let mut config = ReplicaConfig::new(id(process - first + 1), founders);
        config.seed = seed;
        // Nothing damages these disks; the cluster's own scenarios do that.
        config.audit_interval = Duration::ZERO;
        // The stage's clocks are those of its processes.
        let member = SimMember::new(config, SimClock::default(), MembershipState::In);
        StageMember { member, first }
    }

    pub(crate) fn config(&mut self) -> &mut ReplicaConfig {
        &mut self.member.config
    }

    pub(crate) fn replica(&self) -> Option<&Replica> {
        self.member.process.as_ref().map(|process| &process.replica)
    }

    /// The process of a member.
    pub(crate) fn process(&self, of: MemberNumber) -> ProcessId {
        of - 1 + self.first
    }

    /// The input that a message means for the replica.
    pub(crate) fn arrived(&self, from: ProcessId, message: Message, now: Moment) -> Input {
        Input::Message { from: self.id(from), message, arrived: self.local(now) }
    }

    /// The input that a connection to another member means, or its end.
    pub(crate) fn connection(&self, to: ProcessId, is_open: bool) -> Input {
        let told = if is_open { Input::Connected } else { Input::Lost };
        told(self.id(to))
    }

    fn id(&self, process: ProcessId) -> tenure_api::MemberId {
        id(process - self.first + 1)
    }

    /// What the replica takes for that moment.
    fn local(&self, now: Moment) -> Moment {
        let process = self.member.process.as_ref();
        let started = process.expect("nothing reaches a process before its start").started;
        self.member.local(now, started)
    }

    /// The process starts. Unflushed writes are lost, or some of them.
    pub(crate) fn start<M: ProtocolMessage>(&mut self, context: &mut Context<'_, M>) {
        self.member.disk.crash(context.dice(), &mut RunCounts::default());
        self.member.start(context.now()).expect("this disk has no faults");
    }

    /// One call of the replica. Its effects are to be [carried out](StageMember::carry_out).
    pub(crate) fn call<M: ProtocolMessage>(
        &mut self,
        inputs: Vec<Input>,
        context: &Context<'_, M>,
    ) -> Effects {
        let now = self.local(context.now());
        let process = self.member.process.as_mut().expect("it was just asked");
        let effects = process.replica.handle(now, inputs);
        assert_eq!(effects.fatal, None, "no member is removed here, and nothing damages the log");
        effects
    }

    pub(crate) fn carry_out<M: ProtocolMessage>(
        &mut self,
        effects: Effects,
        context: &mut Context<'_, M>,
        say: fn(Message) -> M,
    ) {
        effects.persist.into_iter().for_each(|persist| self.member.disk.submit(persist));
        if let Some(takes) = self.member.flush(context.dice()) {
            context.alarm("flush", takes);
        }
        for (to, message) in effects.messages {
            context.send(self.process(to.0), say(message));
        }
        let sleeps = effects.wake_at.since(self.local(context.now()));
        context.alarm("wake", sleeps.max(us(20)));
    }

    /// The input that an alarm means for the replica.
    pub(crate) fn ring(&mut self, alarm: &'static str) -> Vec<Input> {
        match alarm {
            "flush" => {
                let flushed = self.member.disk.flushed().expect("this disk has no faults");
                flushed.into_iter().map(Input::Persisted).collect()
            }
            _ => vec![Input::Wake],
        }
    }
}
