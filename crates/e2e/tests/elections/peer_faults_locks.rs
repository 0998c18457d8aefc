//! What goes wrong with others' locks, on a real etcd 3.5.1 and on us.
//!
//! What is to be seen on each is in `tenure_e2e::faults`, by the name of the test.

use std::time::{Duration, Instant};

use tenure_e2e::{
    Caller, Program, Side, Waiting, eventually, faults::on_both, lives, lockpb::LockResponse, pb,
    send, tools,
};
use tonic::codegen::Bytes;

/// Longer than the news that a session ended takes to arrive, many times over.
const SILENCE: Duration = Duration::from_secs(1);
const TTL: i64 = 600;
/// What a lease has that the server grants by itself.
const GRANTED_TTL: i64 = 60;
/// How often something is tried that a server may happen to survive.
const TRIALS: usize = 20;
/// Locks whose time is taken, free and contended.
const TIMED: usize = 10;

/// A holder, and a waiter behind it with a lease of its own.
async fn holder_and_waiter(caller: &Caller) -> (LockResponse, Waiting<LockResponse>, i64) {
    let holder = caller.locked("door", caller.lease(TTL).await).await;
    let lease = caller.lease(TTL).await;
    let waiter = caller.lock("door", lease);
    caller.has_candidates("door", 2).await;
    (holder, waiter, lease)
}

