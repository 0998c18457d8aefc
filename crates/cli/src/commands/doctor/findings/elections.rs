//! Leaders, candidates, and what stands in their way.

use super::{Finding, Level, count, find, spoken};
use crate::commands::doctor::chart::{Candidate, Chart, Election, Session};

/// Renewals are sent at a third of the time to live. Below so many round trips, one that is lost and
/// one that is slow are the end of a session.
const ROUND_TRIPS_PER_TTL: f64 = 20.0;
/// A session that has less than this part left has been silent for long.
const NEAR_END: u64 = 4;
/// So many leaders lost in ten minutes are not chance.
const LOST_LATELY_MAX: usize = 4;

pub(super) fn judge(chart: &Chart, found: &mut Vec<Finding>) {
    for election in &chart.elections {
        agreement(election, found);
        found.extend(unknown(election));
        vacancy(election, found);
        holders(election, found);
    }
    for session in &chart.sessions {
        life(chart, session, found);
    }
}

/// Every member's own answer, against the majority's.
fn agreement(election: &Election, found: &mut Vec<Finding>) {
    let name = &election.name;
    let Some(truth) = &election.first else {
        let tokens: std::collections::BTreeSet<i64> =
            election.seen_by.values().map(|seen| seen.token).collect();
        if tokens.len() > 1 {
            let text =
                format!("members name different leaders of {name}, and no majority can be asked");
            let next = "believe none of them until a majority answers";
            found.push(find(Level::Warning, "undecided", name, text, next));
        }
        return;
    };
    for (member, seen) in &election.seen_by {
        if seen.token == truth.token {
            continue;
        }
        let (theirs, ours) = (standing(seen.token), standing(truth.token));
        if seen.revision < truth.revision {
            let text = format!(
                "{member} is at revision {} and sees {theirs} first in {name}; the cluster is at {} and has {ours}",
                seen.revision, truth.revision
            );
            let next = "it lags or is cut off: whoever reads there with --consistency s sees the old leader";
            found.push(find(Level::Warning, "stale_member", name, text, next));
        } else if seen.revision == truth.revision {
            let text = format!(
                "{member} sees {theirs} first in {name}, the others {ours}, all at revision {}",
                truth.revision
            );
            let next =
                "their data differs: compare with tenure endpoint hashkv, and trust the majority";
            found.push(find(Level::Critical, "members_differ", name, text, next));
        }
    }
}

fn standing(token: i64) -> String {
    if token == 0 { "nobody".into() } else { format!("token {token}") }
}

/// Silence about an election must not look like an election without candidates.
fn unknown(election: &Election) -> Option<Finding> {
    let (name, why) = (&election.name, election.candidates_unknown.as_ref()?);
    let text = format!("the candidates of {name} cannot be asked: {why}");
    let next = format!("ask again: tenure doctor {name}");
    Some(find(Level::Warning, "line_unknown", name, text, next))
}

/// There is no leader, though a candidate could lead.
fn vacancy(election: &Election, found: &mut Vec<Finding>) {
    let name = &election.name;
    let waiting = election.waiting();
    if election.frozen {
        let text = match election.leader() {
            Some(leader) => format!("{name} is frozen, and {} still leads it", leader.identity),
            None => format!("{name} is frozen: nobody leads, {} wait", count(waiting, "candidate")),
        };
        let next = format!("tenure resume {name}");
        found.push(find(Level::Warning, "frozen", name, text, next));
        return;
    }
    if let Some(delay) = election.delay_ms {
        found.push(delayed(election, delay));
    }
    if election.leader().is_some() || waiting == 0 {
        return;
    }
    if election.standing().iter().all(|candidate| candidate.unhealthy) {
        let text =
            format!("nobody leads {name}: {} and all unhealthy", count(waiting, "candidate"));
        let next =
            format!("find out why they report themselves unhealthy: tenure candidates {name}");
        found.push(find(Level::Critical, "all_unhealthy", name, text, next));
    } else {
        let text = format!("nobody leads {name}, though {} wait", count(waiting, "candidate"));
        let next =
            format!("ask again; if it stays: tenure candidates {name}, tenure history {name}");
        found.push(find(Level::Warning, "vacant", name, text, next));
    }
}

/// A holder went without confirming its stop, and may still act.
fn delayed(election: &Election, delay: u64) -> Finding {
    let name = &election.name;
    let before = election.last_end.as_ref();
    let who = before.map_or("whoever led".to_owned(), |end| {
        format!("{} (token {}, {})", end.identity, end.token, end.ended)
    });
    let left = spoken(delay);
    let next = format!("wait: then its session would have ended, too; see tenure history {name}");
    let waits = election.leader().filter(|leader| !leader.told);
    match waits {
        Some(leader) => {
            let text = format!(
                "{} is first in {name}, but {who} did not confirm its stop: it waits up to {left} more",
                leader.identity
            );
            find(Level::Warning, "lock_delay", name, text, next)
        }
        None => {
            let text = format!(
                "{who} did not confirm its stop in {name}: who wants no overlap waits up to {left} more"
            );
            find(Level::Note, "lock_delay", name, text, next)
        }
    }
}

