//! Loss of a whole cluster, and its restore from a backup.

use tenure_api::Term;
use tenure_replica::{LogIndex, Snapshot, State, new_cluster::first_revision};

use super::{
    World,
    disk::{SimDisk, to_chunks},
    member::id,
    truth::Truth,
};
use crate::engine::Agenda;

/// A state, and its position in the log.
pub struct ClusterBackup {
    at: (LogIndex, Term),
    state: State,
}

impl World {
    /// A backup from a random running member.
    pub fn backup(&mut self) -> Option<ClusterBackup> {
        let running = self.some_member()?;
        let replica = &self.members[&running].process.as_ref()?.replica;
        let status = replica.status();
        let backup =
            ClusterBackup { at: (status.applied, status.term), state: replica.state().clone() };
        self.trace_snapshot(running, "backed up", status.applied);
        Some(backup)
    }

    /// All members are lost with their disks, and all clients with them. New members start from the backup, without
    /// whatever was done after it. None of them runs yet.
    pub fn restore(&mut self, backup: &ClusterBackup) {
        let running: Vec<_> = self.members.keys().copied().collect();
        running.into_iter().for_each(|number| self.crash(number));
        self.counts.count("restore");
        let members = self.numbers();
        let roll = members.iter().filter_map(|n| backup.state.members.get(&id(*n)).cloned());
        let first = first_revision(backup.state.store.revision(), 0, None);
        let first = first.expect("revisions last for more than one restore");
        let snapshot = Snapshot::new_cluster(&backup.state, backup.at, roll.collect(), first);
        let chunks = to_chunks(&snapshot);
        for number in members {
            let member = self.members.get_mut(&number).expect("its number was just listed");
            let seed = member.config.seed ^ number;
            member.disk = SimDisk::restored(seed, snapshot.mark.clone(), &chunks);
            self.trace_snapshot(number, "restored", snapshot.mark.index);
        }
        self.agenda = Agenda::beginning_at(self.agenda.now());
        self.net = Default::default();
        self.clients.clear();
        self.streams.clear();
        self.rotten.clear();
        self.truth = Truth::restored(snapshot);
        self.invariants = std::mem::take(&mut self.invariants).after_restore();
    }
}
