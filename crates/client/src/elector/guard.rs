//! Sees to it, on the session's own thread, that work ends when it must.
//!
//! The program's own runtime may be blocked by the very work that has to end. So the signal to stop,
//! what happens to work that does not heed it, and what others are told of this elector come from here.
//!
//! There are five reasons for which work has to end, and each takes its own course (`Guard::by_…`). All run side by
//! side, and whichever is through first decides: work that was warned before the loss gets no more time after it.

use tokio::sync::watch;

use super::config::{OnDoubt, OnLost};
use super::scope::{Cancelled, Scope};
use super::{ElectorState, LeaderElector};
use crate::election::Leadership;
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

/// What became of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The work must have ended by now.
    Over,
    /// The work has ended, or goes on under another leadership and another guard.
    Relieved,
}

/// Watches over the work for as long as one leadership lasts.
pub(super) struct Guard {
    elector: LeaderElector,
    held: Watched,
    scope: Scope,
    phase: watch::Sender<Phase>,
}

impl Guard {
    /// Begins to watch, where the session of the scope's leadership is kept. Nothing, if the tenure is over.
    pub(super) fn post(elector: &LeaderElector, scope: &Scope, phase: &watch::Sender<Phase>) {
        let held = scope.leadership().as_ref().map(|leadership| leadership.watched());
        let Some(held) = held else { return };
        let (elector, scope, phase) = (elector.clone(), scope.clone(), phase.clone());
        held.host().spawn(Box::pin(Guard { elector, held, scope, phase }.watch()));
    }

    async fn watch(self) {
        let mut phases = self.phase.subscribe();
        let ended = async {
            let _ = phases.wait_for(|phase| *phase == Phase::Ended).await;
        };
        let on_duty = OnDuty(&self);
        let verdict = tokio::select! {
            // Of work that ended at the last moment nothing more is wanted.
            biased;
            () = ended => Verdict::Relieved,
            never = self.tell_states() => match never {},
            verdict = self.by_loss() => verdict,
            () = self.by_doubt() => Verdict::Over,
            () = self.by_drain() => Verdict::Over,
            () = self.by_health() => Verdict::Over,
            never = self.by_order() => match never {},
        };
        match verdict {
            Verdict::Over => drop(on_duty),
            Verdict::Relieved => std::mem::forget(on_duty),
        }
    }

    /// Lost without a warning: there is a little time left to end, unless it is late already.
    async fn by_loss(&self) -> Verdict {
        let config = &self.elector.inner.config;
        let mut loss = self.held.lost().await;
        let mut is_late = loss.comes_late();
        if loss == Loss::Unconfirmed && config.on_doubt == OnDoubt::Continue {
            match self.elector.regain(self.held.session()).await {
                Ok(leadership) => {
                    self.go_on(leadership);
                    return Verdict::Relieved;
                }
                // Work that goes on in doubt is prepared for not being the only one.
                Err(another) => (loss, is_late) = (another, false),
            }
        }
        self.scope.cancel(Cancelled::Lost(loss));
        if !is_late {
            self.held.pause(config.stop_grace).await;
        }
        Verdict::Over
    }

    /// Not confirmed in time: what is left of our own time is the time to end.
    async fn by_doubt(&self) {
        if self.elector.inner.config.on_doubt == OnDoubt::Continue {
            return std::future::pending().await;
        }
        let mut state = SessionState::Held;
        while state == SessionState::Held {
            state = self.held.changed(state).await;
        }
        if let SessionState::Lost(_) = state {
            // That was no warning.
            return std::future::pending().await;
        }
        self.scope.cancel(Cancelled::Doubt);
        let loss = self.held.lost().await;
        self.scope.cancel(Cancelled::Lost(loss));
    }

    /// A successor was chosen, and the server says when the time is over.
    async fn by_drain(&self) {
        let drain = self.held.drain().await;
        self.scope.cancel(Cancelled::Drain(drain));
        let loss = self.held.lost().await;
        self.scope.cancel(Cancelled::Lost(loss));
    }

    /// Not fit to lead. Work that hangs is the usual reason, so it is not waited for without end.
    async fn by_health(&self) {
        let mut well = self.elector.inner.well.subscribe();
        // The sender lives as long as the elector.
        let _ = well.wait_for(|well| !*well).await;
        self.scope.cancel(Cancelled::Unhealthy);
        self.held.pause(self.elector.inner.config.step_down_grace).await;
    }

    /// The program wants to stop, and takes the time it needs.
    async fn by_order(&self) -> std::convert::Infallible {
        let mut stop = self.elector.inner.stop.subscribe();
        let _ = stop.wait_for(|stop| *stop).await;
        self.scope.cancel(Cancelled::Stopped);
        std::future::pending().await
    }

    /// Tells how it stands with the leadership.
    async fn tell_states(&self) -> std::convert::Infallible {
        let mut state = SessionState::Held;
        let loss = loop {
            tokio::select! {
                biased;
                loss = self.held.lost() => break loss,
                changed = self.held.changed(state) => state = changed,
            }
            self.tell(match state {
                SessionState::Held => ElectorState::Held(self.scope.token()),
                SessionState::Suspect => ElectorState::Suspect(self.scope.token()),
                SessionState::Lost(loss) => ElectorState::Lost(loss),
            });
        };
        self.tell(ElectorState::Lost(loss));
        std::future::pending().await
    }

    /// Only while the work goes on: what comes after is told by the code that ends the work.
    fn tell(&self, state: ElectorState) {
        // The phase cannot change meanwhile.
        self.phase.send_if_modified(|phase| {
            if *phase != Phase::Ended {
                self.elector.inner.state.send_replace(state);
            }
            false
        });
    }

    fn go_on(&self, leadership: Leadership) {
        self.tell(ElectorState::Held(leadership.token()));
        // If the work has ended meanwhile, the new leadership comes back and is given up.
        let old = self.scope.replace(leadership);
        Guard::post(&self.elector, &self.scope, &self.phase);
        drop(old);
    }
}

/// A guard that is not relieved ends the work: also when its thread has ended, and with it all that kept the session.
struct OnDuty<'a>(&'a Guard);

impl Drop for OnDuty<'_> {
    fn drop(&mut self) {
        self.0.scope.cancel(Cancelled::Lost(Loss::KeeperGone));
        enforce(self.0.elector.inner.config.on_lost, &self.0.phase);
    }
}

/// The work must be over. If it is not, does what was ordered for that.
fn enforce(on_lost: OnLost, phase: &watch::Sender<Phase>) {
    let overdue = phase.send_if_modified(|phase| {
        let overdue = *phase == Phase::Running;
        if overdue {
            *phase = Phase::Over;
        }
        overdue
    });
    match on_lost {
        OnLost::Exit(code) if overdue => {
            tracing::error!(code, "the work has to be over and goes on: ending this process");
            std::process::exit(code);
        }
        OnLost::Abort if overdue => {
            tracing::error!("the work has to be over and goes on: aborting this process");
            std::process::abort();
        }
        OnLost::Cancel | OnLost::Exit(_) | OnLost::Abort => {}
    }
}