fn outcome(answer: Result<LockResponse, tonic::Status>) -> String {
    match answer {
        Ok(_) => "locked".to_owned(),
        Err(status) => format!("refused: {}", status.message()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_whose_session_ended_does_not_get_the_lock() {
    on_both("waiter_whose_session_ended_does_not_get_the_lock", async |side: &mut Side| {
        let caller = side.caller();
        let (holder, waiter, lease) = holder_and_waiter(&caller).await;
        caller.revoke(lease).await;
        caller.unlock(holder.key, 0).await.unwrap();
        outcome(waiter.answer().await)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_is_told_at_once_that_its_session_ended() {
    on_both("waiter_is_told_at_once_that_its_session_ended", async |side: &mut Side| {
        let caller = side.caller();
        let (_holder, mut waiter, lease) = holder_and_waiter(&caller).await;
        caller.revoke(lease).await;
        waiter.within(SILENCE).await.map_or_else(|| "still waiting".to_owned(), outcome)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_comes_with_its_token() {
    on_both("lock_comes_with_its_token", async |side: &mut Side| {
        let caller = side.caller();
        let (holder, waiter, _) = holder_and_waiter(&caller).await;
        caller.unlock(holder.key, 0).await.unwrap();
        let locked = waiter.answer().await.unwrap();
        let created = caller.candidates("door").await[0].create_revision;
        if locked.fencing_token == created {
            return "the token is the key's create revision".to_owned();
        }
        assert_eq!(locked.fencing_token, 0);
        match locked.header.unwrap().revision {
            revision if revision == created => "no token; the header has it".to_owned(),
            _ => "no token; the header has another revision than the key's".to_owned(),
        }
    })
    .await;
}

/// A write that compares the holder's create revision in the same transaction.
async fn write_as_holder(caller: &Caller, key: &Bytes, token: i64) -> bool {
    use pb::{Compare, PutRequest, RequestOp, TxnRequest, compare, request_op::Request};
    let holds = Compare {
        result: compare::CompareResult::Equal as i32,
        target: compare::CompareTarget::Create as i32,
        key: key.clone(),
        target_union: Some(compare::TargetUnion::CreateRevision(token)),
        ..Default::default()
    };
    let put = PutRequest { key: "guarded".into(), value: "x".into(), ..Default::default() };
    let put = RequestOp { request: Some(Request::RequestPut(put)) };
    let txn = TxnRequest { compare: vec![holds], success: vec![put], failure: vec![] };
    caller.client().kv().txn(txn).await.unwrap().succeeded
}

#[tokio::test(flavor = "multi_thread")]
async fn holder_that_lost_the_lock_cannot_write_with_its_token() {
    on_both("holder_that_lost_the_lock_cannot_write_with_its_token", async |side: &mut Side| {
        let caller = side.caller();
        let (holder, waiter, _) = holder_and_waiter(&caller).await;
        let queue = caller.candidates("door").await;
        assert!(write_as_holder(&caller, &holder.key, queue[0].create_revision).await);
        caller.revoke(queue[0].lease).await;
        let next = waiter.answer().await.unwrap();
        assert!(write_as_holder(&caller, &next.key, queue[1].create_revision).await);
        match write_as_holder(&caller, &holder.key, queue[0].create_revision).await {
            true => "written by one that holds no more".to_owned(),
            false => "refused: its key has gone".to_owned(),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unlock_that_is_late_does_not_free_a_newer_hold() {
    on_both("unlock_that_is_late_does_not_free_a_newer_hold", async |side: &mut Side| {
        let caller = side.caller();
        let lease = caller.lease(TTL).await;
        let first = caller.locked("door", lease).await;
        caller.unlock(first.key.clone(), first.fencing_token).await.unwrap();
        let second = caller.locked("door", lease).await;
        assert_eq!(second.key, first.key, "the key is named after the lease");
        // The first unlock once more, by a client that never got its answer.
        caller.unlock(first.key.clone(), first.fencing_token).await.unwrap();
        if caller.candidates("door").await.is_empty() {
            return "the newer hold is gone".to_owned();
        }
        let by_token = "the newer hold stands if the unlock carries the fencing token (the library guards by it)";
        // And as a stock client sends it, which knows of no token.
        caller.unlock(first.key, 0).await.unwrap();
        match caller.candidates("door").await.len() {
            0 => format!("{by_token}; a stock client's, without one, frees it as in etcd"),
            _ => format!("{by_token}; and if it does not"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unlock_twice_is_unlock_once() {
    on_both("unlock_twice_is_unlock_once", async |side: &mut Side| {
        let caller = side.caller();
        let held = caller.locked("door", caller.lease(TTL).await).await;
        for _ in 0..2 {
            caller.unlock(held.key.clone(), held.fencing_token).await.unwrap();
        }
        caller.locked("door", caller.lease(TTL).await).await;
        "both were answered, the lock is free".to_owned()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_again_is_the_same_hold() {
    on_both("lock_again_is_the_same_hold", async |side: &mut Side| {
        let caller = side.caller();
        let lease = caller.lease(TTL).await;
        let first = caller.locked("door", lease).await;
        let again = caller.locked("door", lease).await;
        assert_eq!((first.key, first.fencing_token), (again.key, again.fencing_token));
        let queue = caller.candidates("door").await;
        if queue.len() == 1 { "held once".to_owned() } else { format!("{queue:?}") }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_lock_that_hangs_up_leaves_the_first_its_place() {
    let test = "repeated_lock_that_hangs_up_leaves_the_first_its_place";
    on_both(test, async |side: &mut Side| {
        let caller = side.caller();
        let (holder, waiter, lease) = holder_and_waiter(&caller).await;
        // Nothing can be seen of a call that waits where another waits. One that is hung up too early
        // does no harm, on either side; so some are.
        for _ in 0..TRIALS {
            let mut again = caller.lock("door", lease);
            assert!(again.within(SILENCE / TRIALS as u32).await.is_none());
            again.hang_up();
        }
        // Whether they take the key away can be seen only if they do: give them the time.
        let _ = tokio::time::timeout(SILENCE, caller.has_candidates("door", 1)).await;
        caller.unlock(holder.key, 0).await.unwrap();
        outcome(waiter.answer().await)
    })
    .await;
}

/// etcd looks at the history for up to 100 ms after a waiter has begun to wait; what is compacted meanwhile
/// breaks it.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_does_not_break_a_waiter() {
    on_both("compaction_does_not_break_a_waiter", async |side: &mut Side| {
        let caller = side.caller();
        for trial in 0..TRIALS {
            let name = format!("door-{trial}");
            let held = caller.locked(&name, caller.lease(TTL).await).await;
            let waiter = caller.lock(&name, caller.lease(TTL).await);
            caller.has_candidates(&name, 2).await;
            caller.compact().await;
            caller.compact().await;
            caller.unlock(held.key, 0).await.unwrap();
            if let Err(status) = waiter.answer().await {
                return format!("failed: {}", status.message());
            }
        }
        "all were locked in their turn".to_owned()
    })
    .await;
}

/// The slower ones tell of the machine: etcd's free locks are ten times as slow on one that is busy.
fn usual(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 4]
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_that_is_contended_costs_no_more_than_a_few_free_ones() {
    on_both(
        "lock_that_is_contended_costs_no_more_than_a_few_free_ones",
        async |side: &mut Side| {
            let caller = side.caller();
            let lease = caller.lease(TTL).await;
            let mut free = Vec::new();
            for _ in 0..TIMED {
                let from = Instant::now();
                let held = caller.locked("door", lease).await;
                caller.unlock(held.key, 0).await.unwrap();
                free.push(from.elapsed());
            }
            let mut contended = Vec::new();
            for _ in 0..TIMED {
                let (holder, waiter, lease) = holder_and_waiter(&caller).await;
                let from = Instant::now();
                caller.unlock(holder.key, 0).await.unwrap();
                let held = waiter.answer().await.unwrap();
                contended.push(from.elapsed());
                caller.unlock(held.key, 0).await.unwrap();
                caller.revoke(lease).await;
            }
            match usual(contended) > 5 * usual(free) {
                true => "more than five free ones".to_owned(),
                false => "no more than five free ones".to_owned(),
            }
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_get_the_lock_in_the_order_they_came() {
    on_both("waiters_get_the_lock_in_the_order_they_came", async |side: &mut Side| {
        let caller = side.caller();
        let mut waiting = Vec::new();
        for place in 0..5 {
            waiting.push(caller.lock("door", caller.lease(TTL).await));
            caller.has_candidates("door", place + 1).await;
        }
        let keys: Vec<_> = caller.candidates("door").await.into_iter().map(|kv| kv.key).collect();
        for (waiter, key) in waiting.into_iter().zip(keys) {
            let held = waiter.answer().await.unwrap();
            if held.key != key {
                return format!("{:?} before {key:?}", held.key);
            }
            assert_eq!(caller.candidates("door").await[0].key, key, "it is the first candidate");
            caller.unlock(held.key, 0).await.unwrap();
        }
        "in their order, tokens growing".to_owned()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_can_free_a_lock() {
    on_both("operator_can_free_a_lock", async |side: &mut Side| {
        let caller = side.caller();
        let (holder, waiter, _) = holder_and_waiter(&caller).await;
        let queue = caller.candidates("door").await;
        side.ctl().run(&["del", std::str::from_utf8(&holder.key).unwrap()]).ok();
        let next = waiter.answer().await.unwrap();
        assert_eq!(next.key, queue[1].key);
        assert!(queue[1].create_revision > queue[0].create_revision);
        "the next got it, with a larger token".to_owned()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_that_is_free_leaves_nothing_behind() {
    on_both("lock_that_is_free_leaves_nothing_behind", async |side: &mut Side| {
        let caller = side.caller();
        let lease = caller.lease(TTL).await;
        for n in 0..50 {
            let held = caller.locked(&format!("door-{n}"), lease).await;
            caller.unlock(held.key, 0).await.unwrap();
        }
        let stored = side.ctl().run(&["get", "", "--prefix", "--count-only", "-w", "fields"]).ok();
        match stored.contains("\"Count\" : 0\n") {
            true => "nothing is stored".to_owned(),
            false => stored,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_holds_many_locks() {
    on_both("session_holds_many_locks", async |side: &mut Side| {
        let caller = side.caller();
        let lease = caller.lease(TTL).await;
        for name in ["front-door", "back-door"] {
            caller.locked(name, lease).await;
        }
        caller.revoke(lease).await;
        for name in ["front-door", "back-door"] {
            caller.has_candidates(name, 0).await;
        }
        "both are held by one lease".to_owned()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_without_a_lease_says_how_long_it_holds() {
    on_both("lock_without_a_lease_says_how_long_it_holds", async |side: &mut Side| {
        let caller = side.caller();
        let holder = caller.locked("door", caller.lease(TTL).await).await;
        let waiter = caller.lock("door", 0);
        let lease = caller.has_candidates("door", 2).await[1].lease;
        // By now it has less than its whole time.
        eventually("the lease is older", async || {
            let left = caller.seconds_left(lease).await;
            if left < GRANTED_TTL - 1 { Ok(()) } else { Err(left.to_string()) }
        })
        .await;
        caller.unlock(holder.key, 0).await.unwrap();
        let locked = waiter.answer().await.unwrap();
        let left = caller.seconds_left(lease).await;
        match (locked.granted_lease, locked.granted_ttl) {
            (0, 0) if left < GRANTED_TTL - 1 => {
                "no word of a lease, and less than 60 s left".to_owned()
            }
            (granted, GRANTED_TTL) if granted == lease && left >= GRANTED_TTL - 1 => {
                "the lease and its 60 s, counted from the grant".to_owned()
            }
            other => format!("{other:?}, {left} s left"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_without_a_lease_keeps_its_place() {
    on_both("waiter_without_a_lease_keeps_its_place", async |side: &mut Side| {
        let caller = side.caller();
        caller.locked("door", caller.lease(TTL).await).await;
        let _waiter = caller.lock("door", 0);
        let lease = caller.has_candidates("door", 2).await[1].lease;
        let mut lowest = GRANTED_TTL;
        eventually("it is renewed, or grows old", async || {
            let left = caller.seconds_left(lease).await;
            if left > lowest {
                return Ok("its lease is renewed while it waits".to_owned());
            }
            lowest = left;
            match left < GRANTED_TTL * 3 / 4 {
                true => Ok("its lease runs out while it waits".to_owned()),
                false => Err(left.to_string()),
            }
        })
        .await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unlock_ends_the_lease_that_lock_made() {
    on_both("unlock_ends_the_lease_that_lock_made", async |side: &mut Side| {
        let caller = side.caller();
        let held = caller.locked("door", 0).await;
        caller.unlock(held.key, held.fencing_token).await.unwrap();
        match caller.client().lease().leases().await.unwrap().leases.len() {
            0 => "no lease is left".to_owned(),
            _ => "the lease is left behind".to_owned(),
        }
    })
    .await;
}

/// The lease of a lock is revoked while a command runs under it: by `etcdctl lock` on etcd, by `tenure lock` on us.
#[tokio::test(flavor = "multi_thread")]
async fn command_under_a_lock_has_ended_when_the_next_begins() {
    on_both("command_under_a_lock_has_ended_when_the_next_begins", async |side: &mut Side| {
        let program = match side {
            Side::Etcd(_) => tools::installed("etcdctl"),
            Side::Tenure(_) => tools::tenure(),
        };
        let ctl = side.ctl().with_program(program);
        let runs = |name: &str, command: &str| {
            Program::start(name, &mut ctl.command(&["lock", "door", "--", "sh", "-c", command]))
        };
        let mut first = runs("first", "echo runs as $$; exec sleep 600");
        let pid = first.says("runs as ").await;
        let pid: u32 = pid.rsplit(' ').next().unwrap().parse().unwrap();
        let mut second = runs("second", "echo begins");
        let caller = side.caller();
        let holder = caller.has_candidates("door", 2).await[0].lease;
        caller.revoke(holder).await;
        second.says("begins").await;
        let still_runs = lives(pid);
        if still_runs {
            // It is not the supervisor's, which has forgotten it.
            send(pid, rustix::process::Signal::KILL);
        }
        second.ends().await;
        // Ours becomes a candidate again.
        first.ask_to_stop();
        first.ends().await;
        match still_runs {
            true => "the first command still ran".to_owned(),
            false => "the first command had ended".to_owned(),
        }
    })
    .await;
}
