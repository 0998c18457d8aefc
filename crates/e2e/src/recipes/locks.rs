//! Locks of all kinds.

use std::num::NonZeroU32;
use std::time::Duration;

use tenure::{AcquireError, Lock, MultiLock, RwLock, Semaphore, Session};

use super::{Ground, at_once, bounded};

/// etcd#22082: giving up a hold cannot give up a later one of the same session.
pub async fn lock_release_that_is_late_does_not_free_a_newer_hold(ground: &Ground) {
    let (session, other) = (ground.session().await, ground.session().await);
    let lock = Lock::new(&session, "a").unwrap();
    let mut last = None;
    for _ in 0..20 {
        let held = bounded("held", lock.lock()).await.unwrap();
        assert!(Some(held.token()) > last, "a new hold has a greater token");
        last = Some(held.token());
        // Released in the background, while the next hold is being taken.
        drop(held);
    }
    let held = bounded("held", lock.lock()).await.unwrap();
    let taken = Lock::new(&other, "a").unwrap().try_lock().await.unwrap_err();
    assert!(matches!(taken, AcquireError::Taken { .. }), "{taken}");
    let keys = ground.keys("a").await;
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0].create_revision, held.token().get());
    assert!(held.may_act(Duration::ZERO).is_ok());
}

/// etcd's own `lock` and ours wait for each other.
pub async fn lock_waits_behind_etcdctl(ground: &Ground) {
    let session = ground.session().await;
    let held = Lock::new(&session, "a").unwrap().lock().await.unwrap();
    let mut theirs = ground
        .etcdctl()
        .command(&["lock", "a"])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    ground.has_candidates("a", 2).await;
    let third = ground.session().await;
    let lock = Lock::new(&third, "a").unwrap();
    let waits = tokio::spawn(async move { lock.lock().await });
    let keys = ground.has_candidates("a", 3).await;
    assert_eq!(keys[0].create_revision, held.token().get());
    held.release().await.unwrap();
    ground.has_candidates("a", 2).await;
    assert!(!waits.is_finished(), "etcdctl came before");
    let lease = keys[1].lease;
    ground.client().lease().revoke(lease).await.unwrap();
    let held = bounded("after etcdctl", waits).await.unwrap().unwrap();
    assert_eq!(held.token().get(), keys[2].create_revision);
    theirs.kill().unwrap();
    theirs.wait().unwrap();
}

/// An attempt that may not wait takes the lock or leaves nothing behind.
pub async fn lock_try_takes_it_or_leaves_no_key(ground: &Ground) {
    let (first, second) = (ground.session().await, ground.session().await);
    let held = Lock::new(&first, "a").unwrap().try_lock().await.unwrap();
    let lock = Lock::new(&second, "a").unwrap();
    for _ in 0..3 {
        let taken = bounded("taken", lock.try_lock()).await.unwrap_err();
        assert!(matches!(taken, AcquireError::Taken { .. }), "{taken}");
    }
    assert_eq!(ground.keys("a").await.len(), 1);
    held.release().await.unwrap();
    let _kept = bounded("free", lock.try_lock()).await.unwrap();
}

/// etcd#16221: readers share, a writer holds alone, and no candidate passes a writer that waits.
pub async fn readers_share_and_writers_do_not(ground: &Ground) {
    let sessions = sessions(ground, 4).await;
    let lock = |at: usize| RwLock::new(&sessions[at], "a").unwrap();
    let reads = [
        bounded("reads", lock(0).read()).await.unwrap(),
        bounded("reads", lock(1).read()).await.unwrap(),
    ];
    let writer = lock(2);
    let writes = tokio::spawn(async move { writer.write().await });
    ground.has_candidates("a", 3).await;
    let late = lock(3);
    let error = late.try_read().await.unwrap_err();
    assert!(matches!(error, AcquireError::Taken { .. }), "a writer waits: {error}");
    let late = tokio::spawn(async move { late.read().await });
    ground.has_candidates("a", 4).await;
    let [first, second] = reads;
    first.release().await.unwrap();
    assert!(!writes.is_finished());
    let newest_reader = second.token();
    second.release().await.unwrap();
    let held = bounded("writes", writes).await.unwrap().unwrap();
    assert!(held.token() > newest_reader);
    assert!(!late.is_finished(), "a writer holds alone");
    held.release().await.unwrap();
    let _kept = bounded("reads after the writer", late).await.unwrap().unwrap();
}

