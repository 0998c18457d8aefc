//! The file with the jobs.
//!
//! ```yaml
//! election: night-shift
//! time-zone: Europe/Berlin
//! jobs:
//!   backup:
//!     cron: "0 3 * * *"
//!     command: [/usr/local/bin/backup, --full]
//!     timeout: 2h
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use serde::Deserialize;
use tenure::ElectionName;

use crate::args::duration;
use crate::exit::usage;
use crate::jobs::{Delivery, Slots, Timetable};

/// How long slots are remembered, unless the file says otherwise.
const KEEP: Duration = Duration::from_secs(7 * 86400);
/// A slot that begins so late was missed, unless the file says otherwise.
const LATE_AFTER: Duration = Duration::from_secs(60);
/// Slots are remembered for as many periods: a leader must find the last one, or would take the next for missed.
const KEEP_PERIODS: u32 = 3;

/// The jobs of a schedule.
#[derive(Debug)]
pub(super) struct File {
    pub(super) election: ElectionName,
    pub(super) jobs: Vec<Job>,
}

/// One job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) timetable: Timetable,
    pub(super) command: Vec<OsString>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) delivery: Delivery,
    pub(super) missed: Missed,
    pub(super) late_after: Duration,
    pub(super) overlap: Overlap,
    pub(super) timeout: Option<Duration>,
    pub(super) jitter: Duration,
    pub(super) retries: u32,
    pub(super) keep: Duration,
}

/// What becomes of slots whose time passed while nothing could start them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Missed {
    /// They are not run.
    #[default]
    Skip,
    /// The last of them is run.
    RunOnce,
    /// All are run, oldest first, one at a time.
    RunAll,
}

/// What becomes of a slot that is due while an earlier one of the same job still runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Overlap {
    /// It is skipped.
    #[default]
    Forbid,
    /// It is run afterwards.
    Queue,
    /// It is run beside it.
    Allow,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Page {
    election: String,
    #[serde(default)]
    time_zone: Option<String>,
    #[serde(default)]
    keep: Option<String>,
    jobs: BTreeMap<String, Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    #[serde(default)]
    cron: Option<String>,
    #[serde(default)]
    every: Option<String>,
    #[serde(default)]
    time_zone: Option<String>,
    command: Command,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    guarantee: Guarantee,
    #[serde(default)]
    missed: Missed,
    #[serde(default)]
    late_after: Option<String>,
    #[serde(default)]
    overlap: Overlap,
    #[serde(default)]
    timeout: Option<String>,
    #[serde(default)]
    jitter: Option<String>,
    #[serde(default)]
    retries: u32,
}

/// A list is a program with its arguments, a text is for `sh`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Command {
    Words(Vec<String>),
    Shell(String),
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Guarantee {
    #[default]
    AtMostOnce,
    AtLeastOnce,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// Says all that is wrong with it, at once.
    pub(super) fn read(path: &Path) -> anyhow::Result<File> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let is_toml = path.extension().is_some_and(|extension| extension == "toml");
        File::parse(&text, is_toml).map_err(|error| usage(format!("{}: {error}", path.display())))
    }

    fn parse(text: &str, is_toml: bool) -> Result<File, String> {
        let page: Page = match is_toml {
            true => toml::from_str(text).map_err(|error| error.to_string())?,
            false => serde_saphyr::from_str(text).map_err(|error| error.to_string())?,
        };
        let mut wrong = Vec::new();
        let keep = read(page.keep.as_deref(), "keep", &mut wrong).unwrap_or(KEEP);
        let election = ElectionName::try_from(page.election.clone())
            .map_err(|error| wrong.push(format!("election: {error}")))
            .ok();
        if page.jobs.is_empty() {
            wrong.push("jobs: there is none".to_owned());
        }
        let zone = page.time_zone.as_deref();
        let jobs: Vec<Job> = page
            .jobs
            .into_iter()
            .filter_map(|(name, entry)| entry.job(name, zone, keep, &mut wrong))
            .collect();
        match (election, wrong.is_empty()) {
            (Some(election), true) => Ok(File { election, jobs }),
            _ => Err(wrong.join("\n  ")),
        }
    }
}

