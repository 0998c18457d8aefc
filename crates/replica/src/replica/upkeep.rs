//! What must be done from time to time: ticks, leases that ran out, sweeping, snapshots, the log's
//! tail, this member's own announcements.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_api::{LeaseId, MemberId};

use super::Replica;
use crate::{
    Moment,
    command::{Command, Expiry},
    input::{Notice, Reply, RequestId},
    log::{Entry, LogIndex, SnapshotMark},
    raft::Trim,
    snapshot::Snapshot,
    state::Outcome,
};

/// Leases in one expiry command: a hundred thousand that end together must not hold up the loop.
const EXPIRIES_PER_COMMAND: usize = 256;
/// Expiries that may be under way at once.
const EXPIRIES_UNDER_WAY_MAX: usize = 1024;
/// Versions freed in one call after a compaction.
const SWEEP_STEPS: usize = 512;
/// Entries kept although every follower has them.
const TAIL_ENTRIES_KEPT: u64 = 64;
/// Which part of the state's size the log may have that is kept for members that were sent the state.
const WANTED_LOG_PER_STATE: u64 = 2;
/// How often a member that is not known as it should be says so again.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);
/// Ticks made up for when a call comes late. More would end in an election after every pause.
const LATE_TICKS_MAX: u32 = 2;
/// How long a member sleeps through ticks that do nothing, and which part of the election timeout at the
/// most: often enough for what is looked after at ticks, and too short for what is made up for after a pause
/// to end in an election.
const SLEEP_MAX: Duration = Duration::from_millis(50);
const SLEEPS_PER_ELECTION_TIMEOUT: usize = 8;

#[derive(Debug)]
pub(super) struct Upkeep {
    /// Since when the disk has owed an answer.
    disk_asked: Option<Moment>,
    /// Leases whose expiry is proposed but not applied.
    expiring: BTreeSet<LeaseId>,
    /// Compactions that are answered when their room is free.
    sweep_waiters: BTreeMap<RequestId, Swept>,
    snapshot_under_way: bool,
    /// Where the last snapshot was begun, well or not.
    last_snapshot: LogIndex,
    /// The index of the last one that is durable.
    last_saved: LogIndex,
    bytes_since_snapshot: u64,
    /// Members that were sent the state and have not caught up with the log.
    receivers: BTreeSet<MemberId>,
    published_at: Option<Moment>,
    version_raised_at: Option<Moment>,
    announced_version: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Swept {
    NotApplied,
    Sweeping,
}

impl Upkeep {
    pub(super) fn new(last_snapshot: LogIndex) -> Upkeep {
        Upkeep {
            disk_asked: None,
            expiring: BTreeSet::new(),
            sweep_waiters: BTreeMap::new(),
            snapshot_under_way: false,
            last_snapshot,
            last_saved: last_snapshot,
            bytes_since_snapshot: 0,
            receivers: BTreeSet::new(),
            published_at: None,
            version_raised_at: None,
            announced_version: 0,
        }
    }

    pub(super) fn disk_asked(&mut self, now: Moment) {
        self.disk_asked.get_or_insert(now);
    }

    /// The disk's thread stood still along with us.
    pub(super) fn paused(&mut self, pause: Duration) {
        self.disk_asked = self.disk_asked.map(|asked| asked + pause);
    }

    pub(super) fn applied(&mut self, entry: &Entry) {
        self.bytes_since_snapshot += entry.data.len() as u64;
    }

    pub(super) fn installed(&mut self, index: LogIndex) {
        self.last_snapshot = index;
        self.last_saved = index;
        self.bytes_since_snapshot = 0;
    }

    /// A member is sent the state.
    pub(super) fn sending_state(&mut self, to: MemberId) {
        self.receivers.insert(to);
    }

    /// It was not sent, or the member is gone.
    pub(super) fn state_not_sent(&mut self, to: MemberId) {
        self.receivers.remove(&to);
    }

