//! Lines on stderr, written by a thread that nobody waits for.
//!
//! Whoever should read them may stand still, and a full pipe stops whoever writes to it. That must not
//! be a thread that serves requests. So lines go into a short queue; what does not fit is counted.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// How many lines may wait.
const LINES_WAITING_MAX: usize = 64;
/// How long the last ones are waited for when the process ends.
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);

/// Lines that did not fit.
static LOST: AtomicU64 = AtomicU64::new(0);
static VOICE: OnceLock<SyncSender<Word>> = OnceLock::new();

enum Word {
    Line(String),
    /// Answered when everything before it is written.
    Mark(SyncSender<()>),
}

/// Says a line, unless too many are waiting.
pub(super) fn say(line: &str) {
    if voice().try_send(Word::Line(line.to_owned())).is_err() {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits, not for long, until what was said is written.
pub(super) fn finish() {
    let (mark, written) = sync_channel(1);
    if voice().try_send(Word::Mark(mark)).is_ok() {
        let _ = written.recv_timeout(LAST_WORDS_MAX);
    }
}

fn voice() -> &'static SyncSender<Word> {
    VOICE.get_or_init(|| {
        let (voice, words) = sync_channel(LINES_WAITING_MAX);
        // Without a thread nothing is said, which is better than serving nobody.
        let _ = thread::Builder::new().name("fence-voice".to_owned()).spawn(move || speak(&words));
        voice
    })
}

/// Whoever listened may be gone, and that must not end the proxy.
fn speak(words: &Receiver<Word>) {
    for word in words {
        match word {
            Word::Line(line) => {
                let _ = writeln!(io::stderr(), "{line}");
            }
            Word::Mark(mark) => {
                let _ = mark.try_send(());
            }
        }
        match LOST.swap(0, Ordering::Relaxed) {
            0 => {}
            lost => {
                let _ =
                    writeln!(io::stderr(), "({lost} lines were lost: nobody read them in time)");
            }
        }
    }
}
