//! What sessions ask for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use tenure_api::{LeaseId, Revision, Span};

use super::{
    ApplyEffects, CandidacyView, ElectionOutcome, EntryContext, State,
    elections::{Arriving, Cause},
};
use crate::{
    canary::Canary,
    command::{Join, SessionEnding, SessionRequest},
    election::{
        self, CANDIDACIES_MAX, Candidate, Election, ElectionEvent, EndReason, IDENTITY_BYTES_MAX,
        JoinSpec, METADATA_BYTES_MAX, Mode, NAMES_MAX, PRIORITY_MAX, Refusal, SESSION_TTL_MS_MAX,
        SESSION_TTL_MS_MIN, Session, SessionEndReason, Transfer, VALUE_BYTES_MAX, key_of,
    },
};

impl State {
    pub(super) fn open_session(
        &mut self,
        id: LeaseId,
        session: (u64, &str, bool),
        by: u64,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) -> Result<ElectionOutcome, Refusal> {
        let (ttl_ms, identity, fast_release) = session;
        if identity.len() > IDENTITY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let ttl_ms = ttl_ms.clamp(SESSION_TTL_MS_MIN, SESSION_TTL_MS_MAX);
        let ttl_secs = ttl_ms.div_ceil(1000) as i64;
        // Its number was drawn at random; an existing lease may have it all the same.
        self.leases.grant(id, ttl_secs, at.index).map_err(|_| Refusal::SessionGone)?;
        let session = Session::new(identity.to_owned(), ttl_ms, fast_release);
        self.elections.add_session(id, session);
        effects.restarted.push(id);
        effects.elections.push(ElectionEvent::Attached { session: id, attachment: 1, by });
        Ok(ElectionOutcome::Session { id, attachment: 1, ttl_ms, candidacies: vec![] })
    }

    pub(super) fn attach_session(
        &mut self,
        id: LeaseId,
        by: u64,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) -> Result<ElectionOutcome, Refusal> {
        let session = self.elections.session_mut(id).ok_or(Refusal::SessionGone)?;
        session.attachment += 1;
        let (attachment, ttl_ms) = (session.attachment, session.ttl_ms);
        // A session lives as long as its lease does.
        self.leases.renew(id, at.index).map_err(|_| Refusal::SessionGone)?;
        effects.restarted.push(id);
        effects.elections.push(ElectionEvent::Attached { session: id, attachment, by });
        Ok(ElectionOutcome::Session {
            id,
            attachment,
            ttl_ms,
            candidacies: self.candidacies_of(id),
        })
    }

    pub(super) fn end_session(
        &mut self,
        id: LeaseId,
        how: SessionEnding,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) -> Result<ElectionOutcome, Refusal> {
        let session = self.elections.session(id).cloned();
        let stopped = match how {
            SessionEnding::Closed { stopped } | SessionEnding::Revoked { stopped } => stopped,
            SessionEnding::ConnectionLost { attachment } => {
                let session = session.as_ref().ok_or(Refusal::SessionGone)?;
                if session.attachment != attachment || !session.fast_release {
                    return Err(Refusal::NoSuchCandidacy);
                }
                false
            }
        };
        if stopped {
            // Whether it lives or ended before: there is no need to wait for it.
            let settled = self.elections.end_delay(id, None, true, &mut effects.elections);
            effects.touched.extend(settled);
        }
        if session.is_none() {
            return if stopped { Ok(ElectionOutcome::Done) } else { Err(Refusal::SessionGone) };
        }
        let (why, end) = match how {
            SessionEnding::Closed { .. } => (EndReason::Closed, SessionEndReason::Closed),
            SessionEnding::ConnectionLost { .. } => {
                (EndReason::ConnectionLost, SessionEndReason::ConnectionLost)
            }
            SessionEnding::Revoked { .. } => (EndReason::Revoked, SessionEndReason::Revoked),
        };
        if let Ok(keys) = self.leases.revoke(id) {
            self.end_lease(id, &keys, (why, end, stopped), at, effects);
        }
        Ok(ElectionOutcome::Done)
    }

