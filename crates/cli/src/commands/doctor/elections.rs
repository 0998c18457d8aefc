//! The elections: what a majority says, what each member says, and the candidates.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tenure::api::wire::etcdserverpb as pb;
use tenure::api::wire::etcdserverpb::range_request::{SortOrder, SortTarget};
use tenure::api::wire::tenure::v1;
use tenure::grpc::{Client, ClientError, Code, Endpoint};

use super::chart::{Candidate, Chart, Election, First, LastEnd, Session};
use crate::commands::election::{Times, ended, reason};

/// Elections looked at, at the most; name those that matter if there are more.
const NAMES_MAX: usize = 500;
/// A leader may change between two questions; that often it is asked again.
const ATTEMPTS: usize = 3;
/// Tenures that ended longer ago say nothing about how things are.
const LATELY: Duration = Duration::from_secs(10 * 60);
/// The last part of the key that stands first in a frozen election.
const FROZEN: &[u8] = b"!frozen";

/// Fills in everything about elections; of the wanted ones only, or of all.
pub(super) async fn look(chart: &mut Chart, wanted: Vec<String>, only: bool) {
    let mut others = Vec::new();
    let addresses: Vec<&str> = chart.speaking().map(|(member, _)| &member.endpoint[..]).collect();
    let Ok(endpoints) = Endpoint::list(&addresses.join(",")) else { return };
    let client = Client::new(endpoints, chart.options.clone());
    match majority(&client).await {
        Ok(took) => chart.majority_ms = Some(took.as_secs_f64() * 1000.0),
        Err(error) => chart.no_majority = Some(error.to_string()),
    }
    if chart.no_majority.is_none() {
        let request = pb::AlarmRequest::default();
        if let Ok(alarms) = client.maintenance().alarm(request).await {
            let text = |one: pb::AlarmMember| {
                let kind = one.alarm().as_str_name();
                format!("{}: {kind}", chart.called(one.member_id))
            };
            chart.alarms = alarms.alarms.into_iter().map(text).collect();
        }
        match client.sessions().list().await {
            Ok(listed) => chart.sessions = listed.sessions.into_iter().map(session).collect(),
            Err(error) => chart.is_etcd = error.code() == Some(Code::Unimplemented),
        }
        if !only && let Ok(listed) = client.elections().list(String::new()).await {
            others.extend(listed.elections.into_iter().map(|election| election.name));
        }
    }
    let names;
    (names, chart.left_out) = choose(wanted, others);
    // A member that stopped answering is not asked about every other name, too.
    let mut deaf = BTreeSet::new();
    for name in names {
        let election = one(chart, &client, name, &mut deaf).await;
        chart.elections.push(election);
    }
}

/// The elections to look at, in order, and how many are left out. Those that were named, or that a believer claims to
/// lead, come before the cut: an election that was not looked at proves no belief wrong.
fn choose(wanted: Vec<String>, others: Vec<String>) -> (Vec<String>, usize) {
    let wanted: BTreeSet<String> = wanted.into_iter().collect();
    let others: BTreeSet<String> =
        others.into_iter().filter(|name| !wanted.contains(name)).collect();
    let left_out = (wanted.len() + others.len()).saturating_sub(NAMES_MAX);
    let mut chosen: Vec<String> = wanted.into_iter().chain(others).take(NAMES_MAX).collect();
    chosen.sort();
    (chosen, left_out)
}

/// How long it takes to hear what a majority agreed on.
async fn majority(client: &Client) -> Result<Duration, ClientError> {
    let request =
        pb::RangeRequest { key: "\0".into(), count_only: true, ..pb::RangeRequest::default() };
    client.kv().range(request.clone()).await?;
    let asked = Instant::now();
    client.kv().range(request).await?;
    Ok(asked.elapsed())
}

async fn one(
    chart: &Chart,
    client: &Client,
    name: String,
    deaf: &mut BTreeSet<String>,
) -> Election {
    let mut election = Election { name: name.clone(), ..Election::default() };
    for _ in 0..ATTEMPTS {
        if chart.no_majority.is_none() {
            election.first = first(client, &name, false).await.ok();
        }
        election.seen_by.clear();
        for (member, _) in chart.speaking() {
            if deaf.contains(&member.name) {
                continue;
            }
            let Some(alone) = &member.client else { continue };
            match first(alone, &name, true).await {
                Ok(first) => _ = election.seen_by.insert(member.name.clone(), first),
                Err(_) => _ = deaf.insert(member.name.clone()),
            }
        }
        let Some(truth) = &election.first else { break };
        // A member that is further than the majority was when it answered knows better.
        let newer = |seen: &First| seen.revision > truth.revision && seen.token != truth.token;
        if !election.seen_by.values().any(newer) {
            break;
        }
    }
    if !chart.is_etcd && chart.no_majority.is_none() {
        // Whatever was answered before it failed is there.
        if let Err(error) = details(chart, client, &mut election).await
            && election.candidates.is_none()
        {
            election.candidates_unknown = Some(error.to_string());
        }
    }
    election
}

