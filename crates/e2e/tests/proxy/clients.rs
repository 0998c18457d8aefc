//! `tenure fence` and clients that are large, slow, wrong, or many; and a stderr that is not read.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tenure_e2e::{Fence, Upstream, eventually, tools};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

async fn fence(upstream: &Upstream, flags: &[&str]) -> Fence {
    let ours = ["--upstream", &upstream.url, "--in-memory", "--no-cluster"];
    Fence::start(&[&ours, flags].concat()).await
}

async fn connect(address: &str, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// Sends these bytes, says that there are no more, and reads to the end of the connection.
async fn exchange(address: &str, bytes: &[u8]) -> String {
    let mut stream = connect(address, bytes).await;
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it answers or closes");
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

async fn none_is_connected(fence: &Fence) {
    eventually("all connections have ended", async || {
        match fence.metric("tenure_fence_connections").await {
            0.0 => Ok(()),
            more => Err(more.to_string()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_does_not_keep_a_client_that_does_not_read() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &["--client-timeout", "300ms"]).await;
    let mut deaf = Vec::new();
    for special in ["", "Connection: keep-alive\r\n", "Fencing-Token: 1\r\n"] {
        let head = format!("GET /bytes/50000000 HTTP/1.1\r\nHost: h\r\n{special}\r\n");
        deaf.push(connect(&fence.address, head.as_bytes()).await);
    }
    upstream.has_begun("/bytes/50000000", deaf.len()).await;
    none_is_connected(&fence).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_tells_a_client_that_sends_much_that_it_is_refused() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &[]).await;
    assert_eq!(fence.put("/value", 9, "new").await.status, 200);
    let large = vec![b'x'; 8 << 20];
    let head = format!(
        "PUT /value HTTP/1.1\r\nHost: h\r\nFencing-Token: 8\r\nContent-Length: {}\r\n\r\n",
        large.len()
    );
    for _ in 0..5 {
        // Everything is sent before anything is read, as many clients do.
        let answer = exchange(&fence.address, &[head.as_bytes(), &large].concat()).await;
        assert_eq!(status(&answer), "409", "{answer}");
    }
    assert_eq!(upstream.written().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_refuses_requests_that_can_be_meant_in_two_ways() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &[]).await;
    let chunks = "Fencing-Token: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (request, expected) in [
        ("PUT /value HTTP/1.1\r\nHost: a\r\nHost: b\r\nFencing-Token: 1\r\n\r\n".to_owned(), "400"),
        ("GET /value HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned(), "400"),
        ("GET http://user:pass@a/value HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "400"),
        ("PUT shards:80 HTTP/1.1\r\nHost: a\r\nFencing-Token: 1\r\n\r\n".to_owned(), "400"),
        (format!("PUT /value HTTP/1.1\r\nHost: a\r\n{chunks}5\r\nhello\r\nx\r\n"), "400"),
        (
            format!(
                "PUT /value HTTP/1.1\r\nHost: a\r\n{}0\r\n\r\n",
                chunks.replace("chunked", "gzip, chunked")
            ),
            "501",
        ),
    ] {
        let answer = exchange(&fence.address, request.as_bytes()).await;
        assert_eq!(status(&answer), expected, "{request}: {answer}");
    }
    assert_eq!(upstream.written(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_passes_bodies_of_every_framing() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &[]).await;
    for method in ["GET", "OPTIONS", "PUT"] {
        for token in ["", "Fencing-Token: 1\r\n"] {
            if method == "PUT" && token.is_empty() {
                continue;
            }
            let request = format!(
                "{method} /count HTTP/1.1\r\nHost: h\r\n{token}Transfer-Encoding: chunked\r\n\r\n\
                 5\r\nhello\r\n0\r\n\r\n"
            );
            let answer = exchange(&fence.address, request.as_bytes()).await;
            assert!(
                status(&answer) == "200" && answer.ends_with("\r\n\r\n5"),
                "{method}: {answer}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_answers_a_client_that_has_closed_its_side() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &[]).await;
    let put = b"PUT /slow HTTP/1.1\r\nHost: h\r\nFencing-Token: 1\r\nContent-Length: 1\r\n\r\nx";
    let mut client = connect(&fence.address, put).await;
    upstream.has_begun("/slow", 1).await;
    client.shutdown().await.unwrap();
    upstream.let_go();
    let mut answer = Vec::new();
    timeout(PATIENCE, client.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert!(answer.ends_with(b"written at last\n"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_answers_head_without_a_body() {
    let free = tenure_e2e::reserve(1)[0];
    let nobody = Fence::start(&["--upstream", &free.url(), "--in-memory", "--no-cluster"]).await;
    for special in ["", "Connection: close\r\n"] {
        let head = format!("HEAD / HTTP/1.1\r\nHost: h\r\n{special}\r\n");
        let answer = exchange(&nobody.address, head.as_bytes()).await;
        assert!(status(&answer) == "502" && answer.ends_with("\r\n\r\n"), "{answer}");
    }
}

/// A client that hangs up leaves its exchange behind, which is a connection to the upstream.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_makes_no_room_for_a_newer_holder_when_a_client_hangs_up() {
    let upstream = Upstream::start().await;
    let fence = fence(&upstream, &["--max-connections", "3", "--upstream-timeout", "1s"]).await;
    let put = b"PUT /silent HTTP/1.1\r\nHost: h\r\nFencing-Token: 1\r\nContent-Length: 0\r\n\r\n";
    let mut most: f64 = 0.0;
    for _ in 0..20 {
        drop(connect(&fence.address, put).await);
        most = most.max(fence.metric("tenure_fence_in_flight").await);
    }
    upstream.has_begun("/silent", 6).await;
    most = most.max(fence.metric("tenure_fence_in_flight").await);
    // Those that end make room a moment before they are no longer counted.
    assert!(most <= 6.0, "{most} exchanges at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_limits_how_many_wait() {
    for flag in ["--patience", "--upstream-timeout", "--client-timeout", "--settle", "--grace"] {
        let mut proxy = Fence::spawn(&[flag, "25h", "--upstream", "http://127.0.0.1:1"]);
        assert_eq!(proxy.ends().await.code(), Some(2));
        proxy.says("it is 24h at the most").await;
    }
}

/// A process that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A pipe holds 64 KiB. When it is full, a thread that writes to it blocks; that was the thread that served requests.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_goes_on_when_its_stderr_is_not_read() {
    let upstream = Upstream::start().await;
    let mut command = Command::new(tools::tenure());
    command.args(["fence", "--in-memory", "--no-cluster", "--listen", "127.0.0.1:0"]);
    command.args(["--resource-path", "1", "--threads", "1", "--upstream", &upstream.url]);
    let mut proxy = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut stderr = proxy.0.stderr.take().unwrap();
    let mut said = String::new();
    while !said.contains(", in front of") {
        let mut byte = [0];
        stderr.read_exact(&mut byte).unwrap();
        said.push(byte[0].into());
    }
    let address = said.split("listening on ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    // It is not read from now on. The kernel's buffer is filled from here.
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/{}/fd/2", proxy.0.id()))
        .map(std::os::fd::OwnedFd::from)
        .unwrap();
    rustix::io::ioctl_fionbio(&full, true).unwrap();
    while rustix::io::write(&full, &[b'.'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&full, false).unwrap();
    let refused = b"PUT /a//b HTTP/1.1\r\nHost: h\r\nFencing-Token: 1\r\nContent-Length: 0\r\n\r\n";
    for _ in 0..3 {
        assert_eq!(status(&exchange(&address, refused).await), "400");
    }
    let holder = b"PUT /a HTTP/1.1\r\nHost: h\r\nFencing-Token: 1\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(status(&exchange(&address, holder).await), "200");
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&proxy.0),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    let ended = eventually("it stops when it is told to", async || {
        proxy.0.try_wait().unwrap().ok_or_else(|| "it runs".to_owned())
    })
    .await;
    assert_eq!(ended.code(), Some(0));
}
