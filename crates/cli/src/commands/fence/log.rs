//! Lines on stderr about requests that were refused or failed: one a second of each kind at most.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderName;

use super::admission::Rejection;
use super::failure::Failure;
use crate::talk::say;

/// The least time between two lines of a kind.
const INTERVAL: Duration = Duration::from_secs(1);

/// How much of what a client wrote is shown.
const TEXT_BYTES_MAX: usize = 200;

/// The log of requests, with a limit for each kind of line.
#[derive(Debug, Default)]
pub(super) struct RequestLog {
    refusals: Mutex<RateLimit>,
    failures: Mutex<RateLimit>,
}

/// When a line of a kind was last written, and how many were suppressed since.
#[derive(Debug, Default)]
struct RateLimit {
    last: Option<Instant>,
    suppressed: u64,
}

impl RequestLog {
    /// A request was not admitted.
    pub(super) fn refused(&self, rejection: &Rejection, header: &HeaderName) {
        if let Some(more) = due(&self.refusals, Instant::now()) {
            let status = rejection.cause.status().as_u16();
            let about = match rejection.resource.as_str() {
                "" => String::new(),
                resource => format!(" for {:?}", shortened(resource)),
            };
            let error = rejection.cause.error(header);
            say(format!("refused{about} with {status}: {}{more}", shortened(&error)));
        }
    }

    /// A request has no answer of the upstream, or not all of it.
    pub(super) fn failed(&self, failure: &Failure) {
        if let Some(more) = due(&self.failures, Instant::now()) {
            say(format!("{}{more}", shortened(&failure.error())));
        }
    }
}

/// The beginning of a text from a client, which may be as long as a head.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// Whether a line may be written now, and what to add about those that were suppressed.
fn due(limit: &Mutex<RateLimit>, now: Instant) -> Option<String> {
    let mut limit = limit.lock().unwrap_or_else(PoisonError::into_inner);
    if limit.last.is_some_and(|last| now.duration_since(last) < INTERVAL) {
        limit.suppressed += 1;
        return None;
    }
    limit.last = Some(now);
    match std::mem::take(&mut limit.suppressed) {
        0 => Some(String::new()),
        more => Some(format!(" (and {more} more since the last such line)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_writes_one_line_a_second_in_a_flood() {
        let limit = Mutex::default();
        let start = Instant::now();
        assert_eq!(due(&limit, start).as_deref(), Some(""));
        for millis in [0, 1, 500, 999] {
            assert_eq!(due(&limit, start + Duration::from_millis(millis)), None);
        }
        let said = due(&limit, start + INTERVAL).unwrap();
        assert_eq!(said, " (and 4 more since the last such line)");
        assert_eq!(due(&limit, start + 2 * INTERVAL).as_deref(), Some(""));
    }
}
