//! The dashboard for browsers: the built files of `web/`, which are part of the binary.
//!
//! The pages speak the JSON gateway of the member that they came from and nothing else; the policy that is sent with them
//! has the browser see to that. The one exception is the question whether another member answers, which a page asks when its
//! own member is gone, before it goes there.

use std::{
    collections::BTreeMap,
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use flate2::{Compression, write::GzEncoder};
use rust_embed::Embed;
use serde::Serialize;
use tenure_replica::{Consistency, Operation, Read, Reply};

use super::{itself, nothing_here};
use crate::{config::UiMode, node::NodeHandle};

#[derive(Embed)]
#[folder = "../../web/dist"]
struct Files;

const INDEX: &str = "index.html";
/// Members whose addresses a page may ask whether they are there.
const MEMBERS_NAMED_MAX: usize = 16;

/// What a page is told about the process that it came from.
#[derive(Clone, Debug, Serialize)]
pub struct UiFacts {
    /// The release.
    pub version: &'static str,
    /// Whether pages may change anything.
    pub read_only: bool,
    /// Whether a member is here, with elections to show.
    pub dashboard: bool,
    /// Whether runs of the lab can be asked for.
    pub lab: bool,
}

impl UiFacts {
    /// Of a member.
    pub fn of_member(mode: UiMode, lab: bool) -> UiFacts {
        let read_only = mode == UiMode::ReadOnly;
        UiFacts { version: env!("CARGO_PKG_VERSION"), read_only, dashboard: true, lab }
    }

    /// Of the lab alone.
    pub fn of_lab() -> UiFacts {
        UiFacts {
            version: env!("CARGO_PKG_VERSION"),
            read_only: false,
            dashboard: false,
            lab: true,
        }
    }
}

/// A built file of `web/`.
pub fn ui_file(path: &str) -> Option<std::borrow::Cow<'static, [u8]>> {
    Files::get(path).map(|file| file.data)
}

/// The pages at `/ui/`, and the way there from `/`. The node knows other members, if there is one.
pub fn ui_routes(facts: UiFacts, node: Option<NodeHandle>) -> Router {
    let pages = Arc::new(Pages { facts, node, packed: Mutex::default() });
    Router::new()
        .route("/", get(entrance))
        .route("/ui", get(async || Redirect::permanent("/ui/")))
        .route("/ui/", get(index))
        .route("/ui/facts.json", get(facts_of))
        .route("/ui/{*path}", get(file))
        .with_state(pages)
}

struct Pages {
    facts: UiFacts,
    node: Option<NodeHandle>,
    /// Files as they are sent, by their names: each is compressed once.
    packed: Mutex<BTreeMap<String, Bytes>>,
}

/// Browsers are led to the pages. Others see what they see of etcd.
async fn entrance(request: Request) -> Response {
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    match accept.is_some_and(|accept| accept.contains("text/html")) {
        true => Redirect::to("/ui/").into_response(),
        false => nothing_here(request).await,
    }
}

async fn facts_of(State(pages): State<Arc<Pages>>) -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "no-store")], Json(pages.facts.clone()))
}

