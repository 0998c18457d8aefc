//! The host of a replica on the stage: a disk that takes its time, messages, and the clock.
//!
//! The log stays so short here that no snapshot is needed.

use tenure_api::{Member as Listed, MemberId};
use tenure_replica::{Effects, Input, Message, Moment, Replica, ReplicaConfig};

use crate::{
    cluster::disk::SimDisk,
    engine::{RunCounts, us},
    stage::{Context, ProcessId, ProtocolMessage},
};

/// A replica and its disk.
pub(in crate::algorithms) struct RaftHost {
    config: ReplicaConfig,
    /// The stage's process of member 1.
    first: ProcessId,
    disk: SimDisk,
    replica: Option<Replica>,
}

impl RaftHost {
    /// The host of one of `members` members; consecutive processes of the stage run them.
    pub(in crate::algorithms) fn new(
        process: ProcessId,
        first: ProcessId,
        members: usize,
    ) -> RaftHost {
        let listed = |number| Listed {
            id: MemberId(number),
            name: String::new(),
            peer_urls: vec![],
            client_urls: vec![],
            is_learner: false,
        };
        let members = (1..=members as u64).map(listed).collect();
        let mut config = ReplicaConfig::new(id(process, first), members);
        // Nothing damages these disks; the cluster's own scenarios do that.
        config.audit_interval = std::time::Duration::ZERO;
        RaftHost { config, first, disk: SimDisk::new(process), replica: None }
    }

    pub(in crate::algorithms) fn config(&mut self) -> &mut ReplicaConfig {
        &mut self.config
    }

    pub(in crate::algorithms) fn id(&self, of: ProcessId) -> MemberId {
        id(of, self.first)
    }

    /// The input that a message means for the replica.
    pub(in crate::algorithms) fn arrived(
        &self,
        from: ProcessId,
        message: Message,
        arrived: Moment,
    ) -> Input {
        Input::Message { from: self.id(from), message, arrived }
    }

    pub(in crate::algorithms) fn node(&self, of: MemberId) -> ProcessId {
        of.0 - 1 + self.first
    }

    pub(in crate::algorithms) fn replica(&self) -> Option<&Replica> {
        self.replica.as_ref()
    }

    /// The process starts. Unflushed writes are lost, or some of them.
    pub(in crate::algorithms) fn start<M: ProtocolMessage>(
        &mut self,
        context: &mut Context<'_, M>,
    ) {
        self.disk.crash(context.dice(), &mut RunCounts::default());
        let recovered = self.disk.recover(self.config.me, &self.config.members);
        let recovered = recovered.expect("this disk has no faults");
        self.replica = Some(Replica::new(context.now(), self.config.clone(), recovered));
    }

    /// One call of the replica. Its effects are to be [carried out](RaftHost::carry_out).
    pub(in crate::algorithms) fn call<M: ProtocolMessage>(
        &mut self,
        inputs: Vec<Input>,
        context: &Context<'_, M>,
    ) -> Effects {
        let replica = self.replica.as_mut().expect("nothing reaches a process before its start");
        let effects = replica.handle(context.now(), inputs);
        assert_eq!(effects.fatal, None, "no member is removed here, and nothing damages the log");
        effects
    }

    pub(in crate::algorithms) fn carry_out<M: ProtocolMessage>(
        &mut self,
        effects: Effects,
        context: &mut Context<'_, M>,
        say: fn(Message) -> M,
    ) {
        for persist in effects.persist {
            self.disk.submit(persist);
        }
        self.write_on(context);
        for (to, message) in effects.messages {
            context.send(self.node(to), say(message));
        }
        context.alarm("wake", effects.wake_at.since(context.now()).max(us(20)));
    }

    /// Begins the next flush if the disk is free.
    fn write_on<M: ProtocolMessage>(&mut self, context: &mut Context<'_, M>) {
        if self.disk.begin() {
            let (low, high) = self.disk.flush;
            let takes = context.dice().duration(low, high);
            context.alarm("flush", takes);
        }
    }

    /// The input that an alarm means for the replica.
    pub(in crate::algorithms) fn ring(&mut self, alarm: &'static str) -> Vec<Input> {
        match alarm {
            "flush" => {
                let flushed = self.disk.flushed().expect("this disk has no faults");
                flushed.into_iter().map(Input::Persisted).collect()
            }
            _ => vec![Input::Wake],
        }
    }
}

fn id(of: ProcessId, first: ProcessId) -> MemberId {
    MemberId(of - first + 1)
}
