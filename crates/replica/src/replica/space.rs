//! Room in the store: the quota, the alarm when it is used up, and its end when room is back.
//!
//! The quota is a member's own setting, so whether a write fits is decided at the door and not when
//! it is applied; a write that does not fit raises the alarm, and the alarm, which is replicated,
//! stops them everywhere. What keeps sessions and elections going has a reserve beyond the quota.

use std::{collections::BTreeSet, time::Duration};

use tenure_api::{Alarm, AlarmKind};

use super::Replica;
use crate::{command::Command, input::Notice, moment::Moment};

/// The reserve for leased keys is this part of the quota.
const RESERVE_PART: u64 = 20;
/// A full store has room again below this percentage of its quota.
const ROOM_PERCENT: u64 = 90;
/// From this percentage on the log warns.
const LOW_PERCENT: u64 = 80;
/// How often an alarm that has not changed is asked to change again.
const ALARM_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Space {
    warned: bool,
    asked_at: Option<Moment>,
    /// The alarms as last told to the log.
    told: BTreeSet<Alarm>,
}

impl Space {
    fn may_ask(&mut self, now: Moment) -> bool {
        let may = self.asked_at.is_none_or(|at| now.since(at) >= ALARM_INTERVAL);
        if may {
            self.asked_at = Some(now);
        }
        may
    }
}

impl Replica {
    /// Whether the store can take this. If not, everybody is told.
    pub(super) fn has_room_for(&mut self, now: Moment, command: &Command) -> bool {
        let wanted = command.room_wanted();
        if wanted == 0 {
            return true;
        }
        let quota = self.config.quota_bytes;
        let used = self.state.store.size_bytes();
        if !command.needs_room() {
            return used + wanted <= quota + quota / RESERVE_PART;
        }
        if self.state.is_full() {
            return false;
        }
        let fits = used + wanted <= quota;
        if !fits && self.knows_alarms() && self.space.may_ask(now) {
            let alarm = Alarm { member: self.config.me, kind: AlarmKind::NoSpace };
            let _ = self.writes.push(now, None, &Command::RaiseAlarm(alarm));
        }
        fits
    }

    /// Warns in time; the raft leader lowers the alarm when there is room again.
    pub(super) fn watch_space(&mut self, now: Moment) {
        let quota = self.config.quota_bytes;
        let used = self.state.store.size_bytes();
        let low = used > quota / 100 * LOW_PERCENT;
        if low && !self.space.warned {
            self.notice(Notice::SpaceLow { used, quota });
        }
        self.space.warned = low;
        self.tell_alarms();
        let room_again = used < quota / 100 * ROOM_PERCENT;
        if !(room_again && self.state.is_full() && self.is_leader() && self.space.may_ask(now)) {
            return;
        }
        let over = self.state.alarms.iter().filter(|alarm| alarm.kind == AlarmKind::NoSpace);
        for alarm in over.copied().collect::<Vec<_>>() {
            let _ = self.writes.push(now, None, &Command::LowerAlarm(alarm));
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
