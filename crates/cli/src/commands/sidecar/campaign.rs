//! Stands for the election for ever: a server that is away is waited for, and whatever is lost is
//! campaigned for again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tenure::{
    AcquireError, Election, ElectionName, Engine, FencingToken, Leadership, Loss, Session,
    SessionOptions, SessionState,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::metrics::Counts;
use super::status_cache::StatusCache;
use crate::output::visible;

/// Pauses between attempts.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a resignation may take before it goes on in the background.
const RESIGN_MAX: Duration = Duration::from_secs(3);
/// How long giving the session back may take. It runs out by itself otherwise.
const CLOSE_MAX: Duration = Duration::from_secs(3);

/// A request to give up this tenure, and no later one.
#[derive(Debug)]
pub(super) struct StepDown {
    pub(super) token: FencingToken,
    pub(super) answer: oneshot::Sender<SteppedDown>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SteppedDown {
    /// That tenure was over already.
    NotLeading,
    /// Given up here; and at the server, if it has confirmed that.
    Done { confirmed: bool },
}

impl StepDown {
    fn answer(self, with: SteppedDown) {
        // If the request is gone, it is done all the same.
        let _ = self.answer.send(with);
    }
}

/// How to stand.
#[derive(Debug)]
pub(super) struct Campaign {
    pub(super) engine: Engine,
    pub(super) name: ElectionName,
    pub(super) options: SessionOptions,
    pub(super) priority: u32,
    /// How long the work beside us may take to hear that it is over, before others may lead.
    pub(super) grace: Duration,
    pub(super) status: Arc<StatusCache>,
    pub(super) counts: Arc<Counts>,
    pub(super) orders: mpsc::Receiver<StepDown>,
    pub(super) stop: watch::Receiver<bool>,
}

/// Why something came to its end.
enum Ended {
    /// We are to stop.
    Stopped,
    /// Try again.
    Over,
}

impl Campaign {
    /// Stands until told to stop; then what is held is given up.
    pub(super) async fn run(mut self) {
        eprintln!("waiting to lead {}", self.name);
        while let Some(session) = self.open().await {
            self.counts.session_opened();
            self.status.attend(&session);
            let ended = self.stand(&session).await;
            self.status.part();
            // Closed also if it is over: the servers want to know that a revoked session's work has ended.
            let closing = timeout(CLOSE_MAX, session.close());
            if let Ended::Stopped = ended {
                let _ = closing.await;
                return;
            }
            tokio::spawn(closing);
        }
    }

    /// Opens a session, however long that takes; nothing if we are to stop.
    async fn open(&mut self) -> Option<Session> {
        let mut pause = PAUSE_FIRST;
        let mut told = String::new();
        loop {
            let opened = tokio::select! {
                opened = Session::open_with(&self.engine, self.options.clone()) => opened,
                () = stopped(&mut self.stop) => return None,
            };
            match opened {
                Ok(session) => return Some(session),
                Err(error) => {
                    let text = format!("{:#}", anyhow::Error::from(error));
                    if text != told {
                        eprintln!("cannot stand for {}: {text}; trying again", self.name);
                        told = text;
                    }
                }
            }
            self.wait(&mut pause).await;
        }
    }

    /// Waits for a moment, longer each time.
    async fn wait(&mut self, pause: &mut Duration) {
        tokio::select! {
            () = sleep(*pause) => {}
            () = stopped(&mut self.stop) => {}
        }
        *pause = (*pause * 2).min(PAUSE_MAX);
    }

    /// Campaigns with one session for as long as there is one.
    async fn stand(&mut self, session: &Session) -> Ended {
        let election = Election::new(session, self.name.clone()).expect("it is a name already");
        let mut pause = PAUSE_FIRST;
        let mut told = String::new();
        loop {
            match self.win(&election).await {
                None => return Ended::Stopped,
                Some(Ok(leadership)) => {
                    (pause, told) = (PAUSE_FIRST, String::new());
                    if let Ended::Stopped = self.lead(leadership, session).await {
                        return Ended::Stopped;
                    }
                }
                Some(Err(AcquireError::SessionOver { loss, .. })) => {
                    eprintln!("waiting for {}: {loss}; standing again", self.name);
                    return Ended::Over;
                }
                Some(Err(error)) => {
                    let text = format!("{:#}", anyhow::Error::from(error));
                    if text != told {
                        eprintln!("{text}; trying again");
                        told = text;
                    }
                    self.wait(&mut pause).await;
                }
            }
            if matches!(session.state(), SessionState::Lost(_)) {
                return Ended::Over;
            }
        }
    }

