//! Consensus: tikv's raft-rs, driven without IO, and the only place that knows it.
//!
//! The drive loop of one round: hand in ticks, messages and proposals; then take a [`Progress`] again
//! and again until there is none. What it says to persist goes to the disk; when the disk has it,
//! [`Consensus::persisted`] releases the messages that had to wait for it. Two rules of raft-rs are
//! kept here so that no other module needs to know them:
//!
//! - Telling it that write *n* is durable tells it the same of all writes before. So writes are
//!   acknowledged strictly in order, and a round without a write joins the one before it.
//! - It lets all messages of a follower wait for the disk. Heartbeat answers must not, or a member
//!   with a slow disk looks dead; they may leave unless a term or vote is being written.
//! - It lets no message of a raft leader wait. Those of one whose term or vote is being written must
//!   ([`pending`]).
//!
//! Its election timeout is random. To make a run repeatable it is set after every step as a function of
//! (seed, member, term, number of campaigns).

mod members;
mod notices;
mod pending;
mod refused;
#[cfg(test)]
mod table;
mod tail;
mod translate;
mod vouch;

use std::collections::BTreeSet;

use bytes::Bytes;
use raft::{Config as RaftConfig, ReadOnlyOption, StateRole};
use tenure_api::{MemberId, Term};

pub use self::refused::RefusedMessage;
pub(crate) use self::tail::Trim;
use self::{
    tail::LogTail,
    translate::{entry_in, entry_out, hard_state_in, hard_state_out, mark_of, message_in},
};
use crate::{
    input::PeerProgress,
    log::{Entry, HardState, LogIndex, Persist, SnapshotMark},
    message::{RaftKind, RaftMessage},
};

/// How raft is set up. Durations are counted in ticks.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) me: MemberId,
    pub(crate) seed: u64,
    pub(crate) heartbeat_ticks: usize,
    pub(crate) election_ticks: usize,
    pub(crate) pre_vote: bool,
    pub(crate) random_timeouts: bool,
}

/// What this member is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaftRole {
    /// Follows the raft leader, if it knows one.
    Follower,
    /// Asks whether an election could be won, or for votes.
    Candidate,
    /// Leads the log.
    Leader,
}

/// What one round of raft asks for.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) persist: Option<Persist>,
    /// May leave at once.
    pub(crate) messages: Vec<RaftMessage>,
    pub(crate) committed: Vec<Entry>,
    /// Read rounds that are confirmed: context and the index to wait for.
    pub(crate) reads: Vec<(Bytes, LogIndex)>,
    /// Replace the state by this snapshot before applying anything.
    pub(crate) installed: Option<SnapshotMark>,
}

/// One member's share in the consensus.
pub(crate) struct Consensus {
    node: raft::RawNode<LogTail>,
    setup: Setup,
    /// Elections this member has started.
    campaigns: u64,
    /// Term and vote as last handed to the disk.
    promised: (Term, Option<MemberId>),
    pending: pending::Pending,
    notices: notices::Notices,
    vouches: vouch::Vouches,
    floors: vouch::Floors,
}

/// The raft leader's share of the log that may be sent in one message.
const APPEND_BYTES_MAX: u64 = 1 << 20;
/// Append messages on their way to one follower before it must answer.
const APPENDS_IN_FLIGHT_MAX: usize = 256;
/// Committed entries handed out in one round, or one that is larger. They are applied in one go.
const COMMITTED_BYTES_MAX: u64 = 64 << 10;
/// Proposed but not yet committed bytes at the raft leader.
const UNCOMMITTED_BYTES_MAX: u64 = 64 << 20;

