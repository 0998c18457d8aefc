//! Holders come, pause, are replaced, and come back.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use super::super::{Gate, GateLimits, Obstacle, Pass, Refusal};
use super::token;

fn gate() -> Gate {
    Gate::in_memory(GateLimits::default())
}

/// Polls once: whether it is done, without waiting.
fn done_by_now<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn gate_refuses_a_paused_holder_after_the_next_one_has_raised_it() {
    let gate = gate();
    drop(gate.enter(token(33)).await.unwrap());
    gate.raise(token(34)).await.unwrap();
    let refused = gate.enter(token(33)).await.unwrap_err();
    assert_eq!(refused.to_string(), "fencing token 33 is stale: token 34 is in force");
    drop(gate.enter(token(34)).await.unwrap());
}

#[tokio::test]
async fn gate_raise_waits_for_a_write_under_way_and_admits_no_older_one() {
    let gate = gate();
    let write = gate.enter(token(33)).await.unwrap();
    let mut raising = pin!(gate.raise(token(34)));
    assert!(done_by_now(raising.as_mut()).is_none());
    assert!(write.is_overtaken());
    assert!(matches!(gate.enter(token(33)).await, Err(Refusal::Stale { .. })));
    drop(write);
    raising.await.unwrap();
}

#[tokio::test]
async fn gate_admits_several_writes_of_one_holder_at_once() {
    let gate = gate();
    let first = gate.enter(token(5)).await.unwrap();
    let second = gate.enter(token(5)).await.unwrap();
    let mut next = pin!(gate.enter(token(6)));
    assert!(done_by_now(next.as_mut()).is_none());
    drop(first);
    assert!(done_by_now(next.as_mut()).is_none());
    drop(second);
    assert_eq!(next.await.unwrap().token(), token(6));
}

#[tokio::test(start_paused = true)]
async fn gate_raise_has_an_end_and_older_holders_stay_out() {
    let gate = gate();
    let stuck = gate.enter(token(1)).await.unwrap();
    let refused = gate.raise(token(2)).await.unwrap_err();
    let Refusal::NotYet { token: who, obstacle: Obstacle::UnderWay { count: 1, waited } } = refused
    else {
        panic!("{refused}")
    };
    assert_eq!((who, waited), (token(2), GateLimits::default().patience));
    assert!(matches!(gate.enter(token(1)).await, Err(Refusal::Stale { .. })));
    drop(stuck);
    gate.raise(token(2)).await.unwrap();
}

#[tokio::test]
async fn gate_tells_an_overtaken_waiter_at_once() {
    let gate = gate();
    let inside = gate.enter(token(1)).await.unwrap();
    let mut second = pin!(gate.enter(token(2)));
    assert!(done_by_now(second.as_mut()).is_none());
    let mut third = pin!(gate.enter(token(3)));
    assert!(done_by_now(third.as_mut()).is_none());
    assert!(matches!(second.await, Err(Refusal::Stale { .. })));
    drop(inside);
    drop(third.await.unwrap());
}

#[tokio::test]
async fn gate_stays_raised_when_the_newer_holder_gives_up_waiting() {
    let gate = gate();
    let inside = gate.enter(token(1)).await.unwrap();
    {
        let mut second = pin!(gate.enter(token(2)));
        assert!(done_by_now(second.as_mut()).is_none());
    }
    drop(inside);
    assert!(matches!(gate.enter(token(1)).await, Err(Refusal::Stale { .. })));
    drop(gate.enter(token(2)).await.unwrap());
}

#[tokio::test]
async fn gate_admits_readers_together_until_a_writer_comes() {
    let gate = gate();
    let read = |n| gate.enter(Pass::to("t", token(n)).shared());
    let (five, seven) = (read(5).await.unwrap(), read(7).await.unwrap());
    // A reader from before another one is welcome: they hold together.
    let six = read(6).await.unwrap();
    let mut writer = pin!(gate.enter(Pass::to("t", token(8))));
    assert!(done_by_now(writer.as_mut()).is_none());
    for reader in [five, six, seven] {
        assert!(reader.is_overtaken());
        drop(reader);
    }
    let writer = writer.await.unwrap();
    assert!(matches!(read(7).await, Err(Refusal::Stale { .. })));
    // The next reader waits for the writer, and makes it stale.
    let mut nine = pin!(read(9));
    assert!(done_by_now(nine.as_mut()).is_none());
    drop(writer);
    drop(nine.await.unwrap());
    assert!(matches!(gate.enter(Pass::to("t", token(8))).await, Err(Refusal::Stale { .. })));
    drop(read(8).await.unwrap());
}