    /// Waits until we lead; nothing if we are to stop.
    async fn win(&mut self, election: &Election) -> Option<Result<Leadership, AcquireError>> {
        let mut candidacy = election.candidate(self.status.value.clone()).priority(self.priority);
        if !self.options.fast_release {
            // The leader before may be cut off, and the program beside it believes what it was told last, whatever an
            // operator has decided meanwhile.
            candidacy = candidacy.without_overlap();
        }
        let mut campaign = pin!(candidacy.campaign());
        loop {
            tokio::select! {
                won = &mut campaign => return Some(won),
                Some(order) = self.orders.recv() => order.answer(SteppedDown::NotLeading),
                () = stopped(&mut self.stop) => return None,
            }
        }
    }

    /// One tenure.
    async fn lead(&mut self, leadership: Leadership, session: &Session) -> Ended {
        let (name, token) = (self.name.clone(), leadership.token());
        let leadership = Arc::new(leadership);
        self.status.lead(&leadership);
        self.counts.tenure_began();
        eprintln!("leading {name} with token {token}");
        let mut state = SessionState::Held;
        let mut order = None;
        let mut ended = Ended::Over;
        loop {
            tokio::select! {
                biased;
                loss = leadership.lost() => {
                    self.status.step_aside(loss == Loss::Unconfirmed);
                    self.counts.tenure_lost();
                    eprintln!("lost {name}: {loss}");
                    if !ran_out(loss) {
                        // It was taken. Candidates that want no overlap wait until we say that it is over.
                        sleep(self.grace).await;
                        // If the session is over, closing it says the same.
                        if !matches!(session.state(), SessionState::Lost(_)) {
                            resign(leadership).await;
                        }
                    }
                    return Ended::Over;
                }
                () = stopped(&mut self.stop) => {
                    ended = Ended::Stopped;
                    break;
                }
                drain = leadership.drain() => {
                    eprintln!("making room in {name} for {}", visible(&drain.successor));
                    break;
                }
                Some(asked) = self.orders.recv() => {
                    if asked.token == token {
                        eprintln!("stepping down from {name}");
                        order = Some(asked);
                        break;
                    }
                    asked.answer(SteppedDown::NotLeading);
                }
                changed = session.changed(state) => {
                    state = changed;
                    self.status.look_again();
                }
            }
        }
        // First the program beside us must stop believing in it, then others may lead.
        self.status.step_aside(false);
        // All of it, also if it is taken meanwhile: the successor is held back until we say so.
        sleep(self.grace).await;
        let confirmed = resign(leadership).await;
        eprintln!("gave up {name}{}", if confirmed { "" } else { " (not confirmed)" });
        if let Some(order) = order {
            order.answer(SteppedDown::Done { confirmed });
        }
        ended
    }
}

/// Whether its time is over, by the servers' clock or by ours: then no candidate waits for our confirmation.
fn ran_out(loss: Loss) -> bool {
    matches!(loss, Loss::Unconfirmed | Loss::Expired)
}

/// Gives it up; whether the server has confirmed that.
async fn resign(leadership: Arc<Leadership>) -> bool {
    // The `StatusCache` has let go of it, and nothing else ever has one. If it were not so, dropping resigns too.
    let Some(leadership) = Arc::into_inner(leadership) else { return false };
    matches!(timeout(RESIGN_MAX, leadership.resign()).await, Ok(Ok(())))
}

/// Is done when everything is to stop.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, and with it any other order.
    let _ = stop.wait_for(|stop| *stop).await;
}
