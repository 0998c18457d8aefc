//! What is said on stderr about requests: not more than a line a second of a kind, however many come.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderName;

use super::answer::Failure;
use super::door::Turned;
use crate::talk::say;

/// How long nothing more is said after a line.
const PAUSE: Duration = Duration::from_secs(1);

/// How much is said of what a client wrote.
const TEXT_BYTES_MAX: usize = 200;

/// The proxy's voice.
#[derive(Debug, Default)]
pub(super) struct Talk {
    refusals: Mutex<Spoken>,
    failures: Mutex<Spoken>,
}

/// When something of a kind was last said, and how much was kept back since.
#[derive(Debug, Default)]
struct Spoken {
    last: Option<Instant>,
    kept_back: u64,
}

impl Talk {
    /// Somebody did not come in.
    pub(super) fn refused(&self, turned: &Turned, header: &HeaderName) {
        if let Some(more) = due(&self.refusals, Instant::now()) {
            let status = turned.away.status().as_u16();
            let about = match turned.resource.as_str() {
                "" => String::new(),
                resource => format!(" for {:?}", cut(resource)),
            };
            let error = turned.away.error(header);
            say(format!("refused{about} with {status}: {}{more}", cut(&error)));
        }
    }

    /// An answer could not be had.
    pub(super) fn failed(&self, failure: &Failure) {
        if let Some(more) = due(&self.failures, Instant::now()) {
            say(format!("{}{more}", cut(&failure.error())));
        }
    }
}

/// The beginning of what a client wrote, which may be as long as a head.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// Whether to say it, and what to add about those that were not said.
fn due(spoken: &Mutex<Spoken>, now: Instant) -> Option<String> {
    let mut spoken = spoken.lock().unwrap_or_else(PoisonError::into_inner);
    if spoken.last.is_some_and(|last| now.duration_since(last) < PAUSE) {
        spoken.kept_back += 1;
        return None;
    }
    spoken.last = Some(now);
    match std::mem::take(&mut spoken.kept_back) {
        0 => Some(String::new()),
        more => Some(format!(" (and {more} more since the last such line)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_becomes_a_line_a_second() {
        let spoken = Mutex::default();
        let start = Instant::now();
        assert_eq!(due(&spoken, start).as_deref(), Some(""));
        for millis in [0, 1, 500, 999] {
            assert_eq!(due(&spoken, start + Duration::from_millis(millis)), None);
        }
        let said = due(&spoken, start + PAUSE).unwrap();
        assert_eq!(said, " (and 4 more since the last such line)");
        assert_eq!(due(&spoken, start + 2 * PAUSE).as_deref(), Some(""));
    }
}
