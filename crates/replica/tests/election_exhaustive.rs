//! Every order of commands, as deep as a test may look.
//!
//! Elections are pure and small, so they are not sampled but searched: from an empty state every command
//! of an alphabet is tried, then every command after each of those, and so on. States that differ only
//! in numbers are looked at once. After every command everything that must always be true is checked.
#![allow(clippy::unwrap_used)]

#[path = "election/alphabet.rs"]
mod alphabet;
#[path = "election/always.rs"]
mod always;

use std::collections::HashSet;

use alphabet::{Deed, NAMES, World};

/// Tries all orders of these deeds; answers how many different states there are.
fn search(deeds: &[Deed], depth: usize) -> usize {
    search_for(deeds, depth, |_| {})
}

/// The same, with something more that must be true.
fn search_for(deeds: &[Deed], depth: usize, also: impl Fn(&World)) -> usize {
    let mut seen = HashSet::new();
    let start = World::new();
    seen.insert(start.shape());
    let mut frontier = vec![start];
    for _ in 0..depth {
        let mut next = Vec::new();
        for world in &frontier {
            for deed in deeds {
                let mut world = world.clone();
                if !world.does(deed) {
                    continue;
                }
                always::check(&world);
                also(&world);
                if seen.insert(world.shape()) {
                    next.push(world);
                }
            }
        }
        frontier = next;
        if frontier.is_empty() {
            break;
        }
    }
    println!("{} states, {} of them not looked beyond", seen.len(), frontier.len());
    seen.len()
}

fn for_each<T: Copy>(all: &[T], deed: impl Fn(T) -> Deed) -> Vec<Deed> {
    all.iter().map(|one| deed(*one)).collect()
}

const SESSIONS: [i64; 3] = [1, 2, 3];

/// Sessions and a client of etcd's come, go and die under two names.
#[test]
fn election_orders_of_joining_and_leaving_beside_a_stock_client() {
    let mut deeds = vec![];
    for name in NAMES {
        deeds.extend(for_each(&[1, 2], |who| Deed::Join {
            who,
            name,
            priority: 0,
            preempts: false,
        }));
        deeds.extend(for_each(&[1, 2], |who| Deed::Leave { who, name }));
        deeds.extend([Deed::StockJoin { who: 3, name }, Deed::StockLeave { who: 3, name }]);
    }
    deeds.extend(for_each(&SESSIONS, Deed::Expire));
    deeds.extend(for_each(&SESSIONS, Deed::Open));
    let states = search(&deeds, 12);
    assert!(states > 300, "the search saw only {states} states");
}

/// Three sessions of different priority, with pre-emption, hand-over and a client of etcd's between.
#[test]
fn election_orders_of_priority_preemption_and_transfer() {
    let name = "x";
    let mut deeds = vec![Deed::StockJoin { who: 4, name }, Deed::StockLeave { who: 4, name }];
    deeds.extend(for_each(&SESSIONS, |who| Deed::Join { who, name, priority: 0, preempts: false }));
    deeds.push(Deed::Join { who: 2, name, priority: 5, preempts: false });
    deeds.push(Deed::Join { who: 3, name, priority: 9, preempts: true });
    deeds.extend(for_each(&SESSIONS, |who| Deed::Leave { who, name }));
    deeds.extend(for_each(&SESSIONS, |to| Deed::Transfer { to, name }));
    deeds.extend(for_each(&[true, false], |stay| Deed::Yield { name, stay }));
    deeds.extend([Deed::DrainOver(name), Deed::Expire(1), Deed::DelayOver, Deed::Restore]);
    deeds.extend(for_each(&[1, 2, 3, 4], Deed::Open));
    let states = search(&deeds, 12);
    assert!(states > 300, "the search saw only {states} states");
}

/// Whatever comes and goes, candidates that wait and can be overtaken are in order of priority.
#[test]
fn election_orders_of_priority_beside_a_stock_client() {
    let name = "x";
    let mut deeds = vec![Deed::StockJoin { who: 4, name }, Deed::StockLeave { who: 4, name }];
    let join = |who, priority, preempts| Deed::Join { who, name, priority, preempts };
    deeds.extend(for_each(&SESSIONS, |who| join(who, 0, false)));
    deeds.extend([join(1, 5, false), join(2, 5, true), join(3, 9, true)]);
    deeds.extend(for_each(&SESSIONS, |who| Deed::Leave { who, name }));
    deeds.extend(for_each(&[1, 3], |who| Deed::Health { who, name, unhealthy: true }));
    deeds.extend(for_each(&[1, 3], |who| Deed::Health { who, name, unhealthy: false }));
    deeds.extend([Deed::Yield { name, stay: false }, Deed::DrainOver(name)]);
    deeds.push(Deed::Transfer { to: 1, name });
    deeds.extend([Deed::Expire(1), Deed::Open(1), Deed::DelayOver, Deed::Restore]);
    deeds.extend(for_each(&[2, 3, 4], Deed::Open));
    let states = search_for(&deeds, 12, always::who_waits_stands_by_priority);
    assert!(states > 300, "the search saw only {states} states");
}

