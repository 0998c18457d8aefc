//! Telling followers how far the log is committed.
//!
//! raft-rs sends every follower an empty append for it, and every follower answers: four messages and as many wake-ups for
//! each round of a small cluster, none of which moves anything. Here it is a notice that is not answered, and none at all
//! where an append says the same. A notice that is lost is made up for by the next append or heartbeat.

use raft::{ProgressState, RawNode, StateRole, Storage};
use tenure_api::{MemberId, Term};

use super::vouch::Vouches;
use crate::{
    log::LogIndex,
    message::{RaftKind, RaftMessage},
};

#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Up to where all followers were told.
    told: LogIndex,
}

impl Notices {
    /// Adds a notice for every follower that has the newly committed entries, or has them on their way.
    pub(super) fn add<T: Storage>(
        &mut self,
        node: &RawNode<T>,
        vouches: &Vouches,
        messages: &mut Vec<RaftMessage>,
    ) {
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
            let can_count = vouches.given_to(Term(raft.term), to) >= committed;
            if *id != raft.id
                && has_it
                && !can_count
                && !messages.iter().any(|message| says_it(message, to))
            {
                let (from, at) = (MemberId(raft.id), (committed, Term(log_term)));
                messages.push(RaftMessage::notice(from, to, Term(raft.term), at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::table::{MEMBERS, Table};

    #[test]
    fn commit_notice_reaches_all_members_and_is_not_answered() {
        let mut table = Table::new(3);
        assert!(table.first().propose(b"x".to_vec()));
        table.settle();
        let committed = table.first().last_index();
        for (id, raft) in &table.members {
            assert_eq!(raft.committed(), committed, "member {id}");
        }
        assert_eq!(table.count(|message| message.kind == RaftKind::Append), 4);
        assert_eq!(table.count(RaftMessage::is_notice), 2);
        assert_eq!(table.count(|message| message.kind == RaftKind::AppendResponse), 2);
    }

    #[test]
    fn commit_notice_of_a_missing_entry_commits_nothing() {
        let mut table = Table::new(3);
        let before = table.first().committed();
        let at = (before + 1, table.first().term());
        let notice = RaftMessage::notice(MEMBERS[0], MEMBERS[1], at.1, at);
        let second = table.members.get_mut(&MEMBERS[1]).expect("it is there");
        second.step(notice).expect("it is sound");
        assert_eq!(second.committed(), before);
        assert!(second.progress().is_none(), "it has nothing to say to that");
    }
}
