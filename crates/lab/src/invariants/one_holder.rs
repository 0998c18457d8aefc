//! Whoever believes to hold something is right: nobody believes beside it, its lease has not run out,
//! and it came after those before it.
//!
//! A program believes from the moment the library says that it holds, until the library says that it
//! does not, until it gives it up itself, or until its deadline by its own clock; and only while it does not
//! stand still. What was asked for with fast release is not judged: there one effective holder is promised,
//! by its token, not one believer.

use std::collections::BTreeMap;

use tenure::{FencingToken, backend::Mode, clock};
use tenure_api::LeaseId;

use super::must;
use crate::{cluster::truth::Truth, engine::Counts};

pub const NAME: &str = "one_holder";

/// What a program believes.
pub struct Belief {
    pub program: usize,
    pub name: String,
    pub mode: Mode,
    pub token: FencingToken,
    /// Of a semaphore, which permit.
    pub slot: Option<u32>,
    /// Absent if the program does not know it.
    pub session: Option<LeaseId>,
    /// Whether nobody may believe beside it.
    pub strict: bool,
    /// Until when, by the program's own clock; none for as long as it is not told.
    pub until: Box<dyn Fn() -> Option<clock::Moment> + Send>,
}

#[derive(Default)]
pub struct OneHolder {
    beliefs: BTreeMap<u64, Belief>,
    last: u64,
    /// The greatest token that held a name alone, or held this permit of it.
    newest: BTreeMap<(String, Option<u32>), FencingToken>,
}

impl OneHolder {
    /// A program was told that it holds. Answers the belief's number.
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

    /// It does not believe so any more. Answers what it believed.
    pub fn stops(&mut self, belief: u64) -> Option<Belief> {
        self.beliefs.remove(&belief)
    }

    /// All beliefs and their numbers, those of programs that stand still, too.
    pub fn beliefs(&self) -> impl Iterator<Item = (u64, &Belief)> {
        self.beliefs.iter().map(|(number, belief)| (*number, belief))
    }

    /// Judges all who believe now. `clock_of` a program says what its clock shows; none if it stands still.
    pub fn judge(
        &self,
        clock_of: impl Fn(usize) -> Option<clock::Moment>,
        truth: &Truth,
        counts: &mut Counts,
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
            if let Mode::Permit { of } = belief.mode {
                must!(others.len() < of as usize, "{} is held by more than {of}", belief.name);
            }
            let story = belief.session.and_then(|session| truth.leases.get(&session));
            let ended = story.and_then(|story| story.ended).filter(|end| end.expired);
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
        (Mode::Permit { .. }, Mode::Permit { .. }) => one.slot != other.slot,
        _ => false,
    }
}