impl Consensus {
    pub(crate) fn new(
        setup: Setup,
        start: &SnapshotMark,
        hard_state: HardState,
        entries: Vec<Entry>,
    ) -> Consensus {
        let last = entries.last().map_or(start.index, |entry| entry.index);
        // The commit index is written only along with other things, so it may be an old one.
        let commit = hard_state.commit.clamp(start.index, last);
        let mut tail = LogTail::new(start, hard_state_in(HardState { commit, ..hard_state }));
        tail.append(entries.into_iter().map(entry_in).collect());
        let config = RaftConfig {
            id: setup.me.0,
            election_tick: setup.election_ticks,
            heartbeat_tick: setup.heartbeat_ticks,
            applied: start.index,
            max_size_per_msg: APPEND_BYTES_MAX,
            max_inflight_msgs: APPENDS_IN_FLIGHT_MAX,
            check_quorum: true,
            pre_vote: setup.pre_vote,
            read_only_option: ReadOnlyOption::Safe,
            max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
            max_committed_size_per_ready: COMMITTED_BYTES_MAX,
            // Waiting followers are told by a notice, which is not answered.
            skip_bcast_commit: true,
            ..RaftConfig::default()
        };
        let quiet = slog::Logger::root(slog::Discard, slog::o!());
        let node = raft::RawNode::new(&config, tail, &quiet)
            .expect("settings and recovered log were checked before");
        let promised = (hard_state.term, hard_state.vote);
        let mut consensus = Consensus {
            node,
            setup,
            campaigns: 0,
            promised,
            pending: pending::Pending::new(hard_state.term),
            notices: notices::Notices::default(),
            vouches: vouch::Vouches::default(),
            floors: vouch::Floors::default(),
        };
        consensus.set_timeout();
        consensus
    }

    pub(crate) fn tick(&mut self) {
        if !self.may_campaign() {
            return;
        }
        let campaigned = self.node.tick() && self.role() != RaftRole::Leader;
        self.campaigns += u64::from(campaigned);
        self.set_timeout();
    }

    /// The how manieth tick from now does something; none if no number of them does.
    pub(crate) fn ticks_until_due(&self) -> Option<usize> {
        let raft = &self.node.raft;
        match raft.state {
            StateRole::Leader => {
                let beat = self.setup.heartbeat_ticks.saturating_sub(raft.heartbeat_elapsed());
                let quorum = self.setup.election_ticks.saturating_sub(raft.election_elapsed);
                Some(beat.min(quorum).max(1))
            }
            _ if !raft.promotable() => None,
            _ => {
                let timeout = raft.randomized_election_timeout();
                Some(timeout.saturating_sub(raft.election_elapsed).max(1))
            }
        }
    }

    /// Hands in a peer's message. One that does not fit the situation is dropped, as raft allows; one that no sound
    /// member sends is refused.
    pub(crate) fn step(&mut self, mut message: RaftMessage) -> Result<(), RefusedMessage> {
        if !canary!(UncheckedMessages) {
            self.check(&message)?;
        }
        if message.kind == RaftKind::TimeoutNow && !self.may_campaign() {
            return Ok(());
        }
        // raft-rs would pass it on to the raft leader in its sender's name, which no member may do.
        if message.kind == RaftKind::ReadIndex && self.role() != RaftRole::Leader {
            return Ok(());
        }
        let asks = matches!(message.kind, RaftKind::RequestVote | RaftKind::RequestPreVote);
        if asks && canary!(VoteForAnybody) {
            message.log_term = Term(u64::MAX);
        }
        if message.kind == RaftKind::Append && canary!(AppendsAnywhere) {
            let found = self.node.raft.raft_log.term(message.index).unwrap_or(0);
            message.log_term = if found == 0 { message.log_term } else { Term(found) };
        }
        if message.kind == RaftKind::ReadIndex && !self.set_floor(message.context.clone()) {
            return Ok(());
        }
        let floor = take_floor(&mut message);
        let vouched = message.is_vouch().then_some((message.from, message.term, message.index));
        let is_answered = vouched.is_none() && !message.is_notice();
        let unsent = self.node.raft.msgs.len();
        let _ = self.node.step(message_in(message));
        if !is_answered {
            self.node.raft.msgs.truncate(unsent);
        }
        if let Some(read) = self.node.raft.read_states.last_mut().filter(|_| floor > 0) {
            read.index = read.index.max(floor);
        }
        if let Some((from, term, index)) = vouched
            && (self.leader(), self.term()) == (Some(from), term)
        {
            self.vouches.hear(term, index);
            self.vouches.count(&mut self.node);
        }
        self.set_timeout();
        Ok(())
    }

    /// Appends to the log. False if raft does not take it now (no leader any more, a hand-over is
    /// under way, too much uncommitted): keep it and try again.
    pub(crate) fn propose(&mut self, data: Vec<u8>) -> bool {
        debug_assert!(self.role() == RaftRole::Leader, "a follower would forward on its own");
        self.node.propose(vec![], data).is_ok()
    }

