//! Talk on stderr that blocks no thread.
//!
//! Its reader may have gone, or may read no further. Neither is a reason for a supervisor to end, or to
//! stop telling its guardian of new deadlines. So a thread writes it, from a queue that is never waited for:
//! what does not fit is dropped, and counted.
//!
//! One line may be a status that the next line replaces, if stderr is a terminal. In a log it is a line as any other.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use crate::commands::columns;
use crate::output::visible;

/// Lines that may wait to be written.
const LINES_MAX: usize = 256;

enum Word {
    Line(String),
    /// A line that the next one replaces; nothing, to remove it.
    Status(String),
    /// Everything before this was written.
    Done(SyncSender<()>),
}

static VOICE: OnceLock<Option<SyncSender<Word>>> = OnceLock::new();
static DROPPED: AtomicUsize = AtomicUsize::new(0);
/// Removes the line that the cursor is in.
const CLEAR: &str = "\r\x1b[K";
static IS_READ: LazyLock<bool> = LazyLock::new(|| {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stderr().is_terminal() && !is_dumb
});

fn voice() -> Option<&'static SyncSender<Word>> {
    let start = || {
        let (voice, words) = sync_channel(LINES_MAX);
        let speak = move || {
            let mut has_status = false;
            for word in words {
                let mut text = String::new();
                if has_status && !matches!(word, Word::Done(_)) {
                    text += CLEAR;
                    has_status = false;
                }
                match word {
                    Word::Line(line) => {
                        let dropped = DROPPED.swap(0, Ordering::Relaxed);
                        if dropped > 0 {
                            text += &format!("tenure: {dropped} lines were not written\n");
                        }
                        text += &line;
                        text.push('\n');
                    }
                    Word::Status(line) => {
                        if text.is_empty() {
                            text += CLEAR;
                        }
                        has_status = !line.is_empty();
                        // A line that wraps could not be cleared.
                        let columns = columns(std::io::stderr()).saturating_sub(1);
                        text.extend(line.chars().take(columns));
                    }
                    Word::Done(told) => drop(told),
                }
                // A closed pipe is no reason to complain, and there would be no place to.
                let _ = std::io::stderr().write_all(text.as_bytes());
            }
        };
        std::thread::Builder::new().name("tenure-talk".to_owned()).spawn(speak).ok()?;
        Some(voice)
    };
    VOICE.get_or_init(start).as_ref()
}

/// Whether a person reads it: stderr is a terminal that can clear a line.
pub(crate) fn is_read() -> bool {
    *IS_READ
}

/// Prints a line without waiting. Control characters of names chosen by others cannot reach the terminal.
pub(crate) fn say(line: String) {
    put(Word::Line(visible(&line).into_owned()));
}

/// Prints a line that the next one replaces, on a terminal.
pub(crate) fn status(line: String) {
    match is_read() {
        true => put(Word::Status(visible(&line).into_owned())),
        false => say(line),
    }
}

/// Removes the status before another hand writes to the terminal, and waits until it is gone, for no longer than that.
pub(crate) fn clear_status(patience: Duration) {
    if is_read() {
        put(Word::Status(String::new()));
        finish(patience);
    }
}

fn put(word: Word) {
    match voice() {
        Some(voice) => {
            if voice.try_send(word).is_err() {
                DROPPED.fetch_add(1, Ordering::Relaxed);
            }
        }
        None => {
            if let Word::Line(line) | Word::Status(line) = word {
                drop(writeln!(std::io::stderr(), "{line}"));
            }
        }
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
