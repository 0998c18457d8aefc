//! A terminal that a command writes to, and what is seen on it.
//!
//! It knows the few control codes that our commands use. Any other fails the test: it is not defined yet what it should
//! look like.

use std::{
    fs::File,
    io::Read,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::eventually;

/// A command at a terminal of its own. It does not outlive this.
#[derive(Debug)]
pub struct Screen {
    columns: usize,
    process: Child,
    /// Every byte that came.
    came: Arc<Mutex<Vec<u8>>>,
    reading: Option<JoinHandle<()>>,
}

impl Screen {
    /// Starts a command whose results and talk are shown.
    pub fn of(command: Command, columns: u16) -> Screen {
        Screen::start(command, columns, true)
    }

    /// Starts a command whose talk is shown; its results go where the caller said.
    pub fn of_talk(command: Command, columns: u16) -> Screen {
        Screen::start(command, columns, false)
    }

    fn start(mut command: Command, columns: u16, results: bool) -> Screen {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).expect("the system has terminals");
        grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("it is our own");
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).expect("it is our own");
        let theirs = ptsname(&ours, vec![]).expect("it has a name").into_string();
        let theirs = theirs.expect("it is a number below /dev/pts");
        let theirs = File::options().read(true).write(true).open(theirs).expect("it is unlocked");
        if results {
            command.stdout(theirs.try_clone().expect("a file can be shared"));
        }
        command.stdin(Stdio::null()).stderr(theirs).env_remove("NO_COLOR");
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm");
        }
        let process = command.spawn().unwrap_or_else(|cause| panic!("{command:?}: {cause}"));
        // With it goes our hand on their side: what is read ends when the command has.
        drop(command);
        let came = Arc::new(Mutex::new(vec![]));
        let reading = thread::spawn({
            let came = Arc::clone(&came);
            move || {
                let (mut ours, mut bytes) = (File::from(ours), [0; 4096]);
                // Its end is an error (EIO).
                while let Ok(count @ 1..) = ours.read(&mut bytes) {
                    let mut came = came.lock().expect("nobody panics while holding it");
                    came.extend_from_slice(&bytes[..count]);
                }
            }
        });
        Screen { columns: columns.into(), process, came, reading: Some(reading) }
    }

    /// Everything that was written so far, control codes and all.
    pub fn written(&self) -> String {
        let came = self.came.lock().expect("nobody panics while holding it");
        String::from_utf8_lossy(&came).into_owned()
    }

    /// What is to be seen now, without empty rows at the end.
    pub fn rows(&self) -> Vec<String> {
        rows(&self.written(), self.columns)
    }

    /// Waits until what was written is as wanted.
    pub async fn shows(&self, what: &str, is_wanted: impl Fn(&str) -> bool) {
        eventually(what, async || {
            let written = self.written();
            if is_wanted(&written) { Ok(()) } else { Err(format!("{written:?}")) }
        })
        .await;
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id() as i32).expect("a process id is not 0");
        kill_process(pid, signal).expect("our own child can be signalled");
    }

    /// Waits until the command has ended, and all it wrote is here.
    pub async fn ends(&mut self) -> ExitStatus {
        let status = eventually("the command ends", async || {
            let ended = self.process.try_wait().expect("our own child can be waited for");
            ended.ok_or_else(|| format!("{:?}", self.written()))
        })
        .await;
        let reading = self.reading.take().expect("it ends once");
        reading.join().expect("reading does not fail");
        status
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            eprintln!("--- written to the terminal\n{:?}", self.written());
        }
    }
}

/// What a terminal of this width makes of it.
fn rows(written: &str, columns: usize) -> Vec<String> {
    let mut rows: Vec<Vec<char>> = vec![vec![]];
    let (mut row, mut column) = (0, 0);
    let mut rest = written;
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\x1b[K") {
            rows[row].truncate(column);
            rest = after;
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\r' => column = 0,
            '\n' => row += 1,
            letter if letter.is_control() => panic!("unknown control code in {written:?}"),
            letter => {
                // A full row goes on below, when something comes for it.
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
                if rows.len() == row {
                    rows.push(vec![]);
                }
                // Over what stands there, or behind it.
                let width = rows[row].len().max(column + 1);
                rows[row].resize(width, ' ');
                rows[row][column] = letter;
                column += 1;
            }
        }
        if rows.len() == row {
            rows.push(vec![]);
        }
    }
    let mut rows: Vec<String> = rows.into_iter().map(String::from_iter).collect();
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_written_over_and_cleared_and_a_long_line_takes_two() {
        assert_eq!(rows("one\r\ntwo\r\n", 80), ["one", "two"]);
        assert_eq!(rows("longer\rover", 80), ["overer"]);
        assert_eq!(rows("longer\r\x1b[Kover", 80), ["over"]);
        assert_eq!(rows("half done\r\x1b[K", 80), [""; 0]);
        assert_eq!(rows("12345678", 8), ["12345678"]);
        assert_eq!(rows("123456789\r\x1b[Kdone\r\n", 8), ["12345678", "done"]);
    }
}
