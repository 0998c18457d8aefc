//! What came out.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};
use tenure::grpc::Endpoint;

use crate::stage::Stage;

/// The outcome of one workload.
#[derive(Debug, Serialize)]
pub struct Report {
    workload: &'static str,
    endpoints: Vec<String>,
    clients: usize,
    connections: usize,
    seconds: f64,
    /// Those that succeeded.
    pub operations: u64,
    operations_per_second: f64,
    /// By text.
    errors: BTreeMap<String, u64>,
    latency_ms: Quantiles,
    client_cpu_seconds: f64,
    client_cpu_us_per_operation: f64,
    /// What only this workload knows.
    #[serde(flatten)]
    figures: Figures,
}

/// Names and figures, in the order in which they are to be read.
#[derive(Debug, Default)]
struct Figures(Vec<(&'static str, Figure)>);

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, figure)| (name, figure)))
    }
}

/// What a workload adds to its report.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Figure {
    Count(u64),
    Measure(f64),
    Distribution(Quantiles),
}

impl From<usize> for Figure {
    fn from(count: usize) -> Figure {
        Figure::Count(count as u64)
    }
}

impl From<u64> for Figure {
    fn from(count: u64) -> Figure {
        Figure::Count(count)
    }
}

impl From<f64> for Figure {
    fn from(measure: f64) -> Figure {
        Figure::Measure(measure)
    }
}

impl From<Quantiles> for Figure {
    fn from(quantiles: Quantiles) -> Figure {
        Figure::Distribution(quantiles)
    }
}

impl Figure {
    fn text(&self) -> String {
        match self {
            Figure::Count(count) => count.to_string(),
            Figure::Measure(measure) => format!("{measure:.3}"),
            Figure::Distribution(quantiles) => quantiles.line(),
        }
    }
}

/// A distribution, in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Quantiles {
    p50: f64,
    p90: f64,
    p99: f64,
    #[serde(rename = "p99.9")]
    p999: f64,
    max: f64,
    mean: f64,
}

impl Quantiles {
    /// Of a histogram in microseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Quantiles {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Quantiles {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
            mean: rounded(histogram.mean() / 1e3),
        }
    }

    /// Of single values, which may be negative.
    pub(crate) fn of_values(mut values: Vec<f64>) -> Quantiles {
        values.sort_by(f64::total_cmp);
        let at = |quantile: f64| {
            let rank = (quantile * values.len() as f64).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        Quantiles {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
            mean: values.iter().sum::<f64>() / values.len().max(1) as f64,
        }
    }

    fn line(&self) -> String {
        format!(
            "p50 {:.3}  p90 {:.3}  p99 {:.3}  p99.9 {:.3}  max {:.3}  mean {:.3}",
            self.p50, self.p90, self.p99, self.p999, self.max, self.mean
        )
    }
}

impl Report {
    pub(crate) fn of(
        workload: &'static str,
        endpoints: &[Endpoint],
        clients: usize,
        connections: usize,
        stage: &Stage,
    ) -> Report {
        let seconds = stage.measured().as_secs_f64();
        let cpu = stage.cpu().as_secs_f64();
        let tally = stage.tally();
        let operations = tally.latency.len();
        Report {
            workload,
            endpoints: endpoints.iter().map(Endpoint::to_string).collect(),
            clients,
            connections,
            seconds: rounded(seconds),
            operations,
            operations_per_second: rounded(ratio(operations as f64, seconds)),
            errors: tally.errors.clone(),
            latency_ms: Quantiles::of(&tally.latency),
            client_cpu_seconds: rounded(cpu),
            client_cpu_us_per_operation: rounded(ratio(cpu * 1e6, operations as f64)),
            figures: Figures::default(),
        }
    }

    /// Adds something that only this workload knows.
    pub(crate) fn figure(&mut self, name: &'static str, figure: impl Into<Figure>) {
        self.figures.0.push((name, figure.into()));
    }

    /// For people, in several lines.
    pub fn text(&self) -> String {
        let errors: u64 = self.errors.values().sum();
        let mut lines = vec![
            format!(
                "{}: {} client(s) over {} connection(s) to {}, {:.1} s",
                self.workload,
                self.clients,
                self.connections,
                self.endpoints.join(", "),
                self.seconds
            ),
            format!("operations  {}  {:.0}/s", self.operations, self.operations_per_second),
            format!("latency ms  {}", self.latency_ms.line()),
            format!(
                "client cpu  {:.2} s  {:.1} us/operation",
                self.client_cpu_seconds, self.client_cpu_us_per_operation
            ),
            format!("errors      {errors}"),
        ];
        lines
            .extend(self.errors.iter().map(|(text, count)| format!("            {count}  {text}")));
        let figures = self.figures.0.iter();
        lines.extend(figures.map(|(name, figure)| format!("{name}  {}", figure.text())));
        lines.join("\n") + "\n"
    }
}

/// To three decimals: more is noise.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

pub(crate) fn ratio(number: f64, by: f64) -> f64 {
    if by > 0.0 { number / by } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_values_are_values() {
        let quantiles = Quantiles::of_values((1..=1000).map(f64::from).rev().collect());
        assert_eq!((quantiles.p50, quantiles.p99, quantiles.p999), (500.0, 990.0, 999.0));
        assert_eq!((quantiles.max, quantiles.mean), (1000.0, 500.5));
        assert_eq!(Quantiles::of_values(vec![]).max, 0.0);
        assert_eq!(Quantiles::of_values(vec![-2.0]).p50, -2.0);
    }
}
