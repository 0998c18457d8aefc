//! All elections and sessions.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use imbl::{OrdMap, OrdSet};
use tenure_api::{KeyValue, LeaseId, Revision};

use super::{CandidacyView, Candidate, Delay, Election, Refusal, Session};

/// Elections without candidates that are kept for their history; the longest idle go first.
pub(super) const IDLE_ELECTIONS_MAX: usize = 1000;
/// Bytes of a leader's value that its tenure remembers.
pub(super) const TENURE_VALUE_BYTES_MAX: usize = 1024;
/// Bytes of an identity that is taken from a value.
const STOCK_IDENTITY_BYTES_MAX: usize = 128;

/// Everything about elections and locks that all members agree on. Cloning is O(1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elections {
    pub(super) elections: OrdMap<Bytes, Arc<Election>>,
    pub(super) sessions: OrdMap<LeaseId, Arc<Session>>,
    /// Sessions whose stop was not confirmed, and the elections that remember it.
    pub(super) delays: OrdMap<LeaseId, Delay>,
    pub(super) idle: OrdSet<(Revision, Bytes)>,
    /// Up to which revision elections that were forgotten altogether had tenures.
    pub(super) forgotten: Revision,
}

impl Elections {
    /// The election under a name.
    pub fn election(&self, name: &[u8]) -> Option<&Arc<Election>> {
        self.elections.get(name)
    }

    /// The candidate of a session in an election.
    pub fn candidate_of(&self, name: &[u8], session: LeaseId) -> Option<&Arc<Candidate>> {
        self.election(name)?.candidate_of(session)
    }

    /// All elections, in order of their names.
    pub fn elections(&self) -> impl Iterator<Item = (&Bytes, &Arc<Election>)> {
        self.elections.iter()
    }

    /// All elections from a name on.
    pub fn elections_from(&self, name: &Bytes) -> impl Iterator<Item = (&Bytes, &Arc<Election>)> {
        self.elections.range(name.clone()..)
    }

    /// The names whose elections differ between two states. States share all that is the same in both, so this takes time in
    /// proportion to what is not.
    pub fn differences(&self, other: &Elections) -> Vec<Bytes> {
        use imbl::ordmap::DiffItem;
        let differing = other.elections.diff(&self.elections).filter_map(|item| match item {
            DiffItem::Add(name, _) | DiffItem::Remove(name, _) => Some(name.clone()),
            DiffItem::Update { old: (name, old), new: (_, new) } => {
                (!Arc::ptr_eq(old, new)).then(|| name.clone())
            }
        });
        differing.collect()
    }

    /// Whether there is any election at all.
    pub fn has_elections(&self) -> bool {
        !self.elections.is_empty()
    }

    /// A session.
    pub fn session(&self, id: LeaseId) -> Option<&Arc<Session>> {
        self.sessions.get(&id)
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = (LeaseId, &Arc<Session>)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// A session to change.
    pub(super) fn session_mut(&mut self, id: LeaseId) -> Option<&mut Session> {
        self.sessions.get_mut(&id).map(Arc::make_mut)
    }

    /// A session gets an owner, unless it has one.
    pub(crate) fn keep_owner(&mut self, id: LeaseId, user: &Arc<str>) {
        if let Some(session) = self.session_mut(id) {
            session.owner.get_or_insert_with(|| user.clone());
        }
    }

    pub(super) fn election_mut(&mut self, name: &[u8]) -> Option<&mut Election> {
        self.elections.get_mut(name).map(Arc::make_mut)
    }

    /// Up to which revision tenures under this name may be missing: what was forgotten of others does not
    /// matter to an election that is there.
    pub fn forgotten_of(&self, name: &[u8]) -> Revision {
        self.election(name).map_or(self.forgotten, |election| election.forgotten)
    }

    /// Nothing is known of any tenure up to this revision.
    pub(crate) fn forget_until(&mut self, revision: Revision) {
        self.forgotten = self.forgotten.max(revision);
        let names: Vec<Bytes> = self.elections.keys().cloned().collect();
        for name in names {
            if let Some(election) = self.election_mut(&name) {
                election.forgotten = election.forgotten.max(revision);
            }
        }
    }

    /// Refuses a name above or below that of a live election: each would count the other's keys.
    pub(super) fn check_nesting(&self, name: &Bytes) -> Result<(), Refusal> {
        let lives = |election: &Arc<Election>| !election.candidates.is_empty();
        let above = super::names_above(&self.elections, name);
        let above = above.into_iter().any(|above| self.elections.get(above).is_some_and(lives));
        let prefix = Bytes::from([name, &b"/"[..]].concat());
        let below = self
            .elections
            .range(prefix.clone()..)
            .take_while(|(below, _)| below.starts_with(&prefix))
            .any(|(_, election)| lives(election));
        if above || below { Err(Refusal::NestedName) } else { Ok(()) }
    }

    /// A candidate's identity, for people.
    pub fn identity_of(&self, candidate: &Candidate, kv: &KeyValue) -> String {
        identity_of(&self.sessions, candidate, kv)
    }

    /// Everything a session has.
    pub fn candidacies_of(&self, id: LeaseId) -> Vec<CandidacyView> {
        let Some(session) = self.session(id) else { return vec![] };
        session.candidates.iter().filter_map(|name| self.candidacy(name, id)).collect()
    }

    /// The candidacies of all sessions, in the order of names. One pass through all elections: an election is searched
    /// from its start for a candidate, so that looking up each of many in the same one would take quadratic time.
    pub fn all_candidacies(&self) -> BTreeMap<LeaseId, Vec<CandidacyView>> {
        let mut all = BTreeMap::<LeaseId, Vec<CandidacyView>>::new();
        for (name, election) in self.elections() {
            for candidate in election.candidates() {
                if let Some(id) = candidate.session() {
                    all.entry(id).or_default().push(self.info(name, election, candidate));
                }
            }
        }
        all
    }

    pub(super) fn candidacy(&self, name: &Bytes, id: LeaseId) -> Option<CandidacyView> {
        let election = self.election(name)?;
        Some(self.info(name, election, election.candidate_of(id)?))
    }

    fn info(&self, name: &Bytes, election: &Election, candidate: &Arc<Candidate>) -> CandidacyView {
        let transfer = election.transfer().filter(|transfer| transfer.from == candidate.created);
        let makes_room = transfer.map(|transfer| {
            let successor = self.session(transfer.to);
            let successor = successor.map(|session| session.identity.clone());
            (successor.unwrap_or_default(), transfer.within_ms)
        });
        let (name, candidate) = (name.clone(), candidate.clone());
        CandidacyView { name, ahead: election.ahead(&candidate), makes_room, candidate }
    }
}

pub(super) fn identity_of(
    sessions: &OrdMap<LeaseId, Arc<Session>>,
    candidate: &Candidate,
    kv: &KeyValue,
) -> String {
    match candidate.session().and_then(|session| sessions.get(&session)) {
        Some(session) => session.identity.clone(),
        None => {
            let value = shortened(&kv.value, STOCK_IDENTITY_BYTES_MAX);
            String::from_utf8_lossy(&value).into_owned()
        }
    }
}

pub(super) fn shortened(value: &Bytes, bytes_max: usize) -> Bytes {
    Bytes::copy_from_slice(&value[..value.len().min(bytes_max)])
}
