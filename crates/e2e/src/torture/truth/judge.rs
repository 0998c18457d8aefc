//! Every answer of a round against the log.

use std::collections::{BTreeMap, BTreeSet};

use super::Log;
use crate::{
    Record,
    torture::history::{Answer, Call, Operation, Register, Value},
};

/// What clients were told in a round.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Operations on registers, by key.
    pub registers: BTreeMap<String, Vec<Operation>>,
    /// Values of writes to registers that were refused for certain.
    pub refused: BTreeSet<Value>,
    /// Keys that were written once, and the revision of those that were acknowledged.
    pub written: BTreeMap<String, i64>,
    /// Keys of writes that were refused for certain.
    pub not_written: BTreeSet<String>,
    /// Keys of writes whose outcome is unknown.
    pub perhaps_written: BTreeSet<String>,
    /// Leases by id.
    pub leases: BTreeMap<i64, LeaseAnswers>,
    /// Reads of earlier revisions: key, revision, and the value, or none if it was said to be compacted.
    pub past: Vec<PastRead>,
}

/// What was said of one lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseAnswers {
    /// Renewals that were confirmed.
    pub confirmed: usize,
    /// Renewals without an answer.
    pub unknown: usize,
    /// It was said to be gone.
    pub gone: bool,
}

/// A read of a register at an earlier revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRead {
    /// The register's key.
    pub key: String,
    /// The revision that was asked for.
    pub revision: i64,
    /// What was there; none if the revision was said to be compacted.
    pub found: Option<Register>,
}

/// How many answers of each kind were judged, and what was wrong.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Reads of what is there now.
    pub reads: usize,
    /// Writes, deletions and transactions.
    pub writes: usize,
    /// Outcomes that were unknown to the client and are known to the log: done, and not done.
    pub unknown: (usize, usize),
    /// Refusals.
    pub refusals: usize,
    /// Answers about leases.
    pub leases: usize,
    /// Reads of earlier revisions, and how many of them were refused as compacted.
    pub past: (usize, usize),
    /// What was wrong.
    pub wrong: Vec<String>,
}

/// Holds every answer against the log.
pub fn judge(log: &Log, answers: &Answers) -> Judgement {
    let mut done = Judgement { wrong: log.wrong.clone(), ..Judgement::default() };
    for (key, operations) in &answers.registers {
        for operation in operations {
            done.register(log, key, operation);
        }
        done.deletions(log, key, operations);
    }
    done.nothing_else(log, answers);
    done.in_time(answers);
    done.written_once(log, answers);
    done.leases(log, answers);
    done.past(log, answers);
    done
}

fn parse(value: Option<&[u8]>) -> Register {
    value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok())
}

impl Judgement {
    fn register(&mut self, log: &Log, key: &str, operation: &Operation) {
        let at = |revision| parse(log.at(key.as_bytes(), revision));
        let written = operation.call.value().and_then(|value| {
            let writes = log.values.get(&(key.into(), value.to_string().into()))?;
            if writes.len() > 1 {
                self.wrong.push(format!("{key}: {value} was written {} times", writes.len()));
            }
            writes.first().copied()
        });
        let Some(answer) = operation.answer else {
            match operation.call {
                // A deletion has no value by which the log could name it; `deletions` counts those.
                Call::Get | Call::Delete => {}
                _ if written.is_some() => self.unknown.0 += 1,
                _ => self.unknown.1 += 1,
            }
            return;
        };
        let Answer { revision, before, swapped, .. } = answer;
        let mut complain = |what: String| {
            self.wrong.push(format!("{key} at revision {revision}: {what}: {operation:?}"));
        };
        if revision > log.revision {
            return complain(format!("the log ends at revision {}", log.revision));
        }
        let (read, kept) = match operation.call {
            Call::Get => (at(revision), true),
            Call::Put(_) => (at(revision - 1), written == Some(revision)),
            Call::Swap { .. } if swapped => (at(revision - 1), written == Some(revision)),
            Call::Swap { .. } => (at(revision), written.is_none()),
            Call::Delete if before == Some(None) => (at(revision), true),
            Call::Delete => {
                let deleted = log.deletions.get(key.as_bytes());
                (at(revision - 1), deleted.is_some_and(|all| all.contains(&revision)))
            }
        };
        if !kept {
            complain(format!("the log has the write at {written:?}"));
        }
        if before.is_some_and(|before| before != read) {
            complain(format!("the log says {read:?}"));
        }
        match operation.call {
            Call::Get => self.reads += 1,
            _ => self.writes += 1,
        }
    }

