//! Every answer to a round of reads names at least the entry that the raft leader had vouched for when the round began: a
//! follower may have counted that entry, and answered its clients, before the raft leader knows that it is committed.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_api::Term;
use tenure_replica::{LogIndex, RaftKind, RaftMessage};

use super::must;
use crate::{cluster::member::MemberNumber, engine::RunCounts};

pub const NAME: &str = "read_floor";

/// Rounds that were lost are forgotten when there are more than this.
const ROUNDS_MAX: usize = 4096;

#[derive(Default)]
pub struct ReadFloor {
    /// The highest entry that each member has vouched for, and in which term.
    vouched: BTreeMap<MemberNumber, (Term, LogIndex)>,
    /// What was vouched for when each round reached a member.
    rounds: BTreeMap<(MemberNumber, Bytes), (Term, LogIndex)>,
}

impl ReadFloor {
    /// A member receives a message.
    pub fn received(&mut self, by: MemberNumber, message: &RaftMessage) {
        if message.kind != RaftKind::ReadIndex {
            return;
        }
        while self.rounds.len() >= ROUNDS_MAX {
            self.rounds.pop_first();
        }
        let floor = self.vouched.get(&by).copied().unwrap_or_default();
        // A repeated message does not begin the round again.
        self.rounds.entry((by, message.context.clone())).or_insert(floor);
    }

    /// A member sends a message.
    pub fn sent(&mut self, from: MemberNumber, message: &RaftMessage, counts: &mut RunCounts) {
        if message.kind == RaftKind::Append && &message.context[..] == b"vouch" {
            let vouched = self.vouched.entry(from).or_default();
            *vouched = (*vouched).max((message.term, message.index));
        }
        if message.kind != RaftKind::ReadIndexResponse {
            return;
        }
        let Some((term, floor)) = self.rounds.remove(&(from, message.context.clone())) else {
            return;
        };
        counts.count(NAME);
        // An entry that was vouched for in an earlier term counts only if a later raft leader kept it.
        if term != message.term {
            return;
        }
        let named = message.index.max(message.commit);
        must!(
            named >= floor,
            "m{from} answers a round of reads with {named}, but vouched for {floor}"
        );
    }
}
