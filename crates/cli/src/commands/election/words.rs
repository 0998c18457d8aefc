//! Candidates, tenures and elections, for people and as JSON.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tenure::api::wire::tenure::v1 as pb;

use crate::args::Settings;
use crate::output::{Output, visible};

/// A candidate.
#[derive(Debug, Serialize)]
pub(super) struct Candidate {
    identity: String,
    token: i64,
    session: String,
    value: String,
    holds: bool,
    #[serde(skip_serializing_if = "is_zero")]
    priority: u32,
    unhealthy: bool,
    /// By etcd's API, not by a session.
    stock: bool,
    since_unix_ms: u64,
}

/// What was done to an election, and to which candidate.
#[derive(Debug, Serialize)]
pub(super) struct Deed {
    pub(super) name: String,
    pub(super) done: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<i64>,
}

/// One leader's tenure.
#[derive(Debug, Serialize)]
pub(super) struct Tenure {
    identity: String,
    token: i64,
    value: String,
    from_revision: i64,
    from_unix_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_unix_ms: Option<u64>,
    reason: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl From<pb::Candidate> for Candidate {
    fn from(candidate: pb::Candidate) -> Candidate {
        Candidate {
            session: format!("{:x}", candidate.session),
            value: text(&candidate.value),
            identity: candidate.identity,
            token: candidate.token,
            holds: candidate.holds,
            priority: candidate.priority,
            unhealthy: candidate.unhealthy,
            stock: candidate.stock,
            since_unix_ms: candidate.since_unix_ms,
        }
    }
}

impl From<pb::Tenure> for Tenure {
    fn from(tenure: pb::Tenure) -> Tenure {
        Tenure {
            reason: reason(tenure.reason()),
            value: text(&tenure.value),
            identity: tenure.identity,
            token: tenure.token,
            from_revision: tenure.from_revision,
            from_unix_ms: tenure.from_unix_ms,
            until_unix_ms: (tenure.until_unix_ms > 0).then_some(tenure.until_unix_ms),
        }
    }
}

impl Candidate {
    /// One line for people.
    pub(super) fn election(&self) -> String {
        let does = if self.holds { "leads" } else { "waits" };
        let mut election = format!(
            "{}\t{does}\ttoken {}\tfor {}",
            visible(self.name()),
            self.token,
            age(self.since_unix_ms)
        );
        if !self.value.is_empty() && self.value != self.identity {
            election += &format!("\t{}", visible(&self.value));
        }
        for (is, word) in [(self.unhealthy, "unhealthy"), (self.stock, "by etcd's means")] {
            if is {
                election += &format!("\t{word}");
            }
        }
        election
    }

    fn name(&self) -> &str {
        if self.identity.is_empty() { &self.session } else { &self.identity }
    }
}

impl Tenure {
    /// One line for people.
    pub(super) fn election(&self) -> String {
        let lasted = match self.until_unix_ms {
            Some(until) => span(until.saturating_sub(self.from_unix_ms)),
            None => age(self.from_unix_ms),
        };
        let identity = visible(&self.identity);
        format!("{identity}\ttoken {}\t{lasted}\t{}", self.token, self.reason)
    }
}

/// Why a tenure ended, as people say it.
pub(in crate::commands) fn reason(end: pb::EndReason) -> String {
    match end {
        pb::EndReason::TenureLasts => "lasts".into(),
        other => other.as_str_name().to_lowercase().replace('_', " "),
    }
}

/// How long ago that was.
pub(in crate::commands) fn age(since_unix_ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    if since_unix_ms == 0 { "?".into() } else { span(now.saturating_sub(since_unix_ms)) }
}

fn span(ms: u64) -> String {
    let time = Duration::from_millis(ms);
    match time.as_secs() {
        0 => format!("{ms}ms"),
        secs @ 1..120 => format!("{secs}s"),
        secs @ 120..7200 => format!("{}m", secs / 60),
        secs => format!("{}h", secs / 3600),
    }
}

/// Writes things: a line each for people, one JSON object a line, fields or a table.
pub(in crate::commands) fn write<T: Serialize>(
    settings: &Settings,
    things: impl IntoIterator<Item = T>,
    election: impl Fn(&T) -> String,
) -> anyhow::Result<()> {
    let mut output = Output::stdout(settings);
    output.records(things, election)?;
    Ok(output.flush()?)
}
