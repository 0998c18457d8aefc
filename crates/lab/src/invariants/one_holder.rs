//! A program that believes to hold something is right: no other program believes beside it, its lease has not expired,
//! and its token is higher than all before.
//!
//! A program believes from the moment at which the library says that it holds, until the library says that it does not,
//! until it releases, or until its deadline by its own clock; and only while it is not paused. Sessions with fast release
//! are not checked: they promise one effective holder, by its token, not one believer.

use std::collections::BTreeMap;

use tenure::{FencingToken, backend::Mode, clock};
use tenure_api::LeaseId;

use super::must;
use crate::{cluster::truth::Truth, engine::RunCounts};

pub const NAME: &str = "one_holder";

/// What a program believes.
pub struct Belief {
    pub program: usize,
    pub name: String,
    pub mode: Mode,
    pub token: FencingToken,
    /// The permit, of a semaphore.
    pub slot: Option<u32>,
    /// `None` if the program does not know it.
    pub session: Option<LeaseId>,
    /// Whether no other program may believe beside it.
    pub strict: bool,
    /// The deadline by the program's own clock; none if there is no deadline.
    pub until: Box<dyn Fn() -> Option<clock::Moment> + Send>,
}

#[derive(Default)]
pub struct OneHolder {
    beliefs: BTreeMap<u64, Belief>,
    last: u64,
    /// The greatest token that held a name alone, or this permit of it.
    newest: BTreeMap<(String, Option<u32>), FencingToken>,
}

impl OneHolder {
    /// A program was told that it holds. Returns the belief's number.
    pub fn believes(&mut self, belief: Belief) -> u64 {
        if belief.strict && belief.mode != Mode::Shared {
            let of = (belief.name.clone(), belief.slot);
            let newest = self.newest.get(&of).copied();
            must!(
                newest.is_none_or(|newest| newest < belief.token),
                "p{} holds {of:?} with token {}, after one with {newest:?}",
                belief.program,
                belief.token
            );
            self.newest.insert(of, belief.token);
        }
        self.last += 1;
        self.beliefs.insert(self.last, belief);
        self.last
    }

    /// It does not believe any more. Returns what it believed.
    pub fn stops(&mut self, belief: u64) -> Option<Belief> {
        self.beliefs.remove(&belief)
    }

    /// All beliefs and their numbers, with those of paused programs.
    pub fn beliefs(&self) -> impl Iterator<Item = (u64, &Belief)> {
        self.beliefs.iter().map(|(number, belief)| (*number, belief))
    }

    /// Checks all present beliefs. `clock_of` is the reading of a program's clock; none if it is paused.
    pub fn check(
        &self,
        clock_of: impl Fn(usize) -> Option<clock::Moment>,
        truth: &Truth,
        counts: &mut RunCounts,
    ) {
        let believes = |belief: &&Belief| {
            let now = clock_of(belief.program);
            now.is_some_and(|now| (belief.until)().is_none_or(|until| now < until))
        };
        let strict = self.beliefs.values().filter(|belief| belief.strict);
        let believers: Vec<&Belief> = strict.filter(believes).collect();
        for (at, belief) in believers.iter().enumerate() {
            counts.count(NAME);
            let others: Vec<_> =
                believers[at + 1..].iter().filter(|other| other.name == belief.name).collect();
            for other in &others {
                must!(
                    may_share(belief, other),
                    "p{} believes to hold {} with token {}, and so does p{} with {}",
                    belief.program,
                    belief.name,
                    belief.token,
                    other.program,
                    other.token
                );
            }
            if let Mode::Permit(of) = belief.mode {
                must!(others.len() < of as usize, "{} is held by more than {of}", belief.name);
            }
            let history = belief.session.and_then(|session| truth.leases.get(&session));
            let ended = history.and_then(|history| history.ended).filter(|end| end.expired);
            must!(
                ended.is_none(),
                "p{} believes to hold {} with token {}, and its lease ran out at {:?}",
                belief.program,
                belief.name,
                belief.token,
                ended.map(|end| end.at.since_start())
            );
        }
    }
}

fn may_share(one: &Belief, other: &Belief) -> bool {
    match (one.mode, other.mode) {
        (Mode::Shared, Mode::Shared) => true,
        (Mode::Permit(_), Mode::Permit(_)) => one.slot != other.slot,
        _ => false,
    }
}
