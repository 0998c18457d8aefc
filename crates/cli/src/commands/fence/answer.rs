//! The proxy's own answers: when the upstream, or the client, did not do its part.

use std::io;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use super::reply::Reply;

/// Why there is no answer of the upstream.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no connection to it. It has seen nothing of the request.
    Unreachable(io::Error),
    /// The connection ended before the answer began.
    Broken(String),
    /// It kept silent for too long.
    Silent,
    /// A newer holder came, and waited for long enough.
    Overtaken,
    /// The client did not send all of its request.
    ClientStopped,
    /// The answer ended in the middle, after it was begun to be handed on.
    Cut,
    /// The request's body is not what its head says.
    Garbled,
    /// The request's body is coded in a way that is not known here.
    Coding,
    /// The client wants to leave HTTP.
    Upgrade,
    /// The request's target is not one that can be passed on.
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
                | Failure::Garbled
                | Failure::ClientStopped
        )
    }

    /// One word for it, for metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Failure::Unreachable(_) => "unreachable",
            Failure::Broken(_) => "broken",
            Failure::Silent => "timeout",
            Failure::Overtaken => "overtaken",
            Failure::Cut => "cut",
            Failure::Garbled => "garbled",
            Failure::Coding => "coding",
            Failure::ClientStopped => "client",
            Failure::Upgrade => "upgrade",
            Failure::Target => "target",
        }
    }

    /// All of them, so that a metric can start at zero.
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

    /// The status to answer with.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Failure::Unreachable(_) | Failure::Broken(_) | Failure::Cut => StatusCode::BAD_GATEWAY,
            Failure::Silent | Failure::Overtaken => StatusCode::GATEWAY_TIMEOUT,
            Failure::ClientStopped => StatusCode::REQUEST_TIMEOUT,
            Failure::Upgrade | Failure::Coding => StatusCode::NOT_IMPLEMENTED,
            Failure::Target | Failure::Garbled => StatusCode::BAD_REQUEST,
        }
    }

    /// What went wrong, in a sentence.
    pub(super) fn error(&self) -> String {
        match self {
            Failure::Unreachable(cause) => format!("the upstream cannot be reached: {cause}"),
            Failure::Broken(cause) => {
                format!("the upstream's connection ended before its answer: {cause}")
            }
            Failure::Silent => "the upstream did not answer in time".to_owned(),
            Failure::Overtaken => {
                "it did not end in time, and somebody else has taken over".to_owned()
            }
            Failure::Cut => "the upstream's answer ended in the middle".to_owned(),
            Failure::Garbled => "the request's body is not well-formed".to_owned(),
            Failure::Coding => "the request's body has a coding other than chunked".to_owned(),
            Failure::ClientStopped => "the request did not arrive as a whole".to_owned(),
            Failure::Upgrade => {
                "a connection cannot leave HTTP here: what is sent on it could not be fenced"
                    .to_owned()
            }
            Failure::Target => "the request's target cannot be passed on".to_owned(),
        }
    }

    fn next_step(&self) -> &'static str {
        match self {
            Failure::Unreachable(_) => "nothing was done: try again while you hold your token",
            Failure::Broken(_) | Failure::Silent | Failure::Cut => {
                "it may have been done or not: read back before you try again"
            }
            Failure::Overtaken => "stop: it may have been done or not, and is the new holder's now",
            Failure::Coding => "send it as it is, or in chunks",
            Failure::ClientStopped | Failure::Garbled => {
                "part of it may have been done: read back, and send it again"
            }
            Failure::Upgrade => "use plain requests, or reach the upstream another way",
            Failure::Target => "ask for a path, as in GET /path, with one Host",
        }
    }

    /// The body of the answer.
    pub(super) fn json(&self) -> String {
        serde_json::json!({ "error": self.error(), "next": self.next_step() }).to_string()
    }

    /// The whole answer.
    pub(super) fn response(&self) -> Response<Reply> {
        let mut response = Response::new(Reply::from(self.json()));
        *response.status_mut() = self.status();
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}
