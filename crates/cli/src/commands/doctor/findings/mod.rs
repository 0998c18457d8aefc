//! What is wrong, in plain words, with what to do next.
//!
//! Every judgement is a function of the chart alone, so each can be read and tested without a cluster.

mod beliefs;
mod cluster;
mod elections;

use serde::Serialize;

use super::chart::Chart;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    /// Two may act at once, or nothing can be decided.
    Critical,
    /// It works, but not for long, or not for everybody.
    Warning,
    /// Worth knowing.
    Note,
}

/// Something that was found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// A name that scripts can rely on.
    pub(super) kind: &'static str,
    /// The member, election or believer.
    pub(super) about: String,
    pub(super) text: String,
    /// What to do.
    pub(super) next: String,
}

/// Everything that is wrong, the worst first.
pub(super) fn judge(chart: &Chart) -> Vec<Finding> {
    let mut found = Vec::new();
    cluster::judge(chart, &mut found);
    elections::judge(chart, &mut found);
    beliefs::judge(chart, &mut found);
    // A stable sort: among equals the order is that of the judges.
    found.sort_by_key(|finding| finding.level);
    found
}

fn find(
    level: Level,
    kind: &'static str,
    about: impl Into<String>,
    text: impl Into<String>,
    next: impl Into<String>,
) -> Finding {
    Finding { level, kind, about: about.into(), text: text.into(), next: next.into() }
}

/// Milliseconds as people say them.
fn spoken(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1000.0) }
}

/// `1 candidate`, `2 candidates`.
fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
