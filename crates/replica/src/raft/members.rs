//! The members that follow the log and those that vote, as raft counts them.

use tenure_api::MemberId;

use super::{
    Consensus, RaftRole,
    translate::{end_of_change, joint_change},
};
use crate::{Moment, command::MemberChange, log::LogIndex};

impl Consensus {
    /// Whose vote counts now, in order of their ids. While a change is under way these are the voters
    /// before and after it.
    pub(crate) fn voters(&self) -> Vec<MemberId> {
        let conf = self.node.store().conf_state();
        let mut voters: Vec<_> =
            conf.voters.iter().chain(&conf.voters_outgoing).map(|id| MemberId(*id)).collect();
        voters.sort_unstable();
        voters.dedup();
        voters
    }

    /// The last moment at which a quorum had answered, if each member had at the given one; this member always has.
    pub(crate) fn quorum_moment(&self, now: Moment, at: impl Fn(MemberId) -> Moment) -> Moment {
        let conf = self.node.store().conf_state();
        let of = |voters: &[u64]| {
            let moment = |id: &u64| if *id == self.setup.me.0 { now } else { at(MemberId(*id)) };
            let mut moments: Vec<Moment> = voters.iter().map(moment).collect();
            moments.sort_unstable_by(|one, other| other.cmp(one));
            moments.get(moments.len() / 2).copied().unwrap_or(now)
        };
        of(&conf.voters).min(of(&conf.voters_outgoing))
    }

    /// How many of them have smaller ids than this member.
    pub(crate) fn voters_before_us(&self) -> usize {
        let conf = self.node.store().conf_state();
        let leaving = conf.voters_outgoing.iter().filter(|id| !conf.voters.contains(id));
        conf.voters.iter().chain(leaving).filter(|id| **id < self.setup.me.0).count()
    }

    /// How many those are.
    pub(crate) fn voter_count(&self) -> usize {
        let conf = self.node.store().conf_state();
        let leaving = conf.voters_outgoing.iter().filter(|id| !conf.voters.contains(id));
        conf.voters.len() + leaving.count()
    }

    /// Whether this member votes, and will when the change under way is done.
    pub(crate) fn will_vote(&self, member: MemberId) -> bool {
        self.node.store().conf_state().voters.contains(&member.0)
    }

    /// Whether a member only follows the log.
    pub(crate) fn is_learner(&self, member: MemberId) -> bool {
        self.node.store().conf_state().learners.contains(&member.0)
    }

    /// Whether two majorities must agree.
    pub(crate) fn is_joint(&self) -> bool {
        !self.node.store().conf_state().voters_outgoing.is_empty()
    }

    /// Whether an entry that is not applied yet may be a change. raft-rs would turn another one into
    /// an empty entry without a word.
    pub(crate) fn may_be_changing(&self) -> bool {
        self.node.raft.has_pending_conf()
    }

    /// Appends the first half of a change, with the entry that we want to find in the log. False if
    /// raft does not take it now.
    pub(crate) fn propose_change(&mut self, change: &MemberChange, entry: Vec<u8>) -> bool {
        debug_assert!(
            self.role() == RaftRole::Leader && !self.may_be_changing() && !self.is_joint()
        );
        self.node.propose_conf_change(entry, joint_change(change)).is_ok()
    }

    /// Appends the second half. False if raft does not take it now.
    pub(crate) fn propose_end_of_change(&mut self) -> bool {
        debug_assert!(
            self.role() == RaftRole::Leader && !self.may_be_changing() && self.is_joint()
        );
        self.node.propose_conf_change(vec![], end_of_change()).is_ok()
    }

    /// The entry that is being applied begins this change.
    pub(crate) fn begin_change(&mut self, change: &MemberChange) {
        let conf = self
            .node
            .apply_conf_change(&joint_change(change))
            .expect("the list of members allows only what raft can do");
        let tail = self.node.raft.mut_store();
        tail.set_conf_state(conf);
        if matches!(change, MemberChange::Add { .. } | MemberChange::Invite { .. }) {
            tail.member_added();
        }
        self.set_timeout();
    }

    /// The change under way is done.
    pub(crate) fn finish_change(&mut self) {
        let conf = self
            .node
            .apply_conf_change(&end_of_change())
            .expect("a change is finished only if one was begun");
        self.node.raft.mut_store().set_conf_state(conf);
        self.set_timeout();
    }

    /// Up to where a follower has the log, as far as the raft leader knows.
    pub(crate) fn matched_by(&self, member: MemberId) -> LogIndex {
        self.node.raft.prs().get(member.0).map_or(0, |progress| progress.matched)
    }
}
