//! Transactions: decide every branch first, check the whole way, then do it.
//!
//! etcd's order, which is what makes a transaction atomic without undo: (1) all comparisons, nested
//! ones too, against the state before any write; (2) every put, then every read, on the way taken is
//! checked; (3) the steps are done and cannot fail. A read after a put of the same transaction sees
//! it.

use tenure_api::{
    Compare, CompareResult, CompareTarget, Failure, KeyValue, LeaseId, Op, OpResult, Revision, Txn,
    TxnResult,
};

use super::{Change, Store, TXN_ANSWER_BYTES_MAX, store::Write};

impl Store {
    /// Does a transaction, unless its answer could be larger than that. On failure nothing has changed. Without a change
    /// there is no new revision.
    pub fn txn(
        &mut self,
        txn: &Txn,
        lease_lives: &dyn Fn(LeaseId) -> bool,
        answer_bytes_max: usize,
    ) -> Result<(TxnResult, Option<Change>), Failure> {
        let way = self.way(txn);
        self.check_puts(txn, &way, lease_lives)?;
        self.check_ranges(txn, &way)?;
        if answer_bytes_max < usize::MAX {
            self.check_answer(txn, &way, answer_bytes_max)?;
        }
        let mut write = self.begin();
        let result = self.follow(txn, &way, &mut write)?;
        Ok((result, self.commit(write)))
    }

    /// Answers a transaction that only reads. (One that writes is answered as if it had, and has
    /// not: it runs on a clone, which costs a read-only one nothing.)
    pub fn read_txn(&self, txn: &Txn) -> Result<TxnResult, Failure> {
        self.clone().txn(txn, &|_| true, TXN_ANSWER_BYTES_MAX).map(|(result, _)| result)
    }

    /// Which branch to take, here and in each transaction nested in it.
    fn way(&self, txn: &Txn) -> Way {
        let succeeded = txn.compare.iter().all(|compare| self.holds(compare));
        let nested = branch(txn, succeeded)
            .iter()
            .filter_map(|op| match op {
                Op::Txn(txn) => Some(self.way(txn)),
                Op::Range(_) | Op::Put(_) | Op::DeleteRange(_) => None,
            })
            .collect();
        Way { succeeded, nested }
    }

    fn check_puts(
        &self,
        txn: &Txn,
        way: &Way,
        lease_lives: &dyn Fn(LeaseId) -> bool,
    ) -> Result<(), Failure> {
        way.walk(txn, &mut |op| match op {
            Op::Put(put) => {
                self.check_kept(put)?;
                self.check_lease(put, lease_lives)
            }
            Op::Range(_) | Op::DeleteRange(_) | Op::Txn(_) => Ok(()),
        })
    }

    fn check_ranges(&self, txn: &Txn, way: &Way) -> Result<(), Failure> {
        way.walk(txn, &mut |op| match op {
            Op::Range(range) => self.check_revision(range),
            Op::Put(_) | Op::DeleteRange(_) | Op::Txn(_) => Ok(()),
        })
    }

    fn follow(&mut self, txn: &Txn, way: &Way, write: &mut Write) -> Result<TxnResult, Failure> {
        let mut nested = way.nested.iter();
        let ops = branch(txn, way.succeeded);
        let mut responses = Vec::with_capacity(ops.len());
        for op in ops {
            responses.push(match op {
                // Its revision was checked, and a write does not change which can be read.
                Op::Range(range) => OpResult::Range(self.range(range)?),
                Op::Put(put) => OpResult::Put(self.put_key(put, write)),
                Op::DeleteRange(delete) => OpResult::DeleteRange(self.delete_span(delete, write)),
                Op::Txn(txn) => {
                    let way = nested.next().expect("the way was made from this transaction");
                    OpResult::Txn(self.follow(txn, way, write)?)
                }
            });
        }
        Ok(TxnResult { succeeded: way.succeeded, responses })
    }

    fn holds(&self, compare: &Compare) -> bool {
        let mut keys = self.live_in(&compare.span).peekable();
        if keys.peek().is_none() {
            return holds_for_none(compare);
        }
        keys.all(|kv| holds_for(compare, kv))
    }
}

/// The branch taken, and the ways through the transactions in it, in order.
pub(super) struct Way {
    succeeded: bool,
    nested: Vec<Way>,
}

impl Way {
    /// Visits every plain step that will be done, in order.
    pub(super) fn walk<'a>(
        &self,
        txn: &'a Txn,
        visit: &mut dyn FnMut(&'a Op) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut nested = self.nested.iter();
        for op in branch(txn, self.succeeded) {
            match op {
                Op::Txn(txn) => {
                    let way = nested.next().expect("the way was made from this transaction");
                    way.walk(txn, visit)?;
                }
                Op::Range(_) | Op::Put(_) | Op::DeleteRange(_) => visit(op)?,
            }
        }
        Ok(())
    }
}

fn branch(txn: &Txn, succeeded: bool) -> &[Op] {
    if succeeded { &txn.success } else { &txn.failure }
}

/// A missing key has zeroes for numbers, but no value at all: not even an empty one.
fn holds_for_none(compare: &Compare) -> bool {
    let ordering = match &compare.target {
        CompareTarget::Value(_) => return false,
        CompareTarget::Version(version) => 0.cmp(version),
        CompareTarget::Create(revision) | CompareTarget::Mod(revision) => Revision(0).cmp(revision),
        CompareTarget::Lease(lease) => 0.cmp(&LeaseId::to_wire(*lease)),
    };
    relates(compare.result, ordering)
}

fn holds_for(compare: &Compare, kv: &KeyValue) -> bool {
    let ordering = match &compare.target {
        CompareTarget::Version(version) => kv.version.cmp(version),
        CompareTarget::Create(revision) => kv.create_revision.cmp(revision),
        CompareTarget::Mod(revision) => kv.mod_revision.cmp(revision),
        CompareTarget::Value(value) => kv.value.cmp(value),
        CompareTarget::Lease(lease) => LeaseId::to_wire(kv.lease).cmp(&LeaseId::to_wire(*lease)),
    };
    relates(compare.result, ordering)
}

fn relates(result: CompareResult, ordering: std::cmp::Ordering) -> bool {
    match result {
        CompareResult::Equal => ordering.is_eq(),
        CompareResult::NotEqual => ordering.is_ne(),
        CompareResult::Greater => ordering.is_gt(),
        CompareResult::Less => ordering.is_lt(),
    }
}
