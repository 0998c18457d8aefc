//! What the cluster has agreed on, as seen from outside.
//!
//! The first member that commits an entry defines it; from then on every member is compared with it. The entries are
//! applied to a reference state, so that every answer, event and state can be compared with what it must be.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use bytes::Bytes;
use tenure_api::{
    EventKind, Failure, KeyValue, LeaseId, Member, MemberId, Principal, Revision, Span, Term,
};
use tenure_replica::{
    Entry, EntryContext, EntryKind, LogIndex, Moment, Operation, Outcome, Snapshot, State,
    codec::{Codec, DecodeError, Reader},
    command::{Attributed, Batch, Command},
    election::ElectionEvent,
    mvcc::Change,
    state::ApplyEffects,
};

use crate::{
    engine::RunCounts,
    invariants::{acts_once::ActsOnce, election_advances, fifo, freed_by_its_token, rights_kept},
};

/// How many past states are kept, for members that lag.
const STATES_KEPT: usize = 1000;

pub struct Truth {
    entries: Vec<(Term, u64)>,
    /// The term in which each entry was agreed on. The term of the entry itself may be an earlier one.
    agreed_in: Vec<Term>,
    /// When each entry that is not agreed on yet was first in a log.
    logged: BTreeMap<(LogIndex, Term), Moment>,
    state: State,
    states: VecDeque<State>,
    /// Every change ever, in order of revision; compaction does not touch it.
    pub changes: Vec<Change>,
    by_key: BTreeMap<Bytes, Vec<std::sync::Arc<KeyValue>>>,
    /// The revisions at which each value was written. Values are unique: two are one too many.
    written: BTreeMap<Bytes, Vec<Revision>>,
    pub leases: BTreeMap<LeaseId, LeaseHistory>,
    /// The term in which each removed member was let go. Until then it may still lead.
    pub removed: BTreeMap<MemberId, Term>,
    /// Leases that ended since the last call of `take_ended`.
    ended: Vec<LeaseId>,
    /// Tenures that began since the last call of `take_began`: name and token.
    began: Vec<(Bytes, Revision)>,
    acts_once: ActsOnce,
    /// The outcomes of each command, by its hash and the revision in its answer.
    outcomes: BTreeMap<(u64, Revision), Vec<Outcome>>,
}

/// A lease's history, according to the log.
#[derive(Clone, Debug)]
pub struct LeaseHistory {
    pub ttl: Duration,
    /// When the entry that renewed it was agreed on.
    pub renewed: Moment,
    /// When that entry was first in a log.
    pub logged: Moment,
    pub ended: Option<LeaseEnd>,
}

#[derive(Clone, Copy, Debug)]
pub struct LeaseEnd {
    pub at: Moment,
    /// Whether it expired, rather than being revoked.
    pub expired: bool,
}

impl Truth {
    pub fn new(members: Vec<Member>) -> Truth {
        Truth::from(State::new(members))
    }

    /// For a cluster that begins with a snapshot: nothing before that is looked at.
    pub fn restored(snapshot: Snapshot) -> Truth {
        let mut truth = Truth::from(snapshot.state);
        truth.entries = vec![(snapshot.mark.term, 0); snapshot.mark.index as usize];
        truth.agreed_in = vec![snapshot.mark.term; snapshot.mark.index as usize];
        for kv in truth.state.store.live_in(&Span::From(Bytes::new())) {
            truth.by_key.insert(kv.key.clone(), vec![kv.clone()]);
            truth.written.insert(kv.value.clone(), vec![kv.mod_revision]);
        }
        truth
    }

    fn from(state: State) -> Truth {
        Truth {
            entries: vec![],
            agreed_in: vec![],
            logged: BTreeMap::new(),
            states: VecDeque::from([state.clone()]),
            state,
            changes: vec![],
            by_key: BTreeMap::new(),
            written: BTreeMap::new(),
            leases: BTreeMap::new(),
            removed: BTreeMap::new(),
            ended: vec![],
            began: vec![],
            acts_once: ActsOnce::default(),
            outcomes: BTreeMap::new(),
        }
    }

    pub fn last(&self) -> LogIndex {
        self.entries.len() as u64
    }

    pub fn term(&self, index: LogIndex) -> Option<Term> {
        self.entries.get(index.checked_sub(1)? as usize).map(|(term, _)| *term)
    }

    /// The last entry that was agreed on before this term began.
    pub fn last_before(&self, term: Term) -> LogIndex {
        self.agreed_in.partition_point(|agreed| *agreed < term) as LogIndex
    }

    /// Whether this is the entry that was agreed on.
    pub fn agrees(&self, entry: &Entry) -> bool {
        self.entries.get(entry.index as usize - 1) == Some(&print(entry))
    }

