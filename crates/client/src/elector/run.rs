//! The elector's policy on the loop that leads ([`crate::leading`]): what one campaign and one tenure are.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tenure_api::LeaseId;
use tokio::sync::watch;

use super::guard::{Guard, Phase};
use super::scope::Scope;
use super::{ElectorState, LeaderElector};
use crate::backend::Sight;
use crate::chance::Chance;
use crate::election::{Election, Leadership, Observer};
use crate::host::{Host, Machine};
use crate::leading::{self, Next, Parting, Policy, Turn};
use crate::{Loss, Session, SessionError, SessionOptions, SessionState};

/// How [`LeaderElector::run`] ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// It was asked to stop.
    Stopped,
    /// The work is done for good, with this result.
    Done(T),
}

impl LeaderElector {
    /// Does the work whenever this process leads, for ever: until [`LeaderElector::stop`], or until the
    /// work breaks with a result. Work that ends with `Continue` is given up, and begun again with the next
    /// leadership.
    ///
    /// The work should end when its scope is cancelled. Work that has not ended when it must is dropped, if
    /// it awaits anything; see [`OnLost`](super::OnLost) for work that does not.
    ///
    /// Needs a tokio runtime, or a host of its own. If this future is dropped, so is the work, and leadership
    /// is given up in the background.
    pub async fn run<T, W, F>(&self, mut work: W) -> Ended<T>
    where
        W: FnMut(Scope) -> F,
        F: Future<Output = ControlFlow<T>>,
    {
        let mut stop = self.inner.stop.subscribe();
        let mut electing =
            Electing { elector: self, work: &mut work, chance: self.host().chance() };
        let lead = leading::lead(&self.inner.engine, &mut electing);
        let mut lead = pin!(lead);
        tokio::select! {
            // An elector that is to stop does not begin to lead at the same moment.
            biased;
            ended = async {
                let _ = stop.wait_for(|stop| *stop).await;
                if *self.inner.state.borrow() == ElectorState::Standby {
                    return Ended::Stopped;
                }
                // Leading: the work hears of it, and the loop ends after it.
                std::future::pending().await
            } => ended,
            ended = &mut lead => ended,
            never = self.look() => match never {},
        }
    }

    /// The same, until `shutdown` is done: then the work is cancelled, and leadership is given up when it has ended. For
    /// services that are told to stop by a signal:
    ///
    /// ```no_run
    /// # async fn run(elector: tenure::LeaderElector) -> std::io::Result<()> {
    /// use std::ops::ControlFlow;
    /// use tokio::signal::unix::{SignalKind, signal};
    ///
    /// let mut terminate = signal(SignalKind::terminate())?;
    /// let shutdown = async move { terminate.recv().await; };
    /// let ended = elector
    ///     .run_until(shutdown, async |scope| {
    ///         // Work that looks at `scope.is_cancelled()`, or awaits in `scope.run(…)`.
    ///         scope.cancelled().await;
    ///         ControlFlow::<()>::Continue(())
    ///     })
    ///     .await;
    /// # let _ = ended;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_until<T, W, F>(&self, shutdown: impl Future, work: W) -> Ended<T>
    where
        W: FnMut(Scope) -> F,
        F: Future<Output = ControlFlow<T>>,
    {
        let mut run = pin!(self.run(work));
        tokio::select! {
            biased;
            ended = &mut run => ended,
            _ = shutdown => {
                self.stop();
                run.await
            }
        }
    }

    fn host(&self) -> Arc<dyn Host> {
        self.inner.config.host.clone().unwrap_or_else(Machine::host)
    }

    fn pause(&self, chance: &mut Chance) -> Duration {
        chance.stretch(self.inner.config.retry_period, self.inner.config.jitter_factor)
    }

