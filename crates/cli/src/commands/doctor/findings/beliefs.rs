//! What is believed outside the cluster, against what is.

use super::{Finding, Level, find, spoken};
use crate::commands::doctor::chart::{Belief, Believer, Candidate, Chart, Election};

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
            let election = chart.election(election.as_deref()?)?;
            let truth = truth(chart, Some(election));
            // An empty name means that there is no leader.
            let same = match (&truth, *token) {
                (Truth::Unknown(_), _) => return None,
                (Truth::Nobody, _) => leader.is_empty(),
                (Truth::Held(by), Some(token)) => by.iter().any(|one| one.token == token),
                (Truth::Held(by), None) => by.iter().any(|one| one.identity == Some(leader)),
            };
            let is = truth.told();
            let theirs = if leader.is_empty() { "nobody" } else { leader };
            let text = format!("{place} believes that {theirs} leads {}; {is}", election.name);
            let next = "it lags; ask again, and if it stays look at its connection to the cluster";
            (!same).then(|| find(Level::Warning, "belief_lags", place, text, next))
        }
    }
}

/// A believer claims to lead.
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
    let stop =
        "stop it now if it does not stop by itself; what it writes must be refused by its token";
    let truth = truth(chart, chart.election(name));
    let by = match &truth {
        Truth::Unknown(why) => {
            let text = format!("{claim}, and {why}");
            let next = "it may be right until its session ends; do not start another one by hand";
            return Some(find(Level::Warning, "unproven_belief", place, text, next));
        }
        Truth::Nobody => &[][..],
        Truth::Held(by) => by,
    };
    match by.iter().find(|one| token.is_none_or(|token| one.token == token)) {
        Some(one) if token.is_some() && !one.told => {
            let text = format!("{claim}, but it has not been told to begin yet");
            Some(find(Level::Critical, "false_belief", place, text, stop))
        }
        Some(_) => None,
        None => {
            let text = format!("{claim}, but {}", truth.told());
            Some(find(Level::Critical, "false_belief", place, text, stop))
        }
    }
}

/// The leader, as far as it is known. What is unknown proves no belief wrong.
enum Truth<'a> {
    /// And why.
    Unknown(String),
    Nobody,
    /// By one, or by several with permits or shared.
    Held(Vec<Holder<'a>>),
}

struct Holder<'a> {
    /// A real etcd knows keys and no names.
    identity: Option<&'a String>,
    token: i64,
    told: bool,
}

impl Truth<'_> {
    fn told(&self) -> String {
        let by = match self {
            Truth::Unknown(why) => return why.clone(),
            Truth::Nobody => return "nobody does".into(),
            Truth::Held(by) => by,
        };
        let one = |holder: &Holder<'_>| match holder.identity {
            Some(identity) => format!("{identity} does, with token {}", holder.token),
            None => format!("somebody with token {} does", holder.token),
        };
        by.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

fn truth<'a>(chart: &Chart, election: Option<&'a Election>) -> Truth<'a> {
    if chart.no_majority.is_some() {
        return Truth::Unknown("no majority can be asked".into());
    }
    let Some(election) = election else {
        return Truth::Unknown("that was not looked at".into());
    };
    let holders: Vec<Holder<'_>> = match (&election.candidates, &election.first) {
        (Some(_), _) => {
            let holder = |one: &'a Candidate| Holder {
                identity: Some(&one.identity),
                token: one.token,
                told: one.told,
            };
            election.holders().map(holder).collect()
        }
        // By etcd's rule the first key leads, and nothing tells it so.
        (None, Some(first)) if chart.is_etcd => {
            let is = (first.token > 0).then_some(first.token);
            is.map(|token| Holder { identity: None, token, told: true }).into_iter().collect()
        }
        (None, _) => return Truth::Unknown("the candidates cannot be asked".into()),
    };
    if holders.is_empty() { Truth::Nobody } else { Truth::Held(holders) }
}