    /// The state after an entry; none if it is not kept any more.
    pub fn state_at(&self, index: LogIndex) -> Option<&State> {
        let ago = self.last().checked_sub(index)?;
        let position = self.states.len().checked_sub(1 + ago as usize)?;
        self.states.get(position)
    }

    /// The states since that entry, as far as they are kept.
    pub fn states_since(&self, index: LogIndex) -> impl Iterator<Item = &State> {
        let ago = self.last().saturating_sub(index) as usize;
        let first = self.states.len().saturating_sub(1 + ago);
        self.states.range(first..)
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn written(&self, value: &[u8]) -> &[Revision] {
        self.written.get(value).map_or(&[], Vec::as_slice)
    }

    /// The version of a key at a revision; none if it did not exist.
    pub fn version_at(&self, key: &[u8], at: Revision) -> Option<&KeyValue> {
        let versions = self.by_key.get(key)?;
        let count = versions.partition_point(|kv| kv.mod_revision <= at);
        versions.get(count.checked_sub(1)?).map(|kv| &**kv).filter(|kv| !kv.is_tombstone())
    }

    pub fn changes_since(&self, from: Revision) -> &[Change] {
        let first = self.changes.partition_point(|change| change.revision < from);
        &self.changes[first..]
    }

    pub fn take_ended(&mut self) -> Vec<LeaseId> {
        std::mem::take(&mut self.ended)
    }

    pub fn take_began(&mut self) -> Vec<(Bytes, Revision)> {
        std::mem::take(&mut self.began)
    }

    /// The next entry was agreed on, in this term. Returns the values that it wrote.
    pub fn learn(
        &mut self,
        now: Moment,
        entry: &Entry,
        in_term: Term,
        counts: &mut RunCounts,
    ) -> Vec<Bytes> {
        assert_eq!(entry.index, self.last() + 1);
        self.entries.push(print(entry));
        self.agreed_in.push(in_term);
        let later = self.logged.split_off(&(entry.index + 1, Term(0)));
        let logged = std::mem::replace(&mut self.logged, later);
        let logged = logged.get(&(entry.index, entry.term)).copied().unwrap_or(now);
        let first_change = self.changes.len();
        if !entry.data.is_empty() {
            let (ms, batches) = decode(&entry.data).expect("what was agreed on can be read");
            for batch in batches {
                self.apply((now, logged, ms), entry, &batch, counts);
                for Attributed { command, .. } in &batch.commands {
                    if let Command::LetGo(gone) = command {
                        self.removed.entry(*gone).or_insert(in_term);
                    }
                }
            }
        } else if entry.kind == EntryKind::Membership {
            self.state.finish_change();
        }
        self.states.push_back(self.state.clone());
        if self.states.len() > STATES_KEPT {
            self.states.pop_front();
        }
        self.changes[first_change..]
            .iter()
            .flat_map(|change| change.events.iter())
            .filter(|event| event.kind == EventKind::Put)
            .map(|event| event.kv.value.clone())
            .collect()
    }

    /// A member logs entries, perhaps as the first.
    pub fn logged(&mut self, now: Moment, entries: &[Entry]) {
        let last = self.last();
        for entry in entries.iter().filter(|entry| entry.index > last) {
            self.logged.entry((entry.index, entry.term)).or_insert(now);
        }
    }

    fn apply(
        &mut self,
        (now, logged, ms): (Moment, Moment, u64),
        entry: &Entry,
        batch: &Batch,
        counts: &mut RunCounts,
    ) {
        if !self.state.admits(batch) {
            return;
        }
        for Attributed { by, command } in &batch.commands {
            match by {
                Principal::Anonymous | Principal::Unproven => {}
                Principal::User { .. } => counts.count("by a user"),
                Principal::System => counts.count("by the system"),
            }
            let mut effects = ApplyEffects::default();
            if let (EntryKind::Membership, Command::Members(change)) = (entry.kind, command) {
                let _ = self.state.begin_change(change);
                continue;
            }
            let at = EntryContext { index: entry.index, term: entry.term, ms };
            let before = matches!(command, Command::Election(_)).then(|| self.state.clone());
            let auth = self.state.auth.clone();
            let outcome = self.state.apply(at, by, command, &mut effects);
            if matches!(by, Principal::User { .. }) {
                let op = Operation::Write(command.clone());
                rights_kept::check(by, &op, &outcome, &auth, counts);
            }
            self.note_outcome(command, outcome, effects.done_at);
            if let Some(before) = before {
                fifo::check(command, &before, &self.state, counts);
                freed_by_its_token::check(command, &effects.elections, counts);
                self.acts_once.check(command, &effects, counts);
            }
            if !effects.elections.is_empty() {
                election_advances::check(&self.state, counts);
            }
            for event in &effects.elections {
                if let ElectionEvent::Began { name, tenure, .. } = event {
                    self.began.push((name.clone(), tenure.token));
                }
            }
            for id in &effects.restarted {
                let Some(ttl) = self.state.time_to_live(*id) else { continue };
                let history = LeaseHistory { ttl, renewed: now, logged, ended: None };
                self.leases.insert(*id, history);
            }
            let expired = matches!(command, Command::LeaseExpire(..));
            for lease in &effects.ended {
                self.ended.push(*lease);
                if let Some(history) = self.leases.get_mut(lease) {
                    history.ended = Some(LeaseEnd { at: now, expired });
                }
            }
            for change in effects.changes {
                self.note(change);
            }
        }
    }

    fn note_outcome(
        &mut self,
        command: &Command,
        outcome: Result<Outcome, Failure>,
        done_at: Revision,
    ) {
        let Ok(outcome) = outcome else { return };
        let told = match &outcome {
            Outcome::Put(_) | Outcome::DeleteRange(_) | Outcome::Txn(_) => done_at,
            _ => self.state.store.revision(),
        };
        self.outcomes.entry((hash_of(command), told)).or_default().push(outcome);
    }

    /// Whether this command had this outcome, at that revision.
    pub fn did(&self, command: &Command, told: Revision, outcome: &Outcome) -> bool {
        let outcomes = self.outcomes.get(&(hash_of(command), told));
        outcomes.is_some_and(|outcomes| outcomes.contains(outcome))
    }

    /// The states at a revision, as far as they are kept.
    pub fn states_at(&self, at: Revision) -> impl Iterator<Item = &State> {
        let first = self.states.partition_point(|state| state.store.revision() < at);
        self.states.range(first..).take_while(move |state| state.store.revision() == at)
    }

    fn note(&mut self, change: Change) {
        for event in change.events.iter() {
            self.by_key.entry(event.kv.key.clone()).or_default().push(event.kv.clone());
            if event.kind == EventKind::Put {
                self.written.entry(event.kv.value.clone()).or_default().push(event.kv.mod_revision);
            }
        }
        self.changes.push(change);
    }
}

/// An entry's term and, as one number, its content.
pub fn print(entry: &Entry) -> (Term, u64) {
    let mut hasher = DefaultHasher::new();
    (entry.kind as u8, &entry.data).hash(&mut hasher);
    (entry.term, hasher.finish())
}

/// An entry's clock and batches; the format is `command::batch`'s.
pub fn decode(data: &[u8]) -> Result<(u64, Vec<Batch>), DecodeError> {
    let mut input = Reader::new(data);
    let format = input.u8()?;
    let ms = if format >= 2 { input.u64()? } else { 0 };
    if format >= 3 {
        input.u64()?;
    }
    let batches = (0..input.count()?).map(|_| Batch::from_bytes(input.slice()?));
    Ok((ms, batches.collect::<Result<_, _>>()?))
}

/// A hash of everything that members must agree on.
pub fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    let hash = state.store.hash(None).expect("the newest revision has a hash");
    (hash.hash, hash.hash_revision, hash.compact_revision).hash(&mut hasher);
    for (id, lease) in state.leases.iter() {
        (id, lease.ttl_secs, lease.renewed_at).hash(&mut hasher);
        lease.keys.iter().for_each(|key| key.hash(&mut hasher));
    }
    for (member, origin) in &state.origins {
        (member, origin.boot, origin.sequence).hash(&mut hasher);
    }
    for (member, version) in &state.command_versions {
        (member, version).hash(&mut hasher);
    }
    for (member, number) in &state.directories {
        (member, number).hash(&mut hasher);
    }
    for member in state.members.values() {
        (&member.id, &member.name, &member.client_urls).hash(&mut hasher);
        (&member.peer_urls, member.is_learner).hash(&mut hasher);
    }
    state.removed.iter().for_each(|member| member.hash(&mut hasher));
    state.departing.keys().for_each(|member| member.hash(&mut hasher));
    format!("{:?}", state.change).hash(&mut hasher);
    state.cluster_version.hash(&mut hasher);
    state.elections.elections().for_each(|election| format!("{election:?}").hash(&mut hasher));
    state.elections.sessions().for_each(|session| format!("{session:?}").hash(&mut hasher));
    hasher.finish()
}

fn hash_of(command: &Command) -> u64 {
    let mut hasher = DefaultHasher::new();
    command.to_bytes().hash(&mut hasher);
    hasher.finish()
}
