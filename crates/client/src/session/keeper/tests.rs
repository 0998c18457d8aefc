use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_api::LeaseId;
use tokio::sync::{Notify, watch};

use super::{in_time, keep};
use crate::backend::{BackendCandidate, BackendSession, Boxed, JoinSpec, Link, RenewError};
use crate::clock::{Clock, Moment};
use crate::host::Virtual;
use crate::session::core::{Core, Owner, SessionState};
use crate::{AcquireError, Engine, EngineError, Loss, SessionError, Tenancy};

const TTL: Duration = Duration::from_secs(6);

/// What becomes of one renewal.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Acknowledged,
    AcknowledgedAfter(Duration),
    Refused,
    Unanswered,
    Over,
}

/// A session with scripted renewals; after the script, each goes as the last one did.
#[derive(Debug)]
struct Scripted {
    clock: Arc<Virtual>,
    fates: Mutex<VecDeque<Fate>>,
    /// When renewals were sent.
    sent: Mutex<Vec<Moment>>,
    link: watch::Sender<Link>,
    link_changes: Notify,
}

impl Scripted {
    fn fate(&self) -> Fate {
        let mut fates = self.fates.lock().unwrap();
        if fates.len() > 1 { fates.pop_front().unwrap() } else { fates[0] }
    }

    /// When renewals were sent, in milliseconds.
    fn sent_ms(&self) -> Vec<u128> {
        let start = Moment::default();
        self.sent.lock().unwrap().iter().map(|sent| sent.since(start).as_millis()).collect()
    }

    fn tell_link(&self, link: Link) {
        self.link.send_replace(link);
        self.link_changes.notify_one();
    }
}

impl BackendSession for Scripted {
    fn id(&self) -> LeaseId {
        LeaseId(7)
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn renew(&self) -> Boxed<'_, Result<(), RenewError>> {
        Box::pin(async move {
            self.sent.lock().unwrap().push(self.clock.now());
            let text = "connection refused".to_owned();
            match self.fate() {
                Fate::Acknowledged => Ok(()),
                Fate::AcknowledgedAfter(time) => {
                    tokio::time::sleep(time).await;
                    Ok(())
                }
                Fate::Refused => Err(RenewError::Missed(EngineError::Unavailable { text })),
                Fate::Unanswered => std::future::pending().await,
                Fate::Over => Err(RenewError::Over(Loss::NotFound)),
            }
        })
    }

    fn ended(&self) -> Boxed<'_, Loss> {
        Box::pin(std::future::pending())
    }

    fn link(&self) -> Boxed<'_, Link> {
        Box::pin(async move {
            self.link_changes.notified().await;
            *self.link.borrow()
        })
    }

    fn candidate(&self, join: JoinSpec) -> Result<Arc<dyn BackendCandidate>, AcquireError> {
        Err(AcquireError::Taken { name: join.first_name() })
    }

    fn close(&self, _stopped: bool) -> Boxed<'_, Result<(), EngineError>> {
        Box::pin(async {
            match self.fate() {
                Fate::Unanswered => std::future::pending().await,
                _ => Ok(()),
            }
        })
    }
}

fn session(fates: &[Fate]) -> (Arc<Core>, Arc<Scripted>) {
    let clock = Arc::new(Virtual::start());
    let session = Arc::new(Scripted {
        clock: Arc::clone(&clock),
        fates: Mutex::new(fates.iter().copied().collect()),
        sent: Mutex::default(),
        link: watch::Sender::new(Link::Attached),
        link_changes: Notify::new(),
    });
    let engine = Engine::etcd("127.0.0.1:1").unwrap();
    let tenancy = Tenancy::begin(clock.now(), TTL);
    let backend: Arc<dyn BackendSession> = Arc::clone(&session) as _;
    (Arc::new(Core::new(engine, backend, clock, tenancy)), session)
}

