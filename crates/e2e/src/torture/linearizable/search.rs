//! The search.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
};

use crate::torture::history::{Call, Operation, Register, Value};

/// How many operations around the place where nothing fits are shown.
const SHOWN_MAX: usize = 24;

/// A history that no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// How many operations could be placed at the most.
    pub placed: usize,
    /// Of how many.
    pub of: usize,
    /// What the register holds after those.
    pub register: Register,
    /// The operation that must be next and does not fit, and those beside it.
    pub around: Vec<Operation>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { placed, of, register, around } = self;
        writeln!(
            f,
            "nothing fits after {placed} of {of} operations, with {register:?}; next are:"
        )?;
        for one in around {
            let asked = one.asked as f64 / 1e6;
            write!(f, "  client {:>2} {asked:>12.3} ms", one.client)?;
            match one.answer {
                Some(answer) => {
                    let (at, before) = (answer.at as f64 / 1e6, answer.before);
                    write!(f, " to {at:>12.3} ms: {:?}, before {before:?}", one.call)?;
                    if matches!(one.call, Call::Swap { .. }) {
                        write!(f, ", swapped {}", answer.swapped)?;
                    }
                    writeln!(f)?;
                }
                None => writeln!(f, " open: {:?}", one.call)?,
            }
        }
        Ok(())
    }
}

/// What the register holds after an operation; nothing if the operation was told something else.
pub(super) fn step(register: Register, operation: &Operation) -> Option<Register> {
    let answer = operation.answer;
    if answer.and_then(|answer| answer.before).is_some_and(|before| before != register) {
        return None;
    }
    match operation.call {
        Call::Get => Some(register),
        Call::Put(value) => Some(Some(value)),
        Call::Delete => Some(None),
        Call::Swap { expected, value } => {
            let fits = register == expected;
            if answer.is_some_and(|answer| answer.swapped != fits) {
                return None;
            }
            Some(if fits { Some(value) } else { register })
        }
    }
}

/// Looks for an order that explains every answer, from an empty register on.
///
/// # Errors
/// How far it came, if there is none.
pub fn check(operations: &[Operation]) -> Result<(), Violation> {
    let mut search = Search::new(useful(operations));
    search.run()
}

/// The value that an answer tells of.
fn observed(operation: &Operation) -> Option<Value> {
    operation.answer.and_then(|answer| answer.before).flatten()
}

/// An operation, and by when it must be placed.
struct Placeable {
    operation: Operation,
    until: Option<u64>,
}

/// Without what explains nothing, and with limits for what is open.
fn useful(operations: &[Operation]) -> Vec<Placeable> {
    // The first operation that saw each value, by when it was answered.
    let mut seen: BTreeMap<Value, u64> = BTreeMap::new();
    let mut expected: BTreeSet<Value> = BTreeSet::new();
    for one in operations {
        if let (Some(answer), Some(value)) = (one.answer, observed(one)) {
            let first = seen.entry(value).or_insert(answer.at);
            *first = answer.at.min(*first);
        }
        if let Call::Swap { expected: Some(value), .. } = one.call {
            expected.insert(value);
        }
    }
    let useful = operations.iter().filter_map(|&operation| {
        let until = match (operation.answer, operation.call) {
            (Some(answer), _) => Some(answer.at),
            (None, Call::Get) => return None,
            (None, Call::Delete) => None,
            (None, Call::Put(value) | Call::Swap { value, .. }) => match seen.get(&value) {
                Some(first) => Some(*first),
                None if expected.contains(&value) => None,
                None => return None,
            },
        };
        Some(Placeable { operation, until })
    });
    let mut useful: Vec<_> = useful.collect();
    // Placed operations are then mostly those at the front, which are remembered as a number.
    useful.sort_by_key(|one| one.operation.asked);
    useful
}

/// A moment in the list: an operation is asked for, or must have been placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Asked(usize),
    Until(usize),
}

/// The head of the list of events.
const HEAD: usize = 0;

/// Steps that are remembered at the most: more than any history of ours needs, and less than a machine has.
const TRIED_MAX: usize = 4_000_000;

/// One step on the way.
struct Step {
    event: usize,
    before: Register,
    /// Nothing else is worth a try in its place.
    forced: bool,
}

