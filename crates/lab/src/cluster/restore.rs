//! A cluster that is lost, and begins again from a backup.

use tenure_api::Term;
use tenure_replica::{Frozen, LogIndex, State, refound::first_revision};

use super::{
    World,
    disk::{Disk, freeze},
    member::id,
    truth::Truth,
};
use crate::engine::Agenda;

/// A state, and the place in the log where it was.
pub struct Backup {
    at: (LogIndex, Term),
    state: State,
}

impl World {
    /// What an operator saves who asks a member that runs, by chance.
    pub fn backup(&mut self) -> Option<Backup> {
        let running = self.some_member()?;
        let replica = &self.members[&running].process.as_ref()?.replica;
        let status = replica.status();
        let backup = Backup { at: (status.applied, status.term), state: replica.state().clone() };
        self.tell_snapshot(running, "backed up", status.applied);
        Some(backup)
    }

    /// All members are lost with their disks, and all clients with them. Others take their places, with
    /// what the backup holds; nobody knows what was done after it. None of them runs yet.
    pub fn restore(&mut self, backup: &Backup) {
        let running: Vec<_> = self.members.keys().copied().collect();
        running.into_iter().for_each(|number| self.crash(number));
        self.counts.count("restore");
        let members = self.numbers();
        let roll = members.iter().filter_map(|n| backup.state.members.get(&id(*n)).cloned());
        let first = first_revision(backup.state.store.revision(), 0, None);
        let first = first.expect("revisions last for more than one restore");
        let frozen = Frozen::refounded(&backup.state, backup.at, roll.collect(), first);
        let chunks = freeze(&frozen);
        for number in members {
            let member = self.members.get_mut(&number).expect("its number was just listed");
            member.disk = Disk::default();
            member.disk.save(frozen.mark.clone(), chunks.clone());
            self.tell_snapshot(number, "restored", frozen.mark.index);
        }
        self.agenda = Agenda::beginning_at(self.agenda.now());
        self.net = Default::default();
        self.clients.clear();
        self.streams.clear();
        self.rotten.clear();
        self.truth = Truth::restored(frozen);
        self.invariants = std::mem::take(&mut self.invariants).after_restore();
    }
}
