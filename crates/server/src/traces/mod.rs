//! Spans of requests, on their way to an OpenTelemetry collector.
//!
//! Every request makes a span (`metrics/rpc.rs`) if there is a subscriber for it. [`Traces`] is one, and sends it on. Only
//! a build with the feature `otel` has something to send with; in any other there is no value of that type.

#[cfg(feature = "otel")]
mod export;
#[cfg(not(feature = "otel"))]
mod unable;

use tracing_subscriber::{Layer, Registry};

#[cfg(feature = "otel")]
pub use self::export::Traces;
#[cfg(not(feature = "otel"))]
pub use self::unable::Traces;

/// Whether this build can send spans.
pub const ABLE: bool = cfg!(feature = "otel");

/// Under which target requests make their spans.
pub(crate) const REQUESTS: &str = "tenure_server::rpc";

/// Where spans go, and what they say about this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Host and port; it is spoken to by OTLP over gRPC.
    pub address: String,
    /// What the spans call this service.
    pub service_name: String,
    /// What the spans call this member.
    pub instance_id: String,
    /// How many requests in a million get a span.
    pub per_million: u64,
}

/// The way from requests to a collector, to be put beside the log.
pub type SpanLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Why no spans can be sent.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// This build has nothing to send them with.
    #[error("this build cannot send spans: it lacks the feature otel")]
    Unable,
    /// The thread that sends them cannot run.
    #[error("cannot start to send spans: {0}")]
    Thread(#[from] std::io::Error),
    /// The collector's address is none.
    #[cfg(feature = "otel")]
    #[error("cannot send spans: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}
