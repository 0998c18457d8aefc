//! Elections and sessions as readers see them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_api::{Failure, KeyValue, LeaseId, Principal, Span};

use super::Replica;
use crate::{
    Moment,
    auth::Caller,
    election::{CandidacyView, Candidate, Election, Session, frozen_key},
    state::State,
};

/// A candidate of an election.
#[derive(Clone, Debug)]
pub struct CandidateView {
    /// The candidate.
    pub candidate: Arc<Candidate>,
    /// Its identity, for people.
    pub identity: String,
    /// The key as it is.
    pub kv: Arc<KeyValue>,
    /// When its tenure began, in milliseconds since 1970, if it leads; for people.
    pub leads_since_ms: Option<u64>,
}

/// An election with all its candidates.
#[derive(Clone, Debug, Default)]
pub struct ElectionView {
    /// The election itself: its history, its transfer.
    pub election: Arc<Election>,
    /// All candidates, in order, the mark of a frozen name left out.
    pub candidates: Vec<CandidateView>,
    /// How much longer a former holder may act, as this member sees it.
    pub delay: Option<Duration>,
}

/// An election from afar.
#[derive(Clone, Debug)]
pub struct ElectionSummary {
    /// Its name.
    pub name: Bytes,
    /// How many hold.
    pub holders: usize,
    /// How many wait.
    pub waiting: usize,
    /// No candidate may lead.
    pub frozen: bool,
    /// The first of the holders.
    pub leader: Option<CandidateView>,
}

/// All sessions as they were at one moment. Putting it together is left to the caller, outside the
/// core loop.
#[derive(Clone, Debug)]
pub struct SessionsView {
    by: Principal,
    state: State,
    remaining: Vec<Duration>,
}

impl SessionsView {
    /// Each of them that the principal may see, in the order of their ids: its own, and root all.
    pub fn sessions(&self) -> Vec<SessionView> {
        let mut candidacies = self.state.elections.all_candidacies();
        let sessions = self.state.elections.sessions().zip(&self.remaining);
        let caller = self.state.auth.caller(&self.by, Failure::PermissionDenied);
        let is_seen = |session: &Session| {
            let is_own = |caller: &Caller<'_>| {
                session.owner.as_deref().is_some_and(|owner| caller.is(owner)) || caller.is_root()
            };
            caller.as_ref().is_ok_and(is_own)
        };
        sessions
            .filter(|((_, session), _)| is_seen(session))
            .map(|((id, session), remaining)| SessionView {
                id,
                session: session.clone(),
                remaining: *remaining,
                candidacies: candidacies.remove(&id).unwrap_or_default(),
            })
            .collect()
    }
}

/// A session and all it has.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// Its number.
    pub id: LeaseId,
    /// The session.
    pub session: Arc<Session>,
    /// How long it has left, as this member sees it.
    pub remaining: Duration,
    /// Where it stands.
    pub candidacies: Vec<CandidacyView>,
}

impl Replica {
    /// The leader of a name by etcd's rule, whether an election is kept for it or not: the key under it
    /// that was created first. The mark of a frozen name is no leader.
    pub(super) fn leader_of(&self, name: &Bytes) -> Option<Arc<KeyValue>> {
        let first = match self.state.elections.election(name) {
            Some(election) => {
                election.candidates().first().and_then(|p| self.state.store.get(&p.key)).cloned()
            }
            None => {
                let span = Span::prefix([name, &b"/"[..]].concat().into());
                let keys = self.state.store.live_in(&span);
                keys.min_by_key(|kv| kv.create_revision).cloned()
            }
        };
        first.filter(|kv| kv.key != frozen_key(name))
    }

    pub(super) fn election_view(&self, name: &Bytes, now: Moment) -> ElectionView {
        let election = self.state.elections.election(name).cloned().unwrap_or_default();
        let candidates = election
            .candidates()
            .iter()
            .filter_map(|candidate| self.candidate_view(name, &election, candidate))
            .collect();
        let delay = election.delays().map(|session| self.elections.left_of(session, now)).max();
        ElectionView { election, candidates, delay }
    }

    pub(super) fn election_summaries(&self, prefix: &Bytes, most: usize) -> Vec<ElectionSummary> {
        let elections = self.state.elections.elections_from(prefix);
        elections
            .take_while(|(name, _)| name.starts_with(prefix))
            .filter(|(_, election)| !election.candidates().is_empty())
            .take(most)
            .map(|(name, election)| {
                let holders =
                    election.candidates().iter().filter(|candidate| candidate.holds()).count();
                let marks = usize::from(self.state.store.get(&frozen_key(name)).is_some());
                ElectionSummary {
                    name: name.clone(),
                    holders,
                    waiting: election.candidates().len() - holders - marks,
                    frozen: election.is_frozen(),
                    leader: election
                        .leader()
                        .and_then(|candidate| self.candidate_view(name, election, candidate)),
                }
            })
            .collect()
    }

    pub(super) fn sessions_view(&self, by: &Principal, now: Moment) -> SessionsView {
        let left = |id| self.deadlines.remaining(&id, now).unwrap_or_default();
        let remaining = self.state.elections.sessions().map(|(id, _)| left(id)).collect();
        SessionsView { by: by.clone(), state: self.state.clone(), remaining }
    }

    fn candidate_view(
        &self,
        name: &Bytes,
        election: &Election,
        candidate: &Arc<Candidate>,
    ) -> Option<CandidateView> {
        let kv = self.state.store.get(&candidate.key).filter(|kv| kv.key != frozen_key(name))?;
        let identity = self.state.elections.identity_of(candidate, kv);
        let tenure = election.tenure_of(candidate);
        let leads_since_ms = tenure.map(|tenure| tenure.from_ms);
        Some(CandidateView {
            candidate: candidate.clone(),
            identity,
            kv: kv.clone(),
            leads_since_ms,
        })
    }
}