/// The leader, and whether it can be relied on.
fn holders(election: &Election, found: &mut Vec<Finding>) {
    let name = &election.name;
    for holder in election.holders() {
        let who = &holder.identity;
        if holder.unhealthy {
            let text = format!("{who} leads {name} and says that it is unhealthy");
            let next = format!("tenure resign {name} makes the next candidate lead");
            found.push(find(Level::Warning, "leader_unhealthy", name, text, next));
        }
        if holder.stock {
            found.push(stock(name, holder));
        }
    }
    if let (Some(leader), Some(successor)) = (election.leader(), &election.successor) {
        let text = format!("{} makes room in {name} for {successor}", leader.identity);
        let next = "a transfer is under way; it is overtaken when its time is over";
        found.push(find(Level::Note, "draining", name, text, next));
    }
    if election.lost_lately >= LOST_LATELY_MAX {
        let text = format!(
            "{name} lost its leader {} times in ten minutes, because it was silent or died",
            election.lost_lately
        );
        let next = format!("see who and why: tenure history {name}");
        found.push(find(Level::Warning, "unsteady", name, text, next));
    }
}

fn stock(name: &str, holder: &Candidate) -> Finding {
    let who = &holder.identity;
    if !holder.has_lease {
        let text =
            format!("{who} holds {name} by a key that hangs on no lease: it never ends by itself");
        let next = format!("if nobody is behind it, take it away: tenure evict {name}");
        return find(Level::Warning, "holder_without_lease", name, text, next);
    }
    let text = format!(
        "{who} leads {name} by etcd's means: nothing makes it stop before its lease ends, and it has no \
         fencing unless it sends token {} along",
        holder.token
    );
    let next = "let what it writes to check the token (docs/explanation/locks.md), or use a session: tenure elect";
    find(Level::Note, "stock_holder", name, text, next)
}

/// A session's own time.
fn life(chart: &Chart, session: &Session, found: &mut Vec<Finding>) {
    let who = &session.identity;
    let held = match &session.holds[..] {
        [] => String::new(),
        names => format!(", which holds {}", names.join(", ")),
    };
    let level = if session.holds.is_empty() { Level::Note } else { Level::Warning };
    if session.remaining_ms.saturating_mul(NEAR_END) < session.ttl_ms {
        let text = format!(
            "the session of {who}{held} has {} of {} left: no sign of life for {}",
            spoken(session.remaining_ms),
            spoken(session.ttl_ms),
            spoken(session.ttl_ms - session.remaining_ms)
        );
        let next = "its process is paused, overloaded or cut off; when the time is over the next one leads";
        found.push(find(level, "session_near_end", who, text, next));
    }
    if let Some(trip) = chart.majority_ms
        && (session.ttl_ms as f64) < trip * ROUND_TRIPS_PER_TTL
    {
        let text = format!(
            "the session of {who}{held} lives {} without a sign of life, and an answer takes {}",
            spoken(session.ttl_ms),
            spoken(trip as u64)
        );
        let next =
            format!("a TTL of {} or more: --ttl", spoken((trip * ROUND_TRIPS_PER_TTL) as u64));
        found.push(find(level, "ttl_too_short", who, text, next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::chart::First;

    fn kinds(election: Election) -> Vec<&'static str> {
        let chart = Chart { elections: vec![election], ..Chart::default() };
        let mut found = Vec::new();
        judge(&chart, &mut found);
        found.iter().map(|finding| finding.kind).collect()
    }

    fn first(revision: i64, token: i64) -> First {
        First { revision, token, key: String::new() }
    }

    fn candidate(holds: bool, unhealthy: bool) -> Candidate {
        Candidate {
            identity: "alice".into(),
            token: 7,
            session: "1a".into(),
            holds,
            told: holds,
            unhealthy,
            stock: false,
            shares: false,
            has_lease: true,
            since_unix_ms: 0,
            times: Default::default(),
        }
    }

    /// Real members cannot be made to do this: it would be a bug of ours.
    #[test]
    fn doctor_tells_members_that_differ_from_members_that_are_late() {
        let seen = |revision, token| Election {
            name: "jobs".into(),
            first: Some(first(9, 7)),
            seen_by: [("n1".to_owned(), first(revision, token))].into(),
            ..Election::default()
        };
        assert_eq!(kinds(seen(9, 7)), Vec::<&str>::new());
        assert_eq!(kinds(seen(8, 5)), ["stale_member"]);
        assert_eq!(kinds(seen(9, 5)), ["members_differ"]);
        // It knows more than the majority did when that was asked.
        assert_eq!(kinds(seen(10, 8)), Vec::<&str>::new());
    }

    #[test]
    fn doctor_judges_the_leader_and_all_that_could_lead() {
        let of = |candidates| Election {
            name: "jobs".into(),
            candidates: Some(candidates),
            ..Election::default()
        };
        assert_eq!(kinds(of(vec![candidate(true, false)])), Vec::<&str>::new());
        assert_eq!(kinds(of(vec![candidate(true, true)])), ["leader_unhealthy"]);
        assert_eq!(kinds(of(vec![candidate(false, false)])), ["vacant"]);
        assert_eq!(kinds(of(vec![candidate(false, true)])), ["all_unhealthy"]);
    }
}
