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
    /// It works, but not for long, or not for all clients.
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

#[cfg(test)]
mod tests {
    /// Every kind that a judge can find, read from the judges themselves.
    fn kinds() -> Vec<&'static str> {
        let judges =
            [include_str!("beliefs.rs"), include_str!("cluster.rs"), include_str!("elections.rs")];
        let found = judges.iter().flat_map(|judge| judge.split("Level::").skip(1));
        let kind = found.filter_map(|after| {
            let (level, rest) = after.split_once(',')?;
            let rest = rest.trim_start().strip_prefix('"')?;
            let kind = rest.split_once('"')?.0;
            level.chars().all(char::is_alphabetic).then_some(kind)
        });
        kind.collect()
    }

    #[test]
    fn doctor_page_explains_every_kind() {
        let page = include_str!("../../../../../../docs/reference/doctor.md");
        let kinds = kinds();
        assert!(kinds.len() > 20, "{kinds:?}");
        for kind in kinds.into_iter().chain(["no_space", "corrupt"]) {
            assert!(
                page.contains(&format!("| `{kind}` |")),
                "docs/reference/doctor.md has no row for {kind}"
            );
        }
    }
}
