//! Wrong histories are refused, right ones accepted, and a search that tries everything agrees.

use proptest::prelude::*;

use super::{check, search::step};
use crate::torture::{
    Chance,
    history::{Answer, Call, Operation, Register},
};

/// An operation that was answered.
fn told(from: u64, to: u64, call: Call, before: Option<Register>, swapped: bool) -> Operation {
    let answer = Some(Answer { at: to, before, swapped, revision: 0 });
    Operation { client: 0, asked: from, call, answer }
}

fn get(from: u64, to: u64, saw: Register) -> Operation {
    told(from, to, Call::Get, Some(saw), false)
}

fn put(from: u64, to: u64, value: u64) -> Operation {
    told(from, to, Call::Put(value), None, false)
}

fn swap(from: u64, to: u64, expected: Register, value: u64) -> Operation {
    told(from, to, Call::Swap { expected, value }, Some(expected), true)
}

fn open(from: u64, call: Call) -> Operation {
    Operation { client: 0, asked: from, call, answer: None }
}

#[test]
fn a_stale_read_is_refused() {
    let history = [put(0, 1, 1), put(2, 3, 2), get(4, 5, Some(1))];
    let violation = check(&history).unwrap_err();
    // The second write cannot be placed because a read saw the first one after it.
    assert_eq!((violation.placed, violation.register), (1, Some(1)));
    assert_eq!(violation.around, [history[1], history[2]]);
    // Two clients that read the same two values in different orders.
    let crossed =
        [put(0, 9, 1), put(0, 9, 2), get(1, 2, Some(1)), get(3, 4, Some(2)), get(5, 6, Some(1))];
    assert!(check(&crossed).is_err());
    assert!(check(&crossed[..4]).is_ok());
}

#[test]
fn a_lost_write_is_refused() {
    assert!(check(&[put(0, 1, 1), get(2, 3, None)]).is_err());
    assert!(check(&[put(0, 1, 1), put(2, 3, 2), get(4, 5, Some(1))]).is_err());
    let forgotten = told(4, 5, Call::Put(3), Some(Some(1)), false);
    assert!(check(&[put(0, 1, 1), put(2, 3, 2), forgotten]).is_err());
}

#[test]
fn two_winners_of_one_swap_are_refused() {
    let winners = [put(0, 1, 1), swap(2, 5, Some(1), 2), swap(3, 6, Some(1), 3)];
    assert!(check(&winners).is_err());
    let loser = told(3, 6, Call::Swap { expected: Some(1), value: 3 }, Some(Some(2)), false);
    assert!(check(&[winners[0], winners[1], loser]).is_ok());
    // And so is a loser that had no reason to lose.
    let wronged = told(2, 3, Call::Swap { expected: Some(1), value: 2 }, Some(Some(1)), false);
    assert!(check(&[put(0, 1, 1), wronged]).is_err());
}

#[test]
fn a_value_that_nobody_wrote_is_refused() {
    assert!(check(&[put(0, 1, 1), get(2, 3, Some(7))]).is_err());
    // A write that was refused is not in the history, so its value is such a one.
    assert!(check(&[get(0, 1, None), get(2, 3, Some(1))]).is_err());
    // Nor may it be seen before it was asked for.
    assert!(check(&[get(0, 1, Some(1)), put(2, 3, 1)]).is_err());
}

#[test]
fn a_deletion_that_is_undone_is_refused() {
    let delete = told(2, 3, Call::Delete, Some(Some(1)), false);
    assert!(check(&[put(0, 1, 1), delete, get(4, 5, Some(1))]).is_err());
    assert!(check(&[put(0, 1, 1), delete, get(4, 5, None)]).is_ok());
}

#[test]
fn what_overlaps_may_have_happened_in_any_order() {
    for last in [1, 2] {
        assert!(check(&[put(0, 5, 1), put(1, 4, 2), get(6, 7, Some(last))]).is_ok());
    }
    assert!(
        check(&[put(0, 9, 1), get(1, 2, None), get(3, 4, Some(1)), get(5, 6, Some(1))]).is_ok()
    );
}

#[test]
fn an_open_write_may_happen_late_or_never_but_only_once() {
    let late = open(0, Call::Put(1));
    assert!(check(&[late, get(2, 3, None)]).is_ok());
    assert!(check(&[late, get(2, 3, None), get(4, 5, Some(1))]).is_ok());
    assert!(check(&[late, put(2, 3, 2), get(4, 5, Some(2)), get(6, 7, Some(1))]).is_ok());
    let twice = [late, get(2, 3, Some(1)), put(4, 5, 2), get(6, 7, Some(2)), get(8, 9, Some(1))];
    assert!(check(&twice).is_err());
    assert!(check(&twice[..4]).is_ok());
}

