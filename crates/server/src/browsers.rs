//! Requests that a web page makes a browser send.
//!
//! Any page may have a browser send requests to any address, also to 127.0.0.1: with POST and `text/plain` without asking
//! first. And a page whose own name suddenly leads to 127.0.0.1 ("DNS rebinding") may read the answers too. Browsers say who
//! asks (`Origin`, `Sec-Fetch-Site`), and always name the host that they believe to talk to. So:
//!
//! - A request of another origin is refused, unless `--cors` names that origin.
//! - A request for a host of another name is refused where only this machine can connect, or where `--host-whitelist` names
//!   hosts. An address in figures cannot be rebound.
//! - gRPC is served over HTTP/2 only. No browser speaks that without TLS, and its clients may name any authority.
//!
//! Programs that say nothing of the kind, such as curl, are served as ever.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        CONTENT_TYPE, HOST, ORIGIN, VARY,
    },
    request::Parts,
};
use tower::Service;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const ANY: &str = "*";

/// What pages may ask, and by which names.
#[derive(Clone, Debug, Default)]
pub struct Browsers {
    /// Origins besides our own, or `*`.
    cors: Vec<String>,
    /// The names that are ours, in lower case, besides those of the loopback; none if any is.
    hosts: Option<BTreeSet<String>>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another page's.
    #[error("tenure: pages of other origins are not served; --cors names those that are")]
    Origin,
    /// Another host's.
    #[error("tenure: no host of this name is served here; --host-whitelist names those that are")]
    Host,
    /// gRPC over HTTP/1.
    #[error("tenure: gRPC is served over HTTP/2 only")]
    Grpc,
}

impl Refused {
    /// How HTTP says it.
    pub fn status(&self) -> StatusCode {
        match self {
            Refused::Origin => StatusCode::FORBIDDEN,
            // As etcd does.
            Refused::Host => StatusCode::MISDIRECTED_REQUEST,
            Refused::Grpc => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
        }
    }
}

impl Browsers {
    /// By the settings: the origins of `--cors`, the names of `--host-whitelist`, the URLs by which clients are told to come, and
    /// the addresses that are listened to. Without a list of names, all are served as soon as others than this machine can
    /// connect: they know us by names that we do not.
    pub fn new(
        cors: &[String],
        whitelist: &[String],
        advertised: &[String],
        listens: impl IntoIterator<Item = IpAddr>,
    ) -> Browsers {
        let is_any = |list: &[String]| list.iter().any(|one| one == ANY);
        let is_open = || listens.into_iter().any(|address| !address.is_loopback());
        let serves_any = is_any(whitelist) || (whitelist.is_empty() && is_open());
        let named = whitelist.iter().map(String::as_str);
        let hosts = named.chain(advertised.iter().filter_map(|url| authority_of(url)));
        let hosts = hosts.map(|host| without_port(host).to_ascii_lowercase());
        let cors = cors.iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect();
        Browsers { cors, hosts: (!serves_any).then(|| hosts.collect()) }
    }

    /// For a listener that is not a member's.
    pub fn at(address: IpAddr) -> Browsers {
        Browsers::new(&[], &[], &[], [address])
    }

    /// Whether a request is served; and the other origin, if one is allowed to read the answer.
    pub fn judge(&self, request: &Parts) -> Result<Option<HeaderValue>, Refused> {
        let headers = &request.headers;
        let host = host_of(request);
        let allowed = self.judge_origin(request, host)?;
        if is_grpc(headers) {
            return if request.version < Version::HTTP_2 {
                Err(Refused::Grpc)
            } else {
                Ok(allowed)
            };
        }
        match (&self.hosts, host) {
            (Some(hosts), Some(host)) if !is_ours(hosts, host) => Err(Refused::Host),
            _ => Ok(allowed),
        }
    }

    fn judge_origin(
        &self,
        request: &Parts,
        host: Option<&str>,
    ) -> Result<Option<HeaderValue>, Refused> {
        let headers = &request.headers;
        if let Some(origin) = headers.get(ORIGIN) {
            let text = origin.to_str().map_err(|_| Refused::Origin)?;
            let is_own = authority_of(text)
                .zip(host)
                .is_some_and(|(theirs, host)| theirs.eq_ignore_ascii_case(host));
            let is_allowed = |one: &String| one == ANY || one.eq_ignore_ascii_case(text);
            return match self.cors.iter().any(is_allowed) {
                true => Ok(Some(origin.clone())),
                false if is_own => Ok(None),
                false => Err(Refused::Origin),
            };
        }
        // Links are followed from anywhere: what they lead to is seen by the user, not by the page.
        let says = |name: &HeaderName, what: &str| headers.get(name).is_some_and(|is| is == what);
        let is_safe = request.method == Method::GET || request.method == Method::HEAD;
        let follows_link = is_safe && says(&SEC_FETCH_MODE, "navigate");
        let is_other = says(&SEC_FETCH_SITE, "cross-site") || says(&SEC_FETCH_SITE, "same-site");
        let may_read_all = self.cors.iter().any(|one| one == ANY);
        if is_other && !follows_link && !may_read_all { Err(Refused::Origin) } else { Ok(None) }
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// Whom the client believes to talk to.
fn host_of(request: &Parts) -> Option<&str> {
    let named = request.headers.get(HOST).and_then(|host| host.to_str().ok());
    named.or_else(|| request.uri.authority().map(|authority| authority.as_str()))
}

fn is_ours(hosts: &BTreeSet<String>, host: &str) -> bool {
    let name = without_port(host).to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok()
        || hosts.contains(name)
}

/// Host and port of a URL or an origin.
fn authority_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split('/').next()
}

/// A host without its port, and an IPv6 address without its brackets.
fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) => {
            name
        }
        _ => host,
    }
}

