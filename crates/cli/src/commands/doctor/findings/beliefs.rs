//! What is believed outside the cluster, against what is.

use super::{Finding, Level, find, spoken};
use crate::commands::doctor::chart::{Belief, Believer, Chart, Election};

pub(super) fn judge(chart: &Chart, found: &mut Vec<Finding>) {
    for believer in &chart.believers {
        found.extend(one(chart, believer));
    }
    contenders(chart, found);
}

fn one(chart: &Chart, believer: &Believer) -> Option<Finding> {
    let place = &believer.place;
    match &believer.belief {
        Belief::Silent { why, missing: true } => {
            let text = format!("{place}: {why}");
            let next = "whoever writes it has nothing to say: it does not run, or cannot reach the cluster";
            Some(find(Level::Note, "no_belief", place, text, next))
        }
        Belief::Silent { why, .. } => {
            let text = format!("{place} cannot be asked: {why}");
            let next = "is it running? GET /leader must answer there";
            Some(find(Level::Warning, "believer_unreachable", place, text, next))
        }
        Belief::Unsure { why, .. } => {
            let text = format!("{place} does not know who leads: {why}");
            let next =
                "it cannot reach the cluster, or not in time: tenure status from where it runs";
            Some(find(Level::Warning, "believer_unsure", place, text, next))
        }
        Belief::Leads { valid_ms: Some(ms), .. } | Belief::Follows { valid_ms: Some(ms), .. }
            if *ms < 0 =>
        {
            let text = format!("{place} is out of date by {}", spoken(ms.unsigned_abs()));
            let next = "whoever wrote it is gone, paused or cut off: readers must not believe it";
            Some(find(Level::Warning, "stale_belief", place, text, next))
        }
        Belief::Leads { election, identity, token, .. } => {
            claims(chart, place, (election.as_deref(), identity, *token))
        }
        Belief::Marker { election } => {
            claims(chart, place, (election.as_deref(), "somebody", None))
        }
        Belief::Follows { election, leader, token, .. } => {
            let election = known(chart, election.as_deref())?;
            let is = election.leader();
            // Nobody is named by an empty name.
            let same = match (is, *token) {
                (Some(is), Some(token)) => is.token == token,
                (Some(is), None) => is.identity == *leader,
                (None, _) => leader.is_empty(),
            };
            let is = is.map_or("nobody does".to_owned(), |is| {
                format!("{} does, with token {}", is.identity, is.token)
            });
            let theirs = if leader.is_empty() { "nobody" } else { leader };
            let text = format!("{place} believes that {theirs} leads {}; {is}", election.name);
            let next = "it lags; ask again, and if it stays look at its connection to the cluster";
            (!same).then(|| find(Level::Warning, "belief_lags", place, text, next))
        }
    }
}

/// Somebody believes to lead.
fn claims(
    chart: &Chart,
    place: &str,
    (name, identity, token): (Option<&str>, &str, Option<i64>),
) -> Option<Finding> {
    let Some(name) = name else {
        let text = format!("{place} says that {identity} leads, but not what");
        let next = "name the election: tenure doctor NAME --status-file FILE";
        return Some(find(Level::Note, "unknown_election", place, text, next));
    };
    let with = token.map_or(String::new(), |token| format!(" with token {token}"));
    let claim = format!("{place} believes that {identity} leads {name}{with}");
    if chart.no_majority.is_some() {
        let text = format!("{claim}, and no majority can be asked");
        let next = "it may be right until its session ends; do not start another one by hand";
        return Some(find(Level::Warning, "unproven_belief", place, text, next));
    }
    let is = known(chart, Some(name)).and_then(Election::leader);
    let stop =
        "stop it now if it does not stop by itself; what it writes must be refused by its token";
    match (is, token) {
        (None, _) => {
            let text = format!("{claim}, but nobody does");
            Some(find(Level::Critical, "false_belief", place, text, stop))
        }
        (Some(is), Some(token)) if is.token != token => {
            let text = format!("{claim}, but {} does, with token {}", is.identity, is.token);
            Some(find(Level::Critical, "false_belief", place, text, stop))
        }
        (Some(is), Some(_)) if !is.told => {
            let text = format!("{claim}, but it has not been told to begin yet");
            Some(find(Level::Critical, "false_belief", place, text, stop))
        }
        _ => None,
    }
}

/// Two that believe to lead the same thing are wrong, even if no majority can say which.
fn contenders(chart: &Chart, found: &mut Vec<Finding>) {
    let claims: Vec<(&str, &str, Option<i64>)> = chart
        .believers
        .iter()
        .filter_map(|believer| match &believer.belief {
            Belief::Leads { election: Some(name), token, valid_ms, .. }
                if valid_ms.is_none_or(|ms| ms >= 0) =>
            {
                Some((&name[..], &believer.place[..], *token))
            }
            _ => None,
        })
        .collect();
    for (at, (name, place, token)) in claims.iter().enumerate() {
        // The same holder may be seen through its sidecar and through its file.
        let other = claims[..at].iter().find(|one| one.0 == *name && one.2 != *token);
        if let Some((_, other, _)) = other {
            let text = format!("{other} and {place} both believe to lead {name}");
            let next = "the one with the smaller token is wrong: stop it";
            found.push(find(Level::Critical, "two_believers", *name, text, next));
        }
    }
}

fn known<'a>(chart: &'a Chart, name: Option<&str>) -> Option<&'a Election> {
    chart.election(name?).filter(|_| chart.no_majority.is_none())
}
