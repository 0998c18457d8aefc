//! Campaigns for ever: a server that is away is waited for, and whatever is lost is campaigned for
//! again. A policy on the library's loop ([`tenure::leading`]).

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tenure::leading::{self, Next, Parting, Policy, Turn};
use tenure::{
    AcquireError, Election, ElectionName, Engine, EngineError, FencingToken, Leadership, Loss,
    Session, SessionError, SessionOptions, SessionState,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::metrics::Counts;
use super::status_cache::StatusCache;
use crate::commands::opening::SessionOpening;
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

/// How to campaign.
#[derive(Debug)]
pub(super) struct Campaign {
    pub(super) engine: Engine,
    pub(super) name: ElectionName,
    pub(super) options: SessionOptions,
    pub(super) priority: u32,
    /// Whether the first server is waited for.
    pub(super) waits: bool,
    /// How long the work beside us may take to hear that it is over, before others may lead.
    pub(super) grace: Duration,
    pub(super) status: Arc<StatusCache>,
    pub(super) counts: Arc<Counts>,
    pub(super) orders: mpsc::Receiver<StepDown>,
    pub(super) stop: watch::Receiver<bool>,
}

/// How the loop ends.
type Ended = anyhow::Result<()>;

/// Where the loop is.
#[derive(Debug)]
struct Standing {
    campaign: Campaign,
    opening: SessionOpening,
    pause: Duration,
    /// What was said last of a failure: it is not repeated.
    told: String,
}

impl Campaign {
    /// Campaigns until told to stop; then what is held is given up.
    ///
    /// # Errors
    /// If there is no server, and none is to be waited for.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        eprintln!("waiting to lead {}", self.name);
        let engine = self.engine.clone();
        let opening = SessionOpening::new(self.waits);
        let mut standing =
            Standing { campaign: self, opening, pause: PAUSE_FIRST, told: String::new() };
        leading::lead(&engine, &mut standing).await
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
    async fn lead(&mut self, leadership: Leadership, session: &Session) -> Next<Ended> {
        let (name, token) = (self.name.clone(), leadership.token());
        let leadership = Arc::new(leadership);
        self.status.lead(&leadership);
        self.counts.tenure_began();
        eprintln!("leading {name} with token {token}");
        let mut state = SessionState::Held;
        let mut order = None;
        let mut next = Next::Campaign;
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
                    return Next::Campaign;
                }
                () = stopped(&mut self.stop) => {
                    next = stop();
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
        next
    }
}

/// What is held has been given up: the session goes back, and that is the end.
fn stop() -> Next<Ended> {
    Next::End(Ok(()), Parting::CloseWithin(CLOSE_MAX))
}

impl Standing {
    /// Says that something failed, unless it was said last.
    fn tell(&mut self, failure: String, text: impl FnOnce(&str) -> String) {
        if failure != self.told {
            eprintln!("{}", text(&failure));
            self.told = failure;
        }
    }

    /// Waits for a moment, longer each time.
    async fn wait(&mut self) -> ControlFlow<Ended> {
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        self.rest_for(pause).await
    }

    async fn rest_for(&mut self, pause: Duration) -> ControlFlow<Ended> {
        tokio::select! {
            () = sleep(pause) => ControlFlow::Continue(()),
            () = stopped(&mut self.campaign.stop) => ControlFlow::Break(Ok(())),
        }
    }

    /// The next failure is the first again.
    fn all_is_well(&mut self) {
        (self.pause, self.told) = (PAUSE_FIRST, String::new());
    }
}

impl Policy for Standing {
    type Held = Leadership;
    type End = Ended;

    fn options(&self) -> SessionOptions {
        self.campaign.options.clone()
    }

    async fn interrupted(&mut self) -> Ended {
        stopped(&mut self.campaign.stop).await;
        Ok(())
    }

    async fn no_session(&mut self, error: SessionError) -> ControlFlow<Ended> {
        if matches!(error, SessionError::Engine(EngineError::Refused { .. })) {
            // Whether that is for good is for the reporter to find out, which asks the same servers.
            let name = self.campaign.name.clone();
            let failure = format!("{:#}", anyhow::Error::from(error));
            self.tell(failure, |text| format!("no candidate for {name}: {text}; trying again"));
            return self.wait().await;
        }
        match self.opening.failed(error) {
            Ok(pause) => self.rest_for(pause).await,
            Err(error) => ControlFlow::Break(Err(error)),
        }
    }

    fn opened(&mut self, session: &Session) {
        self.all_is_well();
        self.opening.succeeded();
        self.campaign.counts.session_opened();
        self.campaign.status.attend(session);
    }

    async fn campaign(&mut self, session: &Session) -> Turn<Leadership, Ended> {
        let name = self.campaign.name.clone();
        let election = Election::new(session, name).expect("it is a name already");
        Turn::Passed(match self.campaign.win(&election).await {
            None => stop(),
            Some(Ok(leadership)) => {
                self.all_is_well();
                return Turn::Elected(leadership);
            }
            Some(Err(AcquireError::SessionOver { loss, .. })) => {
                eprintln!("waiting for {}: {loss}; a candidate again", self.campaign.name);
                Next::Reopen(Parting::Close)
            }
            Some(Err(error)) => {
                let failure = format!("{:#}", anyhow::Error::from(error));
                self.tell(failure, |text| format!("{text}; trying again"));
                match self.wait().await {
                    ControlFlow::Continue(()) => Next::Campaign,
                    ControlFlow::Break(_) => stop(),
                }
            }
        })
    }

    async fn lead(&mut self, session: &Session, leadership: Leadership) -> Next<Ended> {
        self.campaign.lead(leadership, session).await
    }

    /// The servers are told of the end also if the session is over: they want to know that a revoked session's work has
    /// ended.
    fn parting(&mut self) {
        self.all_is_well();
        self.campaign.status.part();
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
