//! The loop that leads: open a session, campaign, lead, and begin again.
//!
//! [`lead`] is the only such loop. What differs between its users is a [`Policy`]: [`LeaderElector`](crate::LeaderElector)
//! is one, and the commands `tenure run`, `lock`, `elect` and `sidecar` are others.
//!
//! The loop keeps one order for all of them: a session ends, or campaigns again, only after
//! [`Policy::lead`] has returned, and that returns only when the work has ended and what was held has been given up (or
//! left to the policy's own confirmation). Deadlines are not the loop's: they are those of the session, and each policy
//! enforces them by its own means, because a future, a process and a neighbour are ended in different ways.
//!
//! | | elector | `run`, `lock` with a command | `elect`, `lock` without one | `sidecar` |
//! |---|---|---|---|---|
//! | pause after a failure | the retry period, with jitter | 100 ms, doubled up to 2 s; signals are heeded | the same | the same; ended by stop |
//! | pause after a tenure | the retry period, with jitter | none | none | none |
//! | first session fails | tried again | `run` waits for a server, `lock` ends with an error, unless told otherwise | ends with an error, unless told otherwise | waits for a server, unless told otherwise |
//! | what ends the loop | stop, or work that breaks | a signal, the command's end, a limit, `--once`, a refusal | a signal, a decision of an operator or another candidate, `--once`, a refusal | stop |
//! | session after a tenure | used again while it is confirmed | never: its guardian may still report its end | never | used again until it is lost |
//! | health | reported; work is cancelled | probes; the command is ended | no reports | no reports |
//! | drain | the work is cancelled, then released | the command is ended, then released | released; the end | answers "no", waits for the grace, releases |
//! | enforces deadlines by | a guard on the session's thread | a guardian process | saying that it is lost | judging each answer by the clock |
//! | confirms that work has stopped | by releasing, or closing a session that is over | the same, or the guardian does; never if it is unknown | by releasing; never after a loss | by releasing after the grace |
//! | no overlap | if asked for | unless the session has fast release | `lock`: the same; `elect`: no | unless the session has fast release |
//! | fast release | if asked for | if asked for | if asked for | if asked for |
//!
//! One more loop opens sessions: an elector that goes on in doubt
//! ([`OnDoubt::Continue`](crate::elector::OnDoubt::Continue)) regains its leadership *during* a tenure, beside work that
//! runs on. That is no turn of this loop, which begins where work has ended.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::host::{Host, Machine};
use crate::{Engine, Session, SessionError, SessionOptions, SessionState};

/// What differs from one user of [`lead`] to another.
///
/// The calls come in this order: [`options`](Policy::options), [`opened`](Policy::opened),
/// [`campaign`](Policy::campaign), [`lead`](Policy::lead), [`parting`](Policy::parting) if the session is to end,
/// [`rest`](Policy::rest).
#[allow(async_fn_in_trait, reason = "what a policy's futures are is known where it is run")]
pub trait Policy {
    /// The guard of what is held.
    type Held;
    /// What the loop comes to.
    type End;

    /// Settings of the sessions.
    fn options(&self) -> SessionOptions;

    /// Ends the loop while a session is being opened. Never, by default.
    async fn interrupted(&mut self) -> Self::End {
        std::future::pending().await
    }

    /// A session could not be opened. Waits before the next attempt, or breaks.
    async fn no_session(&mut self, error: SessionError) -> ControlFlow<Self::End>;

    /// From now on this is the session.
    fn opened(&mut self, session: &Session) {
        let _ = session;
    }

    /// Campaigns, once.
    async fn campaign(&mut self, session: &Session) -> Turn<Self::Held, Self::End>;

    /// One tenure. Returns when the work has ended and `held` is given up: the session may end after it.
    async fn lead(&mut self, session: &Session, held: Self::Held) -> Next<Self::End>;

