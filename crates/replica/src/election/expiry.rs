//! What ends because its time is over: the wait for the stop of a former holder, and the time to make room.

use bytes::Bytes;
use tenure_api::{LeaseId, Revision, Term};

use super::{ElectionEvent, Elections, Transfer};
use crate::{
    command::Overdue,
    state::{ApplyEffects, EntryContext, State},
};

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
}

impl State {
    /// What this term's raft leader found to have lasted long enough.
    pub(crate) fn end_overdue(
        &mut self,
        judged_in: Term,
        overdue: &[Overdue],
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) {
        for overdue in overdue.iter().filter(|_| judged_in == at.term) {
            match overdue {
                // It may have lost something else since it was judged.
                Overdue::Delay(session, since) => {
                    if self.elections.is_delayed_since(*session, *since) {
                        self.end_delay(*session, effects);
                    }
                }
                Overdue::Drain(name, token) => self.end_drain(name, *token, at, effects),
            }
        }
    }

    fn end_delay(&mut self, session: LeaseId, effects: &mut ApplyEffects) {
        let settled = self.elections.end_delay(session, None, false, &mut effects.elections);
        effects.touched.extend(settled);
    }

    fn end_drain(
        &mut self,
        name: &Bytes,
        token: Revision,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) {
        let Some(election) = self.elections.election(name) else { return };
        // Room may be made for another since it was judged: then the leader has its whole time again.
        let is_meant = |transfer: &Transfer| {
            election.candidate_of(transfer.to).is_some_and(|successor| successor.created == token)
        };
        let transfer = election.transfer().copied().filter(is_meant);
        if let (Some(transfer), Some(leader)) = (transfer, election.leader().cloned()) {
            self.hand_over(name, &leader, (transfer, false, false), at, effects);
        }
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

    /// Whether a session's stop is waited for, and has been since this revision and no later one.
    pub(crate) fn is_delayed_since(&self, session: LeaseId, since: Revision) -> bool {
        self.delays.get(&session).is_some_and(|delay| delay.since == since)
    }

    /// Candidates that want no overlap wait until the holder of this token has surely stopped.
    pub(crate) fn begin_delay(
        &mut self,
        name: &Bytes,
        (session, token): (LeaseId, Revision),
        ttl_ms: u64,
        at: Revision,
        events: &mut Vec<ElectionEvent>,
    ) {
        let Some(election) = self.election_mut(name) else { return };
        if !election.delays.contains(&session) {
            election.delays.push(session);
        }
        let delay = self.delays.entry(session).or_default();
        match delay.names.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = token,
            None => delay.names.push((name.clone(), token)),
        }
        delay.ttl_ms = delay.ttl_ms.max(ttl_ms);
        delay.since = at;
        // Again, if it was delayed already: its time counts from now.
        events.push(ElectionEvent::Delayed { session });
    }

    /// A session's work has surely stopped, everywhere or with one token, because that was `confirmed` or
    /// enough time has passed; answers the elections to settle.
    pub(crate) fn end_delay(
        &mut self,
        session: LeaseId,
        only: Option<(&Bytes, Revision)>,
        confirmed: bool,
        events: &mut Vec<ElectionEvent>,
    ) -> Vec<Bytes> {
        let Some(delay) = self.delays.get_mut(&session) else { return vec![] };
        let over = |(name, token): &mut (Bytes, Revision)| {
            only.is_none_or(|(only, with)| name == only && *token == with)
        };
        let ended: Vec<(Bytes, Revision)> = delay.names.extract_if(.., over).collect();
        if delay.names.is_empty() {
            self.delays.remove(&session);
            events.push(ElectionEvent::DelayOver { session });
        }
        for (name, token) in &ended {
            if let Some(election) = self.election_mut(name) {
                election.delays.retain(|delayed| *delayed != session);
                if confirmed {
                    election.mark_stopped(*token);
                }
            }
        }
        ended.into_iter().map(|(name, _)| name).collect()
    }
}