/// The first candidate by etcd's rule: the key that was created first. Local: as this member knows it.
async fn first(client: &Client, name: &str, local: bool) -> Result<First, ClientError> {
    let key: Vec<u8> = format!("{name}/").into();
    let range_end = tenure::api::span::after_prefix(&key).unwrap_or_default();
    let request = pb::RangeRequest {
        key: key.into(),
        range_end,
        // The mark of a frozen name comes first and is no candidate.
        limit: 2,
        sort_order: SortOrder::Ascend as i32,
        sort_target: SortTarget::Create as i32,
        serializable: local,
        keys_only: true,
        ..pb::RangeRequest::default()
    };
    let answer = client.kv().range(request).await?;
    let revision = answer.header.map_or(0, |header| header.revision);
    let kv = answer.kvs.into_iter().find(|kv| !kv.key.ends_with(FROZEN));
    let (token, key) = kv.map_or((0, String::new()), |kv| {
        (kv.create_revision, String::from_utf8_lossy(&kv.key).into_owned())
    });
    Ok(First { revision, token, key })
}

async fn details(
    chart: &Chart,
    client: &Client,
    election: &mut Election,
) -> Result<(), ClientError> {
    let listed = client.elections().candidates(election.name.clone()).await?;
    // 0 means no successor, and is also the session of a key without a lease.
    let successor = Some(listed.successor).filter(|session| *session != 0);
    let successor = successor.map(|session| format!("{session:x}"));
    election.frozen = listed.frozen;
    election.delay_ms = listed.delay_ms;
    let candidates: Vec<Candidate> =
        listed.candidates.into_iter().map(|one| candidate(chart, &election.name, one)).collect();
    let chosen = candidates.iter().find(|one| successor.as_ref() == Some(&one.session));
    election.successor = chosen.map(|one| one.identity.clone());
    election.candidates = Some(candidates);
    let history = client.elections().history(election.name.clone()).await?.tenures;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let lately = now.saturating_sub(LATELY).as_millis() as u64;
    let lost =
        |end: v1::EndReason| matches!(end, v1::EndReason::Expired | v1::EndReason::ConnectionLost);
    let over: Vec<_> = history.iter().filter(|tenure| tenure.until_unix_ms > 0).collect();
    election.lost_lately =
        over.iter().filter(|one| one.until_unix_ms >= lately && lost(one.reason())).count();
    election.last_end = over.last().map(|tenure| LastEnd {
        identity: tenure.identity.clone(),
        token: tenure.token,
        reason: reason(tenure.reason()),
        ended: ended(tenure),
    });
    Ok(())
}

fn candidate(chart: &Chart, name: &str, one: v1::Candidate) -> Candidate {
    let (session, times) = (format!("{:x}", one.session), Times::of(&one));
    let known = chart.sessions.iter().find(|known| known.session == session);
    Candidate {
        shares: one.mode() != v1::Mode::Exclusive,
        // A client of etcd's is told by itself, when it sees that it is first.
        told: one.holds && known.is_none_or(|known| known.holds.iter().any(|held| held == name)),
        identity: if one.identity.is_empty() { session.clone() } else { one.identity },
        token: one.token,
        has_lease: one.session != 0,
        session,
        holds: one.holds,
        unhealthy: one.unhealthy,
        stock: one.stock,
        since_unix_ms: one.since_unix_ms,
        times,
    }
}

fn session(info: v1::SessionInfo) -> Session {
    let names = |wanted: fn(&v1::Candidacy) -> bool| {
        let wanted = info.candidacies.iter().filter(|place| wanted(place));
        wanted.map(|place| place.name.clone()).collect()
    };
    Session {
        session: format!("{:x}", info.session),
        holds: names(|place| place.held),
        draining: names(|place| place.draining),
        identity: info.identity,
        ttl_ms: info.ttl_ms,
        remaining_ms: info.remaining_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_looks_first_at_what_was_asked_about() {
        let others: Vec<String> = (0..NAMES_MAX).map(|n| format!("a{n:04}")).collect();
        let (chosen, left_out) = choose(vec!["z".into(), "a0001".into()], others);
        assert_eq!((chosen.len(), left_out), (NAMES_MAX, 1));
        assert!(chosen.contains(&"z".to_owned()) && chosen.is_sorted());
    }
}
