//! The order of lanes, refusals, and the fate of what was given up.

use tenure_api::{DeleteRange, LeaseId, Op, Principal, Put, Span, Txn, op::PutLease};

use super::{waiting::WAITING_BYTES_MAX, *};
use crate::{codec::Codec, command::Batch};

const BY: Principal = Principal::System;

fn commands(sealed: &Sealed) -> Vec<Command> {
    let batch = Batch::from_bytes(&sealed.bytes).unwrap();
    assert!(batch.commands.iter().all(|one| one.by == BY));
    batch.commands.into_iter().map(|one| one.command).collect()
}

fn put() -> Command {
    let lease = PutLease::Set(None);
    Command::Put(Put { key: "k".into(), value: Some("v".into()), lease, prev_kv: false })
}

fn renewal() -> Command {
    Command::LeaseRenew(LeaseId(7))
}

fn overloaded() -> Writes {
    let mut writes = Writes::new(MemberId(1), 1, PipelineLimits::default());
    while writes.push(Moment::ZERO, Some(0), &BY, &put()).is_ok() {}
    writes
}

#[test]
fn writes_take_a_renewal_when_no_put_is_taken_and_send_it_first() {
    let mut writes = overloaded();
    assert_eq!(writes.push(Moment::ZERO, Some(1), &BY, &put()), Err(Failure::TooManyRequests));
    writes.push(Moment::ZERO, Some(2), &BY, &renewal()).unwrap();
    let batch = writes.next_batch(Moment::ZERO).expect("nothing is under way");
    let commands = commands(&batch);
    assert_eq!(commands[0], renewal());
    assert!(commands.len() > 1, "others fill it up");
}

/// Each lane by its own bytes and its own number: a full one takes no room from the others.
#[test]
fn writes_of_every_lane_have_a_limit_in_bytes_and_in_commands() {
    let put = |bytes: usize, lease: Option<i64>| {
        let (value, lease) = (Some(vec![0; bytes].into()), PutLease::Set(lease.map(LeaseId)));
        Command::Put(Put { key: "k".into(), value, lease, prev_kv: false })
    };
    let full = |writes: &mut Writes, command: &Command| {
        let mut taken = 0;
        while writes.push(Moment::ZERO, Some(0), &BY, command).is_ok() {
            taken += 1;
        }
        taken
    };
    let mut writes = Writes::new(MemberId(1), 1, PipelineLimits::default());
    const LARGE: usize = 1 << 20;
    let taken = full(&mut writes, &put(LARGE, None));
    let most = WAITING_BYTES_MAX / LARGE;
    assert!((most - 1..=most + 1).contains(&taken), "{taken} of a MiB each");
    let refused = writes.push(Moment::ZERO, Some(1), &BY, &put(0, None));
    assert_eq!(refused, Err(Failure::TooManyRequests), "however small it is");
    // Small ones on a lease, which are many before they are large.
    assert_eq!(full(&mut writes, &put(16, Some(7))), LEASED_WAITING_MAX);
    assert_eq!(full(&mut writes, &renewal()), SESSION_WAITING_MAX);
    let mut writes = Writes::new(MemberId(1), 1, PipelineLimits::default());
    const SMALL_MAX: usize = 4000;
    let taken = full(&mut writes, &put(SMALL_MAX, Some(7)));
    assert!(taken < LEASED_WAITING_MAX && taken * SMALL_MAX <= WAITING_BYTES_MAX, "{taken}");
    assert!(taken * 2 * SMALL_MAX > WAITING_BYTES_MAX, "{taken}");
    writes.push(Moment::ZERO, Some(1), &BY, &put(0, None)).unwrap();
}

#[test]
fn writes_under_way_at_the_limit_are_followed_by_renewals_only() {
    let mut writes = overloaded();
    let mut now = Moment::ZERO;
    let mut sent = 0;
    while let Some(batch) = writes.next_batch(now) {
        sent += commands(&batch).len();
        now = now + PipelineLimits::default().follow_after;
    }
    assert_eq!(sent, SENT_WEIGHT_MAX);
    assert_eq!(writes.next_send(), None);
    writes.push(now, Some(2), &BY, &renewal()).unwrap();
    let batch = writes.next_batch(now).expect("a renewal does not wait for puts");
    assert_eq!(commands(&batch), [renewal()]);
}

/// They are applied in one go, and a member that applies takes no messages.
#[test]
fn writes_of_much_weight_travel_in_batches_of_their_own() {
    let delete = DeleteRange { span: Span::prefix("a".into()), prev_kv: false };
    let success = vec![Op::DeleteRange(delete); 20];
    let txn = Command::Txn(Txn { success, ..Txn::default() });
    let mut writes = Writes::new(MemberId(1), 1, PipelineLimits::default());
    let mut now = Moment::ZERO;
    for _ in 0..100 {
        writes.push(now, Some(0), &BY, &txn).unwrap();
    }
    let mut sent = Vec::new();
    while let Some(batch) = writes.next_batch(now) {
        assert_eq!(batch.weight, batch.commands * txn.weight());
        sent.push(batch.commands);
        now = now + PipelineLimits::default().follow_after;
    }
    assert_eq!(
        sent,
        [2, 2],
        "two of them weigh as much as a batch may, two batches may be under way"
    );
}

