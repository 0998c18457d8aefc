//! Decides which candidates hold in the elections that something happened to.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::Revision;

use super::{
    Candidate, ElectionEvent, Elections, EndReason, PREEMPTION_DRAIN_MS, Tenure, Transfer,
    apply::Transition,
    candidates::is_frost,
    elections::{IDLE_ELECTIONS_MAX, TENURE_VALUE_BYTES_MAX, identity_of, shortened},
    keys::{Arriving, Cause},
};

/// What must be done before an election is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing more.
    Done,
    /// These must let others pass.
    PutBehind(Vec<Bytes>),
    /// The successor takes over: the leader is gone or has drained.
    Succeed(Transfer),
}

impl Transition<'_> {
    /// Decides which candidates hold in all elections that something happened to.
    pub(super) fn settle(&mut self) {
        self.end_broken();
        while let Some(name) = self.touched.pop_first() {
            if self.loosened.remove(&name) {
                self.rank(&name);
            }
            let mut succeeded = false;
            loop {
                match self.next_step(&name) {
                    Step::Done => break,
                    Step::PutBehind(keys) => {
                        self.put_behind(&name, &keys, (EndReason::Unhealthy, true));
                    }
                    Step::Succeed(transfer) => {
                        self.succeed(&name, transfer);
                        succeeded = true;
                    }
                }
            }
            if succeeded && let Some(election) = self.elections.election_mut(&name) {
                election.give_slots();
                self.rank(&name);
            }
            self.give_tenure(&name);
            self.tell_holders(&name);
            self.elections.note_idle(&name, self.store.revision());
            self.let_preempt(&name);
            // Moving keys has touched this election again, and nothing is left to do in it; others may
            // lie above.
            self.touched.remove(&name);
        }
    }

    /// Several are held all or none.
    fn end_broken(&mut self) {
        while let Some(spec) = self.broken.pop() {
            let keys = self.keys_together(&spec);
            if !keys.is_empty() {
                self.delete(&keys, &Cause::ends(EndReason::Deleted, false));
            }
        }
    }

    /// Puts the candidates that wait in order of priority.
    pub(super) fn rank(&mut self, name: &Bytes) {
        let misplaced =
            self.elections.election(name).map(|election| election.misplaced()).unwrap_or_default();
        if !misplaced.is_empty() {
            self.put_behind(name, &misplaced, (EndReason::Preempted, true));
        }
    }

    /// Asks the leader to make room while a candidate pre-empts it: for whichever is next then. An operator's choice
    /// counts more.
    fn let_preempt(&mut self, name: &Bytes) {
        let Some(election) = self.elections.election(name) else { return };
        let under_way = election.transfer().copied();
        if election.leads_by_choice() || under_way.is_some_and(|transfer| transfer.why.is_choice())
        {
            return;
        }
        let next = election.preemptor().and_then(|candidate| candidate.session());
        if next == under_way.map(|transfer| transfer.to) {
            return;
        }
        match (next, election.leader().cloned()) {
            (Some(to), Some(leader)) => {
                let (from, within_ms) = (leader.created, PREEMPTION_DRAIN_MS);
                let transfer = Transfer { to, from, within_ms, why: EndReason::Preempted };
                self.announce(name, &leader, transfer);
            }
            _ => self.call_off(name),
        }
    }

    /// Those between the front and a successor let it pass.
    fn succeed(&mut self, name: &Bytes, transfer: Transfer) {
        let Some(election) = self.elections.election(name) else { return };
        let before = election.between(None, transfer.to);
        let movable = before.iter().filter(|candidate| !candidate.is_fixed());
        let keys: Vec<_> = movable.map(|candidate| candidate.key.clone()).collect();
        self.put_behind(name, &keys, (transfer.why, true));
    }

    /// Asks a leader to make room.
    pub(super) fn announce(&mut self, name: &Bytes, leader: &Arc<Candidate>, transfer: Transfer) {
        let successor =
            self.elections.session(transfer.to).map_or(String::new(), |s| s.identity.clone());
        let Some(election) = self.elections.election_mut(name) else { return };
        election.begin_transfer(transfer);
        self.tell(ElectionEvent::Drain {
            name: name.clone(),
            candidate: leader.clone(),
            successor,
            within_ms: transfer.within_ms,
        });
        self.touched.insert(name.clone());
    }

    /// Makes a successor first, with all others behind it.
    pub(super) fn hand_over(
        &mut self,
        name: &Bytes,
        leader: &Arc<Candidate>,
        transfer: Transfer,
        (stopped, stay): (bool, bool),
    ) {
        let Some(election) = self.elections.election(name) else { return };
        let mut keys: Vec<Bytes> = election
            .between(Some(leader.created), transfer.to)
            .iter()
            .filter(|candidate| !candidate.is_fixed())
            .map(|candidate| candidate.key.clone())
            .collect();
        if stay {
            keys.push(leader.key.clone());
        } else {
            let cause = Cause::ends(transfer.why, stopped);
            self.delete(std::slice::from_ref(&leader.key), &cause);
        }
        self.put_behind(name, &keys, (transfer.why, stopped));
    }

    /// Takes candidates out of an election and puts them in again at its end, in order, each with a revision
    /// of its own.
    pub(super) fn put_behind(
        &mut self,
        name: &Bytes,
        keys: &[Bytes],
        (why, stopped): (EndReason, bool),
    ) {
        let Some(election) = self.elections.election(name) else { return };
        // By the store's word for when each was created: looking for each from the first on takes quadratic time.
        let candidates: Vec<Arc<Candidate>> = keys
            .iter()
            .filter_map(|key| {
                election.candidate(self.store.get(key)?.create_revision, key).cloned()
            })
            .collect();
        let values: Vec<Option<Bytes>> =
            candidates.iter().map(|p| self.store.get(&p.key).map(|kv| kv.value.clone())).collect();
        let keys: Vec<Bytes> = candidates.iter().map(|candidate| candidate.key.clone()).collect();
        self.delete(&keys, &Cause::returns(why, stopped));
        for (old, value) in candidates.into_iter().zip(values) {
            let (Some(spec), Some(value)) = (&old.spec, value) else { continue };
            let arriving =
                Arriving { spec: spec.clone(), since_ms: old.since_ms, unhealthy: old.unhealthy };
            self.take_candidates(vec![(old.key.clone(), value)], arriving);
            // It is the newest of all now.
            let newest =
                self.elections.election(name).and_then(|election| election.candidates().last());
            if let Some(candidate) = newest.filter(|newest| newest.key == old.key).cloned() {
                let name = name.clone();
                self.tell(ElectionEvent::Moved { name, candidate, old, why });
            }
        }
    }

    /// The next thing to do in an election before it can be settled.
    fn next_step(&mut self, name: &Bytes) -> Step {
        let Some(election) = self.elections.elections.get_mut(name).map(Arc::make_mut) else {
            return Step::Done;
        };
        if let Some(transfer) = election.transfer {
            let leader = election.leader().filter(|leader| leader.created == transfer.from);
            // A successor that has become unhealthy would be passed over, and the name might end up without a leader.
            let successor = election.candidate_of(transfer.to).filter(|to| to.wants_to_lead());
            match (successor, leader) {
                (None, _) => self.call_off(name),
                (Some(_), None) => {
                    election.transfer = None;
                    election.chosen = Some(transfer.to).filter(|_| transfer.why.is_choice());
                    return Step::Succeed(transfer);
                }
                (Some(_), Some(_)) => {}
            }
        }
        let Some(election) = self.elections.elections.get(name) else { return Step::Done };
        match election.passed_over() {
            Some(key) => Step::PutBehind(vec![key]),
            None => Step::Done,
        }
    }

    /// Calls the transfer off; the leader may stay.
    fn call_off(&mut self, name: &Bytes) {
        let Some(election) = self.elections.election_mut(name) else { return };
        let Some(transfer) = election.transfer.take() else { return };
        if let Some(candidate) =
            election.with_token(transfer.from).filter(|leader| leader.holds()).cloned()
        {
            self.effects
                .elections
                .push(ElectionEvent::DrainCancelled { name: name.clone(), candidate });
        }
    }

    /// Gives slots to the candidates that may hold, and a tenure to the first of them, once none needs to be moved any
    /// more.
    fn give_tenure(&mut self, name: &Bytes) {
        let Some(election) = self.elections.elections.get_mut(name).map(Arc::make_mut) else {
            return;
        };
        election.give_slots();
        let leader = election.leader().cloned();
        election.chosen = election.chosen.filter(|chosen| {
            leader.as_ref().is_some_and(|leader| leader.session() == Some(*chosen))
        });
        let (revision, name) = (self.store.revision(), name.clone());
        let vacated = std::mem::take(&mut election.vacated);
        match leader {
            Some(leader) => {
                let known = election.tenure.as_ref().is_some_and(|t| t.token == leader.created);
                if let Some(kv) = self.store.get(&leader.key).filter(|_| !known).cloned() {
                    let tenure = Tenure {
                        identity: identity_of(&self.elections.sessions, &leader, &kv),
                        token: leader.created,
                        value: shortened(&kv.value, TENURE_VALUE_BYTES_MAX),
                        from: revision,
                        from_ms: self.at.ms,
                        end: None,
                    };
                    election.tenure = Some(tenure.clone());
                    self.tell(ElectionEvent::Began { name, tenure, kv });
                }
            }
            None if vacated => {
                let frozen = election.candidates.first().is_some_and(|first| is_frost(first));
                self.tell(ElectionEvent::Vacant { name, revision, frozen });
            }
            None => {}
        }
    }

    /// Notifies the holders that have not been told, unless they must wait.
    fn tell_holders(&mut self, name: &Bytes) {
        let Some(election) = self.elections.elections.get(name) else { return };
        if canary!(ElectionStuck) && !election.predecessor().is_empty() {
            return;
        }
        // Holders come before candidates that wait.
        let holders = election.candidates.iter().take_while(|candidate| candidate.holds());
        let waiting: Vec<_> = holders.filter(|candidate| !candidate.told).cloned().collect();
        for candidate in waiting {
            let together = match &candidate.spec {
                Some(spec) => &spec.together[..],
                None => std::slice::from_ref(name),
            };
            if !together.iter().all(|name| self.elections.is_ready(name, &candidate)) {
                continue;
            }
            for name in together {
                let Some(election) = self.elections.elections.get_mut(name).map(Arc::make_mut)
                else {
                    continue;
                };
                let predecessor = election.predecessor();
                let own = match candidate.session() {
                    Some(session) => election.candidate_of(session).cloned(),
                    None => Some(candidate.clone()),
                };
                let Some(told) =
                    own.and_then(|own| election.candidate_mut(own.created, &own.key)).map(|own| {
                        own.told = true;
                        own.clone()
                    })
                else {
                    continue;
                };
                let mut candidate = Arc::new(told);
                if canary!(TokenReused)
                    && let Some(before) =
                        election.tenures().filter(|tenure| tenure.end.is_some()).last()
                {
                    Arc::make_mut(&mut candidate).created = before.token;
                }
                self.effects.elections.push(ElectionEvent::Granted {
                    name: name.clone(),
                    candidate,
                    predecessor,
                });
            }
        }
    }
}

impl Elections {
    /// Whether a candidate's session holds in this election, and need not wait for a former holder's stop.
    fn is_ready(&self, name: &Bytes, candidate: &Candidate) -> bool {
        let Some(election) = self.elections.get(name) else { return false };
        let Some(spec) = &candidate.spec else { return true };
        let holds = election.candidate_of(spec.session).is_some_and(|own| own.holds());
        holds && !(spec.no_overlap && election.is_delayed())
    }

    /// Keeps a bounded number of elections without candidates.
    fn note_idle(&mut self, name: &Bytes, revision: Revision) {
        let Some(election) = self.elections.get_mut(name) else { return };
        if !election.is_idle() || election.idle_since.is_some() {
            return;
        }
        Arc::make_mut(election).idle_since = Some(revision);
        self.idle.insert((revision, name.clone()));
        while self.idle.len() > IDLE_ELECTIONS_MAX {
            if let Some((_, oldest)) = self.idle.remove_min() {
                let election = self.elections.remove(&oldest);
                let ended =
                    election.and_then(|election| election.history.back()?.end).map(|end| end.at);
                self.forgotten = self.forgotten.max(ended.unwrap_or_default());
            }
        }
    }
}
