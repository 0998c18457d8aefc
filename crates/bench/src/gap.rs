//! Write without pause, move on at every failure, and measure the longest time without a write.
//!
//! For failover: a script kills a member at a moment it notes, and finds the next acknowledged write
//! in the file of acknowledgements.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::api::wire::etcdserverpb as pb;
use tenure::grpc::{Endpoint, Options};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::BenchTarget;
use crate::connection::{Connection, Fault, framed, path};
use crate::key::{value, value_size};
use crate::report::{Report, rounded};
use crate::stage::{Limit, Stage};
use tenure::api::duration::duration;

/// Pause after a round in which no member could be reached.
const PAUSE: Duration = Duration::from_millis(1);

/// How to write.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Clients, each writing its own key
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// Stop after this long
    #[arg(long, default_value = "30s", value_parser = duration)]
    duration: Duration,
    /// Pause of a client after each write
    #[arg(long, default_value = "2ms", value_parser = duration)]
    interval: Duration,
    /// Give a member up after this long without an answer: a write that reached a member without a
    /// leader may hang, and no gap is measured more finely than this
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration)]
    request_timeout: Duration,
    /// Size of a value: bytes, or as 4K
    #[arg(long, default_value = "16", value_name = "SIZE", value_parser = value_size)]
    val_size: usize,
    /// Write every acknowledgement to this file: unix seconds, microseconds taken, client, member
    #[arg(long, value_name = "FILE")]
    acks: Option<PathBuf>,
    /// What all keys begin with
    #[arg(long, default_value = "bench-gap/")]
    key_prefix: String,
}

/// One acknowledged write.
#[derive(Clone, Copy)]
struct Ack {
    at: Instant,
    taken: Duration,
    client: u32,
    member: usize,
}

/// Runs it.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let args = Arc::new(args);
    let endpoints = Arc::new(target.endpoints.clone());
    let stage = Arc::new(Stage::begin(Duration::ZERO, Limit::For(args.duration)));
    let (begin, begin_time) = (Instant::now(), SystemTime::now());
    let mut clients = JoinSet::new();
    for client in 0..args.clients {
        let writer = Writer {
            client,
            member: client as usize,
            endpoints: Arc::clone(&endpoints),
            connection: None,
            options: target.options.clone(),
            acks: Vec::new(),
        };
        clients.spawn(write(writer, Arc::clone(&args), Arc::clone(&stage)));
    }
    let by_client = clients.join_all().await;
    let end = Instant::now();

    let worst_of_one = by_client.iter().filter_map(|acks| longest_gap(begin, acks, end)).max();
    let mut acks: Vec<Ack> = by_client.into_iter().flatten().collect();
    acks.sort_by_key(|ack| ack.at);
    let unix = |at: Instant| {
        let since = begin_time.duration_since(UNIX_EPOCH).unwrap_or_default() + (at - begin);
        since.as_secs_f64()
    };
    if let Some(file) = &args.acks {
        save(file, &acks, unix, &endpoints)?;
    }

    let members = endpoints.len();
    let mut report = Report::of("gap", &endpoints, args.clients as usize, members, &stage);
    let failed: u64 = stage.tally().errors.values().sum();
    report.figure("failed_requests", failed);
    if let Some((gap, from)) = longest_gap(begin, &acks, end) {
        report.figure("longest_gap_ms", rounded(gap.as_secs_f64() * 1e3));
        report.figure("longest_gap_from_unix", unix(from));
        report.figure("longest_gap_to_unix", unix(from + gap));
    }
    if let Some((gap, _)) = worst_of_one {
        report.figure("longest_gap_of_one_client_ms", rounded(gap.as_secs_f64() * 1e3));
    }
    Ok(report)
}

struct Writer {
    client: u32,
    /// The member in use, counted up with every move.
    member: usize,
    endpoints: Arc<Vec<Endpoint>>,
    connection: Option<Connection>,
    options: Options,
    acks: Vec<Ack>,
}

async fn write(mut writer: Writer, args: Arc<Args>, stage: Arc<Stage>) -> Vec<Ack> {
    let put = framed(&pb::PutRequest {
        key: format!("{}{:06}", args.key_prefix, writer.client).into(),
        value: value(args.val_size),
        ..Default::default()
    });
    let mut failures = 0;
    loop {
        let sent = Instant::now();
        let Some(leave) = stage.leave(sent) else { return writer.acks };
        let attempt = tokio::time::timeout(args.request_timeout, writer.attempt(put.clone())).await;
        let result = attempt.unwrap_or_else(|_| Err(Fault::Transport("no answer in time".into())));
        let (at, failed) = (Instant::now(), result.is_err());
        stage.done(leave, at - sent, result);
        if !failed {
            let (client, member) = (writer.client, writer.member % writer.endpoints.len());
            writer.acks.push(Ack { at, taken: at - sent, client, member });
            failures = 0;
            tokio::time::sleep(args.interval).await;
            continue;
        }
        writer.connection = None;
        writer.member += 1;
        failures += 1;
        if failures % writer.endpoints.len() == 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Writer {
    /// One write. A member that is closing its connections hands the request back, and the next one
    /// gets it.
    async fn attempt(&mut self, put: bytes::Bytes) -> Result<(), Fault> {
        for _ in 1..self.endpoints.len() {
            match self.attempt_here(put.clone()).await {
                Err(Fault::Untouched) => {
                    self.connection = None;
                    self.member += 1;
                }
                result => return result,
            }
        }
        self.attempt_here(put).await
    }

    async fn attempt_here(&mut self, put: bytes::Bytes) -> Result<(), Fault> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let endpoint = &self.endpoints[self.member % self.endpoints.len()];
                none.insert(Connection::open(endpoint, &self.options).await?)
            }
        };
        let method = connection.method(path::PUT);
        connection.unary(&method, put).await.map(drop)
    }
}

/// The longest time from one acknowledgement to the next, the ends of the run included, and when it
/// began.
fn longest_gap(begin: Instant, acks: &[Ack], end: Instant) -> Option<(Duration, Instant)> {
    let moments = [begin].into_iter().chain(acks.iter().map(|ack| ack.at)).chain([end]);
    let moments: Vec<Instant> = moments.collect();
    moments.windows(2).map(|pair| (pair[1] - pair[0], pair[0])).max()
}

fn save(
    file: &Path,
    acks: &[Ack],
    unix: impl Fn(Instant) -> f64,
    endpoints: &[Endpoint],
) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    for ack in acks {
        let micros = ack.taken.as_micros();
        writeln!(out, "{:.6} {micros} {} {}", unix(ack.at), ack.client, endpoints[ack.member])?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_may_lie_at_an_end() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let ack = |millis| Ack { at: at(millis), taken: Duration::ZERO, client: 0, member: 0 };
        let gap = |acks: &[Ack]| longest_gap(begin, acks, at(100)).unwrap();
        assert_eq!(gap(&[ack(10), ack(70)]), (Duration::from_millis(60), at(10)));
        assert_eq!(gap(&[ack(10), ack(20)]), (Duration::from_millis(80), at(20)));
        assert_eq!(gap(&[]), (Duration::from_millis(100), begin));
    }
}
