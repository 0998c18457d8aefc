//! Let leases run out and see how late their keys go.
//!
//! Each key hangs on its own lease. Its deletion is due one TTL after the grant; what a watcher sees
//! later than that is lateness. The member counts from some moment between when the grant was sent
//! and when its answer arrived, so both are reported: no key may go before *sent* + TTL, and
//! lateness beyond *answered* + TTL is the member's own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tenure::api::Span;
use tenure::api::wire::etcdserverpb as pb;
use tenure::api::wire::etcdserverpb::watch_create_request::FilterType;
use tenure::api::wire::etcdserverpb::watch_request::RequestUnion;
use tokio::time::Instant;

use crate::BenchTarget;
use crate::connection::{Connection, Fault, Stream, framed, path};
use crate::drive::for_each;
use crate::lease_grant::grant;
use crate::load::connect;
use crate::report::{Quantiles, Report};
use crate::stage::{Limit, Stage};
use tenure::api::duration::{duration, whole_seconds};

/// What to let run out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many keys, each with its own lease
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    keys: u32,
    /// Time to live of the leases
    #[arg(long, default_value = "5s", value_parser = whole_seconds)]
    ttl: i64,
    /// How many leases are asked for at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// How long after the last deadline to wait for deletions that do not come
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    patience: Duration,
    /// What all keys begin with
    #[arg(long, default_value = "bench-expiry/")]
    key_prefix: String,
}

/// One lease and its key.
struct Granted {
    key: Bytes,
    sent: Instant,
    answered: Instant,
    ttl: Duration,
}

/// Runs it.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let mut connections = Vec::new();
    for endpoint in &target.endpoints {
        connections.push(connect(endpoint, target).await?);
    }
    clear(&mut connections[0].clone(), &args.key_prefix).await.map_err(setup)?;
    let deletions = open(&mut connections[0].clone(), &args.key_prefix).await.map_err(setup)?;
    let seen = tokio::spawn(collect(deletions, args.keys as usize));

    let stage = Arc::new(Stage::begin(Duration::ZERO, Limit::Operations(args.keys.into())));
    let granted = for_each(0..args.keys, args.clients as usize, |index, number| {
        let connection = connections[index % connections.len()].clone();
        let key = format!("{}{number:08}", args.key_prefix).into();
        attach(connection, key, args.ttl, Arc::clone(&stage))
    })
    .await?;

    let last = granted.iter().map(|lease| lease.answered + lease.ttl).max();
    let give_up = last.unwrap_or_else(Instant::now) + args.patience;
    let seen =
        tokio::time::timeout_at(give_up, seen).await.unwrap_or_else(|_| Ok(HashMap::new()))?;

    let clients = args.clients as usize;
    let count = connections.len();
    let mut report = Report::of("lease-expiry", &target.endpoints, clients, count, &stage);
    let pairs: Vec<_> =
        granted.iter().filter_map(|lease| Some((lease, *seen.get(&lease.key)?))).collect();
    let late = |from: fn(&Granted) -> Instant| -> Vec<f64> {
        pairs.iter().map(|(lease, at)| millis_after(from(lease) + lease.ttl, *at)).collect()
    };
    let after_sent = late(|lease| lease.sent);
    report.figure("ttl_seconds", granted.first().map_or(0, |lease| lease.ttl.as_secs()));
    report.figure("expired", pairs.len());
    report.figure("not_expired", granted.len() - pairs.len());
    report.figure("expired_early", after_sent.iter().filter(|late| **late < 0.0).count());
    report.figure("late_ms_after_answer", Quantiles::of_values(late(|lease| lease.answered)));
    report.figure("late_ms_after_sent", Quantiles::of_values(after_sent));
    Ok(report)
}

/// Grants a lease and hangs a key on it.
async fn attach(
    mut connection: Connection,
    key: Bytes,
    ttl: i64,
    stage: Arc<Stage>,
) -> Result<Granted, Fault> {
    let sent = Instant::now();
    let leave = stage.leave(sent);
    let method = connection.method(path::LEASE_GRANT);
    let lease = grant(&mut connection, &method, ttl).await?;
    let answered = Instant::now();
    if let Some(leave) = leave {
        stage.done(leave, answered - sent, Ok(()));
    }
    let put = pb::PutRequest { key: key.clone(), lease: lease.id, ..Default::default() };
    let method = connection.method(path::PUT);
    connection.unary(&method, framed(&put)).await?;
    // The member may have granted more than was asked for.
    let ttl = Duration::from_secs(lease.ttl.unsigned_abs());
    Ok(Granted { key, sent, answered, ttl })
}

/// Removes what an earlier run left.
async fn clear(connection: &mut Connection, prefix: &str) -> Result<(), Fault> {
    let (key, range_end) = Span::prefix(prefix.to_owned().into()).to_wire();
    let method = connection.method(path::DELETE_RANGE);
    let request = pb::DeleteRangeRequest { key, range_end, prev_kv: false };
    connection.unary(&method, framed(&request)).await.map(drop)
}

/// Opens a watch of deletions and waits until it is confirmed.
async fn open(connection: &mut Connection, prefix: &str) -> Result<Stream, Fault> {
    let (key, range_end) = Span::prefix(prefix.to_owned().into()).to_wire();
    let create = pb::WatchCreateRequest {
        key,
        range_end,
        filters: vec![FilterType::Noput.into()],
        ..Default::default()
    };
    let create = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let method = connection.method(path::WATCH);
    let mut stream = connection.stream(&method, framed(&create)).await?;
    stream.next().await?.ok_or_else(|| Fault::Transport("the stream has ended".into()))?;
    Ok(stream)
}

/// When each key was seen to go, until `count` of them have.
async fn collect(mut deletions: Stream, count: usize) -> HashMap<Bytes, Instant> {
    let mut seen = HashMap::with_capacity(count);
    while seen.len() < count {
        let Ok(Some(answer)) = deletions.next().await else { break };
        let now = Instant::now();
        let answer = pb::WatchResponse::decode(answer).unwrap_or_default();
        let keys = answer.events.into_iter().filter_map(|event| Some(event.kv?.key));
        seen.extend(keys.map(|key| (key, now)));
    }
    seen
}

fn millis_after(due: Instant, at: Instant) -> f64 {
    let late = at.saturating_duration_since(due).as_secs_f64();
    let early = due.saturating_duration_since(at).as_secs_f64();
    (late - early) * 1e3
}

fn setup(fault: Fault) -> anyhow::Error {
    anyhow::anyhow!("setting up: {}", fault.text())
}
