//! `tenure_election_*`, `tenure_lock_*`, `tenure_sessions`: leaders, candidates that wait, and for how long.

use prometheus::{Counter, Histogram, IntCounter, IntGauge, IntGaugeVec};
use tenure_replica::{Effects, ElectionSummary};

use super::make::{Buckets, Maker};

/// Elections that are named one by one. More of them need other tools than metrics.
pub(crate) const ELECTIONS_NAMED_MAX: usize = 1000;

pub(crate) struct ElectionMetrics {
    leader: IntGaugeVec,
    candidates: IntGaugeVec,
    transitions: IntCounter,
    vacant: Counter,
    waited: Histogram,
    held: Histogram,
    sessions: IntGauge,
}

impl ElectionMetrics {
    pub(super) fn new(make: &Maker<'_>) -> ElectionMetrics {
        ElectionMetrics {
            leader: make.gauges(
                "tenure_election_leader",
                "1 for whoever leads an election or holds a lock.",
                &["election", "identity"],
            ),
            candidates: make.gauges(
                "tenure_election_candidates",
                "How many hold or wait.",
                &["election"],
            ),
            transitions: make.counter(
                "tenure_election_transitions_total",
                "How often somebody began to lead, in all elections and locks.",
            ),
            vacant: make.float_counter(
                "tenure_election_vacant_seconds_total",
                "How long somebody waited and nobody led, in all elections and locks; counted when somebody does.",
            ),
            waited: make.histogram(
                "tenure_lock_wait_seconds",
                "How long candidates that were granted something had waited.",
                Buckets { first: 0.001, count: 20 },
            ),
            held: make.histogram(
                "tenure_lock_held_seconds",
                "How long those who led had led when it ended.",
                Buckets { first: 0.001, count: 24 },
            ),
            sessions: make.gauge("tenure_sessions", "Sessions that live."),
        }
    }

    /// What a round of the core loop brought.
    pub(crate) fn noted(&self, effects: &Effects) {
        self.transitions.inc_by(effects.tenures_begun);
        self.vacant.inc_by(effects.vacant_ms as f64 / 1e3);
        for ms in &effects.waited_ms {
            self.waited.observe(*ms as f64 / 1e3);
        }
        for ms in &effects.held_ms {
            self.held.observe(*ms as f64 / 1e3);
        }
    }

    /// Sets the gauges, for a scrape.
    pub(crate) fn read(&self, elections: &[ElectionSummary], sessions: usize) {
        self.leader.reset();
        self.candidates.reset();
        for election in elections {
            let name = String::from_utf8_lossy(&election.name);
            let all = election.holders + election.waiting;
            self.candidates.with_label_values(&[&*name]).set(all as i64);
            if let Some(leader) = &election.leader {
                self.leader.with_label_values(&[&*name, &leader.identity]).set(1);
            }
        }
        self.sessions.set(sessions as i64);
    }
}
