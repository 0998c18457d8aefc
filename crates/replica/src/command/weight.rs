//! How much a command may turn out to be, as far as it can be told before it is done.
//!
//! An entry is applied in one go. What makes an entry is therefore limited not only in bytes and commands but also in
//! weight: a few hundred bytes can ask for the greatest of many thousand values, a hundred times over.

use tenure_api::{Op, Span, Txn};

use super::Command;

/// What a step weighs that may look at many keys.
const WIDE: usize = 32;

impl Command {
    /// How many commands that touch one key it weighs.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Command::Txn(txn) => of_txn(txn),
            Command::DeleteRange(delete) => of_span(&delete.span),
            _ => 1,
        }
    }
}

/// Both branches: it is not known yet which one it will be.
fn of_txn(txn: &Txn) -> usize {
    let compares = txn.compare.iter().map(|compare| of_span(&compare.span));
    let steps = txn.success.iter().chain(&txn.failure).map(|op| match op {
        Op::Range(range) => of_span(&range.span),
        Op::DeleteRange(delete) => of_span(&delete.span),
        Op::Put(_) => 1,
        Op::Txn(inner) => of_txn(inner),
    });
    compares.chain(steps).sum::<usize>().max(1)
}

fn of_span(span: &Span) -> usize {
    if span.is_wide() { WIDE } else { 1 }
}