    /// True if an expiry of this lease was under way.
    pub(super) fn expiry_settled(&mut self, lease: LeaseId) -> bool {
        self.expiring.remove(&lease)
    }

    pub(super) fn answer_when_swept(&mut self, id: RequestId) {
        self.sweep_waiters.insert(id, Swept::NotApplied);
    }

    pub(super) fn forget_sweep_waiter(&mut self, id: RequestId) {
        self.sweep_waiters.remove(&id);
    }

    /// True if the answer to this compaction must wait until its room is free.
    pub(super) fn wait_for_sweep(&mut self, id: RequestId, compacted: bool) -> bool {
        if !compacted {
            self.sweep_waiters.remove(&id);
            return false;
        }
        match self.sweep_waiters.get_mut(&id) {
            Some(swept) => {
                *swept = Swept::Sweeping;
                true
            }
            None => false,
        }
    }
}

impl Replica {
    /// Makes up for ticks that were slept through; how many those are. Before anything is taken in: they
    /// were over when it came, and must not count against a raft leader that was heard of since.
    pub(super) fn pass_quiet_ticks(&mut self, now: Moment) -> u32 {
        let mut slept = 0;
        let most = self.sleep_ticks_max();
        while now >= self.next_tick && slept + 1 < most && self.next_tick_is_quiet() {
            self.tick(now);
            self.next_tick = self.next_tick + self.config.tick;
            slept += 1;
        }
        slept
    }

    /// When the next tick is that does something, or the last that may be slept through.
    pub(super) fn next_busy_tick(&self) -> Moment {
        if !self.is_published() {
            return self.next_tick;
        }
        let most = self.sleep_ticks_max();
        let due = self.raft.ticks_until_due().map_or(most, |due| most.min(due as u32));
        self.next_tick + self.config.tick * (due - 1)
    }

    fn next_tick_is_quiet(&self) -> bool {
        self.raft.ticks_until_due().is_none_or(|due| due > 1)
    }

    fn sleep_ticks_max(&self) -> u32 {
        let most = SLEEP_MAX.as_micros() / self.config.tick.as_micros().max(1);
        let part = self.config.election_ticks() / SLEEPS_PER_ELECTION_TIMEOUT;
        (most as usize).min(part).max(1) as u32
    }

    pub(super) fn pass_time(&mut self, now: Moment, slept: u32) {
        let mut ticks = 0;
        while now >= self.next_tick && ticks < LATE_TICKS_MAX {
            self.tick(now);
            self.next_tick = self.next_tick + self.config.tick;
            ticks += 1;
        }
        if now >= self.next_tick {
            self.next_tick = now + self.config.tick;
        }
        if slept + ticks > 0 {
            self.hand_over_if_needed(now);
            self.give_up_requests(now);
            self.publish(now);
            self.compact_if_due(now);
            self.audit_if_due(now);
            self.watch_space(now);
        }
        self.campaign_if_due(now);
        self.follow_move(now);
        self.follow_contact(now);
        self.expire_leases(now);
        self.end_overdue(now);
    }

    fn tick(&mut self, now: Moment) {
        // With a disk that stands still this member could not even vote for itself.
        if self.is_leader() || !self.disk_is_stalled(now) {
            self.raft.tick();
        }
    }

    pub(super) fn disk_answered(&mut self, now: Moment) {
        self.upkeep.disk_asked = self.raft.awaits_disk().then_some(now);
    }

    pub(super) fn disk_stalled_for(&self, now: Moment) -> Duration {
        self.upkeep.disk_asked.map_or(Duration::ZERO, |since| now.since(since))
    }

    pub(super) fn disk_is_stalled(&self, now: Moment) -> bool {
        self.disk_stalled_for(now) > self.config.election_timeout
    }

    /// The raft leader, but not before an entry of its own term is applied: until then it may not
    /// know every renewal that was acknowledged.
    pub(super) fn may_expire(&self) -> bool {
        self.is_leader()
            && self.applied.1 == self.raft.term()
            && self.upkeep.expiring.len() < EXPIRIES_UNDER_WAY_MAX
    }