/// What depends on a value.
#[derive(Clone, Copy, Debug, Default)]
struct Observers {
    /// Operations not placed yet that saw it.
    left: usize,
    /// Open swaps that expect it.
    expecting: usize,
}

struct Search {
    operations: Vec<Placeable>,
    /// Events in order of time, from 1 on, linked; those of placed operations are taken out.
    events: Vec<Event>,
    next: Vec<usize>,
    previous: Vec<usize>,
    /// Where the limit of each operation stands.
    limit: Vec<Option<usize>>,
    observers: HashMap<Value, Observers>,
    placed: Placed,
    tried: HashSet<(Left, Box<[u64]>)>,
    /// Operations that must still be placed.
    missing: usize,
}

/// What the register holds, as far as it matters for what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Left {
    Empty,
    Holds(Value),
    /// A value that no operation will see.
    Dead,
}

impl Search {
    fn new(operations: Vec<Placeable>) -> Search {
        let mut timed = Vec::new();
        let mut observers: HashMap<Value, Observers> = HashMap::new();
        for (at, one) in operations.iter().enumerate() {
            // An operation that is answered in the moment in which another one asks is beside it.
            timed.push((one.operation.asked, Event::Asked(at)));
            timed.extend(one.until.map(|until| (until, Event::Until(at))));
            if let Some(value) = observed(&one.operation) {
                observers.entry(value).or_default().left += 1;
            }
            if let (None, Call::Swap { expected: Some(value), .. }) =
                (one.operation.answer, one.operation.call)
            {
                observers.entry(value).or_default().expecting += 1;
            }
        }
        timed.sort();
        let mut limit = vec![None; operations.len()];
        for (index, (_, event)) in timed.iter().enumerate() {
            if let Event::Until(at) = *event {
                limit[at] = Some(index + 1);
            }
        }
        let count = timed.len();
        let events = timed.into_iter().map(|(_, event)| event);
        Search {
            events: std::iter::once(Event::Asked(usize::MAX)).chain(events).collect(),
            // The end of the list is the head again.
            next: (1..=count).chain([HEAD]).collect(),
            previous: [count].into_iter().chain(0..count).collect(),
            missing: operations.iter().filter(|one| one.until.is_some()).count(),
            placed: Placed::new(operations.len()),
            tried: HashSet::new(),
            observers,
            limit,
            operations,
        }
    }

