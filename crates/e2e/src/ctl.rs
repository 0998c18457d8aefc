//! etcdctl, or our own command, against us or against a real etcd.

use std::{
    io::Write,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{Cluster, Member, eventually, reserve, tools};

/// A client program with its endpoints, and the etcd behind them if it is a real one.
#[derive(Debug)]
pub struct Ctl {
    program: PathBuf,
    endpoints: String,
    etcd: Option<(Child, TempDir)>,
}

/// What a command said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its exit code.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// The error on its standard error, or the last line there without log lines.
    pub err: String,
}

impl Said {
    /// The output of a command that must have worked.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }
}

impl Ctl {
    /// etcdctl 3.5.1 for a cluster of ours.
    pub fn of(cluster: &Cluster) -> Ctl {
        Ctl::to(&cluster.endpoints())
    }

    /// etcdctl 3.5.1 for one member of ours.
    pub fn at(member: &Member) -> Ctl {
        Ctl::to(&member.client.to_string())
    }

    /// etcdctl 3.5.1 for these endpoints.
    pub fn to(endpoints: &str) -> Ctl {
        Ctl { program: tools::installed("etcdctl"), endpoints: endpoints.to_owned(), etcd: None }
    }

    /// Our own command, for one member of ours.
    pub fn ours(member: &Member) -> Ctl {
        Ctl::at(member).with_program(tools::tenure())
    }

    /// Another program with the same flags, for the same endpoints.
    pub fn with_program(&self, program: PathBuf) -> Ctl {
        Ctl { program, endpoints: self.endpoints.clone(), etcd: None }
    }

    /// The program.
    pub fn program(&self) -> PathBuf {
        self.program.clone()
    }

    /// A real single-node etcd 3.5.1, and etcdctl for it.
    pub async fn with_real_etcd() -> Ctl {
        let home = TempDir::with_prefix("tenure-e2e-etcd-").expect("a temporary directory");
        let [client, peer] = reserve(2)[..] else { unreachable!("two were asked for") };
        let log = std::fs::File::create(home.path().join("log")).expect("a log file can be made");
        let child = Command::new(tools::installed("etcd"))
            .args(["--name", "n1", "--data-dir"])
            .arg(home.path().join("data"))
            .args(["--listen-client-urls", &client.url(), "--advertise-client-urls", &client.url()])
            .args(["--listen-peer-urls", &peer.url()])
            .args(["--initial-advertise-peer-urls", &peer.url()])
            .args(["--initial-cluster", &format!("n1={}", peer.url())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd can be started");
        let mut ctl = Ctl::to(&client.to_string());
        ctl.etcd = Some((child, home));
        eventually("etcd is healthy", async || {
            let said = ctl.run(&["endpoint", "health"]);
            if said.code == Some(0) { Ok(()) } else { Err(said.err) }
        })
        .await;
        ctl
    }

    /// The process id of the real etcd, if there is one.
    pub fn etcd_pid(&self) -> Option<u32> {
        self.etcd.as_ref().map(|(etcd, _)| etcd.id())
    }

    /// Where it goes.
    pub fn endpoints(&self) -> &str {
        &self.endpoints
    }

    /// Runs a command.
    pub fn run(&self, args: &[&str]) -> Said {
        self.run_with(args, "")
    }

    /// Runs a command with something on its standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Said {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the client can be started");
        // A command that does not read its input may be gone already.
        let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("the client ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let errors = text(&output.stderr);
        let talk = |line: &&str| !line.starts_with('{') && !line.is_empty();
        Said {
            code: output.status.code(),
            out: text(&output.stdout),
            err: errors
                .lines()
                .find(|line| line.starts_with("Error: "))
                .or_else(|| errors.lines().rfind(talk))
                .unwrap_or_default()
                .to_owned(),
        }
    }

    /// A command that is to be run by the caller, for those that do not end by themselves.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.endpoints, "--command-timeout", "10s"])
            .args(args);
        command
    }
}

impl Drop for Ctl {
    fn drop(&mut self) {
        if let Some((etcd, _)) = &mut self.etcd {
            let _ = etcd.kill();
            let _ = etcd.wait();
        }
    }
}
