//! What ends because its time is over: leases, the wait for the stop of a former holder, and the time to make room.

use bytes::Bytes;
use tenure_api::{LeaseId, Revision, Term};

use super::{
    ElectionEvent, Elections, EndReason, SecretDigest, SessionEndReason, Transfer,
    apply::Transition,
};
use crate::command::{Expiry, Overdue};

/// A session that held, went, and may not have noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// How long it lived without a sign of life.
    pub ttl_ms: u64,
    /// The revision at which it last lost something. A verdict that the time is over says which time it
    /// means.
    pub since: Revision,
    /// The elections that remember it, and the tokens it had there last.
    pub names: Vec<(Bytes, Revision)>,
    /// What a client must show to say that its work has ended.
    pub secret: Option<SecretDigest>,
}

impl Transition<'_> {
    /// Leases that this term's raft leader found to have run out.
    pub(super) fn expire(&mut self, judged_in: Term, expiries: &[Expiry]) {
        for expiry in expiries {
            let confirmed = self.leases.confirms(*expiry) || canary!(StaleExpiry);
            if judged_in != self.at.term || !confirmed {
                self.effects.refused_expiries.push(expiry.id);
            } else if let Ok(keys) = self.leases.revoke(expiry.id) {
                // Its time has passed, so there is no need to wait for it; but it has not said that it stopped.
                let why = (EndReason::Expired, SessionEndReason::Expired);
                self.end_lease(expiry.id, keys, why, false);
            }
        }
    }

    /// What this term's raft leader found to have lasted long enough.
    pub(super) fn end_overdue(&mut self, judged_in: Term, overdue: &[Overdue]) {
        if judged_in != self.at.term {
            return;
        }
        for overdue in overdue {
            match overdue {
                // It may have lost something else since it was judged.
                Overdue::Delay(session, since) => {
                    if self.elections.delay(*session).is_some_and(|delay| delay.since == *since) {
                        self.end_delay(*session, None, false);
                    }
                }
                Overdue::Drain(name, token) => self.end_drain(name, *token),
            }
        }
    }

    fn end_drain(&mut self, name: &Bytes, token: Revision) {
        let Some(election) = self.elections.election(name) else { return };
        // Room may be made for another since it was judged: then the leader has its whole time again.
        let is_meant = |transfer: &Transfer| {
            election.candidate_of(transfer.to).is_some_and(|successor| successor.created == token)
        };
        let transfer = election.transfer().copied().filter(is_meant);
        if let (Some(transfer), Some(leader)) = (transfer, election.leader().cloned()) {
            self.hand_over(name, &leader, transfer, (false, false));
        }
    }

    /// Candidates that want no overlap wait until the holder of this token has surely stopped.
    pub(super) fn begin_delay(
        &mut self,
        name: &Bytes,
        (session, token): (LeaseId, Revision),
        ttl_ms: u64,
        at: Revision,
    ) {
        let secret = self.elections.session(session).and_then(|session| session.secret);
        let Some(election) = self.elections.election_mut(name) else { return };
        if !election.delays.contains(&session) {
            election.delays.push(session);
        }
        let delay = self.elections.delays.entry(session).or_default();
        match delay.names.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = token,
            None => delay.names.push((name.clone(), token)),
        }
        delay.ttl_ms = delay.ttl_ms.max(ttl_ms);
        delay.since = at;
        delay.secret = secret.or(delay.secret);
        // Again, if it was delayed already: its time counts from now.
        self.tell(ElectionEvent::Delayed { session });
    }

    /// A session's work has surely stopped, everywhere or with one token, because that was `confirmed` or
    /// enough time has passed. Answers whether that was waited for.
    pub(super) fn end_delay(
        &mut self,
        session: LeaseId,
        only: Option<(&Bytes, Revision)>,
        confirmed: bool,
    ) -> bool {
        let Some(delay) = self.elections.delays.get_mut(&session) else { return false };
        let over = |(name, token): &mut (Bytes, Revision)| {
            only.is_none_or(|(only, with)| name == only && *token == with)
        };
        let ended: Vec<(Bytes, Revision)> = delay.names.extract_if(.., over).collect();
        if delay.names.is_empty() {
            self.elections.delays.remove(&session);
            self.tell(ElectionEvent::DelayOver { session });
        }
        for (name, token) in &ended {
            if let Some(election) = self.elections.election_mut(name) {
                election.delays.retain(|delayed| *delayed != session);
                if confirmed {
                    election.mark_stopped(*token);
                }
            }
        }
        let any = !ended.is_empty();
        self.touched.extend(ended.into_iter().map(|(name, _)| name));
        any
    }
}

impl Elections {
    /// Sessions whose stop is not confirmed.
    pub fn delays(&self) -> impl Iterator<Item = (LeaseId, &Delay)> {
        self.delays.iter().map(|(session, delay)| (*session, delay))
    }

    /// A session whose stop is not confirmed.
    pub fn delay(&self, session: LeaseId) -> Option<&Delay> {
        self.delays.get(&session)
    }
}