    /// No more deletions than were acknowledged or may have happened.
    fn deletions(&mut self, log: &Log, key: &str, operations: &[Operation]) {
        let deletes = || operations.iter().filter(|one| one.call == Call::Delete);
        let answered = deletes().filter_map(|one| one.answer).filter(|a| a.before != Some(None));
        let known: BTreeSet<i64> = answered.map(|answer| answer.revision).collect();
        let open = deletes().filter(|one| one.answer.is_none()).count();
        let in_log = log.deletions.get(key.as_bytes()).map_or(&[][..], Vec::as_slice);
        let more = in_log.iter().filter(|revision| !known.contains(revision)).count();
        if more > open {
            let text =
                format!("{key}: {more} deletions of unknown origin, {open} may have happened");
            self.wrong.push(text);
        }
    }

    /// What was refused is not there, and nothing is there that was not asked for.
    fn nothing_else(&mut self, log: &Log, answers: &Answers) {
        self.refusals += answers.refused.len();
        for (key, operations) in &answers.registers {
            let asked: BTreeSet<Value> =
                operations.iter().filter_map(|operation| operation.call.value()).collect();
            let versions = log.keys.get(key.as_bytes()).into_iter().flatten();
            for value in versions.filter_map(|version| parse(version.value.as_deref())) {
                if answers.refused.contains(&value) {
                    self.wrong.push(format!("{key}: {value} was refused and is in the log"));
                } else if !asked.contains(&value) {
                    self.wrong
                        .push(format!("{key}: {value} is in the log, and nobody asked for it"));
                }
            }
        }
    }

    /// Whatever was answered before an operation began is not later in the log than it.
    fn in_time(&mut self, answers: &Answers) {
        let mut told: Vec<(u64, i64)> = Vec::new();
        for operation in answers.registers.values().flatten() {
            told.extend(operation.answer.map(|answer| (answer.at, answer.revision)));
        }
        told.sort_unstable();
        let mut highest = 0;
        let highest: Vec<i64> = told
            .iter()
            .map(|(_, revision)| {
                highest = highest.max(*revision);
                highest
            })
            .collect();
        for (key, operations) in &answers.registers {
            for operation in operations {
                let Some(answer) = operation.answer else { continue };
                let before = told.partition_point(|(at, _)| *at < operation.asked);
                let floor = before.checked_sub(1).map_or(0, |last| highest[last]);
                let writes = matches!(operation.call, Call::Put(_)) || answer.swapped;
                if answer.revision < floor + i64::from(writes && floor > 0) {
                    self.wrong.push(format!(
                        "{key}: revision {floor} had been answered before {operation:?} began"
                    ));
                }
            }
        }
    }

    fn written_once(&mut self, log: &Log, answers: &Answers) {
        for (key, revision) in &answers.written {
            self.writes += 1;
            let found: Vec<i64> = log.keys.get(key.as_bytes()).map_or(vec![], |versions| {
                versions.iter().map(|version| version.revision).collect()
            });
            if found != [*revision] {
                self.wrong
                    .push(format!("{key} was acknowledged at {revision}, the log: {found:?}"));
            }
        }
        for key in &answers.perhaps_written {
            let times = log.keys.get(key.as_bytes()).map_or(0, Vec::len);
            match times {
                0 => self.unknown.1 += 1,
                1 => self.unknown.0 += 1,
                _ => self.wrong.push(format!("{key} was written {times} times")),
            }
        }
        for key in &answers.not_written {
            self.refusals += 1;
            if log.keys.contains_key(key.as_bytes()) {
                self.wrong.push(format!("{key} was refused and is in the log"));
            }
        }
    }

