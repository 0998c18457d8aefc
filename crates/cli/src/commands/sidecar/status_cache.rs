//! Keeps everything that is known, and judges it for each question.
//!
//! The campaign stores its leadership here, the observer stores news. No finished
//! answer is kept: each is judged under the lock, by the clock of that moment, so a process that was
//! paused between two statements cannot repeat what it believed before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::clock::{Boottime, Clock, Moment};
use tenure::{FencingToken, Leadership, Loss, Session, SessionState};
use tokio::sync::{Notify, watch};

use super::belief::{Alive, Belief, Known, Leader, News, Own, Sure, judge};

/// What listeners are told of when it changes.
pub(super) type Headline = Option<(Option<(String, String, FencingToken)>, bool)>;

/// What is known, and the listeners to tell.
#[derive(Debug)]
pub(super) struct StatusCache {
    /// The election.
    pub(super) election: String,
    /// Our identity; `None` if we are no candidate and only observe.
    pub(super) identity: Option<String>,
    /// A value for others to read when we lead.
    pub(super) value: String,
    pub(super) ttl: Duration,
    papers: Mutex<Papers>,
    /// Something was stored.
    touched: Notify,
    /// Fresh news is wanted.
    pub(super) ask: Notify,
    headline: watch::Sender<Headline>,
}

#[derive(Debug, Default)]
struct Papers {
    tenure: Option<Tenure>,
    session: Option<Session>,
    news: Option<News>,
    not_before: Moment,
    over: Option<FencingToken>,
    /// The lease that we held ran out, and no server has answered since.
    ran_out: bool,
    slow_before: u64,
}

#[derive(Debug)]
struct Tenure {
    leadership: Arc<Leadership>,
    won_at: Moment,
    since_unix_ms: u64,
}

impl StatusCache {
    pub(super) fn new(
        election: String,
        identity: Option<String>,
        value: String,
        ttl: Duration,
    ) -> StatusCache {
        StatusCache {
            election,
            identity,
            value,
            ttl,
            papers: Mutex::default(),
            touched: Notify::new(),
            ask: Notify::new(),
            headline: watch::Sender::new(None),
        }
    }

    /// What may be answered now.
    pub(super) fn belief(&self) -> Belief {
        self.judge(&self.papers())
    }

    /// The same with the wall clock's time, in milliseconds since 1970, which is read *before* it is judged. If
    /// this process is paused in between, what is dated by it seems older than it is, and never newer.
    pub(super) fn dated_belief(&self) -> (u64, Belief) {
        let now = unix_ms();
        (now, self.belief())
    }

    fn judge(&self, papers: &Papers) -> Belief {
        let now = Boottime.now();
        let own = papers.tenure.as_ref().map(|tenure| self.own(tenure, papers));
        let session = papers.session.as_ref().filter(|session| is_alive(session));
        judge(
            Known {
                identity: self.identity.as_deref(),
                ttl: self.ttl,
                own: own.as_ref(),
                session: session
                    .map(|session| Alive { id: id(session), remaining: session.remaining() }),
                news: papers.news.as_ref(),
                not_before: papers.not_before,
                over: papers.over,
            },
            now,
        )
    }

    fn own(&self, tenure: &Tenure, papers: &Papers) -> Own {
        let token = tenure.leadership.token();
        let heard = papers.news.as_ref().and_then(|news| news.leader.as_ref());
        let since = heard.filter(|leader| leader.token == token).and_then(|l| l.since_unix_ms);
        let session = papers.session.as_ref();
        Own {
            leader: Leader {
                name: self.identity.clone().unwrap_or_default(),
                value: self.value.clone(),
                token,
                session: session.map_or(0, id),
                since_unix_ms: since.or(Some(tenure.since_unix_ms)),
            },
            won_at: tenure.won_at,
            // Asked first: what is left after it can only be less.
            may_act: tenure.leadership.may_act(Duration::ZERO).map(drop),
            remaining: tenure.leadership.remaining(),
            unconfirmed: session.map_or(Duration::ZERO, Session::unconfirmed_for),
        }
    }

    /// The token we lead with, if something may be begun now.
    pub(super) fn leads(&self) -> Option<FencingToken> {
        match self.belief() {
            Belief::Sure(Sure { leader: Some(leader), is_leader: true, .. }) => Some(leader.token),
            _ => None,
        }
    }