    /// Starts a read round. Dropped silently if there is no leader or it has not committed in its
    /// term yet: the caller must try again.
    pub(crate) fn read_index(&mut self, context: Vec<u8>) {
        if self.set_floor(context.clone().into()) {
            self.node.read_index(context);
        }
    }

    /// A round of reads begins. If this member leads, the round waits for what others may have counted already. False if
    /// too many do: then it is as good as lost, and begins again.
    fn set_floor(&mut self, round: Bytes) -> bool {
        let floor = self.vouches.given_to_any(self.term());
        let has_floor = self.role() == RaftRole::Leader && floor > self.committed();
        if !has_floor || canary!(ReadUncounted) {
            return true;
        }
        let under_way = &self.node.raft.read_only.pending_read_index;
        self.floors.set(round, floor, |round| under_way.contains_key(round))
    }

    /// Not while a snapshot is installed but not durable: raft-rs would look for entries between
    /// what it counts as applied and the snapshot, find none, and panic.
    fn may_campaign(&self) -> bool {
        if canary!(NeverCampaigns) && self.node.raft.term > 0 {
            return false;
        }
        !self.pending.has_snapshots()
    }

    /// A learner, and a member that does not know the others yet, would find that it has all the
    /// votes that it needs: none.
    pub(crate) fn campaign(&mut self) {
        if !self.may_campaign() || !self.node.raft.promotable() {
            return;
        }
        let _ = self.node.campaign();
        self.campaigns += 1;
        self.set_timeout();
    }

    /// Stops believing in the raft leader without waiting for the timeout. With check-quorum a member
    /// that still believes in one ignores requests for its vote.
    pub(crate) fn forget_leader(&mut self) {
        let term = self.node.raft.term;
        self.node.raft.become_follower(term, raft::INVALID_ID);
        self.set_timeout();
    }

    pub(crate) fn transfer(&mut self, to: MemberId) {
        self.node.transfer_leader(to.0);
    }

    pub(crate) fn is_transferring(&self) -> bool {
        self.node.raft.lead_transferee.is_some()
    }

    pub(crate) fn report_unreachable(&mut self, member: MemberId) {
        self.node.report_unreachable(member.0);
    }

    pub(crate) fn report_snapshot(&mut self, to: MemberId, arrived: bool) {
        let status =
            if arrived { raft::SnapshotStatus::Finish } else { raft::SnapshotStatus::Failure };
        self.node.report_snapshot(to.0, status);
    }

    /// What raft asks for next; none if it is at rest.
    pub(crate) fn progress(&mut self) -> Option<Progress> {
        if !self.node.has_ready() {
            return None;
        }
        let hard_state = hard_state_out(&self.node.raft.hard_state());
        let mut ready = self.node.ready();
        let mut progress = Progress::default();
        let number = ready.number();

        let changes_vote = (hard_state.term, hard_state.vote) != self.promised;
        self.promised = (hard_state.term, hard_state.vote);
        if !ready.snapshot().is_empty() {
            let mark = mark_of(ready.snapshot());
            self.node.raft.mut_store().restart(&mark);
            progress.installed = Some(mark);
        }
        let entries = ready.take_entries();
        let persist = Persist {
            number,
            hard_state: ready.must_sync().then_some(self.written(hard_state)),
            snapshot: progress.installed.clone(),
            entries: entries.iter().map(entry_out).collect(),
        };
        self.node.raft.mut_store().append(entries);

        for read in ready.take_read_states() {
            let floor = self.floors.take(&read.request_ctx).unwrap_or(0);
            progress.reads.push((read.request_ctx.into(), read.index.max(floor)));
        }
        progress.committed = ready.take_committed_entries().iter().map(entry_out).collect();
        let mut messages = outgoing(ready.take_messages());
        self.notices.add(&self.node, &self.vouches, &mut messages);
        self.add_floors(&mut messages);
        let mut after = outgoing(ready.take_persisted_messages());
        // A raft leader that confirmed a round of reads and stepped down in the same call answers it here.
        if !canary!(FloorForgotten) {
            self.add_floors(&mut after);
        }
        let needs_disk = ready.must_sync();
        self.node.advance_append_async(ready);

        let vote_waits = changes_vote || self.writes_vote();
        if canary!(SkippedFlush) {
            progress.messages.append(&mut after);
        }
        if vote_waits && !canary!(SpeaksBeforeVote) {
            self.pending.hold(messages);
        } else {
            let (urgent, rest) = after.into_iter().partition(|message| needs_no_disk(message.kind));
            progress.messages.append(&mut messages);
            progress.messages.extend::<Vec<_>>(urgent);
            after = rest;
        }
        self.pending.push(pending::Round {
            number,
            needs_disk,
            term: changes_vote.then_some(hard_state.term),
            installed: progress.installed.as_ref().map(|mark| mark.index),
            messages: after,
        });
        if needs_disk {
            progress.persist = Some(persist);
        }
        let durable =
            if canary!(EarlyPersist) && self.role() == RaftRole::Leader { number } else { 0 };
        progress.messages.extend(self.settle(durable));
        self.set_timeout();
        Some(progress)
    }

