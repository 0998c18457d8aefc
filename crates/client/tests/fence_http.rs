//! A real axum service behind a gate, over real connections.
#![allow(clippy::unwrap_used)]

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Router};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::{Request, Response, body::Incoming};
use serde_json::Value;
use tenure::fence::http::FenceLayer;
use tenure::fence::{FencingToken, Gate, GateLimits, Passage};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

/// What the service holds: who wrote what, in order.
#[derive(Default)]
struct Ledger {
    written: Mutex<Vec<(i64, String)>>,
    /// Requests to /slow say here that they have begun, and wait there to be let go.
    begun: Notify,
    let_go: Notify,
    finished: AtomicUsize,
}

async fn write(
    State(ledger): State<Arc<Ledger>>,
    Extension(token): Extension<FencingToken>,
    body: String,
) -> String {
    ledger.written.lock().unwrap().push((token.get(), body));
    format!("written under {token}")
}

async fn read(State(ledger): State<Arc<Ledger>>) -> String {
    format!("{:?}", ledger.written.lock().unwrap())
}

/// Writes only when it is let go, on a task of its own: it takes the passage along.
async fn slow(
    State(ledger): State<Arc<Ledger>>,
    Extension(passage): Extension<Arc<Passage>>,
    body: String,
) -> &'static str {
    tokio::spawn(async move {
        ledger.begun.notify_one();
        ledger.let_go.notified().await;
        ledger.written.lock().unwrap().push((passage.token().get(), body));
        ledger.finished.fetch_add(1, Ordering::Relaxed);
        drop(passage);
    });
    "will be written"
}

struct Service {
    address: SocketAddr,
    gate: Gate,
    ledger: Arc<Ledger>,
}

async fn serve(limits: GateLimits, by_path: bool) -> Service {
    let gate = Gate::in_memory(limits);
    let ledger = Arc::new(Ledger::default());
    let fence = if by_path {
        FenceLayer::naming(gate.clone(), |parts| parts.uri.path().to_owned())
    } else {
        FenceLayer::new(gate.clone())
    };
    let app = Router::new()
        .route("/orders", post(write).get(read).put(write).delete(write).patch(write))
        .route("/slow", post(slow))
        .route("/health", get(async || "well"))
        .with_state(Arc::clone(&ledger))
        .layer(fence);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    Service { address, gate, ledger }
}

struct Answer {
    status: u16,
    in_force: Option<String>,
    retry_after: Option<String>,
    body: String,
}

