//! One member: a process, its log, its data.

use std::{
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tenure::grpc::{Client, Credentials, Endpoint, Options};

use crate::{Address, Certs, eventually, tools};

/// Lines of a member's log that a failed test prints.
const LOG_LINES_SHOWN: usize = 40;
/// How long a process may take to end by itself.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// How a process is started.
#[derive(Clone, Debug, Default)]
pub struct Spawn {
    /// A command in front of ours; it must replace itself with ours, so that signals arrive.
    pub before: Vec<OsString>,
    /// More environment.
    pub env: Vec<(OsString, OsString)>,
    /// More flags.
    pub flags: Vec<String>,
    /// Clients speak TLS and show certificates.
    pub tls: Option<Arc<Certs>>,
    /// Members speak TLS with each other.
    pub peer_tls: Option<Arc<Certs>>,
    /// What clients log in with.
    pub credentials: Option<Credentials>,
}

impl Spawn {
    /// Where members meet one that is started so.
    pub fn peer_url(&self, at: Address) -> String {
        if self.peer_tls.is_some() { at.https() } else { at.url() }
    }

    /// How clients reach what is started so.
    pub fn options(&self) -> Options {
        let options = self.tls.as_ref().map_or_else(Options::default, |certs| certs.options());
        Options { credentials: self.credentials.clone(), ..options }
    }
}

/// One member of a cluster.
#[derive(Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where it serves clients.
    pub client: Address,
    /// Where it meets other members.
    pub peer: Address,
    /// Where it listens for other members, if it was moved since it was made.
    pub moved_to: Option<Address>,
    /// Its data.
    pub data_dir: PathBuf,
    /// What it logged, over all its lives.
    pub log_file: PathBuf,
    /// How it is started next time.
    pub spawn: Spawn,
    initial_cluster: String,
    process: Option<Child>,
}

impl Member {
    /// A member that is not started yet.
    pub fn new(name: &str, home: &Path, client: Address, peer: Address, cluster: &str) -> Member {
        Member {
            name: name.to_owned(),
            client,
            peer,
            moved_to: None,
            data_dir: home.join(name),
            log_file: home.join(format!("{name}.log")),
            spawn: Spawn::default(),
            initial_cluster: cluster.to_owned(),
            process: None,
        }
    }

    /// All members the cluster starts with, as `--initial-cluster` has them.
    pub fn initial_cluster(&self) -> &str {
        &self.initial_cluster
    }

    /// Says something else in `--initial-cluster` from the next start on.
    pub fn set_initial_cluster(&mut self, members: &str) {
        self.initial_cluster = members.to_owned();
    }

    /// Starts the process. Does not wait for anything.
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "{} runs already", self.name);
        let log = File::options().create(true).append(true).open(&self.log_file);
        let log = log.expect("a log file can be made");
        let mut argv = self.spawn.before.clone();
        argv.push(tools::tenure().into());
        let mut command = Command::new(&argv[0]);
        let host = self.client.ip.to_string();
        let tls = self.spawn.tls.iter();
        let tls = tls.flat_map(|certs| certs.server_flags(&self.name, std::slice::from_ref(&host)));
        let peer_tls = self.spawn.peer_tls.iter();
        let peer_tls =
            peer_tls.flat_map(|certs| certs.peer_flags(&self.name, std::slice::from_ref(&host)));
        let peer_url = |at: Address| self.spawn.peer_url(at);
        command
            .args(&argv[1..])
            .args(["serve", "--log-format", "console", "--name", &self.name])
            .arg("--data-dir")
            .arg(&self.data_dir)
            .args(["--listen-client-urls", &self.client_url()])
            .args(["--advertise-client-urls", &self.client_url()])
            .args(tls)
            .args(["--listen-peer-urls", &peer_url(self.moved_to.unwrap_or(self.peer))])
            .args(["--initial-advertise-peer-urls", &peer_url(self.peer)])
            .args(peer_tls)
            .args(["--initial-cluster", &self.initial_cluster])
            .args(&self.spawn.flags)
            .envs(self.spawn.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log);
        let child = command.spawn();
        self.process = Some(child.unwrap_or_else(|cause| panic!("cannot start {argv:?}: {cause}")));
    }

    /// Waits until it knows a raft leader.
    pub async fn ready(&mut self) {
        let client = self.client();
        let name = self.name.clone();
        eventually(&format!("{name} ready"), async || {
            if let Some(status) = self.ended() {
                panic!("{name} ended with {status}:\n{}", self.log());
            }
            let status = client.maintenance().status().await.map_err(|error| error.to_string())?;
            if status.leader == 0 { Err("no leader".to_owned()) } else { Ok(()) }
        })
        .await;
    }

    /// Where it serves clients, as a URL.
    pub fn client_url(&self) -> String {
        if self.spawn.tls.is_some() { self.client.https() } else { self.client.url() }
    }

    /// A client of this member alone.
    pub fn client(&self) -> Client {
        let endpoint: Endpoint = self.client.to_string().parse().expect("an address");
        Client::new(vec![endpoint], self.spawn.options())
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the member runs").id()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a process id is not 0");
        kill_process(pid, signal).expect("our own child can be signalled");
    }

    /// Makes its data directory of a backup (`tenure snapshot restore`).
    pub fn restore(&self, file: &Path) -> Output {
        Command::new(tools::tenure())
            .args(["snapshot", "restore", "--name", &self.name, "-w", "json"])
            .arg(file)
            .arg("--data-dir")
            .arg(&self.data_dir)
            .args(["--initial-cluster", &self.initial_cluster])
            .args(["--initial-advertise-peer-urls", &self.peer.url()])
            .stdin(Stdio::null())
            .output()
            .expect("our command runs")
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.process.take().expect("the member runs").wait();
    }

    /// SIGSTOP: it neither runs nor dies.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM; does not wait.
    pub fn ask_to_stop(&self) {
        self.signal(Signal::TERM);
    }

    /// SIGTERM, and waits for the end.
    pub async fn stop(&mut self) -> ExitStatus {
        self.ask_to_stop();
        self.wait_for_end().await
    }

    /// Waits until the process ends by itself.
    pub async fn wait_for_end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + END_PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.ended() {
                self.process = None;
                return status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{} did not end", self.name)
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut()?.try_wait().expect("our own child can be waited for")
    }

    /// Whether the process was started and not seen ending.
    pub fn runs(&mut self) -> bool {
        self.process.is_some() && self.ended().is_none()
    }

    /// Everything it printed and logged.
    pub fn log(&self) -> String {
        let log = fs::read(&self.log_file).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Waits for a piece of text in the log.
    pub async fn logs(&self, text: &str) -> String {
        eventually(&format!("{} logs {text:?}", self.name), async || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains(text)).map(str::to_owned);
            line.ok_or(log)
        })
        .await
    }

    /// Files of a kind below the data directory, sorted.
    pub fn files(&self, folder: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.data_dir.join(folder)) else { return vec![] };
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        files
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            let from = lines.len().saturating_sub(LOG_LINES_SHOWN);
            eprintln!("--- log of {} ({} lines)", self.name, lines.len());
            eprintln!("{}", lines[from..].join("\n"));
        }
    }
}
