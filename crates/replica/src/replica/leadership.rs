//! The raft leader, since when there is none, and what this member does about it.
//!
//! A dead leader is noticed by its closed connection, long before its silence lasts an election
//! timeout. A member that notices first stops believing in it (else it would ignore requests for
//! its vote), then campaigns after a stagger by rank, and again a bounded number of times until
//! there is a raft leader. Pre-vote keeps all this from disturbing a leader that is alive after all.

use std::time::Duration;

use tenure_api::{Failure, MemberId};

use super::Replica;
use crate::{
    Moment,
    input::{Notice, Reply, RequestId},
};

/// Members campaign at least so far apart, and repeat when all others have had a turn: two that repeat in
/// the same instant split the vote again and again.
const CAMPAIGN_STAGGER_MIN: Duration = Duration::from_millis(30);
/// How often a campaign that could still be won puts off the next one.
const VOTE_WAITS_MAX: u32 = 3;
/// How often an early campaign is repeated before raft's own timeout is left to do it.
const CAMPAIGN_TRIES_MAX: u32 = 10;

/// By how much [`Canary::TtlReset`] prolongs every lease.
const TTL_RESET: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Leadership {
    /// The raft leader and term as last noticed.
    known: (Option<MemberId>, tenure_api::Term),
    /// Whether this life of the member has seen a raft leader.
    ever_known: bool,
    /// When the raft leader was last heard, and was not alone.
    heard: Moment,
    /// When the raft leader's last message arrived, whether it was alone or not.
    message_arrived: Moment,
    /// Since when there has been no raft leader.
    vacant_since: Option<Moment>,
    /// Since when no lease could be renewed, as far as this member knows: until there is a raft leader
    /// and an entry of its term is applied.
    unrenewable_since: Option<Moment>,
    /// This member has just begun to lead, and has not looked how old its leases are.
    ages_unknown: bool,
    campaign: Option<Campaign>,
    handing_over: bool,
    /// The member that the leadership was last offered to.
    offered: Option<MemberId>,
    moving: Option<Moving>,
}

#[derive(Clone, Copy, Debug)]
struct Campaign {
    at: Moment,
    /// How many campaigns have been begun since there was a raft leader.
    round: u32,
    /// How often the votes under way may still put it off.
    waits_left: u32,
}

/// A client's request to move the leadership.
#[derive(Clone, Copy, Debug)]
struct Moving {
    request: RequestId,
    to: MemberId,
    until: Moment,
}

impl Leadership {
    pub(super) fn new(now: Moment) -> Leadership {
        Leadership {
            known: (None, tenure_api::Term(0)),
            ever_known: false,
            heard: now,
            message_arrived: now,
            vacant_since: Some(now),
            unrenewable_since: Some(now),
            ages_unknown: false,
            campaign: None,
            handing_over: false,
            offered: None,
            moving: None,
        }
    }

    /// Whether leases can be renewed, as far as this member knows.
    pub(super) fn is_renewable(&self) -> bool {
        self.unrenewable_since.is_none()
    }

    pub(super) fn hand_over(&mut self) {
        self.handing_over = true;
    }

    pub(super) fn vacant_since(&self) -> Option<Moment> {
        self.vacant_since
    }

    pub(super) fn next_campaign(&self) -> Option<Moment> {
        self.campaign.map(|campaign| campaign.at)
    }

    /// Time that already counts as a pause must not count as leaderless time too.
    pub(super) fn paused(&mut self, pause: Duration) {
        self.heard = self.heard + pause;
        self.message_arrived = self.message_arrived + pause;
        self.unrenewable_since = self.unrenewable_since.map(|since| since + pause);
        self.vacant_since = self.vacant_since.map(|since| since + pause);
    }

    /// All leases have their whole time from now on.
    pub(super) fn leases_restart(&mut self, now: Moment) {
        self.unrenewable_since = self.unrenewable_since.map(|since| since.max(now));
    }

    fn campaign_at(&mut self, at: Moment) {
        self.campaign = Some(Campaign { at, round: 0, waits_left: VOTE_WAITS_MAX });
    }
}

impl Replica {
    /// Whether there has been no raft leader for an election timeout.
    pub(super) fn lacks_leader(&self) -> bool {
        let vacant = self.leadership.vacant_since.map(|since| self.last_call.since(since));
        vacant.is_some_and(|vacant| vacant >= self.config.election_timeout)
    }

    pub(super) fn peer_lost(&mut self, now: Moment, member: MemberId) {
        self.raft.report_unreachable(member);
        if self.raft.leader() != Some(member) {
            return;
        }
        self.notice(Notice::LeaderLost(member));
        self.raft.forget_leader();
        let rank = self.rank_without(Some(member));
        self.leadership.campaign_at(now + self.campaign_stagger() * rank);
    }

