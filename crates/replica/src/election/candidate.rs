//! One candidate in an election.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
pub use tenure_api::Mode;
use tenure_api::{JoinSpec, LeaseId, Revision, Span};

use super::{
    CANDIDACIES_MAX, EndReason, METADATA_BYTES_MAX, NAMES_MAX, PRIORITY_MAX, Refusal,
    VALUE_BYTES_MAX,
    apply::Transition,
    check_name, key_of,
    keys::{Arriving, Cause},
    session::Answered,
};

/// A key that is a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The key.
    pub key: Bytes,
    /// The revision that created it: its candidate in the order, and the fencing token once it holds.
    pub created: Revision,
    /// The lease it dies with.
    pub lease: Option<LeaseId>,
    /// When it came, by the raft leader's clock; for people.
    pub since_ms: u64,
    /// What a session said of it. None for stock clients.
    pub spec: Option<Arc<CandidateSpec>>,
    /// The slot it holds, if it holds.
    pub slot: Option<u32>,
    /// Whether its owner was told that it holds.
    pub told: bool,
    /// It does not want to lead now.
    pub unhealthy: bool,
}

/// What a session says of its candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateSpec {
    /// Whose it is.
    pub session: LeaseId,
    /// How many candidates may hold at once.
    pub mode: Mode,
    /// Higher priority is elected first.
    pub priority: u32,
    /// Takes over even from a leader of lower priority.
    pub preempts: bool,
    /// To be told only when the previous holder has surely stopped.
    pub no_overlap: bool,
    /// For people and programs that list candidates.
    pub metadata: Vec<(String, String)>,
    /// All names that were joined together, this one included. Nothing is told before all are held.
    pub together: Vec<Bytes>,
}

impl Candidate {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.slot.is_some()
    }

    /// How many candidates may hold at once. A stock client is always exclusive.
    pub fn mode(&self) -> Mode {
        self.spec.as_ref().map_or(Mode::Exclusive, |spec| spec.mode)
    }

    /// Whether it must stay where it is: its client decides by itself, or it must have the same
    /// order in several elections (or two that wait for each other would wait for ever).
    pub fn is_fixed(&self) -> bool {
        self.spec.as_ref().is_none_or(|spec| spec.together.len() > 1)
    }

    /// The session it belongs to.
    pub fn session(&self) -> Option<LeaseId> {
        self.spec.as_ref().map(|spec| spec.session)
    }

    /// Its priority; a stock client has none.
    pub fn priority(&self) -> u32 {
        self.spec.as_ref().map_or(0, |spec| spec.priority)
    }

    /// Whether it takes over from a leader of lower priority.
    pub fn preempts(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.preempts)
    }

    /// Whether it would lead if it were its turn.
    pub fn wants_to_lead(&self) -> bool {
        !self.unhealthy
    }
}

