//! Followers that count the majority themselves.
//!
//! In a cluster of three, two disks are a majority. As soon as the raft leader's disk has its newest entries it says so to its
//! followers: it *vouches* for them. A follower whose own disk has them too then knows of two, and may apply them and
//! answer its clients. It would hear the same from the raft leader, a whole round trip later: when its own
//! acknowledgement has arrived there and a notice has come back.
//!
//! Why that is safe: an entry of the term that is on a majority of disks is committed, whichever member counts them (§5.4.2
//! of the paper needs only that the entry is of the current term). The raft leader vouches only while no change of members
//! is in its log that is not applied, so that no other majority can count; and a follower believes it only while both are in
//! the same term.
//!
//! What it costs: a follower may have answered a client before the raft leader knows that the entry is committed. A linearizable
//! read that the raft leader confirms then must not miss it. So a round of reads waits for all that the raft leader has
//! vouched for when the round began ([`Floors`]), which is on the disks of the others already or about to be.

use std::collections::BTreeMap;

use bytes::Bytes;
use raft::{ProgressState, RawNode, StateRole};
use tenure_api::{MemberId, Term};

use super::tail::LogTail;
use crate::{log::LogIndex, message::RaftMessage};

/// With so many voters, the raft leader and one other are a majority.
const VOTERS_MAX: usize = 3;
/// Rounds of reads that may wait for more than is committed. Each member has one under way, and some that were lost.
const ROUNDS_MAX: usize = 1024;

/// What the raft leader has vouched for, and what was vouched for to us.
#[derive(Debug, Default)]
pub(super) struct Vouches {
    term: Term,
    /// Up to where each follower was told.
    given: BTreeMap<MemberId, LogIndex>,
    heard: LogIndex,
}

impl Vouches {
    /// A word to every follower that is a majority together with the raft leader, if the raft leader's disk has something
    /// that is not known to be committed.
    pub(super) fn give(&mut self, node: &RawNode<LogTail>) -> Vec<RaftMessage> {
        let mut words = Vec::new();
        let raft = &node.raft;
        let term = Term(raft.term);
        self.enter(term);
        let conf = node.store().conf_state();
        let is_plain = conf.voters_outgoing.is_empty() && !raft.has_pending_conf();
        let are_few = conf.voters.len() <= VOTERS_MAX || canary!(VouchesInCrowds);
        if raft.state != StateRole::Leader || !are_few || !is_plain {
            return words;
        }
        let own = if canary!(VouchesUnwritten) {
            raft.raft_log.last_index()
        } else {
            raft.prs().get(raft.id).map_or(0, |progress| progress.matched)
        };
        if own <= raft.raft_log.committed || raft.raft_log.term(own) != Ok(raft.term) {
            return words;
        }
        for (id, progress) in raft.prs().iter().filter(|(id, _)| conf.voters.contains(id)) {
            let to = MemberId(*id);
            let has_it = progress.state == ProgressState::Replicate && progress.next_idx > own;
            if *id != raft.id && has_it && self.given_to(term, to) < own {
                self.given.insert(to, own);
                let from = MemberId(raft.id);
                words.push(RaftMessage::vouch(from, to, term, own, raft.raft_log.committed));
            }
        }
        words
    }

    /// Up to where a follower was told in this term. It needs no notice of what is committed there.
    pub(super) fn given_to(&self, term: Term, member: MemberId) -> LogIndex {
        self.given.get(&member).filter(|_| self.term == term).copied().unwrap_or(0)
    }

    /// Up to where any follower may have counted.
    pub(super) fn given_to_any(&self, term: Term) -> LogIndex {
        self.given.values().filter(|_| self.term == term).copied().max().unwrap_or(0)
    }

    /// The raft leader of this term vouches for what it has.
    pub(super) fn hear(&mut self, term: Term, index: LogIndex) {
        self.enter(term);
        self.heard = self.heard.max(index);
    }

    /// Commits what the raft leader has vouched for and our disk has.
    pub(super) fn count(&mut self, node: &mut RawNode<LogTail>) {
        let raft = &mut node.raft;
        self.enter(Term(raft.term));
        if raft.state == StateRole::Follower {
            let both = self.heard.min(raft.raft_log.persisted);
            // If that entry is of this term, it came from this raft leader, and so did what lies before it.
            let term = raft.term;
            raft.raft_log.maybe_commit(both, term);
        }
    }

    /// What was said in another term does not count.
    fn enter(&mut self, term: Term) {
        if self.term != term {
            *self = Vouches { term, ..Vouches::default() };
        }
    }
}

/// What rounds of reads wait for beyond what the raft leader knew to be committed when they began, by their names.
#[derive(Debug, Default)]
pub(super) struct Floors {
    floors: BTreeMap<Bytes, LogIndex>,
}

impl Floors {
    /// False if there is no room for one more. Rounds that are lost are known by being no longer under way.
    pub(super) fn set(
        &mut self,
        round: Bytes,
        floor: LogIndex,
        is_under_way: impl Fn(&[u8]) -> bool,
    ) -> bool {
        if self.floors.len() >= ROUNDS_MAX {
            self.floors.retain(|round, _| is_under_way(round));
        }
        let room = self.floors.len() < ROUNDS_MAX;
        if room {
            self.floors.insert(round, floor);
        }
        room
    }

