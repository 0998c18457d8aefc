//! Whether the command, and the machine it runs on, are well.
//!
//! A leader that is not well gives up the lead; a standby that is not well is no candidate or is passed over. A standby
//! has no command to check, so only the checks that need none are made.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use rustix::fs::statvfs;
use tokio::net::TcpStream;

use super::args::HealthArgs;
use super::shell::Shell;
use super::size::{Size, size};
use crate::exit::usage;
use crate::guardian::rss_bytes;

/// Everything that is looked at.
#[derive(Debug, Default)]
pub(super) struct Health {
    checks: Vec<Check>,
    interval: Duration,
    unhealthy_after: u32,
}

/// Whose health is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Waits, without a command.
    Standby,
    /// Runs the command, below the guardian of this number.
    Leader(u32),
}

#[derive(Debug)]
enum Check {
    Command(String),
    Http(http::Uri),
    Tcp(String),
    MaxRss(Size),
    MinDiskFree(Size, PathBuf),
}

impl Health {
    /// What was asked for.
    pub(super) fn new(args: &HealthArgs) -> anyhow::Result<Health> {
        let mut checks = Vec::new();
        checks.extend(args.health_cmd.clone().map(Check::Command));
        if let Some(url) = &args.health_http {
            let uri: http::Uri = url.parse().with_context(|| format!("--health-http {url}"))?;
            if uri.scheme_str() != Some("http") || uri.host().is_none() {
                return Err(usage(format!(
                    "--health-http {url}: give it as http://host:port/path"
                )));
            }
            checks.push(Check::Http(uri));
        }
        checks.extend(args.health_tcp.clone().map(Check::Tcp));
        checks.extend(args.max_rss.map(Check::MaxRss));
        if let Some(text) = &args.min_disk_free {
            let (free, path) = text.split_once(':').unwrap_or((text, "."));
            let free = size(free).map_err(|e| usage(format!("--min-disk-free: {e}")))?;
            checks.push(Check::MinDiskFree(free, path.into()));
        }
        let (interval, unhealthy_after) = (args.health_interval, args.unhealthy_after);
        Ok(Health { checks, interval, unhealthy_after })
    }

    /// Waits until there were too many failures in a row, and says what the last one was.
    pub(super) async fn unhealthy(&self, role: Role) -> String {
        let mut failures = 0;
        loop {
            tokio::time::sleep(self.interval).await;
            match self.look(role).await {
                Ok(()) => failures = 0,
                Err(what) => {
                    failures += 1;
                    if failures >= self.unhealthy_after {
                        return what;
                    }
                }
            }
        }
    }

    /// Waits until all is well.
    pub(super) async fn healthy(&self) {
        while self.look(Role::Standby).await.is_err() {
            tokio::time::sleep(self.interval).await;
        }
    }

    /// What is wrong now, if something is.
    pub(super) async fn look(&self, role: Role) -> Result<(), String> {
        for check in &self.checks {
            let looked = tokio::time::timeout(self.interval, check.look(role)).await;
            looked.unwrap_or_else(|_| Err(format!("{} took too long", check.name())))?;
        }
        Ok(())
    }
}

impl Check {
    fn name(&self) -> &'static str {
        match self {
            Check::Command(_) => "--health-cmd",
            Check::Http(_) => "--health-http",
            Check::Tcp(_) => "--health-tcp",
            Check::MaxRss(_) => "--max-rss",
            Check::MinDiskFree(..) => "--min-disk-free",
        }
    }

    async fn look(&self, role: Role) -> Result<(), String> {
        let failed = |what: String| Err(format!("{}: {what}", self.name()));
        match (self, role) {
            (Check::Command(command), _) => match by_shell(command, role).await {
                Ok(()) => Ok(()),
                Err(what) => failed(what),
            },
            (Check::MinDiskFree(least, path), _) => match statvfs(path) {
                Ok(disk) => {
                    let free = Size(disk.f_bavail.saturating_mul(disk.f_frsize));
                    let enough = free >= *least;
                    if enough { Ok(()) } else { failed(format!("{free} free, {least} wanted")) }
                }
                Err(error) => failed(format!("{}: {error}", path.display())),
            },
            // What follows needs a command that runs.
            (_, Role::Standby) => Ok(()),
            (Check::Http(uri), _) => match answers(uri).await {
                Ok(status) if status.is_success() || status.is_redirection() => Ok(()),
                Ok(status) => failed(format!("{uri} answers {status}")),
                Err(error) => failed(format!("{uri}: {error:#}")),
            },
            (Check::Tcp(address), _) => match TcpStream::connect(address).await {
                Ok(_) => Ok(()),
                Err(error) => failed(format!("{address}: {error}")),
            },
            (Check::MaxRss(most), Role::Leader(guardian)) => {
                let used = tokio::task::spawn_blocking(move || Size(rss_bytes(guardian))).await;
                match used {
                    Ok(used) if used > *most => failed(format!("{used} in use, {most} allowed")),
                    _ => Ok(()),
                }
            }
        }
    }
}

async fn by_shell(command: &str, role: Role) -> Result<(), String> {
    let role = match role {
        Role::Standby => "standby",
        Role::Leader(_) => "leader",
    };
    let shell = Shell::start(command, &[("TENURE_ROLE", role)]);
    let ended = match shell {
        Ok(mut shell) => shell.ends("").await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("killed by signal {signal}"),
            (None, None) => "failed".to_owned(),
        }),
        Err(error) => Err(error.to_string()),
    }
}

async fn answers(uri: &http::Uri) -> anyhow::Result<http::StatusCode> {
    let host = uri.host().context("no host")?;
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await?;
    let (mut send, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let request = http::Request::get(path)
        .header(http::header::HOST, uri.authority().map_or(host, |a| a.as_str()))
        .body(Empty::<Bytes>::new())?;
    let status = send.send_request(request).await?.status();
    driver.abort();
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(checks: Vec<Check>) -> Health {
        Health { checks, interval: Duration::from_secs(5), unhealthy_after: 1 }
    }

    #[tokio::test]
    async fn health_of_a_standby_leaves_out_its_command() {
        let health = health(vec![Check::Tcp("127.0.0.1:1".into())]);
        assert_eq!(health.look(Role::Standby).await, Ok(()));
        assert!(health.look(Role::Leader(1)).await.is_err());
    }

    #[tokio::test]
    async fn health_says_what_is_wrong() {
        let free = Check::MinDiskFree(Size(u64::MAX), "/".into());
        let said = health(vec![free]).look(Role::Standby).await.unwrap_err();
        assert!(said.starts_with("--min-disk-free: "), "{said}");
        let said = health(vec![Check::Command("exit 7".into())]).look(Role::Standby).await;
        assert_eq!(said, Err("--health-cmd: exit code 7".into()));
    }
}
