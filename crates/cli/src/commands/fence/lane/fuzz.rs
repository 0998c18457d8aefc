//! Heads and bodies as anybody may send them. What goes on must be read by the next in the one way in
//! which it was read here, or somebody could hide one request inside another.

use http::{HeaderName, HeaderValue};
use httparse::{EMPTY_HEADER, Status};
use proptest::prelude::*;
use tenure_damage::{damaged, frugally, hold};

use super::{
    body::{Body, Chunks},
    request::{Reading, Terms},
    response,
};

const REQUEST: &[u8] =
    b"GET /a/b?c=d HTTP/1.1\r\nHost: shop\r\nAccept: */*\r\nX-Forwarded-For: 1.2.3.4\r\n\
    User-Agent: a b\r\n\r\nGET /next HTTP/1.1\r\nHost: shop\r\n\r\n";

const RESPONSES: [&[u8]; 4] = [
    b"HTTP/1.1 200 Very Good\r\nA: 1\r\nKeep-Alive: timeout=5\r\nB:  2 \r\nConnection: keep-alive, \
      x-hop\r\nX-Hop: 3\r\nContent-Length: 5\r\nEmpty:\r\nC: 4\r\n\r\nhello",
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\
      Content-Length: 3\r\n\r\n5;a=b\r\nhello\r\n0\r\nTrailer: t\r\n\r\n",
    b"HTTP/1.0 404 \r\nContent-Length: 3, 3\r\ncontent-length: 3\r\nConnection: close\r\n\r\nabc",
    b"HTTP/1.1 304 Not\r\nETag: \"x\"\r\n\r\n",
];

#[test]
fn requests() {
    let upstream = "http://up:1/base".parse().unwrap();
    let token = HeaderName::from_static("fencing-token");
    let client = HeaderValue::from_static("10.0.0.9");
    hold(1500, (damaged(Just(REQUEST.to_vec())), any::<bool>()), |(sent, rewrite_host)| {
        let terms = Terms { upstream: &upstream, rewrite_host, token: &token, client: &client };
        let mut to_send = Vec::new();
        let reading = frugally(sent.len(), || terms.read(&sent, &mut to_send));
        let Reading::Plain { bytes, head_only } = reading else { return Ok(()) };
        prop_assert!(bytes <= sent.len());
        let mut headers = [EMPTY_HEADER; 100];
        let mut seen = httparse::Request::new(&mut headers);
        let parsed = seen.parse(&to_send);
        prop_assert_eq!(parsed, Ok(Status::Complete(to_send.len())), "{}", to_send.escape_ascii());
        prop_assert_eq!(seen.method, Some(if head_only { "HEAD" } else { "GET" }));
        prop_assert!(seen.path.is_some_and(|path| path.starts_with("/base/")));
        let frames = ["content-length", "transfer-encoding", "fencing-token"];
        let framed = |name: &str| frames.iter().any(|frame| name.eq_ignore_ascii_case(frame));
        prop_assert!(!seen.headers.iter().any(|header| framed(header.name)));
        Ok(())
    });
}

#[test]
fn answers() {
    let sound = prop::sample::select(&RESPONSES[..]).prop_map(<[u8]>::to_vec);
    hold(1500, (damaged(sound), any::<bool>()), |(sent, head_only)| {
        let mut inbox = sent.to_vec();
        let read = frugally(sent.len(), || response::read(&mut inbox, head_only));
        let Ok(Some(answer)) = read else { return Ok(()) };
        prop_assert!(answer.bytes <= inbox.len());
        let mut written = Vec::new();
        answer.head.write(&inbox, &mut written);
        let end = written.len();
        let again = response::read(&mut written, head_only);
        let Ok(Some(again)) = again else {
            return Err(TestCaseError::fail(format!("{:?}: {}", again, written.escape_ascii())));
        };
        // The client finds the same end of the same body.
        prop_assert_eq!(again.bytes, end);
        prop_assert_eq!(again.body, answer.body);
        let mut body = answer.body;
        let rest = &inbox[answer.bytes..];
        if let Ok(taken) = body.take(rest) {
            prop_assert!(taken <= rest.len());
        }
        Ok(())
    });
}

/// Where a body ends does not depend on how it comes.
#[test]
fn chunks() {
    let sound =
        b"5;a=b\r\nhello\r\nA \r\n0123456789\r\n0\r\nTrailer: t\r\n\r\nHTTP/1.1 200 OK".to_vec();
    hold(1500, (damaged(Just(sound)), 1..20usize), |(bytes, piece)| {
        let mut whole = Body::Chunks(Chunks::START);
        let at_once = whole.take(&bytes);
        let mut pieces = Body::Chunks(Chunks::START);
        let mut taken = Ok(0);
        for piece in bytes.chunks(piece) {
            match pieces.take(piece) {
                Ok(more) => taken = taken.map(|taken| taken + more),
                garbled => taken = garbled,
            }
            if taken.is_err() || pieces.is_complete() {
                break;
            }
        }
        prop_assert_eq!(taken, at_once);
        Ok(())
    });
}