    /// A session's lease is gone: so are its candidates, its keys and itself.
    pub(super) fn end_lease(
        &mut self,
        id: LeaseId,
        keys: &[Bytes],
        (why, end, stopped): (EndReason, SessionEndReason, bool),
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) {
        // One of its keys may have been put under another lease, or none.
        let mut keys: BTreeSet<Bytes> = keys.iter().cloned().collect();
        if let Some(session) = self.elections.session(id) {
            keys.extend(session.candidates.iter().filter_map(|name| self.key_in(name, id)));
        }
        let keys: Vec<Bytes> = keys.into_iter().collect();
        self.delete(&keys, &Cause::ends(at, why, stopped), effects);
        if self.elections.remove_session(id).is_some() {
            effects.elections.push(ElectionEvent::SessionEnded { session: id, why: end });
        }
        effects.ended.push(id);
    }

    /// Does what a session asks, once.
    pub(super) fn ask(
        &mut self,
        id: LeaseId,
        request: u64,
        ask: &SessionRequest,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) -> Result<ElectionOutcome, Refusal> {
        let session = self.elections.session(id).ok_or(Refusal::SessionGone)?;
        let answered = session.answered(request).filter(|_| !Canary::RequestTwice.sings());
        let answer = match answered {
            Some(answer) => answer,
            None => {
                let answer = match ask {
                    SessionRequest::Join(join) => self.join(id, join, at, effects),
                    SessionRequest::Leave { name, token, stopped } => {
                        self.leave(id, name, (*token, *stopped), at, effects)
                    }
                    SessionRequest::Proclaim { name, token, value } => {
                        self.proclaim(id, name, (*token, value), at, effects)
                    }
                    SessionRequest::Health { name, unhealthy } => {
                        self.report_health(id, name, *unhealthy, at, effects)
                    }
                    SessionRequest::Yield { name, token, stay } => {
                        self.make_room(id, name, (*token, *stay), at, effects)
                    }
                };
                self.settle(at, effects);
                if let Some(session) = self.elections.session_mut(id) {
                    session.remember(request, answer.clone());
                }
                answer
            }
        };
        answer?;
        // As they are now: a request that comes again may be about candidates that were moved since.
        let candidates = names_in(ask).iter().filter_map(|name| self.candidacy(name, id));
        Ok(ElectionOutcome::Candidacies(candidates.collect()))
    }

    fn join(
        &mut self,
        id: LeaseId,
        join: &Join,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) -> Result<Vec<Revision>, Refusal> {
        self.check_join(id, join)?;
        let spec = Arc::new(JoinSpec {
            session: id,
            mode: join.mode,
            priority: join.priority,
            preempts: join.preempts,
            no_overlap: join.no_overlap,
            metadata: join.metadata.clone(),
            together: join.names.clone(),
        });
        let arriving = Arriving { spec, since_ms: at.ms, unhealthy: join.unhealthy };
        let keys = join.names.iter().map(|name| (key_of(name, id), join.value.clone())).collect();
        self.take_candidates(keys, arriving, at, effects);
        let token = self.store.revision();
        if let [name] = &join.names[..]
            && join.priority > 0
        {
            self.let_pass(id, name, at, effects);
            self.overrule_choice(id, name);
        }
        Ok(vec![token])
    }

