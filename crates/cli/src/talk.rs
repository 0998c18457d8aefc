//! Talk on stderr that blocks no thread.
//!
//! Its reader may have gone, or may read no further. Neither is a reason for a supervisor to end, or to
//! stop telling its guardian of new deadlines. So a thread writes it, from a queue that is never waited for:
//! what does not fit is dropped, and counted.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use crate::output::visible;

/// Lines that may wait to be written.
const LINES_MAX: usize = 256;

enum Word {
    Line(String),
    /// Everything before this was written.
    Done(SyncSender<()>),
}

static VOICE: OnceLock<Option<SyncSender<Word>>> = OnceLock::new();
static DROPPED: AtomicUsize = AtomicUsize::new(0);

fn voice() -> Option<&'static SyncSender<Word>> {
    let start = || {
        let (voice, words) = sync_channel(LINES_MAX);
        let speak = move || {
            for word in words {
                match word {
                    Word::Line(line) => {
                        let dropped = DROPPED.swap(0, Ordering::Relaxed);
                        let mut stderr = std::io::stderr().lock();
                        // A closed pipe is no reason to complain, and there would be no place to.
                        if dropped > 0 {
                            let _ = writeln!(stderr, "tenure: {dropped} lines were not written");
                        }
                        let _ = writeln!(stderr, "{line}");
                    }
                    Word::Done(told) => drop(told),
                }
            }
        };
        std::thread::Builder::new().name("tenure-talk".to_owned()).spawn(speak).ok()?;
        Some(voice)
    };
    VOICE.get_or_init(start).as_ref()
}

/// Prints a line without waiting. Control characters of names chosen by others cannot reach the terminal.
pub(crate) fn say(line: String) {
    let line = visible(&line).into_owned();
    match voice() {
        Some(voice) => {
            if voice.try_send(Word::Line(line)).is_err() {
                DROPPED.fetch_add(1, Ordering::Relaxed);
            }
        }
        None => drop(writeln!(std::io::stderr(), "{line}")),
    }
}

/// Waits until everything was written, for no longer than that.
pub(crate) fn finish(patience: Duration) {
    let Some(Some(voice)) = VOICE.get() else { return };
    let (told, done) = sync_channel(0);
    if voice.try_send(Word::Done(told)).is_ok() {
        // Ends by being dropped, or not in time.
        let _ = done.recv_timeout(patience);
    }
}

/// `eprintln!` that neither waits nor panics.
macro_rules! talk {
    ($($words:tt)*) => { $crate::talk::say(format!($($words)*)) };
}
pub(crate) use talk;
