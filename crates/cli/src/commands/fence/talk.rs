//! What is said on stderr about requests: not more than a line a second of a kind, however many come.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderName;

use super::answer::Failure;
use super::door::Turned;

/// How long nothing more is said after a line.
const PAUSE: Duration = Duration::from_secs(1);

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
                resource => format!(" for {resource:?}"),
            };
            say(&format!("refused{about} with {status}: {}{more}", turned.away.error(header)));
        }
    }

    /// An answer could not be had.
    pub(super) fn failed(&self, failure: &Failure) {
        if let Some(more) = due(&self.failures, Instant::now()) {
            say(&format!("{}{more}", failure.error()));
        }
    }
}

/// Says a line. Whoever listened may be gone, and that must not end the proxy.
pub(super) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
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
