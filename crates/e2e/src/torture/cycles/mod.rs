//! Whether transactions that read and append to lists are strictly serializable.
//!
//! The idea is that of Elle (Kingsbury and Alvaro, VLDB 2020). A list shows its own past: the order of its elements is the order
//! of the transactions that appended them. From what transactions read and appended follow the edges of a graph:
//!
//! | edge | from | to |
//! |---|---|---|
//! | write-write | the transaction that appended an element | the one that appended the next |
//! | write-read | the one that appended the last element of a list | one that read this list |
//! | read-write | one that read a list | the one that appended what follows |
//! | time | one that was answered | one that began after that |
//!
//! An order in which the transactions may have happened one by one exists if and only if the graph has no cycle. What
//! needs no graph is found before: elements that are lost, repeated, out of nowhere, of transactions that were not done, or
//! halfway through one.

mod graph;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use graph::{Edge, Graph};

/// What is appended. Each is appended once, to one list.
pub type Element = u64;

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was done.
    Committed,
    /// It was not done, for certain.
    Aborted,
    /// It may have been done.
    Unknown,
}

/// A transaction: what it read, then what it appended. Times are nanoseconds since the run began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// When it began.
    pub asked: u64,
    /// When its answer was there.
    pub answered: u64,
    /// What became of it.
    pub fate: Fate,
    /// The lists that it read, by key.
    pub reads: BTreeMap<String, Vec<Element>>,
    /// What it appended, in order, by key.
    pub appends: BTreeMap<String, Vec<Element>>,
}

/// What must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// An element stands in a list twice.
    Duplicate(String, Element),
    /// An element that no transaction appended there.
    OutOfNowhere(String, Element),
    /// A list shows an element of a transaction that was not done (G1a).
    AbortedRead(String, Element),
    /// A list ends in the middle of a transaction (G1b).
    IntermediateRead(String, Element),
    /// Two lists of one key of which neither is the beginning of the other.
    Incompatible(String, Vec<Element>, Vec<Element>),
    /// An element of a transaction that was done is not in the last list.
    LostAppend(String, Element),
    /// Transactions read the same list and both appended to it.
    LostUpdate(String, Vec<usize>),
    /// No order of these transactions explains what they saw.
    Cycle(Kind, Vec<usize>),
}

/// A kind of cycle, by the edges that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// G0: writes alone.
    Write,
    /// G1c: writes, and reads of them.
    Information,
    /// G-single: one read that missed a write.
    Single,
    /// G2: several of those.
    AntiDependency,
    /// Serializable, but not in the order in which answers came.
    RealTime,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Write => "G0",
            Kind::Information => "G1c",
            Kind::Single => "G-single",
            Kind::AntiDependency => "G2",
            Kind::RealTime => "a cycle with time",
        })
    }
}

/// How much there was to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Transactions that count.
    pub transactions: usize,
    /// Edges between them, without those of time.
    pub edges: usize,
    /// Transactions of unknown fate that were seen to be done.
    pub resolved: usize,
}

/// Looks for everything that must not be. `last` are the lists as they are when all is over.
pub fn check(
    history: &[Transaction],
    last: &BTreeMap<String, Vec<Element>>,
) -> (Extent, Vec<Anomaly>) {
    let mut checking = Checking::new(history);
    checking.lists(last);
    checking.lost(last);
    let extent = checking.cycles();
    (extent, checking.anomalies)
}

struct Checking<'a> {
    history: &'a [Transaction],
    /// The transaction that appended an element, and to which key.
    writers: BTreeMap<Element, (usize, &'a str)>,
    /// The longest list of every key.
    orders: BTreeMap<&'a str, Vec<Element>>,
    anomalies: Vec<Anomaly>,
}

