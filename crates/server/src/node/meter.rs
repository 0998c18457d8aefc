//! What the core loop notes about itself.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tenure_api::{MemberId, Revision};
use tenure_replica::{Message, Moment, Notice, RaftKind, RaftRole, Status};
use tracing::warn;

use crate::metrics::{Metrics, TermSeen};

/// Times that count as trouble.
#[derive(Clone, Copy, Debug)]
pub struct Alarms {
    /// `--heartbeat-interval`.
    pub heartbeat: Duration,
    /// `--warning-apply-duration`.
    pub slow_apply: Duration,
}

/// When a round began: by the clock, and by what its thread had used of a core if that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Woken {
    at: Instant,
    cpu: Option<Duration>,
}

/// The loop's own measurements; only the loop writes here.
pub(super) struct Meter {
    pub(super) metrics: Arc<Metrics>,
    alarms: Alarms,
    leader: Option<MemberId>,
    vacant_since: Option<Moment>,
    last_round: Moment,
    /// Heartbeats that are not answered yet.
    heartbeats: BTreeMap<MemberId, Moment>,
    compacted: Option<Revision>,
}

impl Meter {
    pub(super) fn new(metrics: Arc<Metrics>, alarms: Alarms) -> Meter {
        Meter {
            metrics,
            alarms,
            leader: None,
            vacant_since: Some(Moment::ZERO),
            last_round: Moment::ZERO,
            heartbeats: BTreeMap::new(),
            compacted: None,
        }
    }

    /// A round begins. A raft leader that did not get to it for so long has let its followers down.
    pub(super) fn round_begins(&mut self, now: Moment, inputs: usize, me: MemberId, alone: bool) {
        let late = now.since(self.last_round) > 2 * self.alarms.heartbeat;
        if late && !alone && self.leader == Some(me) {
            self.metrics.server.heartbeat_failures.inc();
        }
        self.last_round = now;
        self.metrics.core.round_inputs.observe(inputs as f64);
    }

    /// The loop has something to do.
    pub(super) fn woken(&self) -> Woken {
        Woken {
            at: Instant::now(),
            cpu: self.metrics.core.round_cpu.as_ref().map(|_| thread_cpu()),
        }
    }

    /// A round ends that began at `woken`.
    pub(super) fn round_ends(&self, woken: Woken, applied: usize) {
        let took = woken.at.elapsed();
        self.metrics.core.round.observe(took.as_secs_f64());
        if let (Some(metric), Some(before)) = (&self.metrics.core.round_cpu, woken.cpu) {
            metric.observe(thread_cpu().saturating_sub(before).as_secs_f64());
        }
        if applied > 0 && took > self.alarms.slow_apply {
            self.metrics.server.slow_applies.inc();
            warn!(?took, entries = applied, "applying took long");
        }
    }

    pub(super) fn noticed(&mut self, now: Moment, notice: &Notice) {
        match notice {
            Notice::Leader { leader, term } => {
                let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let since_ms = since_1970.map_or(0, |time| time.as_millis() as u64);
                let seen = TermSeen { term: *term, leader: *leader, since_ms };
                self.metrics.core.leader_seen(seen);
                self.leader_is(now, *leader);
            }
            Notice::LeasesExpired(count) => self.metrics.lease.expired.inc_by(*count as u64),
            Notice::Paused(_) => self.metrics.core.pauses.inc(),
            Notice::SnapshotInstalled(_) => self.metrics.core.snapshots_installed.inc(),
            _ => {}
        }
    }

    fn leader_is(&mut self, now: Moment, leader: Option<MemberId>) {
        if leader.is_some() && leader != self.leader {
            self.metrics.server.leader_changes.inc();
        }
        self.leader = leader;
        match leader {
            None => {
                self.vacant_since.get_or_insert(now);
            }
            Some(_) => {
                if let Some(since) = self.vacant_since.take() {
                    self.metrics.core.vacant_for(now.since(since));
                }
            }
        }
        self.heartbeats.clear();
    }

    pub(super) fn sent(&mut self, now: Moment, to: MemberId, message: &Message) {
        if matches!(message, Message::Raft(raft) if raft.kind == RaftKind::Heartbeat) {
            self.heartbeats.entry(to).or_insert(now);
        }
    }

    pub(super) fn received(&mut self, now: Moment, from: MemberId, message: &Message) {
        if matches!(message, Message::Raft(raft) if raft.kind == RaftKind::HeartbeatResponse)
            && let Some(sent) = self.heartbeats.remove(&from)
        {
            self.metrics.network.round_trip(from, now.since(sent));
        }
    }

    /// A status was published: what follows from it but cannot be read out of it later.
    pub(super) fn published(&mut self, now: Moment, status: &Status) {
        if let Some(since) = self.vacant_since.filter(|_| status.leader.is_none()) {
            self.metrics.core.vacant_for(now.since(since));
            self.vacant_since = Some(now);
        }
        let before = self.compacted.replace(status.compacted);
        if before.is_some_and(|before| before < status.compacted) {
            let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            self.metrics.mvcc.compacted_at.set(since_1970.map_or(0, |time| time.as_secs() as i64));
        }
        if status.role != RaftRole::Leader {
            self.heartbeats.clear();
        }
    }
}

fn thread_cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}