    /// Whether leases have run out and may be judged now.
    pub(super) fn has_verdicts(&mut self, now: Moment) -> bool {
        let until = self.judges_until(now).filter(|_| self.may_expire());
        until.is_some_and(|until| self.deadlines.has_due(until))
    }

    /// The raft leader proposes the end of leases that ran out on its clock.
    fn expire_leases(&mut self, now: Moment) {
        if !self.may_expire() || !self.deadlines.has_due(now) {
            return;
        }
        let room = EXPIRIES_UNDER_WAY_MAX.saturating_sub(self.upkeep.expiring.len());
        let due = match self.judges_until(now) {
            Some(until) => self.deadlines.take_due(until, room.min(EXPIRIES_PER_COMMAND)),
            None => vec![],
        };
        if due.is_empty() {
            self.reads.want_round();
            return;
        }
        let expiries: Vec<_> = due
            .into_iter()
            .filter_map(|id| {
                let renewed_at = self.state.leases.get(id)?.renewed_at;
                Some(Expiry { id, renewed_at })
            })
            .collect();
        if expiries.is_empty() {
            return;
        }
        self.notice(Notice::LeasesExpired(expiries.len()));
        self.upkeep.expiring.extend(expiries.iter().map(|expiry| expiry.id));
        let command = Command::LeaseExpire(self.raft.term(), expiries);
        if self.propose_own(now, &command).is_err() {
            self.take_back_expiries(now + self.config.heartbeat);
        }
    }

    /// Expiries under way may be lost: the leases are looked at again.
    pub(super) fn take_back_expiries(&mut self, not_before: Moment) {
        for lease in std::mem::take(&mut self.upkeep.expiring) {
            self.deadlines.put_back(lease, not_before);
        }
    }

    /// Tells the cluster this member's name, addresses and abilities until the state says the same;
    /// the raft leader raises the cluster version when all members can follow.
    fn publish(&mut self, now: Moment) {
        // A member that joins finds itself in its first snapshot.
        if self.raft.leader().is_none() || !self.state.members.contains_key(&self.config.me) {
            return;
        }
        let due = |last: Option<Moment>| last.is_none_or(|at| now.since(at) >= PUBLISH_INTERVAL);
        if due(self.upkeep.published_at) && !self.is_published() {
            self.upkeep.published_at = Some(now);
            let command = Command::Publish {
                member: self.config.me,
                name: self.config.name.clone(),
                client_urls: self.config.client_urls.clone(),
                command_version: self.config.command_version,
                directory: self.config.directory,
            };
            let _ = self.propose_own(now, &command);
        }
        let version = self.state.cluster_version;
        if version > self.upkeep.announced_version {
            self.upkeep.announced_version = version;
            self.notice(Notice::ClusterVersion(version));
        }
        if !self.is_leader() || !due(self.upkeep.version_raised_at) {
            return;
        }
        if let Some(common) = self.state.common_version().filter(|common| *common > version) {
            self.upkeep.version_raised_at = Some(now);
            let _ = self.propose_own(now, &Command::ClusterVersion(common));
        }
    }

    /// Whether the cluster knows this member as it is.
    pub(super) fn is_published(&self) -> bool {
        let me = &self.config.me;
        let known = self.state.members.get(me);
        known.is_some_and(|known| {
            known.name == self.config.name && known.client_urls == self.config.client_urls
        }) && self.state.command_versions.get(me) == Some(&self.config.command_version)
            && self.state.directories.get(me) == Some(&self.config.directory)
    }

    /// Work that can wait, in small portions. True if there is more of it.
    pub(super) fn do_upkeep(&mut self, _now: Moment) -> bool {
        // What raft did not take is of no use.
        if let Some((_, state)) = self.arrived.pop() {
            self.effects.discard.get_or_insert(state);
            self.arrived.clear();
        }
        self.take_snapshot_if_due();
        self.trim_log();
        let more = self.state.store.sweep(SWEEP_STEPS);
        if !more {
            self.answer_swept();
        }
        more
    }

