//! Changes of the members: the raft leader's judgement, the way through both halves, and the answer.
//!
//! A change travels like any write, in a numbered batch of its own. The raft leader either proposes it
//! as an entry of its own kind or logs its refusal in its place, so that the waiting request gets the one or
//! the other, once, whatever happens to the raft leader meanwhile. When the first half is applied the
//! raft leader proposes the second; if it is itself the one to go, it hands over first and its
//! successor does. `membership.rs` says why a removal has a third.
//!
//! The client is answered when the change is done.
//!
//! A second voter beside a first one would be needed from the first half on: a wrong address, and nothing could be
//! written any more, not even its removal. So the raft leader makes an *invitation* of it: the new member follows the log
//! without a vote, and when it is there and has caught up, the raft leader promotes it. While the cluster version does not know
//! invitations it gets its vote at once, and the client is answered after the first half: the second needs the new
//! member to run, and an operator would not start it before being told that it was added.

use std::{collections::BTreeMap, time::Duration};

use tenure_api::{Failure, MemberId, Principal};

use super::Replica;
use crate::{
    Moment,
    codec::Codec,
    command::{
        Attributed, Batch, ChangeRefusal, Command, INVITES_SINCE, MemberChange, encode_entry,
    },
    input::{Fatal, Notice, Reply, RequestId},
    state::Outcome,
};

/// A learner may be promoted when it has so much of the raft leader's log, in per cent, as in etcd.
const LEARNER_READY_PERCENT: u64 = 90;

/// How often the raft leader says again that a member can go.
const LET_GO_INTERVAL: Duration = Duration::from_secs(1);
/// How often it tries again to promote a member that was invited.
const WELCOME_INTERVAL: Duration = Duration::from_secs(1);

/// Changes on their way, as far as this member has a part in them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The requests that wait for a change, and since when.
    waiting: BTreeMap<RequestId, (MemberChange, Moment)>,
    /// When this member, as the raft leader, last said that a member can go.
    let_go_at: Option<Moment>,
    /// When it last said that a member that was invited may vote.
    welcomed_at: Option<Moment>,
}

impl Replica {
    /// Proposes the next change in the queue, or refuses it. For the raft leader.
    pub(super) fn propose_change(&mut self, now: Moment) {
        let Some(bytes) = self.proposals.next_change(now) else { return };
        let Some((batch, by, change)) = read_change(&bytes) else {
            return self.proposals.change_refused(bytes);
        };
        let (bytes, change) = match self.invitation_instead(&change) {
            Some(change) => {
                let command = Command::Members(change.clone());
                let commands = vec![Attributed { by: by.clone(), command }];
                (Batch { commands, ..batch.clone() }.to_bytes().into(), change)
            }
            None => (bytes, change),
        };
        // A new raft leader does not know whether its log holds a change that is not applied yet.
        // It soon will.
        if self.raft.may_be_changing() {
            return self.proposals.change_proposed(now, None);
        }
        match self.judge_change(&by, &change) {
            Ok(()) => {
                let entry = encode_entry(self.entry_clock(now), &[bytes]);
                let taken = self.raft.propose_change(&change, entry);
                let place = taken.then(|| self.raft.last_index());
                self.proposals.change_proposed(now, place);
            }
            Err(failure) => {
                let refusal = ChangeRefusal::of(failure).unwrap_or(ChangeRefusal::UnhealthyCluster);
                let by = self.attributed(Principal::System);
                let commands = vec![Attributed { by, command: Command::MembersRefused(refusal) }];
                let refused = Batch { commands, ..batch }.to_bytes();
                self.proposals.change_refused(refused.into());
            }
        }
    }

    /// What a voter is added as, if it is to be the second.
    fn invitation_instead(&self, change: &MemberChange) -> Option<MemberChange> {
        match change {
            MemberChange::Add { id, peer_urls, is_learner: false }
                if self.state.voters().count() == 1
                    && self.state.cluster_version >= INVITES_SINCE =>
            {
                Some(MemberChange::Invite { id: *id, peer_urls: peer_urls.clone() })
            }
            _ => None,
        }
    }

