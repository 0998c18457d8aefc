//! Real etcd 3.5.1 processes, to compare with and to be as cruel to.

use std::{
    ffi::OsString,
    fs::File,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{Address, Ctl, eventually, reserve, tools};

/// A cluster of etcd. No process outlives it.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<EtcdMember>,
    /// More for every member.
    flags: Vec<String>,
    home: TempDir,
}

#[derive(Debug)]
struct EtcdMember {
    name: String,
    client: Address,
    peer: Address,
    data_dir: PathBuf,
    /// A command in front of etcd.
    before: Vec<OsString>,
    process: Option<Child>,
}

impl Etcd {
    /// Starts so many members and waits until they are healthy.
    pub async fn start(count: usize) -> Etcd {
        Etcd::with(count, &[]).await
    }

    /// The same with more flags.
    pub async fn with(count: usize, flags: &[&str]) -> Etcd {
        let mut etcd = Etcd::prepare(count);
        etcd.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        (0..count).for_each(|at| etcd.start_member(at));
        etcd.healthy().await;
        etcd
    }

    /// Members that are not started.
    pub fn prepare(count: usize) -> Etcd {
        let free = reserve(2 * count);
        Etcd::prepare_at(free.chunks(2).map(|pair| (pair[0], pair[1], vec![])))
    }

    /// Members that are not started, each with where it serves clients, where it meets other members, and a command
    /// in front of it, which must replace itself with etcd, so that signals arrive.
    pub fn prepare_at(places: impl Iterator<Item = (Address, Address, Vec<OsString>)>) -> Etcd {
        let home = TempDir::with_prefix("tenure-e2e-etcd-").expect("a temporary directory");
        let members = places.enumerate().map(|(at, (client, peer, before))| {
            let name = format!("n{}", at + 1);
            let data_dir = home.path().join(&name);
            EtcdMember { name, client, peer, data_dir, before, process: None }
        });
        Etcd { members: members.collect(), flags: vec![], home }
    }

    /// All members, as `--initial-cluster` has them.
    pub fn initial_cluster(&self) -> String {
        let all =
            self.members.iter().map(|member| format!("{}={}", member.name, member.peer.url()));
        all.collect::<Vec<_>>().join(",")
    }

    /// Starts one member on what its data directory holds.
    pub fn start_member(&mut self, at: usize) {
        let initial = self.initial_cluster();
        let member = &mut self.members[at];
        let log = self.home.path().join(format!("{}.log", member.name));
        let log = File::options().create(true).append(true).open(log).expect("a log file");
        let mut argv = member.before.clone();
        argv.push(tools::installed("etcd").into());
        let child = Command::new(&argv[0])
            .args(&argv[1..])
            .args(["--name", &member.name, "--data-dir"])
            .arg(&member.data_dir)
            .args(["--listen-client-urls", &member.client.url()])
            .args(["--advertise-client-urls", &member.client.url()])
            .args(["--listen-peer-urls", &member.peer.url()])
            .args(["--initial-advertise-peer-urls", &member.peer.url()])
            .args(["--initial-cluster", &initial])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        member.process = Some(child.expect("etcd can be started"));
    }

    /// The process of a member that runs.
    pub fn pid(&self, at: usize) -> Option<u32> {
        self.members[at].process.as_ref().map(Child::id)
    }

    /// Waits until every member commits what it is given.
    pub async fn healthy(&self) {
        let ctl = Ctl::to(&self.endpoints());
        eventually("etcd is healthy", async || {
            let said = ctl.run(&["endpoint", "health"]);
            if said.code == Some(0) { Ok(()) } else { Err(said.err) }
        })
        .await;
    }

    /// All client addresses, separated by commas.
    pub fn endpoints(&self) -> String {
        let all: Vec<_> = self.members.iter().map(|member| member.client.to_string()).collect();
        all.join(",")
    }

    /// Where one member serves clients.
    pub fn client(&self, at: usize) -> Address {
        self.members[at].client
    }

    /// Makes the data directory of a member that does not run, of a file that `snapshot save` wrote.
    pub fn restore(&self, at: usize, file: &str) {
        let member = &self.members[at];
        let said = Ctl::to("").run(&[
            "snapshot",
            "restore",
            file,
            "--name",
            &member.name,
            "--data-dir",
            member.data_dir.to_str().expect("a path of ours is text"),
            "--initial-cluster",
            &self.initial_cluster(),
            "--initial-advertise-peer-urls",
            &member.peer.url(),
        ]);
        said.ok();
    }

    /// kill -9.
    pub fn kill(&mut self, at: usize) {
        let mut process = self.members[at].process.take().expect("the member runs");
        process.kill().expect("our own child can be killed");
        let _ = process.wait();
    }

    /// SIGSTOP.
    pub fn pause(&self, at: usize) {
        self.signal(at, Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self, at: usize) {
        self.signal(at, Signal::CONT);
    }

    fn signal(&self, at: usize, signal: Signal) {
        let id = self.members[at].process.as_ref().expect("the member runs").id();
        let pid = Pid::from_raw(id as i32).expect("a process id is not 0");
        kill_process(pid, signal).expect("our own child can be signalled");
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(process) = &mut member.process {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}
