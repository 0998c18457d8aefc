//! `tenure fence` and what is under way: bodies that are long, slow, or end in the middle, and which requests wait for
//! them.

use std::time::{Duration, Instant};

use tenure_e2e::{Answered, Fence, Upstream, eventually, read_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);
const MIB: usize = 1 << 20;

/// A proxy that remembers nothing and believes every token.
async fn fence(upstream: &Upstream, flags: &[&str]) -> Fence {
    let ours = ["--upstream", &upstream.url, "--in-memory", "--no-cluster"];
    Fence::start(&[&ours, flags].concat()).await
}

fn put(path: &str, token: i64, length: usize) -> String {
    format!(
        "PUT {path} HTTP/1.1\r\nHost: h\r\nFencing-Token: {token}\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// The most memory that a process ever had.
fn peak_mib(fence: &Fence) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", fence.program.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

async fn comes_in(fence: &Fence, token: i64) -> Answered {
    eventually(&format!("token {token} comes in"), async || {
        let answer = fence.put("/value", token, "new").await;
        if answer.status == 200 { Ok(answer) } else { Err(answer.body) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_passes_large_bodies_without_keeping_them() {
    const SIZE: usize = 64 * MIB;
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &[]).await;
    assert_eq!(fence.get("/value").await.status, 200);
    let before = peak_mib(&fence);
    let sent = fence.send("PUT", "/count", &[("Fencing-Token", "1")], vec![b'x'; SIZE]).await;
    assert_eq!((sent.status, sent.body.as_str()), (200, SIZE.to_string().as_str()));
    let path = format!("/bytes/{SIZE}");
    assert_eq!(fence.get(&path).await.body.len(), SIZE, "without a token");
    assert_eq!(fence.put(&path, 1, "").await.body.len(), SIZE, "with one");
    let after = peak_mib(&fence);
    assert!(after < before + 24, "{before} MiB before, {after} MiB after");
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_reads_no_faster_than_the_other_side() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &["--upstream-timeout", "1s", "--client-timeout", "1s"]).await;
    assert_eq!(fence.get("/value").await.status, 200);
    let before = peak_mib(&fence);
    // An upstream that does not read, and a client that sends as much as is taken.
    let mut writer = fence.raw(&put("/silent", 1, 512 * MIB)).await;
    // A client that does not read, and an upstream that sends as much as is taken.
    let mut reader = fence.raw(&put(&format!("/bytes/{}", 512 * MIB), 1, 0)).await;
    let piece = vec![b'x'; MIB];
    let sending = async { while writer.write_all(&piece).await.is_ok() {} };
    timeout(PATIENCE, sending).await.expect("the upstream's silence has an end");
    comes_in(&fence, 2).await;
    // A client that reads on too late must not take a part for the whole.
    let mut part = Vec::new();
    let _ = timeout(PATIENCE, reader.read_to_end(&mut part)).await.expect("it has an end");
    assert!(part.len() < 512 * MIB && !part.ends_with(b"0\r\n\r\n"), "{} bytes", part.len());
    let after = peak_mib(&fence);
    assert!(after < before + 32, "{before} MiB before, {after} MiB after");
    assert_eq!(fence.metric("tenure_fence_in_flight").await, 0.0);
    assert!(fence.metric("tenure_fence_unfinished_total").await >= 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_passes_each_piece_before_the_next_is_sent() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &[]).await;
    let mut stream = fence.raw("POST /echo HTTP/1.1\r\nHost: h\r\nFencing-Token: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    )
    .await;
    for piece in ["first", "second", "third"] {
        let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
        stream.write_all(chunk.as_bytes()).await.unwrap();
        read_until(&mut stream, piece).await;
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    read_until(&mut stream, "0\r\n\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_waits_for_a_write_whose_client_hung_up() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &["--patience", "100ms"]).await;
    // Before the answer began, and in the middle of it.
    for (path, token) in [("/slow", 1), ("/trickle", 3)] {
        let mut client = fence.raw(&format!("{}old", put(path, token, 3))).await;
        upstream.has_begun(path, 1).await;
        if path == "/trickle" {
            read_until(&mut client, "beginning").await;
        }
        drop(client);
        for _ in 0..3 {
            let newer = fence.put("/value", token + 1, "new").await;
            assert_eq!(newer.status, 503, "{path}: the upstream is still at work");
        }
        assert_eq!(fence.metric("tenure_fence_in_flight").await, 1.0);
        upstream.let_go();
        comes_in(&fence, token + 1).await;
        let written = upstream.written();
        let [.., old, new] = &written[..] else { panic!("{written:?}") };
        assert_eq!((old.1.as_str(), new.1.as_str()), ("old", "new"), "{path}");
    }
    assert_eq!(fence.metric("tenure_fence_unfinished_total").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_never_makes_half_a_request_whole() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &[]).await;
    let client = fence.raw(&format!("{}half", put("/value", 1, 8))).await;
    upstream.has_begun("/value", 1).await;
    drop(client);
    comes_in(&fence, 2).await;
    assert_eq!(upstream.written().len(), 1, "only the newer one's");
    assert_eq!(fence.metric("tenure_fence_unfinished_total").await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_gives_time_to_an_upstream_that_lost_its_connection() {
    const SETTLE: Duration = Duration::from_secs(1);
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &["--patience", "10ms", "--settle", "1s"]).await;
    let mut client = fence.raw(&format!("{}half", put("/value", 1, 8))).await;
    upstream.has_begun("/value", 1).await;
    let broken_off = Instant::now();
    client.shutdown().await.unwrap();
    drop(client);
    comes_in(&fence, 2).await;
    assert!(broken_off.elapsed() >= SETTLE, "{:?}", broken_off.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_does_not_wait_without_end_for_a_client_that_pauses() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &["--client-timeout", "300ms", "--patience", "20s"]).await;
    let mut paused = fence.raw(&format!("{}half", put("/value", 1, 8))).await;
    upstream.has_begun("/value", 1).await;
    assert_eq!(fence.put("/value", 2, "new").await.status, 200);
    read_until(&mut paused, "408 Request Timeout").await;
    assert_eq!(upstream.written().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_stream_that_only_reads_keeps_no_newer_holder_out() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &[]).await;
    let mut reader =
        fence.raw("GET /trickle HTTP/1.1\r\nHost: h\r\nFencing-Token: 1\r\n\r\n").await;
    read_until(&mut reader, "beginning").await;
    assert_eq!(fence.put("/value", 2, "new").await.status, 200);
    upstream.let_go();
    read_until(&mut reader, "end\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_says_plainly_what_the_upstream_does_not_answer() {
    let upstream = Upstream::start().await;
    let proxy = fence(&upstream, &["--upstream-timeout", "300ms"]).await;
    for token in [&[][..], &[("Fencing-Token", "1")]] {
        let silent = proxy.send("GET", "/silent", token, "").await;
        assert_eq!(silent.status, 504);
        assert!(silent.json()["next"].as_str().unwrap().contains("read back"));
        let broken = proxy.send("GET", "/break", token, "").await;
        assert_eq!((broken.status, broken.json()["error"].is_string()), (502, true));
    }
    assert_eq!(proxy.put("/silent", 1, "x").await.status, 504);
    assert_eq!(proxy.put("/break", 1, "x").await.status, 502);
    assert_eq!(upstream.begun("/break"), 3, "what may have been done is not done twice");
    assert_eq!(proxy.metric("tenure_fence_failed_total{reason=\"timeout\"}").await, 3.0);

    let free = tenure_e2e::reserve(1)[0];
    let nobody = Fence::start(&["--upstream", &free.url(), "--in-memory", "--no-cluster"]).await;
    for answer in [nobody.get("/value").await, nobody.put("/value", 1, "x").await] {
        assert_eq!(answer.status, 502);
        assert!(answer.json()["next"].as_str().unwrap().starts_with("nothing was done"));
    }
}
