//! Elections do what a naive list of people would, whatever happens to them in whatever order, for longer than every order of
//! commands can be tried.
#![allow(clippy::unwrap_used)]

#[path = "election/alphabet.rs"]
mod alphabet;
#[path = "election/always.rs"]
#[allow(dead_code, reason = "the search asks for more")]
mod always;
#[path = "election/naive.rs"]
mod naive;

use std::{collections::BTreeSet, sync::Arc};

use alphabet::{Deed, Manner, NAMES, World};
use naive::{DATA, FROST, Naive, Room};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use tenure_api::{LeaseId, Principal, Revision};
use tenure_replica::{
    State,
    canary::Canary,
    election::{
        Candidate, Election, EndReason, FROZEN, Mode,
        listeners::{ListenerEvent, ListenerInput, Listeners, Observed},
    },
};

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just(NAMES[0]), 1 => Just(NAMES[1])]
}

fn session() -> impl Strategy<Value = i64> {
    prop_oneof![1..=3_i64, 5..=6_i64]
}

fn manner() -> impl Strategy<Value = Manner> {
    let mode = prop_oneof![
        5 => Just(Mode::Exclusive),
        1 => Just(Mode::Shared),
        1 => Just(Mode::Permit(2)),
        1 => Just(Mode::Permit(1)),
    ];
    let seldom = || prop::bool::weighted(0.2);
    (mode, 0..3_u32, any::<bool>(), any::<bool>(), seldom(), seldom()).prop_map(
        |(mode, priority, preempts, no_overlap, try_only, unhealthy)| Manner {
            mode,
            priority,
            preempts,
            no_overlap,
            try_only,
            unhealthy,
        },
    )
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (session(), name(), manner())
            .prop_map(|(who, name, manner)| Deed::JoinAs { who, name, manner }),
        2 => session().prop_map(Deed::JoinBoth),
        3 => (session(), name()).prop_map(|(who, name)| Deed::Leave { who, name }),
        1 => (session(), name()).prop_map(|(who, name)| Deed::Drop { who, name }),
        1 => (session(), name()).prop_map(|(who, name)| Deed::Strike { who, name }),
        3 => (3..=4_i64, name()).prop_map(|(who, name)| Deed::StockJoin { who, name }),
        2 => (3..=4_i64, name()).prop_map(|(who, name)| Deed::StockLeave { who, name }),
        1 => name().prop_map(Deed::Data),
        1 => name().prop_map(Deed::NoData),
        4 => (session(), name(), any::<bool>())
            .prop_map(|(who, name, unhealthy)| Deed::Health { who, name, unhealthy }),
        5 => (session(), name()).prop_map(|(to, name)| Deed::Transfer { to, name }),
        3 => (name(), any::<bool>()).prop_map(|(name, stay)| Deed::Yield { name, stay }),
        2 => name().prop_map(Deed::DrainOver),
        2 => Just(Deed::DelayOver),
        1 => name().prop_map(Deed::Evict),
        1 => name().prop_map(Deed::Freeze),
        2 => name().prop_map(Deed::Resume),
        6 => (1..=6_i64).prop_map(Deed::Open),
        1 => (1..=6_i64).prop_map(Deed::Expire),
        1 => (1..=6_i64).prop_map(Deed::Revoke),
        1 => session().prop_map(Deed::BreakConnection),
        1 => session().prop_map(Deed::Close),
        1 => session().prop_map(Deed::ConfirmStop),
    ]
}

fn step() -> impl Strategy<Value = Deed> {
    prop_oneof![60 => deed(), 1 => Just(Deed::Restore)]
}

fn story() -> impl Strategy<Value = Vec<Deed>> {
    prop::collection::vec(step(), 1..120)
}

fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.max(400), ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn elections_do_what_naive_lists_would(deeds in story()) {
        play(&deeds)?;
    }

    #[test]
    fn observer_that_resumes_sees_what_one_that_stayed_saw(deeds in story(), skipped in 1..9_usize) {
        let mut world = World::new();
        let mut stays = Observes::new(&world.state);
        let mut skips = Observes::new(&world.state);
        for (at, deed) in deeds.iter().enumerate() {
            world.does(deed);
            // A restored state takes the candidate of what it was.
            stays.sees(&world, matches!(deed, Deed::Restore));
            if at % skipped == 0 || at + 1 == deeds.len() {
                skips.sees(&world, true);
            }
        }
        for (skipped, seen) in skips.seen.iter().zip(&stays.seen) {
            if !skipped.iter().chain(seen).any(is_gap) {
                prop_assert_eq!(tenures(skipped), tenures(seen), "{:?}", world.path);
            }
        }
        for (name, seen) in NAMES.iter().zip(&stays.seen) {
            for at in 0..seen.len() {
                comes_back(name, seen, at, &world)?;
            }
        }
    }
}

fn play(deeds: &[Deed]) -> Result<(), TestCaseError> {
    let (mut world, mut naive) = (World::new(), Naive::new());
    for deed in deeds {
        world.does(deed);
        naive.does(deed);
        always::check(&world);
        same(&world, &naive)?;
    }
    Ok(())
}

/// If a list that is told apart from it does not notice, it is worth nothing.
#[test]
fn canary_of_elections_is_found_by_the_naive_lists() {
    for canary in [Canary::OvertakesEqual, Canary::DelayForgotten, Canary::ElectionStuck] {
        let config = ProptestConfig { cases: 400, failure_persistence: None, ..config() };
        let planted = canary.plant();
        let found = TestRunner::new(config).run(&story(), |deeds| play(&deeds));
        drop(planted);
        assert!(matches!(found, Err(TestError::Fail(..))), "{canary:?} was not found: {found:?}");
    }
}

