//! Cutting off a holder that may not have stopped, before taking over from it.
//!
//! The lock delay protects against a holder that keeps its promise to stop in time. Against one that
//! cannot (a machine that hangs and comes back, a clock that stood still), and in front of something that
//! cannot check tokens, only cutting it off helps: from power, from the network, from the disk. What
//! does that is not ours: a command, or one of Pacemaker's fence agents. If it fails, we do not lead.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tenure::api::wire::tenure::v1::{self as pb, EndReason};

use super::args::FenceArgs;
use super::fence_map::{FenceMap, Target};
use super::shell::Shell;
use crate::args::Settings;

/// How to cut a holder off.
#[derive(Clone, Debug)]
pub(super) struct Stonith {
    command: String,
    options: Vec<String>,
    /// None if an identity is its own target.
    map: Option<FenceMap>,
    timeout: Duration,
}

/// An earlier leader that did not say that it has stopped.
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
            map: args.fence_map.clone(),
            timeout: args.fence_timeout,
        })
    }

    /// Cuts the holder off. Only success lets us lead.
    pub(super) async fn fence(&self, deposed: &Deposed) -> anyhow::Result<()> {
        let token = deposed.token.to_string();
        let (identity, value) = (plain(&deposed.identity), plain(&deposed.value));
        let target = match &self.map {
            None => identity.as_str(),
            Some(map) => match map.target(&deposed.identity) {
                Some(Target::CutOff(target)) => target,
                Some(Target::Nothing) => return Ok(()),
                None => anyhow::bail!("--fence-map does not name {identity:?}"),
            },
        };
        let environment = [
            ("TENURE_FENCE_TARGET", target),
            ("TENURE_FENCE_IDENTITY", &identity),
            ("TENURE_FENCE_TOKEN", &token),
            ("TENURE_FENCE_VALUE", &value),
            ("TENURE_FENCE_REASON", &deposed.reason),
        ];
        let mut shell = Shell::start(&self.command, &environment).context("start --fence-cmd")?;
        let words = self.words(target);
        let status = tokio::time::timeout(self.timeout, shell.ends(&words))
            .await
            .with_context(|| format!("not done within {:?}", self.timeout))??;
        anyhow::ensure!(status.success(), "{status}");
        Ok(())
    }

    /// What a fence agent reads: one `key=value` per line.
    fn words(&self, target: &str) -> String {
        let program = self.command.split_whitespace().next().unwrap_or_default();
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("fence_") {
            return String::new();
        }
        let mut words =
            vec!["action=off".to_owned(), format!("plug={target}"), format!("nodename={target}")];
        for option in &self.options {
            // What was given counts more than what we would say.
            let key = option.split('=').next().unwrap_or_default();
            words.retain(|word| word.split('=').next() != Some(key));
            words.push(option.clone());
        }
        words.join("\n") + "\n"
    }
}

/// Without control characters. A client chooses its identity and value: a line end would be another word to an agent, and a
/// zero byte cannot be passed on at all, so that fencing would fail for ever.
fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control(), "\u{fffd}")
}

/// All leaders before us that did not end properly, newest first, back to the last one that did: that one cut off all
/// that were to be cut off before it began.
pub(super) async fn deposed(
    settings: &Settings,
    name: &str,
    (token, own): (i64, &str),
) -> anyhow::Result<Vec<Deposed>> {
    let history = settings.client().elections().history(name.to_owned()).await?;
    let before = || history.tenures.iter().filter(|tenure| tenure.token < token);
    let known = before().any(has_worked_and_stopped) || history.forgotten == 0;
    anyhow::ensure!(
        known,
        "it may be forgotten who led {name} before what is known ({} tenures that came to nothing); see to it \
         that nobody does, then let somebody lead and resign: tenure elect {name}",
        before().count()
    );
    Ok(unfenced(before().cloned(), own))
}

/// We do not cut ourselves off: what led here before, under the same identity, this machine's guardians saw to.
fn unfenced(tenures: impl DoubleEndedIterator<Item = pb::Tenure>, own: &str) -> Vec<Deposed> {
    let unsure = tenures.rev().take_while(|tenure| !has_worked_and_stopped(tenure));
    let stopped = [EndReason::Unhealthy, EndReason::TenureLasts];
    let deposed = unsure.filter(|tenure| !stopped.contains(&tenure.reason()));
    deposed
        .filter(|tenure| tenure.identity != own)
        .map(|tenure| Deposed {
            reason: tenure.reason().as_str_name().to_ascii_lowercase(),
            value: String::from_utf8_lossy(&tenure.value).into_owned(),
            identity: tenure.identity,
            token: tenure.token,
        })
        .collect()
}