    /// What is written of the term and the vote.
    fn written(&self, hard_state: HardState) -> HardState {
        let vote = hard_state.vote.filter(|_| !canary!(VoteNotPersisted));
        HardState { vote, ..hard_state }
    }

    /// The disk has everything up to write `number`. Answers the messages that waited for it.
    pub(crate) fn persisted(&mut self, number: u64) -> Vec<RaftMessage> {
        let messages = self.settle(number);
        self.vouches.count(&mut self.node);
        self.set_timeout();
        messages
    }

    /// What the raft leader can say of its own disk to the followers that are a majority together with it. All members must
    /// know what to make of it.
    pub(crate) fn vouch(&mut self) -> Vec<RaftMessage> {
        self.vouches.give(&self.node)
    }

    /// Answers to rounds of others say what those must wait for.
    fn add_floors(&mut self, messages: &mut [RaftMessage]) {
        for answer in messages.iter_mut().filter(|m| m.kind == RaftKind::ReadIndexResponse) {
            answer.commit = self.floors.take(&answer.context).unwrap_or(0);
        }
    }

    fn settle(&mut self, durable: u64) -> Vec<RaftMessage> {
        let settled = self.pending.settle(durable);
        if let Some(number) = settled.number {
            self.node.on_persist_ready(number);
        }
        if let Some(index) = settled.installed {
            self.node.advance_apply_to(index);
        }
        settled.messages
    }

    pub(crate) fn role(&self) -> RaftRole {
        match self.node.raft.state {
            StateRole::Follower => RaftRole::Follower,
            StateRole::PreCandidate | StateRole::Candidate => RaftRole::Candidate,
            StateRole::Leader => RaftRole::Leader,
        }
    }

    pub(crate) fn term(&self) -> Term {
        Term(self.node.raft.term)
    }

    /// The term as the disk has it: the highest in which this member may speak.
    pub(crate) fn durable_term(&self) -> Term {
        self.pending.durable_term()
    }

    pub(crate) fn leader(&self) -> Option<MemberId> {
        let leader = self.node.raft.leader_id;
        (leader != raft::INVALID_ID).then_some(MemberId(leader))
    }

    pub(crate) fn committed(&self) -> LogIndex {
        self.node.raft.raft_log.committed
    }

    pub(crate) fn last_index(&self) -> LogIndex {
        self.node.raft.raft_log.last_index()
    }

    /// Where a snapshot of the state at `index` would stand.
    pub(crate) fn mark_at(&self, index: LogIndex, term: Term) -> SnapshotMark {
        translate::mark_at(index, term, self.node.store().conf_state())
    }

    /// The follower that is furthest along and has been heard of lately: the best next leader. One
    /// that was tried before comes last, because it may be unable to write its vote, and behind it
    /// those that are to be avoided.
    pub(crate) fn best_successor(
        &self,
        tried: Option<MemberId>,
        avoid: impl Fn(MemberId) -> bool,
    ) -> Option<MemberId> {
        let me = self.setup.me.0;
        let untried = |id: u64| Some(MemberId(id)) != tried;
        self.node
            .raft
            .prs()
            .iter()
            .filter(|(id, progress)| **id != me && progress.recent_active)
            .filter(|(id, _)| self.will_vote(MemberId(**id)))
            .max_by_key(|(id, progress)| {
                let wanted = !avoid(MemberId(**id));
                (wanted, untried(**id), progress.matched, std::cmp::Reverse(**id))
            })
            .map(|(id, _)| MemberId(*id))
    }