impl Transition<'_> {
    pub(super) fn join(&mut self, id: LeaseId, join: &JoinSpec) -> Answered {
        self.check_join(id, join)?;
        let spec = Arc::new(CandidateSpec {
            session: id,
            mode: join.mode,
            priority: join.priority,
            preempts: join.preempts,
            no_overlap: join.no_overlap,
            metadata: join.metadata.clone(),
            together: join.names.clone(),
        });
        let arriving = Arriving { spec, since_ms: self.at.ms, unhealthy: join.unhealthy };
        let keys = join.names.iter().map(|name| (key_of(name, id), join.value.clone())).collect();
        self.take_candidates(keys, arriving);
        let token = self.store.revision();
        if let [name] = &join.names[..]
            && join.priority > 0
        {
            self.let_pass(id, name);
            self.overrule_choice(id, name);
        }
        Ok(vec![token])
    }

    fn check_join(&self, id: LeaseId, join: &JoinSpec) -> Result<(), Refusal> {
        let distinct: BTreeSet<&Bytes> = join.names.iter().collect();
        if join.names.is_empty() || distinct.len() != join.names.len() {
            return Err(Refusal::BadName);
        }
        let metadata: usize =
            join.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
        let candidates = self.elections.session(id).map_or(0, |session| session.candidates.len());
        if join.names.len() > NAMES_MAX
            || join.value.len() > VALUE_BYTES_MAX
            || metadata > METADATA_BYTES_MAX
            || candidates + join.names.len() > CANDIDACIES_MAX
        {
            return Err(Refusal::TooLarge);
        }
        // Candidates taken together are never moved, so an unhealthy one could not be passed.
        let several = join.names.len() > 1;
        if join.priority > PRIORITY_MAX || (several && (join.priority > 0 || join.unhealthy)) {
            return Err(Refusal::BadPriority);
        }
        for name in &join.names {
            check_name(name)?;
            self.elections.check_nesting(name)?;
            let nested = |other: &&Bytes| other.len() > name.len() && is_below(other, name);
            if join.names.iter().any(|other| nested(&other)) {
                return Err(Refusal::NestedName);
            }
            if self.store.get(&key_of(name, id)).is_some() {
                return Err(Refusal::AlreadyCandidate);
            }
            // One that would not lead does not hold at once either.
            if join.try_only && join.unhealthy && join.mode == Mode::Exclusive {
                return Err(Refusal::Taken);
            }
            let Some(election) = self.elections.election(name) else {
                check_permits(join.mode)?;
                // Data may lie under a name without candidates, and be first as soon as one joins.
                let under = Span::prefix([name, &b"/"[..]].concat().into());
                if join.try_only && self.store.live_in(&under).next().is_some() {
                    return Err(Refusal::Taken);
                }
                continue;
            };
            election.check_mode(join.mode)?;
            if join.try_only && election.is_frozen() {
                return Err(Refusal::NameFrozen);
            }
            if join.try_only && !election.would_hold(join.mode, join.no_overlap) {
                return Err(Refusal::Taken);
            }
        }
        Ok(())
    }

    /// Candidates of lower priority let a newcomer pass.
    fn let_pass(&mut self, id: LeaseId, name: &Bytes) {
        let Some(election) = self.elections.election(name) else { return };
        let Some(candidate) = election.candidate_of(id) else { return };
        let outranked = election.outranked_by(candidate);
        if !outranked.is_empty() {
            self.put_behind(name, &outranked, (EndReason::Preempted, true));
        }
    }

    fn overrule_choice(&mut self, id: LeaseId, name: &Bytes) {
        if let Some(election) = self.elections.election_mut(name) {
            election.overrule_choice(id);
        }
    }

    pub(super) fn leave(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        token: Option<Revision>,
        stopped: bool,
    ) -> Answered {
        let token = token.filter(|_| !canary!(UnguardedUnlock));
        let candidate = self.elections.candidate_of(name, id);
        let candidate = candidate
            .filter(|candidate| token.is_none_or(|token| candidate.created == token))
            .cloned();
        // It may have been taken away before, and now the work has ended.
        if stopped
            && candidate.is_none()
            && token.is_some_and(|token| self.end_delay(id, Some((name, token)), true))
        {
            return Ok(vec![]);
        }
        let spec = candidate.as_ref().and_then(|candidate| candidate.spec.clone());
        let spec = spec.ok_or(Refusal::NoSuchCandidacy)?;
        let keys = self.keys_together(&spec);
        // A leader that was asked to make room may also do it by resigning.
        let transfer =
            self.elections.election(name).and_then(|election| election.transfer().copied());
        let asked = transfer.filter(|transfer| Some(transfer.from) == candidate.map(|p| p.created));
        let why = asked.map_or(EndReason::Resigned, |transfer| transfer.why);
        self.delete(&keys, &Cause::ends(why, stopped));
        Ok(vec![])
    }

    pub(super) fn proclaim(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        token: Revision,
        value: &Bytes,
    ) -> Answered {
        if value.len() > VALUE_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let holds = |candidate: &&Arc<Candidate>| candidate.created == token && candidate.holds();
        let candidate = self.elections.candidate_of(name, id).filter(holds);
        let key = candidate.ok_or(Refusal::NoSuchCandidacy)?.key.clone();
        self.show(&key, value);
        Ok(vec![token])
    }

    pub(super) fn report_health(&mut self, id: LeaseId, name: &Bytes, unhealthy: bool) -> Answered {
        let election = self.elections.election_mut(name).ok_or(Refusal::NoSuchCandidacy)?;
        let candidate = election.candidate_of(id).cloned().ok_or(Refusal::NoSuchCandidacy)?;
        // It could not be passed: candidates taken together are never moved.
        if unhealthy && candidate.is_fixed() {
            return Err(Refusal::BadPriority);
        }
        if let Some(candidate) = election.candidate_mut(candidate.created, &candidate.key) {
            candidate.unhealthy = unhealthy;
        }
        self.touched.insert(name.clone());
        if unhealthy && candidate.holds() && candidate.mode() == Mode::Exclusive {
            let key = std::slice::from_ref(&candidate.key);
            self.put_behind(name, key, (EndReason::Unhealthy, true));
        }
        if candidate.unhealthy && !unhealthy && !candidate.holds() {
            self.begin_anew(name, &candidate.key);
            self.rank(name);
            self.overrule_choice(id, name);
        }
        Ok(self.token_of(id, name))
    }

    /// A tenure that may begin now gets a revision of its own: an observer that comes back knows everything up to the
    /// one at which there was no leader.
    fn begin_anew(&mut self, name: &Bytes, key: &Bytes) {
        let vacant =
            self.elections.election(name).is_some_and(|election| election.leader().is_none());
        if let Some(value) = self.store.get(key).filter(|_| vacant).map(|shown| shown.value.clone())
        {
            self.show(key, &value);
        }
    }

    /// The leader has drained: its successor takes over.
    pub(super) fn make_room(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        token: Revision,
        stay: bool,
    ) -> Answered {
        let election = self.elections.election(name).ok_or(Refusal::NoSuchCandidacy)?;
        let candidate =
            election.candidate_of(id).filter(|candidate| candidate.created == token).cloned();
        let candidate = candidate.ok_or(Refusal::NoSuchCandidacy)?;
        let transfer = election.transfer().copied().filter(|transfer| transfer.from == token);
        let transfer = transfer.ok_or(Refusal::NoSuchCandidate)?;
        self.hand_over(name, &candidate, transfer, (true, stay));
        Ok(self.token_of(id, name))
    }

    /// The token that a session's candidate has by now.
    fn token_of(&self, id: LeaseId, name: &Bytes) -> Vec<Revision> {
        let candidate = self.elections.candidate_of(name, id);
        candidate.map(|candidate| candidate.created).into_iter().collect()
    }
}

fn is_below(name: &[u8], above: &[u8]) -> bool {
    name.starts_with(above) && name.get(above.len()) == Some(&b'/')
}

fn check_permits(mode: Mode) -> Result<(), Refusal> {
    if mode == Mode::Permit(0) { Err(Refusal::ModeMismatch) } else { Ok(()) }
}