    pub(super) fn take(&mut self, round: &[u8]) -> Option<LogIndex> {
        self.floors.remove(round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        message::RaftKind,
        raft::table::{MEMBERS, Table, of_kind},
    };

    const ONE: MemberId = MEMBERS[0];
    const TWO: MemberId = MEMBERS[1];
    const THREE: MemberId = MEMBERS[2];

    /// The raft leader's disk is done. Answers what it says then.
    fn leader_has_written(table: &mut Table, number: u64) -> Vec<RaftMessage> {
        let waited = table.first().persisted(number);
        assert!(waited.is_empty(), "the raft leader's appends leave early");
        table.first().vouch()
    }

    #[test]
    fn vouch_lets_a_follower_commit_what_both_disks_have() {
        let mut table = Table::new(3);
        let (index, writes) = table.propose();
        let words = leader_has_written(&mut table, writes[&ONE]);
        assert_eq!(words.len(), 2);
        assert!(table.first().vouch().is_empty(), "once is enough");
        table.hand(words);
        let before = table.member(TWO).committed();
        assert!(table.turn(TWO).0.is_empty(), "that has no answer");
        assert!(before < index, "its own disk is not done");
        let acknowledgement = table.member(TWO).persisted(writes[&TWO]);
        assert_eq!(table.member(TWO).committed(), index);
        assert!(table.first().committed() < index, "it has not heard yet");

        table.said.clear();
        table.hand(acknowledgement);
        assert_eq!(table.first().committed(), index);
        let (said, _) = table.turn(ONE);
        assert_eq!(of_kind(&said, RaftKind::Append), 0, "members that can count are not told");
        let _ = table.member(THREE).persisted(writes[&THREE]);
        assert_eq!(table.member(THREE).committed(), index);
    }

    #[test]
    fn vouch_by_a_follower_that_is_first_reaches_all() {
        let mut table = Table::new(3);
        let (index, writes) = table.propose();
        for id in [TWO, THREE] {
            let acknowledgement = table.member(id).persisted(writes[&id]);
            assert!(table.member(id).committed() < index);
            table.hand(acknowledgement);
        }
        let (notices, _) = table.turn(ONE);
        assert_eq!(of_kind(&notices, RaftKind::Append), 2);
        table.hand(notices);
        assert_eq!(table.member(TWO).committed(), index);
        assert!(leader_has_written(&mut table, writes[&ONE]).is_empty(), "they know");
    }

    #[test]
    fn vouch_of_another_term_does_not_count() {
        let mut table = Table::new(3);
        let (index, writes) = table.propose();
        let words = leader_has_written(&mut table, writes[&ONE]);
        table.hand(words);
        // Another member stands for election before the disk is done.
        let vote = RaftMessage {
            kind: RaftKind::RequestVote,
            log_term: Term(9),
            context: Bytes::from_static(b"CampaignTransfer"),
            ..RaftMessage::notice(THREE, TWO, Term(9), (index + 1, Term(9)))
        };
        table.hand([vote]);
        assert_eq!(table.member(TWO).term(), Term(9));
        let _ = table.member(TWO).persisted(writes[&TWO]);
        assert!(table.member(TWO).committed() < index);
    }

    #[test]
    fn vouch_is_not_given_where_two_are_no_majority() {
        let mut table = Table::new(5);
        let (_, writes) = table.propose();
        assert!(leader_has_written(&mut table, writes[&ONE]).is_empty());
    }

    #[test]
    fn vouch_makes_reads_wait_for_what_followers_may_have_counted() {
        let mut table = Table::new(3);
        let (index, writes) = table.propose();
        let words = leader_has_written(&mut table, writes[&ONE]);
        table.hand(words);
        let answered = table.member(TWO).persisted(writes[&TWO]);
        assert_eq!(table.member(TWO).committed(), index, "its client has its answer");

        // The raft leader does not know, and is asked by the third and by one of its own.
        table.member(THREE).read_index(b"theirs".to_vec());
        let (asks, _) = table.turn(THREE);
        assert_eq!(of_kind(&asks, RaftKind::ReadIndex), 1);
        table.hand(asks);
        table.first().read_index(b"ours".to_vec());
        let (beats, _) = table.turn(ONE);
        table.hand(beats.into_iter().filter(|beat| beat.to == THREE));
        let (echoes, _) = table.turn(THREE);
        table.hand(echoes);
        assert!(table.first().committed() < index);
        let own = table.first().progress().expect("the rounds are confirmed");
        assert_eq!(own.reads, [(Bytes::from_static(b"ours"), index)]);
        table.hand(own.messages);
        let theirs = table.member(THREE).progress().expect("the answer has come");
        assert_eq!(theirs.reads, [(Bytes::from_static(b"theirs"), index)]);
        assert!(table.member(THREE).committed() < index, "to wait is not to believe");
        table.hand(answered);
        assert_eq!(table.first().committed(), index);
    }
}
