//! What the JSON gateway makes of bodies that are not what they should be: a clear refusal, nothing
//! lost, and all other clients are served on.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use tenure_e2e::{Address, Cluster, Gateway, Load};

const REQUEST_BYTES_MAX: usize = 1_572_864;

fn nested(depth: usize) -> String {
    let open = r#"{"success":[{"request_txn":"#.repeat(depth);
    format!("{open}{{}}{}", "}]}".repeat(depth))
}

fn valued(bytes: usize) -> String {
    // Three zero bytes are AAAA.
    format!(r#"{{"key":"Zm9v","value":"{}"}}"#, "AAAA".repeat(bytes / 3))
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_refuses_with_a_clear_message() {
    let cluster = Cluster::start(1).await;
    let gateway = Gateway::at(cluster.members[0].client);
    let too_large = "etcdserver: request is too large";
    let rows: Vec<(&str, String, &str)> = vec![
        ("/v3/kv/put", "nonsense".into(), "not JSON: expected ident at line 1 column 2"),
        ("/v3/kv/put", "\u{0}\u{1}".into(), "not JSON: expected value at line 1 column 1"),
        ("/v3/kv/put", "[]".into(), "expected an object"),
        ("/v3/kv/put", "\"key\"".into(), "expected an object"),
        ("/v3/kv/put", r#"{"key":"Zm9v""#.into(), "EOF while parsing an object"),
        ("/v3/kv/put", r#"{"key":"Zm9v"}{"key":"YQ=="}"#.into(), "trailing characters"),
        ("/v3/kv/put", r#"{"key":7}"#.into(), "key: expected a string in base64"),
        ("/v3/kv/put", r#"{"key":"%"}"#.into(), "key: expected a string in base64"),
        (
            "/v3/kv/put",
            r#"{"key":["Zm9v"]}"#.into(),
            "key: invalid type: sequence, expected a string in base64",
        ),
        ("/v3/kv/put", r#"{"key":"Zm9v","lease":"x"}"#.into(), "lease: expected a whole number"),
        ("/v3/kv/put", r#"{"key":"Zm9v","lease":1.5}"#.into(), "lease: expected a whole number"),
        ("/v3/kv/put", r#"{"key":"Zm9v","lease":1e40}"#.into(), "lease: expected a whole number"),
        (
            "/v3/kv/put",
            r#"{"key":"Zm9v","prev_kv":"true"}"#.into(),
            "prev_kv: expected true or false",
        ),
        (
            "/v3/kv/range",
            r#"{"key":"Zm9v","sort_order":"UP"}"#.into(),
            "sort_order: expected one of NONE, ASCEND, DESCEND",
        ),
        (
            "/v3/kv/range",
            r#"{"key":"Zm9v","sort_order":9}"#.into(),
            "etcdserver: invalid sort option",
        ),
        ("/v3/kv/txn", r#"{"success":{}}"#.into(), "expected an array"),
        (
            "/v3/kv/txn",
            r#"{"success":[{"request_put":{},"request_range":{}}]}"#.into(),
            "both request_put and request_range are given",
        ),
        ("/v3/kv/txn", nested(35), "etcdserver: too many operations in txn request"),
        ("/v3/kv/txn", nested(60), "recursion limit exceeded"),
        ("/v3/kv/txn", nested(60_000), "recursion limit exceeded"),
        ("/v3/kv/txn", "[".repeat(1_000_000), "expected an object"),
        ("/v3/kv/txn", r#"{"later":"#.repeat(100_000), "EOF while parsing a value"),
        ("/v3/kv/put", valued(REQUEST_BYTES_MAX), too_large),
        ("/v3/kv/put", valued(4 * REQUEST_BYTES_MAX), too_large),
        ("/v3/kv/put", " ".repeat(4 * REQUEST_BYTES_MAX), too_large),
        ("/v3/lease/keepalive", "nonsense".into(), "expected a JSON object"),
        ("/v3/lease/keepalive", r#"{"ID":"x"}"#.into(), "ID: expected a whole number"),
        ("/v3/watch", r#"{"create_request":{"key":"#.into(), "the JSON object has no end"),
        ("/v3/watch", format!(r#"{{"create_request":{}"#, "[".repeat(10_000_000)), too_large),
        ("/v3/cluster/member/list", r#"{"linearizable":"#.into(), "EOF while parsing a value"),
        ("/v3/election/observe", "nonsense".into(), "not JSON"),
    ];
    let mut wrong = Vec::new();
    for (path, body, text) in rows {
        let start: String = body.chars().take(80).collect();
        let said = gateway.post(path, body).await;
        let right = said.status == 400
            && said.json()["code"] == 3
            && said.json()["message"].as_str().unwrap().contains(text)
            && said.body.len() < 1000;
        if !right {
            wrong.push(format!("{path} {start}: {said:?}, not {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Nothing of all that was written, and what fits still is.
    let count = gateway.post("/v3/kv/range", r#"{"key":"AA==","range_end":"AA=="}"#).await.json();
    assert_eq!(count["count"], serde_json::Value::Null, "{count}");
    let put = gateway.post("/v3/kv/put", valued(REQUEST_BYTES_MAX - 1024)).await;
    assert_eq!(put.status, 200, "{put:?}");
}

/// A request that begins and never ends.
fn hang(at: Address, path: &str, framing: &str, start: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect((at.ip, at.port)).unwrap();
    write!(stream, "POST {path} HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n").unwrap();
    stream.write_all(start).unwrap();
    stream
}

/// Resident memory of a process, in bytes.
fn resident(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    4096 * status.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_serves_on_beside_slow_and_endless_bodies() {
    const HANGING: usize = 100;
    let cluster = Cluster::start(3).await;
    let member = &cluster.members[0];
    let load = Load::start("load", (0..3).map(|n| cluster.members[n].client()).collect());
    let slow: Vec<_> = (0..HANGING)
        .map(|n| {
            let path = ["/v3/kv/put", "/v3/watch", "/v3/lease/keepalive"][n % 3];
            hang(member.client, path, "content-length: 1000000", br#"{"key":"#)
        })
        .collect();
    let before = resident(member.pid());
    // A body without end is cut off at the limit, wherever it goes.
    for path in ["/v3/kv/put", "/v3/watch", "/v3/lease/keepalive"] {
        let mut endless = hang(member.client, path, "transfer-encoding: chunked", b"");
        endless.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut piece = b"10000\r\n".to_vec();
        piece.extend_from_slice(&[b'{'; 0x10000]);
        piece.extend_from_slice(b"\r\n");
        let sent = (0..2000).take_while(|_| endless.write_all(&piece).is_ok()).count();
        assert!(sent < 1900, "{path} took {sent} pieces of 64 KiB");
        let mut answer = Vec::new();
        let _ = endless.read_to_end(&mut answer);
    }
    let grown = resident(member.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "grew by {grown} bytes");
    let gateway = Gateway::at(member.client);
    let put = gateway.post("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#).await;
    assert_eq!(put.status, 200, "{put:?}");
    drop(slow);
    let record = load.stop().await;
    record.assert_no_failure();
    record.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
}