    /// The token of the tenure that we could give up, in doubt or not.
    pub(super) fn office(&self) -> Option<FencingToken> {
        let papers = self.papers();
        let leadership = &papers.tenure.as_ref()?.leadership;
        let lost = matches!(leadership.state(), SessionState::Lost(_));
        (!lost).then(|| leadership.token())
    }

    /// Whether the lease that we held ran out and nothing has been heard since: what client-go calls
    /// unhealthy.
    pub(super) fn lease_ran_out(&self) -> bool {
        let papers = self.papers();
        let lost =
            |tenure: &Tenure| tenure.leadership.state() == SessionState::Lost(Loss::Unconfirmed);
        papers.ran_out || papers.tenure.as_ref().is_some_and(lost)
    }

    /// Renewals that needed more than one attempt.
    pub(super) fn slow_renewals(&self) -> u64 {
        let papers = self.papers();
        papers.slow_before + papers.session.as_ref().map_or(0, Session::slow_renewals)
    }

    /// From now on this is our session.
    pub(super) fn attend(&self, session: &Session) {
        let mut papers = self.papers();
        papers.ran_out = false;
        if let Some(before) = papers.session.replace(session.clone()) {
            papers.slow_before += before.slow_renewals();
        }
        self.tell(papers);
    }

    /// We lead.
    pub(super) fn lead(&self, leadership: &Arc<Leadership>) {
        let mut papers = self.papers();
        let leadership = Arc::clone(leadership);
        let since_unix_ms = unix_ms();
        papers.tenure = Some(Tenure { leadership, won_at: Boottime.now(), since_unix_ms });
        self.tell(papers);
    }

    /// We do not lead any more, or are about to give it up: from here on no answer has our name.
    pub(super) fn step_aside(&self, ran_out: bool) {
        let mut papers = self.papers();
        if let Some(tenure) = papers.tenure.take() {
            papers.over = Some(tenure.leadership.token());
            papers.not_before = Boottime.now();
            papers.ran_out = ran_out;
        }
        self.tell(papers);
    }

    /// The session is over or given back. Whatever it had is lost; others may live on it no longer.
    pub(super) fn part(&self) {
        let mut papers = self.papers();
        if let Some(before) = papers.session.take() {
            papers.slow_before += before.slow_renewals();
        }
        self.tell(papers);
    }

    /// Stores an answer about the leader.
    pub(super) fn hear(&self, news: News) {
        let mut papers = self.papers();
        papers.ran_out = false;
        papers.news = Some(news);
        drop(papers);
        self.touched.notify_one();
    }

    /// Something may have changed, and the cluster should be asked.
    fn tell(&self, papers: MutexGuard<'_, Papers>) {
        drop(papers);
        self.touched.notify_one();
        self.ask.notify_one();
    }

    /// Something about our standing changed that is not stored here.
    pub(super) fn look_again(&self) {
        self.touched.notify_one();
    }

    /// Is told whenever the answer is another one; what it is then, the listener asks itself.
    pub(super) fn listen(&self) -> watch::Receiver<Headline> {
        self.headline.subscribe()
    }

    /// Tells listeners, for ever: when something was stored, and when what is believed runs out by the passing of time
    /// alone.
    pub(super) async fn tell_changes(&self) -> std::convert::Infallible {
        loop {
            let belief = self.belief();
            let news = headline(&belief);
            self.headline.send_if_modified(|told| std::mem::replace(told, news.clone()) != news);
            let runs_out = async {
                match &belief {
                    Belief::Sure(sure) => {
                        Boottime.sleep_until(Boottime.now() + sure.expires_in).await;
                    }
                    Belief::Unsure(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.touched.notified() => {}
                () = runs_out => {}
            }
        }
    }

    fn papers(&self) -> MutexGuard<'_, Papers> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn headline(belief: &Belief) -> Headline {
    match belief {
        Belief::Sure(sure) => {
            let leader = sure.leader.as_ref();
            let leader = leader.map(|l| (l.name.clone(), l.value.clone(), l.token));
            Some((leader, sure.is_leader))
        }
        Belief::Unsure(_) => None,
    }
}

fn id(session: &Session) -> i64 {
    tenure::api::LeaseId::to_wire(Some(session.id()))
}

fn is_alive(session: &Session) -> bool {
    !matches!(session.state(), SessionState::Lost(_))
}

/// Now, in milliseconds since 1970.
fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