#[tokio::test]
async fn gate_keeps_the_slots_of_a_semaphore_apart() {
    let gate = gate();
    let permit = |n, slot| gate.enter(Pass::to("s", token(n)).permit(slot));
    let first = permit(5, 0).await.unwrap();
    let second = permit(9, 1).await.unwrap();
    drop((first, second));
    assert!(matches!(permit(8, 1).await, Err(Refusal::Stale { .. })));
    drop(permit(8, 0).await.unwrap());
}

#[tokio::test]
async fn passage_is_overtaken_when_a_newer_holder_comes() {
    let gate = gate();
    let inside = gate.enter(token(1)).await.unwrap();
    let mut overtaken = pin!(inside.overtaken());
    assert!(done_by_now(overtaken.as_mut()).is_none());
    let _ = gate.admits(Pass::to("elsewhere", token(2)));
    assert!(done_by_now(overtaken.as_mut()).is_none());
    assert!(!gate.admits(token(2)).is_admitted(), "an older one is inside");
    overtaken.await;
}

#[test]
fn gate_answers_at_once_without_waiting() {
    let gate = Gate::in_memory(GateLimits { patience: Duration::MAX, ..GateLimits::default() });
    let inside = gate.enter_blocking(token(1)).unwrap();
    assert!(!gate.admits(token(2)).is_admitted());
    drop(inside);
    assert!(gate.admits(token(2)).is_admitted());
    assert!(!gate.admits(token(1)).is_admitted());
}

/// Threads with growing tokens write one after the other, and check that nothing older lands after
/// something newer. The value outside the gate is what a store would hold.
fn hammer(gate: &Gate) {
    const HOLDERS: i64 = 8;
    const WRITES: usize = 50;
    let store = Arc::new(AtomicI64::new(0));
    let accepted: usize = thread::scope(|scope| {
        let holder = |revision| {
            let (gate, store) = (gate.clone(), Arc::clone(&store));
            move || {
                let mut accepted = 0;
                for _ in 0..WRITES {
                    match gate.enter_blocking(token(revision)) {
                        Ok(passage) => {
                            let before = store.load(Ordering::Relaxed);
                            assert!(before <= revision, "{before} was before {revision}");
                            thread::yield_now();
                            let replaced = store.swap(revision, Ordering::Relaxed);
                            assert_eq!(replaced, before, "somebody else wrote meanwhile");
                            accepted += 1;
                            drop(passage);
                        }
                        Err(Refusal::Stale { in_force, .. }) => {
                            assert!(in_force.get() > revision);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
                accepted
            }
        };
        let threads: Vec<_> = (1..=HOLDERS).map(|n| scope.spawn(holder(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(store.load(Ordering::Relaxed), HOLDERS);
    assert!(accepted >= WRITES, "the newest holder is never refused");
}

#[test]
fn gate_lets_no_older_write_land_after_a_newer_one_under_threads() {
    hammer(&gate());
}

#[test]
fn gate_lets_no_older_write_land_after_a_newer_one_with_a_disk() {
    let home = tempfile::TempDir::new().unwrap();
    let path = home.path().join("gate");
    hammer(&Gate::create(&path, GateLimits::default()).unwrap());
    let gate = Gate::open(&path, GateLimits::default()).unwrap();
    assert_eq!(gate.in_force(""), Some(token(8)));
}

#[tokio::test(flavor = "multi_thread")]
async fn gate_remembers_all_tasks_that_raise_at_once() {
    let home = tempfile::TempDir::new().unwrap();
    let gate = Gate::create(home.path().join("gate"), GateLimits::default()).unwrap();
    let tasks: Vec<_> = (1..=64)
        .map(|n| {
            let gate = gate.clone();
            tokio::spawn(async move { gate.raise(Pass::to(&format!("shard/{n}"), token(n))).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    drop(gate);
    let gate = Gate::open(home.path().join("gate"), GateLimits::default()).unwrap();
    for n in 1..=64 {
        assert_eq!(gate.in_force(&format!("shard/{n}")), Some(token(n)));
    }
}
