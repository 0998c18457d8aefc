//! Room in the store: the quota, the alarm when it is used up, and its end when room is back.
//!
//! The quota counts keys with their history, leases and sessions. It is a member's own setting, so whether a write fits is decided on arrival and not when
//! it is applied; a write that does not fit raises the alarm, and the alarm, which is replicated,
//! stops them everywhere. What keeps sessions and elections going has a reserve beyond the quota.
//!
//! Many writes arrive at once, and each sees the room that those before it have not taken yet. So
//! what is under way counts as taken, and no member lets in more at once than its share of the room
//! that is left: the other members do not know of it. A member that sees the store beyond its quota all the
//! same raises the alarm, asked or not.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_api::{Alarm, AlarmKind, Failure};

use super::Replica;
use crate::{
    Moment,
    command::Command,
    input::{Notice, RequestId},
};

/// The reserve for leased keys is this part of the quota.
const RESERVE_PART: u64 = 20;
/// A full store has room again below this percentage of its quota.
const ROOM_PERCENT: u64 = 90;
/// From this percentage on the log warns.
const LOW_PERCENT: u64 = 80;
/// How often an alarm that has not changed is asked to change again.
const ALARM_INTERVAL: Duration = Duration::from_secs(1);
/// With more room than this, what is under way is not counted: so much cannot be, at one member.
const NEAR_BYTES: u64 = 256 << 20;

#[derive(Debug, Default)]
pub(super) struct Space {
    warned: bool,
    asked_at: Option<Moment>,
    /// The alarms as last told to the log.
    told: BTreeSet<Alarm>,
    /// What was let in while there was little room and is not answered yet, with the room it wants.
    under_way: BTreeMap<RequestId, u64>,
    under_way_bytes: u64,
}

impl Space {
    fn may_ask(&mut self, now: Moment) -> bool {
        let may = self.asked_at.is_none_or(|at| now.since(at) >= ALARM_INTERVAL);
        if may {
            self.asked_at = Some(now);
        }
        may
    }

    /// Whatever became of it, a request needs no room any more.
    pub(super) fn answered(&mut self, id: RequestId) {
        if let Some(bytes) = self.under_way.remove(&id) {
            self.under_way_bytes -= bytes;
        }
    }
}

impl Replica {
    /// Whether the store can take this. If not, raises the alarm.
    pub(super) fn check_room(&mut self, now: Moment, command: &Command) -> Result<(), Failure> {
        let wanted = command.room_wanted();
        if wanted == 0 {
            return Ok(());
        }
        let needs_room = command.needs_room();
        if needs_room && self.state.is_full() {
            return Err(Failure::NoSpace);
        }
        let quota = self.config.quota_bytes;
        let room = if needs_room { quota } else { quota + quota / RESERVE_PART };
        let used = self.state.size_bytes();
        if used + wanted > room {
            if needs_room {
                self.raise_no_space(now);
            }
            return Err(Failure::NoSpace);
        }
        // The others let in as much, for all that is known here. It may turn out that there is room, if
        // something that is under way comes to nothing.
        let doors = self.state.members.len() as u64;
        let taken = used + doors * self.space.under_way_bytes;
        if taken + wanted > room { Err(Failure::TooManyRequests) } else { Ok(()) }
    }

    /// Counts the room of a request that was let in, until it is answered.
    pub(super) fn take_room(&mut self, id: RequestId, command: &Command) {
        if self.state.size_bytes() + NEAR_BYTES <= self.config.quota_bytes {
            return;
        }
        let wanted = command.room_wanted();
        if wanted > 0 {
            self.space.under_way.insert(id, wanted);
            self.space.under_way_bytes += wanted;
        }
    }

    /// Raises the alarm if the store has outgrown the quota. Not while this member still reads what was long
    /// ago: there may be room by now.
    pub(super) fn raise_if_full(&mut self, now: Moment) {
        let is_full = self.state.size_bytes() > self.config.quota_bytes;
        if is_full && !self.state.is_full() && self.applied.1 == self.raft.term() {
            self.raise_no_space(now);
        }
    }

    fn raise_no_space(&mut self, now: Moment) {
        if self.knows_alarms() && self.space.may_ask(now) {
            let alarm = Alarm { member: self.config.me, kind: AlarmKind::NoSpace };
            let _ = self.propose_own(now, &Command::RaiseAlarm(alarm));
        }
    }

    /// Warns in time; lowers the alarm when there is room again.
    pub(super) fn watch_space(&mut self, now: Moment) {
        let quota = self.config.quota_bytes;
        let used = self.state.size_bytes();
        let low = used > quota / 100 * LOW_PERCENT;
        if low && !self.space.warned {
            self.notice(Notice::SpaceLow { used, quota });
        }
        self.space.warned = low;
        self.tell_alarms();
        self.raise_if_full(now);
        let room_again = used < quota / 100 * ROOM_PERCENT;
        if !(room_again && self.state.is_full()) {
            return;
        }
        // Each member its own, by its own quota: quotas may differ, at least while they are being raised one after the other, and
        // a larger one would lower what a smaller one raises again. For those that are away the raft leader does it.
        let me = self.config.me;
        let away = |member| self.is_leader() && !self.is_there(member);
        let is_over = |alarm: &&Alarm| {
            alarm.kind == AlarmKind::NoSpace && (alarm.member == me || away(alarm.member))
        };
        let over: Vec<Alarm> = self.state.alarms.iter().filter(is_over).copied().collect();
        if over.is_empty() || !self.space.may_ask(now) {
            return;
        }
        for alarm in over {
            let _ = self.propose_own(now, &Command::LowerAlarm(alarm));
        }
    }

    fn knows_alarms(&self) -> bool {
        self.state.cluster_version >= 2
    }

    fn tell_alarms(&mut self) {
        if self.space.told.len() == self.state.alarms.len()
            && self.space.told.iter().all(|alarm| self.state.alarms.contains(alarm))
        {
            return;
        }
        let now: BTreeSet<Alarm> = self.state.alarms.iter().copied().collect();
        let before = std::mem::replace(&mut self.space.told, now.clone());
        for alarm in now.difference(&before) {
            self.notice(Notice::AlarmRaised(*alarm));
        }
        for alarm in before.difference(&now) {
            self.notice(Notice::AlarmLowered(*alarm));
        }
    }
}