    fn answer_swept(&mut self) {
        if self.upkeep.sweep_waiters.is_empty() {
            return;
        }
        let swept = |swept: &Swept| *swept == Swept::Sweeping;
        let done: Vec<_> = self
            .upkeep
            .sweep_waiters
            .iter()
            .filter(|(_, state)| swept(state))
            .map(|(id, _)| *id)
            .collect();
        for id in done {
            self.upkeep.sweep_waiters.remove(&id);
            self.answer(id, Ok(Reply::Wrote(Outcome::Done)));
        }
    }

    /// The members take turns: while one writes a snapshot the others' disks have nothing to do but the log, and
    /// in a cluster a majority of quick disks is enough.
    fn take_snapshot_if_due(&mut self) {
        let (last, now) = (self.upkeep.last_snapshot, self.applied.0);
        let voters = self.raft.voter_count().max(1) as u64;
        let before = self.raft.voters_before_us() as u64 % voters;
        let every = self.config.snapshot_entries;
        let shift = every / voters * before;
        let turns_since = (now + shift) / every - (last + shift) / every;
        // A quarter: what a restart must read again stays small beside the snapshot it reads first,
        // and snapshots stay rare beside the writes that pay for them. Only the first ones tell the members apart: from
        // there each counts from its own.
        let bytes_max = self.config.snapshot_bytes_min.max(self.state.store.size_bytes() / 4);
        let bytes_max = if last == 0 { bytes_max / voters * (voters - before) } else { bytes_max };
        let due = turns_since > 0 || self.upkeep.bytes_since_snapshot >= bytes_max;
        if !due || self.applied.0 == self.upkeep.last_saved || self.upkeep.snapshot_under_way {
            return;
        }
        self.upkeep.snapshot_under_way = true;
        self.upkeep.bytes_since_snapshot = 0;
        self.upkeep.last_snapshot = self.applied.0;
        self.effects.take_snapshot = Some(self.snapshot());
    }

    /// The state as it is now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mark = self.raft.mark_at(self.applied.0, self.applied.1);
        Snapshot { mark, state: self.state.clone() }
    }

    pub(super) fn snapshot_saved(&mut self, mark: SnapshotMark) {
        self.upkeep.snapshot_under_way = false;
        self.upkeep.last_saved = self.upkeep.last_saved.max(mark.index);
    }

    pub(super) fn snapshot_failed(&mut self) {
        self.upkeep.snapshot_under_way = false;
    }

    /// Up to where the log is not needed by any member that was sent the state. A member that is slow to take it is not sent
    /// it once more because the log went on without it.
    fn not_wanted_by_receivers(&mut self) -> LogIndex {
        let applied = self.applied.0;
        let raft = &self.raft;
        let caught_up = applied.saturating_sub(TAIL_ENTRIES_KEPT);
        self.upkeep.receivers.retain(|member| raft.is_behind(*member, caught_up));
        let promised = self.upkeep.receivers.iter().filter_map(|to| raft.promised_to(*to));
        promised.min().unwrap_or(applied)
    }

    fn trim_log(&mut self) {
        let applied = self.applied.0;
        let bytes_max = self.config.tail_bytes_max;
        let trim = if self.is_leader() {
            let everywhere = self.raft.matched_by_all().min(applied);
            let part = self.state.store.size_bytes() / WANTED_LOG_PER_STATE;
            Trim {
                useless: everywhere.saturating_sub(TAIL_ENTRIES_KEPT),
                unwanted: self.not_wanted_by_receivers(),
                bytes_max,
                wanted_bytes_max: bytes_max.max(usize::try_from(part).unwrap_or(usize::MAX)),
                applied,
            }
        } else {
            self.upkeep.receivers.clear();
            let bytes_max = bytes_max / 4;
            Trim { useless: 0, unwanted: applied, bytes_max, wanted_bytes_max: bytes_max, applied }
        };
        self.raft.trim_log(&trim);
    }
}
