//! A command by `sh`, with everything it starts: when its caller stops waiting, all of it is killed.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use crate::args::secret_variables;

/// How often, and for how long each time, killed processes are waited for.
const REAP_TRIES: u32 = 200;
const REAP_PAUSE: Duration = Duration::from_millis(5);

/// A command that runs in a process group of its own.
#[derive(Debug)]
pub(super) struct Shell {
    child: Child,
    group: Option<Pid>,
}

impl Shell {
    /// Starts it.
    pub(super) fn start(command: &str, environment: &[(&str, &str)]) -> io::Result<Shell> {
        let mut shell = Command::new("sh");
        secret_variables().iter().for_each(|name| {
            shell.env_remove(name);
        });
        let child = shell
            .args(["-c", command])
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(Shell { child, group })
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
        let Some(group) = self.group else { return };
        // Whatever it left behind became a child of ours, so the group's number is not reused as long as there is one.
        let left = waitpgid(group, WaitOptions::NOHANG);
        if self.child.id().is_some() || left.is_ok() {
            let _ = kill_process_group(group, Signal::KILL);
            std::thread::spawn(move || reap(group));
        }
    }
}

/// Reaps all killed processes, so that nothing remains of them.
fn reap(group: Pid) {
    for _ in 0..REAP_TRIES {
        match waitpgid(group, WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => std::thread::sleep(REAP_PAUSE),
            Err(_) => return,
        }
    }
}
