//! `POST /step-down`: gives the leadership up and campaigns again, behind the others.
//!
//! It is for the container beside us, so it is taken from loopback only, also when we listen elsewhere
//! for probes. And a web page that is open on this machine must not be able to do it:
//!
//! - a page may send a POST across origins without asking, but not without an `Origin` header, and
//!   browsers add `Sec-Fetch-Site` and `Referer`: requests with any of them are refused;
//! - a page whose own host name was made to point here (DNS rebinding) gives itself away by `Host`.
//!
//! Other users of this machine, and other containers of the pod, are on loopback too. `--step-down-token-file` tells them from the
//! program that may.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde_json::json;
use tenure::FencingToken;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::AnswerContext;
use super::answers::json_of;
use super::listen::Peer;
use crate::commands::sidecar::belief::{Belief, Leader};
use crate::commands::sidecar::campaign::{StepDown, SteppedDown};
use crate::commands::sidecar::words;

/// How long the resignation may take, beyond the grace that was asked for.
const RESIGN_MAX: Duration = Duration::from_secs(5);
/// How long to wait for the next leader.
const SUCCESSOR_MAX: Duration = Duration::from_secs(2);

/// A token that is shorter can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// The file of what a request must show. It is read for each, so that it can be replaced.
#[derive(Clone, Debug)]
pub(in crate::commands::sidecar) struct StepDownToken(PathBuf);

impl StepDownToken {
    /// A file that can be read and has a token.
    pub(in crate::commands::sidecar) fn load(path: &str) -> Result<StepDownToken, String> {
        let file = StepDownToken(path.into());
        file.read().map(|_| file.clone()).map_err(|why| format!("{path}: {why}"))
    }

    fn read(&self) -> Result<String, String> {
        let text = fs::read_to_string(&self.0).map_err(|error| error.to_string())?;
        let token = text.trim();
        if token.len() < TOKEN_BYTES_MIN {
            return Err(format!("it has no token of {TOKEN_BYTES_MIN} characters or more"));
        }
        Ok(token.to_owned())
    }

    fn is_shown_in(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let Some(shown) = shown.and_then(|value| value.strip_prefix(b"Bearer ")) else {
            return false;
        };
        let Ok(token) = self.read() else { return false };
        // As long for one wrong byte as for all of them.
        let differing = token.bytes().zip(shown).fold(0, |seen, (a, b)| seen | (a ^ b));
        token.len() == shown.len() && differing == 0
    }
}

pub(super) async fn step_down(
    State(context): State<AnswerContext>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    if let Err(why) = admit(peer, &headers) {
        return json_of(StatusCode::FORBIDDEN, &json!({ "error": why }));
    }
    if context.step_down_token.as_ref().is_some_and(|token| !token.is_shown_in(&headers)) {
        let why = "this needs Authorization: Bearer with what is in --step-down-token-file";
        return json_of(StatusCode::UNAUTHORIZED, &json!({ "error": why }));
    }
    let Some(token) = context.status.office() else { return not_leading(&context) };
    let (answer, answered) = oneshot::channel();
    let asked = async {
        context.orders.send(StepDown { token, answer }).await.ok()?;
        answered.await.ok()
    };
    let done = timeout(context.grace + RESIGN_MAX, asked).await;
    let confirmed = match done {
        Ok(Some(SteppedDown::Done { confirmed })) => confirmed,
        Ok(Some(SteppedDown::NotLeading)) => return not_leading(&context),
        // It goes on; our answers have stopped claiming it.
        Ok(None) | Err(_) => false,
    };
    let next = timeout(SUCCESSOR_MAX, successor(&context, token)).await.ok().flatten();
    let status = if confirmed { StatusCode::OK } else { StatusCode::ACCEPTED };
    let next = next.map(|leader| json!({ "name": leader.name, "token": leader.token.get() }));
    let body = json!({ "stepped_down": token.get(), "confirmed": confirmed, "leader": next });
    json_of(status, &body)
}