impl Entry {
    fn job(
        self,
        name: String,
        zone: Option<&str>,
        keep: Duration,
        wrong: &mut Vec<String>,
    ) -> Option<Job> {
        let mut mistakes = Vec::new();
        if let Err(error) = Slots::check_name(&name) {
            mistakes.push(error);
        }
        let zone = self.time_zone.as_deref().or(zone);
        let timetable = match (&self.cron, &self.every) {
            (Some(pattern), None) => {
                Timetable::cron(pattern, zone).map_err(|e| mistakes.push(format!("cron: {e}"))).ok()
            }
            (None, Some(period)) => duration(period)
                .and_then(Timetable::every)
                .map_err(|e| mistakes.push(format!("every: {e}")))
                .ok(),
            _ => {
                mistakes.push("when? give cron or every, one of them".to_owned());
                None
            }
        };
        let command: Vec<OsString> = match self.command {
            Command::Words(words) => words.into_iter().map(OsString::from).collect(),
            Command::Shell(text) => vec!["sh".into(), "-c".into(), text.into()],
        };
        if command.is_empty() || command[0].is_empty() {
            mistakes.push("command: there is none".to_owned());
        }
        let reserved = self.environment.keys().find(|key| key.starts_with("TENURE_"));
        if let Some(key) = reserved {
            mistakes.push(format!("environment: {key} is set by tenure"));
        }
        let late_after = read(self.late_after.as_deref(), "late-after", &mut mistakes);
        let timeout = read(self.timeout.as_deref(), "timeout", &mut mistakes);
        let jitter = read(self.jitter.as_deref(), "jitter", &mut mistakes).unwrap_or_default();
        wrong.extend(mistakes.iter().map(|mistake| format!("jobs.{name}: {mistake}")));
        let timetable = timetable.filter(|_| mistakes.is_empty())?;
        let keep = keep.max(timetable.period(Timestamp::now()) * KEEP_PERIODS);
        Some(Job {
            name,
            timetable,
            command,
            environment: self.environment,
            delivery: match self.guarantee {
                Guarantee::AtMostOnce => Delivery::AtMostOnce,
                Guarantee::AtLeastOnce => Delivery::AtLeastOnce,
            },
            missed: self.missed,
            late_after: late_after.unwrap_or(LATE_AFTER) + jitter,
            overlap: self.overlap,
            timeout,
            jitter,
            retries: self.retries,
            keep,
        })
    }
}

fn read(text: Option<&str>, what: &str, wrong: &mut Vec<String>) -> Option<Duration> {
    duration(text?).map_err(|error| wrong.push(format!("{what}: {error}"))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "\
election: night-shift
time-zone: Europe/Berlin
jobs:
  backup:
    cron: \"0 3 * * *\"
    command: [/usr/local/bin/backup, --full]
    timeout: 2h
    missed: run-once
    guarantee: at-least-once
  tidy:
    every: 15m
    command: rm -f /tmp/old-*
    overlap: queue
    jitter: 10s
";

    const TOML: &str = r#"
election = "night-shift"
time-zone = "Europe/Berlin"
[jobs.backup]
cron = "0 3 * * *"
command = ["/usr/local/bin/backup", "--full"]
timeout = "2h"
missed = "run-once"
guarantee = "at-least-once"
[jobs.tidy]
every = "15m"
command = "rm -f /tmp/old-*"
overlap = "queue"
jitter = "10s"
"#;

    #[test]
    fn file_says_the_same_as_yaml_and_as_toml() {
        let yaml = File::parse(YAML, false).unwrap();
        let toml = File::parse(TOML, true).unwrap();
        assert_eq!(format!("{yaml:?}"), format!("{toml:?}"));
        let [backup, tidy] = &yaml.jobs[..] else { panic!("{yaml:?}") };
        assert_eq!((backup.missed, backup.delivery), (Missed::RunOnce, Delivery::AtLeastOnce));
        assert_eq!(tidy.command, ["sh", "-c", "rm -f /tmp/old-*"]);
        assert_eq!(tidy.late_after, Duration::from_secs(70));
    }

    #[test]
    fn file_with_mistakes_is_refused_with_all_of_them() {
        let text = "election: a\njobs:\n  b: {command: x, cron: often}\n  c: {command: [], every: 1s5}\n  d: {command: x}\n";
        let error = File::parse(text, false).unwrap_err();
        for wanted in ["jobs.b: cron:", "jobs.c: every:", "jobs.c: command:", "jobs.d: when?"] {
            assert!(error.contains(wanted), "{wanted} in {error}");
        }
        let error = File::parse("election: a\njobs:\n  b:\n    command: x\n    crno: x\n", false);
        let error = error.unwrap_err();
        assert!(error.contains("crno") && error.contains("line 5"), "{error}");
    }

    #[test]
    fn file_keeps_slots_for_three_periods_at_least() {
        let text = "election: a\njobs: {b: {command: x, cron: '0 3 1 * *'}}\n";
        let file = File::parse(text, false).unwrap();
        assert!(file.jobs[0].keep >= Duration::from_secs(3 * 28 * 86400));
    }
}