    /// Waits for its turn, and tells meanwhile whether it is well.
    async fn campaign(&self, session: &Session, election: &Election) -> Option<Leadership> {
        let name = &self.inner.config.name;
        let mut well = self.inner.well.subscribe();
        let mut is_well = *well.borrow_and_update();
        let candidacy = self.inner.config.candidacy(election);
        let candidacy = if is_well { candidacy } else { candidacy.unhealthy() };
        let mut campaign = pin!(candidacy.campaign());
        let refused = loop {
            tokio::select! {
                biased;
                won = &mut campaign => match won {
                    Ok(leadership) => return Some(leadership),
                    Err(error) => break error.to_string(),
                },
                // The sender lives as long as `self`.
                Ok(()) = well.changed() => {
                    is_well = *well.borrow_and_update();
                    if let Err(error) = session.report_health(name, is_well).await {
                        break error.to_string();
                    }
                }
            }
        };
        if is_well {
            tracing::warn!(%name, error = refused, "campaign failed");
            return None;
        }
        tracing::info!(%name, reason = refused, "not healthy, and no candidate until it is");
        let _ = well.wait_for(|well| *well).await;
        None
    }

    fn session_options(&self) -> SessionOptions {
        let config = &self.inner.config;
        let mut options = SessionOptions::new(config.lease_duration);
        options.identity.clone_from(&config.identity);
        options.renew_after = Some(config.retry_period);
        options.suspect_after = Some(config.renew_deadline);
        options.fast_release = config.fast_release;
        options.host.clone_from(&config.host);
        options
    }

    async fn open_session(&self) -> Option<Session> {
        match Session::open_with(&self.inner.engine, self.session_options()).await {
            Ok(session) => {
                self.inner.health.follow(session.core());
                Some(session)
            }
            Err(error) => {
                self.warn_no_session(&error);
                None
            }
        }
    }

    fn warn_no_session(&self, error: &SessionError) {
        tracing::warn!(name = %self.inner.config.name, %error, "no session");
    }

    /// One tenure, from winning to having given it up.
    async fn lead<T, W, F>(&self, leadership: Leadership, work: &mut W) -> ControlFlow<T>
    where
        W: FnMut(Scope) -> F,
        F: Future<Output = ControlFlow<T>>,
    {
        let name = &self.inner.config.name;
        tracing::info!(%name, token = %leadership.token(), "leading");
        let led = self.set_state(ElectorState::Held(leadership.token()));
        let scope = Scope::new(leadership);
        let phase = watch::Sender::new(Phase::Running);
        let ended = EndOnDrop(&phase);
        Guard::post(self, &scope, &phase);
        let done = self.work(&scope, &phase, work).await;
        drop(ended);
        if let Some(hook) = &self.inner.stopped_leading {
            hook(scope.token());
        }
        if let Some(leadership) = scope.take() {
            self.inner.state.send_replace(ElectorState::Lost(Loss::Resigned));
            let token = leadership.token();
            match leadership.resign().await {
                Ok(()) => tracing::info!(%name, %token, "resigned"),
                Err(error) => tracing::info!(%name, %token, %error, "not leading any more"),
            }
        }
        drop(led);
        done
    }

    /// Runs the work to its end, or to where it is dropped. The guard tells it when it has to end.
    async fn work<T, W, F>(
        &self,
        scope: &Scope,
        phase: &watch::Sender<Phase>,
        work: &mut W,
    ) -> ControlFlow<T>
    where
        W: FnMut(Scope) -> F,
        F: Future<Output = ControlFlow<T>>,
    {
        let mut phases = phase.subscribe();
        tokio::select! {
            biased;
            _ = phases.wait_for(|phase| *phase == Phase::Over) => {
                tracing::error!(name = %self.inner.config.name, "the work did not end in time: dropped");
                ControlFlow::Continue(())
            }
            done = work(scope.clone()) => done,
        }
    }

    /// After a loss that the server did not confirm: leads again if there is no other leader. `old` is the session that
    /// was lost; its key may still be there for a while, and is not another leader.
    ///
    /// # Errors
    /// Another candidate leads.
    pub(super) async fn regain(&self, old: LeaseId) -> Result<Leadership, Loss> {
        let mut chance = self.host().chance();
        loop {
            if let Some(session) = self.open_session().await {
                let election = Election::new(&session, self.inner.config.name.clone());
                let Ok(election) = election else { return Err(Loss::Expired) };
                let ours = [Some(old), Some(session.id())];
                tokio::select! {
                    biased;
                    () = self.another_leads(&election, ours) => return Err(Loss::Expired),
                    won = self.inner.config.candidacy(&election).campaign() => {
                        if let Ok(leadership) = won {
                            return Ok(leadership);
                        }
                    }
                }
            }
            self.host().pause(self.pause(&mut chance)).await;
        }
    }