async fn index(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    let mut response = pages.send(INDEX, &headers).await;
    let policy = policy(&pages.members().await);
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

async fn file(
    State(pages): State<Arc<Pages>>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Response {
    pages.send(&path, &headers).await
}

/// What a page may load and do: what its own origin serves, and nothing that is written into the page itself.
fn policy(members: &[String]) -> String {
    let mut policy =
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
                      object-src 'none'; connect-src 'self'"
            .to_owned();
    for member in members {
        policy.push(' ');
        policy.push_str(member);
    }
    policy
}

/// A URL as a source of the policy, if it can be one.
fn source(url: &str) -> Option<String> {
    let url: http::Uri = url.parse().ok()?;
    let scheme = url.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
    let authority = url.authority()?.as_str();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    authority.chars().all(is_plain).then(|| format!("{scheme}://{authority}"))
}

impl Pages {
    /// Where the members are reached by clients, as this one knows it.
    async fn members(&self) -> Vec<String> {
        let Some(node) = &self.node else { return vec![] };
        let read = Operation::Read(Read::Members, Consistency::Serializable);
        match node.ask(&itself(), read).await.and_then(|answer| answer.result) {
            Ok(Reply::Members(members)) => {
                let urls = members.iter().flat_map(|member| &member.client_urls);
                urls.filter_map(|url| source(url)).take(MEMBERS_NAMED_MAX).collect()
            }
            _ => vec![],
        }
    }

    async fn send(&self, path: &str, asked: &HeaderMap) -> Response {
        let Some(file) = Files::get(path) else {
            return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
        };
        let hash = file.metadata.sha256_hash();
        let hash: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let takes_gzip = takes_gzip(asked);
        let etag = format!("\"{hash}{}\"", if takes_gzip { "-gzip" } else { "" });
        // The names under assets/ change with what is in the files.
        let cached = match path.starts_with("assets/") {
            true => "public, max-age=31536000, immutable",
            false => "no-cache",
        };
        let known = asked.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
        let is_known = known.is_some_and(|known| known.split(',').any(|one| one.trim() == etag));
        let mut response = if is_known {
            StatusCode::NOT_MODIFIED.into_response()
        } else if takes_gzip {
            let packed = self.packed(path, file.data).await;
            ([(header::CONTENT_ENCODING, "gzip")], packed).into_response()
        } else {
            Bytes::from(file.data.into_owned()).into_response()
        };
        let headers = response.headers_mut();
        let mut say = |name, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        say(header::CONTENT_TYPE, kind(path));
        say(header::ETAG, &etag);
        say(header::CACHE_CONTROL, cached);
        say(header::VARY, "accept-encoding");
        say(header::CONTENT_SECURITY_POLICY, &policy(&[]));
        say(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        say(header::X_FRAME_OPTIONS, "DENY");
        say(header::REFERRER_POLICY, "no-referrer");
        say(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
        response
    }

    /// A file, compressed. The first time that takes a while, beside the core loop.
    async fn packed(&self, path: &str, data: std::borrow::Cow<'static, [u8]>) -> Bytes {
        let lock = || self.packed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(packed) = lock().get(path) {
            return packed.clone();
        }
        let packed = tokio::task::spawn_blocking(move || {
            let mut packer = GzEncoder::new(Vec::new(), Compression::best());
            packer.write_all(&data).and_then(|()| packer.finish())
        });
        let packed = packed.await.expect("it does not panic").expect("memory takes all bytes");
        lock().entry(path.to_owned()).or_insert(packed.into()).clone()
    }
}

fn takes_gzip(asked: &HeaderMap) -> bool {
    let takes = asked.get(header::ACCEPT_ENCODING).and_then(|takes| takes.to_str().ok());
    takes.is_some_and(|takes| {
        let refuses = |one: &str| one.contains(";q=0") && !one.contains(";q=0.");
        takes.split(',').map(str::trim).any(|one| one.starts_with("gzip") && !refuses(one))
    })
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}

/// What pages may ask for at a member that is read-only for them.
const READS: [&str; 19] = [
    "/v3/kv/range",
    "/v3/watch",
    "/v3/lease/timetolive",
    "/v3/kv/lease/timetolive",
    "/v3/lease/leases",
    "/v3/kv/lease/leases",
    "/v3/cluster/member/list",
    "/v3/maintenance/status",
    "/v3/maintenance/hash",
    "/v3/maintenance/hashkv",
    "/v3/auth/status",
    "/v3/auth/authenticate",
    "/v3/tenure/elections/list",
    "/v3/tenure/elections/candidates",
    "/v3/tenure/elections/history",
    "/v3/tenure/elections/observe",
    "/v3/tenure/elections/follow",
    "/v3/tenure/members/health",
    "/v3/tenure/sessions/list",
];

/// Refuses what a web page wants to change. Programs are served as ever: what they may do, users and roles decide.
pub(crate) async fn keep_pages_reading(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let is_page = headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site");
    if is_page && !READS.contains(&request.uri().path()) {
        let text = "tenure: --ui read-only: web pages change nothing at this member\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt;

    use super::*;

    async fn ask(path: &str, headers: &[(&str, &str)]) -> Response {
        let with = |request: http::request::Builder, (name, value): &(&str, &str)| {
            request.header(*name, *value)
        };
        let request = headers.iter().fold(Request::get(path), with).body(Body::empty()).unwrap();
        ui_routes(UiFacts::of_member(UiMode::On, false), None).oneshot(request).await.unwrap()
    }

    fn said<'a>(response: &'a Response, name: &str) -> &'a str {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[tokio::test]
    async fn ui_is_where_browsers_are_led() {
        let browser = ask("/", &[("accept", "text/html,application/xhtml+xml,*/*;q=0.8")]).await;
        assert_eq!((browser.status().as_u16(), said(&browser, "location")), (303, "/ui/"));
        assert_eq!(ask("/", &[("accept", "*/*")]).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(ask("/", &[]).await.status(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn ui_files_have_types_tags_and_a_strict_policy() {
        let page = ask("/ui/", &[]).await;
        assert_eq!(said(&page, "content-type"), "text/html; charset=utf-8");
        let policy = said(&page, "content-security-policy");
        assert!(policy.contains("default-src 'self'"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        let tag = said(&page, "etag").to_owned();
        let known = ask("/ui/", &[("if-none-match", &tag)]).await;
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        let packed = ask("/ui/", &[("accept-encoding", "gzip, br")]).await;
        assert_eq!(said(&packed, "content-encoding"), "gzip");
        assert_ne!(said(&packed, "etag"), tag, "another representation");
        let plain = ask("/ui/", &[("accept-encoding", "gzip;q=0")]).await;
        assert_eq!(said(&plain, "content-encoding"), "");
        let script = Files::iter().find(|name| name.ends_with(".js")).expect("a script");
        let script = ask(&format!("/ui/{script}"), &[]).await;
        assert_eq!(said(&script, "content-type"), "text/javascript; charset=utf-8");
        assert!(said(&script, "cache-control").contains("immutable"));
        assert_eq!(ask("/ui/assets/none.js", &[]).await.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn ui_policy_names_members_and_nothing_else() {
        assert_eq!(source("http://127.0.0.1:2379/x").as_deref(), Some("http://127.0.0.1:2379"));
        assert_eq!(source("https://[::1]:2379").as_deref(), Some("https://[::1]:2379"));
        for odd in ["javascript:alert(1)", "http://a;script-src *", "unix:/x", "http://*:1"] {
            assert_eq!(source(odd), None, "{odd}");
        }
    }

    /// Everything of the application, compressed, is to be small, and without maps of its source.
    #[test]
    fn ui_is_small() {
        let pack = |name: std::borrow::Cow<'static, str>| {
            assert!(!name.ends_with(".map"), "{name}");
            let mut packer = GzEncoder::new(Vec::new(), Compression::best());
            packer.write_all(&Files::get(&name).expect("it is listed").data).unwrap();
            packer.finish().unwrap().len()
        };
        let bytes: usize = Files::iter().map(pack).sum();
        assert!(bytes < 250_000, "{bytes} bytes");
    }
}
