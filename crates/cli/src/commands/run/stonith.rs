//! Cutting off a holder of whom nobody knows whether it has stopped, before taking its place.
//!
//! The lock delay protects against a holder that keeps its promise to stop in time. Against one that
//! cannot (a machine that hangs and comes back, a clock that stood still), and in front of something that
//! cannot check tokens, only cutting it off helps: from power, from the network, from the disk. What
//! does that is not ours: a command, or one of Pacemaker's fence agents. If it fails, we do not lead.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tenure::api::wire::tenure::v1::{self as pb, TenureEnd};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::args::FenceArgs;
use crate::args::Settings;

/// How to cut somebody off.
#[derive(Debug)]
pub(super) struct Stonith {
    command: String,
    options: Vec<String>,
    timeout: Duration,
}

/// Who led before, and did not say that it has stopped.
#[derive(Clone, Debug)]
pub(super) struct Deposed {
    pub(super) identity: String,
    token: i64,
    value: String,
    reason: String,
}

impl Stonith {
    /// What was asked for.
    pub(super) fn new(args: &FenceArgs) -> Option<Stonith> {
        Some(Stonith {
            command: args.fence_cmd.clone()?,
            options: args.fence_option.clone(),
            timeout: args.fence_timeout,
        })
    }

    /// Cuts the holder off. Only success lets us lead.
    pub(super) async fn fence(&self, deposed: &Deposed) -> anyhow::Result<()> {
        let mut child = Command::new("sh")
            .args(["-c", &self.command])
            .env("TENURE_FENCE_IDENTITY", &deposed.identity)
            .env("TENURE_FENCE_TOKEN", deposed.token.to_string())
            .env("TENURE_FENCE_VALUE", &deposed.value)
            .env("TENURE_FENCE_REASON", &deposed.reason)
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start the fence command")?;
        let words = self.words(deposed);
        let mut stdin = child.stdin.take().context("its stdin")?;
        let done = async {
            // One that reads nothing may have ended before this.
            let _ = stdin.write_all(words.as_bytes()).await;
            drop(stdin);
            child.wait().await
        };
        let status = tokio::time::timeout(self.timeout, done)
            .await
            .with_context(|| format!("not done within {:?}", self.timeout))??;
        anyhow::ensure!(status.success(), "{status}");
        Ok(())
    }

    /// What a fence agent reads: one `key=value` per line.
    fn words(&self, deposed: &Deposed) -> String {
        let program = self.command.split_whitespace().next().unwrap_or_default();
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("fence_") {
            return String::new();
        }
        let mut words = vec![
            "action=off".to_owned(),
            format!("plug={}", deposed.identity),
            format!("nodename={}", deposed.identity),
        ];
        for option in &self.options {
            // What was given counts more than what we would say.
            let key = option.split('=').next().unwrap_or_default();
            words.retain(|word| word.split('=').next() != Some(key));
            words.push(option.clone());
        }
        words.join("\n") + "\n"
    }
}

/// Who led before us and did not end properly, if somebody did.
pub(super) async fn deposed(
    settings: &Settings,
    name: &str,
    token: i64,
) -> anyhow::Result<Option<Deposed>> {
    let tenures = settings.client().lines().history(name.to_owned()).await?.tenures;
    let last = tenures.into_iter().filter(|tenure| tenure.token < token).next_back();
    Ok(last.filter(|tenure| !has_stopped(tenure)).map(|tenure| Deposed {
        reason: tenure.reason().as_str_name().to_ascii_lowercase(),
        value: String::from_utf8_lossy(&tenure.value).into_owned(),
        identity: tenure.identity,
        token: tenure.token,
    }))
}

/// Whoever resigns or closes its session says that its work has ended.
fn has_stopped(tenure: &pb::Tenure) -> bool {
    matches!(tenure.reason(), TenureEnd::Resigned | TenureEnd::Closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deposed() -> Deposed {
        Deposed {
            identity: "db-2".into(),
            token: 7,
            value: String::new(),
            reason: "expired".into(),
        }
    }

    fn stonith(command: &str, options: &[&str]) -> Stonith {
        let options = options.iter().map(ToString::to_string).collect();
        Stonith { command: command.into(), options, timeout: Duration::from_secs(10) }
    }

    #[test]
    fn an_agent_is_told_what_to_do_on_its_stdin() {
        let agent = stonith("/usr/sbin/fence_ipmilan -v", &["plug=3", "ip=10.0.0.9"]);
        assert_eq!(agent.words(&deposed()), "action=off\nnodename=db-2\nplug=3\nip=10.0.0.9\n");
        assert_eq!(stonith("./cut-off", &[]).words(&deposed()), "");
    }

    #[tokio::test]
    async fn only_success_is_success() {
        let told = "test \"$TENURE_FENCE_IDENTITY $TENURE_FENCE_TOKEN\" = 'db-2 7'";
        stonith(told, &[]).fence(&deposed()).await.unwrap();
        let failed = stonith("exit 1", &[]).fence(&deposed()).await.unwrap_err();
        assert!(failed.to_string().contains("1"), "{failed}");
    }
}
