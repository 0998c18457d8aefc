//! etcdctl, or our own command, against us or against a real etcd.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::{Cluster, Etcd, Member, tools};

/// A client program with its endpoints, and the etcd behind them if it is a real one.
#[derive(Debug)]
pub struct Ctl {
    program: PathBuf,
    endpoints: String,
    /// More flags.
    flags: Vec<String>,
    /// Lives as long as this.
    etcd: Option<Etcd>,
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

    /// The same, as the JSON values that it is.
    pub fn json(self) -> Vec<serde_json::Value> {
        let said = self.ok();
        let values = serde_json::Deserializer::from_str(&said).into_iter();
        values.map(|value| value.unwrap_or_else(|error| panic!("{error}: {said}"))).collect()
    }
}

fn client_flags(member: &Member) -> Vec<String> {
    member.spawn.tls.iter().flat_map(|certs| certs.client_flags()).collect()
}

impl Ctl {
    /// etcdctl 3.5.1 for a cluster of ours.
    pub fn of(cluster: &Cluster) -> Ctl {
        Ctl { flags: client_flags(&cluster.members[0]), ..Ctl::to(&cluster.endpoints()) }
    }

    /// etcdctl 3.5.1 for one member of ours.
    pub fn at(member: &Member) -> Ctl {
        Ctl { flags: client_flags(member), ..Ctl::to(&member.client.to_string()) }
    }

    /// etcdctl 3.5.1 for these endpoints.
    pub fn to(endpoints: &str) -> Ctl {
        let endpoints = endpoints.to_owned();
        Ctl { program: tools::installed("etcdctl"), endpoints, flags: vec![], etcd: None }
    }

    /// Our own command, for one member of ours.
    pub fn ours(member: &Member) -> Ctl {
        Ctl::at(member).with_program(tools::tenure())
    }

    /// Another program with the same flags, for the same endpoints.
    pub fn with_program(&self, program: PathBuf) -> Ctl {
        let (endpoints, flags) = (self.endpoints.clone(), self.flags.clone());
        Ctl { program, endpoints, flags, etcd: None }
    }

    /// The same with other flags in front of each command.
    pub fn with_flags(&self, flags: &[String]) -> Ctl {
        Ctl { flags: flags.to_vec(), ..self.with_program(self.program()) }
    }

    /// The program.
    pub fn program(&self) -> PathBuf {
        self.program.clone()
    }

    /// A real single-node etcd 3.5.1, and etcdctl for it.
    pub async fn with_real_etcd() -> Ctl {
        let etcd = Etcd::start(1).await;
        let mut ctl = Ctl::to(&etcd.endpoints());
        ctl.etcd = Some(etcd);
        ctl
    }

    /// The process id of the real etcd, if there is one.
    pub fn etcd_pid(&self) -> Option<u32> {
        self.etcd.as_ref().and_then(|etcd| etcd.pid(0))
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
            .args(&self.flags)
            .args(args);
        command
    }
}
