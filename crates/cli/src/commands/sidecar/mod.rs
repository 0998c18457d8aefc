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

use tenure::ElectionName;
use tenure::grpc::Client;
use tenure_server::browsers::Browsers;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::campaign::Campaign;
use self::file::StatusFile;
use self::http::{AnswerContext, Healthz};
use self::listen::Listen;
use self::metrics::Counts;
use self::news::Reporter;
use self::status_cache::StatusCache;
use crate::args::{CandidateArgs, Settings, duration};
use crate::commands::stop::told_to_stop;
use crate::exit::{Exit, usage};

/// How often a question may be tried within a lease.
const ATTEMPTS_PER_TTL: u32 = 4;
/// How long everything may take to end, beyond the grace that was asked for.
const END_MAX: Duration = Duration::from_secs(8);
/// Requests to step down that may wait.
const ORDERS_MAX: usize = 8;

/// How to campaign, and what to answer.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of the election
    #[arg(long, value_name = "NAME")]
    election: ElectionName,
    /// Where to answer. Containers of one pod share loopback; probes of a kubelet come from outside and
    /// need :4040, which is all addresses
    #[arg(long, default_value = "127.0.0.1:4040", value_name = "ADDRESS", value_parser = listen::parse)]
    listen: Listen,
    #[command(flatten)]
    candidate: CandidateArgs,
    /// What others read of the leader: its address, say
    #[arg(long, default_value = "", hide_default_value = true)]
    value: String,
    /// How long the session lives without a sign of life, and how old an answer may be
    #[arg(long, default_value = "15s", value_parser = duration)]
    ttl: Duration,
    /// What /healthz means
    #[arg(long, value_enum, default_value_t = Healthz::Lease)]
    healthz: Healthz,
    /// /readyz is 200 only while leading, so that a Service routes to the leader
    #[arg(long)]
    ready_when_leader: bool,
    /// Keep the answer of /leader in this file, too
    #[arg(long, value_name = "PATH")]
    status_file: Option<PathBuf>,
    /// POST /step-down needs what is in this file, as `Authorization: Bearer TOKEN`. Without it, any process that reaches loopback here
    /// may give the leadership up
    #[arg(long, value_name = "FILE", value_parser = http::StepDownToken::load)]
    step_down_token_file: Option<http::StepDownToken>,
    /// Only look: be no candidate
    #[arg(long, conflicts_with_all = ["identity", "value", "priority", "ready_when_leader", "grace", "fast_release", "wait_for_server"])]
    observe_only: bool,
    /// How long to say "not leading" before others may lead, when this gives up or is made to: the time
    /// in which the program beside it hears of it
    #[arg(long, default_value = "0s", value_parser = duration, value_name = "DURATION")]
    grace: Duration,
}

/// Answers until told to stop, then gives up what it holds.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let options = args.candidate.session(args.ttl);
    options.validate().map_err(|error| usage(format!("--ttl: {error}")))?;
    if args.observe_only && args.healthz == Healthz::Leader {
        return Err(usage("--healthz leader with --observe-only would never be healthy"));
    }
    if options.identity.is_empty() {
        return Err(usage("--identity must not be empty: it tells the replicas apart"));
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
    let address = listener.local_addr().map(|at| at.ip());
    let browsers = address.map_or_else(|_| Browsers::default(), Browsers::at);
    let context = AnswerContext {
        status: Arc::clone(&status),
        counts: Arc::clone(&counts),
        healthz: args.healthz,
        ready_when_leader: args.ready_when_leader,
        grace: args.grace,
        orders: order,
        step_down_token: args.step_down_token_file.map(Arc::new),
        stop: stopping.clone(),
        browsers: Arc::new(browsers),
        streams: AnswerContext::streams(),
    };
    if let Ok(at) = listener.local_addr() {
        let who = status.identity.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
        eprintln!("answering for {}{who} on http://{at}", args.election);
    }
    let serving = tokio::spawn(http::serve(listener, context, closing));
    let stand = Campaign {
        engine,
        name: args.election,
        options,
        priority: args.candidate.priority,
        waits: args.candidate.wait_for_server.unwrap_or(true),
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
        stood = stand => ended = stood.map(|()| Exit::Done),
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

/// A client that gives requests up early enough to repeat them within a lease.
fn client(settings: &Settings, ttl: Duration) -> Client {
    Client::new(settings.endpoints.clone(), settings.options.within(ttl / ATTEMPTS_PER_TTL))
}

async fn wait_for(mut stopping: watch::Receiver<bool>) -> anyhow::Result<()> {
    campaign::stopped(&mut stopping).await;
    Ok(())
}