/// Health, eviction, freezing, and candidates that must not overlap with a predecessor.
#[test]
fn election_orders_of_health_eviction_freezing_and_delay() {
    let name = "x";
    let mut deeds = vec![Deed::StockJoin { who: 3, name }, Deed::StockLeave { who: 3, name }];
    deeds.extend(for_each(&[1, 2], |who| Deed::JoinAfterStop { who, name }));
    deeds.extend(for_each(&[1, 2], |who| Deed::Health { who, name, unhealthy: true }));
    deeds.extend(for_each(&[1, 2], |who| Deed::Health { who, name, unhealthy: false }));
    deeds.extend(for_each(&[1, 2], |who| Deed::Leave { who, name }));
    deeds.extend([Deed::Evict(name), Deed::Freeze(name), Deed::Resume(name), Deed::DelayOver]);
    deeds.extend(for_each(&[1, 2], Deed::BreakConnection));
    deeds.extend(for_each(&[1, 2], Deed::ConfirmStop));
    deeds.extend(for_each(&[1, 2, 3], Deed::Open));
    let states = search(&deeds, 12);
    assert!(states > 300, "the search saw only {states} states");
}

/// Readers, writers and several names at once, beside a client of etcd's.
#[test]
fn election_orders_of_shared_holds_and_several_names() {
    let mut deeds = vec![];
    for who in SESSIONS {
        deeds.push(Deed::JoinBoth(who));
        deeds.push(Deed::JoinShared { who, name: "x" });
        deeds.push(Deed::Join { who, name: "x", priority: 0, preempts: false });
        deeds.extend([Deed::Leave { who, name: "x" }, Deed::Leave { who, name: "y" }]);
    }
    deeds.extend([Deed::StockJoin { who: 4, name: "y" }, Deed::StockLeave { who: 4, name: "y" }]);
    deeds.extend(for_each(&[true, false], |unhealthy| Deed::Health {
        who: 2,
        name: "x",
        unhealthy,
    }));
    deeds.extend([Deed::Expire(1), Deed::Open(1), Deed::Evict("x")]);
    let states = search(&deeds, 8);
    assert!(states > 300, "the search saw only {states} states");
}

/// Permits, beside exclusive candidates and a stock client.
#[test]
fn election_orders_of_permits() {
    let name = "y";
    let mut deeds = vec![];
    for who in SESSIONS {
        deeds.push(Deed::JoinPermit { who, name, permits: 2 });
        deeds.push(Deed::Join { who, name, priority: 0, preempts: false });
        deeds.push(Deed::Leave { who, name });
    }
    deeds.extend([Deed::StockJoin { who: 4, name }, Deed::StockLeave { who: 4, name }]);
    deeds.extend([Deed::Expire(1), Deed::Open(1), Deed::Evict(name)]);
    let states = search(&deeds, 8);
    assert!(states > 300, "the search saw only {states} states");
}

/// A restored cluster keeps no session and repeats no token; a frozen name stays frozen.
#[test]
fn election_orders_of_restore_and_fast_release() {
    let name = "x";
    let mut deeds = vec![Deed::Restore, Deed::Freeze(name), Deed::Resume(name)];
    deeds.extend(for_each(&SESSIONS, |who| Deed::Join { who, name, priority: 0, preempts: false }));
    deeds.extend(for_each(&SESSIONS, Deed::BreakConnection));
    // One that comes back is enough, and the search stays short.
    deeds.extend([Deed::Attach(1), Deed::BreakOlderConnection(1)]);
    deeds.extend(for_each(&SESSIONS, Deed::Open));
    deeds.extend([Deed::StockJoin { who: 4, name }, Deed::Open(4)]);
    let states = search(&deeds, 12);
    assert!(states > 50, "the search saw only {states} states");
}

/// Two of three sessions want both names at once, while an operator transfers, freezes, resumes and restores, and the
/// third pre-empts a leader that has only one of them.
#[test]
fn election_orders_of_both_names_beside_everything_else() {
    let mut deeds = for_each(&[1, 2], Deed::JoinBoth);
    for name in NAMES {
        deeds.push(Deed::Join { who: 2, name, priority: 0, preempts: false });
        deeds.push(Deed::Join { who: 3, name, priority: 5, preempts: true });
        deeds.extend(for_each(&[1, 2, 3], |to| Deed::Transfer { to, name }));
        deeds.extend(for_each(&[1, 2, 3], |who| Deed::Leave { who, name }));
        deeds.extend([Deed::DrainOver(name), Deed::Freeze(name), Deed::Resume(name)]);
    }
    deeds.extend([Deed::Yield { name: "x", stay: true }, Deed::Restore]);
    deeds.extend([Deed::BreakConnection(1), Deed::Open(1), Deed::Open(2), Deed::Open(3)]);
    let states = search_for(&deeds, 8, always::who_waits_stands_by_priority);
    assert!(states > 300, "the search saw only {states} states");
}
