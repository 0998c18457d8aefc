//! A raft leader has every entry that was committed in the terms before its own (Raft §5.4).

use std::collections::BTreeMap;

use tenure_api::Term;
use tenure_replica::{RaftRole, Status};

use super::must;
use crate::{
    cluster::{
        member::{MemberNumber, MemberProcess},
        truth::Truth,
    },
    engine::RunCounts,
};

pub const NAME: &str = "leader_completeness";

#[derive(Default)]
pub struct LeaderCompleteness {
    /// The last term that was checked, for each member.
    seen: BTreeMap<MemberNumber, Term>,
}

impl LeaderCompleteness {
    pub fn check(
        &mut self,
        member: MemberNumber,
        process: &MemberProcess,
        status: &Status,
        truth: &Truth,
        counts: &mut RunCounts,
    ) {
        if status.role != RaftRole::Leader || self.seen.get(&member) == Some(&status.term) {
            return;
        }
        self.seen.insert(member, status.term);
        counts.count(NAME);
        // It has committed the entries of its own term itself; and it may be older than terms after its own.
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
