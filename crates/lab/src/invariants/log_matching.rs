//! If two logs have an entry of the same index and term, they are the same up to there (Raft §5.3).
//!
//! So an entry's index and term say what it holds and what comes before it. Each is held against the
//! first of its kind when a member writes it; by induction that is all of every log.

use std::collections::BTreeMap;

use tenure_api::Term;
use tenure_replica::{LogIndex, Persist};

use super::must;
use crate::{
    cluster::{disk::Log, member::Number, truth::print},
    engine::Counts,
};

pub const NAME: &str = "log_matching";

#[derive(Default)]
pub struct LogMatching {
    entries: BTreeMap<(LogIndex, Term), Seen>,
}

/// An entry when it was first written anywhere.
struct Seen {
    by: Number,
    /// The term of the entry before it.
    after: Option<Term>,
    content: u64,
    /// Another has it, too.
    shared: bool,
}

impl LogMatching {
    /// A member has written something to this log.
    pub fn judge(&mut self, by: Number, persist: &Persist, log: &Log, counts: &mut Counts) {
        for entry in &persist.entries {
            let (index, term) = (entry.index, entry.term);
            let (after, (_, content)) = (log.term(index - 1), print(entry));
            let written = Seen { by, after, content, shared: false };
            let first = self.entries.entry((index, term)).or_insert(written);
            if first.by == by && !first.shared {
                // It may have lost the first to a crash, before anybody else heard of it.
                (first.after, first.content) = (after, content);
                continue;
            }
            counts.count(NAME);
            first.shared = true;
            let same = first.content == content && first.after == after;
            must!(same, "the logs of m{by} and m{} differ up to {index} of {term}", first.by);
        }
    }
}
