//! A real PostgreSQL, for what protects tables.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_postgres::{Client, Config, NoTls};

use crate::{Address, eventually, reserve, tools};

/// A database server with a data directory of its own.
#[derive(Debug)]
pub struct Postgres {
    address: Address,
    process: Child,
    home: TempDir,
}

impl Postgres {
    /// Makes a data directory and starts a server on it. The server refuses to run as root, so root
    /// starts it as another user.
    pub async fn start() -> Postgres {
        let home = TempDir::with_prefix("tenure-e2e-postgres-").expect("a temporary directory");
        let user = rustix::process::geteuid().is_root().then(nobody_special);
        if let Some((uid, gid)) = user {
            chown(home.path(), Some(uid), Some(gid)).expect("root gives directories away");
        }
        let run = |name: &str, args: &[&str]| {
            let mut command = Command::new(program(name));
            command.args(args).arg("-D").arg(home.path().join("data")).current_dir(home.path());
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command.stdin(Stdio::null());
            command
        };
        let init =
            ["--no-sync", "--auth=trust", "--username=test", "--encoding=UTF8", "--locale=C"];
        let output = run("initdb", &init).output().expect("initdb can be started");
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        let address = reserve(1)[0];
        let (ip, port) = (address.ip.to_string(), address.port.to_string());
        let log = fs::File::create(home.path().join("log")).expect("a log file can be made");
        let serve = ["-h", &ip, "-p", &port, "-c", "unix_socket_directories=", "-c", "fsync=off"];
        let process = run("postgres", &serve)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("postgres can be started");
        let postgres = Postgres { address, process, home };
        eventually("postgres answers", async || {
            let client = postgres.try_connect().await.map_err(|e| postgres.told(&e))?;
            client.simple_query("SELECT 1").await.map(drop).map_err(|e| postgres.told(&e))
        })
        .await;
        postgres
    }

    /// A new connection.
    pub async fn connect(&self) -> Client {
        self.try_connect().await.expect("postgres answers")
    }

    async fn try_connect(&self) -> Result<Client, tokio_postgres::Error> {
        let mut config = Config::new();
        config.host(self.address.ip.to_string()).port(self.address.port);
        let (client, connection) = config.user("test").dbname("postgres").connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    fn told(&self, error: &tokio_postgres::Error) -> String {
        let log = fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
        format!("{error}\n{log}")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT: at once, with all its children. SIGKILL would leave those behind.
        let pid = Pid::from_raw(self.process.id() as i32).expect("a process id is not 0");
        let _ = kill_process(pid, Signal::QUIT);
        let _ = self.process.wait();
    }
}

/// Debian puts the programs of each version into a directory of its own.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> =
        versions.map(|entry| entry.path().join("bin").join(name)).filter(|p| p.exists()).collect();
    found.sort();
    found.pop().unwrap_or_else(|| tools::system(name, "postgresql"))
}

/// A user that is not root: `postgres`, or else `nobody`.
fn nobody_special() -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").expect("a system has users");
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(str::parse);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    ids("postgres").or_else(|| ids("nobody")).expect("the system has the user nobody")
}
