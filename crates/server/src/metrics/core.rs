//! `tenure_*`: what etcd has no name for.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use prometheus::{Counter, Histogram, IntCounter, IntGauge};
use tenure_api::{MemberId, Term};
use tenure_replica::Status;

use super::make::{Buckets, Maker};
use crate::config::MetricsDetail;

pub(crate) struct CoreMetrics {
    /// From when the loop has something to do until it waits again.
    pub(crate) round: Histogram,
    /// How much of that its thread was on a core. To ask is a system call, so only if it is wanted.
    pub(crate) round_cpu: Option<Histogram>,
    pub(crate) round_inputs: Histogram,
    vacant: Counter,
    pub(crate) pauses: IntCounter,
    pub(crate) snapshots_installed: IntCounter,
    term: IntGauge,
    leases: IntGauge,
    log_tail: IntGauge,
    log_entries: IntGauge,
    /// Terms and their raft leaders as this member saw them, oldest first.
    terms: Mutex<VecDeque<TermSeen>>,
}

/// Terms that are remembered.
const TERMS_MAX: usize = 64;

/// A raft leader, or none, in a term.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TermSeen {
    pub(crate) term: Term,
    pub(crate) leader: Option<MemberId>,
    /// The wall clock, in milliseconds since 1970.
    pub(crate) since_ms: u64,
}

impl CoreMetrics {
    pub(super) fn new(make: &Maker<'_>, detail: MetricsDetail) -> CoreMetrics {
        CoreMetrics {
            round: make.histogram(
                "tenure_core_round_seconds",
                "How long the core loop worked before it waited again. Nothing else is decided meanwhile.",
                Buckets { first: 0.000_01, count: 18 },
            ),
            round_cpu: (detail == MetricsDetail::Extensive).then(|| {
                make.histogram(
                    "tenure_core_round_cpu_seconds",
                    "How much of a round the core loop's thread was on a core. The rest the machine gave to others.",
                    Buckets { first: 0.000_01, count: 18 },
                )
            }),
            round_inputs: make.histogram(
                "tenure_core_round_inputs",
                "How many inputs the core loop took in one round.",
                Buckets { first: 1.0, count: 14 },
            ),
            vacant: make.float_counter(
                "tenure_raft_vacant_seconds_total",
                "How long this member has known no raft leader.",
            ),
            pauses: make.counter(
                "tenure_pauses_total",
                "How often this process did not run for more than 100 ms.",
            ),
            snapshots_installed: make.counter(
                "tenure_snapshots_installed_total",
                "How often a snapshot from the raft leader replaced this member's state.",
            ),
            term: make.gauge("tenure_raft_term", "The raft term."),
            leases: make.gauge("tenure_leases", "Leases that live."),
            log_tail: make.gauge("tenure_log_tail_bytes", "The part of the log in memory."),
            log_entries: make.gauge("tenure_log_tail_entries", "Entries of the log in memory."),
            terms: Mutex::default(),
        }
    }

    /// There is another raft leader, or none any more.
    pub(crate) fn leader_seen(&self, seen: TermSeen) {
        let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        terms.push_back(seen);
        while terms.len() > TERMS_MAX {
            terms.pop_front();
        }
    }

    pub(crate) fn terms(&self) -> Vec<TermSeen> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    pub(crate) fn vacant_for(&self, time: Duration) {
        self.vacant.inc_by(time.as_secs_f64());
    }

    pub(super) fn read(&self, status: &Status) {
        self.term.set(status.term.0 as i64);
        self.leases.set(status.leases as i64);
        self.log_tail.set(status.log_bytes as i64);
        let entries = (status.last_index + 1).saturating_sub(status.first_index);
        self.log_entries.set(entries as i64);
    }
}
