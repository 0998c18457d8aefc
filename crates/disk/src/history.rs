//! What the records of a log add up to.

use tenure_api::Term;
use tenure_replica::{Entry, HardState, LogIndex, SnapshotMark};

use super::record::Record;

/// The log as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The index before the first of `entries`.
    base: LogIndex,
    /// The term of the entry at `base`, if a snapshot record told it.
    base_term: Option<Term>,
    /// The newest snapshot that was installed from a peer.
    installed: LogIndex,
    entries: Vec<Entry>,
    hard_state: HardState,
    begun: bool,
}

/// What a member starts with: its history, fitted to its newest snapshot.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fitted {
    pub(crate) hard_state: HardState,
    /// What follows the snapshot.
    pub(crate) entries: Vec<Entry>,
    /// The log on disk does not lead up to the snapshot: a record must say that it starts anew,
    /// or the next entry would leave a gap.
    pub(crate) starts_anew: bool,
}

/// No log gets here by counting; and from here on there is room to count.
const INDEX_MAX: LogIndex = 1 << 62;

impl History {
    /// Adds one record; an error says why it cannot follow what came before.
    pub(crate) fn apply(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Start { next_index, hard_state } => {
                let next = next_index.checked_sub(1).ok_or("a segment starts before index 1")?;
                check_index(next)?;
                if !self.begun {
                    self.base = next;
                } else if next != self.last_index() {
                    return Err(format!(
                        "a segment starts after index {next}, the one before ended at {}",
                        self.last_index()
                    ));
                }
                self.hard_state = hard_state;
            }
            _ if !self.begun => return Err("a segment does not begin with a start record".into()),
            Record::HardState(hard_state) => self.hard_state = hard_state,
            Record::Snapshot(mark) => {
                check_index(mark.index)?;
                self.installed = mark.index;
                self.base = mark.index;
                self.base_term = Some(mark.term);
                self.entries.clear();
            }
            Record::Entry(entry) => self.append(entry)?,
        }
        self.begun = true;
        Ok(())
    }

    fn append(&mut self, entry: Entry) -> Result<(), String> {
        if entry.index == 0 || entry.index > self.last_index() + 1 {
            return Err(format!("entry {} follows entry {}", entry.index, self.last_index()));
        }
        if entry.index <= self.base {
            // The segment with what it replaces is gone, because a snapshot covers both.
            self.base = entry.index - 1;
            self.base_term = None;
            self.entries.clear();
        }
        self.entries.truncate((entry.index - self.base - 1) as usize);
        self.entries.push(entry);
        Ok(())
    }

    /// The index of the newest entry.
    pub(crate) fn last_index(&self) -> LogIndex {
        self.base + self.entries.len() as LogIndex
    }

    /// Joins log and snapshot; an error says what contradicts what.
    pub(crate) fn fit(mut self, snapshot: Option<&SnapshotMark>) -> Result<Fitted, String> {
        let covered = snapshot.map_or(0, |mark| mark.index);
        check_index(covered)?;
        if self.installed > covered || self.base > covered {
            return Err(format!(
                "the log begins after index {}, but the newest snapshot ends at index {covered}",
                self.base.max(self.installed)
            ));
        }
        let mut starts_anew = false;
        if let Some(mark) = snapshot {
            let known_term = match covered.checked_sub(self.base + 1) {
                None => self.base_term.or(Some(mark.term)),
                Some(at) => self.entries.get(at as usize).map(|entry| entry.term),
            };
            if known_term == Some(mark.term) {
                self.entries.drain(..(covered - self.base) as usize);
            } else if known_term.is_some() && self.hard_state.commit >= covered {
                return Err(format!(
                    "entry {covered} is committed, but the snapshot that ends there has another term"
                ));
            } else {
                // A peer's snapshot arrived, and the crash came before the log heard of it. What
                // we had is behind it or contradicts it; none of that was committed past it.
                self.entries.clear();
                starts_anew = true;
            }
            self.hard_state.commit = self.hard_state.commit.max(covered);
            if self.hard_state.term < mark.term {
                // We cannot have voted in a term that our log never heard of.
                self.hard_state =
                    HardState { term: mark.term, vote: None, commit: self.hard_state.commit };
            }
        }
        let last = covered + self.entries.len() as LogIndex;
        if self.hard_state.commit > last {
            return Err(format!(
                "index {} is committed, but the log ends at {last}",
                self.hard_state.commit
            ));
        }
        Ok(Fitted { hard_state: self.hard_state, entries: self.entries, starts_anew })
    }
}

fn check_index(index: LogIndex) -> Result<(), String> {
    if index <= INDEX_MAX { Ok(()) } else { Err(format!("index {index} is beyond any log")) }
}