/// An observer of both names.
struct Observes {
    listeners: Listeners,
    seen: [Vec<Observed>; 2],
}

impl Observes {
    fn new(state: &State) -> Observes {
        let mut observes = Observes { listeners: Listeners::default(), seen: [vec![], vec![]] };
        for (listener, name) in (0..).zip(NAMES) {
            let name = name.into();
            observes.listeners.handle(
                Principal::Anonymous,
                ListenerInput::Observe { listener, name, after: None },
                state,
            );
        }
        observes.is_told();
        observes
    }

    /// What was just done; or, of a member that skipped a part of the log, how things are now.
    fn sees(&mut self, world: &World, skipped: bool) {
        if skipped {
            self.listeners.resync(&world.state);
        } else {
            self.listeners.observe(&world.events);
        }
        self.is_told();
    }

    fn is_told(&mut self) {
        for (listener, news) in self.listeners.take_news() {
            let ListenerEvent::Observed(seen) = news else {
                panic!("an observer was told {news:?}")
            };
            self.seen[listener as usize].push(seen);
        }
    }
}

/// A stream broke after this, and another goes on where it did, as over the wire: an end is as if told a revision before.
fn comes_back(
    name: &'static str,
    seen: &[Observed],
    at: usize,
    world: &World,
) -> Result<(), TestCaseError> {
    let again = matches!(seen[at], Observed::Ended(_));
    let after = Revision(seen[at].revision().0 - i64::from(again));
    let mut listeners = Listeners::default();
    let observe = ListenerInput::Observe { listener: 0, name: name.into(), after: Some(after) };
    listeners.handle(Principal::Anonymous, observe, &world.state);
    let told: Vec<Observed> = listeners
        .take_news()
        .into_iter()
        .map(|(_, news)| match news {
            ListenerEvent::Observed(seen) => seen,
            other => panic!("an observer was told {other:?}"),
        })
        .collect();
    let rest = if again { &seen[at..] } else { &seen[at + 1..] };
    if !told.iter().any(is_gap) {
        prop_assert_eq!(
            tenures(&told),
            tenures(rest),
            "{} after {:?}: {:?}",
            name,
            after,
            world.path
        );
    }
    // Whatever it knew, it knows how things stand.
    let election = world.state.elections.election(name.as_bytes());
    let leads = election.and_then(|election| election.leader()).map(|leader| leader.created);
    let known = seen[..=at].iter().chain(&told).fold(None, |known, seen| match seen {
        Observed::Began(tenure, _) | Observed::Proclaimed(tenure, _) => Some(tenure.token),
        Observed::Vacant { .. } => None,
        Observed::Ended(_) | Observed::Forgotten(_) => known,
    });
    prop_assert_eq!(known, leads, "{} after {:?}: {:?}", name, after, world.path);
    Ok(())
}

fn is_gap(seen: &Observed) -> bool {
    matches!(seen, Observed::Forgotten(_))
}

/// What began and what ended, in order.
fn tenures(seen: &[Observed]) -> Vec<(bool, Revision)> {
    let one = |seen: &Observed| match seen {
        Observed::Began(tenure, _) => Some((true, tenure.token)),
        Observed::Ended(tenure) => Some((false, tenure.token)),
        _ => None,
    };
    seen.iter().filter_map(one).collect()
}

/// A candidate: its owner, and whether it is a stock client's, holds, was told, is healthy.
type Seen = (i64, bool, bool, bool, bool);

fn same(world: &World, naive: &Naive) -> Result<(), TestCaseError> {
    let elections = &world.state.elections;
    for (name, list) in &naive.elections {
        let election = elections.election(name.as_bytes());
        prop_assert_eq!(election.is_some(), list.begun, "{} after {:?}", name, world.path);
        let Some(election) = election else { continue };
        let naively: Vec<Seen> =
            list.spots.iter().map(|s| (s.who, s.stock, s.holds, s.told, s.is_well())).collect();
        prop_assert_eq!(seen(election), naively, "{} after {:?}", name, world.path);
        prop_assert_eq!(room(election), list.room, "{} after {:?}", name, world.path);
        let by_choice = list.chosen.is_some();
        prop_assert_eq!(election.leads_by_choice(), by_choice, "{} after {:?}", name, world.path);
        let delays: BTreeSet<i64> = election.delays().map(|id| id.0).collect();
        let naively = naive.delays.iter().filter(|(other, _)| other == name);
        prop_assert_eq!(delays, naively.map(|(_, who)| *who).collect(), "{:?}", world.path);
    }
    let living = (1..=6).filter(|who| world.state.leases.contains(LeaseId(*who)));
    prop_assert_eq!(living.collect::<BTreeSet<_>>(), naive.living.clone(), "{:?}", world.path);
    Ok(())
}

fn seen(election: &Election) -> Vec<Seen> {
    let one = |candidate: &Arc<Candidate>| {
        let unleased = if candidate.key.ends_with(FROZEN) { FROST } else { DATA };
        let who = candidate.lease.map_or(unleased, |lease| lease.0);
        (
            who,
            candidate.spec.is_none(),
            candidate.holds(),
            candidate.told,
            candidate.wants_to_lead(),
        )
    };
    election.candidates().iter().map(one).collect()
}

fn room(election: &Election) -> Option<Room> {
    let transfer = election.transfer()?;
    let from = election.with_token(transfer.from)?.session()?.0;
    let by_operator = transfer.why == EndReason::Transferred;
    Some(Room { to: transfer.to.0, from, by_operator })
}
