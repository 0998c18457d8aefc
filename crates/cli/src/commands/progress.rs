//! One line of progress on stderr, if that is a terminal.

use std::env;
use std::io::{IsTerminal, Write, stderr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;

use crate::output::size;

/// How often the line is drawn, at most; once more when all is done.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// A line that is drawn again and again.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    is_watched: bool,
    started: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    /// Nothing is drawn unless stderr is a terminal that can clear a line.
    pub(crate) fn new(what: &'static str) -> Progress {
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_watched = stderr().is_terminal() && !is_dumb;
        Progress { what, is_watched, started: Instant::now(), drawn: None }
    }

    /// So many bytes are done, of so many if that is known.
    pub(crate) fn at(&mut self, done: u64, total: Option<u64>) {
        let now = Instant::now();
        let is_due = self.drawn.is_none_or(|drawn| now - drawn >= DRAW_INTERVAL)
            || total.is_some_and(|total| done >= total);
        if self.is_watched && is_due {
            self.drawn = Some(now);
            let mut line = line(self.what, done, total, self.started.elapsed());
            // What does not fit would go on in a second row, and only that one would be cleared.
            line.truncate(columns(stderr()).saturating_sub(1));
            // A failed write loses nothing.
            let _ = write!(stderr(), "\r\x1b[K{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// How wide a terminal is now; as wide as it likes if it does not know, or is none.
pub(crate) fn columns(terminal: impl AsFd) -> usize {
    let size = tcgetwinsize(terminal);
    size.ok().filter(|size| size.ws_col > 0).map_or(usize::MAX, |size| size.ws_col.into())
}

/// In ASCII: as many columns as bytes.
fn line(what: &str, done: u64, total: Option<u64>, took: Duration) -> String {
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    let rate = format!("{}/s", size(rate as i64));
    match total {
        Some(total) => {
            let percent = done.min(total) * 100 / total.max(1);
            let bar = "#".repeat(percent as usize / 5);
            format!(
                "{what} [{bar:<20}] {percent:>3} %  {} of {}  {rate}",
                size(done as i64),
                size(total as i64)
            )
        }
        None => format!("{what}  {}  {rate}", size(done as i64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_tells_how_much_and_how_fast() {
        let second = Duration::from_secs(1);
        assert_eq!(line("saving", 2_000_000, None, second), "saving  2.0 MB  2.0 MB/s");
        assert_eq!(
            line("reading", 50, Some(200), second),
            "reading [#####               ]  25 %  50 B of 200 B  50 B/s"
        );
        assert!(line("reading", 3, Some(0), Duration::ZERO).contains("  0 %"));
        assert!(line("reading", 1 << 50, Some(1 << 50), second).is_ascii());
    }
}
