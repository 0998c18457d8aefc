//! Serial histories pass, and every anomaly is found.

use proptest::prelude::*;

use super::*;
use crate::torture::Chance;

type Lists = BTreeMap<String, Vec<Element>>;

fn lists(all: &[(&str, &[Element])]) -> Lists {
    all.iter().map(|(key, list)| ((*key).to_owned(), list.to_vec())).collect()
}

fn txn(
    (asked, answered): (u64, u64),
    reads: &[(&str, &[Element])],
    appends: &[(&str, &[Element])],
) -> Transaction {
    let (reads, appends) = (lists(reads), lists(appends));
    Transaction { asked, answered, fate: Fate::Committed, reads, appends }
}

/// All at the same time, so that only what they saw counts.
const ALWAYS: (u64, u64) = (0, 1000);

fn cycle(history: &[Transaction], last: &[(&str, &[Element])]) -> Option<Kind> {
    let (_, anomalies) = check(history, &lists(last));
    anomalies.iter().find_map(|one| match one {
        Anomaly::Cycle(kind, _) => Some(*kind),
        _ => None,
    })
}

fn found(history: &[Transaction], last: &[(&str, &[Element])], what: fn(&Anomaly) -> bool) -> bool {
    check(history, &lists(last)).1.iter().any(what)
}

#[test]
fn cycles_finds_g0_writes_in_opposite_orders() {
    let history = [
        txn(ALWAYS, &[], &[("x", &[1]), ("y", &[1_0])]),
        txn(ALWAYS, &[], &[("x", &[2]), ("y", &[2_0])]),
    ];
    assert_eq!(cycle(&history, &[("x", &[1, 2]), ("y", &[10, 20])]), None);
    assert_eq!(cycle(&history, &[("x", &[1, 2]), ("y", &[20, 10])]), Some(Kind::Write));
}

#[test]
fn cycles_finds_g1a_reads_of_what_was_not_done() {
    let mut aborted = txn(ALWAYS, &[], &[("x", &[1])]);
    aborted.fate = Fate::Aborted;
    let history = [aborted.clone(), txn(ALWAYS, &[("x", &[1])], &[])];
    assert!(found(&history, &[("x", &[])], |one| matches!(one, Anomaly::AbortedRead(..))));
    aborted.fate = Fate::Unknown;
    let history = [aborted, txn(ALWAYS, &[("x", &[1])], &[])];
    assert_eq!(check(&history, &lists(&[("x", &[1])])).1, []);
}

#[test]
fn cycles_finds_g1b_reads_halfway() {
    let writer = txn(ALWAYS, &[], &[("x", &[1, 2])]);
    let halfway = [writer.clone(), txn(ALWAYS, &[("x", &[1])], &[])];
    assert!(found(&halfway, &[("x", &[1, 2])], |one| matches!(one, Anomaly::IntermediateRead(..))));
    let whole = [writer, txn(ALWAYS, &[("x", &[1, 2])], &[])];
    assert_eq!(check(&whole, &lists(&[("x", &[1, 2])])).1, []);
}

#[test]
fn cycles_finds_g1c_reads_of_each_other() {
    let history =
        [txn(ALWAYS, &[("y", &[2])], &[("x", &[1])]), txn(ALWAYS, &[("x", &[1])], &[("y", &[2])])];
    assert_eq!(cycle(&history, &[("x", &[1]), ("y", &[2])]), Some(Kind::Information));
}

#[test]
fn cycles_finds_g_single_a_read_between_two_halves() {
    let history = [
        txn(ALWAYS, &[], &[("x", &[1]), ("y", &[2])]),
        txn(ALWAYS, &[("x", &[1]), ("y", &[])], &[]),
    ];
    assert_eq!(cycle(&history, &[("x", &[1]), ("y", &[2])]), Some(Kind::Single));
}

#[test]
fn cycles_finds_g2_write_skew() {
    let history = [
        txn(ALWAYS, &[("x", &[]), ("y", &[])], &[("x", &[1])]),
        txn(ALWAYS, &[("x", &[]), ("y", &[])], &[("y", &[2])]),
    ];
    assert_eq!(cycle(&history, &[("x", &[1]), ("y", &[2])]), Some(Kind::AntiDependency));
}

#[test]
fn cycles_finds_lost_updates_and_lost_appends() {
    let history =
        [txn(ALWAYS, &[("x", &[])], &[("x", &[1])]), txn(ALWAYS, &[("x", &[])], &[("x", &[2])])];
    assert!(found(&history, &[("x", &[1, 2])], |one| matches!(one, Anomaly::LostUpdate(..))));
    let alone = &history[..1];
    assert!(found(alone, &[("x", &[])], |one| matches!(one, Anomaly::LostAppend(..))));
    assert_eq!(check(alone, &lists(&[("x", &[1])])).1, []);
}

