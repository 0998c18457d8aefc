//! The house of a replica on the stage: a disk that takes its time, messages, and the clock.
//!
//! The log stays so short here that nobody needs a snapshot.

use tenure_api::{Member as Listed, MemberId};
use tenure_replica::{Config, Effects, Input, Message, Replica};

use crate::{
    cluster::disk::Disk,
    engine::{Counts, us},
    stage::{NodeId, Scene, Word},
};

/// A replica, and the disk that it finds again.
pub(in crate::algorithms) struct House {
    config: Config,
    /// The process that plays member 1.
    first: NodeId,
    disk: Disk,
    replica: Option<Replica>,
}

impl House {
    /// For one of so many members; processes of the stage play them, one after the other.
    pub(in crate::algorithms) fn new(process: NodeId, first: NodeId, members: usize) -> House {
        let listed = |number| Listed {
            id: MemberId(number),
            name: String::new(),
            peer_urls: vec![],
            client_urls: vec![],
            is_learner: false,
        };
        let members = (1..=members as u64).map(listed).collect();
        let mut config = Config::new(id(process, first), members);
        // Nothing damages what they hold; the cluster's own scenarios see to that.
        config.audit_interval = std::time::Duration::ZERO;
        House { config, first, disk: Disk::default(), replica: None }
    }

    pub(in crate::algorithms) fn config(&mut self) -> &mut Config {
        &mut self.config
    }

    pub(in crate::algorithms) fn id(&self, of: NodeId) -> MemberId {
        id(of, self.first)
    }

    pub(in crate::algorithms) fn node(&self, of: MemberId) -> NodeId {
        of.0 - 1 + self.first
    }

    pub(in crate::algorithms) fn replica(&self) -> Option<&Replica> {
        self.replica.as_ref()
    }

    /// The process starts. What was not flushed is gone, or only some of it is.
    pub(in crate::algorithms) fn start<M: Word>(&mut self, scene: &mut Scene<'_, M>) {
        self.disk.crash(scene.dice(), &mut Counts::default());
        let recovered = self.disk.recover();
        self.replica = Some(Replica::new(scene.now(), self.config.clone(), recovered));
    }

    /// One round of the replica's loop. What comes of it is to be [carried out](House::carry_out).
    pub(in crate::algorithms) fn call<M: Word>(
        &mut self,
        inputs: Vec<Input>,
        scene: &Scene<'_, M>,
    ) -> Effects {
        let replica = self.replica.as_mut().expect("nothing reaches a process before its start");
        let effects = replica.handle(scene.now(), inputs);
        assert_eq!(effects.fatal, None, "nobody is removed here, and nothing damages the log");
        effects
    }

    pub(in crate::algorithms) fn carry_out<M: Word>(
        &mut self,
        effects: Effects,
        scene: &mut Scene<'_, M>,
        say: fn(Message) -> M,
    ) {
        for persist in effects.persist {
            self.disk.submit(persist);
        }
        self.write_on(scene);
        for (to, message) in effects.messages {
            scene.send(self.node(to), say(message));
        }
        scene.alarm("wake", effects.wake_at.since(scene.now()).max(us(20)));
    }

    /// Begins the next flush if the disk is free.
    fn write_on<M: Word>(&mut self, scene: &mut Scene<'_, M>) {
        if self.disk.begin() {
            let (low, high) = self.disk.flush;
            let takes = scene.dice().duration(low, high);
            scene.alarm("flush", takes);
        }
    }

    /// What an alarm means to the replica.
    pub(in crate::algorithms) fn ring(&mut self, alarm: &'static str) -> Vec<Input> {
        match alarm {
            "flush" => self.disk.flushed().into_iter().map(Input::Persisted).collect(),
            _ => vec![Input::Wake],
        }
    }
}

fn id(of: NodeId, first: NodeId) -> MemberId {
    MemberId(of - first + 1)
}
