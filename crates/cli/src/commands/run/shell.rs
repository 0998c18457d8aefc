//! A command by `sh`, with everything it starts: when nobody waits for it any more, all of it is killed.

use std::io;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

/// A command that runs in a process group of its own.
#[derive(Debug)]
pub(super) struct Shell {
    child: Child,
}

impl Shell {
    /// Starts it.
    pub(super) fn start(command: &str, environment: &[(&str, &str)]) -> io::Result<Shell> {
        let child = Command::new("sh")
            .args(["-c", command])
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok(Shell { child })
    }

    /// Gives it something to read, and waits for its end.
    pub(super) async fn ends(&mut self, input: &str) -> io::Result<ExitStatus> {
        if let Some(mut stdin) = self.child.stdin.take() {
            // One that reads nothing may have ended before this.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        self.child.wait().await
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The number is known only while nobody has heard of its end, so it is nobody else's.
        let number = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = number.and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
