//! An acknowledged write is there, once, at the revision of its answer. A refused write is not there and never will be.

use std::collections::BTreeSet;

use bytes::Bytes;
use tenure_api::{Failure, Op, Revision};
use tenure_replica::{Answer, Operation, Outcome, Reply, command::Command};

use super::{must, one_answer::OpenRequest};
use crate::{cluster::truth::Truth, engine::RunCounts};

pub const NAME: &str = "written_once";

/// The prefix of values that are written only once. Others prove nothing: a moved candidate keeps its value, and a leader
/// proclaims any value.
pub const ONCE: &str = "once ";

#[derive(Default)]
pub struct WrittenOnce {
    refused: BTreeSet<Bytes>,
}

impl WrittenOnce {
    /// Values were written by an entry that has just been agreed on.
    pub fn check_entry(&self, values: &[Bytes], truth: &Truth) {
        for value in values.iter().filter(|value| is_unique(value)) {
            let at = truth.written(value);
            must!(at.len() == 1, "{value:?} was written {} times: {at:?}", at.len());
            must!(!self.refused.contains(value), "{value:?} was refused but is written");
        }
    }

    pub fn check_answer(
        &mut self,
        open: &OpenRequest,
        answer: &Answer,
        truth: &Truth,
        counts: &mut RunCounts,
    ) {
        let Operation::Write(command) = &open.request else { return };
        match (command, &answer.result) {
            (Command::Put(put), Ok(_)) => {
                let value = unique(put.value.as_ref());
                value.for_each(|value| is_written(value, answer.revision, truth, counts));
            }
            (Command::Txn(txn), Ok(Reply::Wrote(Outcome::Txn(result)))) => {
                let (taken, other) = match result.succeeded {
                    true => (&txn.success, &txn.failure),
                    false => (&txn.failure, &txn.success),
                };
                values(taken).for_each(|value| is_written(value, answer.revision, truth, counts));
                values(other).for_each(|value| self.refuse(value, truth));
            }
            (Command::Put(put), Err(failure)) if is_refusal(*failure) => {
                unique(put.value.as_ref()).for_each(|value| self.refuse(value, truth));
            }
            (Command::Txn(txn), Err(failure)) if is_refusal(*failure) => {
                let both = values(&txn.success).chain(values(&txn.failure));
                both.for_each(|value| self.refuse(value, truth));
            }
            _ => {}
        }
    }

    fn refuse(&mut self, value: &Bytes, truth: &Truth) {
        let at = truth.written(value);
        must!(at.is_empty(), "{value:?} was refused but is written at {at:?}");
        self.refused.insert(value.clone());
    }
}

fn is_unique(value: &Bytes) -> bool {
    value.starts_with(ONCE.as_bytes())
}

fn unique<'a>(value: impl IntoIterator<Item = &'a Bytes>) -> impl Iterator<Item = &'a Bytes> {
    value.into_iter().filter(|value| is_unique(value))
}

fn is_written(value: &Bytes, at: Revision, truth: &Truth, counts: &mut RunCounts) {
    counts.count(NAME);
    let written = truth.written(value);
    must!(written == [at], "{value:?} was acknowledged at {at} but is written at {written:?}");
}

fn values(ops: &[Op]) -> impl Iterator<Item = &Bytes> {
    unique(ops.iter().filter_map(|op| match op {
        Op::Put(put) => put.value.as_ref(),
        _ => None,
    }))
}

/// Answers that promise that nothing was changed.
fn is_refusal(failure: Failure) -> bool {
    !matches!(
        failure,
        Failure::TimedOut
            | Failure::TimedOutLeaderFailure
            | Failure::TimedOutConnectionLost
            | Failure::LeaderChanged
            | Failure::Stopped
    )
}