impl Answer {
    async fn of(response: Response<Incoming>) -> Answer {
        let (parts, body) = response.into_parts();
        let header = |name| parts.headers.get(name).map(|v| v.to_str().unwrap().to_owned());
        Answer {
            status: parts.status.as_u16(),
            in_force: header(FencingToken::HEADER),
            retry_after: header("Retry-After"),
            body: String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap(),
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl Service {
    async fn send(&self, method: &str, path: &str, tokens: &[&str], body: &str) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let (mut sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("Host", "here");
        for token in tokens {
            request = request.header(FencingToken::HEADER, *token);
        }
        let body = Full::new(Bytes::from(body.to_owned()));
        Answer::of(sender.send_request(request.body(body).unwrap()).await.unwrap()).await
    }

    async fn post(&self, token: &str, body: &str) -> Answer {
        self.send("POST", "/orders", &[token], body).await
    }

    fn written(&self) -> Vec<(i64, String)> {
        self.ledger.written.lock().unwrap().clone()
    }
}

async fn service() -> Service {
    serve(GateLimits::default(), false).await
}

#[tokio::test]
async fn a_replaced_holder_gets_409_and_is_told_which_token_is_in_force() {
    let service = service().await;
    assert_eq!(service.post("33", "a").await.body, "written under 33");
    assert_eq!(service.post("34", "b").await.status, 200);
    let late = service.post("33", "late").await;
    assert_eq!(late.status, 409);
    assert_eq!(late.in_force.as_deref(), Some("34"));
    let json = late.json();
    assert_eq!((json["token"].as_i64(), json["in_force"].as_i64()), (Some(33), Some(34)));
    assert_eq!(json["error"], "fencing token 33 is stale: token 34 is in force");
    assert_eq!(service.written(), [(33, "a".to_owned()), (34, "b".to_owned())]);
}

#[tokio::test]
async fn a_write_without_a_token_gets_428_and_a_read_passes() {
    let service = service().await;
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let answer = service.send(method, "/orders", &[], "x").await;
        assert_eq!(answer.status, 428, "{method}");
        assert!(answer.json()["error"].as_str().unwrap().contains("Fencing-Token"));
    }
    assert_eq!(service.send("GET", "/orders", &[], "").await.status, 200);
    assert_eq!(service.send("HEAD", "/health", &[], "").await.status, 200);
    assert_eq!(service.written(), []);
}

#[tokio::test]
async fn a_read_of_the_new_holder_raises_the_gate() {
    let service = service().await;
    assert_eq!(service.post("5", "a").await.status, 200);
    assert_eq!(service.send("GET", "/orders", &["6"], "").await.status, 200);
    assert_eq!(service.post("5", "late").await.status, 409);
    assert_eq!(service.send("GET", "/orders", &["5"], "").await.status, 409);
    assert_eq!(service.gate.in_force("").map(FencingToken::get), Some(6));
}

#[tokio::test]
async fn what_is_no_token_gets_400_and_changes_nothing() {
    let service = service().await;
    for bad in ["", "0", "-1", "07", "seven", "9223372036854775808"] {
        let answer = service.post(bad, "x").await;
        assert_eq!(answer.status, 400, "{bad:?}");
        assert!(answer.json()["error"].is_string());
    }
    assert_eq!(service.send("POST", "/orders", &["7", "8"], "x").await.status, 400);
    assert_eq!(service.send("GET", "/orders", &["seven"], "").await.status, 400);
    assert_eq!(service.written(), []);
    assert_eq!(service.gate.in_force(""), None);
}

#[tokio::test]
async fn a_newer_holder_waits_for_an_older_write_that_outlives_its_request() {
    let service = Arc::new(service().await);
    assert_eq!(service.send("POST", "/slow", &["1"], "old").await.status, 200);
    service.ledger.begun.notified().await;
    let (done, mut is_done) = mpsc::channel(1);
    let newer = tokio::spawn({
        let service = Arc::clone(&service);
        async move {
            let answer = service.post("2", "new").await;
            let finished = service.ledger.finished.load(Ordering::Relaxed);
            done.send((answer.status, finished)).await.unwrap();
        }
    });
    // The newer request has arrived when older ones are refused.
    while service.post("1", "late").await.status != 409 {}
    assert!(is_done.try_recv().is_err());
    service.ledger.let_go.notify_one();
    assert_eq!(is_done.recv().await, Some((200, 1)));
    newer.await.unwrap();
    assert_eq!(service.written().last(), Some(&(2, "new".to_owned())));
    assert!(
        service.written().iter().rposition(|(token, _)| *token == 1).unwrap()
            < service.written().len() - 1
    );
}

#[tokio::test]
async fn a_newer_holder_gets_503_if_an_older_write_does_not_end() {
    let limits = GateLimits { patience: Duration::from_millis(50), ..GateLimits::default() };
    let service = serve(limits, false).await;
    assert_eq!(service.send("POST", "/slow", &["1"], "old").await.status, 200);
    service.ledger.begun.notified().await;
    let answer = service.post("2", "new").await;
    assert_eq!((answer.status, answer.retry_after.as_deref()), (503, Some("1")));
    assert_eq!(service.post("1", "late").await.status, 409);
    service.ledger.let_go.notify_one();
    while service.ledger.finished.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    while service.post("2", "new").await.status != 200 {}
    assert_eq!(service.written(), [(1, "old".to_owned()), (2, "new".to_owned())]);
}

#[tokio::test]
async fn each_resource_has_its_own_tokens_and_there_is_an_end_to_them() {
    let limits = GateLimits { resources_max: 1, ..GateLimits::default() };
    let service = serve(limits, true).await;
    assert_eq!(service.post("9", "x").await.status, 200);
    let full = service.send("GET", "/health", &["3"], "").await;
    assert_eq!((full.status, &full.retry_after), (503, &None));
    assert!(full.json()["error"].as_str().unwrap().contains("no room for \"/health\""));
    assert_eq!(service.post("8", "x").await.status, 409);
    assert_eq!(service.send("GET", "/health", &[], "").await.status, 200);
}
