//! `tenure fence` and exchanges that do not end well: what the upstream may still get, and when the next
//! holder comes in.

use std::time::{Duration, Instant};

use tenure_e2e::{Fence, Upstream, eventually, read_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

async fn fence(upstream: &str, flags: &[&str]) -> Fence {
    let ours = ["--upstream", upstream, "--in-memory", "--no-cluster", "--patience", "20ms"];
    Fence::start_as_shipped(&[&ours, flags].concat()).await
}

/// An upstream that does with each connection what the test wants.
async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

async fn accept(listener: &TcpListener) -> TcpStream {
    timeout(PATIENCE, listener.accept()).await.expect("the proxy connects").unwrap().0
}

fn put(token: i64, length: usize) -> String {
    format!(
        "PUT /value HTTP/1.1\r\nHost: h\r\nFencing-Token: {token}\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Waits until a read with this token is let through the gate; whatever comes of it.
async fn comes_in(fence: &Fence, token: i64) {
    let request =
        format!("GET / HTTP/1.1\r\nHost: h\r\nFencing-Token: {token}\r\nConnection: close\r\n\r\n");
    let admitted = fence.metric("tenure_fence_admitted_total").await;
    eventually(&format!("token {token} comes in"), async || {
        let asking = fence.raw(&request).await;
        let now = eventually("it is judged", async || {
            let refused = fence.metric("tenure_fence_refused_total{reason=\"not_yet\"}").await;
            let now = fence.metric("tenure_fence_admitted_total").await;
            if now > admitted || refused > 0.0 { Ok(now) } else { Err(String::new()) }
        })
        .await;
        drop(asking);
        if now > admitted { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
}

/// An upstream that stood still for longer than it was waited for used to find the whole old write in its
/// connection when it woke up, and applied it after the new one.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_takes_back_what_an_upstream_has_not_taken() {
    const SIZE: usize = 1 << 20;
    let (listener, url) = listen().await;
    let fence = fence(&url, &["--upstream-timeout", "300ms"]).await;
    let mut old = fence.raw(&put(1, SIZE)).await;
    let mut asleep = accept(&listener).await;
    old.write_all(&vec![b'x'; SIZE]).await.unwrap();
    read_until(&mut old, "504 Gateway Timeout").await;
    comes_in(&fence, 2).await;
    let mut found = Vec::new();
    let end = timeout(PATIENCE, asleep.read_to_end(&mut found)).await.expect("it has an end");
    assert!(end.is_err(), "it ends with a reset, behind {} bytes", found.len());
    assert!(found.len() < SIZE, "{} bytes", found.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_gives_a_silent_upstream_as_long_again() {
    const SILENCE: Duration = Duration::from_millis(400);
    let upstream = Upstream::start().await;
    let fence = fence(&upstream.url, &["--upstream-timeout", "400ms"]).await;
    assert_eq!(fence.put("/silent", 1, "old").await.status, 504);
    let gave_up = Instant::now();
    eventually("the next one comes in", async || {
        let answer = fence.put("/value", 2, "new").await;
        if answer.status == 200 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    // The answer came to us a little after the proxy gave up.
    assert!(gave_up.elapsed() >= SILENCE * 3 / 4, "{:?}", gave_up.elapsed());
    assert_eq!(fence.metric("tenure_fence_unfinished_total").await, 1.0);
}

/// An answer that comes early, and the end of the connection behind it, say nothing about what the
/// upstream does with the part of the request that it has.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_takes_no_early_answer_for_the_end_of_a_request_that_is_not_whole() {
    const SETTLE: Duration = Duration::from_secs(1);
    for fields in ["Connection: close\r\n", ""] {
        let (listener, url) = listen().await;
        let fence = fence(&url, &["--settle", "1s"]).await;
        let mut old = fence.raw(&format!("{}half", put(1, 8))).await;
        let mut upstream = accept(&listener).await;
        read_until(&mut upstream, "half").await;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nok");
        upstream.write_all(answer.as_bytes()).await.unwrap();
        read_until(&mut old, "ok").await;
        let closed = Instant::now();
        drop(upstream);
        comes_in(&fence, 2).await;
        assert!(closed.elapsed() >= SETTLE, "{:?}", closed.elapsed());
    }
}

/// Each piece is progress, so no silence ever ends it.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_breaks_off_an_endless_upload_that_is_overtaken() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream.url, &["--upstream-timeout", "500ms", "--settle", "0"]).await;
    let head =
        "PUT /value HTTP/1.1\r\nHost: h\r\nFencing-Token: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (mut answers, mut old) = fence.raw(head).await.into_split();
    let endless = tokio::spawn(async move {
        while old.write_all(b"1\r\nx\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    upstream.has_begun("/value", 1).await;
    eventually("the next one comes in", async || {
        let answer = fence.put("/value", 2, "new").await;
        if answer.status == 200 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, answers.read_to_end(&mut answer)).await.expect("it has an end");
    assert!(String::from_utf8_lossy(&answer).contains("a newer token has taken over"));
    timeout(PATIENCE, endless).await.expect("it notices").unwrap();
    assert_eq!(fence.metric("tenure_fence_failed_total{reason=\"overtaken\"}").await, 1.0);
    assert_eq!(upstream.written().len(), 1, "only the newer one's");
}

/// The upstream answers at once and goes on reading: an upload that moves does not count as silence.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_lets_an_upload_go_on_behind_the_answers_head() {
    const PIECES: usize = 15;
    let (listener, url) = listen().await;
    let fence = fence(&url, &["--upstream-timeout", "300ms"]).await;
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    ] {
        let mut client = fence.raw(&put(1, PIECES)).await;
        let mut upstream = accept(&listener).await;
        read_until(&mut upstream, "\r\n\r\n").await;
        upstream.write_all(answer.as_bytes()).await.unwrap();
        read_until(&mut client, "ok").await;
        for _ in 0..PIECES {
            client.write_all(b"x").await.unwrap();
            read_until(&mut upstream, "x").await;
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        upstream.write_all(b"0\r\n\r\n").await.unwrap();
    }
    assert_eq!(fence.metric("tenure_fence_unfinished_total").await, 0.0);
}

/// They are closed without another request to trigger it.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_closes_unused_connections_without_another_request() {
    let (listener, url) = listen().await;
    let fence = fence(&url, &["--threads", "1"]).await;
    for special in ["", "Connection: close\r\n"] {
        let get = format!("GET / HTTP/1.1\r\nHost: h\r\n{special}\r\n");
        let mut client = fence.raw(&get).await;
        let mut upstream = accept(&listener).await;
        read_until(&mut upstream, "\r\n\r\n").await;
        upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
        read_until(&mut client, "ok").await;
        let mut rest = Vec::new();
        let end = timeout(PATIENCE, upstream.read_to_end(&mut rest)).await.expect("it is closed");
        assert_eq!(end.unwrap(), 0, "politely");
    }
}