    /// While the cluster comes up: as soon as a majority is there, a member campaigns, the lowest id
    /// first.
    pub(super) fn peer_connected(&mut self, now: Moment, member: MemberId) {
        if self.raft.leader() == Some(member) {
            self.resend_batches(now);
        }
        let voters = self.raft.voters().len();
        if !self.leadership.ever_known && 2 * (self.connected.len() + 1) > voters {
            let rank = self.rank_without(None);
            self.leadership.campaign_at(now + self.campaign_stagger() * rank);
        }
    }

    /// A message of the raft leader arrived; a heartbeat tells for how long no quorum has answered it. If it was silent, or
    /// alone, for longer than is usual, nothing could be renewed meanwhile.
    pub(super) fn heard_leader(&mut self, arrived: Moment, alone: Option<Duration>) {
        self.leadership.message_arrived = arrived;
        let Some(alone) = alone else { return };
        let at = arrived - alone;
        let silence = at.since(self.leadership.heard);
        self.leadership.heard = at;
        if silence > self.silence_max()
            && self.leadership.is_renewable()
            && !canary!(CutOffTimeCounts)
        {
            self.hold_back(self.last_call, silence);
        }
    }

    /// How many voters with a lower id there are.
    fn rank_without(&self, dead: Option<MemberId>) -> u32 {
        let voters = self.raft.voters();
        let before = |voter: &&MemberId| **voter < self.config.me && Some(**voter) != dead;
        voters.iter().filter(before).count() as u32
    }

    pub(super) fn campaign_if_due(&mut self, now: Moment) {
        if self.raft.leader().is_some() || self.disk_is_stalled(now) {
            self.leadership.campaign = None;
            return;
        }
        let alone = self.raft.voters() == [self.config.me];
        if alone && self.leadership.campaign.is_none() {
            self.leadership.campaign_at(now);
        }
        let Some(campaign) = self.leadership.campaign.filter(|campaign| campaign.at <= now) else {
            return;
        };
        // A vote, for itself or another, is on its way to the disk. To ask for the next term now would
        // throw away the answers.
        if self.raft.writes_vote() {
            let at = now + self.campaign_stagger();
            self.leadership.campaign = Some(Campaign { at, ..campaign });
            return;
        }
        // So would it the votes of members that are far away: the answers take longer than a turn.
        if self.raft.may_win(&self.connected) && campaign.waits_left > 0 {
            let waits_left = campaign.waits_left - 1;
            let at = self.campaign_again_at(now, campaign.round);
            self.leadership.campaign = Some(Campaign { at, waits_left, ..campaign });
            return;
        }
        self.raft.campaign();
        let round = campaign.round + 1;
        let at = self.campaign_again_at(now, round);
        self.leadership.campaign = (round <= CAMPAIGN_TRIES_MAX).then_some(Campaign {
            at,
            round,
            waits_left: VOTE_WAITS_MAX,
        });
    }

    /// When this member's turn comes again. Members that split a vote at some distance in time would split the next one, too, if
    /// all of them waited for the same time. So the distance grows with every round, by more each time, until it is longer than
    /// a vote takes; the lower id goes ahead.
    fn campaign_again_at(&self, now: Moment, round: u32) -> Moment {
        let turns = self.raft.voters().len() as u32 + 1 + self.rank_without(None) * round;
        now + self.campaign_stagger() * turns
    }

    /// A heartbeat interval is about a round trip where it matters, and a member that asks for votes half a round trip
    /// after another one finds that one's votes given.
    fn campaign_stagger(&self) -> Duration {
        CAMPAIGN_STAGGER_MIN.max(self.config.heartbeat * 3 / 5)
    }

    /// Notices another raft leader, or none, and does what follows from it.
    pub(super) fn follow_leader_changes(&mut self, now: Moment) {
        if self.is_leader() {
            self.leadership.heard = now;
        }
        let current = (self.raft.leader(), self.raft.term());
        let before = self.leadership.known;
        if current == before {
            return;
        }
        self.leadership.known = current;
        if before.0 == Some(self.config.me) {
            // A deposed raft leader may have been cut off for as long as check-quorum allows.
            self.leadership.heard =
                if canary!(CutOffTimeCounts) { now } else { self.contact.last() };
            self.proposals.clear();
            self.take_back_expiries(now);
        }
        let heard = self.leadership.heard;
        self.leadership.unrenewable_since.get_or_insert(heard);
        match current.0 {
            None => {
                self.leadership.vacant_since.get_or_insert(now);
                // Another member asks for votes in a new term: leave it the time to win.
                if let Some(campaign) = self.leadership.campaign
                    && current.1 > before.1
                {
                    let at = campaign.at.max(self.campaign_again_at(now, campaign.round));
                    self.leadership.campaign = Some(Campaign { at, ..campaign });
                }
            }
            Some(_) => {
                self.leadership.vacant_since = None;
                self.leadership.ever_known = true;
                self.leadership.campaign = None;
                let is_me = current.0 == Some(self.config.me);
                self.leadership.heard = if is_me { now } else { self.leadership.message_arrived };
                self.reads.abandon_all();
                self.resend_batches(now);
                if is_me {
                    self.contact_begins(now);
                }
                if self.applied.1 == current.1 {
                    self.leases_are_renewable(now);
                }
            }
        }
        self.notice(Notice::Leader { leader: current.0, term: current.1 });
    }

