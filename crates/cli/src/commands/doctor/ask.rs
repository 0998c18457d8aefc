//! The members, one by one: whether each answers, which raft leader it follows, how far it is.

use std::time::{Duration, Instant, SystemTime};

use tenure::api::wire::etcdserverpb as pb;
use tenure::grpc::{Client, ClientError, Dialer, Endpoint, Options};
use tokio::task::JoinSet;

use super::chart::{Chart, Health, Member, MemberReport};
use crate::args::Settings;
use crate::commands::web;

/// What a member needs the others for is not waited for longer than this, or an examination of a
/// sick cluster takes for ever.
const PATIENCE_MAX: Duration = Duration::from_secs(3);

/// Asks all endpoints, and all members that they name.
pub(super) async fn cluster(settings: &Settings) -> anyhow::Result<Chart> {
    let options = settings.options.within(PATIENCE_MAX);
    let mut asked = each(settings.endpoints.clone(), &options).await;
    let roll = newest_roll(&asked);
    // Members that were not named on the command line, and those that were named by another address.
    let missing = roll.iter().filter(|listed| {
        let speaks = |one: &Asked| one.report.as_ref().is_ok_and(|(s, _)| s.member_id == listed.id);
        let tried = |one: &Asked| listed.client_ur_ls.iter().any(|url| is_at(url, &one.endpoint));
        !asked.iter().any(|one| speaks(one) || tried(one))
    });
    let urls = missing.flat_map(|listed| listed.client_ur_ls.iter().take(1));
    let more: Vec<Endpoint> = urls.filter_map(|url| url.parse().ok()).collect();
    asked.extend(each(more, &options).await);

    let mut members: Vec<Member> = asked.into_iter().map(|one| one.into_member(&roll)).collect();
    members.extend(unheard(&members, &roll));
    // One member may have been named twice.
    let mut seen = Vec::new();
    members.retain(|member| match member.report.as_ref().map(|report| report.member_id) {
        Some(id) if seen.contains(&id) => false,
        Some(id) => {
            seen.push(id);
            true
        }
        None => true,
    });
    members.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Chart { members, options, ..Chart::default() })
}

/// One endpoint and what came of it.
struct Asked {
    endpoint: Endpoint,
    client: Client,
    report: Result<(MemberReport, Vec<pb::Member>), String>,
}

impl Asked {
    fn into_member(self, roll: &[pb::Member]) -> Member {
        // Members say where they are as URLs, people mostly do not; one form is enough.
        let endpoint = self.endpoint.to_string();
        let endpoint = endpoint.strip_prefix("http://").map_or(endpoint.clone(), str::to_owned);
        let report = self.report.map(|(report, _)| report);
        let listed = roll.iter().find(|listed| match &report {
            Ok(report) => listed.id == report.member_id,
            Err(_) => listed.client_ur_ls.iter().any(|url| is_at(url, &self.endpoint)),
        });
        let name = listed.map(|listed| listed.name.clone()).filter(|name| !name.is_empty());
        Member {
            name: name.unwrap_or_else(|| endpoint.clone()),
            endpoint,
            is_learner: listed.is_some_and(|listed| listed.is_learner),
            belongs: listed.is_some(),
            silence: report.as_ref().err().cloned(),
            report: report.ok(),
            client: Some(self.client),
        }
    }
}

/// Members that say nowhere that clients could reach them: they were added and never started.
fn unheard(members: &[Member], roll: &[pb::Member]) -> Vec<Member> {
    let known = |listed: &&pb::Member| {
        members.iter().any(|member| {
            let id = member.report.as_ref().map(|report| report.member_id);
            id == Some(listed.id) || (id.is_none() && member.name == listed.name)
        })
    };
    let unknown = roll.iter().filter(|listed| !known(listed) && listed.client_ur_ls.is_empty());
    let silent = |listed: &pb::Member| Member {
        name: if listed.name.is_empty() { format!("{:x}", listed.id) } else { listed.name.clone() },
        endpoint: listed.peer_ur_ls.join(","),
        is_learner: listed.is_learner,
        belongs: true,
        report: None,
        silence: Some("it was added and never started".into()),
        client: None,
    };
    unknown.map(silent).collect()
}

fn is_at(url: &str, endpoint: &Endpoint) -> bool {
    let at: Result<Endpoint, _> = url.parse();
    at.is_ok_and(|at| at.uri().authority() == endpoint.uri().authority())
}

/// The member list of the member that is furthest.
fn newest_roll(asked: &[Asked]) -> Vec<pb::Member> {
    let answers = asked.iter().filter_map(|one| one.report.as_ref().ok());
    let newest = answers.max_by_key(|(report, _)| (report.term, report.applied));
    newest.map(|(_, roll)| roll.clone()).unwrap_or_default()
}

async fn each(endpoints: Vec<Endpoint>, options: &Options) -> Vec<Asked> {
    let mut asking = JoinSet::new();
    for (at, endpoint) in endpoints.into_iter().enumerate() {
        let options = options.clone();
        asking.spawn(async move { (at, one(endpoint, options).await) });
    }
    let mut answers = asking.join_all().await;
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, asked)| asked).collect()
}

async fn one(endpoint: Endpoint, options: Options) -> Asked {
    let patience = options.request_timeout;
    let dialer = Dialer::new(options.tls.clone());
    let client = Client::new(vec![endpoint.clone()], options);
    let report = async {
        // The first answer has the time in it that the connection took.
        client.maintenance().status().await?;
        let asked = Instant::now();
        let status = client.maintenance().status().await?;
        let took = asked.elapsed();
        let request = pb::MemberListRequest { linearizable: false };
        let roll = client.cluster().member_list(request).await?.members;
        let mut report = read(status, took);
        report.health = client.cluster().health().await.ok().map(Health::from);
        Ok((report, roll))
    };
    let report: Result<_, ClientError> = report.await;
    let mut report = report.map_err(|error| match error {
        // Its address stands beside it anyway.
        ClientError::Unreachable { cause, .. } => cause,
        other => other.to_string(),
    });
    if let Ok((report, _)) = &mut report {
        report.clock_ahead_s = clock(&dialer, &endpoint, patience).await;
    }
    Asked { endpoint, client, report }
}

fn read(status: pb::StatusResponse, took: Duration) -> MemberReport {
    let header = status.header.unwrap_or_default();
    MemberReport {
        cluster_id: header.cluster_id,
        member_id: header.member_id,
        follows: status.leader,
        term: status.raft_term,
        committed: status.raft_index,
        applied: status.raft_applied_index,
        revision: header.revision,
        errors: status.errors,
        round_trip_ms: took.as_secs_f64() * 1000.0,
        clock_ahead_s: None,
        health: None,
    }
}

/// Every answer over HTTP carries the time.
async fn clock(dialer: &Dialer, endpoint: &Endpoint, patience: Duration) -> Option<i64> {
    let theirs = web::get(dialer, endpoint, "/version", patience).await.ok()?.date?;
    let ours = SystemTime::now();
    Some(match theirs.duration_since(ours) {
        Ok(ahead) => ahead.as_secs() as i64,
        Err(behind) => -(behind.duration().as_secs() as i64),
    })
}
