//! Metrics of the proxy.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
    exponential_buckets,
};
use tenure::fence::Gate;
use tenure::fence::http::TurnedAway;

use super::failure::Failure;

const VALID: &str = "names and labels of metrics are valid";

/// All metrics.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    admitted: IntCounter,
    passed: IntCounter,
    refused: IntCounterVec,
    failed: IntCounterVec,
    in_flight: IntGauge,
    unfinished: IntCounter,
    connections: IntGauge,
    raised: IntCounter,
    broken: IntGauge,
}

impl Metrics {
    /// Registers all metrics, and has the gate report how long its writes take.
    pub(super) fn new(gate: &Gate) -> Metrics {
        let registry = Registry::new();
        let write = HistogramOpts::new(
            "tenure_fence_state_write_seconds",
            "How long writing a newer token to the state file took, flushes included.",
        );
        let buckets = exponential_buckets(0.0005, 2.0, 14).expect(VALID);
        let write = add(&registry, Histogram::with_opts(write.buckets(buckets)));
        gate.when_written(move |took: Duration| write.observe(took.as_secs_f64()));
        let counter = |name, help| add(&registry, IntCounter::new(name, help));
        let counters = |name, help, reasons: &[&str]| {
            let counters = add(&registry, IntCounterVec::new(Opts::new(name, help), &["reason"]));
            for reason in reasons {
                counters.with_label_values(&[*reason]);
            }
            counters
        };
        let gauge = |name, help| add(&registry, IntGauge::new(name, help));
        Metrics {
            admitted: counter("tenure_fence_admitted_total", "Requests that the gate admitted."),
            passed: counter(
                "tenure_fence_passed_total",
                "Reads that were sent on without a token.",
            ),
            refused: counters(
                "tenure_fence_refused_total",
                "Requests that were not admitted, by reason.",
                &TurnedAway::REASONS,
            ),
            failed: counters(
                "tenure_fence_failed_total",
                "Requests that the upstream or the client did not finish, by reason.",
                &Failure::REASONS,
            ),
            in_flight: gauge("tenure_fence_in_flight", "Passages through the gate under way."),
            unfinished: counter(
                "tenure_fence_unfinished_total",
                "Passages that ended without the upstream's whole answer: it may have gone on.",
            ),
            connections: gauge("tenure_fence_connections", "Connections of clients."),
            raised: counter(
                "tenure_fence_raised_total",
                "How often a newer token raised the gate since the start.",
            ),
            broken: gauge("tenure_fence_broken", "Whether the gate is closed for good."),
            registry,
        }
    }

    /// Counts a request that was admitted, as in flight until the guard is dropped.
    pub(super) fn admitted(&self) -> InFlight {
        self.admitted.inc();
        InFlight::begin(&self.in_flight)
    }

    pub(super) fn passed(&self) {
        self.passed.inc();
    }

    pub(super) fn refused(&self, reason: &str) {
        self.refused.with_label_values(&[reason]).inc();
    }

    pub(super) fn failed(&self, reason: &str) {
        self.failed.with_label_values(&[reason]).inc();
    }

    pub(super) fn unfinished(&self) {
        self.unfinished.inc();
    }

    /// Counts a connection until the guard is dropped.
    pub(super) fn connected(&self) -> InFlight {
        InFlight::begin(&self.connections)
    }

    /// All metrics in Prometheus' text format.
    pub(super) fn page(&self, gate: &Gate) -> String {
        // The gate has the count, and only this thread copies it.
        self.raised.inc_by(gate.raised().saturating_sub(self.raised.get()));
        self.broken.set(gate.broken().is_some().into());
        TextEncoder::new().encode_to_string(&self.registry.gather()).expect(VALID)
    }
}

/// Counted in a gauge until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight(IntGauge);

impl InFlight {
    fn begin(gauge: &IntGauge) -> InFlight {
        gauge.inc();
        InFlight(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn add<T: Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<T>) -> T {
    let made = made.expect(VALID);
    registry.register(Box::new(made.clone())).expect(VALID);
    made
}
