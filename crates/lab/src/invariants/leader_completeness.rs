//! Whoever comes to lead has everything that was committed in the terms before its own (Raft §5.4).

use std::collections::BTreeMap;

use tenure_api::Term;
use tenure_replica::{Role, Status};

use super::must;
use crate::{
    cluster::{
        member::{Number, Process},
        truth::Truth,
    },
    engine::Counts,
};

pub const NAME: &str = "leader_completeness";

#[derive(Default)]
pub struct LeaderCompleteness {
    /// Which terms were looked at.
    seen: BTreeMap<Number, Term>,
}

impl LeaderCompleteness {
    pub fn judge(
        &mut self,
        member: Number,
        process: &Process,
        status: &Status,
        truth: &Truth,
        counts: &mut Counts,
    ) {
        if status.role != Role::Leader || self.seen.get(&member) == Some(&status.term) {
            return;
        }
        self.seen.insert(member, status.term);
        counts.count(NAME);
        // What was committed in this very term, it has committed itself; and of later terms it may not have
        // heard, though it was elected before they began.
        let before = truth.last_before(status.term);
        let log = &process.log;
        must!(
            log.last() >= before,
            "m{member} leads in term {} and has entries up to {}, but {before} was committed",
            status.term,
            log.last()
        );
        for index in log.base.0 + 1..=before {
            let Some(entry) = log.get(index) else { continue };
            must!(truth.agrees(entry), "m{member} leads with another entry {index}: {entry:?}");
        }
    }
}
