//! What clients asked for and what they were told, and when.
//!
//! Every written value is written once in a run, so a value names its write, and the revision at which a value
//! was seen names the same write. A change with an unknown outcome stays *open*: it may take effect at any
//! time after it was asked for, or never. A change that was refused for certain is not in the history at all:
//! its value must never be seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// What a register holds. Each is written once.
pub type Value = u64;

/// A register: a value, or nothing.
pub type Register = Option<Value>;

/// What a client asks of one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reads it.
    Get,
    /// Writes it, whatever it holds.
    Put(Value),
    /// Empties it.
    Delete,
    /// Writes it if it holds what is expected.
    Swap {
        /// What it must hold.
        expected: Register,
        /// What it holds then.
        value: Value,
    },
}

impl Call {
    /// What it writes, if it writes something.
    pub fn value(&self) -> Option<Value> {
        match *self {
            Call::Put(value) | Call::Swap { value, .. } => Some(value),
            Call::Get | Call::Delete => None,
        }
    }
}

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When the answer was there.
    pub at: u64,
    /// What the register held before, if the answer says so.
    pub before: Option<Register>,
    /// Of a swap: whether it was done.
    pub swapped: bool,
    /// The revision that came with the answer.
    pub revision: i64,
}

/// One operation on one register. Times are nanoseconds since the run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The client that asked.
    pub client: usize,
    /// When.
    pub asked: u64,
    /// What for.
    pub call: Call,
    /// The answer; none if the outcome is unknown.
    pub answer: Option<Answer>,
}

/// All operations of a run by register, and at which revision each value was seen.
#[derive(Debug)]
pub struct History {
    began: Instant,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    operations: BTreeMap<String, Vec<Operation>>,
    count: usize,
    /// The revision of each value that was acknowledged or seen.
    revisions: BTreeMap<Value, i64>,
    newest: i64,
    /// Values of writes that were refused for certain.
    refused: BTreeSet<Value>,
    /// Values that were seen at two revisions.
    moved: Vec<String>,
}

impl Default for History {
    fn default() -> History {
        History { began: Instant::now(), kept: Mutex::default() }
    }
}

impl History {
    /// The time of an event.
    pub fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Adds an operation that has ended, or whose outcome will not be known.
    pub fn add(&self, register: &str, operation: Operation) {
        let mut kept = self.kept();
        kept.count += 1;
        kept.operations.entry(register.to_owned()).or_default().push(operation);
    }

    /// An operation was refused for certain.
    pub fn refuse(&self, call: Call) {
        self.kept().refused.extend(call.value());
    }

    /// The values of all writes that were refused for certain.
    pub fn refused(&self) -> BTreeSet<Value> {
        self.kept().refused.clone()
    }

    /// A value was acknowledged or seen at this revision.
    pub fn saw(&self, value: Value, revision: i64) {
        let mut kept = self.kept();
        kept.newest = kept.newest.max(revision);
        let first = *kept.revisions.entry(value).or_insert(revision);
        if first != revision {
            kept.moved.push(format!("value {value} was at revision {first}, then at {revision}"));
        }
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.kept().count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of them are open.
    pub fn open(&self) -> usize {
        let kept = self.kept();
        kept.operations.values().flatten().filter(|one| one.answer.is_none()).count()
    }

    /// Every register with its operations.
    pub fn registers(&self) -> BTreeMap<String, Vec<Operation>> {
        self.kept().operations.clone()
    }

    /// The revision of every value that was acknowledged or seen.
    pub fn revisions(&self) -> BTreeMap<Value, i64> {
        self.kept().revisions.clone()
    }

    /// The newest revision that any value was acknowledged or seen at.
    pub fn newest(&self) -> i64 {
        self.kept().newest
    }

    /// Values that did not stay at their revision.
    pub fn moved(&self) -> Vec<String> {
        self.kept().moved.clone()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
