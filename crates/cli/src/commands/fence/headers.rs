//! Heads of requests and answers, rewritten for the other side.
//!
//! Hop-by-hop headers (RFC 9110, 7.6.1) end at the proxy. `X-Forwarded-*` and `Via` tell the upstream for
//! whom the proxy asks. `Host` stays as the client wrote it, unless `--rewrite-host` is given.

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Uri, Version};

use super::upstream::Upstream;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HTTP: HeaderValue = HeaderValue::from_static("http");
const HTTPS: HeaderValue = HeaderValue::from_static("https");
const VIA_PROXY: HeaderValue = HeaderValue::from_static("1.1 tenure-fence");

/// Whether a request asks for another protocol. An offer of HTTP/2 may be ignored, and the request be
/// answered in HTTP/1.1; for any other protocol the client must be told.
pub(super) fn wants_upgrade(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|wanted| !wanted.as_bytes().eq_ignore_ascii_case(b"h2c"))
}

/// Whether a body has no transfer coding but chunked. Any other would be lost: the header that names it
/// is hop-by-hop.
pub(super) fn is_plainly_coded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        _ => false,
    }
}

/// Whether a request names its host once (RFC 9112, 3.2), and has a target in a form for servers.
pub(super) fn is_plainly_addressed(parts: &Parts) -> bool {
    let hosts = parts.headers.get_all(HOST).iter().count();
    let named = match parts.uri.authority() {
        Some(authority) => parts.uri.scheme().is_some() && !authority.as_str().contains('@'),
        None => true,
    };
    hosts <= 1 && named
}

