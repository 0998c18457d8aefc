//! What a transaction must obey before it reaches the store.

use std::collections::BTreeSet;

use tenure_api::{Failure, Op, Span, Txn};

/// Operations and comparisons of a transaction on all levels together, in both branches. etcd's own rule limits the longest
/// list of each level only, and lets a request of 1 MB carry 100,000 of them.
pub const TXN_OPS_MAX: usize = 4096;

/// etcd's static rules: not too many operations, every operation names a key, and no branch writes a
/// key twice. And ours, which counts all levels.
pub fn check_txn(txn: &Txn, max_ops: usize) -> Result<(), Failure> {
    check_shape(txn, max_ops)?;
    if ops_in_all(txn) > TXN_OPS_MAX.max(3 * max_ops) {
        return Err(Failure::TooManyOps);
    }
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

fn ops_in_all(txn: &Txn) -> usize {
    let ops = txn.success.iter().chain(&txn.failure);
    let inner = |op: &Op| if let Op::Txn(nested) = op { ops_in_all(nested) } else { 0 };
    txn.compare.len() + ops.map(|op| 1 + inner(op)).sum::<usize>()
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tenure_api::Range;

    use super::*;

    fn txn(success: Vec<Op>) -> Txn {
        Txn { compare: vec![], success, failure: vec![] }
    }

    /// So many transactions in one, of so many ranges each.
    fn nested(transactions: usize, ranges: usize) -> Txn {
        let range = Op::Range(Range::all(Span::One(Bytes::from_static(b"a"))));
        txn(vec![Op::Txn(txn(vec![range; ranges])); transactions])
    }

    #[test]
    fn txn_operations_are_counted_over_all_levels() {
        assert_eq!(64 + 64 * 63, TXN_OPS_MAX);
        assert_eq!(check_txn(&nested(64, 63), 128), Ok(()));
        assert_eq!(check_txn(&nested(64, 64), 128), Err(Failure::TooManyOps));
        assert_eq!(check_txn(&nested(1, 127), 128), Ok(()));
        assert_eq!(check_txn(&nested(1, 128), 128), Err(Failure::TooManyOps), "etcd's own rule");
    }
}
