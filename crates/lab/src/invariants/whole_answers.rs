//! An answer is complete and true: a write's outcome is the one that the log gives at that revision, and a read found
//! what the agreed state holds at that revision.

use tenure_replica::{Answer, Operation, Read, Reply, State, command::Command};

use super::{must, one_answer::OpenRequest};
use crate::{cluster::truth::Truth, engine::RunCounts};

pub const NAME: &str = "whole_answers";

pub fn check(open: &OpenRequest, answer: &Answer, truth: &Truth, counts: &mut RunCounts) {
    let Ok(reply) = &answer.result else { return };
    let at = answer.revision;
    let fits = |fits: &dyn Fn(&State) -> bool| {
        // Older states are not kept, if a member lags that far behind.
        let mut states = truth.states_at(at).peekable();
        states.peek().is_none() || states.any(fits)
    };
    let holds = match (&open.request, reply) {
        // The client is answered when the change is done.
        (Operation::Write(Command::Members(_)), _) => return,
        (Operation::Write(command), Reply::Wrote(outcome)) => truth.did(command, at, outcome),
        (Operation::Read(Read::Range(range), _), Reply::Range(found)) => {
            fits(&|state| state.store.range(range).as_ref() == Ok(found))
        }
        (Operation::Read(Read::Txn(txn), _), Reply::Txn(found)) => {
            fits(&|state| state.store.read_txn(txn).as_ref() == Ok(found))
        }
        (Operation::Read(Read::Leases, _), Reply::Leases(found)) => {
            fits(&|state| state.leases.iter().map(|(id, _)| id).eq(found.iter().copied()))
        }
        (Operation::Read(Read::Members, _), Reply::Members(found)) => {
            fits(&|state| state.members() == *found)
        }
        _ => return,
    };
    counts.count(NAME);
    must!(holds, "{:?} was answered at {at} with {reply:?}, which was never so", open.request);
}
