//! Many sessions of the library in one process: what becomes of them while something happens to the
//! members? That is for others to do; this only says how close the sessions came to their end.

use std::sync::Arc;
use std::time::Duration;

use tenure::host::{Host, Machine};
use tenure::{Session, SessionOptions, SessionState};
use tokio::time::Instant;

use crate::BenchTarget;
use crate::connection::Fault;
use crate::drive::for_each;
use crate::report::Report;
use crate::stage::{Limit, Stage};
use tenure::api::duration::duration;

/// How many are opened at once.
const OPENED_AT_ONCE: usize = 128;
/// How often all of them are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// How many, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(1..))]
    sessions: u32,
    /// Time to live of each
    #[arg(long, default_value = "10s", value_parser = duration)]
    ttl: Duration,
    /// How long to live once all are open
    #[arg(long, default_value = "30s", value_parser = duration)]
    duration: Duration,
}

/// Says on stderr when all are open, so that others can begin to do harm.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let engine = &target.engine;
    // All on this runtime: a thread for each would load the machine more than the members do.
    let host: Arc<dyn Host> = Arc::new(Machine::current());
    let sessions = for_each(0..args.sessions, OPENED_AT_ONCE, |_, number| {
        let (engine, host, ttl) = (engine.clone(), Arc::clone(&host), args.ttl);
        async move {
            let identity = format!("bench-{number}");
            let options = SessionOptions { identity, host: Some(host), ..SessionOptions::new(ttl) };
            let opened = Session::open_with(&engine, options).await;
            opened.map_err(|error| Fault::Status(error.to_string()))
        }
    })
    .await?;
    eprintln!("all sessions are open");
    let stage = Stage::begin(Duration::ZERO, Limit::For(args.duration));
    let until = Instant::now() + args.duration;
    let mut least = args.ttl;
    while Instant::now() < until {
        tokio::time::sleep(LOOK_INTERVAL).await;
        least = sessions.iter().map(Session::remaining).fold(least, Duration::min);
    }
    let is_lost = |session: &&Session| matches!(session.state(), SessionState::Lost(_));
    let lost = sessions.iter().filter(is_lost).count();
    let mut report = Report::of("sessions", &target.endpoints, sessions.len(), 0, &stage);
    report.operations = (sessions.len() - lost) as u64;
    report.figure("lost", lost);
    report.figure("least_remaining_ms", least.as_secs_f64() * 1000.0);
    Ok(report)
}
