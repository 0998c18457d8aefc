//! What operators decide, and what ends because its time is over.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{LeaseId, Put, Revision, Term, op::PutLease};

use super::{At, LineDone, State, Traces, lines::Cause};
use crate::{
    command::{Overdue, Rule, Successor},
    queue::{
        self, DRAIN_MS_MAX, Line, Mode, Place, Refusal, SessionEnd, TenureEnd, Transfer, frozen_key,
    },
};

impl State {
    pub(super) fn rule(
        &mut self,
        rule: &Rule,
        at: At,
        traces: &mut Traces,
    ) -> Result<LineDone, Refusal> {
        match rule {
            Rule::Transfer { name, to, within_ms } => {
                self.transfer(name, to, (*within_ms).min(DRAIN_MS_MAX), at, traces)
            }
            Rule::Evict { name, token } => self.evict(name, *token, at, traces),
            Rule::Freeze(name) => self.freeze(name, at, traces),
            Rule::Resume(name) => self.resume(name, at, traces),
        }
    }

    fn transfer(
        &mut self,
        name: &Bytes,
        to: &Successor,
        within_ms: u64,
        at: At,
        traces: &mut Traces,
    ) -> Result<LineDone, Refusal> {
        let line = self.queues.line(name).ok_or(Refusal::NoSuchCandidate)?;
        let chosen = self.successor(line, to)?;
        let leader = line.leader().cloned();
        if line.is_frozen() {
            return Err(Refusal::NameFrozen);
        }
        if chosen.holds() {
            // It may be about to make room for another.
            let stays = line.transfer().is_none();
            return stays
                .then_some(LineDone::Token(chosen.created))
                .ok_or(Refusal::TransferUnderWay);
        }
        // It would be passed over as soon as its turn came.
        if !chosen.wants_to_lead() {
            return Err(Refusal::CandidateUnhealthy);
        }
        let session = chosen.session().ok_or(Refusal::NoSuchCandidate)?;
        let ahead = line.places().iter().take_while(|place| place.key != chosen.key);
        if ahead.clone().any(|place| place.is_fixed()) {
            return Err(Refusal::StockCandidateAhead);
        }
        if ahead.clone().any(|place| place.mode() != Mode::Exclusive) || chosen.is_fixed() {
            return Err(Refusal::ModeMismatch);
        }
        if line.transfer().is_some_and(|transfer| transfer.to != session) {
            return Err(Refusal::TransferUnderWay);
        }
        let why = TenureEnd::Transferred;
        let from = leader.as_ref().map_or(Revision(0), |leader| leader.created);
        let transfer = Transfer { to: session, from, within_ms, why };
        match leader {
            // What was only a priority's wish is the operator's from now on.
            Some(leader) if line.transfer().is_none_or(|transfer| !transfer.why.is_choice()) => {
                self.announce(name, &leader, transfer, traces);
            }
            Some(_) => {}
            None => {
                let keys: Vec<_> = ahead.map(|place| place.key.clone()).collect();
                self.put_behind(name, &keys, (why, true), at, traces);
            }
        }
        Ok(LineDone::Token(chosen.created))
    }

    fn successor(&self, line: &Line, to: &Successor) -> Result<Arc<Place>, Refusal> {
        let is_meant = |place: &&Arc<Place>| match (to, place.session()) {
            (Successor::Session(wanted), session) => session == Some(*wanted),
            (Successor::Identity(wanted), Some(session)) => {
                self.queues.session(session).is_some_and(|known| known.identity == *wanted)
            }
            (Successor::Identity(_), None) => false,
        };
        let mut meant = line.places().iter().filter(is_meant);
        match (meant.next(), meant.next()) {
            (Some(place), None) => Ok(place.clone()),
            _ => Err(Refusal::NoSuchCandidate),
        }
    }

    fn evict(
        &mut self,
        name: &Bytes,
        token: Option<Revision>,
        at: At,
        traces: &mut Traces,
    ) -> Result<LineDone, Refusal> {
        let Some(line) = self.queues.line(name) else { return Ok(LineDone::Evicted(None)) };
        let place = match token {
            None => line.leader(),
            Some(token) => line.with_token(token),
        };
        let Some(place) = place.cloned() else { return Ok(LineDone::Evicted(None)) };
        if place.key == frozen_key(name) {
            return Err(Refusal::NameFrozen);
        }
        let identity = self.store.get(&place.key).map(|kv| self.queues.identity_of(&place, kv));
        self.take_away(name, &place, TenureEnd::Evicted, at, traces);
        Ok(LineDone::Evicted(Some((place, identity.unwrap_or_default()))))
    }

