//! Members at one table, for tests: what one says reaches the others at once, or when the test hands it over.

use std::collections::BTreeMap;

use tenure_api::{MemberId, Term};

use super::{Consensus, RaftRole, Setup};
use crate::{
    log::{HardState, LogIndex, SnapshotMark},
    message::{RaftKind, RaftMessage},
};

pub(super) const MEMBERS: [MemberId; 5] =
    [MemberId(1), MemberId(2), MemberId(3), MemberId(4), MemberId(5)];

/// The first leads. What was said is kept.
pub(super) struct Table {
    pub(super) members: BTreeMap<MemberId, Consensus>,
    pub(super) said: Vec<RaftMessage>,
}

impl Table {
    pub(super) fn new(size: usize) -> Table {
        let mark = SnapshotMark {
            index: 0,
            term: Term(0),
            voters: MEMBERS[..size].to_vec(),
            learners: vec![],
            outgoing: vec![],
        };
        let member = |me: &MemberId| {
            let setup = Setup {
                me: *me,
                seed: 1,
                heartbeat_ticks: 3,
                election_ticks: 20,
                pre_vote: true,
                random_timeouts: true,
            };
            (*me, Consensus::new(setup, &mark, HardState::default(), vec![]))
        };
        let members = MEMBERS[..size].iter().map(member).collect();
        let mut table = Table { members, said: vec![] };
        table.first().campaign();
        table.settle();
        assert_eq!(table.first().role(), RaftRole::Leader);
        table.said.clear();
        table
    }

    pub(super) fn member(&mut self, id: MemberId) -> &mut Consensus {
        self.members.get_mut(&id).expect("it is there")
    }

    pub(super) fn first(&mut self) -> &mut Consensus {
        self.member(MEMBERS[0])
    }

    /// Lets a member do what it has to. Answers what it says at once, and the number of its last write.
    pub(super) fn turn(&mut self, id: MemberId) -> (Vec<RaftMessage>, u64) {
        let raft = self.member(id);
        let (mut messages, mut number) = (Vec::new(), 0);
        while let Some(progress) = raft.progress() {
            messages.extend(progress.messages);
            number = progress.persist.map_or(number, |write| write.number);
            if let Some(last) = progress.committed.last() {
                raft.applied(last.index);
            }
        }
        (messages, number)
    }

    /// Hands messages over.
    pub(super) fn hand(&mut self, messages: impl IntoIterator<Item = RaftMessage>) {
        for message in messages {
            self.said.push(message.clone());
            self.member(message.to).step(message).expect("members are sound");
        }
    }

    /// Carries all messages to and fro, and all writes to the disks, until there are none left.
    pub(super) fn settle(&mut self) {
        loop {
            let mut messages = Vec::new();
            for id in self.members.keys().copied().collect::<Vec<_>>() {
                let (said, number) = self.turn(id);
                messages.extend(said);
                messages.extend(self.member(id).persisted(number));
            }
            if messages.is_empty() {
                return;
            }
            self.hand(messages);
        }
    }

    /// Proposes something, and takes it to the followers. Answers its index, and the numbers of all members'
    /// writes, which are not done yet.
    pub(super) fn propose(&mut self) -> (LogIndex, BTreeMap<MemberId, u64>) {
        assert!(self.first().propose(b"x".to_vec()));
        let (messages, number) = self.turn(MEMBERS[0]);
        let mut writes = BTreeMap::from([(MEMBERS[0], number)]);
        let to: Vec<_> = messages.iter().map(|message| message.to).collect();
        self.hand(messages);
        for id in to {
            let (said, number) = self.turn(id);
            assert!(said.is_empty(), "it waits for its disk");
            writes.insert(id, number);
        }
        (self.first().last_index(), writes)
    }

    pub(super) fn count(&self, wanted: impl Fn(&RaftMessage) -> bool) -> usize {
        self.said.iter().filter(|message| wanted(message)).count()
    }
}

/// How many of these are of a kind.
pub(super) fn of_kind(messages: &[RaftMessage], kind: RaftKind) -> usize {
    messages.iter().filter(|message| message.kind == kind).count()
}
