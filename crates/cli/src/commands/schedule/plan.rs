//! Which slots of a job are due, and which were missed.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use super::file::{Job, Missed, Overlap};
use crate::jobs::{Delivery, Outcome, Record, utc};

/// Slots of one job that may wait.
const WAITING_MAX: usize = 1000;
/// Runs of one job at the same time, where they may overlap.
const ALLOWED_MAX: usize = 100;

/// What is to be done about a job now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Run this slot.
    Start(String),
    /// Remember that it was not run, and why.
    Skip(String, Why),
}

/// Why a slot is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Its time had passed.
    Missed,
    /// The one before it still ran.
    Overlaps,
}

/// The slots of one job, in one leader's tenure.
#[derive(Debug)]
pub(super) struct Plan {
    job: Job,
    /// Slots up to here have been dealt with.
    seen: Timestamp,
    /// To be run when there is room.
    waiting: VecDeque<String>,
    running: usize,
}

impl Plan {
    /// A plan that goes on where earlier leaders came to. `since` is when the job was first seen.
    pub(super) fn resume(job: Job, records: &[Record], since: Timestamp, now: Timestamp) -> Plan {
        let handled = records.iter().filter_map(|record| record.slot.parse::<Timestamp>().ok());
        let oldest = now.checked_sub(job.keep).unwrap_or(since);
        // What is older than that is not remembered, and cannot be told from what was missed.
        let seen = handled.max().unwrap_or(since).max(oldest);
        // Begun by a leader that leads no more.
        let interrupted = records.iter().filter(|record| {
            record.outcome == Outcome::Running && job.delivery == Delivery::AtLeastOnce
        });
        let waiting = interrupted.map(|record| record.slot.clone()).collect();
        Plan { job, seen, waiting, running: 0 }
    }

    pub(super) fn job(&self) -> &Job {
        &self.job
    }

