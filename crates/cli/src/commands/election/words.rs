//! Candidates, tenures and elections, for people and as JSON.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde::Serialize;
use tenure::api::wire::tenure::v1 as pb;

use crate::args::Settings;
use crate::jobs::utc;
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
    /// When it joined, leading or waiting.
    since_unix_ms: u64,
    #[serde(flatten)]
    times: Times,
}

/// How long a candidate has led, and how long it has waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct Times {
    /// When it began to lead; absent if it does not lead.
    #[serde(skip_serializing_if = "Option::is_none")]
    leads_since_unix_ms: Option<u64>,
    /// Since when it waits; absent if it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_since_unix_ms: Option<u64>,
    /// How long it waited before it led; absent unless it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u64>,
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
    /// The leader is known to have stopped.
    stopped: bool,
    #[serde(skip)]
    ended: &'static str,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl From<pb::Candidate> for Candidate {
    fn from(candidate: pb::Candidate) -> Candidate {
        let times = Times::of(&candidate);
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
            times,
        }
    }
}

impl From<pb::Tenure> for Tenure {
    fn from(tenure: pb::Tenure) -> Tenure {
        Tenure {
            reason: reason(tenure.reason()),
            ended: ended(&tenure),
            stopped: tenure.stopped,
            value: text(&tenure.value),
            identity: tenure.identity,
            token: tenure.token,
            from_revision: tenure.from_revision,
            from_unix_ms: tenure.from_unix_ms,
            until_unix_ms: (tenure.until_unix_ms > 0).then_some(tenure.until_unix_ms),
        }
    }
}

impl Times {
    pub(in crate::commands) fn of(candidate: &pb::Candidate) -> Times {
        let known = |unix_ms: u64| Some(unix_ms).filter(|ms| *ms > 0);
        let joined = known(candidate.since_unix_ms);
        let leads = known(candidate.leads_since_unix_ms).filter(|_| candidate.holds);
        Times {
            leads_since_unix_ms: leads,
            waits_since_unix_ms: joined.filter(|_| !candidate.holds),
            waited_ms: leads.zip(joined).map(|(leads, joined)| leads.saturating_sub(joined)),
        }
    }

    /// `for 30s`, and how long a leader waited before, if that was a second or more. Nothing for a holder beside the
    /// leader: when it began to hold is not kept.
    pub(in crate::commands) fn words(self) -> Option<String> {
        let lasts = age(self.leads_since_unix_ms.or(self.waits_since_unix_ms)?);
        Some(match self.waited_ms {
            Some(waited @ 1000..) => format!("for {lasts}, waited {}", span(waited)),
            _ => format!("for {lasts}"),
        })
    }
}

impl Candidate {
    /// One line for people.
    pub(super) fn election(&self) -> String {
        let does = if self.holds { "leads" } else { "waits" };
        let mut election = format!("{}\t{does}\ttoken {}", visible(self.name()), self.token);
        if let Some(time) = self.times.words() {
            election += &format!("\t{time}");
        }
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
        let began = i64::try_from(self.from_unix_ms).ok().filter(|ms| *ms > 0);
        let began = began.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let (identity, began) = (visible(&self.identity), began.map_or("?".into(), utc));
        format!("{identity}\ttoken {}\t{began}\t{lasted}\t{}", self.token, self.ended)
    }
}

/// Why a tenure ended, for people. A guardian that ended the work reports an end as any other, but knows that it has
/// stopped.
pub(in crate::commands) fn ended(tenure: &pb::Tenure) -> &'static str {
    use pb::EndReason as End;
    match (tenure.reason(), tenure.stopped) {
        (End::Unknown, _) => "unknown",
        (End::TenureLasts, _) => "lasts",
        (End::Resigned, _) => "resigned",
        (End::Expired, true) => "stopped (renewals missing)",
        (End::Expired, false) => "expired",
        (End::Revoked, _) => "revoked",
        (End::Closed, _) => "closed",
        (End::ConnectionLost, true) => "process killed",
        (End::ConnectionLost, false) => "process killed (connection reset)",
        (End::Evicted, _) => "evicted",
        (End::Transferred, _) => "handed over",
        (End::Preempted, _) => "preempted",
        (End::Unhealthy, _) => "unhealthy",
        (End::Frozen, _) => "frozen",
        (End::Deleted, _) => "deleted by hand",
    }
}

/// Why a tenure ended, for scripts.
pub(in crate::commands) fn reason(end: pb::EndReason) -> String {
    match end {
        pb::EndReason::TenureLasts => "lasts".into(),
        other => other.as_str_name().to_lowercase().replace('_', " "),
    }
}

/// How long ago that was.
fn age(since_unix_ms: u64) -> String {
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
