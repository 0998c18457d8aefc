//! Metrics are made with a name and a sentence, and registered at once.

use prometheus::{
    Counter, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, core::Collector, exponential_buckets,
};

/// Makes metrics for one registry. A name that is used twice or malformed is a bug of the table it
/// is in, and found by any test that starts a server.
pub(super) struct Maker<'a> {
    registry: &'a Registry,
}

const SOUND: &str = "names and labels of metrics are sound";

impl<'a> Maker<'a> {
    pub(super) fn new(registry: &'a Registry) -> Maker<'a> {
        Maker { registry }
    }

    fn add<T: Collector + Clone + 'static>(&self, made: prometheus::Result<T>) -> T {
        let made = made.expect(SOUND);
        self.registry.register(Box::new(made.clone())).expect(SOUND);
        made
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.add(IntCounter::new(name, help))
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.add(IntCounterVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.add(IntGauge::new(name, help))
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn float(&self, name: &str, help: &str) -> Gauge {
        self.add(Gauge::new(name, help))
    }

    pub(super) fn float_counter(&self, name: &str, help: &str) -> Counter {
        self.add(Counter::new(name, help))
    }

    /// A fact that is told by a label; its value is 1.
    pub(super) fn fact(&self, name: &str, help: &str, label: &str, value: &str) {
        self.gauges(name, help, &[label]).with_label_values(&[value]).set(1);
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: Buckets) -> Histogram {
        self.add(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.bounds())))
    }

    pub(super) fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: Buckets,
    ) -> HistogramVec {
        let opts = HistogramOpts::new(name, help).buckets(buckets.bounds());
        self.add(HistogramVec::new(opts, labels))
    }
}

/// Upper bounds: the first, doubled so many times.
#[derive(Clone, Copy)]
pub(super) struct Buckets {
    pub(super) first: f64,
    pub(super) count: usize,
}

impl Buckets {
    fn bounds(self) -> Vec<f64> {
        exponential_buckets(self.first, 2.0, self.count).expect(SOUND)
    }
}

/// Raises a counter to what was counted elsewhere.
pub(super) fn raise(counter: &IntCounter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}