    /// When there is something to do next, if all that is due now is done.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let next = self.job.timetable.next(self.seen)?;
        next.checked_add(self.delay(&utc(next))).ok()
    }

    /// A run has ended.
    pub(super) fn ended(&mut self) {
        self.running -= 1;
    }

    /// What is to be done now.
    pub(super) fn steps(&mut self, now: Timestamp) -> Vec<Step> {
        let (mut missed, mut due) = (VecDeque::new(), Vec::new());
        while let Some(next) = self.job.timetable.next(self.seen) {
            let slot = utc(next);
            if next.checked_add(self.delay(&slot)).map_or(true, |due| due > now) {
                break;
            }
            self.seen = next;
            let late = Duration::try_from(now.duration_since(next)).unwrap_or_default();
            if late <= self.job.late_after {
                due.push(slot);
            } else {
                missed.push_back(slot);
                if missed.len() > WAITING_MAX {
                    missed.pop_front();
                }
            }
        }
        let mut steps = Vec::new();
        match (self.job.missed, missed.pop_back()) {
            (_, None) => {}
            // One record is enough to know how far the plan has come.
            (Missed::Skip, Some(last)) => steps.push(Step::Skip(last, Why::Missed)),
            // What is due now makes up for it.
            (Missed::RunOnce, Some(_)) if !due.is_empty() => {}
            (Missed::RunOnce, Some(last)) => self.waiting.push_back(last),
            (Missed::RunAll, Some(last)) => {
                self.waiting.extend(missed.into_iter().chain([last]));
                self.waiting.extend(due.drain(..));
            }
        }
        for slot in due {
            let is_free = self.running + self.waiting.len() == 0;
            let may_wait = self.job.overlap != Overlap::Forbid && self.waiting.len() < WAITING_MAX;
            if is_free || may_wait {
                self.waiting.push_back(slot);
            } else {
                steps.push(Step::Skip(slot, Why::Overlaps));
            }
        }
        let room = match self.job.overlap {
            Overlap::Allow => ALLOWED_MAX,
            Overlap::Forbid | Overlap::Queue => 1,
        };
        while self.running < room {
            let Some(slot) = self.waiting.pop_front() else { break };
            self.running += 1;
            steps.push(Step::Start(slot));
        }
        steps
    }

    /// How much later a slot starts, so that not all jobs start at the same moment: the same on every machine.
    fn delay(&self, slot: &str) -> Duration {
        let Ok(most) = u64::try_from(self.job.jitter.as_millis()) else { return Duration::ZERO };
        if most == 0 {
            return Duration::ZERO;
        }
        let text = [&self.job.name, "/", slot].concat();
        // FNV-1a: nothing depends on its quality.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Duration::from_millis(hash % most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Timetable;

    fn job(missed: Missed, overlap: Overlap) -> Job {
        Job {
            name: "job".into(),
            timetable: Timetable::every(Duration::from_secs(60)).unwrap(),
            command: vec!["true".into()],
            environment: Default::default(),
            delivery: Delivery::AtMostOnce,
            missed,
            late_after: Duration::from_secs(30),
            overlap,
            timeout: None,
            jitter: Duration::ZERO,
            retries: 0,
            keep: Duration::from_secs(86400),
        }
    }

    fn at(text: &str) -> Timestamp {
        format!("2026-11-18T{text}Z").parse().unwrap()
    }

    fn record(slot: &str, outcome: Outcome) -> Record {
        Record {
            slot: utc(at(slot)),
            outcome,
            identity: "a".into(),
            token: 1,
            started_unix_ms: 0,
            ended_unix_ms: None,
            exit_code: None,
            attempts: 0,
        }
    }

    fn start(slot: &str) -> Step {
        Step::Start(utc(at(slot)))
    }

    fn skip(slot: &str, why: Why) -> Step {
        Step::Skip(utc(at(slot)), why)
    }

    #[test]
    fn plan_starts_each_slot_once_from_the_first_after_the_job_was_seen() {
        let mut plan =
            Plan::resume(job(Missed::Skip, Overlap::Forbid), &[], at("10:00:30"), at("10:00:30"));
        assert_eq!(plan.steps(at("10:00:59")), []);
        assert_eq!(plan.next(), Some(at("10:01:00")));
        assert_eq!(plan.steps(at("10:01:00")), [start("10:01:00")]);
        plan.ended();
        // The clock is set back: nothing is started again.
        assert_eq!(plan.steps(at("10:00:00")), []);
        assert_eq!(plan.steps(at("10:01:30")), []);
        assert_eq!(plan.steps(at("10:02:01")), [start("10:02:00")]);
    }

    #[test]
    fn plan_after_a_takeover_goes_on_after_the_last_slot_that_was_handled() {
        let records = [record("10:01:00", Outcome::Done), record("10:02:00", Outcome::Running)];
        let mut plan = Plan::resume(
            job(Missed::Skip, Overlap::Forbid),
            &records,
            at("09:00:00"),
            at("10:03:05"),
        );
        assert_eq!(plan.steps(at("10:03:05")), [start("10:03:00")]);
        // A run that was interrupted is run again if that was asked for.
        let again = Job { delivery: Delivery::AtLeastOnce, ..job(Missed::Skip, Overlap::Queue) };
        let mut plan = Plan::resume(again, &records, at("09:00:00"), at("10:02:05"));
        assert_eq!(plan.steps(at("10:02:05")), [start("10:02:00")]);
    }

    #[test]
    fn plan_treats_missed_slots_by_policy() {
        let missed = |policy| {
            let records = [record("10:00:00", Outcome::Done)];
            let mut plan =
                Plan::resume(job(policy, Overlap::Queue), &records, at("09:00:00"), at("10:03:50"));
            let mut steps = plan.steps(at("10:03:50"));
            while plan.running > 0 {
                plan.ended();
                steps.extend(plan.steps(at("10:03:50")));
            }
            steps
        };
        assert_eq!(missed(Missed::Skip), [skip("10:03:00", Why::Missed)]);
        assert_eq!(missed(Missed::RunOnce), [start("10:03:00")]);
        assert_eq!(
            missed(Missed::RunAll),
            [start("10:01:00"), start("10:02:00"), start("10:03:00")]
        );
    }

    #[test]
    fn plan_treats_overlaps_by_policy() {
        let overlapping = |policy| {
            let mut plan =
                Plan::resume(job(Missed::Skip, policy), &[], at("10:00:00"), at("10:00:00"));
            assert_eq!(plan.steps(at("10:01:00")), [start("10:01:00")]);
            (plan.steps(at("10:02:00")), {
                plan.ended();
                plan.steps(at("10:02:30"))
            })
        };
        assert_eq!(overlapping(Overlap::Forbid), (vec![skip("10:02:00", Why::Overlaps)], vec![]));
        assert_eq!(overlapping(Overlap::Queue), (vec![], vec![start("10:02:00")]));
        assert_eq!(overlapping(Overlap::Allow), (vec![start("10:02:00")], vec![]));
    }

    #[test]
    fn plan_delays_a_slot_by_less_than_its_jitter_and_alike_on_every_machine() {
        let jitter = Duration::from_secs(20);
        let plan = |_| {
            let job = Job { jitter, ..job(Missed::Skip, Overlap::Forbid) };
            Plan::resume(job, &[], at("10:00:00"), at("10:00:00")).next().unwrap()
        };
        let (one, other) = (plan(1), plan(2));
        assert_eq!(one, other);
        assert!(one >= at("10:01:00") && one < at("10:01:20"), "{one}");
    }
}