    /// There is a raft leader and an entry of its term is applied: leases can be renewed again, and
    /// the time in which they could not is given back to all of them.
    ///
    /// A member that finds the leader of the same term again comes here, too. If it waited for the
    /// next term it would give back all the time until then, which is hours in a quiet cluster.
    pub(super) fn leases_are_renewable(&mut self, now: Moment) {
        if self.raft.leader().is_none() {
            return;
        }
        if let Some(since) = self.leadership.unrenewable_since.take() {
            if canary!(LeaderlessTimeCounts) {
                return;
            }
            if canary!(TtlReset) {
                self.deadlines.hold_back(now, now.since(Moment::ZERO).min(TTL_RESET));
            }
            self.leadership.ages_unknown = self.is_leader() && !canary!(AgeUnknown);
            self.hold_back(now, now.since(since));
        }
    }

    /// A member that begins to lead may have replayed its log late: leases can be older than it saw.
    pub(super) fn look_at_ages(&mut self) {
        if std::mem::take(&mut self.leadership.ages_unknown) {
            let state = &self.state;
            self.deadlines.account_for_age(|lease| state.time_to_live(*lease));
        }
    }

    /// Gives the leadership away if this member is stopping, its disk stands still, or it holds
    /// something else than the others.
    pub(super) fn hand_over_if_needed(&mut self, now: Moment) {
        if !self.is_leader() || self.raft.voters().len() < 2 {
            return;
        }
        let stalled = self.disk_is_stalled(now);
        let corrupt = self.state.is_corrupt(self.config.me);
        if !stalled && !corrupt && !self.leadership.handing_over {
            return;
        }
        if stalled && self.disk_stalled_for(now) > 2 * self.config.election_timeout {
            self.notice(Notice::DiskStalled);
            self.raft.forget_leader();
            return;
        }
        if !self.raft.is_transferring() {
            if stalled {
                self.notice(Notice::DiskStalled);
            }
            // Between members that all differ it would go round and round, a term each tick.
            let must_go = stalled || self.leadership.handing_over;
            let differs = |member: MemberId| self.state.is_corrupt(member);
            let successor = self.raft.best_successor(self.leadership.offered, differs);
            if let Some(successor) = successor.filter(|id| must_go || !differs(*id)) {
                self.leadership.offered = Some(successor);
                self.raft.transfer(successor);
            }
        }
    }

    /// Gives the leadership to a member that will still vote when the change under way is done.
    pub(super) fn hand_over_before_removal(&mut self) {
        if self.raft.is_transferring() {
            return;
        }
        if let Some(successor) = self.raft.best_successor(self.leadership.offered, |_| false) {
            self.leadership.offered = Some(successor);
            self.raft.transfer(successor);
        }
    }

    /// It finds itself leading and off the list: it was elected while its vote still counted, with the
    /// end of the change already in its log. raft-rs does not expect a leader that does not follow
    /// itself, so this ends at once; a member that has everything is told to take over.
    pub(super) fn step_down_removed(&mut self) {
        if let Some(successor) = self.raft.best_successor(None, |_| false) {
            self.raft.transfer(successor);
        }
        self.raft.forget_leader();
    }

    pub(super) fn move_leader(&mut self, now: Moment, request: RequestId, to: MemberId) {
        let refusal = if !self.is_leader() {
            Some(Failure::NotLeader)
        } else if !self.raft.will_vote(to) {
            Some(Failure::BadLeaderTransferee)
        } else if self.leadership.moving.is_some() {
            Some(Failure::TooManyRequests)
        } else {
            None
        };
        if let Some(failure) = refusal {
            return self.answer(request, Err(failure));
        }
        if to == self.config.me {
            return self.answer(request, Ok(Reply::Done));
        }
        self.raft.transfer(to);
        let until = now + self.config.election_timeout;
        self.leadership.moving = Some(Moving { request, to, until });
    }

    pub(super) fn follow_move(&mut self, now: Moment) {
        let Some(moving) = self.leadership.moving else { return };
        let result = match self.raft.leader() {
            Some(leader) if leader == moving.to => Ok(Reply::Done),
            _ if now >= moving.until => Err(Failure::TimedOutLeaderTransfer),
            _ => return,
        };
        self.leadership.moving = None;
        self.answer(moving.request, result);
    }
}