/// A service that browsers reach as far as they may.
#[derive(Clone, Debug)]
pub(crate) struct Guarded<S> {
    pub(crate) browsers: Arc<Browsers>,
    pub(crate) inner: S,
}

impl<S, B, R> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<String> + Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Guarding<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        match self.browsers.judge(&parts) {
            Err(refused) => {
                let mut response = Response::new(R::from(format!("{refused}\n")));
                *response.status_mut() = refused.status();
                Guarding::Answered { response: Some(response) }
            }
            Ok(Some(origin)) if parts.method == Method::OPTIONS => {
                let mut response = Response::new(R::default());
                allow(response.headers_mut(), origin);
                Guarding::Answered { response: Some(response) }
            }
            Ok(origin) => {
                let inner = self.inner.call(Request::from_parts(parts, body));
                Guarding::Passed { inner, origin }
            }
        }
    }
}

/// In etcd's words.
fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    let methods = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE");
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let names = HeaderValue::from_static("accept, content-type, authorization");
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
    headers.insert(VARY, HeaderValue::from_static("origin"));
}

pin_project_lite::pin_project! {
    /// An answer to come.
    #[project = GuardingNow]
    pub(crate) enum Guarding<F, R> {
        Answered { response: Option<Response<R>> },
        Passed {
            #[pin]
            inner: F,
            origin: Option<HeaderValue>,
        },
    }
}

impl<F, R, E> Future for Guarding<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            GuardingNow::Answered { response } => {
                Poll::Ready(Ok(response.take().expect("an answer is asked for once")))
            }
            GuardingNow::Passed { inner, origin } => inner.poll(cx).map_ok(|mut response| {
                if let Some(origin) = origin.take() {
                    allow(response.headers_mut(), origin);
                }
                response
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)];
    const ALL: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)];

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|&text| text.to_owned()).collect()
    }

    fn browsers(cors: &[&str], whitelist: &[&str], listens: [IpAddr; 1]) -> Browsers {
        let advertised = texts(&["http://n1.example:2379"]);
        Browsers::new(&texts(cors), &texts(whitelist), &advertised, listens)
    }

    fn request(method: &str, headers: &[(&str, &str)]) -> Parts {
        let start = Request::builder().method(method).uri("/v3/kv/put");
        let with = |request: http::request::Builder, (name, value): &(&str, &str)| {
            request.header(*name, *value)
        };
        headers.iter().fold(start, with).body(()).expect("it is sound").into_parts().0
    }

    fn post(browsers: &Browsers, headers: &[(&str, &str)]) -> Result<bool, Refused> {
        browsers.judge(&request("POST", headers)).map(|allowed| allowed.is_some())
    }

    #[test]
    fn browsers_of_other_origins_are_refused() {
        let ours = browsers(&[], &[], HERE);
        let here = ("host", "127.0.0.1:2379");
        let text = ("content-type", "text/plain");
        assert_eq!(post(&ours, &[here]), Ok(false), "curl");
        assert_eq!(post(&ours, &[here, ("origin", "http://127.0.0.1:2379")]), Ok(false));
        for origin in ["http://evil.example", "http://127.0.0.1:3000", "null", "http://"] {
            let said = [here, text, ("origin", origin)];
            assert_eq!(post(&ours, &said), Err(Refused::Origin), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(post(&ours, &[here, ("sec-fetch-site", site)]), Err(Refused::Origin));
        }
        for site in ["same-origin", "none"] {
            assert_eq!(post(&ours, &[here, ("sec-fetch-site", site)]), Ok(false));
        }
        let link = [here, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(post(&ours, &link), Err(Refused::Origin), "a form");
        assert_eq!(ours.judge(&request("GET", &link)), Ok(None), "a link");
    }

    #[test]
    fn browsers_are_let_in_by_cors() {
        let some = browsers(&["https://ui.example/"], &[], HERE);
        let from = |origin| [("host", "localhost:2379"), ("origin", origin)];
        assert_eq!(post(&some, &from("https://ui.example")), Ok(true));
        assert_eq!(post(&some, &from("http://ui.example")), Err(Refused::Origin));
        assert_eq!(post(&browsers(&["*"], &[], HERE), &from("http://any")), Ok(true));
    }

    #[test]
    fn browsers_name_a_host_that_is_ours() {
        let alone = browsers(&[], &[], HERE);
        for host in [
            "localhost",
            "LOCALHOST:2379",
            "127.0.0.1:2379",
            "[::1]:2379",
            "n1.example:1",
            "10.0.0.1",
        ] {
            assert_eq!(post(&alone, &[("host", host)]), Ok(false), "{host}");
        }
        let rebound = [("host", "evil.example:2379"), ("origin", "http://evil.example:2379")];
        assert_eq!(post(&alone, &rebound), Err(Refused::Host));
        // Others than this machine come by names that we do not know, unless we are told.
        assert_eq!(post(&browsers(&[], &[], ALL), &rebound), Ok(false));
        let named = browsers(&[], &["etcd.internal"], ALL);
        assert_eq!(post(&named, &rebound), Err(Refused::Host));
        assert_eq!(post(&named, &[("host", "etcd.internal:2379")]), Ok(false));
        assert_eq!(post(&browsers(&[], &["*"], HERE), &rebound), Ok(false));
    }

    #[test]
    fn browsers_cannot_speak_grpc() {
        let ours = browsers(&[], &[], HERE);
        let grpc = [("content-type", "application/grpc"), ("host", "#initially=[a]")];
        assert_eq!(post(&ours, &grpc), Err(Refused::Grpc));
        let mut second = request("POST", &grpc);
        second.version = Version::HTTP_2;
        assert_eq!(ours.judge(&second), Ok(None), "its clients may name any authority");
    }
}
