//! Telling followers how far the log is committed.
//!
//! raft-rs sends everybody an empty append for it, and everybody answers: four messages and as many wake-ups for each
//! round of a small cluster, none of which moves anything. Here it is a notice that nobody answers, and none at all
//! where an append says the same. A notice that is lost is made up for by the next append or heartbeat.

use raft::{ProgressState, RawNode, StateRole, Storage};
use tenure_api::{MemberId, Term};

use crate::{
    log::LogIndex,
    message::{RaftKind, RaftMessage},
};

#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Up to where everybody was told.
    told: LogIndex,
}

impl Notices {
    /// Adds a notice for every follower that has the newly committed entries, or has them on their way.
    pub(super) fn add<T: Storage>(&mut self, node: &RawNode<T>, messages: &mut Vec<RaftMessage>) {
        let raft = &node.raft;
        let committed = raft.raft_log.committed;
        let is_news = std::mem::replace(&mut self.told, committed) < committed;
        if raft.state != StateRole::Leader || !is_news {
            return;
        }
        // Compacted away already: then it was applied long ago.
        let Ok(log_term) = raft.raft_log.term(committed) else { return };
        let says_it = |message: &RaftMessage, to| {
            message.to == to && message.kind == RaftKind::Append && message.commit >= committed
        };
        for (id, progress) in raft.prs().iter() {
            let to = MemberId(*id);
            let has_it =
                progress.state == ProgressState::Replicate && progress.next_idx > committed;
            if *id != raft.id && has_it && !messages.iter().any(|message| says_it(message, to)) {
                let (from, at) = (MemberId(raft.id), (committed, Term(log_term)));
                messages.push(RaftMessage::notice(from, to, Term(raft.term), at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        log::{HardState, SnapshotMark},
        raft::{Consensus, Role, Setup},
    };

    const MEMBERS: [MemberId; 3] = [MemberId(1), MemberId(2), MemberId(3)];

    /// Three members whose disks and network take no time. What was said is kept.
    struct Cluster {
        members: BTreeMap<MemberId, Consensus>,
        said: Vec<RaftMessage>,
    }

    impl Cluster {
        /// The first leads.
        fn new() -> Cluster {
            let mark = SnapshotMark {
                index: 0,
                term: Term(0),
                voters: MEMBERS.to_vec(),
                learners: vec![],
                outgoing: vec![],
            };
            let member = |me| {
                let setup = Setup {
                    me,
                    seed: 1,
                    heartbeat_ticks: 3,
                    election_ticks: 20,
                    pre_vote: true,
                    random_timeouts: true,
                };
                (me, Consensus::new(setup, &mark, HardState::default(), vec![]))
            };
            let members = MEMBERS.into_iter().map(member).collect();
            let mut cluster = Cluster { members, said: vec![] };
            cluster.first().campaign();
            cluster.settle();
            assert_eq!(cluster.first().role(), Role::Leader);
            cluster.said.clear();
            cluster
        }

        fn first(&mut self) -> &mut Consensus {
            self.members.get_mut(&MEMBERS[0]).expect("it is there")
        }

        /// Carries everything to and fro until nobody has anything to say.
        fn settle(&mut self) {
            loop {
                let mut messages = Vec::new();
                for raft in self.members.values_mut() {
                    while let Some(progress) = raft.progress() {
                        messages.extend(progress.messages);
                        if let Some(write) = progress.persist {
                            messages.extend(raft.persisted(write.number));
                        }
                        if let Some(last) = progress.committed.last() {
                            raft.applied(last.index);
                        }
                    }
                }
                if messages.is_empty() {
                    return;
                }
                for message in messages {
                    self.said.push(message.clone());
                    self.members.get_mut(&message.to).expect("it is there").step(message);
                }
            }
        }

        fn count(&self, wanted: impl Fn(&RaftMessage) -> bool) -> usize {
            self.said.iter().filter(|message| wanted(message)).count()
        }
    }

    #[test]
    fn everybody_hears_what_is_committed_and_nobody_answers_that() {
        let mut cluster = Cluster::new();
        assert!(cluster.first().propose(b"x".to_vec()));
        cluster.settle();
        let committed = cluster.first().last_index();
        for (id, raft) in &cluster.members {
            assert_eq!(raft.committed(), committed, "member {id}");
        }
        assert_eq!(cluster.count(|message| message.kind == RaftKind::Append), 4);
        assert_eq!(cluster.count(RaftMessage::is_notice), 2);
        assert_eq!(cluster.count(|message| message.kind == RaftKind::AppendResponse), 2);
    }

    #[test]
    fn a_notice_about_an_entry_that_did_not_arrive_commits_nothing() {
        let mut cluster = Cluster::new();
        let before = cluster.first().committed();
        let at = (before + 1, cluster.first().term());
        let notice = RaftMessage::notice(MEMBERS[0], MEMBERS[1], at.1, at);
        let second = cluster.members.get_mut(&MEMBERS[1]).expect("it is there");
        second.step(notice);
        assert_eq!(second.committed(), before);
        assert!(second.progress().is_none(), "it has nothing to say to that");
    }
}
