//! The book answers as a list of everything that ever happened would.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::book::{Book, Held, Place};
use super::super::{FencingToken, GateLimits, Hold, Pass, Refusal};
use super::token;

const RESOURCES: [&str; 2] = ["a", "b"];

#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Shows a token and tries to come in.
    Come { resource: usize, hold: Hold, token: FencingToken },
    /// Tries again with a token that had to wait.
    Retry { which: prop::sample::Index },
    /// One of those inside leaves.
    Leave { which: prop::sample::Index },
}

/// What was shown, once for each time it was not stale.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shown {
    resource: usize,
    hold: Hold,
    token: FencingToken,
}

impl Shown {
    fn pass(&self) -> Pass<'static> {
        Pass { resource: RESOURCES[self.resource], token: self.token, hold: self.hold }
    }

    /// Whether the two belong to one series of growing tokens.
    fn meets(&self, other: &Shown) -> bool {
        let slot = |hold| if let Hold::Permit { slot } = hold { Some(slot) } else { None };
        self.resource == other.resource && slot(self.hold) == slot(other.hold)
    }

    /// Whether the two must never be inside together, and the older not after the newer. Only two
    /// readers get along.
    fn excludes(&self, other: &Shown) -> bool {
        let both_read = self.hold == Hold::Shared && other.hold == Hold::Shared;
        self.meets(other) && !both_read && self.token != other.token
    }
}

/// All tokens ever seen, and those inside.
#[derive(Debug, Default)]
struct Model {
    seen: Vec<Shown>,
    inside: Vec<Shown>,
}

impl Model {
    fn stale(&self, new: &Shown) -> bool {
        self.seen.iter().any(|old| old.excludes(new) && old.token > new.token)
    }

    fn older_inside(&self, new: &Shown) -> usize {
        self.inside.iter().filter(|old| old.excludes(new) && old.token < new.token).count()
    }
}

fn hold() -> impl Strategy<Value = Hold> {
    prop_oneof![
        Just(Hold::Exclusive),
        Just(Hold::Shared),
        (0..2u32).prop_map(|slot| Hold::Permit { slot }),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (0..RESOURCES.len(), hold(), 1..12i64)
            .prop_map(|(resource, hold, n)| Deed::Come { resource, hold, token: token(n) }),
        2 => index().prop_map(|which| Deed::Retry { which }),
        3 => index().prop_map(|which| Deed::Leave { which }),
    ]
}

fn enter(book: &mut Book, shown: &Shown) -> Result<(), Held> {
    book.enter(&Place::of(&shown.pass()), shown.token, shown.hold == Hold::Shared)
}

/// Tries to come in on both sides, and compares.
fn try_enter(book: &mut Book, model: &mut Model, shown: Shown) -> Result<bool, TestCaseError> {
    let answer = enter(book, &shown);
    let older = model.older_inside(&shown);
    let expected = match (model.stale(&shown), older) {
        (true, _) => "stale",
        (false, 0) => "in",
        (false, _) => "older inside",
    };
    let got = match answer {
        Ok(()) => "in",
        Err(Held::Stale { in_force }) => {
            prop_assert!(in_force > shown.token);
            "stale"
        }
        Err(Held::Older(count)) => {
            prop_assert_eq!(count, older);
            "older inside"
        }
    };
    prop_assert_eq!(got, expected, "{:?}", shown);
    if answer.is_ok() {
        for other in &model.inside {
            prop_assert!(!shown.excludes(other), "{:?} beside {:?}", shown, other);
        }
        model.inside.push(shown);
    }
    Ok(answer.is_ok())
}

proptest! {
    #[test]
    fn the_book_answers_as_the_whole_past_would(
        deeds in prop::collection::vec(deed(), 1..80),
        forget_at in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let limits = GateLimits::default();
        let mut book = Book::with(limits, BTreeMap::new());
        let mut model = Model::default();
        let mut waiting: Vec<Shown> = Vec::new();
        for (at, deed) in deeds.iter().enumerate() {
            // A restart: what was seen is read back, and no token is inside.
            if forget_at.iter().any(|index| index.index(deeds.len()) == at) {
                book = Book::with(limits, book.marks().1);
                model.inside.clear();
                waiting.clear();
            }
            match *deed {
                Deed::Come { resource, hold, token } => {
                    let shown = Shown { resource, hold, token };
                    let stale = model.stale(&shown);
                    match book.see(&shown.pass()) {
                        Ok(_) => prop_assert!(!stale, "{:?} was seen", shown),
                        Err(Refusal::Stale { in_force, .. }) => {
                            prop_assert!(stale && in_force > token);
                            continue;
                        }
                        Err(other) => return Err(TestCaseError::fail(other.to_string())),
                    }
                    model.seen.push(shown);
                    if !try_enter(&mut book, &mut model, shown)? {
                        waiting.push(shown);
                    }
                }
                Deed::Retry { which } if !waiting.is_empty() => {
                    let at = which.index(waiting.len());
                    if try_enter(&mut book, &mut model, waiting[at])? {
                        waiting.remove(at);
                    }
                }
                Deed::Leave { which } if !model.inside.is_empty() => {
                    let gone = model.inside.swap_remove(which.index(model.inside.len()));
                    book.leave(&Place::of(&gone.pass()), gone.token, gone.hold == Hold::Shared);
                }
                Deed::Retry { .. } | Deed::Leave { .. } => {}
            }
        }
        // Waiting comes to an end: when all have left, the newest of each line gets in.
        for gone in std::mem::take(&mut model.inside) {
            book.leave(&Place::of(&gone.pass()), gone.token, gone.hold == Hold::Shared);
        }
        for shown in waiting {
            try_enter(&mut book, &mut model, shown)?;
            prop_assert!(model.stale(&shown) || model.inside.contains(&shown), "{:?}", shown);
            model.inside.clear();
            book = Book::with(limits, book.marks().1);
        }
    }
}

#[test]
fn gate_that_is_full_forgets_no_token() {
    let mut book =
        Book::with(GateLimits { resources_max: 2, ..GateLimits::default() }, BTreeMap::new());
    book.see(&Pass::to("a", token(5))).unwrap();
    book.see(&Pass::to("a", token(5)).permit(0)).unwrap();
    let refused = book.see(&Pass::to("b", token(9))).unwrap_err();
    assert!(matches!(refused, Refusal::NoRoom { resources_max: 2, .. }), "{refused}");
    assert!(matches!(book.see(&Pass::to("a", token(4))), Err(Refusal::Stale { .. })));
    book.see(&Pass::to("a", token(6))).unwrap();
}

#[test]
fn gate_refuses_a_name_that_is_too_long_before_it_takes_room() {
    let mut book =
        Book::with(GateLimits { resources_max: 1, ..GateLimits::default() }, BTreeMap::new());
    let long = "n".repeat(256);
    let refused = book.see(&Pass::to(&long, token(1))).unwrap_err();
    assert!(matches!(refused, Refusal::NameTooLong { bytes: 256 }), "{refused}");
    book.see(&Pass::to(&long[1..], token(1))).unwrap();
}