    fn run(&mut self) -> Result<(), Violation> {
        let mut register: Register = None;
        let mut path: Vec<Step> = Vec::new();
        let mut deepest: Option<Violation> = None;
        // Where to go on looking for the next step, if there is no forced one.
        let mut resume: Option<usize> = None;
        while self.missing > 0 {
            if resume.is_none()
                && let Some((event, one)) = self.forced(register)
            {
                path.push(Step { event, before: register, forced: true });
                self.take(event, one);
                register = self.after(one, register);
                continue;
            }
            match self.choice(resume.take().unwrap_or(self.next[HEAD]), register) {
                Some((event, one, after)) => {
                    path.push(Step { event, before: register, forced: false });
                    self.take(event, one);
                    register = after;
                }
                // What must be placed by now cannot be: a step before was wrong.
                None => {
                    if deepest.as_ref().is_none_or(|deepest| deepest.placed < path.len()) {
                        deepest = Some(self.stuck(path.len(), register));
                    }
                    loop {
                        let Some(step) = path.pop() else {
                            return Err(deepest.expect("it was stuck at least once"));
                        };
                        let Event::Asked(one) = self.events[step.event] else {
                            unreachable!("only what is asked for is placed")
                        };
                        self.put_back(step.event, one);
                        register = step.before;
                        if !step.forced {
                            resume = Some(self.next[step.event]);
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn after(&self, one: usize, register: Register) -> Register {
        step(register, &self.operations[one].operation).expect("it was seen to fit")
    }

    /// Something that can as well be placed now as later: it changes nothing and fits; or it writes what
    /// no operation sees over what none will see any more.
    fn forced(&self, register: Register) -> Option<(usize, usize)> {
        let mut at = self.next[HEAD];
        while let Event::Asked(one) = self.events[at]
            && at != HEAD
        {
            let operation = &self.operations[one].operation;
            if operation.answer.is_some()
                && let Some(after) = step(register, operation)
                && (after == register
                    || self.left(register) == Left::Dead && self.left(after) == Left::Dead)
            {
                return Some((at, one));
            }
            at = self.next[at];
        }
        None
    }

    /// The next step from here on that was not tried in vain.
    fn choice(&mut self, from: usize, register: Register) -> Option<(usize, usize, Register)> {
        let mut at = from;
        while let Event::Asked(one) = self.events[at]
            && at != HEAD
        {
            if let Some(after) = self.place(one, register) {
                return Some((at, one, after));
            }
            at = self.next[at];
        }
        None
    }

    /// What the register holds if this one is next; nothing if it does not fit or was tried.
    fn place(&mut self, one: usize, register: Register) -> Option<Register> {
        let operation = &self.operations[one].operation;
        let after = step(register, operation)?;
        // A value comes once: it is left only when all operations that saw it are placed.
        if after != register
            && let Some(value) = register
        {
            let left = self.observers.get(&value).map_or(0, |observers| observers.left);
            if left > usize::from(observed(operation) == Some(value)) {
                return None;
            }
        }
        self.placed.set(one, true);
        let new = self.tried.insert((self.left(after), self.placed.image()));
        self.placed.set(one, false);
        assert!(self.tried.len() < TRIED_MAX, "no verdict after {TRIED_MAX} steps");
        new.then_some(after)
    }

    fn left(&self, register: Register) -> Left {
        let Some(value) = register else { return Left::Empty };
        match self.observers.get(&value) {
            Some(Observers { left: 0, expecting: 0 }) | None => Left::Dead,
            Some(_) => Left::Holds(value),
        }
    }

    fn take(&mut self, at: usize, one: usize) {
        self.placed.set(one, true);
        self.note(one, |left| left - 1);
        self.unlink(at);
        if let Some(limit) = self.limit[one] {
            self.unlink(limit);
            self.missing -= 1;
        }
    }

    /// In the reverse order of taking, so that the links are those of before.
    fn put_back(&mut self, at: usize, one: usize) {
        if let Some(limit) = self.limit[one] {
            self.relink(limit);
            self.missing += 1;
        }
        self.relink(at);
        self.note(one, |left| left + 1);
        self.placed.set(one, false);
    }

    fn note(&mut self, one: usize, change: impl Fn(usize) -> usize) {
        let value = observed(&self.operations[one].operation);
        if let Some(observers) = value.and_then(|value| self.observers.get_mut(&value)) {
            observers.left = change(observers.left);
        }
    }

    fn unlink(&mut self, at: usize) {
        let (previous, next) = (self.previous[at], self.next[at]);
        self.next[previous] = next;
        self.previous[next] = previous;
    }

    fn relink(&mut self, at: usize) {
        let (previous, next) = (self.previous[at], self.next[at]);
        self.next[previous] = at;
        self.previous[next] = at;
    }

    fn stuck(&self, placed: usize, register: Register) -> Violation {
        let mut around = Vec::new();
        let mut at = self.next[HEAD];
        while at != HEAD && around.len() < SHOWN_MAX {
            match self.events[at] {
                Event::Asked(one) => around.push(self.operations[one].operation),
                Event::Until(_) => break,
            }
            at = self.next[at];
        }
        // An operation that saw what it holds and comes too late keeps the others from being placed.
        let left = (0..self.operations.len()).filter(|one| !self.placed.has(*one));
        let late = left.map(|one| self.operations[one].operation);
        let late = late.filter(|one| register.is_some() && observed(one) == register);
        let late: Vec<_> = late.filter(|one| !around.contains(one)).take(SHOWN_MAX).collect();
        around.extend(late);
        Violation { placed, of: self.operations.len(), register, around }
    }
}

/// Which operations are placed.
struct Placed(Vec<u64>);

impl Placed {
    fn new(count: usize) -> Placed {
        Placed(vec![0; count.div_ceil(64)])
    }

    fn set(&mut self, at: usize, placed: bool) {
        let bit = 1 << (at % 64);
        if placed {
            self.0[at / 64] |= bit;
        } else {
            self.0[at / 64] &= !bit;
        }
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    /// As it is remembered: how many full words there are at the front, then the rest up to the last
    /// word that has something.
    fn image(&self) -> Box<[u64]> {
        let full = self.0.iter().take_while(|word| **word == u64::MAX).count();
        let end = self.0.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        [full as u64].into_iter().chain(self.0[full.min(end)..end].iter().copied()).collect()
    }
}