    /// What the list of members allows, and whether enough members are there for it: strict, because
    /// a majority that is lost by a change cannot be brought back by another one.
    fn judge_change(&self, by: &Principal, change: &MemberChange) -> Result<(), Failure> {
        self.state.permit(by, &Command::Members(change.clone()))?;
        self.state.check_change(change)?;
        let voters: Vec<MemberId> = self.state.voters().collect();
        let started = |members: &[MemberId]| {
            members.iter().filter(|member| self.state.has_started(**member)).count()
        };
        match change {
            MemberChange::Add { is_learner: true, .. }
            | MemberChange::Invite { .. }
            | MemberChange::Update { .. } => Ok(()),
            MemberChange::Add { .. } => {
                // One beside one is a majority of two only when it has started. Without invitations there is no other
                // way for a cluster of one to grow by voters.
                if voters.len() > 1 && started(&voters) < majority(voters.len() + 1) {
                    return Err(Failure::NotEnoughStarted);
                }
                self.unless(voters.iter().any(|voter| !self.is_there(*voter)))
            }
            MemberChange::Promote(id) => {
                if !self.is_ready(*id) {
                    return Err(Failure::LearnerNotReady);
                }
                if started(&voters) + 1 < majority(voters.len() + 1) {
                    return Err(Failure::NotEnoughStarted);
                }
                let there = voters.iter().filter(|voter| self.is_there(**voter)).count();
                self.unless(there + 1 < majority(voters.len() + 1))
            }
            MemberChange::Remove(id) => {
                if !voters.contains(id) {
                    return Ok(());
                }
                let left: Vec<_> = voters.into_iter().filter(|voter| voter != id).collect();
                if started(&left) < majority(left.len()) {
                    return Err(Failure::NotEnoughStarted);
                }
                let there = left.iter().filter(|voter| self.is_there(**voter)).count();
                self.unless(there < majority(left.len()))
            }
        }
    }

    /// Whether a learner can be given a vote: it is there, has nearly all of the log, and what it has is right.
    fn is_ready(&self, learner: MemberId) -> bool {
        let has = self.raft.matched_by(learner) * 100;
        has >= self.raft.last_index() * LEARNER_READY_PERCENT
            && self.is_there(learner)
            && !self.state.is_corrupt(learner)
    }

    fn unless(&self, unhealthy: bool) -> Result<(), Failure> {
        if unhealthy { Err(Failure::UnhealthyCluster) } else { Ok(()) }
    }

    /// Whether a member is this one, or connected as far as this one was told.
    pub fn is_there(&self, member: MemberId) -> bool {
        member == self.config.me || self.connected.contains(&member)
    }

    /// The first half of a change is committed.
    pub(super) fn begin_change(&mut self, change: &MemberChange) -> Result<Outcome, Failure> {
        self.state.begin_change(change)?;
        self.raft.begin_change(change);
        self.notice(Notice::ChangeBegun(change.clone()));
        Ok(Outcome::Members(self.state.members()))
    }

    /// True if the answer must wait until the change is done.
    pub(super) fn wait_for_change(
        &mut self,
        since: Moment,
        id: RequestId,
        command: &Command,
        begun: bool,
    ) -> bool {
        let Command::Members(change) = command else { return false };
        let needs_the_new_one = matches!(change, MemberChange::Add { is_learner: false, .. })
            && self.state.voters().count() == 2;
        if !begun || !change.concerns_raft() || needs_the_new_one {
            return false;
        }
        self.changes.waiting.insert(id, (change.clone(), since));
        true
    }

    /// The raft leader proposes the second half, unless it is itself the one to go; and the third, if
    /// there is one.
    pub(super) fn end_change_if_led(&mut self, now: Moment) {
        if !self.is_leader() {
            (self.changes.let_go_at, self.changes.welcomed_at) = (None, None);
            return;
        }
        if !self.raft.will_vote(self.config.me) {
            return self.hand_over_before_removal();
        }
        self.let_go(now);
        self.welcome(now);
        if self.raft.is_joint() && !self.raft.may_be_changing() {
            // If raft does not take it now, it is tried again with the next call.
            self.raft.propose_end_of_change();
        }
    }

