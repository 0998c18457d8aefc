//! What a transaction must obey before it reaches the store.

use std::collections::BTreeSet;

use tenure_api::{Failure, Op, Span, Txn};

/// etcd's static rules: not too many operations, every operation names a key, and no branch writes a
/// key twice.
pub fn check_txn(txn: &Txn, max_ops: usize) -> Result<(), Failure> {
    check_shape(txn, max_ops)?;
    writes(&txn.success)?;
    writes(&txn.failure)?;
    Ok(())
}

/// The longest of the three lists counts, and what is nested may only use what that leaves.
fn check_shape(txn: &Txn, max_ops: usize) -> Result<(), Failure> {
    let longest = txn.compare.len().max(txn.success.len()).max(txn.failure.len());
    let left = max_ops.checked_sub(longest).ok_or(Failure::TooManyOps)?;
    if txn.compare.iter().any(|compare| compare.span.start().is_empty()) {
        return Err(Failure::EmptyKey);
    }
    for op in txn.success.iter().chain(&txn.failure) {
        let key = match op {
            Op::Txn(nested) => {
                check_shape(nested, left)?;
                continue;
            }
            Op::Range(range) => range.span.start(),
            Op::Put(put) => &put.key,
            Op::DeleteRange(delete) => delete.span.start(),
        };
        if key.is_empty() {
            return Err(Failure::EmptyKey);
        }
    }
    Ok(())
}

/// What a list of operations may write, whichever branches are taken below it.
#[derive(Default)]
struct Writes<'a> {
    puts: BTreeSet<&'a [u8]>,
    deletes: Vec<&'a Span>,
}

impl Writes<'_> {
    /// Whether a put of this key falls into a deletion.
    ///
    /// A deletion of everything from a key on never counts: etcd reads its end, `\0`, as a key that
    /// lies before its start. "Delete all, then put one" is so allowed, and stock clients may rely
    /// on it.
    fn deletes(&self, key: &[u8]) -> bool {
        self.deletes.iter().any(|span| !matches!(span, Span::From(_)) && span.contains(key))
    }
}

/// Collects the writes of a list in etcd's order (`checkIntervals`): deletions of this list, then
/// nested transactions in turn, then puts of this list. Two things follow that look like gaps and
/// are kept: then and else of one transaction may write the same key, and a key put by one
/// nested transaction may be deleted by a later one.
fn writes(ops: &[Op]) -> Result<Writes<'_>, Failure> {
    let mut all = Writes::default();
    for op in ops {
        if let Op::DeleteRange(delete) = op {
            all.deletes.push(&delete.span);
        }
    }
    for op in ops {
        let Op::Txn(nested) = op else { continue };
        let success = writes(&nested.success)?;
        let failure = writes(&nested.failure)?;
        for key in &success.puts {
            if all.deletes(key) || !all.puts.insert(key) {
                return Err(Failure::DuplicateKey);
            }
        }
        for key in &failure.puts {
            let fresh = all.puts.insert(key);
            if all.deletes(key) || !(fresh || success.puts.contains(key)) {
                return Err(Failure::DuplicateKey);
            }
        }
        all.deletes.extend(success.deletes);
        all.deletes.extend(failure.deletes);
    }
    for op in ops {
        let Op::Put(put) = op else { continue };
        if all.deletes(&put.key) || !all.puts.insert(&put.key) {
            return Err(Failure::DuplicateKey);
        }
    }
    Ok(all)
}