/// A leader that resigns says that its work has ended, and a guardian says so after the fact. A leader that steps down
/// as unhealthy has stopped too, but may have done so because it could not cut an earlier one off.
fn has_worked_and_stopped(tenure: &pb::Tenure) -> bool {
    tenure.stopped && tenure.reason() != EndReason::Unhealthy
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
        Stonith { command: command.into(), options, map: None, timeout: Duration::from_secs(10) }
    }

    #[test]
    fn stonith_fences_holders_whose_stop_was_not_confirmed() {
        let ended = |(identity, reason, stopped): &(&str, EndReason, bool)| pb::Tenure {
            identity: (*identity).into(),
            reason: (*reason).into(),
            stopped: *stopped,
            ..Default::default()
        };
        let who = |tenures: &[(&str, EndReason, bool)]| -> Vec<String> {
            let tenures: Vec<_> = tenures.iter().map(ended).collect();
            unfenced(tenures.into_iter(), "me")
                .into_iter()
                .map(|deposed| deposed.identity)
                .collect()
        };
        use EndReason::{Evicted, Expired, Resigned, Transferred, Unhealthy};
        assert_eq!(who(&[("a", Expired, false), ("b", Resigned, true)]), [""; 0]);
        assert_eq!(who(&[("a", Resigned, true), ("b", Expired, false)]), ["b"]);
        // Handed over in time, or taken over when the time was up; evicted, and stopped as its guardian says.
        assert_eq!(who(&[("a", Transferred, true)]), [""; 0]);
        assert_eq!(who(&[("a", Transferred, false)]), ["a"]);
        assert_eq!(who(&[("a", Evicted, true)]), [""; 0]);
        // No process cuts itself off.
        assert_eq!(who(&[("a", Expired, false), ("me", Expired, false)]), ["a"]);
        // b could not cut a off, and stepped aside.
        assert_eq!(who(&[("a", Expired, false), ("b", Unhealthy, true)]), ["a"]);
        let all = [
            ("z", Expired, false),
            ("y", Resigned, true),
            ("a", Evicted, false),
            ("b", Expired, false),
        ];
        assert_eq!(who(&all), ["b", "a"]);
    }

    #[test]
    fn stonith_tells_an_agent_on_its_stdin_what_to_do() {
        let agent = stonith("/usr/sbin/fence_ipmilan -v", &["plug=3", "ip=10.0.0.9"]);
        assert_eq!(agent.words("db-2"), "action=off\nnodename=db-2\nplug=3\nip=10.0.0.9\n");
        assert_eq!(stonith("./cut-off", &[]).words("db-2"), "");
    }

    /// What the last client said of itself, as the agent sees it.
    #[tokio::test]
    async fn stonith_passes_no_control_characters_on() {
        let dir = tempfile::tempdir().unwrap();
        let agent = dir.path().join("fence_test");
        let read = dir.path().join("read");
        let script = format!(
            "#!/bin/sh\ncat > {0}; printf '%s|%s' \"$TENURE_FENCE_IDENTITY\" \"$TENURE_FENCE_VALUE\" >> {0}\n",
            read.display()
        );
        std::fs::write(&agent, script).unwrap();
        let command = format!("sh {}", agent.display());
        let hostile = Deposed {
            identity: "x\nplug=victim\nipmitool_path=/tmp/evil\0".into(),
            value: "a\0b\r\n".into(),
            ..deposed()
        };
        // Its name is what makes it an agent.
        let as_agent = stonith(agent.to_str().unwrap(), &[]);
        let words = as_agent.words(&plain(&hostile.identity));
        let keys: Vec<_> = words.lines().map(|line| line.split('=').next().unwrap()).collect();
        assert_eq!(keys, ["action", "plug", "nodename"]);
        stonith(&command, &[]).fence(&hostile).await.expect("a zero byte is no obstacle");
        let passed = std::fs::read_to_string(read).unwrap();
        assert!(!passed.contains(['\0', '\n', '\r']), "{passed:?}");
        assert!(passed.contains("victim"), "{passed:?}");
    }

    #[tokio::test]
    async fn stonith_cuts_off_what_its_map_lists_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        std::fs::write(&path, "db-2 rack-7\ntest-1 -\n").unwrap();
        let map = FenceMap::load(path.to_str().unwrap()).unwrap();
        let command = "test \"$TENURE_FENCE_TARGET\" = rack-7";
        let mapped = Stonith { map: Some(map), ..stonith(command, &[]) };
        let named = |identity: &str| Deposed { identity: identity.into(), ..deposed() };
        mapped.fence(&named("db-2")).await.unwrap();
        mapped.fence(&named("test-1")).await.expect("there is nothing to cut off");
        let unknown = mapped.fence(&named("victim")).await.unwrap_err();
        assert!(unknown.to_string().contains("--fence-map does not name"), "{unknown}");
    }

    #[tokio::test]
    async fn stonith_takes_only_success_for_success() {
        let told = "test \"$TENURE_FENCE_IDENTITY $TENURE_FENCE_TOKEN\" = 'db-2 7'";
        stonith(told, &[]).fence(&deposed()).await.unwrap();
        let failed = stonith("exit 1", &[]).fence(&deposed()).await.unwrap_err();
        assert!(failed.to_string().contains("1"), "{failed}");
    }
}
