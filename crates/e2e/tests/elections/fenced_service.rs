//! A service behind a gate with a file, killed and started again, and on a disk that fails.

use std::{fs, path::Path, process::Command, time::Duration};

use tempfile::TempDir;
use tenure_e2e::{Program, eventually, tools};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(20);

struct Service {
    program: Program,
    address: String,
}

impl Service {
    async fn start(gate: &Path) -> Service {
        Service::from(Command::new(tools::example("fenced_service")).arg(gate)).await
    }

    async fn from(command: &mut Command) -> Service {
        let program = Program::start("service", command);
        let said = program.says("listening on ").await;
        let address = said.strip_prefix("listening on ").unwrap().to_owned();
        Service { program, address }
    }

    /// Sends one request: status and body.
    async fn send(&self, method: &str, token: Option<i64>, body: &str) -> (u16, String) {
        let token = token.map_or(String::new(), |token| format!("fencing-token: {token}\r\n"));
        let length = body.len();
        let request = format!(
            "{method} /value HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{token}\
             content-length: {length}\r\n\r\n{body}"
        );
        let exchange = async {
            let mut stream = TcpStream::connect(&self.address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await.expect("an answer");
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
    }

    async fn put(&self, token: i64, body: &str) -> u16 {
        self.send("PUT", Some(token), body).await.0
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_holder_stays_refused_after_the_service_was_killed() {
    let home = TempDir::new().unwrap();
    let gate = home.path().join("gate");
    for newest in [34, 35, 36] {
        let mut service = Service::start(&gate).await;
        assert_eq!(service.put(newest - 1, "older").await, 200, "nobody newer was here");
        assert_eq!(service.put(newest, "newer").await, 200);
        assert_eq!(service.put(newest - 1, "late").await, 409);
        service.program.kill();
        let service = Service::start(&gate).await;
        let (status, body) = service.send("PUT", Some(newest - 1), "late").await;
        assert_eq!(status, 409, "{body}");
        assert!(body.contains(&format!("\"in_force\":{newest}")), "{body}");
        assert_eq!(service.put(newest, "again").await, 200);
        assert_eq!(service.send("GET", None, "").await, (200, "again".to_owned()));
    }
}

/// How many threads of a process are not traced.
fn untraced(pid: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let status = threads.map(|thread| fs::read_to_string(thread.path().join("status")).unwrap());
    status.filter(|status| status.contains("TracerPid:\t0\n")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn service_whose_disk_fails_lets_nobody_in_until_it_is_started_anew() {
    let home = TempDir::new().unwrap();
    let gate = home.path().join("gate");
    let mut service = Service::start(&gate).await;
    assert_eq!(service.put(7, "good").await, 200);
    let strace = tools::system("strace", "strace");
    let pid = service.program.pid();
    let mut command = Command::new(strace);
    command.args(["-q", "-f", "-o", "/dev/null", "-p", &pid.to_string()]);
    command.args(["-e", "trace=fsync", "-e", "inject=fsync:error=EIO"]);
    let mut tracer = Program::start("strace", &mut command);
    eventually("strace has all threads", async || match untraced(pid) {
        0 => Ok(()),
        threads => Err(format!("{threads} are free")),
    })
    .await;
    let (status, body) = service.send("PUT", Some(8), "lost").await;
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("closed for good"), "{body}");
    tracer.ask_to_stop();
    tracer.ends().await;
    // The disk works again, and the gate does not trust it any more.
    for token in [7, 8, 9] {
        assert_eq!(service.put(token, "no").await, 503);
    }
    assert_eq!(service.send("GET", None, "").await, (200, "good".to_owned()));
    service.program.kill();

    let service = Service::start(&gate).await;
    assert_eq!(service.put(6, "stale").await, 409);
    assert_eq!(service.put(8, "good").await, 200);
    assert_eq!(service.put(7, "stale").await, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn service_on_a_gate_in_use_does_not_start() {
    let home = TempDir::new().unwrap();
    let gate = home.path().join("gate");
    let first = Service::start(&gate).await;
    let mut second =
        Program::start("second", Command::new(tools::example("fenced_service")).arg(&gate));
    assert!(!second.ends().await.success());
    assert_eq!(first.put(1, "good").await, 200);
}
