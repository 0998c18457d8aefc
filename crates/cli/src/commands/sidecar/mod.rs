//! Answers over HTTP which process leads, for a container beside us.
//!
//! A program that cannot use the library asks its own machine over HTTP instead: does this replica lead, and if not,
//! which one does? `campaign` campaigns for ever, `news` keeps asking for the leader, both store what they know in the
//! `StatusCache`, and `belief` judges it at the moment of each answer. A stale answer is worse than none, so what cannot be
//! vouched for is a 503.
//!
//! What this cannot do is stop the program beside it: between an answer and the act that follows it
//! any time may pass. So every answer carries the fencing token, which has to go along with what is written.

mod belief;
mod campaign;
mod file;
mod http;
mod listen;
mod metrics;
mod news;
mod status_cache;
mod words;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tenure::grpc::{Client, Options};
use tenure::{ElectionName, SessionOptions};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::campaign::Campaign;
use self::file::StatusFile;
use self::http::{Door, Healthz};
use self::listen::Listen;
use self::metrics::Counts;
use self::news::Reporter;
use self::status_cache::StatusCache;
use crate::args::{Settings, duration};
use crate::commands::election::look::host_name;
use crate::commands::stop::told_to_stop;
use crate::exit::{Exit, usage};

/// How often a question may be tried within a lease.
const ATTEMPTS_PER_TTL: u32 = 4;
/// How long everything may take to end, beyond the grace that was asked for.
const END_MAX: Duration = Duration::from_secs(8);
/// Requests to step down that may wait.
const ORDERS_MAX: usize = 8;

/// How to stand, and what to answer.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of the election
    #[arg(long, value_name = "NAME")]
    election: ElectionName,
    /// Where to answer. Containers of one pod share loopback; probes of a kubelet come from outside and
    /// need :4040, which is all addresses
    #[arg(long, default_value = "127.0.0.1:4040", value_name = "ADDRESS", value_parser = listen::parse)]
    listen: Listen,
    /// Who this is; must differ between replicas [default: the host's name, which is the pod's]
    #[arg(long)]
    identity: Option<String>,
    /// What others shall know of the leader: its address, say
    #[arg(long, default_value = "", hide_default_value = true)]
    value: String,
    /// How long the session lives without a sign of life, and how old an answer may be
    #[arg(long, default_value = "15s", value_parser = duration)]
    ttl: Duration,
    /// Whoever has more leads before whoever has less, 0 to 1000
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    priority: u32,
    /// What /healthz means
    #[arg(long, value_enum, default_value_t = Healthz::Lease)]
    healthz: Healthz,
    /// /readyz is 200 only while leading, so that a Service routes to the leader
    #[arg(long)]
    ready_when_leader: bool,
    /// Keep the answer of /leader in this file, too
    #[arg(long, value_name = "PATH")]
    status_file: Option<PathBuf>,
    /// Only look: do not stand for the election
    #[arg(long, conflicts_with_all = ["identity", "value", "priority", "ready_when_leader", "grace", "fast_release"])]
    observe_only: bool,
    /// How long to say "not leading" before others may lead, when this gives up or is made to: the time
    /// in which the program beside it hears of it
    #[arg(long, default_value = "0s", value_parser = duration, value_name = "DURATION")]
    grace: Duration,
    /// Let others lead as soon as this process dies, not after --ttl. The program beside it may still be
    /// at work then: only for those who check tokens
    #[arg(long)]
    fast_release: bool,
}

/// Answers until told to stop, then gives up what it holds.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let options = session_options(&args);
    options.validate().map_err(|error| usage(format!("--ttl: {error}")))?;
    if args.observe_only && args.healthz == Healthz::Leader {
        return Err(usage("--healthz leader with --observe-only would never be healthy"));
    }
    if options.identity.is_empty() {
        return Err(usage("--identity must not be empty: nobody could tell who leads"));
    }
    // Before any client can see that we are there.
    let told = told_to_stop();
    let identity = (!args.observe_only).then(|| options.identity.clone());
    let status =
        Arc::new(StatusCache::new(args.election.to_string(), identity, args.value, args.ttl));
    // Before the port opens: a status file of an earlier run must be gone by the time a client can connect.
    let file =
        args.status_file.map(|path| StatusFile::new(path, Arc::clone(&status))).transpose()?;
    let listener = args.listen.open().await?;
    let counts = Arc::new(Counts::default());
    let (stop, stopping) = watch::channel(false);
    let (close, closing) = watch::channel(false);
    let (order, orders) = mpsc::channel(ORDERS_MAX);
    let engine = settings.engine();
    let reporter = Reporter {
        client: client(&settings, args.ttl),
        engine: engine.clone(),
        name: args.election.clone(),
        status: Arc::clone(&status),
        counts: Arc::clone(&counts),
    };
    let door = Door::new(
        Arc::clone(&status),
        Arc::clone(&counts),
        args.healthz,
        args.ready_when_leader,
        args.grace,
        order,
        stopping.clone(),
    );
    if let Ok(at) = listener.local_addr() {
        let who = status.identity.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
        eprintln!("answering for {}{who} on http://{at}", args.election);
    }
    let serving = tokio::spawn(http::serve(listener, door, closing));
    let stand = Campaign {
        engine,
        name: args.election,
        options,
        priority: args.priority,
        grace: args.grace,
        status: Arc::clone(&status),
        counts,
        orders,
        stop: stopping.clone(),
    };
    let stand =
        async move { if args.observe_only { wait_for(stopping).await } else { stand.run().await } };
    let write = async {
        match &file {
            Some(file) => file.run().await,
            None => std::future::pending().await,
        }
    };
    let end = async {
        told.await;
        let _ = stop.send(true);
        tokio::time::sleep(args.grace + END_MAX).await;
    };
    let mut ended = Ok(Exit::Done);
    tokio::select! {
        () = stand => {}
        () = end => eprintln!("the servers did not confirm the end in time"),
        foreign = reporter.run() => ended = Err(foreign.into()),
        never = status.tell_changes() => match never {},
        never = write => match never {},
    }
    if let Some(file) = &file {
        let _ = file.remove();
    }
    let _ = close.send(true);
    let _ = timeout(END_MAX, serving).await;
    ended
}

fn session_options(args: &Args) -> SessionOptions {
    let identity = args.identity.clone().unwrap_or_else(host_name);
    SessionOptions { identity, fast_release: args.fast_release, ..SessionOptions::new(args.ttl) }
}

/// A client that gives requests up early enough to repeat them within a lease.
fn client(settings: &Settings, ttl: Duration) -> Client {
    let longest = ttl / ATTEMPTS_PER_TTL;
    let options = Options {
        dial_timeout: settings.options.dial_timeout.min(longest),
        request_timeout: settings.options.request_timeout.min(longest),
        credentials: settings.options.credentials.clone(),
    };
    Client::new(settings.endpoints.clone(), options)
}

async fn wait_for(mut stopping: watch::Receiver<bool>) {
    campaign::stopped(&mut stopping).await;
}