impl<'a> Checking<'a> {
    fn new(history: &'a [Transaction]) -> Checking<'a> {
        let mut writers = BTreeMap::new();
        for (number, transaction) in history.iter().enumerate() {
            for (key, elements) in &transaction.appends {
                writers.extend(elements.iter().map(|element| (*element, (number, key.as_str()))));
            }
        }
        Checking { history, writers, orders: BTreeMap::new(), anomalies: Vec::new() }
    }

    /// Every list that was read, by itself and beside the others of its key.
    fn lists(&mut self, last: &'a BTreeMap<String, Vec<Element>>) {
        let done = self.history.iter().filter(|one| one.fate == Fate::Committed);
        let read = done.flat_map(|one| &one.reads).chain(last);
        for (key, list) in read {
            self.list(key, list);
            let known = self.orders.entry(key).or_default();
            let shared = known.len().min(list.len());
            if known[..shared] != list[..shared] {
                let anomaly = Anomaly::Incompatible(key.clone(), known.clone(), list.clone());
                self.anomalies.push(anomaly);
            } else if list.len() > known.len() {
                known.clone_from(list);
            }
        }
    }

    fn list(&mut self, key: &str, list: &[Element]) {
        let mut seen = BTreeSet::new();
        for element in list {
            let again = !seen.insert(element);
            let anomaly = match self.writers.get(element) {
                _ if again => Anomaly::Duplicate,
                Some((_, home)) if *home != key => Anomaly::OutOfNowhere,
                None => Anomaly::OutOfNowhere,
                Some((writer, _)) if self.history[*writer].fate == Fate::Aborted => {
                    Anomaly::AbortedRead
                }
                Some(_) => continue,
            };
            self.anomalies.push(anomaly(key.to_owned(), *element));
        }
        let Some(element) = list.last() else { return };
        let Some((writer, _)) = self.writers.get(element) else { return };
        let appended = self.history[*writer].appends.get(key).and_then(|all| all.last());
        if appended.is_some_and(|last| last != element) {
            self.anomalies.push(Anomaly::IntermediateRead(key.to_owned(), *element));
        }
    }

    /// What was appended is there in the end, and what two read is not overwritten by one of them.
    fn lost(&mut self, last: &BTreeMap<String, Vec<Element>>) {
        let mut updates: BTreeMap<(&str, usize), Vec<usize>> = BTreeMap::new();
        for (number, transaction) in self.history.iter().enumerate() {
            if transaction.fate != Fate::Committed {
                continue;
            }
            for (key, elements) in &transaction.appends {
                let there = last.get(key).map_or(&[][..], Vec::as_slice);
                let lost = elements.iter().filter(|element| !there.contains(element));
                self.anomalies.extend(lost.map(|one| Anomaly::LostAppend(key.clone(), *one)));
                if let Some(read) = transaction.reads.get(key) {
                    updates.entry((key, read.len())).or_default().push(number);
                }
            }
        }
        for ((key, _), both) in updates {
            if both.len() > 1 {
                self.anomalies.push(Anomaly::LostUpdate(key.to_owned(), both));
            }
        }
    }

    /// The graph of those that were done, and what in it goes round.
    fn cycles(&mut self) -> Extent {
        let seen: BTreeSet<usize> = self
            .orders
            .values()
            .flatten()
            .filter_map(|element| self.writers.get(element).map(|(writer, _)| *writer))
            .collect();
        let counts = |number: usize| match self.history[number].fate {
            Fate::Committed => true,
            Fate::Unknown => seen.contains(&number),
            Fate::Aborted => false,
        };
        let numbers: Vec<usize> =
            (0..self.history.len()).filter(|number| counts(*number)).collect();
        let mut graph = Graph::default();
        for (key, order) in &self.orders {
            let writer = |at: usize| {
                let element = order.get(at)?;
                self.writers.get(element).filter(|(_, home)| home == key).map(|(one, _)| *one)
            };
            for at in 1..order.len() {
                graph.add(writer(at - 1), writer(at), Edge::WriteWrite);
            }
            for number in &numbers {
                let Some(read) = self.history[*number].reads.get(*key) else { continue };
                let before = read.len().checked_sub(1).and_then(writer);
                graph.add(before, Some(*number), Edge::WriteRead);
                graph.add(Some(*number), writer(read.len()), Edge::ReadWrite);
            }
        }
        let unknown = numbers.iter().filter(|number| self.history[**number].fate == Fate::Unknown);
        let extent =
            Extent { transactions: numbers.len(), edges: graph.len(), resolved: unknown.count() };
        let time = numbers.iter().map(|number| {
            let one = &self.history[*number];
            let answered = (one.fate == Fate::Committed).then_some(one.answered);
            (*number, one.asked, answered)
        });
        let found = graph.cycle(time.collect());
        self.anomalies.extend(found.map(|(kind, cycle)| Anomaly::Cycle(kind, cycle)));
        extent
    }
}
