//! Damaged messages through the real proxy, on loopback.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tenure::fence::http::TokenRule;
use tenure::fence::{Gate, GateLimits};
use tenure_damage::{damaged, hold};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};

use super::super::{
    AdmissionPolicy, ConnectionSlot, Metrics, Proxy, RequestLog, Timeouts, Worker, connection,
    pool::Pool,
    resource::{ResourceNaming, ResourceRule, Resources},
};
use super::messages::{self, Message, Read};

const CASES: u32 = 400;
/// Longer than anything takes here, and short enough to find out what hangs.
const LIMIT: Duration = Duration::from_secs(20);

const REQUESTS: &[u8] = b"GET /a/b?c=d HTTP/1.1\r\nHost: shop\r\nAccept: */*\r\n\
    X-Forwarded-For: 1.2.3.4\r\n\r\nPUT /b HTTP/1.1\r\nHost: shop\r\nFencing-Token: 7\r\n\
    Content-Length: 49\r\n\r\nGET /hidden HTTP/1.1\r\nHost: shop\r\nAccept: */*\r\n\r\n\
    POST /c HTTP/1.1\r\nHost: shop\r\nFencing-Token: 8\r\nTransfer-Encoding: chunked\r\n\r\n\
    5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n\
    HEAD /d HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n";

const ANSWERS: [&[u8]; 5] = [
    b"HTTP/1.1 200 Very Good\r\nA: 1\r\nKeep-Alive: timeout=5\r\nB:  2 \r\nConnection: keep-alive, \
      x-hop\r\nX-Hop: 3\r\nContent-Length: 5\r\nEmpty:\r\nC: 4\r\n\r\nhello",
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\
      Content-Length: 3\r\n\r\n5;a=b\r\nhello\r\n0\r\nTrailer: t\r\n\r\n",
    b"HTTP/1.0 404 \r\nContent-Length: 3, 3\r\ncontent-length: 3\r\nConnection: close\r\n\r\nabc",
    b"HTTP/1.1 304 Not\r\nETag: \"x\"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil\
      HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
];

/// What the upstream answers to a sound request. Nothing else has this header.
const MARKED: &[u8] = b"HTTP/1.1 200 OK\r\nX-Marked: yes\r\nContent-Length: 2\r\n\r\nok";

/// The proxy in front of an upstream, without a listener of its own.
fn worker(upstream: &str) -> Arc<Worker> {
    let gate = Gate::in_memory(GateLimits::default());
    let timeouts = Timeouts { upstream: LIMIT, client: LIMIT, settle: Duration::ZERO };
    let upstream: super::super::Upstream = upstream.parse().unwrap();
    let pool = Pool::new(upstream.clone(), None);
    let proxy = Proxy {
        upstream,
        tls: None,
        upstream_tls: None,
        rewrite_host: false,
        metrics: Metrics::new(&gate),
        admission: AdmissionPolicy {
            gate,
            rule: TokenRule::default(),
            resources: ResourceRule { naming: ResourceNaming::Single, known: Resources::default() },
            horizon: None,
            election: None,
            tells_tokens: true,
        },
        timeouts,
        log: RequestLog::default(),
    };
    Arc::new(Worker { proxy: Arc::new(proxy), pool })
}

/// What a client reads that sends these bytes in so many pieces, and then closes its side.
async fn through_proxy(upstream: &str, bytes: Vec<u8>, pieces: usize) -> Vec<u8> {
    let worker = worker(upstream);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, peer) = listener.accept().await.unwrap();
    let (working, _all_ended) = mpsc::channel(1);
    let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
    let slot = ConnectionSlot { working, _permit: Arc::new(permit) };
    let (_stop, stopped) = watch::channel(false);
    tokio::spawn(connection::serve(worker, stream, peer, stopped, slot));
    client.set_nodelay(true).unwrap();
    let (mut answers, mut requests) = client.into_split();
    let sending = tokio::spawn(async move {
        for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
            if requests.write_all(piece).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let _ = requests.shutdown().await;
    });
    let mut read = Vec::new();
    // It may end with a reset, which ends the answer as well.
    let reading = answers.read_to_end(&mut read);
    let _ = tokio::time::timeout(LIMIT, reading).await.expect("the proxy ends the connection");
    sending.abort();
    read
}