    /// Whether a session may be campaigned with again. Until it is lost, by default.
    fn keeps(&self, session: &Session) -> bool {
        !matches!(session.state(), SessionState::Lost(_))
    }

    /// The session is about to end.
    fn parting(&mut self) {}

    /// Waits before the next turn, when the session of the last one was kept or has been told to end. Not at all, by
    /// default.
    async fn rest(&mut self) {}
}

/// What a campaign came to.
#[derive(Debug)]
pub enum Turn<H, E> {
    /// It is held.
    Elected(H),
    /// It is not.
    Passed(Next<E>),
}

/// What comes next.
#[derive(Debug)]
pub enum Next<E> {
    /// Another campaign, with this session if the policy [`keeps`](Policy::keeps) it. It is closed otherwise.
    Campaign,
    /// Another campaign, with another session.
    Reopen(Parting),
    /// The end of the loop.
    End(E, Parting),
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// In the background, and the server is not told that all work has ended: it is unknown, or the guard or another
    /// process tells it.
    Drop,
    /// In the background. All work has ended, and the server is told so: candidates that want no overlap wait for it.
    Close,
    /// The same, waited for, but no longer than that. What is left is done in the background, or by the passing of
    /// time.
    CloseWithin(Duration),
}

/// Leads whenever it can, until the policy ends it.
///
/// Needs a tokio runtime, or a host of its own in [`Policy::options`]. If this future is dropped, so is the policy's
/// work; its session ends in the background.
pub async fn lead<P: Policy>(engine: &Engine, policy: &mut P) -> P::End {
    let host = policy.options().host.unwrap_or_else(Machine::host);
    let mut kept = None;
    loop {
        let session = match kept.take() {
            Some(session) => session,
            None => match open(engine, policy).await {
                ControlFlow::Continue(session) => session,
                ControlFlow::Break(end) => return end,
            },
        };
        let next = match policy.campaign(&session).await {
            Turn::Elected(held) => policy.lead(&session, held).await,
            Turn::Passed(next) => next,
        };
        match next {
            Next::Campaign => kept = keep(&host, policy, session),
            Next::Reopen(parting) => {
                policy.parting();
                // Nothing waits for the old session: a successor is to be elected as soon as may be, and it may be us.
                end_in_background(&host, session, parting);
            }
            Next::End(end, parting) => {
                policy.parting();
                match parting {
                    Parting::CloseWithin(limit) => {
                        let _ = host.within(limit, session.close()).await;
                    }
                    Parting::Drop | Parting::Close => end_in_background(&host, session, parting),
                }
                return end;
            }
        }
        policy.rest().await;
        // Anything can have happened to it meanwhile.
        kept = kept.and_then(|session| keep(&host, policy, session));
    }
}

/// Opens a session, however often that has to be tried.
async fn open<P: Policy>(engine: &Engine, policy: &mut P) -> ControlFlow<P::End, Session> {
    loop {
        let opened = tokio::select! {
            biased;
            opened = Session::open_with(engine, policy.options()) => opened,
            end = policy.interrupted() => return ControlFlow::Break(end),
        };
        match opened {
            Ok(session) => {
                policy.opened(&session);
                return ControlFlow::Continue(session);
            }
            Err(error) => policy.no_session(error).await?,
        }
    }
}

/// A session to campaign with again. One that is not is closed: its work has ended, and candidates that want no overlap
/// wait to hear that.
fn keep<P: Policy>(host: &Arc<dyn Host>, policy: &mut P, session: Session) -> Option<Session> {
    if policy.keeps(&session) {
        return Some(session);
    }
    policy.parting();
    end_in_background(host, session, Parting::Close);
    None
}

fn end_in_background(host: &Arc<dyn Host>, session: Session, parting: Parting) {
    match parting {
        Parting::Drop => drop(session),
        Parting::Close | Parting::CloseWithin(_) => {
            host.spawn(Box::pin(session.close()));
        }
    }
}
