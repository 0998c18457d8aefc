//! Being there, and being told when one is not.

use std::time::{Duration, Instant};

use tenure::{AcquireError, Doubt, Election, Lock, Loss, Session, SessionState};

use super::{Ground, TTL, bounded};
use crate::eventually;

/// A session that nothing happens to lives on, for several times its time to live.
pub async fn session_lives_on_while_it_is_renewed(ground: &Ground) {
    let session = ground.session_of(Duration::from_secs(1)).await;
    let held = Lock::new(&session, "a").unwrap().lock().await.unwrap();
    let watched = tokio::time::timeout(3 * session.ttl(), held.lost()).await;
    assert!(watched.is_err(), "lost: {watched:?}");
    assert_eq!(ground.keys("a").await[0].create_revision, held.token().get());
}

/// redisson#3636, etcd#10811: a holder that cannot renew stops believing by its own clock, before its
/// time to live is over, and does not start again.
pub async fn holder_that_cannot_renew_stops_before_its_time_is_over(ground: &Ground) {
    let session = ground.session_of(Duration::from_secs(2)).await;
    let held = Lock::new(&session, "a").unwrap().lock().await.unwrap();
    let stopped = Instant::now();
    ground.pause();
    let suspect = bounded("suspect", session.changed(SessionState::Held)).await;
    assert_eq!(suspect, SessionState::Suspect);
    assert!(matches!(held.may_act(Duration::ZERO), Err(Doubt::Suspect { .. })));
    let loss = bounded("lost", held.lost()).await;
    let believed = stopped.elapsed();
    ground.resume();
    assert_eq!(loss, Loss::Unconfirmed);
    assert!(believed < session.ttl(), "believed for {believed:?}");
    assert_eq!(held.may_act(Duration::ZERO), Err(Doubt::Lost));
    let error = Lock::new(&session, "b").unwrap().lock().await.unwrap_err();
    assert!(matches!(error, AcquireError::SessionOver { loss: Loss::Unconfirmed, .. }), "{error}");
}

/// A pause of the server that is shorter than that does no harm.
pub async fn session_survives_a_short_pause_of_the_server(ground: &Ground) {
    let session = ground.session_of(Duration::from_secs(4)).await;
    let held = Lock::new(&session, "a").unwrap().lock().await.unwrap();
    ground.pause();
    tokio::time::sleep(session.ttl() / 3).await;
    ground.resume();
    eventually("renewed", async || {
        let remaining = session.remaining();
        if remaining > session.ttl() / 2 { Ok(()) } else { Err(format!("{remaining:?} left")) }
    })
    .await;
    assert!(held.may_act(Duration::ZERO).is_ok());
}

/// redisson#5698: a program with a blocked runtime still renews, and can still ask.
pub async fn blocked_runtime_does_not_end_it(ground: &Ground) {
    let session = ground.session_of(Duration::from_secs(1)).await;
    let held = Lock::new(&session, "a").unwrap().lock().await.unwrap();
    let held = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            // Blocking is the point: nothing else runs on this runtime meanwhile.
            std::thread::sleep(Duration::from_secs(3));
            assert!(held.may_act(Duration::ZERO).is_ok());
        });
        held
    });
    let held = tokio::task::spawn_blocking(move || held.join().unwrap()).await.unwrap();
    assert_eq!(ground.keys("a").await[0].create_revision, held.token().get());
}

/// Closing frees everything at once, and this process knows it before others do.
pub async fn session_that_is_closed_frees_everything_at_once(ground: &Ground) {
    let (session, other) = (ground.session().await, ground.session().await);
    let held = Lock::new(&session, "a").unwrap().lock().await.unwrap();
    let leads = Election::new(&session, "job").unwrap().candidate("x").campaign().await.unwrap();
    bounded("closed", session.close()).await;
    assert_eq!(held.lost().await, Loss::Closed);
    assert_eq!(leads.lost().await, Loss::Closed);
    for name in ["a", "job"] {
        let _kept = bounded("free", Lock::new(&other, name).unwrap().try_lock()).await.unwrap();
    }
}

/// etcd-cpp-apiv3#116: a session whose last handle is dropped is given back, not left to run out.
pub async fn session_that_is_dropped_is_given_back(ground: &Ground) {
    let session = ground.session().await;
    let held = Lock::new(&session, "a").unwrap().lock().await.unwrap();
    drop(session);
    assert!(held.may_act(Duration::ZERO).is_ok(), "what it holds keeps it");
    let started = Instant::now();
    drop(held);
    let client = ground.client();
    eventually("no leases", async || {
        let leases = client.lease().leases().await.map_err(|error| error.to_string())?.leases;
        if leases.is_empty() { Ok(()) } else { Err(format!("{leases:?}")) }
    })
    .await;
    assert!(started.elapsed() < TTL / 2);
}

/// Scalingo/link#89: one session serves many names.
pub async fn session_serves_many_names(ground: &Ground) {
    let session = ground.session().await;
    let mut held = Vec::new();
    for at in 0..50 {
        let lock = Lock::new(&session, format!("many/{at}")).unwrap();
        held.push(bounded("held", lock.lock()).await.unwrap());
    }
    assert_eq!(ground.client().lease().leases().await.unwrap().leases.len(), 1);
    assert!(held.windows(2).all(|pair| pair[0].token() < pair[1].token()));
    for held in held {
        held.release().await.unwrap();
    }
}

/// A name that cannot be one is refused before a request is sent.
pub async fn session_refuses_bad_names_and_settings(ground: &Ground) {
    let session = ground.session().await;
    for name in ["", "a/", "a//b", &"x".repeat(1025)] {
        Lock::new(&session, name).unwrap_err();
        Election::new(&session, name).unwrap_err();
    }
    let error = Session::open(&ground.engine, Duration::from_millis(10)).await.unwrap_err();
    assert_eq!(error.to_string(), "session: ttl 10ms must be at least 300ms");
}

/// A program needs no runtime of its own: the session's thread does everything.
pub async fn session_needs_no_runtime_of_the_program(ground: &Ground) {
    let engine = ground.engine.clone();
    let program = std::thread::spawn(move || {
        wait_for(async {
            let session = Session::open(&engine, TTL).await.unwrap();
            let held = Lock::new(&session, "a").unwrap().lock().await.unwrap();
            let other = Session::open(&engine, TTL).await.unwrap();
            let limit = Duration::from_millis(100);
            let late = Lock::new(&other, "a").unwrap().lock_within(limit).await.unwrap_err();
            assert!(matches!(late, AcquireError::TimedOut { .. }), "{late}");
            held.release().await.unwrap();
            session.close().await;
        });
    });
    let ended = tokio::task::spawn_blocking(move || program.join());
    bounded("the program ends", ended).await.unwrap().unwrap();
}

/// The simplest executor there is.
fn wait_for<T>(done: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut done = std::pin::pin!(done);
    loop {
        match done.as_mut().poll(&mut context) {
            std::task::Poll::Ready(done) => return done,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
