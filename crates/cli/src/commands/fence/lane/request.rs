//! The head of a plain read: recognized, and rewritten for the upstream.
//!
//! What is not recognized goes elsewhere, so being strict here costs nothing but speed.

use http::{HeaderName, HeaderValue};
use httparse::{EMPTY_HEADER, Request, Status};

use super::super::upstream::Upstream;

/// How many headers a plain read may have.
const HEADERS_MAX: usize = 64;

/// Headers that make a request more than a plain read, or that end here.
const SPECIAL: [&str; 13] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// What is known before a request comes.
pub(super) struct Terms<'a> {
    pub(super) upstream: &'a Upstream,
    pub(super) rewrite_host: bool,
    /// The header that carries tokens.
    pub(super) token: &'a HeaderName,
    /// Where the client is.
    pub(super) client: &'a HeaderValue,
}

/// What some bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// A plain read, whose head is so long. Its answer may have no body, if only the head is asked for.
    Plain { bytes: usize, head_only: bool },
    /// Anything else, or not enough to tell.
    Other,
}

impl Terms<'_> {
    /// Looks at what a client sends. If it is a plain read, adds what the upstream shall get.
    pub(super) fn read(&self, sent: &[u8], to_send: &mut Vec<u8>) -> Reading {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut request = Request::new(&mut headers);
        let Ok(Status::Complete(bytes)) = request.parse(sent) else { return Reading::Other };
        let (Some(method), Some(path), Some(1)) = (request.method, request.path, request.version)
        else {
            return Reading::Other;
        };
        let head_only = method == "HEAD";
        if !(head_only || method == "GET") || !path.starts_with('/') || path.contains('#') {
            return Reading::Other;
        }
        let headers = &*request.headers;
        let Some(host) = self.host(headers) else { return Reading::Other };
        let mut add =
            |parts: &[&[u8]]| parts.iter().for_each(|part| to_send.extend_from_slice(part));
        add(&[method.as_bytes(), b" ", self.upstream.base(), path.as_bytes(), b" HTTP/1.1\r\n"]);
        let has = |name: &str| headers.iter().any(|header| header.name.eq_ignore_ascii_case(name));
        for header in headers {
            if self.rewrite_host && header.name.eq_ignore_ascii_case("host") {
                add(&[b"host: ", self.upstream.authority.as_bytes(), b"\r\n"]);
            } else {
                add(&[header.name.as_bytes(), b": ", header.value, b"\r\n"]);
            }
        }
        if !has("x-forwarded-host") {
            add(&[b"x-forwarded-host: ", host, b"\r\n"]);
        }
        if !has("x-forwarded-proto") {
            add(&[b"x-forwarded-proto: http\r\n"]);
        }
        add(&[b"x-forwarded-for: ", self.client.as_bytes(), b"\r\nvia: 1.1 tenure-fence\r\n\r\n"]);
        Reading::Plain { bytes, head_only }
    }

    /// The one host of a request with nothing special about it.
    fn host<'a>(&self, headers: &[httparse::Header<'a>]) -> Option<&'a [u8]> {
        let mut host = None;
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("host") {
                if host.replace(header.value).is_some() {
                    return None;
                }
            } else if is(self.token.as_str()) || SPECIAL.iter().any(|name| is(name)) {
                return None;
            }
        }
        host.filter(|host| !host.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sent: &str, upstream: &str, rewrite_host: bool) -> (Reading, String) {
        let terms = Terms {
            upstream: &upstream.parse().unwrap(),
            rewrite_host,
            token: &HeaderName::from_static("fencing-token"),
            client: &HeaderValue::from_static("10.0.0.9"),
        };
        let mut to_send = Vec::new();
        let reading = terms.read(sent.as_bytes(), &mut to_send);
        (reading, String::from_utf8(to_send).unwrap())
    }

    #[test]
    fn a_plain_read_is_rewritten() {
        let sent = "GET /a?b HTTP/1.1\r\nHost: shop\r\nAccept: */*\r\n\r\n";
        let (reading, to_send) = read(&format!("{sent}GET /next"), "http://up:1/base/", false);
        assert_eq!(reading, Reading::Plain { bytes: sent.len(), head_only: false });
        let ours = "x-forwarded-host: shop\r\nx-forwarded-proto: http\r\n\
                    x-forwarded-for: 10.0.0.9\r\nvia: 1.1 tenure-fence\r\n\r\n";
        let expected = format!("GET /base/a?b HTTP/1.1\r\nHost: shop\r\nAccept: */*\r\n{ours}");
        assert_eq!(to_send, expected);
        let (reading, to_send) = read("HEAD / HTTP/1.1\r\nHost: shop\r\n\r\n", "http://up:1", true);
        assert_eq!(reading, Reading::Plain { bytes: 31, head_only: true });
        assert!(to_send.starts_with("HEAD / HTTP/1.1\r\nhost: up:1\r\nx-forwarded-host: shop\r\n"));
    }

    #[test]
    fn everything_else_goes_elsewhere() {
        let plain = |line: &str, fields: &str| format!("{line}\r\nHost: h\r\n{fields}\r\n");
        let mut others = vec![
            String::new(),
            "GET / HTTP/1.1\r\nHost: h\r\n".to_owned(),
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost:\r\n\r\n".to_owned(),
            plain("GET / HTTP/1.0", ""),
            plain("POST / HTTP/1.1", ""),
            plain("OPTIONS * HTTP/1.1", ""),
            plain("GET http://h/ HTTP/1.1", ""),
            plain("GET /a b HTTP/1.1", ""),
            plain("GET / HTTP/1.1", "Host: other\r\n"),
            plain("GET / HTTP/1.1", "Fencing-Token: 7\r\n"),
            plain("GET / HTTP/1.1", "fencing-TOKEN: x\r\n"),
            plain("GET / HTTP/1.1", "Folded: a\r\n b\r\n"),
            plain("GET / HTTP/1.1", "Space : a\r\n"),
            plain("GET / HTTP/1.1", &"X: 1\r\n".repeat(HEADERS_MAX)),
        ];
        for name in SPECIAL {
            others.push(plain("GET / HTTP/1.1", &format!("{}: 0\r\n", name.to_uppercase())));
        }
        for other in others {
            assert_eq!(
                read(&other, "http://up:1", false),
                (Reading::Other, String::new()),
                "{other}"
            );
        }
    }
}