    fn check_join(&self, id: LeaseId, join: &Join) -> Result<(), Refusal> {
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
            election::check_name(name)?;
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
    fn let_pass(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) {
        let Some(election) = self.elections.election(name) else { return };
        let Some(candidate) = election.candidate_of(id) else { return };
        let outranked = election.outranked_by(candidate);
        if !outranked.is_empty() {
            self.put_behind(name, &outranked, (EndReason::Preempted, true), at, effects);
        }
    }

    fn overrule_choice(&mut self, id: LeaseId, name: &Bytes) {
        if let Some(election) = self.elections.election_mut(name) {
            election.overrule_choice(id);
        }
    }

    /// Asks a leader to make room.
    pub(super) fn announce(
        &mut self,
        name: &Bytes,
        leader: &Arc<Candidate>,
        transfer: Transfer,
        effects: &mut ApplyEffects,
    ) {
        let successor =
            self.elections.session(transfer.to).map_or(String::new(), |s| s.identity.clone());
        let Some(election) = self.elections.election_mut(name) else { return };
        election.begin_transfer(transfer);
        effects.elections.push(ElectionEvent::Drain {
            name: name.clone(),
            candidate: leader.clone(),
            successor,
            within_ms: transfer.within_ms,
        });
        effects.touched.insert(name.clone());
    }

    fn leave(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        (token, stopped): (Option<Revision>, bool),
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) -> Result<Vec<Revision>, Refusal> {
        let candidate =
            self.elections.election(name).and_then(|election| election.candidate_of(id));
        let token = token.filter(|_| !Canary::UnguardedUnlock.sings());
        let candidate = candidate
            .filter(|candidate| token.is_none_or(|token| candidate.created == token))
            .cloned();
        if stopped && candidate.is_none() {
            // It was taken away before, and now the work has ended.
            let only = token.map(|token| (name, token));
            let settled = only
                .map(|_| self.elections.end_delay(id, only, true, &mut effects.elections))
                .unwrap_or_default();
            if !settled.is_empty() {
                effects.touched.extend(settled);
                return Ok(vec![]);
            }
        }
        let spec = candidate.as_ref().and_then(|candidate| candidate.spec.clone());
        let spec = spec.ok_or(Refusal::NoSuchCandidacy)?;
        let keys = self.keys_together(&spec);
        // A leader that was asked to make room may also do it by resigning.
        let transfer =
            self.elections.election(name).and_then(|election| election.transfer().copied());
        let asked = transfer.filter(|transfer| Some(transfer.from) == candidate.map(|p| p.created));
        let why = asked.map_or(EndReason::Resigned, |transfer| transfer.why);
        self.delete(&keys, &Cause::ends(at, why, stopped), effects);
        Ok(vec![])
    }

    fn proclaim(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        (token, value): (Revision, &Bytes),
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) -> Result<Vec<Revision>, Refusal> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let candidate =
            self.elections.election(name).and_then(|election| election.candidate_of(id));
        let holds = |candidate: &&Arc<Candidate>| candidate.created == token && candidate.holds();
        let key = candidate
            .filter(holds)
            .map(|candidate| candidate.key.clone())
            .ok_or(Refusal::NoSuchCandidacy)?;
        self.show(&key, value, at, effects);
        Ok(vec![token])
    }

    fn report_health(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        unhealthy: bool,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) -> Result<Vec<Revision>, Refusal> {
        let election = self.elections.election_mut(name).ok_or(Refusal::NoSuchCandidacy)?;
        let candidate = election.candidate_of(id).cloned().ok_or(Refusal::NoSuchCandidacy)?;
        // It could not be passed: candidates taken together are never moved.
        if unhealthy && candidate.is_fixed() {
            return Err(Refusal::BadPriority);
        }
        if let Some(candidate) = election.candidate_mut(candidate.created, &candidate.key) {
            candidate.unhealthy = unhealthy;
        }
        effects.touched.insert(name.clone());
        if unhealthy && candidate.holds() && candidate.mode() == Mode::Exclusive {
            let key = std::slice::from_ref(&candidate.key);
            self.put_behind(name, key, (EndReason::Unhealthy, true), at, effects);
        }
        if candidate.unhealthy && !unhealthy && !candidate.holds() {
            self.begin_anew(name, &candidate.key, at, effects);
            self.rank(name, at, effects);
            self.overrule_choice(id, name);
        }
        let token = self
            .elections
            .election(name)
            .and_then(|election| election.candidate_of(id))
            .map(|p| p.created);
        Ok(token.into_iter().collect())
    }

    /// A tenure that may begin now gets a revision of its own: an observer that comes back knows everything up to the
    /// one at which there was no leader.
    fn begin_anew(
        &mut self,
        name: &Bytes,
        key: &Bytes,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) {
        let vacant =
            self.elections.election(name).is_some_and(|election| election.leader().is_none());
        if let Some(value) = self.store.get(key).filter(|_| vacant).map(|shown| shown.value.clone())
        {
            self.show(key, &value, at, effects);
        }
    }