/// Keeps it for so long; why it is over, if it is.
async fn keep_for(core: &Core, time: Duration) -> Option<Loss> {
    tokio::time::timeout(time, keep(core)).await.ok()
}

#[tokio::test(start_paused = true)]
async fn keeper_renews_after_each_third_of_the_ttl() {
    let (core, session) = session(&[Fate::Acknowledged]);
    assert_eq!(keep_for(&core, 10 * TTL).await, None);
    assert_eq!(session.sent_ms()[..4], [2_000, 4_000, 6_000, 8_000]);
    assert_eq!(core.refresh(), SessionState::Held);
    assert_eq!(core.slow_renewals(), 0);
}

#[tokio::test(start_paused = true)]
async fn keeper_counts_the_next_third_from_the_sending() {
    let slow = Fate::AcknowledgedAfter(Duration::from_millis(900));
    let (core, session) = session(&[slow]);
    assert_eq!(keep_for(&core, 3 * TTL).await, None);
    assert_eq!(session.sent_ms()[..3], [2_000, 4_000, 6_000]);
    // At 18.9 s the renewal of 18 s would just be acknowledged; the one of 16 s counts at 18 s.
    assert_eq!(core.deadline().since(Moment::default()), Duration::from_millis(16_000 + 5_900));
}

#[tokio::test(start_paused = true)]
async fn keeper_tries_a_missed_renewal_again_at_once_and_then_with_pauses() {
    let fates = [Fate::Refused, Fate::Refused, Fate::Refused, Fate::Acknowledged];
    let (core, session) = session(&fates);
    assert_eq!(keep_for(&core, Duration::from_secs(3)).await, None);
    let sent = session.sent_ms();
    assert_eq!(sent[..2], [2_000, 2_000], "at once");
    assert!(sent[2] > 2_000 && sent[2] <= 2_021, "{sent:?}");
    assert!(sent[3] > sent[2] && sent[3] <= sent[2] + 41, "{sent:?}");
    assert_eq!(sent.len(), 4);
    assert_eq!((core.refresh(), core.slow_renewals()), (SessionState::Held, 1));
}

#[tokio::test(start_paused = true)]
async fn keeper_leaves_a_silent_member_after_a_sixth_of_the_ttl() {
    let (core, session) = session(&[Fate::Unanswered, Fate::Acknowledged]);
    assert_eq!(keep_for(&core, Duration::from_millis(3_500)).await, None);
    assert_eq!(session.sent_ms(), [2_000, 3_000]);
    assert_eq!(core.refresh(), SessionState::Held);
}

#[tokio::test(start_paused = true)]
async fn session_is_suspect_and_then_lost_when_no_member_answers() {
    for silence in [Fate::Unanswered, Fate::Refused] {
        let (core, session) = session(&[silence]);
        let start = session.clock.now();
        let told = tokio::spawn({
            let (core, clock) = (Arc::clone(&core), Arc::clone(&session.clock));
            async move {
                let suspect = core.changed(SessionState::Held).await;
                let suspect_at = clock.now();
                let lost = core.changed(suspect).await;
                (suspect, suspect_at, lost, clock.now())
            }
        });
        assert_eq!(keep(&core).await, Loss::Unconfirmed);
        let (suspect, suspect_at, lost, lost_at) = told.await.unwrap();
        assert_eq!(suspect, SessionState::Suspect);
        assert_eq!(lost, SessionState::Lost(Loss::Unconfirmed));
        // Two renewals without an answer are doubt enough; refusals are tried again until it is time.
        let expected = if matches!(silence, Fate::Refused) { 4_500 } else { 4_000 };
        let suspect_at = suspect_at.since(start);
        assert!(suspect_at.abs_diff(Duration::from_millis(expected)) <= Duration::from_millis(1));
        let lost_at = lost_at.since(start);
        assert!(lost_at.abs_diff(Duration::from_millis(5_900)) <= Duration::from_millis(1));
    }
}