/// The raft leader may have the whole of it in its log, or only what was left.
#[test]
fn writes_left_in_a_batch_get_their_own_outcomes() {
    let second = |n| Moment::ZERO + Duration::from_secs(n);
    for is_whole in [true, false] {
        let mut writes = Writes::new(MemberId(1), 1, PipelineLimits::default());
        writes.push(second(0), Some(7), &BY, &renewal()).unwrap();
        writes.push(second(2), Some(8), &BY, &put()).unwrap();
        writes.next_batch(second(2)).expect("nothing is under way");
        assert_eq!(writes.give_up_sent(second(1)), [Some(7)]);
        let left = writes.resend(second(3)).remove(0);
        assert_eq!(commands(&left), [put()]);
        let applied = if is_whole { 2 } else { 1 };
        let (waiters, _) = writes.applied(second(4), 1, 1, applied).unwrap();
        let expected = if is_whole { vec![None, Some(8)] } else { vec![Some(8)] };
        assert_eq!(waiters, expected);
    }
}

#[test]
fn writes_expect_to_wait_as_long_as_others_did() {
    let mut writes = overloaded();
    assert_eq!(writes.wait(Moment::ZERO), Duration::ZERO, "nothing is known yet");
    let second = Moment::ZERO + Duration::from_secs(1);
    writes.next_batch(second).expect("nothing is under way");
    let waiting = (ORDINARY_WAITING_MAX - BATCH_WEIGHT_MAX) as u32;
    let expected = Duration::from_secs(1) * waiting / BATCH_WEIGHT_MAX as u32;
    assert_eq!(writes.wait(second), expected, "a batch a second");
    let later = Moment::ZERO + Duration::from_secs(100);
    assert_eq!(writes.wait(later), Duration::from_secs(100), "it takes longer now");
}

#[test]
fn writes_of_leases_begin_with_renewals_however_many_wait() {
    let lease = PutLease::Set(Some(LeaseId(7)));
    let claim = Command::Put(Put { key: "k".into(), value: None, lease, prev_kv: false });
    let mut writes = Writes::new(MemberId(1), 1, PipelineLimits::default());
    let mut now = Moment::ZERO;
    while writes.push(now, Some(0), &BY, &claim).is_ok() {}
    writes.push(now, Some(1), &BY, &renewal()).unwrap();
    writes.push(now, Some(2), &BY, &put()).unwrap();
    let first = writes.next_batch(now).expect("nothing is under way");
    let first = commands(&first);
    assert_eq!((&first[0], &first[1]), (&renewal(), &claim));
    while let Some(batch) = writes.next_batch(now) {
        assert!(batch.commands <= BATCH_WEIGHT_MAX);
        now = now + PipelineLimits::default().follow_after;
    }
    assert!(writes.sent_commands() < SENT_WEIGHT_MAX + BATCH_WEIGHT_MAX);
    writes.push(now, Some(3), &BY, &renewal()).unwrap();
    let next = writes.next_batch(now).expect("a renewal does not wait for them");
    assert_eq!(commands(&next), [renewal()]);
}

#[test]
fn writes_do_not_hold_up_puts_for_expired_requests() {
    let leaves = Command::LeaseRevoke(LeaseId(7));
    let mut writes = Writes::new(MemberId(1), 1, PipelineLimits::default());
    let mut now = Moment::ZERO;
    let take = |writes: &mut Writes, now, command: &Command| {
        writes.push(now, Some(0), &BY, command).unwrap();
        writes.next_batch(now).map(|batch| batch.commands)
    };
    assert_eq!(take(&mut writes, now, &put()), Some(1));
    assert_eq!(take(&mut writes, now, &put()), None, "one is under way");
    for step in 1..SENT_MAX {
        now = now + PipelineLimits::default().follow_after / 4;
        let rides_along = step == 4;
        let commands = if rides_along { 2 } else { 1 };
        assert_eq!(take(&mut writes, now, &leaves), Some(commands), "step {step}");
    }
    assert_eq!(take(&mut writes, now, &leaves), None, "so many may be under way");
}

#[test]
fn writes_keep_a_renewal_when_a_put_beside_it_times_out() {
    let mut writes = Writes::new(MemberId(1), 1, PipelineLimits::default());
    let late = Moment::ZERO + Duration::from_secs(5);
    writes.push(Moment::ZERO, Some(1), &BY, &put()).unwrap();
    writes.push(late, Some(2), &BY, &renewal()).unwrap();
    let batch = writes.next_batch(late).expect("nothing is under way");
    assert_eq!(commands(&batch), [renewal(), put()]);

    assert_eq!(writes.give_up_sent(Moment::ZERO), [Some(1)]);
    let again = writes.resend(late).pop().expect("its number must be used up");
    assert_eq!(commands(&again), [renewal()]);
    assert_eq!(again.commands, 1);
    assert_eq!(writes.give_up_sent(Moment::ZERO), []);
    assert_eq!(writes.give_up_sent(late), [Some(2)]);
    let again = writes.resend(late).pop().expect("its number must be used up");
    assert_eq!(commands(&again), []);
}
