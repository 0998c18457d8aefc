//! Which watchers a key concerns, found without looking at the others.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tenure_api::{Event, EventKind, Span, span::after_prefix};

use super::Told;

/// What a watcher wants to hear of. Watchers of equal interest are told the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interest {
    /// Which keys.
    pub span: Span,
    /// Leave puts out.
    pub no_put: bool,
    /// Leave deletions out.
    pub no_delete: bool,
    /// Tell the version before, too.
    pub prev_kv: bool,
}

impl Interest {
    /// Whether an event is of interest.
    pub fn admits(&self, event: &Event) -> bool {
        self.admits_kind(event.kind) && self.span.contains(&event.kv.key)
    }

    fn admits_kind(&self, kind: EventKind) -> bool {
        match kind {
            EventKind::Put => !self.no_put,
            EventKind::Delete => !self.no_delete,
        }
    }
}

/// Watchers of one interest.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) interest: Interest,
    pub(super) watchers: BTreeSet<Told>,
    /// Events of the changes being told right now.
    pub(super) gathered: Vec<Event>,
}

type GroupId = usize;

/// All watchers that are in step.
///
/// Nearly all watches are of one key or of a prefix: those are found by looking the key and each of
/// its registered prefix lengths up. Any other range is tried one by one.
#[derive(Debug, Default)]
pub(super) struct Index {
    groups: Vec<Option<Group>>,
    free: Vec<GroupId>,
    by_interest: BTreeMap<Interest, GroupId>,
    of_key: BTreeMap<Bytes, Vec<GroupId>>,
    of_prefix: BTreeMap<Bytes, Vec<GroupId>>,
    prefix_lengths: BTreeMap<usize, usize>,
    of_range: BTreeSet<GroupId>,
    touched: Vec<GroupId>,
}

/// Where in the index a span stands.
enum Shelf {
    Key(Bytes),
    Prefix(Bytes),
    Range,
}

fn shelf(span: &Span) -> Shelf {
    match span {
        Span::One(key) => Shelf::Key(key.clone()),
        Span::From(start) if start.is_empty() => Shelf::Prefix(Bytes::new()),
        Span::Between(start, end) if after_prefix(start).as_ref() == Some(end) => {
            Shelf::Prefix(start.clone())
        }
        _ => Shelf::Range,
    }
}

impl Index {
    pub(super) fn insert(&mut self, interest: &Interest, watcher: Told) {
        let id = match self.by_interest.get(interest) {
            Some(id) => *id,
            None => self.add_group(interest),
        };
        self.group_mut(id).watchers.insert(watcher);
    }

    pub(super) fn remove(&mut self, interest: &Interest, watcher: Told) {
        let Some(id) = self.by_interest.get(interest).copied() else { return };
        let group = self.group_mut(id);
        group.watchers.remove(&watcher);
        if group.watchers.is_empty() {
            self.drop_group(id);
        }
    }

    /// Hands an event to every group that it concerns.
    pub(super) fn batch_window(&mut self, event: &Event) {
        let key = &event.kv.key;
        let by_key = self.of_key.get(key).into_iter();
        let by_prefix = self
            .prefix_lengths
            .keys()
            .take_while(|length| **length <= key.len())
            .filter_map(|length| self.of_prefix.get(&key[..*length]));
        let found = by_key.chain(by_prefix).flatten().chain(&self.of_range);
        for id in found {
            let Some(group) = self.groups[*id].as_mut() else { continue };
            if group.interest.admits(event) {
                if group.gathered.is_empty() {
                    self.touched.push(*id);
                }
                group.gathered.push(event.clone());
            }
        }
    }

    /// The groups that gathered something, each once.
    pub(super) fn take_touched(&mut self) -> Vec<GroupId> {
        std::mem::take(&mut self.touched)
    }

    pub(super) fn group_mut(&mut self, id: GroupId) -> &mut Group {
        self.groups[id].as_mut().expect("ids of live groups only are handed out")
    }

    fn add_group(&mut self, interest: &Interest) -> GroupId {
        let group =
            Group { interest: interest.clone(), watchers: BTreeSet::new(), gathered: vec![] };
        let id = self.free.pop().unwrap_or_else(|| {
            self.groups.push(None);
            self.groups.len() - 1
        });
        self.groups[id] = Some(group);
        self.by_interest.insert(interest.clone(), id);
        match shelf(&interest.span) {
            Shelf::Key(key) => self.of_key.entry(key).or_default().push(id),
            Shelf::Prefix(prefix) => {
                *self.prefix_lengths.entry(prefix.len()).or_default() += 1;
                self.of_prefix.entry(prefix).or_default().push(id);
            }
            Shelf::Range => {
                self.of_range.insert(id);
            }
        }
        id
    }

    fn drop_group(&mut self, id: GroupId) {
        let Some(group) = self.groups[id].take() else { return };
        self.free.push(id);
        self.by_interest.remove(&group.interest);
        match shelf(&group.interest.span) {
            Shelf::Key(key) => take_out(&mut self.of_key, &key, id),
            Shelf::Prefix(prefix) => {
                take_out(&mut self.of_prefix, &prefix, id);
                if let Some(count) = self.prefix_lengths.get_mut(&prefix.len()) {
                    *count -= 1;
                    if *count == 0 {
                        self.prefix_lengths.remove(&prefix.len());
                    }
                }
            }
            Shelf::Range => {
                self.of_range.remove(&id);
            }
        }
    }
}

fn take_out(shelf: &mut BTreeMap<Bytes, Vec<GroupId>>, key: &Bytes, id: GroupId) {
    if let Some(ids) = shelf.get_mut(key) {
        ids.retain(|known| *known != id);
        if ids.is_empty() {
            shelf.remove(key);
        }
    }
}
