//! Spans of requests, as they arrive at an OpenTelemetry collector.

use std::{
    collections::BTreeMap,
    future,
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, Span, span::SpanKind},
};
use tenure::grpc::Client;
use tenure_e2e::{Cluster, Plan, eventually, pb};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

const PUT: &str = "etcdserverpb.KV/Put";
const RANGE: &str = "etcdserverpb.KV/Range";

/// A collector on a loopback address.
#[derive(Clone, Debug, Default)]
struct Collector {
    came: Arc<Mutex<Vec<ResourceSpans>>>,
    /// It takes what comes, and never answers.
    is_stuck: bool,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.came.lock().unwrap().extend(request.into_inner().resource_spans);
        if self.is_stuck {
            future::pending::<()>().await;
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts it; answers where it listens.
    async fn serve(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = TraceServiceServer::new(self.clone());
        let serving = Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        address
    }

    fn spans(&self) -> Vec<Span> {
        let came = self.came.lock().unwrap();
        let scopes = came.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| &scope.spans).cloned().collect()
    }

    fn named(&self, name: &str) -> Vec<Span> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }
}

/// How a member is to be started that sends its spans there.
fn traced(address: &str, more: &[&str]) -> Plan {
    let tracing = ["--enable-distributed-tracing", "--distributed-tracing-address", address];
    Plan::flags(&[&tracing, more].concat())
}

async fn put(client: &Client, key: &str) {
    let put = pb::PutRequest { key: key.to_owned().into(), ..Default::default() };
    client.kv().put(put).await.unwrap();
}

/// What was said about something.
fn attributes(said: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |value: &KeyValue| match value.value.as_ref().and_then(|v| v.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{}: {other:?}", value.key),
    };
    said.iter().map(|value| (&value.key[..], text(value))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_every_request_reach_the_collector() {
    let collector = Collector::default();
    let address = collector.serve().await;
    let named = ["--distributed-tracing-service-name", "the-service"];
    let mut cluster = Cluster::with(1, traced(&address, &named)).await;
    let client = cluster.client();
    for key in ["a", "b", "c"] {
        put(&client, key).await;
    }
    let future = pb::RangeRequest { key: "a".into(), revision: 1000, ..Default::default() };
    assert!(client.kv().range(future).await.is_err());
    // What was not sent yet goes out before the member ends.
    assert!(cluster.members[0].stop().await.success());

    for came in collector.came.lock().unwrap().iter() {
        let said = attributes(&came.resource.as_ref().unwrap().attributes);
        assert_eq!(
            (&said["service.name"][..], &said["service.instance.id"][..]),
            ("the-service", "n1")
        );
        assert!(came.scope_spans.iter().all(|s| s.scope.as_ref().unwrap().name == "tenure"));
    }
    let spans = collector.spans();
    for span in &spans {
        let said = attributes(&span.attributes);
        assert_eq!(said["rpc.system"], "grpc", "{span:?}");
        assert_eq!(span.name, format!("{}/{}", said["rpc.service"], said["rpc.method"]));
        assert_eq!(span.kind(), SpanKind::Server, "{span:?}");
        assert!(span.start_time_unix_nano > 0, "{span:?}");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        assert!(span.parent_span_id.is_empty(), "{span:?}");
        let others = spans.iter().filter(|other| other.trace_id == span.trace_id);
        assert_eq!((others.count(), span.trace_id.len()), (1, 16), "{span:?}");
    }
    // How often each request was made, and how it ended: OK, and OUT_OF_RANGE.
    for (name, codes) in [(PUT, &["0"; 3][..]), (RANGE, &["11"][..])] {
        let ended: Vec<_> = collector
            .named(name)
            .iter()
            .map(|span| attributes(&span.attributes)["rpc.grpc.status_code"].clone())
            .collect();
        assert_eq!(ended, codes, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_are_sent_while_the_member_runs_if_they_are_wanted() {
    let collector = Collector::default();
    let address = collector.serve().await;
    let mut plan = traced(&address, &[]);
    // The exporter's own setting; by itself it collects for five seconds.
    plan.spawn.env.push(("OTEL_BSP_SCHEDULE_DELAY".into(), "10".into()));
    let cluster = Cluster::with(1, plan).await;
    put(&cluster.client(), "a").await;
    eventually("the span of a put", async || match collector.named(PUT).len() {
        1 => Ok(()),
        _ => Err(format!("{:?}", collector.spans())),
    })
    .await;

    let unwanted = Collector::default();
    let address = unwanted.serve().await;
    let none = ["--distributed-tracing-sampling-rate", "0"];
    let mut cluster = Cluster::with(1, traced(&address, &none)).await;
    put(&cluster.client(), "a").await;
    assert!(cluster.members[0].stop().await.success());
    assert_eq!(unwanted.spans(), []);
}

/// It costs spans and nothing else: requests are answered, and the member ends when it is told to.
#[tokio::test(flavor = "multi_thread")]
async fn collector_that_is_gone_or_stuck_holds_no_request_up() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let stuck = Collector { is_stuck: true, ..Collector::default() };
    for address in [gone, stuck.serve().await] {
        let mut cluster = Cluster::with(1, traced(&address, &[])).await;
        let client = cluster.client();
        for key in ["a", "b", "c"] {
            put(&client, key).await;
        }
        assert!(cluster.members[0].stop().await.success(), "{address}");
    }
    assert!(!stuck.spans().is_empty());
}