#[test]
fn an_open_swap_happens_only_where_it_fits() {
    let late = open(0, Call::Swap { expected: Some(1), value: 2 });
    assert!(check(&[put(1, 2, 1), late, get(3, 4, Some(2))]).is_ok());
    assert!(check(&[put(1, 2, 3), late, get(3, 4, Some(2))]).is_err());
    // One that builds upon another one, both unknown.
    let upon = open(0, Call::Swap { expected: Some(2), value: 3 });
    assert!(check(&[put(1, 2, 1), late, upon, get(3, 4, Some(1)), get(5, 6, Some(3))]).is_ok());
}

#[test]
fn an_open_deletion_explains_an_empty_register() {
    assert!(check(&[put(0, 1, 1), open(2, Call::Delete), get(3, 4, None)]).is_ok());
    let back = [put(0, 1, 1), open(2, Call::Delete), get(3, 4, None), get(5, 6, Some(1))];
    assert!(check(&back).is_err());
}

/// Tries every order of everything.
fn naive(register: Register, left: &[Operation]) -> bool {
    if left.iter().all(|one| one.answer.is_none()) {
        return true;
    }
    let first_answer = left.iter().filter_map(|one| one.answer).map(|answer| answer.at).min();
    (0..left.len()).any(|at| {
        let one = left[at];
        let may_be_next = first_answer.is_none_or(|first| one.asked <= first);
        let rest: Vec<_> = left.iter().copied().enumerate().filter(|(n, _)| *n != at).collect();
        let rest: Vec<_> = rest.into_iter().map(|(_, one)| one).collect();
        may_be_next && step(register, &one).is_some_and(|after| naive(after, &rest))
    })
}

/// Operations on few values, so that many of them fit by chance. What is written is unique, as in every run.
fn small_histories() -> impl Strategy<Value = Vec<Operation>> {
    let register = || prop_oneof![1 => Just(None), 3 => (1..7u64).prop_map(Some)];
    let one = (0..4u8, 0..12u64, 1..8u64, register(), register(), 0..4u8, any::<bool>());
    proptest::collection::vec(one, 1..7).prop_map(|raw| {
        let operations = raw.into_iter().enumerate().map(|(at, one)| {
            let (kind, asked, lasts, expected, before, open, swapped) = one;
            let value = at as u64 + 1;
            let call = match kind {
                0 => Call::Get,
                1 => Call::Put(value),
                2 => Call::Delete,
                _ => Call::Swap { expected, value },
            };
            // As clients are told: a swap that was done saw what it expected; a put may say nothing.
            let before = match call {
                Call::Swap { expected, .. } if swapped => Some(expected),
                Call::Put(_) if swapped => None,
                _ => Some(before),
            };
            let answer = Answer { at: asked + lasts, before, swapped, revision: 0 };
            Operation { client: at, asked, call, answer: (open > 0).then_some(answer) }
        });
        operations.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_judges_as_a_search_that_tries_everything(history in small_histories()) {
        prop_assert_eq!(check(&history).is_ok(), naive(None, &history));
    }
}

/// A real register, used by so many clients at once; some answers are lost.
fn made_by_a_register(
    seed: u64,
    count: usize,
    clients: usize,
    open_percent: usize,
) -> Vec<Operation> {
    let mut chance = Chance::new(seed);
    let mut register: Register = None;
    let mut history = Vec::new();
    let mut free_at = vec![0u64; clients];
    for number in 0..count {
        let client = (0..clients).min_by_key(|at| free_at[*at]).expect("a client");
        // It happens in the order of this loop: at `now`, between question and answer.
        let now = 1_000 * (number as u64 + 1);
        let span = 1_000 * clients as u64 / 2;
        let asked = now - chance.below(span as usize).min(now as usize) as u64;
        let value = number as u64 + 1;
        let call = match chance.below(4) {
            0 => Call::Put(value),
            1 if register.is_some() && chance.percent(10) => Call::Delete,
            2 => {
                let expected = if chance.percent(60) { register } else { Some(value / 2) };
                Call::Swap { expected, value }
            }
            _ => Call::Get,
        };
        let swapped = matches!(call, Call::Swap { expected, .. } if expected == register);
        let at = now + chance.below(span as usize) as u64;
        let before = (!matches!(call, Call::Put(_)) || chance.percent(50)).then_some(register);
        let lost = chance.percent(open_percent) && call != Call::Get;
        // Half of what is lost has never happened.
        let happens = !lost || chance.percent(50);
        let answer = (!lost).then_some(Answer { at, before, swapped, revision: 0 });
        let operation = Operation { client, asked, call, answer };
        if happens {
            let blind = Operation { answer: None, ..operation };
            register = step(register, &blind).expect("what is open always fits");
        }
        free_at[client] = at;
        history.push(operation);
    }
    history
}

#[test]
fn it_judges_ten_thousand_operations_of_twenty_clients_on_one_register() {
    for seed in 0..4 {
        let mut history = made_by_a_register(seed, 10_000, 20, 1);
        assert!(history.iter().any(|one| one.answer.is_none()));
        check(&history).unwrap();
        // The same with one old value seen near the end.
        let stale = get(9_990_000_000, 9_990_000_001, Some(7));
        history.push(stale);
        assert!(check(&history).is_err());
    }
}
