//! How much one call has done, so that no call does too much.
//!
//! A member that applies or reads for a second takes no messages meanwhile, and the others elect a new raft leader. The
//! replica has no clock to notice that by. It counts instead what the time goes into: commands, reads, and the keys that
//! they looked at.

use tenure_api::{Failure, Op, OpResult, Txn};

use crate::{
    command::Command,
    input::{Read, Reply},
    state::Outcome,
};

/// What a command or a read costs that looks at one key, in keys that a range passes over.
const ONE: usize = 20;
/// What one call may apply, and what it may read, or a little more: 1024 commands that touch one key each, which takes a few
/// milliseconds. The rest follows in the next.
const CALL_MAX: usize = 1024 * ONE;

/// What was done in one call.
#[derive(Debug, Default)]
pub(super) struct Budget(usize);

impl Budget {
    /// A command was applied to a store of so many keys.
    pub(super) fn applied(
        &mut self,
        command: &Command,
        outcome: &Result<Outcome, Failure>,
        keys_in_all: usize,
    ) {
        let compared = if let Command::Txn(txn) = command { wide_compares(txn) } else { 0 };
        self.0 += ONE
            + compared * keys_in_all
            + match outcome {
                Ok(Outcome::DeleteRange(done)) => ONE * keys(done.deleted),
                Ok(Outcome::Txn(done)) => steps(&done.responses),
                _ => 0,
            };
    }

    /// A store of so many keys is about to be read.
    pub(super) fn begin_read(&mut self, read: &Read, keys_in_all: usize) {
        let compared = if let Read::Txn(txn) = read { wide_compares(txn) } else { 0 };
        self.0 += ONE + compared * keys_in_all;
    }

    /// That was found.
    pub(super) fn answered(&mut self, result: &Result<Reply, Failure>) {
        self.0 += match result {
            Ok(Reply::Range(found)) => keys(found.count),
            Ok(Reply::Txn(done)) => steps(&done.responses),
            Ok(Reply::Leases(leases)) => leases.len(),
            Ok(Reply::Elections(elections, _)) => ONE * elections.len(),
            _ => 0,
        };
    }

    /// Whether that is enough for one call.
    pub(super) fn is_enough(&self) -> bool {
        self.0 > CALL_MAX
    }
}

/// Comparisons that look at many keys, in both branches: at most so many were made, each of all keys.
fn wide_compares(txn: &Txn) -> usize {
    let inner = |op: &Op| if let Op::Txn(txn) = op { wide_compares(txn) } else { 0 };
    let own = txn.compare.iter().filter(|compare| compare.span.is_wide()).count();
    own + txn.success.iter().chain(&txn.failure).map(inner).sum::<usize>()
}

fn steps(steps: &[OpResult]) -> usize {
    let step = |step: &OpResult| match step {
        OpResult::Range(found) => keys(found.count),
        OpResult::Put(_) => ONE,
        OpResult::DeleteRange(done) => ONE * keys(done.deleted),
        OpResult::Txn(done) => self::steps(&done.responses),
    };
    steps.iter().map(step).sum()
}

fn keys(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}