/// An upstream that answers each request, and keeps everything that came on each of its connections.
async fn upstream(
    answer: impl Fn(&Message) -> (Vec<u8>, bool) + Clone + Send + 'static,
) -> (String, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (answer, kept) = (answer.clone(), Arc::clone(&kept));
            let number = {
                let mut kept = kept.lock().unwrap();
                kept.push(Vec::new());
                kept.len() - 1
            };
            tokio::spawn(async move {
                let (mut bytes, mut done, mut open) = (Vec::new(), 0, true);
                while stream.read_buf(&mut bytes).await.unwrap_or(0) > 0 {
                    kept.lock().unwrap()[number].clone_from(&bytes);
                    while let Read::Whole(request, length) = messages::read(&bytes[done..])
                        && open
                    {
                        done += length;
                        let (bytes, goes_on) = answer(&request);
                        open = stream.write_all(&bytes).await.is_ok() && goes_on;
                        if !open {
                            let _ = stream.shutdown().await;
                        }
                    }
                }
            });
        }
    });
    (url, connections)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// How many requests arrive at the upstream, each of them one that the proxy has seen.
fn requests_arrive(sent: Vec<u8>, pieces: usize) -> Result<usize, TestCaseError> {
    let (connections, answers) = runtime().block_on(async {
        let (url, connections) = upstream(|_| (MARKED.to_vec(), true)).await;
        let answers = through_proxy(&url, sent, pieces).await;
        (std::mem::take(&mut *connections.lock().unwrap()), answers)
    });
    let mut arrived = 0;
    for connection in connections {
        let (requests, _) = messages::all(&connection).map_err(TestCaseError::fail)?;
        arrived += requests.len();
        for request in requests {
            // The proxy adds this to each request that it has seen as one.
            prop_assert!(request.values("via").contains(&"1.1 tenure-fence"), "{request:?}");
            prop_assert_eq!(request.values("host").len(), 1, "{:?}", request);
            prop_assert_eq!(request.word(2), "HTTP/1.1");
            let safe = ["GET", "HEAD", "OPTIONS", "TRACE"].contains(&request.word(0));
            let tokens = request.values("fencing-token");
            prop_assert!(tokens.len() == 1 || (safe && tokens.is_empty()), "{request:?}");
        }
    }
    // Counted, not read: the answer to HEAD has a length and no body.
    let marked = answers.windows(13).filter(|bytes| bytes == b"x-marked: yes").count();
    prop_assert!(marked <= arrived, "{marked} answers to {arrived} requests");
    Ok(arrived)
}

/// How many whole answers a client gets to one request whose answer is this, and a second one.
fn answers_arrive(first: Vec<u8>, pieces: usize) -> Result<usize, TestCaseError> {
    let requests = b"GET /first HTTP/1.1\r\nHost: h\r\n\r\nGET /second HTTP/1.1\r\nHost: h\r\n\r\n";
    let answers = runtime().block_on(async {
        let (url, _) = upstream(move |request| match request.word(1) {
            "/first" => (first.clone(), false),
            _ => (MARKED.to_vec(), true),
        })
        .await;
        through_proxy(&url, requests.to_vec(), pieces).await
    });
    let (answers, cut) = messages::all(&answers).map_err(TestCaseError::fail)?;
    prop_assert!(answers.len() <= 2, "{answers:?}");
    for answer in &answers {
        let status: u16 = answer.word(1).parse().unwrap_or(0);
        prop_assert!((200..1000).contains(&status), "{answer:?}");
    }
    match &answers[..] {
        [_, second] => {
            prop_assert_eq!(second.values("x-marked"), ["yes"], "{:?}", second);
            prop_assert!(second.body == b"ok" && !cut, "{second:?}");
        }
        // An answer that breaks off ends the connection, so nothing is behind it.
        _ => prop_assert!(cut || answers.is_empty(), "{answers:?}"),
    }
    Ok(answers.len())
}

#[test]
fn damaged_requests_hide_no_request_from_the_proxy() {
    assert_eq!(requests_arrive(REQUESTS.to_vec(), 7).unwrap(), 4, "sound ones all arrive");
    hold(CASES, (damaged(Just(REQUESTS.to_vec())), 1..20usize), |(sent, pieces)| {
        requests_arrive(sent.to_vec(), pieces).map(drop)
    });
}

#[test]
fn damaged_answer_is_never_taken_for_the_next_one() {
    for sound in ANSWERS {
        assert_eq!(answers_arrive(sound.to_vec(), 1).unwrap(), 2, "{}", sound.escape_ascii());
    }
    let sound = prop::sample::select(&ANSWERS[..]).prop_map(<[u8]>::to_vec);
    hold(CASES, (damaged(sound), 1..4usize), |(damaged, pieces)| {
        answers_arrive(damaged.to_vec(), pieces).map(drop)
    });
}
