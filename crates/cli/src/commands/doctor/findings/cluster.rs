//! Members, majority, raft leader, alarms, clocks.

use std::collections::BTreeSet;

use super::{Finding, Level, count, find};
use crate::commands::doctor::chart::{Chart, Member};

/// Entries that a member may be behind while it is busy.
const BEHIND_MAX: u64 = 1000;
/// Wall clocks are read to the second, at slightly different moments.
const CLOCKS_APART_MAX_S: i64 = 3;

pub(super) fn judge(chart: &Chart, found: &mut Vec<Finding>) {
    let ids: BTreeSet<u64> = chart.speaking().map(|(_, report)| report.cluster_id).collect();
    if ids.len() > 1 {
        found.push(strangers(chart, &ids));
    }
    reach(chart, found);
    if ids.len() <= 1 {
        raft_leader(chart, found);
        lag(chart, found);
    }
    alarms(chart, found);
    clocks(chart, found);
    if chart.is_etcd {
        let text = "these servers do not speak tenure.v1: sessions and candidates cannot be seen";
        let next = "only members, keys and believers were compared";
        found.push(find(Level::Note, "not_tenure", "cluster", text, next));
    }
    if chart.left_out > 0 {
        let text = format!("{} were not looked at", count(chart.left_out, "name"));
        let next = "name those that matter: tenure doctor NAME…";
        found.push(find(Level::Note, "left_out", "cluster", text, next));
    }
}

fn strangers(chart: &Chart, ids: &BTreeSet<u64>) -> Finding {
    let groups: Vec<String> = ids
        .iter()
        .map(|id| {
            let here = chart.speaking().filter(|(_, report)| report.cluster_id == *id);
            let here: Vec<_> = here.map(|(member, _)| member.endpoint.clone()).collect();
            format!("{} belong to {id:x}", here.join(", "))
        })
        .collect();
    let text = format!("the endpoints are of different clusters: {}", groups.join("; "));
    let next = "two clusters elect two leaders: give --endpoints of one of them, to every client";
    find(Level::Critical, "different_clusters", "cluster", text, next)
}

fn reach(chart: &Chart, found: &mut Vec<Finding>) {
    let known = chart.members.iter().any(|member| member.belongs);
    let voters: Vec<&Member> =
        chart.members.iter().filter(|one| (one.belongs || !known) && !one.is_learner).collect();
    let reached = voters.iter().filter(|voter| voter.report.is_some()).count();
    let needed = voters.len() / 2 + 1;
    for member in chart.members.iter().filter(|member| member.report.is_none()) {
        let why = member.silence.as_deref().unwrap_or("no answer");
        let at = if member.name == member.endpoint { "" } else { &member.endpoint };
        let text = format!("{} {at} cannot be reached: {why}", member.name).replace("  ", " ");
        let next = match (reached.saturating_sub(needed), reached >= needed) {
            (_, false) => "start it: without it nothing can be decided".to_owned(),
            (0, true) => "start it: one more and nothing can be decided".to_owned(),
            (spare, true) => format!("start it: {spare} more may fail before nothing works"),
        };
        found.push(find(Level::Warning, "member_unreachable", &member.name, text, next));
    }
    if reached < needed {
        let text = format!(
            "{reached} of {} can be reached, {needed} are needed: nobody can be elected, nothing written",
            count(voters.len(), "voting member")
        );
        let next = "leaders stop when their sessions end; start the missing members, and if a majority is \
                    lost for good see \"When a majority is lost\" in docs/how-to/operate.md";
        found.push(find(Level::Critical, "no_quorum", "cluster", text, next));
    } else if let Some(why) = &chart.no_majority {
        let text = format!("a majority can be reached, but does not agree on anything: {why}");
        let next = "members may be cut off from each other: look at their logs and peer addresses";
        found.push(find(Level::Critical, "no_agreement", "cluster", text, next));
    }
}