    fn leases(&mut self, log: &Log, answers: &Answers) {
        for (id, told) in &answers.leases {
            self.leases += 1 + told.confirmed + usize::from(told.gone);
            let Some(story) = log.leases.get(id) else {
                self.wrong.push(format!("lease {id:x} was granted and is not in the log"));
                continue;
            };
            // More renewals than were confirmed: the library repeats what it may.
            if story.grants != 1 || story.renewals < told.confirmed {
                self.wrong.push(format!("lease {id:x}: told {told:?}, the log: {story:?}"));
            }
            if told.gone && !story.ended {
                self.wrong.push(format!("lease {id:x} was said to be gone and lives in the log"));
            }
        }
    }

    /// Below the compaction there may be an error; above it, never. A value is always the right one.
    fn past(&mut self, log: &Log, answers: &Answers) {
        for PastRead { key, revision, found } in &answers.past {
            self.past.0 += 1;
            match found {
                None => {
                    self.past.1 += 1;
                    if *revision >= log.compacted {
                        self.wrong.push(format!(
                            "revision {revision} was said to be compacted, which was up to {}",
                            log.compacted
                        ));
                    }
                }
                Some(found) => {
                    let truth = parse(log.at(key.as_bytes(), *revision));
                    if *found != truth {
                        self.wrong.push(format!(
                            "{key} at revision {revision} was answered as {found:?}, the log: {truth:?}"
                        ));
                    }
                }
            }
        }
    }
}