#[tokio::test(start_paused = true)]
async fn session_doubt_ends_with_an_acknowledgement() {
    let (core, _session) = session(&[Fate::Unanswered, Fate::Unanswered, Fate::Acknowledged]);
    let told = tokio::spawn({
        let core = Arc::clone(&core);
        async move {
            let suspect = core.changed(SessionState::Held).await;
            (suspect, core.changed(suspect).await)
        }
    });
    assert_eq!(keep_for(&core, Duration::from_secs(30)).await, None);
    assert_eq!(told.await.unwrap(), (SessionState::Suspect, SessionState::Held));
}

#[tokio::test(start_paused = true)]
async fn session_ignores_an_acknowledgement_after_the_deadline() {
    // Every attempt is answered, but only after its time limit.
    let (core, _session) = session(&[Fate::AcknowledgedAfter(Duration::from_millis(1_001))]);
    assert_eq!(keep_for(&core, 3 * TTL).await, Some(Loss::Unconfirmed));
    assert!(!core.revise(|tenancy, now| tenancy.acknowledge(now, now)), "for good");
}

#[tokio::test(start_paused = true)]
async fn session_ends_at_once_when_the_server_says_so() {
    let (core, session) = session(&[Fate::Acknowledged, Fate::Over]);
    let loss = keep(&core).await;
    core.end(loss);
    assert_eq!(core.refresh(), SessionState::Lost(Loss::NotFound));
    assert_eq!(session.sent_ms(), [2_000, 4_000]);
    core.end(Loss::Closed);
    assert_eq!(core.refresh(), SessionState::Lost(Loss::NotFound), "the first reason counts");
}

#[tokio::test(start_paused = true)]
async fn session_close_ends_belief_before_the_server_is_asked() {
    let (core, _session) = session(&[Fate::Acknowledged]);
    drop(Owner::new(Arc::clone(&core)));
    assert_eq!(core.refresh(), SessionState::Lost(Loss::Closed));
    assert_eq!(keep(&core).await, Loss::Closed);
}

#[tokio::test(start_paused = true)]
async fn session_ends_with_its_connection_unless_another_comes_in_time() {
    let (core, session) = session(&[Fate::Acknowledged]);
    let kept = tokio::spawn({
        let core = Arc::clone(&core);
        async move { keep(&core).await }
    });
    let window = Duration::from_millis(25);
    session.tell_link(Link::Detached(session.clock.now() + window));
    tokio::time::sleep(window / 2).await;
    session.tell_link(Link::Attached);
    tokio::time::sleep(10 * window).await;
    assert_eq!(core.refresh(), SessionState::Held, "it came back");
    session.tell_link(Link::Detached(session.clock.now() + window));
    assert_eq!(kept.await.unwrap(), Loss::ConnectionLost);
}

/// The machine was suspended: nothing has run, and the first question comes before any task has noticed.
#[tokio::test(start_paused = true)]
async fn session_tells_the_truth_first_after_a_suspend() {
    let (core, _session) = session(&[Fate::Acknowledged]);
    assert_eq!(core.may_act(Duration::ZERO), Ok(()));
    tokio::time::advance(Duration::from_secs(3_600)).await;
    assert_eq!(core.may_act(Duration::ZERO), Err(crate::Doubt::Lost));
    assert_eq!(core.refresh(), SessionState::Lost(Loss::Unconfirmed));
}

/// The process stood still while it opened one, and the connection has died without a word.
#[tokio::test(start_paused = true)]
async fn session_that_comes_too_late_is_given_back_but_not_for_ever() {
    for fate in [Fate::Acknowledged, Fate::Unanswered] {
        let (core, _session) = session(&[fate]);
        tokio::time::advance(2 * TTL).await;
        let core = Arc::into_inner(core).expect("nobody else has it");
        let opened = tokio::time::timeout(TTL, in_time(core)).await.expect("it does not hang");
        assert!(matches!(opened, Err(SessionError::TooLate { loss: Loss::Unconfirmed })));
    }
}
