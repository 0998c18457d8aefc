//! If two logs have an entry of the same index and term, they are the same up to there (Raft §5.3).
//!
//! So an entry's index and term determine its content and all entries before it. When a member writes an entry, it is
//! compared with the first one of that index and term; by induction that covers every log.

use std::collections::BTreeMap;

use tenure_api::Term;
use tenure_replica::{LogIndex, Persist};

use super::must;
use crate::{
    cluster::{disk::LogModel, member::MemberNumber, truth::print},
    engine::RunCounts,
};

pub const NAME: &str = "log_matching";

#[derive(Default)]
pub struct LogMatching {
    entries: BTreeMap<(LogIndex, Term), Seen>,
}

/// An entry when it was first written by any member.
struct Seen {
    by: MemberNumber,
    /// The term of the entry before it.
    after: Option<Term>,
    content: u64,
    /// Whether another member has it, too.
    shared: bool,
}

impl LogMatching {
    /// A member has written to this log.
    pub fn check(
        &mut self,
        by: MemberNumber,
        persist: &Persist,
        log: &LogModel,
        counts: &mut RunCounts,
    ) {
        for entry in &persist.entries {
            let (index, term) = (entry.index, entry.term);
            let (after, (_, content)) = (log.term(index - 1), print(entry));
            let written = Seen { by, after, content, shared: false };
            let first = self.entries.entry((index, term)).or_insert(written);
            if first.by == by && !first.shared {
                // It may have lost the first one in a crash, before another member had it.
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