/// Sends a body of unknown length in chunks. hyper does so by itself only for methods that usually have
/// a body.
pub(super) fn set_chunked(parts: &mut Parts) {
    if !parts.headers.contains_key(CONTENT_LENGTH) {
        parts.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// Where a request comes from, as the upstream is told.
#[derive(Debug)]
pub(super) struct Origin<'a> {
    /// The client's address.
    pub(super) client: &'a HeaderValue,
    /// It came by TLS.
    pub(super) secure: bool,
}

/// Rewrites a client's request for the upstream. `None` if its target cannot be passed on. What the gate has judged by
/// (`judged`) stays, whatever `Connection` says: the upstream must read the same resource and token.
pub(super) fn to_upstream(
    parts: &mut Parts,
    upstream: &Upstream,
    origin: &Origin<'_>,
    judged: &[&HeaderName],
    rewrite_host: bool,
) -> Option<()> {
    let headers = &mut parts.headers;
    remove_hop_by_hop(headers, judged);
    // hyper sends the client its 100 when the upstream is there to read the body.
    headers.remove(EXPECT);
    // A host in the target takes precedence (RFC 9112, 3.2.2).
    if let Some(host) = host_in(&parts.uri) {
        headers.insert(HOST, host);
    }
    if !headers.contains_key(FORWARDED_HOST)
        && let Some(host) = headers.get(HOST)
    {
        let host = host.clone();
        headers.insert(FORWARDED_HOST, host);
    }
    if rewrite_host || !headers.contains_key(HOST) {
        headers.insert(HOST, upstream.authority.clone());
    }
    headers.entry(FORWARDED_PROTO).or_insert(if origin.secure { HTTPS } else { HTTP });
    // Lists may be given as several lines (RFC 9110, 5.3).
    headers.append(FORWARDED_FOR, origin.client.clone());
    headers.append(VIA, VIA_PROXY);
    if !upstream.takes_unchanged(&parts.uri) {
        parts.uri = upstream.target(&parts.uri)?;
    }
    parts.version = Version::HTTP_11;
    Some(())
}

/// Rewrites the upstream's answer for the client.
pub(super) fn to_client(answer: &mut http::response::Parts) {
    // Of an answer with both, the chunks count and the length does not (RFC 9112, 6.3).
    if answer.headers.contains_key(TRANSFER_ENCODING) {
        answer.headers.remove(CONTENT_LENGTH);
    }
    merge_content_lengths(&mut answer.headers);
    remove_hop_by_hop(&mut answer.headers, &[]);
    answer.version = Version::HTTP_11;
}

/// Makes one length of several equal ones. hyper has refused an answer whose lengths differ.
fn merge_content_lengths(headers: &mut HeaderMap) {
    let lines = headers.get_all(CONTENT_LENGTH).iter().count();
    let Some(first) = headers.get(CONTENT_LENGTH) else { return };
    let mut parts = first.as_bytes().split(|byte| *byte == b',');
    let length = parts.next().unwrap_or_default().trim_ascii();
    if (lines > 1 || parts.next().is_some())
        && let Ok(length) = HeaderValue::from_bytes(length)
    {
        headers.insert(CONTENT_LENGTH, length);
    }
}

fn host_in(uri: &Uri) -> Option<HeaderValue> {
    uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
}

fn remove_hop_by_hop(headers: &mut HeaderMap, kept: &[&HeaderName]) {
    if headers.contains_key(CONNECTION) {
        for name in named_by_connection(headers).iter().filter(|name| !kept.contains(name)) {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    for name in [
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ] {
        headers.remove(name);
    }
}

/// The headers that `Connection` names as hop-by-hop. The length of the body and the host are not, whatever
/// it says.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(','));
    names
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .filter(|name| *name != CONTENT_LENGTH && *name != HOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    /// The header that names the resource.
    const SHARD: HeaderName = HeaderName::from_static("x-shard");

    /// Another upstream than the one that was judged would be written to.
    #[test]
    fn request_keeps_what_the_gate_has_judged_by() {
        let request = Request::put("/a").header("Connection", "close, X-Shard, X-Mine");
        let request = request.header("X-Shard", "7").header("X-Mine", "1");
        let headers = sent(request, "http://up:1", false).headers;
        assert_eq!(headers.get(&SHARD).unwrap(), "7");
        assert!(!headers.contains_key("x-mine") && !headers.contains_key("connection"));
    }

    fn sent(request: http::request::Builder, upstream: &str, rewrite_host: bool) -> Parts {
        let mut parts = request.body(()).unwrap().into_parts().0;
        let upstream = upstream.parse().unwrap();
        let client = HeaderValue::from_static("10.0.0.9");
        let origin = Origin { client: &client, secure: false };
        to_upstream(&mut parts, &upstream, &origin, &[&SHARD], rewrite_host).unwrap();
        parts
    }

    #[test]
    fn request_loses_its_hop_by_hop_headers() {
        let request = Request::get("/a")
            .header("Connection", "keep-alive, X-Mine, content-length")
            .header("Keep-Alive", "timeout=5")
            .header("X-Mine", "1")
            .header("TE", "trailers")
            .header("Transfer-Encoding", "chunked")
            .header("Expect", "100-continue")
            .header("Content-Length", "3")
            .header("X-Other", "2");
        let headers = sent(request, "http://up:1", false).headers;
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        let ours = ["host", "via", "x-forwarded-for", "x-forwarded-proto", "x-other"];
        assert_eq!(left, [&["content-length"][..], &ours].concat());
    }

    #[test]
    fn answer_loses_its_hop_by_hop_headers_and_repeated_lengths() {
        let answer = |fields: &[(&'static str, &'static str)]| {
            let mut response = http::Response::builder();
            for (name, value) in fields {
                response = response.header(*name, *value);
            }
            let mut parts = response.body(()).unwrap().into_parts().0;
            to_client(&mut parts);
            let mut left: Vec<_> = parts
                .headers
                .iter()
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect();
            left.sort_unstable();
            left
        };
        let connection = ("Connection", "keep-alive, x-hop, content-length");
        let fields = [connection, ("Keep-Alive", "timeout=5"), ("X-Hop", "3"), ("A", "1")];
        assert_eq!(
            answer(&[&fields[..], &[("Content-Length", "5")]].concat()),
            ["a: 1", "content-length: 5"]
        );
        for twice in [
            &[("Content-Length", "3, 3")][..],
            &[("Content-Length", "3"), ("A", "1"), ("content-length", "3")],
        ] {
            assert!(answer(twice).contains(&"content-length: 3".to_owned()));
            assert_eq!(answer(twice).len(), twice.len().div_ceil(2));
        }
        assert_eq!(answer(&[("Transfer-Encoding", "chunked"), ("Content-Length", "3")]), [""; 0]);
    }

    #[test]
    fn request_tells_the_upstream_about_its_client() {
        let request =
            || Request::get("/a").header("Host", "shop").header("X-Forwarded-For", "1.1.1.1");
        let headers = sent(request(), "http://up:1", false).headers;
        let all =
            |name| headers.get_all(name).iter().map(|v| v.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(all("x-forwarded-for"), ["1.1.1.1", "10.0.0.9"]);
        assert_eq!((all("host"), all("x-forwarded-host")), (vec!["shop"], vec!["shop"]));
        assert_eq!(all("x-forwarded-proto"), ["http"]);
        let headers = sent(request(), "http://up:1", true).headers;
        assert_eq!(
            (&headers["host"], &headers["x-forwarded-host"]),
            (&HeaderValue::from_static("up:1"), &HeaderValue::from_static("shop"))
        );
    }

    #[test]
    fn host_in_the_target_takes_precedence() {
        let parts = sent(Request::get("http://real/a").header("Host", "lie"), "http://up:1", false);
        assert_eq!(parts.uri, "/a");
        assert_eq!(parts.headers["host"], "real");
    }

    #[test]
    fn upgrade_is_noticed_unless_it_offers_http2() {
        let offers = |what: &str| {
            wants_upgrade(Request::get("/").header("Upgrade", what).body(()).unwrap().headers())
        };
        assert!(offers("websocket") && !offers("h2c"));
        assert!(!wants_upgrade(&HeaderMap::new()));
    }
}