    /// The leader has drained: its successor takes over.
    fn make_room(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        (token, stay): (Revision, bool),
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) -> Result<Vec<Revision>, Refusal> {
        let election = self.elections.election(name).ok_or(Refusal::NoSuchCandidacy)?;
        let candidate =
            election.candidate_of(id).filter(|candidate| candidate.created == token).cloned();
        let candidate = candidate.ok_or(Refusal::NoSuchCandidacy)?;
        let transfer = election.transfer().copied().filter(|transfer| transfer.from == token);
        let transfer = transfer.ok_or(Refusal::NoSuchCandidate)?;
        self.hand_over(name, &candidate, (transfer, true, stay), at, effects);
        let token = self
            .elections
            .election(name)
            .and_then(|election| election.candidate_of(id))
            .map(|p| p.created);
        Ok(token.into_iter().collect())
    }

    /// Makes a successor first, with all others behind it.
    pub(super) fn hand_over(
        &mut self,
        name: &Bytes,
        leader: &Arc<Candidate>,
        (transfer, stopped, stay): (Transfer, bool, bool),
        at: EntryContext,
        effects: &mut ApplyEffects,
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
            let cause = Cause::ends(at, transfer.why, stopped);
            self.delete(std::slice::from_ref(&leader.key), &cause, effects);
        }
        self.put_behind(name, &keys, (transfer.why, stopped), at, effects);
    }

    /// Everything a session has.
    pub fn candidacies_of(&self, id: LeaseId) -> Vec<CandidacyView> {
        let Some(session) = self.elections.session(id) else { return vec![] };
        session.candidates.iter().filter_map(|name| self.candidacy(name, id)).collect()
    }

    /// The candidacies of all sessions, in the order of names. One pass through all elections: an election is searched
    /// from its start for a candidate, so that looking up each of many in the same one would take quadratic time.
    pub fn all_candidacies(&self) -> BTreeMap<LeaseId, Vec<CandidacyView>> {
        let mut all = BTreeMap::<LeaseId, Vec<CandidacyView>>::new();
        for (name, election) in self.elections.elections() {
            for candidate in election.candidates() {
                if let Some(id) = candidate.session() {
                    all.entry(id).or_default().push(self.info(name, election, candidate));
                }
            }
        }
        all
    }

    fn candidacy(&self, name: &Bytes, id: LeaseId) -> Option<CandidacyView> {
        let election = self.elections.election(name)?;
        Some(self.info(name, election, election.candidate_of(id)?))
    }

    fn info(&self, name: &Bytes, election: &Election, candidate: &Arc<Candidate>) -> CandidacyView {
        let transfer = election.transfer().filter(|transfer| transfer.from == candidate.created);
        let makes_room = transfer.map(|transfer| {
            let successor = self.elections.session(transfer.to);
            let successor = successor.map(|session| session.identity.clone());
            (successor.unwrap_or_default(), transfer.within_ms)
        });
        let (name, candidate) = (name.clone(), candidate.clone());
        CandidacyView { name, ahead: election.ahead(&candidate), makes_room, candidate }
    }
}

/// The elections that a request is about.
fn names_in(ask: &SessionRequest) -> &[Bytes] {
    match ask {
        SessionRequest::Join(join) => &join.names,
        SessionRequest::Leave { name, .. }
        | SessionRequest::Proclaim { name, .. }
        | SessionRequest::Health { name, .. }
        | SessionRequest::Yield { name, .. } => std::slice::from_ref(name),
    }
}

fn is_below(name: &[u8], above: &[u8]) -> bool {
    name.starts_with(above) && name.get(above.len()) == Some(&b'/')
}

fn check_permits(mode: Mode) -> Result<(), Refusal> {
    if mode == Mode::Permit(0) { Err(Refusal::ModeMismatch) } else { Ok(()) }
}
