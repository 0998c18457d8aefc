//! Heads of requests and answers, as the other side shall see them.
//!
//! What belongs to one connection only (RFC 9110, 7.6.1) ends here. The upstream learns for whom we
//! ask from `X-Forwarded-*` and `Via`. `Host` stays as the client wrote it, unless asked otherwise.

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
const OURSELVES: HeaderValue = HeaderValue::from_static("1.1 tenure-fence");

/// Whether a request wants to speak something else from now on. Going on in HTTP/1.1 is the right
/// answer to an offer of HTTP/2; to anything else the client must be told.
pub(super) fn wants_upgrade(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|wanted| !wanted.as_bytes().eq_ignore_ascii_case(b"h2c"))
}

/// Whether a body comes as it is, or in chunks. Another coding would be lost with the header that names
/// it, which belongs to one connection.
pub(super) fn is_plainly_coded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        _ => false,
    }
}

/// Whether a request says in one way for which host it is (RFC 9112, 3.2), and in a form that is for
/// servers.
pub(super) fn is_plainly_addressed(parts: &Parts) -> bool {
    let hosts = parts.headers.get_all(HOST).iter().count();
    let named = match parts.uri.authority() {
        Some(authority) => parts.uri.scheme().is_some() && !authority.as_str().contains('@'),
        None => true,
    };
    hosts <= 1 && named
}

/// Has a body go on in chunks. Said plainly, because nobody expects a read to have one.
pub(super) fn in_chunks(parts: &mut Parts) {
    if !parts.headers.contains_key(CONTENT_LENGTH) {
        parts.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// Makes a client's request ours. `None` if its target cannot be.
pub(super) fn toward_upstream(
    parts: &mut Parts,
    upstream: &Upstream,
    client: &HeaderValue,
    rewrite_host: bool,
) -> Option<()> {
    let headers = &mut parts.headers;
    end_hop(headers);
    // The client's body is asked for, and its 100 answered, when the upstream is there to take it.
    headers.remove(EXPECT);
    // Of a target with a host in it, that host counts (RFC 9112, 3.2.2).
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
    headers.entry(FORWARDED_PROTO).or_insert(HTTP);
    // Lists may be given as several lines (RFC 9110, 5.3).
    headers.append(FORWARDED_FOR, client.clone());
    headers.append(VIA, OURSELVES);
    if !upstream.takes_as_is(&parts.uri) {
        parts.uri = upstream.target(&parts.uri)?;
    }
    parts.version = Version::HTTP_11;
    Some(())
}

/// Makes the upstream's answer ours.
pub(super) fn toward_client(answer: &mut http::response::Parts) {
    // An answer with both lengths is framed by its chunks (RFC 9112, 6.3); the other one is a lie.
    if answer.headers.contains_key(TRANSFER_ENCODING) {
        answer.headers.remove(CONTENT_LENGTH);
    }
    one_length(&mut answer.headers);
    end_hop(&mut answer.headers);
    answer.version = Version::HTTP_11;
}

/// A length that is said several times, and is the same each time, is said once.
fn one_length(headers: &mut HeaderMap) {
    let said = headers.get_all(CONTENT_LENGTH).iter().count();
    let Some(first) = headers.get(CONTENT_LENGTH) else { return };
    let mut parts = first.as_bytes().split(|byte| *byte == b',');
    let length = parts.next().unwrap_or_default().trim_ascii();
    if (said > 1 || parts.next().is_some())
        && let Ok(length) = HeaderValue::from_bytes(length)
    {
        headers.insert(CONTENT_LENGTH, length);
    }
}

fn host_in(uri: &Uri) -> Option<HeaderValue> {
    uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
}

fn end_hop(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        for name in listed(headers) {
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

/// The headers that `Connection` names as belonging to it. How long the body is, is no such thing,
/// whatever it says.
fn listed(headers: &HeaderMap) -> Vec<HeaderName> {
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

    fn sent(request: http::request::Builder, upstream: &str, rewrite_host: bool) -> Parts {
        let mut parts = request.body(()).unwrap().into_parts().0;
        let upstream = upstream.parse().unwrap();
        let client = HeaderValue::from_static("10.0.0.9");
        toward_upstream(&mut parts, &upstream, &client, rewrite_host).unwrap();
        parts
    }

    #[test]
    fn what_belongs_to_a_connection_ends_with_it() {
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
    fn the_upstream_learns_for_whom_we_ask() {
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
    fn a_host_in_the_target_counts() {
        let parts = sent(Request::get("http://real/a").header("Host", "lie"), "http://up:1", false);
        assert_eq!(parts.uri, "/a");
        assert_eq!(parts.headers["host"], "real");
    }

    #[test]
    fn only_http2_may_be_offered() {
        let offers = |what: &str| {
            wants_upgrade(Request::get("/").header("Upgrade", what).body(()).unwrap().headers())
        };
        assert!(offers("websocket") && !offers("h2c"));
        assert!(!wants_upgrade(&HeaderMap::new()));
    }
}