    fn let_go(&mut self, now: Moment) {
        let Some(member) = self.state.departing.keys().next().copied() else {
            self.changes.let_go_at = None;
            return;
        };
        let due = |at: Moment| now.since(at) >= LET_GO_INTERVAL;
        if self.changes.let_go_at.is_none_or(due) {
            self.changes.let_go_at = Some(now);
            let _ = self.propose_own(now, &Command::LetGo(member));
        }
    }

    /// Gives an invited member its vote, when it can use it.
    fn welcome(&mut self, now: Moment) {
        let due = |at: Moment| now.since(at) >= WELCOME_INTERVAL;
        if self.state.change.is_some() || !self.changes.welcomed_at.is_none_or(due) {
            return;
        }
        let has_started = |member: &MemberId| self.state.has_started(*member);
        let Some(invited) = self.state.invited.iter().find(|member| has_started(member)).copied()
        else {
            return;
        };
        if self.is_ready(invited) {
            self.changes.welcomed_at = Some(now);
            let promotion = Command::Members(MemberChange::Promote(invited));
            let _ = self.propose_own(now, &promotion);
        }
    }

    /// The second half is committed.
    pub(super) fn finish_change(&mut self) {
        let Some(change) = self.state.finish_change() else { return };
        self.raft.finish_change();
        if self.is_leader() && !self.raft.will_vote(self.config.me) {
            self.step_down_removed();
        }
        if !matches!(change, MemberChange::Remove(_)) {
            self.change_done(&change);
        }
    }

    /// Nothing can undo the change any more, and a removed member is not needed.
    pub(super) fn change_done(&mut self, change: &MemberChange) {
        let done = self.changes.waiting.extract_if(.., |_, (waiting, _)| waiting == change);
        for id in done.map(|(id, _)| id).collect::<Vec<_>>() {
            self.answer(id, Ok(Reply::Wrote(Outcome::Members(self.state.members()))));
        }
        if let MemberChange::Remove(gone) = change {
            self.changes.let_go_at = None;
            self.connected.remove(gone);
        }
        self.notice(Notice::ChangeDone(change.clone()));
    }

    /// The others go on without this member. A request for that is answered as done.
    pub(super) fn removed(&mut self) {
        let own = MemberChange::Remove(self.config.me);
        let asked: Vec<_> =
            self.changes.waiting.extract_if(.., |_, (change, _)| *change == own).collect();
        let others = || self.state.members().into_iter().filter(|other| other.id != self.config.me);
        let members: Vec<_> = others().collect();
        for (id, _) in asked {
            self.answer(id, Ok(Reply::Wrote(Outcome::Members(members.clone()))));
        }
        self.effects.fatal = Some(Fatal::Removed);
    }

    /// A snapshot replaced the entries that would have told.
    pub(super) fn change_lost_sight_of(&mut self) {
        for id in std::mem::take(&mut self.changes.waiting).into_keys() {
            self.answer(id, Err(Failure::TimedOut));
        }
    }

    pub(super) fn give_up_change(&mut self, now: Moment) {
        let patience = self.config.request_timeout;
        let late =
            self.changes.waiting.extract_if(.., |_, (_, since)| now.since(*since) > patience);
        for id in late.map(|(id, _)| id).collect::<Vec<_>>() {
            self.answer(id, Err(Failure::TimedOut));
        }
    }

    pub(super) fn awaits_no_change(&self) -> bool {
        self.changes.waiting.is_empty()
    }
}

fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

fn read_change(bytes: &[u8]) -> Option<(Batch, Principal, MemberChange)> {
    let batch = Batch::from_bytes(bytes).ok()?;
    let change = batch.change()?.clone();
    let by = batch.commands.first()?.by.clone();
    Some((batch, by, change))
}
