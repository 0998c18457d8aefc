//! Watch keys while others write them.
//!
//! Every watcher sees every write, so what is delivered is writes times watchers. The value of each
//! write begins with the moment it was sent; a sample of the events is read for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::Uri;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use tenure::api::Span;
use tenure::api::wire::etcdserverpb as pb;
use tenure::api::wire::etcdserverpb::watch_request::RequestUnion;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::BenchTarget;
use crate::connection::{Connection, Fault, Stream, framed, path};
use crate::drive::{Client, drive};
use crate::key::{Dice, KeyArgs};
use crate::load::LoadArgs;
use crate::report::{Quantiles, Report, ratio, rounded};

const WRITERS_DEFAULT: u32 = 4;

/// One message in so many is read for the moment it was sent; counting the others is cheap.
const SAMPLE_EVERY: u64 = 32;

/// How long to wait for another event after the last write.
const DRAIN_FOR: Duration = Duration::from_secs(5);

/// The number of `events` in a watch answer.
const EVENTS_FIELD: u32 = 11;

/// How to watch and write.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The clients of the load are the writers
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    keys: KeyArgs,
    /// Bytes of a value
    #[arg(long, default_value_t = 256)]
    val_size: usize,
    /// How many watchers, each of all keys
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    watchers: u32,
    /// How many watchers share a stream
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    watchers_per_stream: u32,
}

/// Runs it.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let writers = args.load.clients_or(WRITERS_DEFAULT);
    let connections = args.load.connect(writers, target).await?;
    let streams = args.watchers.div_ceil(args.watchers_per_stream) as usize;
    let watching = args.load.connect(streams, target).await?;

    let mut opened = Vec::with_capacity(streams);
    for index in 0..streams {
        let before = index as u32 * args.watchers_per_stream;
        let share = args.watchers_per_stream.min(args.watchers - before);
        let connection = watching[index % watching.len()].clone();
        let stream = open(connection, &args.keys, share).await;
        opened.push(stream.map_err(|fault| anyhow::anyhow!("opening a watch: {}", fault.text()))?);
    }

    let begin = Instant::now();
    let delivered = Arc::new(Delivered::new(begin + args.load.warm_up));
    let mut watchers = JoinSet::new();
    for stream in opened {
        watchers.spawn(watch(stream, Arc::clone(&delivered), begin));
    }
    let clients = (0..writers)
        .map(|index| {
            let connection = connections[index % connections.len()].clone();
            Stamper {
                method: connection.method(path::PUT),
                connection,
                keys: args.keys.clone(),
                filler: vec![b'v'; args.val_size.saturating_sub(8)].into(),
                dice: Dice::new(index),
                begin,
                written: 0,
            }
        })
        .collect();
    let (stage, clients) = drive(&args.load, clients).await;
    let written: u64 = clients.iter().map(|client| client.written).sum();
    let expected = written * u64::from(args.watchers);
    delivered.drain(expected).await;
    watchers.shutdown().await;

    let all = connections.len() + watching.len();
    let mut report = Report::of("watch", &target.endpoints, writers, all, &stage);
    let seconds = delivered.seconds();
    let measured = delivered.measured.load(Ordering::Relaxed);
    report.figure("watchers", u64::from(args.watchers));
    report.figure("streams", streams);
    report.figure("events", measured);
    report.figure("events_per_second", rounded(ratio(measured as f64, seconds)));
    report.figure("events_missing", expected.saturating_sub(delivered.total()));
    report.figure(
        "client_cpu_us_per_event",
        rounded(ratio(stage.cpu().as_secs_f64() * 1e6, measured as f64)),
    );
    report.figure("delivery_ms", delivered.latency());
    Ok(report)
}

/// Opens a stream with so many watchers and waits until all are confirmed.
async fn open(mut connection: Connection, keys: &KeyArgs, watchers: u32) -> Result<Stream, Fault> {
    let (key, range_end) = Span::prefix(keys.key_prefix.clone().into()).to_wire();
    let create = pb::WatchCreateRequest { key, range_end, ..Default::default() };
    let create =
        framed(&pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) });
    let method = connection.method(path::WATCH);
    let mut stream = connection.stream(&method, create.clone()).await?;
    for _ in 1..watchers {
        stream.send(create.clone())?;
    }
    for _ in 0..watchers {
        let answer = next(&mut stream).await?;
        let answer = pb::WatchResponse::decode(answer)
            .map_err(|error| Fault::Transport(error.to_string()))?;
        if !answer.created || answer.canceled {
            return Err(Fault::Status(format!("not confirmed: {}", answer.cancel_reason)));
        }
    }
    Ok(stream)
}

