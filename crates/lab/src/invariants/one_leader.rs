//! In each term at most one member leads the log.

use std::collections::BTreeMap;

use tenure_api::Term;
use tenure_replica::{RaftRole, Status};

use super::must;
use crate::{cluster::member::MemberNumber, engine::RunCounts};

pub const NAME: &str = "one_leader";

#[derive(Default)]
pub struct OneLeader {
    by_term: BTreeMap<Term, MemberNumber>,
}

impl OneLeader {
    pub fn check(&mut self, member: MemberNumber, status: &Status, counts: &mut RunCounts) {
        if status.role != RaftRole::Leader {
            return;
        }
        counts.count(NAME);
        let leader = *self.by_term.entry(status.term).or_insert(member);
        must!(leader == member, "members {leader} and {member} both lead in term {}", status.term);
    }
}
