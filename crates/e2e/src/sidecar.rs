//! A `tenure sidecar`, and its client.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::TcpStream,
    time::timeout,
};

use crate::{Address, Cluster, Ctl, Posted, eventually, reserve, tools};

/// How long a stream may be silent.
const PATIENCE: Duration = Duration::from_secs(20);

/// The token of an answer that has one.
pub fn token(answer: &Value) -> i64 {
    answer["token"].as_i64().unwrap_or_else(|| panic!("no token in {answer}"))
}

/// A sidecar that runs.
#[derive(Debug)]
pub struct Sidecar {
    /// Its identity, unless it was given another one.
    pub name: String,
    endpoints: String,
    election: String,
    /// Where it answers.
    pub address: Address,
    /// A directory of its own; `status.json` in it is free to use.
    pub home: TempDir,
    log_file: PathBuf,
    process: Child,
}

impl Sidecar {
    /// Starts one under this name, and waits for nothing.
    pub fn start(endpoints: &str, election: &str, name: &str, flags: &[&str]) -> Sidecar {
        let who = ["--election", election, "--identity", name];
        Sidecar::with(endpoints, name, &[&who, flags].concat())
    }

    /// Starts two of which the first, called a, leads; the other is called b. And what a says.
    pub async fn pair(cluster: &Cluster, election: &str, ttl: &str) -> (Sidecar, Sidecar, Value) {
        let start = |name| Sidecar::start(&cluster.endpoints(), election, name, &["--ttl", ttl]);
        let a = start("a");
        let leads = a.leads().await;
        let b = start("b");
        b.follows("a").await;
        (a, b, leads)
    }

    /// Starts one that only looks.
    pub fn observe(endpoints: &str, election: &str, flags: &[&str]) -> Sidecar {
        let what = ["--election", election, "--observe-only"];
        Sidecar::with(endpoints, "observer", &[&what, flags].concat())
    }

    /// Starts one with these flags and no others, but for where it listens. The name is for messages.
    pub fn with(endpoints: &str, name: &str, flags: &[&str]) -> Sidecar {
        let address = reserve(1)[0];
        let given = flags.iter().skip_while(|flag| **flag != "--election").nth(1);
        let election = given.copied().unwrap_or_default().to_owned();
        let home = TempDir::with_prefix("tenure-e2e-sidecar-").expect("a temporary directory");
        let log_file = home.path().join("log");
        let process = Command::new(tools::tenure())
            .current_dir(home.path())
            .args(["--endpoints", endpoints, "sidecar"])
            .args(["--listen", &address.to_string()])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log_file).expect("a log file can be made"))
            .spawn()
            .expect("the sidecar starts");
        let endpoints = endpoints.to_owned();
        Sidecar { name: name.to_owned(), endpoints, election, address, home, log_file, process }
    }

    /// Its status file, if it was started with `--status-file status.json`.
    pub fn status_file(&self) -> PathBuf {
        self.home.path().join("status.json")
    }

    /// What it said.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log_file).unwrap_or_default()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Asks, and must be answered.
    pub async fn ask(&self, path: &str) -> Posted {
        self.send("GET", path, &[]).await
    }

    /// The status of an answer.
    pub async fn status(&self, path: &str) -> u16 {
        self.ask(path).await.status
    }

    /// Any other request.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Posted {
        request(self.address, method, path, headers).await
    }

    /// Waits until it listens.
    pub async fn listens(&self) {
        eventually(&format!("{} listens", self.name), async || {
            TcpStream::connect(self.address.to_string()).await.map(drop).map_err(|e| e.to_string())
        })
        .await;
    }

    /// Waits until `/leader` answers what is wanted.
    pub async fn says(&self, what: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
        self.listens().await;
        eventually(&format!("{} says {what}", self.name), async || {
            let answer = self.ask("/leader").await;
            let body = answer.json();
            if wanted(answer.status, &body) { Ok(body) } else { Err(answer.body) }
        })
        .await
    }

    /// Waits until it leads.
    pub async fn leads(&self) -> Value {
        self.says("that it leads", |_, body| body["is_leader"] == true).await
    }

    /// Waits until it names this leader.
    pub async fn follows(&self, leader: &str) -> Value {
        self.says(leader, |status, body| status == 200 && body["name"] == leader).await
    }

    /// Waits until it is a candidate behind the leader.
    pub async fn waits(&self) {
        let ctl = Ctl::to(&self.endpoints).with_program(tools::tenure());
        eventually(&format!("{} waits", self.name), async || {
            let said = ctl.run(&["candidates", &self.election]).out;
            let line = format!("{}\twaits", self.name);
            if said.lines().any(|one| one.starts_with(&line)) { Ok(()) } else { Err(said) }
        })
        .await;
    }

    /// Begins to listen to `/sse`.
    pub async fn events(&self) -> Events {
        let mut stream = TcpStream::connect(self.address.to_string()).await.expect("it listens");
        let ask = format!("GET /sse HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        stream.write_all(ask.as_bytes()).await.expect("it reads");
        Events { lines: BufReader::new(stream).lines() }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id() as i32).expect("a process id is not 0");
        kill_process(pid, signal).expect("our own child can be signalled");
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.process.wait();
    }

    /// SIGSTOP.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM, and waits for the end.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ends().await
    }

    /// Waits until it ends by itself.
    pub async fn ends(&mut self) -> ExitStatus {
        let name = self.name.clone();
        eventually(&format!("{name} ends"), async || {
            let ended = self.process.try_wait().map_err(|error| error.to_string())?;
            ended.ok_or_else(|| self.log())
        })
        .await
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- log of sidecar {}\n{}", self.name, self.log());
        }
    }
}

/// One request over a connection of its own, to the end of its answer. The headers are these and no others, but
/// for a `Host` that is the address if none is given.
async fn request(address: Address, method: &str, path: &str, headers: &[(&str, &str)]) -> Posted {
    let asked = timeout(PATIENCE, async {
        let mut stream = TcpStream::connect(address.to_string()).await?;
        let mut ask = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            ask += &format!("host: {address}\r\n");
        }
        for (name, value) in headers {
            ask += &format!("{name}: {value}\r\n");
        }
        stream.write_all((ask + "\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    });
    let answer = asked.await.unwrap_or_else(|_| panic!("{path}: no answer within {PATIENCE:?}"));
    let answer = answer.unwrap_or_else(|cause| panic!("{path}: {cause}"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let kind = head.lines().find_map(|line| line.strip_prefix("content-type: "));
    Posted { status, kind: kind.unwrap_or_default().to_owned(), body: body.to_owned() }
}

/// A stream of events.
#[derive(Debug)]
pub struct Events {
    lines: Lines<BufReader<TcpStream>>,
}

impl Events {
    /// The next event, its kind and its data; nothing at the end of the stream.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        let mut kind = String::new();
        loop {
            let line = timeout(PATIENCE, self.lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("nothing but {kind:?}")).ok()??;
            if let Some(named) = line.strip_prefix("event: ") {
                kind = named.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((kind, serde_json::from_str(data).expect("an event is JSON")));
            }
        }
    }

    /// Waits for an event.
    pub async fn until(&mut self, wanted: impl Fn(&str, &Value) -> bool) -> Value {
        let mut seen = Vec::new();
        let found = timeout(PATIENCE, async {
            loop {
                let (kind, data) = self.next().await.expect("the stream goes on");
                if wanted(&kind, &data) {
                    return data;
                }
                seen.push((kind, data));
            }
        });
        let found = found.await.ok();
        found.unwrap_or_else(|| panic!("nothing but {seen:?}"))
    }
}
