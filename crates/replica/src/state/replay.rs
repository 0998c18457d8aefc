//! A state from a log, for tools and tests: the same as a member's, without a member around it.

use tenure_api::{Failure, Principal, Revision};

use super::{ApplyEffects, EntryContext, Outcome, State};
use crate::{
    codec::DecodeError,
    command::{Attributed, Batch, Command, decode_entry},
    log::{Entry, EntryKind},
    mvcc::Change,
};

/// What an entry carries, as it was proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryContent {
    /// The clock of the raft leader that proposed it, in milliseconds since 1970; 0 if the entry does not say.
    pub clock_ms: u64,
    /// The batches. One may be in the log more than once, and is applied at most once.
    pub batches: Vec<Batch>,
}

/// One command that a log has applied.
#[derive(Debug)]
pub struct Applied<'a> {
    /// Where it stands.
    pub at: EntryContext,
    /// The principal that asked for it.
    pub by: &'a Principal,
    /// What it is.
    pub command: &'a Command,
    /// What it answered.
    pub outcome: &'a Result<Outcome, Failure>,
    /// The store's revision that goes with the answer.
    pub revision: Revision,
    /// What it changed, its consequences for elections and locks included.
    pub changes: &'a [Change],
}

impl EntryContent {
    /// Reads an entry. One without commands is a new raft leader's first, or the end of a change of the members.
    pub fn of(entry: &Entry) -> Result<EntryContent, DecodeError> {
        if entry.data.is_empty() {
            return Ok(EntryContent { clock_ms: 0, batches: vec![] });
        }
        let (clock, batches) = decode_entry(&entry.data)?;
        Ok(EntryContent { clock_ms: clock.ms, batches })
    }
}

impl State {
    /// Applies a committed entry; `see` is shown every command that takes effect. Answers how many batches were not
    /// let through, because they had been applied before.
    pub fn replay(
        &mut self,
        entry: &Entry,
        see: &mut dyn FnMut(Applied<'_>),
    ) -> Result<usize, DecodeError> {
        let content = EntryContent::of(entry)?;
        if entry.data.is_empty() && entry.kind == EntryKind::Membership {
            self.finish_change();
        }
        let at = EntryContext { index: entry.index, term: entry.term, ms: content.clock_ms };
        let mut skipped = 0;
        for batch in &content.batches {
            self.leap(at.ms);
            if !self.admits(batch) {
                skipped += 1;
                continue;
            }
            for Attributed { by, command } in &batch.commands {
                let mut effects = ApplyEffects::default();
                let outcome = match (entry.kind, command) {
                    (EntryKind::Membership, Command::Members(change)) if change.concerns_raft() => {
                        self.begin_change(change).map(|()| Outcome::Members(self.members()))
                    }
                    _ => self.apply(at, by, command, &mut effects),
                };
                // As `replica/apply.rs` answers: settling elections and locks may have made more revisions.
                let revision = match &outcome {
                    Ok(Outcome::Put(_) | Outcome::DeleteRange(_) | Outcome::Txn(_)) => {
                        effects.done_at
                    }
                    _ => self.store.revision(),
                };
                let changes = &effects.changes;
                see(Applied { at, by, command, outcome: &outcome, revision, changes });
            }
        }
        Ok(skipped)
    }
}