    /// How far the other members are, if this is the raft leader.
    pub(crate) fn peer_progress(&self) -> Vec<PeerProgress> {
        if self.role() != RaftRole::Leader {
            return vec![];
        }
        let others = self.node.raft.prs().iter().filter(|(id, _)| **id != self.setup.me.0);
        let one = |(id, progress): (&u64, &raft::Progress)| PeerProgress {
            member: MemberId(*id),
            matched: progress.matched,
            next: progress.next_idx,
            is_active: progress.recent_active,
        };
        others.map(one).collect()
    }

    /// Up to where every follower has the log, as far as the raft leader knows.
    pub(crate) fn matched_by_all(&self) -> LogIndex {
        self.node.raft.prs().iter().map(|(_, progress)| progress.matched).min().unwrap_or(0)
    }

    pub(crate) fn applied(&mut self, index: LogIndex) {
        self.node.raft.mut_store().applied(index);
        self.node.advance_apply_to(index);
        self.set_timeout();
    }

    /// Up to where a follower has the log, or will have when the snapshot has arrived that is on its way.
    pub(crate) fn promised_to(&self, member: MemberId) -> Option<LogIndex> {
        let progress = self.node.raft.prs().get(member.0)?;
        Some(progress.matched.max(progress.pending_snapshot))
    }

    /// Whether a follower is being sent a snapshot, or does not have the log up to `index`.
    pub(crate) fn is_behind(&self, member: MemberId, index: LogIndex) -> bool {
        let progress = self.node.raft.prs().get(member.0);
        progress.is_some_and(|known| known.pending_snapshot > 0 || known.matched < index)
    }

    pub(crate) fn trim_log(&mut self, trim: &Trim) {
        self.node.raft.mut_store().trim(trim);
    }

    pub(crate) fn log_bytes(&self) -> usize {
        self.node.store().bytes()
    }

    pub(crate) fn first_index(&self) -> LogIndex {
        self.node.store().first()
    }

    /// Whether some write has not been confirmed by the disk yet.
    pub(crate) fn awaits_disk(&self) -> bool {
        self.pending.has_writes()
    }

    /// Whether a term or vote has not been confirmed by the disk yet.
    pub(crate) fn writes_vote(&self) -> bool {
        self.pending.has_votes()
    }

    /// Whether this member has asked for votes in its term, and can still win with those of the voters that are there.
    pub(crate) fn may_win(&self, there: &BTreeSet<MemberId>) -> bool {
        let raft = &self.node.raft;
        let voters = self.voters();
        let is_there = |voter: &&MemberId| **voter == self.setup.me || there.contains(voter);
        let refused = raft.prs().tally_votes().1;
        let votes = voters.iter().filter(is_there).count().saturating_sub(refused);
        raft.state == StateRole::Candidate && 2 * votes > voters.len()
    }

    /// Raft-rs throws its dice at every reset; ours lie the same way in every run.
    fn set_timeout(&mut self) {
        let election = self.setup.election_ticks;
        let dice = [self.setup.seed, self.setup.me.0, self.node.raft.term, self.campaigns]
            .into_iter()
            .fold(0, |dice, number| mix(dice ^ number));
        let more = if self.setup.random_timeouts { dice as usize % election } else { 0 };
        let timeout = election + more;
        if self.node.raft.randomized_election_timeout() != timeout {
            self.node.raft.set_randomized_election_timeout(timeout);
        }
    }
}

/// What a follower may say although an earlier write of its is not durable: none of these promises
/// anything about the log or a vote.
fn needs_no_disk(kind: RaftKind) -> bool {
    matches!(
        kind,
        RaftKind::HeartbeatResponse
            | RaftKind::ReadIndex
            | RaftKind::RequestPreVote
            | RaftKind::RequestPreVoteResponse
    )
}

/// What a round of reads waits for beyond the answer's index; raft-rs would take that for committed.
fn take_floor(message: &mut RaftMessage) -> LogIndex {
    match message.kind {
        RaftKind::ReadIndexResponse => std::mem::take(&mut message.commit),
        _ => 0,
    }
}

fn outgoing(messages: Vec<raft::eraftpb::Message>) -> Vec<RaftMessage> {
    messages.into_iter().filter_map(translate::message_out).collect()
}

/// A number that looks random and is not (the finisher of splitmix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
