//! Sending clients through a run.

use std::future::Future;
use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::connection::Fault;
use crate::load::LoadArgs;
use crate::stage::Stage;

/// After an error a client waits a little, lest a dead member be asked a million times a second.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(10);

/// One client of a load.
pub(crate) trait Client: Send + 'static {
    /// Does one operation.
    fn operate(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// Lets all clients work until the run is over; answers with the run and the clients.
pub(crate) async fn drive<C: Client>(load: &LoadArgs, clients: Vec<C>) -> (Stage, Vec<C>) {
    let stage = Arc::new(Stage::begin(load.warm_up, load.limit()));
    let progress = tokio::spawn(progress(Arc::clone(&stage)));
    // Each client has an equal share of the rate, and they take turns.
    let interval = load.rate.map(|rate| Duration::from_secs_f64(clients.len() as f64 / rate));
    let count = u32::try_from(clients.len()).unwrap_or(u32::MAX);
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for (index, client) in (0..).zip(clients) {
        let pace =
            interval.map(|interval| Pace { due: begin + interval * index / count, interval });
        tasks.spawn(work(client, Arc::clone(&stage), pace));
    }
    let clients = tasks.join_all().await;
    progress.abort();
    // The aborted task holds its share until it has been dropped.
    let _ = progress.await;
    let stage = Arc::into_inner(stage).expect("nobody else is left on the stage");
    (stage, clients)
}

struct Pace {
    due: Instant,
    interval: Duration,
}

async fn work<C: Client>(mut client: C, stage: Arc<Stage>, mut pace: Option<Pace>) -> C {
    loop {
        if let Some(pace) = &pace {
            sleep_until(pace.due).await;
        }
        let now = Instant::now();
        let Some(leave) = stage.leave(now) else { return client };
        // With a rate, a late start is part of the latency; else a stall would hide in fewer
        // operations.
        let from = pace.as_ref().map_or(now, |pace| pace.due);
        let result = client.operate().await;
        let failed = result.is_err();
        stage.done(leave, from.elapsed(), result);
        if let Some(pace) = &mut pace {
            pace.due += pace.interval;
        }
        if failed {
            tokio::time::sleep(PAUSE_AFTER_ERROR).await;
        }
    }
}

/// Says once a second how it goes, if somebody may be looking.
async fn progress(stage: Arc<Stage>) {
    if !stderr().is_terminal() {
        return;
    }
    let mut before = 0;
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let since = stage.measured_from();
        let line = if Instant::now() < since {
            "warming up".to_owned()
        } else {
            let tally = stage.tally();
            let done = tally.latency.len();
            let errors: u64 = tally.errors.values().sum();
            let rate = done - std::mem::replace(&mut before, done);
            let p99 = tally.latency.value_at_quantile(0.99) as f64 / 1e3;
            let seconds = since.elapsed().as_secs();
            format!("{seconds} s  {rate}/s  p99 {p99:.1} ms  {errors} errors")
        };
        eprint!("\r\x1b[K{line}");
    }
}

/// Does `operation` for every item with bounded concurrency, unmeasured: setting up and clearing
/// away.
pub(crate) async fn for_each<T, F, R>(
    items: impl IntoIterator<Item = T>,
    at_once: usize,
    operation: impl Fn(usize, T) -> F,
) -> anyhow::Result<Vec<R>>
where
    F: Future<Output = Result<R, Fault>> + Send + 'static,
    R: Send + 'static,
{
    let mut results = Vec::new();
    let mut tasks = JoinSet::new();
    for (index, item) in items.into_iter().enumerate() {
        if tasks.len() >= at_once
            && let Some(done) = tasks.join_next().await
        {
            results.push(settled(done)?);
        }
        tasks.spawn(operation(index, item));
    }
    while let Some(done) = tasks.join_next().await {
        results.push(settled(done)?);
    }
    Ok(results)
}

fn settled<R>(done: Result<Result<R, Fault>, tokio::task::JoinError>) -> anyhow::Result<R> {
    done?.map_err(|fault| anyhow::anyhow!("setting up: {}", fault.text()))
}
