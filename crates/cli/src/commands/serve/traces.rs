//! Spans on their way to an OpenTelemetry collector.

use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracerProvider},
};
use tokio::runtime::Runtime;
use tracing_subscriber::{Layer, filter::filter_fn};

use super::{log::Extra, settings::Tracing};

/// Where the server's requests make their spans.
const REQUESTS: &str = "tenure_server::rpc";

/// An exporter that runs. Dropping it sends what is left.
pub(super) struct Traces {
    provider: SdkTracerProvider,
    /// A thread of its own: the server's must not wait for a collector.
    _network: Runtime,
}

impl Traces {
    /// Starts to export. A collector that cannot be reached costs spans and nothing else.
    pub(super) fn start(tracing: &Tracing) -> anyhow::Result<Traces> {
        let network = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("traces")
            .enable_all()
            .build()?;
        let entered = network.enter();
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(format!("http://{}", tracing.address))
            .build()?;
        drop(entered);
        let resource = Resource::builder()
            .with_service_name(tracing.service_name.clone())
            .with_attribute(KeyValue::new("service.instance.id", tracing.instance_id.clone()));
        let share = tracing.per_million as f64 / 1e6;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .with_sampler(Sampler::TraceIdRatioBased(share))
            .build();
        Ok(Traces { provider, _network: network })
    }

    /// The way from requests to the exporter.
    pub(super) fn layer(&self) -> Extra {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tracing_subscriber::{Registry, layer::SubscriberExt};

    use super::*;

    /// A collector that takes one request and answers with its bytes.
    async fn collect(listener: TcpListener) -> (String, Vec<u8>) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (request, mut respond) = connection.accept().await.unwrap().unwrap();
        let path = request.uri().path().to_owned();
        tokio::spawn(async move { while connection.accept().await.is_some() {} });
        let mut body = request.into_body();
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            bytes.extend_from_slice(&data.unwrap());
        }
        let answer = http::Response::builder().header("content-type", "application/grpc");
        let answer = answer.header("grpc-status", "0").body(()).unwrap();
        respond.send_response(answer, true).unwrap();
        (path, bytes)
    }

    fn contains(bytes: &[u8], text: &str) -> bool {
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_request_becomes_a_span_at_the_collector() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let collector = tokio::spawn(collect(listener));
        let sent = tokio::task::spawn_blocking(move || {
            let traces = Traces::start(&Tracing {
                address,
                service_name: "the-service".to_owned(),
                instance_id: "the-member".to_owned(),
                per_million: 1_000_000,
            });
            let traces = traces.unwrap();
            let subscriber = Registry::default().with(vec![traces.layer()]);
            tracing::subscriber::with_default(subscriber, || {
                let span =
                    tracing::trace_span!(target: REQUESTS, "rpc", otel.name = "a.Service/Method");
                span.in_scope(|| ());
                drop(span);
                let other = tracing::trace_span!(target: "elsewhere", "not-this-one");
                other.in_scope(|| ());
            });
        });
        let collected = tokio::time::timeout(Duration::from_secs(20), collector).await;
        let (path, bytes) = collected.unwrap().unwrap();
        sent.await.unwrap();
        assert_eq!(path, "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
        for text in ["a.Service/Method", "the-service", "the-member"] {
            assert!(contains(&bytes, text), "{text}");
        }
        assert!(!contains(&bytes, "not-this-one"));
    }
}