/// Two that believe to lead the same thing are wrong if only one can, even if no majority can say which.
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
        // Permits and shared locks are for several at once.
        if chart.election(name).is_some_and(|it| it.standing().iter().any(|one| one.shares)) {
            continue;
        }
        // The same holder may be seen through its sidecar and through its file.
        let other = claims[..at].iter().find(|one| one.0 == *name && one.2 != *token);
        if let Some((_, other, _)) = other {
            let text = format!("{other} and {place} both believe to lead {name}");
            let next = "the one with the smaller token is wrong: stop it";
            found.push(find(Level::Critical, "two_believers", *name, text, next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::chart::First;

    fn holder(token: i64, shares: bool) -> Candidate {
        Candidate {
            identity: format!("holder-{token}"),
            token,
            session: "1a".into(),
            holds: true,
            told: true,
            unhealthy: false,
            stock: false,
            shares,
            has_lease: true,
            since_unix_ms: 0,
            times: Default::default(),
        }
    }

    fn claim(token: i64) -> Believer {
        let belief = Belief::Leads {
            election: Some("jobs".into()),
            identity: "a".into(),
            token: Some(token),
            valid_ms: None,
        };
        Believer { place: format!("file-{token}"), belief }
    }

    fn follows(token: i64) -> Believer {
        let election = Some("jobs".into());
        let leader = "a".to_owned();
        let belief = Belief::Follows { election, leader, token: Some(token), valid_ms: None };
        Believer { place: "sidecar".into(), belief }
    }

    fn kinds(
        is_etcd: bool,
        election: Option<Election>,
        believers: Vec<Believer>,
    ) -> Vec<&'static str> {
        let elections = election.into_iter().collect();
        let chart = Chart { elections, believers, is_etcd, ..Chart::default() };
        let mut found = Vec::new();
        judge(&chart, &mut found);
        found.iter().map(|finding| finding.kind).collect()
    }

    fn jobs(candidates: Option<Vec<Candidate>>, first: i64) -> Option<Election> {
        let first = Some(First { revision: 9, token: first, key: String::new() });
        Some(Election { name: "jobs".into(), first, candidates, ..Election::default() })
    }

    #[test]
    fn doctor_proves_no_believer_wrong_by_what_is_unknown() {
        assert_eq!(kinds(false, None, vec![claim(7)]), ["unproven_belief"]);
        assert_eq!(kinds(false, jobs(None, 7), vec![claim(7)]), ["unproven_belief"]);
        assert_eq!(kinds(false, jobs(None, 7), vec![follows(7)]), Vec::<&str>::new());
        assert_eq!(kinds(false, jobs(Some(vec![]), 0), vec![claim(7)]), ["false_belief"]);
    }

    #[test]
    fn doctor_proves_beliefs_by_the_first_key_of_a_real_etcd() {
        assert_eq!(kinds(true, jobs(None, 7), vec![claim(7), follows(7)]), Vec::<&str>::new());
        assert_eq!(kinds(true, jobs(None, 8), vec![claim(7)]), ["false_belief"]);
        assert_eq!(kinds(true, jobs(None, 0), vec![claim(7)]), ["false_belief"]);
        assert_eq!(kinds(true, jobs(None, 8), vec![follows(7)]), ["belief_lags"]);
    }

    #[test]
    fn doctor_lets_several_hold_what_is_for_several() {
        let both = |shares| jobs(Some(vec![holder(7, shares), holder(8, shares)]), 7);
        assert_eq!(kinds(false, both(true), vec![claim(7), claim(8)]), Vec::<&str>::new());
        assert_eq!(kinds(false, both(true), vec![claim(6), claim(8)]), ["false_belief"]);
        let one = jobs(Some(vec![holder(8, false)]), 8);
        assert_eq!(kinds(false, one, vec![claim(7), claim(8)]), ["false_belief", "two_believers"]);
    }
}
