//! What was acknowledged is there, once, at the revision that was told. What was refused is not there
//! and never will be.

use std::collections::BTreeSet;

use bytes::Bytes;
use tenure_api::{Failure, Op, Revision};
use tenure_replica::{Answer, Outcome, Reply, Request, command::Command};

use super::{must, one_answer::Open};
use crate::{cluster::truth::Truth, engine::Counts};

pub const NAME: &str = "written_once";

#[derive(Default)]
pub struct WrittenOnce {
    refused: BTreeSet<Bytes>,
    /// Values are not unique in this world, so they prove nothing.
    pub values_repeat: bool,
}

impl WrittenOnce {
    /// Values were written by an entry that has just been agreed on.
    pub fn judge_entry(&self, values: &[Bytes], truth: &Truth) {
        for value in values.iter().filter(|_| !self.values_repeat) {
            let at = truth.written(value);
            must!(at.len() == 1, "{value:?} was written {} times: {at:?}", at.len());
            must!(
                !self.refused.contains(value),
                "{value:?} was refused and is written all the same"
            );
        }
    }

    pub fn judge_answer(
        &mut self,
        open: &Open,
        answer: &Answer,
        truth: &Truth,
        counts: &mut Counts,
    ) {
        let Request::Write(command) = &open.request else { return };
        if self.values_repeat {
            return;
        }
        match (command, &answer.result) {
            (Command::Put(put), Ok(_)) => {
                counts.count(NAME);
                is_written(put.value.as_ref(), answer.revision, truth);
            }
            (Command::Txn(txn), Ok(Reply::Wrote(Outcome::Txn(result)))) => {
                counts.count(NAME);
                let (taken, other) = match result.succeeded {
                    true => (&txn.success, &txn.failure),
                    false => (&txn.failure, &txn.success),
                };
                values(taken).for_each(|value| is_written(Some(value), answer.revision, truth));
                values(other).for_each(|value| self.refuse(value, truth));
            }
            (Command::Put(put), Err(failure)) if is_refusal(*failure) => {
                put.value.iter().for_each(|value| self.refuse(value, truth));
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

fn is_written(value: Option<&Bytes>, at: Revision, truth: &Truth) {
    let Some(value) = value else { return };
    let written = truth.written(value);
    must!(written == [at], "{value:?} was acknowledged at {at} but is written at {written:?}");
}

fn values(ops: &[Op]) -> impl Iterator<Item = &Bytes> {
    ops.iter().filter_map(|op| match op {
        Op::Put(put) => put.value.as_ref(),
        _ => None,
    })
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
