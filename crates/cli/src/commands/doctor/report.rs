//! The chart and the findings, for people and as JSON.

use std::fmt::Write as _;
use std::io::Write as _;

use serde::Serialize;

use super::chart::{Belief, Candidate, Chart, Election, Member};
use super::findings::{Finding, Level};
use crate::args::Settings;
use crate::output::{Format, visible};

#[derive(Serialize)]
struct Whole<'a> {
    /// Nothing but notes.
    well: bool,
    findings: &'a [Finding],
    #[serde(flatten)]
    chart: &'a Chart,
}

/// Both as JSON.
pub(super) fn json(chart: &Chart, found: &[Finding]) -> anyhow::Result<String> {
    let well = found.iter().all(|finding| finding.level == Level::Note);
    Ok(serde_json::to_string(&Whole { well, findings: found, chart })?)
}

/// Writes both. The findings come last, where the eye is when the prompt comes back.
pub(super) fn write(settings: &Settings, chart: &Chart, found: &[Finding]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if settings.format == Format::Json {
        writeln!(out, "{}", json(chart, found)?)?;
    } else {
        for line in lines(chart, found) {
            writeln!(out, "{}", visible(&line))?;
        }
    }
    Ok(out.flush()?)
}

/// Not yet fit for a terminal: names are as others chose them.
fn lines(chart: &Chart, found: &[Finding]) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push("members".into());
    for member in &chart.members {
        lines.push(format!("  {}", member_line(chart, member)));
    }
    for election in &chart.elections {
        election_lines(chart, election, &mut lines);
    }
    if !chart.believers.is_empty() {
        lines.push("believers".into());
    }
    for believer in &chart.believers {
        lines.push(format!("  {}  {}", believer.place, belief(&believer.belief)));
    }
    lines.push(match found {
        [] => "all is well".into(),
        [_] => "1 finding".into(),
        _ => format!("{} findings, the worst first", found.len()),
    });
    for finding in found {
        let level = match finding.level {
            Level::Critical => "CRITICAL",
            Level::Warning => "warning",
            Level::Note => "note",
        };
        lines.push(format!("  {level:<9} {}", finding.text));
        lines.push(format!("            {}", finding.next));
    }
    lines
}

fn member_line(chart: &Chart, member: &Member) -> String {
    let Some(report) = &member.report else {
        return format!("{}  {}  out of reach", member.name, member.endpoint);
    };
    let follows = match report.follows {
        0 => "follows nobody".into(),
        leader if leader == report.member_id => "raft leader".into(),
        leader => format!("follows {}", chart.called(leader)),
    };
    let learner = if member.is_learner { "  learner" } else { "" };
    format!(
        "{}  {}  {follows}{learner}  revision {}  {:.1} ms away",
        member.name, member.endpoint, report.revision, report.round_trip_ms
    )
}

fn election_lines(chart: &Chart, election: &Election, lines: &mut Vec<String>) {
    let frozen = if election.frozen { "  frozen" } else { "" };
    lines.push(format!("{}{frozen}", election.name));
    let is = match (&election.first, election.leader()) {
        (_, Some(leader)) => format!("{} with token {}", leader.identity, leader.token),
        (Some(first), None) if first.token > 0 => format!("token {} ({})", first.token, first.key),
        (Some(_), None) => "nobody".into(),
        (None, None) => "unknown: no majority answers".into(),
    };
    lines.push(format!("  leader     {is}"));
    let mut seen = election.seen_by.values();
    let one = seen.next();
    if let Some(one) = one.filter(|one| seen.all(|other| other.token == one.token)) {
        let all: Vec<_> = election.seen_by.keys().map(String::as_str).collect();
        lines.push(format!("  agreed     by {} at revision {}", all.join(", "), one.revision));
    }
    let differ =
        election.seen_by.iter().filter(|(_, seen)| one.is_none_or(|o| o.token != seen.token));
    for (member, seen) in election.seen_by.iter().filter(|_| differ.clone().next().is_some()) {
        let who = match seen.token {
            0 => "nobody".into(),
            token => format!("token {token}"),
        };
        lines.push(format!("  {member:<10} has {who} first at revision {}", seen.revision));
    }
    for candidate in election.standing() {
        lines.push(format!("  candidate  {}", candidate_line(chart, &election.name, candidate)));
    }
}

fn candidate_line(chart: &Chart, election: &str, candidate: &Candidate) -> String {
    let does = match (candidate.holds, candidate.told) {
        (true, true) => "leads",
        (true, false) => "is first and not told yet",
        (false, _) => "waits",
    };
    let mut line = format!("{}  {does}", candidate.identity);
    if let Some(time) = candidate.times.words() {
        let _ = write!(line, " {time}");
    }
    let session = chart.sessions.iter().find(|session| session.session == candidate.session);
    if let Some(session) = session {
        let _ = write!(line, "  {} of {} ms left", session.remaining_ms, session.ttl_ms);
        if candidate.holds && session.draining.iter().any(|name| name == election) {
            line += "  draining";
        }
    }
    for (is, word) in [(candidate.unhealthy, "unhealthy"), (candidate.stock, "by etcd's means")] {
        if is {
            let _ = write!(line, "  {word}");
        }
    }
    line
}

fn belief(belief: &Belief) -> String {
    let of = |election: &Option<String>| election.clone().unwrap_or_else(|| "something".into());
    let until =
        |valid: &Option<i64>| valid.map_or(String::new(), |ms| format!(", valid for {ms} ms"));
    let with =
        |token: &Option<i64>| token.map_or(String::new(), |token| format!(" with token {token}"));
    match belief {
        Belief::Leads { election, identity, token, valid_ms } => {
            let (of, with, until) = (of(election), with(token), until(valid_ms));
            format!("{identity} believes that it leads {of}{with}{until}")
        }
        Belief::Follows { election, leader, token, valid_ms } => {
            let leader = if leader.is_empty() { "nobody" } else { leader };
            let (of, with, until) = (of(election), with(token), until(valid_ms));
            format!("believes that {leader} leads {of}{with}{until}")
        }
        Belief::Unsure { election, why } => {
            format!("does not know who leads {}: {why}", of(election))
        }
        Belief::Marker { election } => format!("says that somebody leads {}", of(election)),
        Belief::Silent { why, .. } => format!("says nothing: {why}"),
    }
}