    /// Waits until the leader is a session that is none of ours.
    async fn another_leads(&self, election: &Election, ours: [Option<LeaseId>; 2]) {
        loop {
            let listed = election.candidates().await.unwrap_or_default();
            if listed.first().is_some_and(|first| !ours.contains(&first.session)) {
                return;
            }
            self.host().pause(self.inner.config.retry_period).await;
        }
    }

    fn observer(&self) -> Result<Observer, crate::BadName> {
        Observer::open_on(&self.host(), &self.inner.engine, self.inner.config.name.clone())
    }

    fn set_state(&self, state: ElectorState) -> Led<'_> {
        self.inner.state.send_replace(state);
        Led(self)
    }

    /// Reports the leader, for as long as this runs.
    async fn look(&self) -> std::convert::Infallible {
        let mut chance = self.host().chance();
        loop {
            if let Ok(mut seen) = self.observer() {
                while let Ok((_, sight)) = seen.next().await {
                    if sight == Sight::Gap {
                        continue;
                    }
                    let leader = sight.leader();
                    if let Some(hook) = &self.inner.new_leader {
                        hook(leader);
                    }
                    if let Ok(mut known) = self.inner.leader.lock() {
                        *known = leader.cloned();
                    }
                }
            }
            self.host().pause(self.pause(&mut chance)).await;
        }
    }
}

/// An elector as a policy of the loop.
struct Electing<'a, W> {
    elector: &'a LeaderElector,
    work: &'a mut W,
    chance: Chance,
}

impl<T, W, F> Policy for Electing<'_, W>
where
    W: FnMut(Scope) -> F,
    F: Future<Output = ControlFlow<T>>,
{
    type Held = Leadership;
    type End = Ended<T>;

    fn options(&self) -> SessionOptions {
        self.elector.session_options()
    }

    async fn no_session(&mut self, error: SessionError) -> ControlFlow<Ended<T>> {
        self.elector.warn_no_session(&error);
        self.rest().await;
        ControlFlow::Continue(())
    }

    fn opened(&mut self, session: &Session) {
        self.elector.inner.health.follow(session.core());
    }

    async fn campaign(&mut self, session: &Session) -> Turn<Leadership, Ended<T>> {
        let name = self.elector.inner.config.name.clone();
        let won = match Election::new(session, name) {
            Ok(election) => self.elector.campaign(session, &election).await,
            Err(_) => None,
        };
        won.map_or(Turn::Passed(Next::Reopen(Parting::Drop)), Turn::Elected)
    }

    async fn lead(&mut self, session: &Session, held: Leadership) -> Next<Ended<T>> {
        let done = self.elector.lead(held, self.work).await;
        let parting = if self.keeps(session) { Parting::Drop } else { Parting::Close };
        match done {
            ControlFlow::Break(result) => Next::End(Ended::Done(result), parting),
            ControlFlow::Continue(()) if *self.elector.inner.stop.borrow() => {
                Next::End(Ended::Stopped, parting)
            }
            ControlFlow::Continue(()) => Next::Campaign,
        }
    }

    /// Not one that is in doubt, either.
    fn keeps(&self, session: &Session) -> bool {
        session.state() == SessionState::Held
    }

    async fn rest(&mut self) {
        self.elector.host().pause(self.elector.pause(&mut self.chance)).await;
    }
}

/// Whatever ends a tenure, the elector stands by after it.
struct Led<'a>(&'a LeaderElector);

impl Drop for Led<'_> {
    fn drop(&mut self) {
        self.0.inner.state.send_replace(ElectorState::Standby);
    }
}

/// Whatever ends the work, the guard knows it.
struct EndOnDrop<'a>(&'a watch::Sender<Phase>);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.send_replace(Phase::Ended);
    }
}