impl Answers {
    /// What writers of keys that are written once were told.
    pub fn add_load(&mut self, record: &Record) {
        self.written.extend(record.acknowledged.clone());
        self.not_written.extend(record.refused.keys().cloned());
        self.perhaps_written.extend(record.unknown.keys().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::truth::model::{LeaseStory, Version};

    const KEY: &str = "register/1";

    fn told(asked: u64, at: u64, call: Call, revision: i64, before: Option<Register>) -> Operation {
        let swapped = matches!(call, Call::Swap { expected, .. } if before == Some(expected));
        let answer = Some(Answer { at, before, swapped, revision });
        Operation { client: 0, asked, call, answer }
    }

    /// 1 is put at revision 2, swapped for 2 at 3, deleted at 4, and 3 is put at 5; `once` is written at 6.
    fn log() -> Log {
        let mut log = Log { revision: 6, compacted: 3, ..Log::default() };
        let history = [(2, Some("1")), (3, Some("2")), (4, None), (5, Some("3"))];
        let version = |(revision, value): (i64, Option<&str>)| Version {
            revision,
            value: value.map(|value| value.as_bytes().to_vec()),
            lease: None,
        };
        log.keys.insert(KEY.into(), history.map(version).to_vec());
        log.keys.insert("once".into(), vec![version((6, Some("once")))]);
        for (revision, value) in history {
            let Some(value) = value else { continue };
            log.values.insert((KEY.into(), value.into()), vec![revision]);
        }
        log.deletions.insert(KEY.into(), vec![4]);
        let mut story = LeaseStory::default();
        (story.grants, story.renewals, story.ended) = (1, 2, true);
        log.leases.insert(7, story);
        log
    }

    fn answers() -> Answers {
        let operations = vec![
            told(0, 10, Call::Put(1), 2, Some(None)),
            told(11, 20, Call::Get, 2, Some(Some(1))),
            told(21, 30, Call::Swap { expected: Some(1), value: 2 }, 3, Some(Some(1))),
            told(31, 40, Call::Delete, 4, Some(Some(2))),
            told(41, 50, Call::Delete, 4, Some(None)),
            told(51, 60, Call::Swap { expected: Some(1), value: 9 }, 4, Some(None)),
            Operation { client: 0, asked: 61, call: Call::Put(3), answer: None },
            Operation { client: 0, asked: 61, call: Call::Put(8), answer: None },
            told(71, 80, Call::Get, 5, Some(Some(3))),
        ];
        Answers {
            registers: BTreeMap::from([(KEY.to_owned(), operations)]),
            refused: BTreeSet::from([77]),
            written: BTreeMap::from([("once".to_owned(), 6)]),
            not_written: BTreeSet::from(["never".to_owned()]),
            perhaps_written: BTreeSet::from(["perhaps".to_owned()]),
            leases: BTreeMap::from([(7, LeaseAnswers { confirmed: 1, unknown: 1, gone: true })]),
            past: vec![
                PastRead { key: KEY.to_owned(), revision: 2, found: None },
                PastRead { key: KEY.to_owned(), revision: 3, found: Some(Some(2)) },
            ],
        }
    }

    #[test]
    fn truth_accepts_right_answers() {
        let done = judge(&log(), &answers());
        assert_eq!(done.wrong, Vec::<String>::new());
        assert_eq!((done.reads, done.writes, done.refusals), (2, 6, 2));
        assert_eq!((done.unknown, done.leases, done.past), ((1, 2), 3, (2, 1)));
    }

    /// One wrong answer, of each kind.
    #[test]
    fn truth_objects_to_each_wrong_answer() {
        type Lie = (&'static str, fn(&mut Answers, &mut Log));
        fn operations(answers: &mut Answers) -> &mut Vec<Operation> {
            answers.registers.get_mut(KEY).unwrap()
        }
        fn answer(answers: &mut Answers, at: usize) -> &mut Answer {
            operations(answers)[at].answer.as_mut().unwrap()
        }
        let lies: [Lie; 24] = [
            ("a put at another revision", |a, _| answer(a, 0).revision = 3),
            ("a put that is not in the log", |a, _| operations(a)[0].call = Call::Put(50)),
            ("a put that found something else", |a, _| answer(a, 0).before = Some(Some(5))),
            ("a put that is there twice", |_, log| {
                log.values.get_mut(&(KEY.into(), b"1".to_vec())).unwrap().push(9);
            }),
            ("a stale read", |a, _| {
                *answer(a, 8) = Answer { revision: 2, before: Some(Some(1)), ..*answer(a, 8) };
            }),
            ("a read of nothing", |a, _| answer(a, 1).before = Some(None)),
            ("a read of the future", |a, _| answer(a, 8).revision = 99),
            ("a swap that was not done", |a, _| answer(a, 5).swapped = true),
            ("a swap that was done after all", |a, _| answer(a, 2).swapped = false),
            ("a swap of something else", |a, _| answer(a, 2).before = Some(Some(6))),
            ("a deletion that is not there", |_, log| log.deletions.clear()),
            ("a deletion too many", |_, log| {
                log.deletions.get_mut(KEY.as_bytes()).unwrap().push(6)
            }),
            ("a deletion that found something else", |a, _| answer(a, 3).before = Some(Some(1))),
            ("a deletion that found nothing", |a, _| {
                *answer(a, 4) = Answer { revision: 3, ..*answer(a, 4) };
            }),
            ("a refusal of what is there", |a, _| {
                let _ = a.refused.insert(1);
            }),
            ("a write that nobody asked for", |a, _| {
                let _ = operations(a).remove(6);
            }),
            ("an acknowledged key at another revision", |a, _| {
                let _ = a.written.insert("once".into(), 5);
            }),
            ("an acknowledged key that is gone", |a, _| {
                let _ = a.written.insert("gone".into(), 5);
            }),
            ("a refused key that is there", |a, _| {
                let _ = a.not_written.insert("once".into());
            }),
            ("a lease that was never granted", |a, _| {
                let _ = a.leases.insert(8, LeaseAnswers::default());
            }),
            ("a renewal that is not in the log", |a, _| {
                a.leases.get_mut(&7).unwrap().confirmed = 3
            }),
            ("a lease that is gone and lives", |_, log| {
                log.leases.get_mut(&7).unwrap().ended = false
            }),
            ("compacted above the compaction", |a, _| a.past[0].revision = 3),
            ("another past", |a, _| a.past[1].found = Some(Some(1))),
        ];
        for (name, lie) in lies {
            let (mut answers, mut log) = (answers(), log());
            lie(&mut answers, &mut log);
            assert!(!judge(&log, &answers).wrong.is_empty(), "{name} was not noticed");
        }
        // An unknown outcome may be there once, not twice.
        let mut twice = log();
        let versions = twice.keys[&b"once"[..]].clone();
        twice.keys.insert(b"perhaps".to_vec(), [versions.clone(), versions].concat());
        assert!(!judge(&twice, &answers()).wrong.is_empty());
    }
}