/// etcd#16221: a writer whose session ends while it waits never holds.
pub async fn writer_whose_session_is_revoked_while_it_waits_is_told(ground: &Ground) {
    let sessions = sessions(ground, 3).await;
    let lock = |at: usize| RwLock::new(&sessions[at], "a").unwrap();
    let reads = bounded("reads", lock(0).read()).await.unwrap();
    let (second, third) = (lock(1), lock(2));
    let second = tokio::spawn(async move { second.write().await });
    ground.has_candidates("a", 2).await;
    let third = tokio::spawn(async move { third.write().await });
    ground.has_candidates("a", 3).await;
    ground.revoke(&sessions[1]).await;
    let error = at_once("told", second).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::SessionOver { .. }), "{error}");
    assert!(!third.is_finished());
    reads.release().await.unwrap();
    let _kept = bounded("the other writes", third).await.unwrap().unwrap();
}

/// As many as there are permits, and the next when one is free.
pub async fn semaphore_has_so_many_permits(ground: &Ground) {
    let sessions = sessions(ground, 4).await;
    let two = NonZeroU32::new(2).unwrap();
    let semaphore = |at: usize| Semaphore::new(&sessions[at], "pool", two).unwrap();
    let first = bounded("first", semaphore(0).acquire()).await.unwrap();
    let _second = bounded("second", semaphore(1).acquire()).await.unwrap();
    let third = semaphore(2);
    let error = bounded("taken", third.try_acquire()).await.unwrap_err();
    assert!(matches!(error, AcquireError::Taken { .. }), "{error}");
    ground.has_candidates("pool", 2).await;
    let third = tokio::spawn(async move { third.acquire().await });
    ground.has_candidates("pool", 3).await;
    let other = Semaphore::new(&sessions[3], "pool", NonZeroU32::new(3).unwrap()).unwrap();
    let error = bounded("refused", other.acquire()).await.unwrap_err();
    assert!(matches!(error, AcquireError::ModeMismatch { .. }), "{error}");
    assert!(!third.is_finished());
    first.release().await.unwrap();
    let _kept = bounded("third", third).await.unwrap().unwrap();
    ground.has_candidates("pool", 2).await;
}

/// However their names overlap and whatever their order: no candidate waits for ever.
pub async fn multi_locks_do_not_deadlock(ground: &Ground) {
    let sessions = sessions(ground, 3).await;
    let wishes = [["a", "b"], ["b", "a"], ["b", "c"]];
    let mut workers = Vec::new();
    for (session, names) in sessions.into_iter().zip(wishes) {
        workers.push(tokio::spawn(async move {
            let lock = MultiLock::new(&session, names).unwrap();
            for _ in 0..10 {
                let held = lock.lock().await.unwrap();
                let tokens: Vec<_> = held.tokens().map(|(name, _)| name.as_str()).collect();
                assert_eq!(tokens, names);
                held.release().await.unwrap();
            }
        }));
    }
    for worker in workers {
        tokio::time::timeout(Duration::from_secs(60), worker).await.expect("no deadlock").unwrap();
    }
    for name in ["a", "b", "c"] {
        ground.has_candidates(name, 0).await;
    }
}

/// Nothing is held before all are.
pub async fn multi_lock_is_held_whole_or_not_at_all(ground: &Ground) {
    let (first, second) = (ground.session().await, ground.session().await);
    let one = Lock::new(&first, "b").unwrap().lock().await.unwrap();
    let both = MultiLock::new(&second, ["a", "b"]).unwrap();
    let error = bounded("taken", both.try_lock()).await.unwrap_err();
    assert!(matches!(error, AcquireError::Taken { .. }), "{error}");
    assert_eq!(ground.keys("a").await.len(), 0, "nothing is left of it");
    let error = both.lock_within(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { .. }), "{error}");
    ground.has_candidates("a", 0).await;
    one.release().await.unwrap();
    let held = bounded("both", both.lock()).await.unwrap();
    assert_eq!(held.tokens().count(), 2);
    held.release().await.unwrap();
    ground.has_candidates("a", 0).await;
}

async fn sessions(ground: &Ground, count: usize) -> Vec<Session> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(ground.session().await);
    }
    sessions
}
