//! Why a request that was admitted has no answer of the upstream, and what the client is told instead.

use std::io;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use super::response_body::ResponseBody;

/// Why a request has no answer of the upstream, or not all of it.
#[derive(Debug)]
pub(super) enum Failure {
    /// The upstream cannot be connected to, and has seen nothing of the request.
    Unreachable(io::Error),
    /// The upstream's connection ended before its answer began, or the answer cannot be passed on.
    Broken(String),
    /// The upstream was silent for too long.
    Silent,
    /// A newer holder waited for the request to end, for long enough.
    Overtaken,
    /// The client did not send all of its request.
    ClientStopped,
    /// The answer ended in the middle.
    Cut,
    /// The framing of the request's body is wrong.
    Malformed,
    /// The request's body has a transfer coding other than chunked.
    Coding,
    /// The request asks for another protocol.
    Upgrade,
    /// The request's target cannot be passed on.
    Target,
}

impl Failure {
    /// Whether the upstream may have begun to act.
    pub(super) fn outcome_unknown(&self) -> bool {
        matches!(
            self,
            Failure::Broken(_)
                | Failure::Silent
                | Failure::Overtaken
                | Failure::Cut
                | Failure::Malformed
                | Failure::ClientStopped
        )
    }

    /// The label of this failure in metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Failure::Unreachable(_) => "unreachable",
            Failure::Broken(_) => "broken",
            Failure::Silent => "timeout",
            Failure::Overtaken => "overtaken",
            Failure::Cut => "cut",
            Failure::Malformed => "garbled",
            Failure::Coding => "coding",
            Failure::ClientStopped => "client",
            Failure::Upgrade => "upgrade",
            Failure::Target => "target",
        }
    }

    /// All labels, so that each series starts at zero.
    pub(super) const REASONS: [&'static str; 10] = [
        "unreachable",
        "broken",
        "timeout",
        "overtaken",
        "cut",
        "garbled",
        "coding",
        "client",
        "upgrade",
        "target",
    ];

    /// The status of the response.
    fn status(&self) -> StatusCode {
        match self {
            Failure::Unreachable(_) | Failure::Broken(_) | Failure::Cut => StatusCode::BAD_GATEWAY,
            Failure::Silent | Failure::Overtaken => StatusCode::GATEWAY_TIMEOUT,
            Failure::ClientStopped => StatusCode::REQUEST_TIMEOUT,
            Failure::Upgrade | Failure::Coding => StatusCode::NOT_IMPLEMENTED,
            Failure::Target | Failure::Malformed => StatusCode::BAD_REQUEST,
        }
    }

    /// What is wrong, in a sentence.
    pub(super) fn error(&self) -> String {
        match self {
            Failure::Unreachable(cause) => format!("the upstream cannot be reached: {cause}"),
            Failure::Broken(cause) => {
                format!("the upstream's connection ended before its answer: {cause}")
            }
            Failure::Silent => "the upstream did not answer in time".to_owned(),
            Failure::Overtaken => {
                "it did not end in time, and a newer token has taken over".to_owned()
            }
            Failure::Cut => "the upstream's answer ended in the middle".to_owned(),
            Failure::Malformed => "the request's body is not well-formed".to_owned(),
            Failure::Coding => {
                "the request's body has a transfer coding other than chunked".to_owned()
            }
            Failure::ClientStopped => "the request did not arrive completely".to_owned(),
            Failure::Upgrade => {
                "this proxy does not switch protocols: what is sent then could not be fenced"
                    .to_owned()
            }
            Failure::Target => "the request's target cannot be passed on".to_owned(),
        }
    }

    fn next_step(&self) -> &'static str {
        match self {
            Failure::Unreachable(_) => "nothing was done: retry while you hold your token",
            Failure::Broken(_) | Failure::Silent | Failure::Cut => {
                "it may have been done or not: read back before you retry"
            }
            Failure::Overtaken => {
                "stop: it may have been done or not, and a newer holder is in charge"
            }
            Failure::Coding => "send the body with Content-Length, or chunked",
            Failure::ClientStopped | Failure::Malformed => {
                "part of it may have been done: read back, and send it again"
            }
            Failure::Upgrade => "use plain requests, or connect to the upstream another way",
            Failure::Target => "request a path, as in GET /path, with one Host header",
        }
    }

    fn json(&self) -> String {
        serde_json::json!({ "error": self.error(), "next": self.next_step() }).to_string()
    }

    /// The response to the client.
    pub(super) fn response(&self) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::from(self.json()));
        *response.status_mut() = self.status();
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}
