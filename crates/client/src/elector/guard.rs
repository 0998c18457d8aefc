//! Sees to it, on the session's own thread, that work ends when it must.
//!
//! The program's own runtime may be blocked by the very work that has to end. So the signal to stop,
//! and what happens to work that does not heed it, come from here.

use std::time::Duration;

use tokio::sync::watch;

use super::config::{OnDoubt, OnLost};
use super::scope::{Cancelled, Scope};
use crate::session::Watched;
use crate::{Loss, SessionState};

/// How far the end of the work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It runs.
    Running,
    /// It has to be over; a future that still runs is to be dropped.
    Over,
    /// It has ended.
    Ended,
}

/// What a guard goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orders {
    pub(super) on_lost: OnLost,
    pub(super) on_doubt: OnDoubt,
    pub(super) stop_grace: Duration,
}

/// Watches over the work of one tenure, until it has ended.
pub(super) async fn watch_over(
    held: Watched,
    scope: Scope,
    orders: Orders,
    phase: watch::Sender<Phase>,
) {
    let mut phases = phase.subscribe();
    let ended = async {
        let _ = phases.wait_for(|phase| *phase == Phase::Ended).await;
    };
    tokio::select! {
        // Of work that ended at the last moment nothing more is wanted.
        biased;
        () = ended => return,
        () = end_in_time(&held, &scope, orders) => {}
    }
    enforce(orders.on_lost, &phase);
}

/// The work must be over. If it is not, does what was ordered for that.
pub(super) fn enforce(on_lost: OnLost, phase: &watch::Sender<Phase>) {
    let overdue = phase.send_if_modified(|phase| {
        let overdue = *phase == Phase::Running;
        if overdue {
            *phase = Phase::Over;
        }
        overdue
    });
    match on_lost {
        OnLost::Exit(code) if overdue => {
            tracing::error!(code, "leadership is lost and the work goes on: ending this process");
            std::process::exit(code);
        }
        OnLost::Abort if overdue => {
            tracing::error!("leadership is lost and the work goes on: aborting this process");
            std::process::abort();
        }
        OnLost::Cancel | OnLost::Exit(_) | OnLost::Abort => {}
    }
}

/// Cancels the work when it must end, and is done when it must have ended.
async fn end_in_time(held: &Watched, scope: &Scope, orders: Orders) {
    let doubt = async {
        if orders.on_doubt == OnDoubt::Continue {
            return std::future::pending().await;
        }
        let mut state = SessionState::Held;
        while state == SessionState::Held {
            state = held.changed(state).await;
        }
    };
    tokio::select! {
        // A loss explains more than the doubt that comes with it.
        biased;
        loss = lost(held, orders) => {
            scope.cancel(Cancelled::Lost(loss));
            held.pause(orders.stop_grace).await;
        }
        () = doubt => {
            scope.cancel(Cancelled::Doubt);
            let loss = held.lost().await;
            scope.cancel(Cancelled::Lost(loss));
        }
        drain = held.drain() => {
            scope.cancel(Cancelled::Drain(drain));
            let loss = held.lost().await;
            scope.cancel(Cancelled::Lost(loss));
        }
    }
}

/// Lost, in the eyes of who goes by these orders: who continues in doubt has to be told by the server.
async fn lost(held: &Watched, orders: Orders) -> Loss {
    match held.lost().await {
        Loss::Unconfirmed if orders.on_doubt == OnDoubt::Continue => std::future::pending().await,
        loss => loss,
    }
}