fn not_leading(context: &AnswerContext) -> Response {
    let (judged_unix_ms, belief) = context.status.dated_belief();
    let mut body = words::whole(&context.status, &belief, judged_unix_ms);
    body["error"] = "not leading".into();
    json_of(StatusCode::CONFLICT, &body)
}

/// Waits for a leader with a greater token.
async fn successor(context: &AnswerContext, token: FencingToken) -> Option<Leader> {
    let mut news = context.status.listen();
    loop {
        news.mark_unchanged();
        if let Belief::Sure(sure) = context.status.belief()
            && let Some(leader) = sure.leader.filter(|leader| leader.token > token)
        {
            return Some(leader);
        }
        news.changed().await.ok()?;
    }
}

/// Whether this request may change something.
fn admit(peer: SocketAddr, headers: &HeaderMap) -> Result<(), &'static str> {
    if !peer.ip().to_canonical().is_loopback() {
        return Err("only from loopback: ask from inside the pod or on this machine");
    }
    let browsers = [header::ORIGIN.as_str(), header::REFERER.as_str(), "sec-fetch-site"];
    if browsers.iter().any(|name| headers.contains_key(*name)) {
        return Err("not from a browser");
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if is_loopback(host) { Ok(()) } else { Err("Host must be localhost or a loopback address") }
}

/// Whether a `Host` header names this machine for itself, whatever the port.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn step_down_is_for_programs_on_loopback() {
        for (peer, host) in [
            ("127.0.0.1:9", "localhost:4040"),
            ("127.9.9.9:9", "127.0.0.1"),
            ("[::1]:9", "[::1]:4040"),
            ("[::ffff:127.0.0.1]:9", "LOCALHOST"),
        ] {
            let admitted = admit(peer.parse().unwrap(), &headers(&[("host", host)]));
            assert_eq!(admitted, Ok(()), "{peer} {host}");
        }
    }

    #[test]
    fn step_down_token_must_be_shown_whole() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        let name = path.to_str().unwrap();
        assert!(StepDownToken::load(name).is_err(), "there is no file");
        std::fs::write(&path, "too short\n").unwrap();
        assert!(StepDownToken::load(name).is_err());
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let token = StepDownToken::load(name).unwrap();
        let shows = |value: &str| token.is_shown_in(&headers(&[("authorization", value)]));
        assert!(shows("Bearer 0123456789abcdef"));
        for wrong in ["", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdefg"] {
            assert!(!shows(wrong), "{wrong}");
        }
        assert!(!shows("0123456789abcdef") && !token.is_shown_in(&HeaderMap::new()));
        std::fs::write(&path, "another-token-0123\n").unwrap();
        assert!(shows("Bearer another-token-0123") && !shows("Bearer 0123456789abcdef"));
        std::fs::remove_file(&path).unwrap();
        assert!(!shows("Bearer another-token-0123"), "without the file, none is right");
    }

    #[test]
    fn step_down_is_refused_to_others_and_to_web_pages() {
        let local = "127.0.0.1:9";
        for (peer, given) in [
            ("10.0.0.7:9", &[("host", "localhost:4040")][..]),
            (local, &[("host", "localhost:4040"), ("origin", "http://evil.example")]),
            (local, &[("host", "localhost:4040"), ("origin", "null")]),
            (local, &[("host", "localhost:4040"), ("sec-fetch-site", "cross-site")]),
            (local, &[("host", "localhost:4040"), ("referer", "http://evil.example/x")]),
            (local, &[("host", "evil.example:4040")]),
            (local, &[("host", "localhost.evil.example")]),
            (local, &[("host", "10.0.0.7:4040")]),
            (local, &[]),
        ] {
            assert!(admit(peer.parse().unwrap(), &headers(given)).is_err(), "{peer} {given:?}");
        }
    }
}
