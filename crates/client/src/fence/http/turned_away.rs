//! The response to a request that is not admitted.

use std::fmt::Write;

use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use crate::fence::{FencingToken, Refusal, TokenDoubt};

/// When to ask again after something did not end in time.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Why a request is not admitted.
#[derive(Clone, Debug)]
pub enum TurnedAway {
    /// It needs a token and has none.
    NoToken,
    /// What it shows as a token is none, for this reason.
    NotAToken(String),
    /// It cannot be told which resource it is about, for this reason.
    NoResource(String),
    /// Its token cannot be believed.
    Doubted(TokenDoubt),
    /// The gate did not open.
    Refused(Refusal),
}

impl TurnedAway {
    /// One word for the reason, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            TurnedAway::NoToken => "no_token",
            TurnedAway::NotAToken(_) => "bad_token",
            TurnedAway::NoResource(_) | TurnedAway::Refused(Refusal::NameTooLong { .. }) => {
                "bad_resource"
            }
            TurnedAway::Doubted(TokenDoubt::NeverGiven { .. }) => "never_given",
            TurnedAway::Doubted(TokenDoubt::NotHeld { .. }) => "not_held",
            TurnedAway::Doubted(TokenDoubt::Unknown { .. }) => "cluster_unknown",
            TurnedAway::Refused(Refusal::Stale { .. }) => "stale",
            TurnedAway::Refused(Refusal::NotYet { .. }) => "not_yet",
            TurnedAway::Refused(Refusal::NoRoom { .. }) => "no_room",
            TurnedAway::Refused(Refusal::Broken { .. }) => "broken",
        }
    }

    /// All of them, so that a metric can start at zero.
    pub const REASONS: [&'static str; 10] = [
        "no_token",
        "bad_token",
        "bad_resource",
        "never_given",
        "not_held",
        "cluster_unknown",
        "stale",
        "not_yet",
        "no_room",
        "broken",
    ];

    /// The status to answer with.
    pub fn status(&self) -> StatusCode {
        match self {
            TurnedAway::NoToken => StatusCode::PRECONDITION_REQUIRED,
            TurnedAway::NotAToken(_)
            | TurnedAway::NoResource(_)
            | TurnedAway::Doubted(TokenDoubt::NeverGiven { .. })
            | TurnedAway::Refused(Refusal::NameTooLong { .. }) => StatusCode::BAD_REQUEST,
            TurnedAway::Refused(Refusal::Stale { .. })
            | TurnedAway::Doubted(TokenDoubt::NotHeld { .. }) => StatusCode::CONFLICT,
            TurnedAway::Doubted(TokenDoubt::Unknown { .. }) | TurnedAway::Refused(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// What went wrong, in a sentence. `header` is the one that carries tokens.
    pub fn error(&self, header: &HeaderName) -> String {
        let header = shown(header);
        match self {
            TurnedAway::NoToken => format!("this request needs the header {header}"),
            TurnedAway::NotAToken(why) => format!("the header {header} cannot be read: {why}"),
            TurnedAway::NoResource(why) => why.clone(),
            TurnedAway::Doubted(doubt) => doubt.to_string(),
            TurnedAway::Refused(refusal) => refusal.to_string(),
        }
    }

    /// What the client should do now.
    pub fn next_step(&self) -> &'static str {
        match self {
            TurnedAway::NoToken | TurnedAway::NotAToken(_) => {
                "send the token that came with your leadership or lock, once, as a decimal number"
            }
            TurnedAway::NoResource(_) | TurnedAway::Refused(Refusal::NameTooLong { .. }) => {
                "name one resource, as the service's documentation says"
            }
            TurnedAway::Doubted(TokenDoubt::NeverGiven { .. }) => {
                "send the token as this cluster gave it; one of another cluster does not count"
            }
            TurnedAway::Doubted(TokenDoubt::Unknown { .. })
            | TurnedAway::Refused(Refusal::NotYet { .. }) => {
                "nothing was done: try again while you hold your leadership or lock"
            }
            TurnedAway::Refused(Refusal::Stale { .. })
            | TurnedAway::Doubted(TokenDoubt::NotHeld { .. }) => {
                "stop: somebody else has taken over, and trying again will not help"
            }
            TurnedAway::Refused(Refusal::NoRoom { .. }) => {
                "nothing was done: the operator has to allow more resources"
            }
            TurnedAway::Refused(Refusal::Broken { .. }) => {
                "nothing was done: the operator has to mend the disk and start the service anew"
            }
        }
    }

    /// The answer for a client that is not trusted with the numbers of others: no token in force, no revision of the
    /// cluster.
    pub fn terse_response<Body: From<String>>(&self, header: &HeaderName) -> Response<Body> {
        let (error, token) = match self {
            TurnedAway::Refused(Refusal::Stale { token, .. }) => {
                (format!("fencing token {token} is stale: a newer one is in force"), Some(*token))
            }
            TurnedAway::Doubted(TokenDoubt::NeverGiven { token, .. }) => {
                (format!("token {token} was never given"), Some(*token))
            }
            TurnedAway::Doubted(TokenDoubt::NotHeld { token, .. }) => {
                (format!("token {token} is not held"), Some(*token))
            }
            TurnedAway::Doubted(TokenDoubt::Unknown { token, .. }) => {
                (format!("token {token} cannot be checked now"), Some(*token))
            }
            TurnedAway::Refused(Refusal::NotYet { token, .. }) => {
                (self.error(header), Some(*token))
            }
            _ => (self.error(header), None),
        };
        let numbers: Vec<_> = token.map(|token| ("token", token.get())).into_iter().collect();
        self.answer(header, &error, &numbers, None)
    }

    /// The whole answer. `in_force` is the newest token of the resource, if it is known which; the
    /// answer carries it in `header`.
    pub fn response<Body: From<String>>(
        &self,
        header: &HeaderName,
        in_force: Option<FencingToken>,
    ) -> Response<Body> {
        let mut numbers = Vec::new();
        let mut in_force = in_force;
        match self {
            // The one that refused it: a newer one may have come since.
            TurnedAway::Refused(Refusal::Stale { token, in_force: refused_by }) => {
                numbers.push(("token", token.get()));
                in_force = Some(*refused_by);
            }
            TurnedAway::Refused(Refusal::NotYet { token, .. })
            | TurnedAway::Doubted(
                TokenDoubt::Unknown { token, .. } | TokenDoubt::NotHeld { token, .. },
            ) => {
                numbers.push(("token", token.get()));
            }
            TurnedAway::Doubted(TokenDoubt::NeverGiven { token, revision }) => {
                numbers.extend([("token", token.get()), ("revision", *revision)]);
            }
            _ => {}
        }
        numbers.extend(in_force.map(|token| ("in_force", token.get())));
        self.answer(header, &self.error(header), &numbers, in_force)
    }

    fn answer<Body: From<String>>(
        &self,
        header: &HeaderName,
        error: &str,
        numbers: &[(&str, i64)],
        in_force: Option<FencingToken>,
    ) -> Response<Body> {
        let body = object(&[("error", error), ("next", self.next_step())], numbers);
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(in_force) = in_force {
            headers.insert(header, HeaderValue::from(in_force.get()));
        }
        if let TurnedAway::Refused(Refusal::NotYet { .. })
        | TurnedAway::Doubted(TokenDoubt::Unknown { .. }) = self
        {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

/// As people write it: names of headers come in lower case.
fn shown(header: &HeaderName) -> String {
    if header.as_str().eq_ignore_ascii_case(FencingToken::HEADER) {
        return FencingToken::HEADER.to_owned();
    }
    header.as_str().to_owned()
}

/// A JSON object of texts and numbers.
fn object(texts: &[(&str, &str)], numbers: &[(&str, i64)]) -> String {
    let mut json = String::from("{");
    for (name, text) in texts {
        let comma = if json.len() > 1 { "," } else { "" };
        let _ = write!(json, "{comma}\"{name}\":\"");
        for character in text.chars() {
            match character {
                '"' | '\\' => json.extend(['\\', character]),
                control if control.is_control() => {
                    let _ = write!(json, "\\u{:04x}", control as u32);
                }
                plain => json.push(plain),
            }
        }
        json.push('"');
    }
    for (name, number) in numbers {
        let _ = write!(json, ",\"{name}\":{number}");
    }
    json.push('}');
    json
}
