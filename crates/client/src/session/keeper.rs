//! The keeper of a session: renews it, watches its deadline, ends it. It has a thread of its own, unless
//! a host is handed in.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::SessionOptions;
use super::core::{Core, Owner, Phase, SessionState};
use crate::backend::{Link, Opening, RenewError};
use crate::chance::Backoff;
use crate::host::{Host, Machine};
use crate::{Engine, Loss, SessionError, Standing, Tenancy};

/// A renewal that is not answered for this part of the time to live is tried elsewhere.
const ATTEMPTS_PER_TTL: u32 = 6;
/// Pauses between attempts that fail at once.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Starts the keeper, which opens the session.
pub(super) async fn start(
    engine: Engine,
    options: SessionOptions,
) -> Result<Arc<Owner>, SessionError> {
    let (answer, opened) = oneshot::channel();
    match options.host.clone() {
        Some(host) => {
            host.spawn(Box::pin(live(engine, options, Arc::clone(&host), answer)));
        }
        None => start_thread(engine, options, answer)?,
    }
    // If the keeper dies before it answers, it did not get far.
    opened.await.unwrap_or(Err(SessionError::TooLate { loss: Loss::KeeperGone }))
}

type Answer = oneshot::Sender<Result<Arc<Owner>, SessionError>>;

fn start_thread(
    engine: Engine,
    options: SessionOptions,
    answer: Answer,
) -> Result<(), SessionError> {
    let thread = std::thread::Builder::new().name("tenure-session".to_owned());
    let live = move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            runtime.block_on(async { live(engine, options, Machine::host(), answer).await });
        }
        Err(cause) => {
            let _ = answer.send(Err(SessionError::Thread(cause)));
        }
    };
    thread.spawn(live).map(drop).map_err(SessionError::Thread)
}

/// A session's whole life.
async fn live(engine: Engine, options: SessionOptions, host: Arc<dyn Host>, answer: Answer) {
    let core = match open(engine, options, host).await {
        Ok(core) => Arc::new(core),
        Err(error) => {
            let _ = answer.send(Err(error));
            return;
        }
    };
    let dead = Deadman(Arc::clone(&core));
    // If the caller does not wait for it any more, the owner is dropped at once and the session closed.
    let _ = answer.send(Ok(Arc::new(Owner::new(Arc::clone(&core)))));
    let loss = keep(&core).await;
    core.end(loss);
    tracing::debug!(session = %core.id(), %loss, "session over");
    // Candidacies that are being left, and waiting callers, still need this task and its thread.
    let mut phase = core.phase.subscribe();
    let _ = phase.wait_for(|phase| *phase >= Phase::Closing).await;
    close(&core).await;
    drop(dead);
}

async fn open(
    engine: Engine,
    options: SessionOptions,
    host: Arc<dyn Host>,
) -> Result<Core, SessionError> {
    let SessionOptions { ttl, identity, fast_release, renew_after, suspect_after, host: _ } =
        options;
    let opening = Opening { ttl, identity, fast_release, host: Arc::clone(&host) };
    let opened = engine.backend().open(opening).await?;
    let ttl = opened.session.ttl();
    let tenancy = Tenancy::begin(opened.sent, ttl)
        .stricter(renew_after.unwrap_or(ttl), suspect_after.unwrap_or(ttl));
    in_time(Core::new(engine, opened.session, host, tenancy)).await
}

/// A session that was over before we heard of it is as good as never opened.
async fn in_time(core: Core) -> Result<Core, SessionError> {
    let Some(loss) = core.loss() else { return Ok(core) };
    // It runs out by itself if this fails. Without renewals a dead connection would go unnoticed.
    let _ = core.host.within(core.ttl() / ATTEMPTS_PER_TTL, core.session.close(true)).await;
    Err(SessionError::TooLate { loss })
}

/// Whatever ends the keeper ends the session.
struct Deadman(Arc<Core>);

impl Drop for Deadman {
    fn drop(&mut self) {
        self.0.end(Loss::KeeperGone);
        self.0.phase.send_replace(Phase::Closed);
    }
}

/// Keeps it alive until it is over, and says why it is.
pub(super) async fn keep(core: &Core) -> Loss {
    let mut phase = core.phase.subscribe();
    tokio::select! {
        // Whatever ends it comes before what would keep it alive: an acknowledgement that is there at
        // the same moment comes too late.
        biased;
        loss = deadline(core) => loss,
        _ = phase.wait_for(|phase| *phase >= Phase::Closing) => Loss::Closed,
        loss = core.session.ended() => loss,
        loss = links(core) => loss,
        loss = renewals(core) => loss,
    }
}

/// Renews when it is time; after a failure at once on another member, then again and again.
async fn renewals(core: &Core) -> Loss {
    let patience = core.ttl() / ATTEMPTS_PER_TTL;
    let mut backoff = Backoff::new(core.host.chance(), PAUSE_FIRST, PAUSE_MAX.min(patience));
    loop {
        core.host.sleep_until(core.renew_at()).await;
        backoff.reset();
        let mut attempts = 0u32;
        loop {
            attempts += 1;
            if attempts == 2 {
                core.count_slow_renewal();
            }
            let sent = core.host.now();
            match core.host.within(patience, core.session.renew()).await {
                Some(Ok(())) => {
                    core.revise(|tenancy, now| tenancy.acknowledge(sent, now));
                    break;
                }
                Some(Err(RenewError::Over(loss))) => return loss,
                Some(Err(RenewError::Missed(error))) => {
                    tracing::debug!(session = %core.id(), %error, attempts, "renewal failed");
                }
                None => {
                    core.revise(|tenancy, _| tenancy.miss());
                    tracing::debug!(session = %core.id(), attempts, "renewal not answered");
                }
            }
            core.host.pause(backoff.pause()).await;
        }
    }
}

/// Tells all watchers when the state changes by the passing of time, up to the end.
async fn deadline(core: &Core) -> Loss {
    loop {
        if let SessionState::Lost(loss) = core.refresh() {
            return loss;
        }
        let next = core.revise(Tenancy::changes_at);
        let Some(next) = next else { continue };
        core.host.sleep_until(next).await;
    }
}

/// Follows the connection, for sessions that end with it.
async fn links(core: &Core) -> Loss {
    loop {
        match core.session.link().await {
            Link::Attached => core.revise(|tenancy, now| tenancy.attach(now)),
            Link::Detached(until) => {
                core.revise(|tenancy, _| tenancy.detach(until));
                tokio::select! {
                    biased;
                    () = core.host.sleep_until(until) => {}
                    link = core.session.link() => {
                        if link == Link::Attached {
                            core.revise(|tenancy, now| tenancy.attach(now));
                        }
                    }
                }
            }
        }
        if core.revise(|tenancy, now| tenancy.standing(now)) == Standing::Lost {
            return core.loss().unwrap_or(Loss::ConnectionLost);
        }
    }
}

/// Gives the session back, for as long as there can be one.
async fn close(core: &Core) {
    let give_up = core.host.now() + core.ttl();
    let mut backoff = Backoff::new(core.host.chance(), PAUSE_FIRST, PAUSE_MAX);
    // Of a session that was only dropped it is unknown whether its work has ended.
    let stopped = core.stopped.load(Ordering::Acquire);
    let closing = async {
        while let Err(error) = core.session.close(stopped).await {
            tracing::debug!(session = %core.id(), %error, "closing failed");
            core.host.pause(backoff.pause()).await;
        }
    };
    tokio::select! {
        biased;
        () = closing => {}
        () = core.host.sleep_until(give_up) => {}
    }
}

#[cfg(test)]
mod tests;