    /// Takes a place from whoever has it. The key of a client of etcd's is never deleted under it, or
    /// the client would take that for its turn: it loses its lease. It may believe in that for as long as it
    /// would have lived.
    fn take_away(
        &mut self,
        name: &Bytes,
        place: &Arc<Place>,
        why: TenureEnd,
        at: At,
        traces: &mut Traces,
    ) {
        let cause = Cause::ends(at, why, false);
        let stock = place.lease.filter(|_| place.candidate.is_none() && place.holds());
        if let Some((lease, known)) = stock.and_then(|id| Some((id, self.leases.get(id)?))) {
            let ttl_ms = known.ttl_secs.max(1) as u64 * 1000;
            let (held, now) = ((lease, place.created), self.store.revision());
            self.queues.begin_delay(name, held, ttl_ms, now, &mut traces.lines);
        }
        match (&place.candidate, place.lease) {
            (Some(candidate), _) => {
                let keys = self.keys_together(candidate);
                self.delete(&keys, &cause, traces);
            }
            (None, Some(lease)) => match self.leases.revoke(lease) {
                Ok(keys) => {
                    let end = (why, SessionEnd::Revoked, false);
                    self.end_lease(lease, &keys, end, at, traces);
                }
                Err(_) => self.delete(std::slice::from_ref(&place.key), &cause, traces),
            },
            (None, None) => self.delete(std::slice::from_ref(&place.key), &cause, traces),
        }
    }

    fn freeze(&mut self, name: &Bytes, at: At, traces: &mut Traces) -> Result<LineDone, Refusal> {
        queue::check_name(name)?;
        self.queues.check_nesting(name)?;
        let line = self.queues.line(name).cloned().unwrap_or_default();
        // Clients of etcd's would lead as soon as they see themselves first. They lose their leases;
        // whoever comes later waits behind the mark, and so does whoever has come since it was set.
        let mark = line.frost();
        for place in &line.places()[..mark.unwrap_or(line.places().len())] {
            // A key that hangs on nothing is somebody's data, and leads nobody.
            let stock = place.candidate.is_none() && place.lease.is_some();
            if stock || (place.holds() && place.candidate.is_some()) {
                self.take_away(name, place, TenureEnd::Frozen, at, traces);
            }
        }
        if mark.is_some() {
            return Ok(LineDone::Done);
        }
        let mark = Put {
            key: frozen_key(name),
            value: Some(Bytes::new()),
            lease: PutLease::Set(None),
            prev_kv: false,
        };
        let done = self.store.put(&mark, &|_| true).expect("a put without a lease cannot fail");
        self.record(done.1, &Cause::client(at), traces);
        let waiting: Vec<_> = self.queues.line(name).map_or(vec![], |line| {
            line.places().iter().filter(|p| p.candidate.is_some()).map(|p| p.key.clone()).collect()
        });
        self.put_behind(name, &waiting, (TenureEnd::Frozen, true), at, traces);
        Ok(LineDone::Done)
    }

    fn resume(&mut self, name: &Bytes, at: At, traces: &mut Traces) -> Result<LineDone, Refusal> {
        let key = frozen_key(name);
        if self.store.get(&key).is_none() {
            return Err(Refusal::NameNotFrozen);
        }
        self.delete(&[key], &Cause::client(at), traces);
        Ok(LineDone::Done)
    }

    /// What this term's raft leader found to have lasted long enough.
    pub(super) fn end_overdue(
        &mut self,
        judged_in: Term,
        overdue: &[Overdue],
        at: At,
        traces: &mut Traces,
    ) {
        for overdue in overdue.iter().filter(|_| judged_in == at.term) {
            match overdue {
                // It may have lost something else since it was judged.
                Overdue::Delay(session, since) => {
                    if self.queues.is_delayed_since(*session, *since) {
                        self.end_delay(*session, traces);
                    }
                }
                Overdue::Drain(name, token) => self.end_drain(name, *token, at, traces),
            }
        }
    }

    fn end_delay(&mut self, session: LeaseId, traces: &mut Traces) {
        let settled = self.queues.end_delay(session, None, false, &mut traces.lines);
        traces.touched.extend(settled);
    }

    fn end_drain(&mut self, name: &Bytes, token: Revision, at: At, traces: &mut Traces) {
        let Some(line) = self.queues.line(name) else { return };
        // Room may be made for another since it was judged: then the leader has its whole time again.
        let is_meant = |transfer: &Transfer| {
            line.place_of(transfer.to).is_some_and(|successor| successor.created == token)
        };
        let transfer = line.transfer().copied().filter(is_meant);
        if let (Some(transfer), Some(leader)) = (transfer, line.leader().cloned()) {
            self.hand_over(name, &leader, (transfer, false, false), at, traces);
        }
    }

    /// Writes a holder's value.
    pub(super) fn show(&mut self, key: &Bytes, value: &Bytes, at: At, traces: &mut Traces) {
        let (key, value) = (key.clone(), Some(value.clone()));
        let put = Put { key, value, lease: PutLease::Keep, prev_kv: false };
        if let Ok((_, change)) = self.store.put(&put, &|_| true) {
            self.record(change, &Cause::client(at), traces);
        }
    }
}