#[test]
fn cycles_finds_answers_out_of_time() {
    let history = [txn((0, 10), &[], &[("x", &[1])]), txn((20, 30), &[("x", &[])], &[])];
    assert_eq!(cycle(&history, &[("x", &[1])]), Some(Kind::RealTime));
    let overlapping = [history[0].clone(), txn((5, 30), &[("x", &[])], &[])];
    assert_eq!(cycle(&overlapping, &[("x", &[1])]), None);
    // One of unknown outcome may take effect at any time.
    let mut open = history.clone();
    open[0].fate = Fate::Unknown;
    assert_eq!(cycle(&open, &[("x", &[1])]), None);
}

#[test]
fn cycles_finds_lists_that_cannot_be() {
    let writer = txn(ALWAYS, &[], &[("x", &[1])]);
    let second = txn(ALWAYS, &[], &[("x", &[2])]);
    let read = |list: &[Element]| txn(ALWAYS, &[("x", list)], &[]);
    let twice = [writer.clone(), read(&[1, 1])];
    assert!(found(&twice, &[("x", &[1])], |one| matches!(one, Anomaly::Duplicate(..))));
    let stranger = [writer.clone(), read(&[1, 9])];
    assert!(found(&stranger, &[("x", &[1, 9])], |one| matches!(one, Anomaly::OutOfNowhere(..))));
    let forked = [writer, second, read(&[1, 2]), read(&[2])];
    assert!(found(&forked, &[("x", &[1, 2])], |one| matches!(one, Anomaly::Incompatible(..))));
}

/// A history as a serial store gives it, by chance: some are not answered, some are not done, many overlap.
fn serial(seed: u64, transactions: usize) -> (Vec<Transaction>, Lists) {
    let mut chance = Chance::new(seed);
    let keys = ["a", "b", "c"];
    let mut store = lists(&keys.map(|key| (key, &[][..])));
    let mut history = Vec::new();
    let mut next = 1;
    for number in 0..transactions as u64 {
        // It takes effect at `10 * number`, somewhere between its beginning and its answer.
        let now = 100 + 10 * number;
        let (asked, answered) = (now - chance.below(60) as u64, now + 1 + chance.below(60) as u64);
        let fate = match chance.below(10) {
            0 => Fate::Aborted,
            1 => Fate::Unknown,
            _ => Fate::Committed,
        };
        let done = fate == Fate::Committed || fate == Fate::Unknown && chance.percent(50);
        let (mut reads, mut appends) = (Lists::new(), Lists::new());
        for key in keys {
            if chance.percent(60) {
                reads.insert(key.to_owned(), store[key].clone());
            }
            if chance.percent(30) {
                let elements: Vec<Element> =
                    (0..=chance.below(2) as u64).map(|at| next + at).collect();
                next += elements.len() as u64;
                appends.insert(key.to_owned(), elements);
            }
        }
        if done {
            for (key, elements) in &appends {
                store.get_mut(key).unwrap().extend(elements);
            }
        }
        history.push(Transaction { asked, answered, fate, reads, appends });
    }
    (history, store)
}

proptest! {
    #[test]
    fn cycles_accepts_every_serial_history(seed: u64, transactions in 1..60usize) {
        let (history, last) = serial(seed, transactions);
        prop_assert_eq!(check(&history, &last).1, []);
    }

    /// A read that was right is made older or newer than it was: if another answer lies between, that is found.
    #[test]
    fn cycles_finds_a_stale_read_in_a_serial_history(seed: u64, at in 0..40usize) {
        let (mut history, last) = serial(seed, 40);
        let (asked, answered) = (5000, 5001);
        let mut reads = last.clone();
        let fresh = Transaction {
            asked, answered, fate: Fate::Committed, reads: reads.clone(), appends: Lists::new(),
        };
        history.insert(at, fresh.clone());
        prop_assert_eq!(&check(&history, &last).1, &vec![]);
        let Some(list) = reads.values_mut().max_by_key(|list| list.len()) else { return Ok(()) };
        // Without whatever the last writer appended.
        let Some(end) = list.last().copied() else { return Ok(()) };
        let mine = history.iter().find(|one| one.appends.values().flatten().any(|e| *e == end));
        let (mine, known) = mine.map(|one| (one.appends.clone(), one.fate)).unwrap();
        list.retain(|element| !mine.values().flatten().any(|one| one == element));
        history[at] = Transaction { reads, ..fresh };
        let wrong = check(&history, &last).1;
        prop_assert!(!wrong.is_empty() || known == Fate::Unknown, "{:?}", history[at]);
    }
}