fn raft_leader(chart: &Chart, found: &mut Vec<Finding>) {
    let speaking: Vec<_> = chart.speaking().collect();
    let leaders: BTreeSet<(u64, u64)> = speaking
        .iter()
        .filter(|(_, report)| report.follows != 0)
        .map(|(_, report)| (report.term, report.follows))
        .collect();
    let Some((_, newest)) = leaders.last().copied() else {
        if !speaking.is_empty() {
            let text = "no member knows a raft leader";
            let next = "wait a second and ask again; if it stays, members do not reach each other: \
                        look at their logs";
            found.push(find(Level::Critical, "no_raft_leader", "cluster", text, next));
        }
        return;
    };
    for (member, report) in speaking {
        let name = &member.name;
        let next =
            "clients at this member are refused: look at its log and its way to the other members";
        if report.follows == 0 {
            let text = format!(
                "{name} follows nobody, the others follow {}: it is cut off from them",
                chart.called(newest)
            );
            found.push(find(Level::Warning, "member_cut_off", name, text, next));
        } else if report.follows != newest {
            let text = format!(
                "{name} follows {} in term {}, the others {}: it is cut off, or has not heard yet",
                chart.called(report.follows),
                report.term,
                chart.called(newest)
            );
            found.push(find(Level::Warning, "member_cut_off", name, text, next));
        }
    }
}

fn lag(chart: &Chart, found: &mut Vec<Finding>) {
    let furthest = chart.speaking().map(|(_, report)| report.committed).max().unwrap_or(0);
    for (member, report) in chart.speaking() {
        let behind = furthest.saturating_sub(report.applied);
        if behind > BEHIND_MAX {
            let text = format!("{} is {behind} entries behind", member.name);
            let next =
                "it catches up, or its disk or processor is too slow: watch it with tenure status";
            found.push(find(Level::Warning, "member_lags", &member.name, text, next));
        }
    }
}

fn alarms(chart: &Chart, found: &mut Vec<Finding>) {
    let mut texts: BTreeSet<String> = chart.alarms.iter().cloned().collect();
    // A member that has no majority still knows its own.
    for (member, report) in chart.speaking() {
        let own = report.errors.iter().filter(|error| error.contains("alarm"));
        texts.extend(own.map(|error| format!("{}: {error}", member.name)));
    }
    // The same alarm is told by the cluster and by the member; once is enough.
    let kinds = [("NOSPACE", "no_space"), ("CORRUPT", "corrupt")];
    for (word, kind) in kinds {
        let told: Vec<String> = texts.iter().filter(|text| text.contains(word)).cloned().collect();
        if told.is_empty() {
            continue;
        }
        let (text, next) = match kind {
            "no_space" => (
                format!("the store is full: {}", told.join("; ")),
                "delete keys and compact: the alarm ends when there is room (docs/how-to/operate.md)",
            ),
            _ => (
                format!("a member's data differs from the others': {}", told.join("; ")),
                "it serves nobody: remove it and add it again with an empty data directory",
            ),
        };
        found.push(find(Level::Critical, kind, "cluster", text, next));
    }
}

fn clocks(chart: &Chart, found: &mut Vec<Finding>) {
    let told =
        chart.speaking().filter_map(|(member, report)| Some((report.clock_ahead_s?, member)));
    let told: Vec<_> = told.collect();
    let least = told.iter().min_by_key(|(ahead, _)| *ahead);
    let most = told.iter().max_by_key(|(ahead, _)| *ahead);
    let (Some((least, slow)), Some((most, fast))) = (least, most) else { return };
    if most - least > CLOCKS_APART_MAX_S {
        let text = format!(
            "the wall clocks of {} and {} are {} s apart",
            slow.name,
            fast.name,
            most - least
        );
        let next =
            "nothing is decided by them, but times in tenure history and logs mislead: run NTP";
        found.push(find(Level::Note, "clocks_apart", "cluster", text, next));
    }
}
