//! `tenure fence` and heads of requests: what the upstream gets to see, and garbage.

use std::time::Duration;

use tenure_e2e::{Fence, Upstream, read_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

async fn fence(upstream: &str, flags: &[&str]) -> Fence {
    let ours = ["--upstream", upstream, "--in-memory", "--no-cluster"];
    Fence::start(&[&ours, flags].concat()).await
}

/// Sends these bytes and reads to the end of the connection.
async fn exchange(fence: &Fence, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(&fence.address).await.unwrap();
    // A proxy that has seen enough may close before everything is sent.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it answers or closes");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status of each answer in what was read.
fn statuses(answers: &str) -> Vec<&str> {
    let lines = answers.split("HTTP/1.");
    lines.skip(1).filter_map(|answer| answer.split(' ').nth(1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_tells_the_upstream_whom_it_asks_for_and_nothing_of_the_connection() {
    let upstream = Upstream::start().await;
    let proxy = fence(&upstream.url, &[]).await;
    let headers = [
        ("Fencing-Token", "7"),
        ("Connection", "close, X-Private"),
        ("X-Private", "1"),
        ("Keep-Alive", "timeout=9"),
        ("X-Forwarded-For", "10.1.1.1"),
        ("Accept", "text/plain"),
    ];
    let head = proxy.send("GET", "/head?a=b%20c", &headers, "").await.body;
    let mut lines: Vec<_> = head.lines().collect();
    lines[1..].sort_unstable();
    let expected = [
        "GET /head?a=b%20c",
        "accept: text/plain",
        "fencing-token: 7",
        "host: shop",
        "via: 1.1 tenure-fence",
        "x-forwarded-for: 10.1.1.1",
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-host: shop",
        "x-forwarded-proto: http",
    ];
    assert_eq!(lines, expected);

    // A host in the target counts; a request without one gets the upstream's.
    let asked = b"GET http://real/head HTTP/1.1\r\nHost: lie\r\nConnection: close\r\n\r\n";
    assert!(exchange(&proxy, asked).await.contains("host: real\n"));
    let oldest = exchange(&proxy, b"GET /head HTTP/1.0\r\n\r\n").await;
    let authority = upstream.url.trim_start_matches("http://");
    assert!(oldest.contains(&format!("host: {authority}\n")), "{oldest}");
    assert!(
        exchange(&proxy, b"OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            .await
            .contains(" 200 ")
    );

    let rewriting = fence(&upstream.url, &["--rewrite-host"]).await;
    let head = rewriting.get("/head").await.body;
    assert!(head.contains(&format!("host: {authority}\n")) && head.contains("-host: shop\n"));
    let based = fence(&format!("{}/bytes/", upstream.url), &[]).await;
    assert_eq!(based.get("/5").await.body, "xxxxx");
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_sends_reads_with_and_without_a_token_alike() {
    let upstream = Upstream::start().await;
    let proxy = fence(&upstream.url, &["--rewrite-host"]).await;
    let sent = [("X-Forwarded-For", "10.1.1.1"), ("X-Forwarded-Proto", "https"), ("Accept", "a/b")];
    let with_token = [&sent[..], &[("Fencing-Token", "1")]].concat();
    let seen = async |headers| {
        let head = proxy.send("GET", "/head?x=%20", headers, "").await.body;
        let mut lines: Vec<_> = head.lines().map(str::to_owned).collect();
        lines.retain(|line| !line.starts_with("fencing-token"));
        lines.sort_unstable();
        lines
    };
    assert_eq!(seen(&sent).await, seen(&with_token).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_keeps_the_order_of_one_connection() {
    let upstream = Upstream::start().await;
    let proxy = fence(&upstream.url, &[]).await;
    let put = "PUT /value HTTP/1.1\r\nHost: h\r\nFencing-Token: 4\r\nContent-Length: 3\r\n\r\nnew";
    let read = |method: &str, path: &str, end: &str| {
        format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{end}\r\n")
    };
    let requests = [
        read("GET", "/bytes/9", ""),
        read("HEAD", "/value", ""),
        read("GET", "/value", ""),
        put.to_owned(),
        read("GET", "/value", "Connection: close\r\n"),
    ];
    for pieces in [1, 7, 4096] {
        let mut stream = TcpStream::connect(&proxy.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        for piece in requests.concat().as_bytes().chunks(pieces) {
            stream.write_all(piece).await.unwrap();
        }
        let mut answers = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answers)).await.unwrap().unwrap();
        assert_eq!(statuses(&answers), ["200"; 5], "{answers}");
        assert!(answers.contains("xxxxxxxxx") && answers.ends_with("\r\n\r\nnew"), "{answers}");
    }
}

/// An upstream that answers everything with these bytes, and closes.
async fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let _ = stream.write_all(bytes).await;
            });
        }
    });
    url
}

/// The status and the body of an answer; no body if it is not whole.
fn understood(answer: &str, reset: bool) -> (String, Option<String>) {
    let status = statuses(answer).first().copied().unwrap_or_default().to_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let head = head.to_ascii_lowercase();
    assert!(head.matches("content-length").count() <= 1, "{answer}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    if status == "204" || status == "304" {
        return (status, Some(body.to_owned()));
    }
    if let Some(length) = length {
        let length: usize = length.trim().parse().unwrap();
        return (status, (body.len() == length).then(|| body.to_owned()));
    }
    if !head.contains("transfer-encoding: chunked") {
        return (status, (!reset).then(|| body.to_owned()));
    }
    let (mut whole, mut rest) = (String::new(), body);
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = size.split([';', ' ', '\t']).next().unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (status, after.ends_with("\r\n").then_some(whole));
        }
        let Some((data, after)) = after.split_at_checked(size) else { break };
        whole.push_str(data);
        let Some(after) = after.strip_prefix("\r\n") else { break };
        rest = after;
    }
    (status, None)
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_ends_an_answer_where_its_framing_says_or_shows_that_it_was_cut() {
    let ok = |fields: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}");
    let chunks = "Transfer-Encoding: chunked\r\n";
    let many = |count| (0..count).map(|n| format!("X-{n}: 1\r\n")).collect::<String>();
    let with_length = |fields: &str| ok(&format!("{fields}Content-Length: 2\r\n"), "ok");
    let large = |bytes: usize| with_length(&format!("X: {}\r\n", "v".repeat(bytes)));
    let whole = Some("ok");
    let early = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n";
    let table = [
        (with_length(""), "200", whole),
        (with_length("Content-Length: 2\r\n"), "200", whole),
        (ok("Content-Length: 2, 2\r\n", "ok"), "200", whole),
        (with_length("Connection: content-length\r\n"), "200", whole),
        (format!("{early}{}", with_length("")), "200", whole),
        (early.to_owned(), "502", None),
        (ok("Content-Length: 2, 3\r\n", "ok"), "502", None),
        (ok("Content-Length: 1\r\nContent-Length: 2\r\n", "ok"), "502", None),
        (ok("Content-Length: +2\r\n", "ok"), "502", None),
        (ok("Content-Length:\r\n", "ok"), "502", None),
        (ok("Content-Length: 3\r\n", "ok"), "200", None),
        (ok(chunks, "2\r\nok\r\n0\r\n\r\n"), "200", whole),
        (ok(chunks, "2  \r\nok\r\n0\r\n\r\n"), "200", whole),
        (ok(chunks, "2\t;a=b\r\nok\r\n0\r\n\r\n"), "200", whole),
        (ok(chunks, "2\r\nok\r\n0\r\nTrailer: t\r\n\r\n"), "200", whole),
        (ok("Transfer-Encoding: Chunked\r\n", "2\r\nok\r\n0\r\n\r\n"), "200", whole),
        (ok(&format!("Content-Length: 9\r\n{chunks}"), "2\r\nok\r\n0\r\n\r\n"), "200", whole),
        (ok(chunks, "2 2\r\nok\r\n0\r\n\r\n"), "200", None),
        (ok(chunks, "-2\r\nok\r\n0\r\n\r\n"), "200", None),
        (ok(chunks, "fffffffffffffffff\r\nok"), "200", None),
        (ok(chunks, "2\r\nok!\r\n0\r\n\r\n"), "200", None),
        (ok(chunks, "2\r\nok\r\n"), "200", None),
        (ok(chunks, "9\r\nok"), "200", None),
        (ok("Transfer-Encoding: gzip, chunked\r\n", "2\r\nok\r\n0\r\n\r\n"), "502", None),
        (ok("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", ""), "502", None),
        (format!("HTTP/1.0 200 OK\r\n{chunks}\r\n0\r\n\r\n"), "502", None),
        (ok("", "ok"), "200", whole),
        ("HTTP/1.0 200 OK\r\n\r\nok".to_owned(), "200", whole),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(), "200", whole),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), "204", Some("")),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n".to_owned(), "304", Some("")),
        ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".to_owned(), "502", None),
        ("HTTP/1.1 003 Early\r\n\r\n".to_owned(), "502", None),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(), "502", None),
        (String::new(), "502", None),
        (with_length(&many(90)), "200", whole),
        (with_length(&many(110)), "502", None),
        (large(60_000), "200", whole),
        (large(80_000), "502", None),
    ];
    for (answer, status, body) in table {
        let proxy = fence(&answering(answer.clone().leak().as_bytes()).await, &[]).await;
        let clients = ["HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n", "HTTP/1.0\r\n"];
        for client in clients {
            let mut stream = proxy.raw(&format!("GET / {client}Host: h\r\n\r\n")).await;
            stream.shutdown().await.unwrap();
            let mut read = Vec::new();
            let end = timeout(PATIENCE, stream.read_to_end(&mut read)).await.expect("an end");
            let (found, whole) = understood(&String::from_utf8_lossy(&read), end.is_err());
            let shown = &answer[..answer.len().min(200)];
            // What breaks off at once may do so before its head is sent.
            if found.is_empty() && status == "200" && body.is_none() {
                continue;
            }
            assert_eq!(found, status, "{client:?} {shown}");
            if status != "502" {
                assert_eq!(whole.as_deref(), body, "{client:?} {shown}");
            }
        }
        let cut = if status == "200" && body.is_none() { clients.len() } else { 0 };
        let counted = proxy.metric("tenure_fence_failed_total{reason=\"cut\"}").await;
        assert_eq!(counted, cut as f64, "{}", &answer[..answer.len().min(200)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_does_not_make_a_cut_answer_without_a_length_look_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let proxy = fence(&url, &["--upstream-timeout", "300ms"]).await;
    for (stalls, version) in [(true, "1.1"), (false, "1.1"), (true, "1.0"), (false, "1.0")] {
        let get = format!("GET / HTTP/{version}\r\nHost: h\r\n\r\n");
        let mut client = proxy.raw(&get).await;
        let (mut upstream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        read_until(&mut upstream, "\r\n\r\n").await;
        upstream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").await.unwrap();
        let mut read = read_until(&mut client, "half").await.into_bytes();
        if !stalls {
            upstream.set_zero_linger().unwrap();
            drop(upstream);
        }
        let end = timeout(PATIENCE, client.read_to_end(&mut read)).await.expect("it has an end");
        // HTTP/1.1 has chunks, of which the last is missing. In HTTP/1.0 the end of the connection is the
        // end of the body, unless it is a reset.
        let chunked = version == "1.1" && !read.ends_with(b"0\r\n\r\n");
        assert!(end.is_err() || chunked, "stalls: {stalls}, HTTP/{version}");
    }
    assert_eq!(proxy.metric("tenure_fence_failed_total{reason=\"cut\"}").await, 4.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_passes_large_heads_and_refuses_larger_ones() {
    let upstream = Upstream::start().await;
    let proxy = fence(&upstream.url, &[]).await;
    let large = "v".repeat(60_000);
    let answer = proxy.send("GET", "/head", &[("X-Large", &large)], "").await;
    assert!(answer.status == 200 && answer.body.contains(&large));
    let head = |fields: &str| format!("GET /head HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let many: String = (0..300).map(|number| format!("X-{number}: 1\r\n")).collect();
    assert_eq!(statuses(&exchange(&proxy, head(&many).as_bytes()).await), ["431"]);
    let huge = format!("X-Huge: {}\r\n", "v".repeat(2_000_000));
    let answer = exchange(&proxy, head(&huge).as_bytes()).await;
    assert!(answer.is_empty() || statuses(&answer) == ["431"], "{answer}");
    assert_eq!(proxy.get("/head").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_passes_no_garbage_on() {
    let upstream = Upstream::start().await;
    let proxy = fence(&upstream.url, &[]).await;
    let garbage: [&[u8]; 12] = [
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"PUT /value\r\n\r\n",
        b"PUT /value HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PUT /va lue HTTP/1.1\r\nHost: h\r\n\r\n",
        b"PUT /value HTTP/1.1\r\nFencing Token: 1\r\n\r\n",
        b"PUT /value HTTP/1.1\r\nFencing-Token: 1\r\nContent-Length: x\r\n\r\n",
        b"PUT /value HTTP/1.1\r\nFencing-Token: 1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"PUT /value HTTP/1.1\r\nFencing-Token: 1\r\nTransfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n",
        b"PUT /value HTTP/1.1\r\nFencing-Token: \xff\xfe\r\nConnection: close\r\n\r\n",
    ];
    for bytes in garbage {
        let answer = exchange(&proxy, bytes).await;
        let shown = String::from_utf8_lossy(bytes);
        assert!(answer.is_empty() || statuses(&answer) == ["400"], "{shown:?}: {answer:?}");
    }
    assert_eq!(
        exchange(&proxy, b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            .await
            .matches(" 501 ")
            .count(),
        1
    );
    assert_eq!(upstream.written(), []);
    assert_eq!(upstream.begun("/value"), 0);
    assert_eq!(proxy.get("/value").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_lets_no_request_hide_inside_another() {
    let upstream = Upstream::start().await;
    let proxy = fence(&upstream.url, &[]).await;
    // By its chunks the first request ends where the second begins; by its length the second is part of
    // its body. A server that reads it the second way must not be behind us.
    let hidden =
        "PUT /hidden HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    let first = format!(
        "PUT /count HTTP/1.1\r\nHost: h\r\nFencing-Token: 1\r\nContent-Length: {}\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        5 + hidden.len()
    );
    let answers = exchange(&proxy, first.as_bytes()).await;
    let seen = statuses(&answers);
    assert!([&["200"][..], &["200", "428"], &["400"]].contains(&&seen[..]), "{answers}");
    assert_eq!(upstream.begun("/hidden"), 0);
    // Two in a row, each judged by itself.
    let put = |token, end| {
        format!(
            "PUT /value HTTP/1.1\r\nHost: h\r\nFencing-Token: {token}\r\nContent-Length: 1\r\n{end}\r\nx"
        )
    };
    let both = put(5, "") + &put(4, "Connection: close\r\n");
    assert_eq!(statuses(&exchange(&proxy, both.as_bytes()).await), ["200", "409"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_asks_for_a_body_only_when_it_is_wanted() {
    let upstream = Upstream::start().await;
    let proxy = fence(&upstream.url, &[]).await;
    let head = |token: &str| {
        format!(
            "PUT /count HTTP/1.1\r\nHost: h\r\n{token}Content-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        )
    };
    for (token, first) in [("", "428"), ("Fencing-Token: 3\r\n", "100")] {
        let mut stream = TcpStream::connect(&proxy.address).await.unwrap();
        stream.write_all(head(token).as_bytes()).await.unwrap();
        let mut answer = vec![0; 12];
        timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {first}"));
        if first == "100" {
            stream.write_all(b"body").await.unwrap();
            let mut rest = Vec::new();
            while !rest.ends_with(b"\r\n\r\n4") {
                assert!(timeout(PATIENCE, stream.read_buf(&mut rest)).await.unwrap().unwrap() > 0);
            }
        }
    }
}

/// An upstream that answers the first request on each connection, and closes on the second.
async fn forgetful() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\r\n\r\nx") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                let _ = stream.write_all(answer).await;
                let _ = stream.read_buf(&mut head).await;
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_asks_a_read_again_when_an_old_connection_ends_and_no_write() {
    let proxy = fence(&forgetful().await, &["--threads", "1"]).await;
    for _ in 0..3 {
        assert_eq!(proxy.get("/").await.status, 200, "on a new connection, in the end");
    }
    let read = [("Fencing-Token", "1")];
    for _ in 0..3 {
        assert_eq!(proxy.send("GET", "/", &read, "").await.status, 200, "with a token, too");
    }
    let write = proxy.put("/", 1, "x").await;
    assert_eq!(write.status, 502, "it may have been done");
    assert!(write.json()["next"].as_str().unwrap().contains("read back"));
    assert_eq!(proxy.put("/", 1, "x").await.status, 200);

    // One that says that it closes is taken at its word.
    let upstream = Upstream::start().await;
    let proxy = fence(&upstream.url, &["--threads", "1"]).await;
    for token in 1..4 {
        assert_eq!(proxy.put("/close", token, "x").await.body, "closing");
        assert_eq!(proxy.get("/close").await.body, "closing");
    }
    assert_eq!(proxy.metric("tenure_fence_unfinished_total").await, 0.0);
}
