//! What operators decide.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{Put, Revision, op::PutLease};

use super::{
    Candidate, DRAIN_MS_MAX, Election, ElectionOutcome, EndReason, Mode, Refusal, SessionEndReason,
    Transfer, apply::Transition, check_name, frozen_key, keys::Cause,
};
use crate::command::{AdminCommand, Successor};

impl Transition<'_> {
    pub(super) fn admin(&mut self, command: &AdminCommand) -> Result<ElectionOutcome, Refusal> {
        match command {
            AdminCommand::Transfer { name, to, within_ms } => {
                self.transfer(name, to, (*within_ms).min(DRAIN_MS_MAX))
            }
            AdminCommand::Evict { name, token } => self.evict(name, *token),
            AdminCommand::Freeze(name) => self.freeze(name),
            AdminCommand::Resume(name) => self.resume(name),
        }
    }

    fn transfer(
        &mut self,
        name: &Bytes,
        to: &Successor,
        within_ms: u64,
    ) -> Result<ElectionOutcome, Refusal> {
        let election = self.elections.election(name).ok_or(Refusal::NoSuchCandidate)?;
        let chosen = self.successor(election, to)?;
        let leader = election.leader().cloned();
        if election.is_frozen() {
            return Err(Refusal::NameFrozen);
        }
        if chosen.holds() {
            // It may be about to make room for another.
            let stays = election.transfer().is_none();
            return stays
                .then_some(ElectionOutcome::Token(chosen.created))
                .ok_or(Refusal::TransferUnderWay);
        }
        // It would be passed over as soon as its turn came.
        if !chosen.wants_to_lead() {
            return Err(Refusal::CandidateUnhealthy);
        }
        let session = chosen.session().ok_or(Refusal::NoSuchCandidate)?;
        let ahead =
            election.candidates().iter().take_while(|candidate| candidate.key != chosen.key);
        if ahead.clone().any(|candidate| candidate.is_fixed()) {
            return Err(Refusal::StockCandidateAhead);
        }
        if ahead.clone().any(|candidate| candidate.mode() != Mode::Exclusive) || chosen.is_fixed() {
            return Err(Refusal::ModeMismatch);
        }
        if election.transfer().is_some_and(|transfer| transfer.to != session) {
            return Err(Refusal::TransferUnderWay);
        }
        let why = EndReason::Transferred;
        let from = leader.as_ref().map_or(Revision(0), |leader| leader.created);
        let transfer = Transfer { to: session, from, within_ms, why };
        match leader {
            // What was only a priority's wish is the operator's from now on.
            Some(leader)
                if election.transfer().is_none_or(|transfer| !transfer.why.is_choice()) =>
            {
                self.announce(name, &leader, transfer);
            }
            Some(_) => {}
            None => {
                let keys: Vec<_> = ahead.map(|candidate| candidate.key.clone()).collect();
                self.put_behind(name, &keys, (why, true));
            }
        }
        Ok(ElectionOutcome::Token(chosen.created))
    }

    fn successor(&self, election: &Election, to: &Successor) -> Result<Arc<Candidate>, Refusal> {
        let is_meant = |candidate: &&Arc<Candidate>| match (to, candidate.session()) {
            (Successor::Session(wanted), session) => session == Some(*wanted),
            (Successor::Identity(wanted), Some(session)) => {
                self.elections.session(session).is_some_and(|known| known.identity == *wanted)
            }
            (Successor::Identity(_), None) => false,
        };
        let mut meant = election.candidates().iter().filter(is_meant);
        match (meant.next(), meant.next()) {
            (Some(candidate), None) => Ok(candidate.clone()),
            _ => Err(Refusal::NoSuchCandidate),
        }
    }

    fn evict(&mut self, name: &Bytes, token: Option<Revision>) -> Result<ElectionOutcome, Refusal> {
        let Some(election) = self.elections.election(name) else {
            return Ok(ElectionOutcome::Evicted(None));
        };
        let candidate = match token {
            None => election.leader(),
            Some(token) => election.with_token(token),
        };
        let Some(candidate) = candidate.cloned() else { return Ok(ElectionOutcome::Evicted(None)) };
        if candidate.key == frozen_key(name) {
            return Err(Refusal::NameFrozen);
        }
        let identity =
            self.store.get(&candidate.key).map(|kv| self.elections.identity_of(&candidate, kv));
        self.take_away(name, &candidate, EndReason::Evicted);
        Ok(ElectionOutcome::Evicted(Some((candidate, identity.unwrap_or_default()))))
    }

    /// Takes a candidacy away. The key of a stock client is never deleted under it, or
    /// the client would take that for its turn: it loses its lease. It may believe that it holds for as long as its
    /// lease would have lived.
    fn take_away(&mut self, name: &Bytes, candidate: &Arc<Candidate>, why: EndReason) {
        let cause = Cause::ends(why, false);
        let stock = candidate.lease.filter(|_| candidate.spec.is_none() && candidate.holds());
        if let Some((lease, known)) = stock.and_then(|id| Some((id, self.leases.get(id)?))) {
            let ttl_ms = known.ttl_secs.max(1) as u64 * 1000;
            self.begin_delay(name, (lease, candidate.created), ttl_ms, self.store.revision());
        }
        match (&candidate.spec, candidate.lease) {
            (Some(spec), _) => {
                let keys = self.keys_together(spec);
                self.delete(&keys, &cause);
            }
            (None, Some(lease)) => match self.leases.revoke(lease) {
                Ok(keys) => self.end_lease(lease, keys, (why, SessionEndReason::Revoked), false),
                Err(_) => self.delete(std::slice::from_ref(&candidate.key), &cause),
            },
            (None, None) => self.delete(std::slice::from_ref(&candidate.key), &cause),
        }
    }

    fn freeze(&mut self, name: &Bytes) -> Result<ElectionOutcome, Refusal> {
        check_name(name)?;
        self.elections.check_nesting(name)?;
        let election = self.elections.election(name).cloned().unwrap_or_default();
        // Stock clients would lead as soon as they see themselves first. They lose their leases;
        // later candidates wait behind the mark, and so do those that have joined since it was set.
        let mark = election.frost();
        for candidate in &election.candidates()[..mark.unwrap_or(election.candidates().len())] {
            // A key without a lease is ordinary data, and no leader.
            let stock = candidate.spec.is_none() && candidate.lease.is_some();
            if stock || (candidate.holds() && candidate.spec.is_some()) {
                self.take_away(name, candidate, EndReason::Frozen);
            }
        }
        if mark.is_some() {
            return Ok(ElectionOutcome::Done);
        }
        let mark = Put {
            key: frozen_key(name),
            value: Some(Bytes::new()),
            lease: PutLease::Set(None),
            prev_kv: false,
        };
        let done = self.store.put(&mark, &|_| true).expect("a put without a lease cannot fail");
        self.record(Some(done.1), &Cause::default());
        let waiting: Vec<_> = self.elections.election(name).map_or(vec![], |election| {
            election
                .candidates()
                .iter()
                .filter(|p| p.spec.is_some())
                .map(|p| p.key.clone())
                .collect()
        });
        self.put_behind(name, &waiting, (EndReason::Frozen, true));
        Ok(ElectionOutcome::Done)
    }

    fn resume(&mut self, name: &Bytes) -> Result<ElectionOutcome, Refusal> {
        let key = frozen_key(name);
        if self.store.get(&key).is_none() {
            return Err(Refusal::NameNotFrozen);
        }
        self.delete(&[key], &Cause::default());
        Ok(ElectionOutcome::Done)
    }
}
