//! One member: a process and its talk.
//!
//! A task of its own has the process from beginning to end. Signals go through it, so that none is
//! ever sent to a process id that has been reaped and may be another process's by now.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::Context;
use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::plan::name;
use super::told::Mouth;
use crate::commands::serve::LEASH;

/// How a member is started.
#[derive(Debug)]
pub(super) struct Recipe<'a> {
    pub(super) at: usize,
    pub(super) home: &'a Path,
    pub(super) initial_cluster: &'a str,
    pub(super) client_url: &'a str,
    pub(super) peer_url: &'a str,
    pub(super) tls_flags: &'a [String],
    pub(super) flags: &'a [String],
}

/// A process that was started and not seen ending.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    signals: mpsc::UnboundedSender<Signal>,
}

/// The process of a member ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) at: usize,
    /// Unknown only if the kernel would not say.
    pub(super) status: Option<ExitStatus>,
}

impl Process {
    /// Starts it. Its end is told to `ends`.
    pub(super) fn start(
        recipe: &Recipe<'_>,
        mouth: Mouth,
        ends: mpsc::UnboundedSender<End>,
    ) -> anyhow::Result<Process> {
        let mut child = command(recipe)?.spawn().context("cannot start tenure serve")?;
        let pid = child.id().context("the process is gone already")?;
        let at = recipe.at;
        if let Some(talk) = child.stderr.take() {
            tokio::spawn(async move {
                let mut lines = BufReader::new(talk).split(b'\n');
                while let Ok(Some(line)) = lines.next_segment().await {
                    mouth.pass_on(at, &String::from_utf8_lossy(&line));
                }
            });
        }
        let (signals, orders) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let status = look_after(child, orders).await;
            let _ = ends.send(End { at, status });
        });
        Ok(Process { pid, signals })
    }

    /// Sends a signal, unless it has ended.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = self.signals.send(signal);
    }
}

async fn look_after(
    mut child: Child,
    mut orders: mpsc::UnboundedReceiver<Signal>,
) -> Option<ExitStatus> {
    loop {
        tokio::select! {
            status = child.wait() => return status.ok(),
            Some(signal) = orders.recv() => {
                let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
                if let Some(pid) = pid {
                    // It may have ended a moment ago; it is not reaped, so the id is still its own.
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
}

fn command(recipe: &Recipe<'_>) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("this program does not know its own path")?;
    let name = name(recipe.at);
    let (client, peer) = (recipe.client_url, recipe.peer_url);
    let mut command = Command::new(program);
    // What is set for clients or for another server must not reach members.
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        if ["TENURE_", "ETCD_", "ETCDCTL_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&variable);
        }
    }
    command
        .args(["serve", "--log-format", "console", "--lab", "--name", &name, "--data-dir"])
        .arg(recipe.home.join(&name))
        .args(["--listen-client-urls", client, "--advertise-client-urls", client])
        .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
        .args(["--initial-cluster", recipe.initial_cluster])
        .args(recipe.tls_flags)
        .args(recipe.flags)
        .env(LEASH, getpid().as_raw_nonzero().to_string())
        // Ctrl-C is for us: we end them in order.
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    Ok(command)
}
