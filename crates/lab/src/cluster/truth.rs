//! What the cluster has agreed on, as seen from outside.
//!
//! The first member that commits an entry defines it; from then on everybody is held against it. The
//! entries are applied to a state of our own, so that every answer, event and state can be compared
//! with what it must be.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use bytes::Bytes;
use tenure_api::{EventKind, KeyValue, LeaseId, Member, MemberId, Revision, Span, Term};
use tenure_replica::{
    At, Entry, EntryKind, Frozen, LogIndex, Moment, State,
    codec::{Codec, DecodeError, Reader},
    command::{Batch, Command},
    mvcc::Change,
    queue::Event,
    state::Traces,
};

use crate::{
    engine::Counts,
    invariants::{acts_once::ActsOnce, fifo, freed_by_its_token, queue_advances},
};

/// States of so many past entries are kept, for members that lag.
const STATES_KEPT: usize = 1000;

pub struct Truth {
    entries: Vec<(Term, u64)>,
    /// In which term each was agreed on. That of the entry itself may be an earlier one.
    agreed_in: Vec<Term>,
    state: State,
    states: VecDeque<State>,
    /// Every change ever, in order of revision; compaction does not touch it.
    pub changes: Vec<Change>,
    by_key: BTreeMap<Bytes, Vec<std::sync::Arc<KeyValue>>>,
    /// At which revisions a value was written. Values are unique: two are one too many.
    written: BTreeMap<Bytes, Vec<Revision>>,
    pub leases: BTreeMap<LeaseId, LeaseStory>,
    /// In which term each member that was removed was let go. Until then even that one may lead.
    pub removed: BTreeMap<MemberId, Term>,
    /// Leases that ended since somebody looked.
    ended: Vec<LeaseId>,
    /// Tenures that began since somebody looked: of which name, with which token.
    began: Vec<(Bytes, Revision)>,
    acts_once: ActsOnce,
}

/// A lease's life, as the log tells it.
#[derive(Clone, Debug)]
pub struct LeaseStory {
    pub ttl: Duration,
    pub renewed: Moment,
    pub ended: Option<LeaseEnd>,
}

#[derive(Clone, Copy, Debug)]
pub struct LeaseEnd {
    pub at: Moment,
    /// It ran out; nobody revoked it.
    pub expired: bool,
}

impl Truth {
    pub fn new(members: Vec<Member>) -> Truth {
        Truth::from(State::new(members))
    }

    /// Of a cluster that begins with a snapshot: nothing before it was ever agreed on, nor is looked for.
    pub fn restored(frozen: Frozen) -> Truth {
        let mut truth = Truth::from(frozen.state);
        truth.entries = vec![(frozen.mark.term, 0); frozen.mark.index as usize];
        truth.agreed_in = vec![frozen.mark.term; frozen.mark.index as usize];
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

    /// The state after an entry; none if that is too long ago.
    pub fn state_at(&self, index: LogIndex) -> Option<&State> {
        let ago = self.last().checked_sub(index)?;
        let place = self.states.len().checked_sub(1 + ago as usize)?;
        self.states.get(place)
    }

    /// The states from after that entry on, as far as they are kept.
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

    /// The next entry has been agreed on, in this term. Answers the values that it wrote.
    pub fn learn(
        &mut self,
        now: Moment,
        entry: &Entry,
        in_term: Term,
        counts: &mut Counts,
    ) -> Vec<Bytes> {
        assert_eq!(entry.index, self.last() + 1);
        self.entries.push(print(entry));
        self.agreed_in.push(in_term);
        let first_change = self.changes.len();
        if !entry.data.is_empty() {
            let (ms, batches) = decode(&entry.data).expect("what was agreed on can be read");
            for batch in batches {
                self.apply((now, ms), entry, &batch, counts);
                for command in &batch.commands {
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

    fn apply(
        &mut self,
        (now, ms): (Moment, u64),
        entry: &Entry,
        batch: &Batch,
        counts: &mut Counts,
    ) {
        if !self.state.admits(batch) {
            return;
        }
        for command in &batch.commands {
            let mut traces = Traces::default();
            if let (EntryKind::Membership, Command::Members(change)) = (entry.kind, command) {
                let _ = self.state.begin_change(change);
                continue;
            }
            let at = At { index: entry.index, term: entry.term, ms };
            let before = matches!(command, Command::Line(_)).then(|| self.state.clone());
            let _ = self.state.apply(at, command, &mut traces);
            if let Some(before) = before {
                fifo::judge(command, &before, &self.state, counts);
                freed_by_its_token::judge(command, &traces.lines, counts);
                self.acts_once.judge(command, &traces, counts);
            }
            if !traces.lines.is_empty() {
                queue_advances::judge(&self.state, counts);
            }
            for event in &traces.lines {
                if let Event::Began { name, tenure, .. } = event {
                    self.began.push((name.clone(), tenure.token));
                }
            }
            for id in &traces.restarted {
                let Some(lease) = self.state.leases.get(*id) else { continue };
                let session = self.state.queues.session(*id);
                let ttl_ms = session.map_or(lease.ttl_secs as u64 * 1000, |s| s.ttl_ms);
                let ttl = Duration::from_millis(ttl_ms);
                let story = LeaseStory { ttl, renewed: now, ended: None };
                self.leases.insert(*id, story);
            }
            let expired = matches!(command, Command::LeaseExpire(..));
            for lease in &traces.ended {
                self.ended.push(*lease);
                if let Some(story) = self.leases.get_mut(lease) {
                    story.ended = Some(LeaseEnd { at: now, expired });
                }
            }
            for change in traces.changes {
                self.note(change);
            }
        }
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
    let ms = if input.u8()? == 2 { input.u64()? } else { 0 };
    let batches = (0..input.count()?).map(|_| Batch::from_bytes(input.slice()?));
    Ok((ms, batches.collect::<Result<_, _>>()?))
}

/// Everything that members must agree on, as one number.
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
    state.queues.lines().for_each(|line| format!("{line:?}").hash(&mut hasher));
    state.queues.sessions().for_each(|session| format!("{session:?}").hash(&mut hasher));
    hasher.finish()
}
