//! The exporter.

use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracerProvider},
};
use tokio::runtime::Runtime;
use tracing_subscriber::{Layer, filter::filter_fn};

use super::{Collector, REQUESTS, SpanLayer, TracesError};

/// An exporter that runs. Dropping it sends what is left.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    /// A thread of its own: the server's must not wait for a collector.
    _network: Runtime,
}

impl Traces {
    /// Starts to export. A collector that cannot be reached costs spans and nothing else.
    pub fn start(collector: &Collector) -> Result<Traces, TracesError> {
        let network = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("traces")
            .enable_all()
            .build()?;
        let entered = network.enter();
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(format!("http://{}", collector.address))
            .build()?;
        drop(entered);
        let resource = Resource::builder()
            .with_service_name(collector.service_name.clone())
            .with_attribute(KeyValue::new("service.instance.id", collector.instance_id.clone()));
        let share = collector.per_million as f64 / 1e6;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .with_sampler(Sampler::TraceIdRatioBased(share))
            .build();
        Ok(Traces { provider, _network: network })
    }

    /// The way from requests to the exporter.
    pub fn layer(&self) -> SpanLayer {
        let tracer = self.provider.tracer("tenure");
        let requests = filter_fn(|metadata| metadata.is_span() && metadata.target() == REQUESTS);
        tracing_opentelemetry::layer().with_tracer(tracer).with_filter(requests).boxed()
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // What a collector does not take in time is lost, as it would be while running.
        let _ = self.provider.shutdown();
    }
}