/// Counts until the stream ends.
async fn watch(mut stream: Stream, delivered: Arc<Delivered>, begin: Instant) {
    let mut messages = 0;
    while let Ok(message) = next(&mut stream).await {
        delivered.count(events_in(&message));
        messages += 1;
        if messages % SAMPLE_EVERY == 0 {
            delivered.sample(&message, begin);
        }
    }
}

async fn next(stream: &mut Stream) -> Result<Bytes, Fault> {
    stream.next().await?.ok_or_else(|| Fault::Transport("the stream has ended".into()))
}

/// How many events an answer carries, without reading them.
fn events_in(mut message: &[u8]) -> u64 {
    let mut events = 0;
    while let Ok((field, wire_type)) = decode_key(&mut message) {
        events += u64::from(field == EVENTS_FIELD);
        if skip_field(wire_type, field, &mut message, DecodeContext::default()).is_err() {
            break;
        }
    }
    events
}

/// What the watchers have seen together.
struct Delivered {
    measured_from: Instant,
    warm_up: AtomicU64,
    measured: AtomicU64,
    last_micros: AtomicU64,
    latency: std::sync::Mutex<Vec<f64>>,
}

impl Delivered {
    fn new(measured_from: Instant) -> Delivered {
        Delivered {
            measured_from,
            warm_up: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            last_micros: AtomicU64::new(0),
            latency: std::sync::Mutex::default(),
        }
    }

    fn count(&self, events: u64) {
        match Instant::now().checked_duration_since(self.measured_from) {
            None => self.warm_up.fetch_add(events, Ordering::Relaxed),
            Some(since) => {
                self.last_micros.store(since.as_micros() as u64, Ordering::Relaxed);
                self.measured.fetch_add(events, Ordering::Relaxed)
            }
        };
    }

    fn sample(&self, message: &Bytes, begin: Instant) {
        let now = begin.elapsed();
        let answer = pb::WatchResponse::decode(message.clone()).unwrap_or_default();
        let last = answer.events.last().and_then(|event| event.kv.as_ref());
        let Some(stamp) = last.and_then(|kv| kv.value.first_chunk::<8>()) else { return };
        let sent = Duration::from_micros(u64::from_be_bytes(*stamp));
        if begin + sent >= self.measured_from {
            let late = now.saturating_sub(sent).as_secs_f64() * 1e3;
            self.latency.lock().expect("no panic while held").push(late);
        }
    }

    /// Waits until all that was written has been seen, or nothing more comes.
    async fn drain(&self, expected: u64) {
        let (mut seen, mut since) = (self.total(), Instant::now());
        while seen < expected && since.elapsed() < DRAIN_FOR {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if self.total() > seen {
                (seen, since) = (self.total(), Instant::now());
            }
        }
    }

    fn total(&self) -> u64 {
        self.warm_up.load(Ordering::Relaxed) + self.measured.load(Ordering::Relaxed)
    }

    fn seconds(&self) -> f64 {
        self.last_micros.load(Ordering::Relaxed) as f64 / 1e6
    }

    fn latency(&self) -> Quantiles {
        Quantiles::of_values(self.latency.lock().expect("no panic while held").clone())
    }
}

/// A writer whose values begin with the moment they were sent, in microseconds of the run.
struct Stamper {
    connection: Connection,
    method: Uri,
    keys: KeyArgs,
    filler: Bytes,
    dice: Dice,
    begin: Instant,
    written: u64,
}

impl Client for Stamper {
    async fn operate(&mut self) -> Result<(), Fault> {
        let mut value = BytesMut::with_capacity(8 + self.filler.len());
        value.put_u64(self.begin.elapsed().as_micros() as u64);
        value.put_slice(&self.filler);
        let key = self.keys.random(&mut self.dice);
        let put = pb::PutRequest { key, value: value.freeze(), ..Default::default() };
        self.connection.unary(&self.method, framed(&put)).await?;
        self.written += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_without_reading_them() {
        let answer = |events| pb::WatchResponse {
            header: Some(pb::ResponseHeader { revision: 300, ..Default::default() }),
            watch_id: 7,
            cancel_reason: "none".into(),
            events: vec![Default::default(); events],
            ..Default::default()
        };
        for events in [0, 1, 17] {
            assert_eq!(events_in(&answer(events).encode_to_vec()), events as u64);
        }
    }
}
