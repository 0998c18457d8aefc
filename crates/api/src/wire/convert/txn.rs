//! Transactions, however deep they nest.

use super::compare::compare;
use super::request::{delete_range, put, range, range_request};
use crate::Failure;
use crate::op::{Op, Txn};
use crate::wire::etcdserverpb as pb;
use crate::wire::etcdserverpb::request_op::Request;

/// How deep transactions may nest. etcd has no such limit of its own; this one keeps everything
/// that walks a transaction, down to the state machine, within its stack.
pub const TXN_DEPTH_MAX: usize = 32;

/// Reads a transaction.
///
/// Whether it has too many operations or writes a key twice is judged later and in words, with the
/// state machine's own rules.
///
/// # Errors
/// [`Failure::KeyNotFound`] for an operation that names nothing to do, [`Failure::TooManyOps`] for
/// nesting beyond [`TXN_DEPTH_MAX`], [`Failure::NotCapable`] for a condition of a kind that does not
/// exist, and whatever the conditions and operations inside are refused for.
pub fn txn(request: pb::TxnRequest) -> Result<Txn, Failure> {
    nested(request, TXN_DEPTH_MAX)
}

fn nested(request: pb::TxnRequest, depth_left: usize) -> Result<Txn, Failure> {
    let depth_left = depth_left.checked_sub(1).ok_or(Failure::TooManyOps)?;
    let branch = |ops: Vec<pb::RequestOp>| -> Result<Vec<Op>, Failure> {
        ops.into_iter().map(|op| step(op, depth_left)).collect()
    };
    Ok(Txn {
        compare: request.compare.into_iter().map(compare).collect::<Result<_, _>>()?,
        success: branch(request.success)?,
        failure: branch(request.failure)?,
    })
}

fn step(op: pb::RequestOp, depth_left: usize) -> Result<Op, Failure> {
    Ok(match op.request.ok_or(Failure::KeyNotFound)? {
        // Inside a transaction there is nothing to choose about consistency.
        Request::RequestRange(request) => Op::Range(range(request)?.0),
        Request::RequestPut(request) => Op::Put(put(request)?),
        Request::RequestDeleteRange(request) => Op::DeleteRange(delete_range(request)?),
        Request::RequestTxn(request) => Op::Txn(nested(request, depth_left)?),
    })
}

impl From<Txn> for pb::TxnRequest {
    fn from(txn: Txn) -> Self {
        pb::TxnRequest {
            compare: txn.compare.into_iter().map(Into::into).collect(),
            success: txn.success.into_iter().map(Into::into).collect(),
            failure: txn.failure.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Op> for pb::RequestOp {
    fn from(op: Op) -> Self {
        let request = match op {
            Op::Range(range) => Request::RequestRange(range_request(range, false)),
            Op::Put(put) => Request::RequestPut(put.into()),
            Op::DeleteRange(delete) => Request::RequestDeleteRange(delete.into()),
            Op::Txn(txn) => Request::RequestTxn(txn.into()),
        };
        pb::RequestOp { request: Some(request) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn then(success: Vec<pb::RequestOp>) -> pb::TxnRequest {
        pb::TxnRequest { success, ..Default::default() }
    }

    fn inside(request: pb::TxnRequest) -> pb::RequestOp {
        pb::RequestOp { request: Some(Request::RequestTxn(request)) }
    }

    #[test]
    fn an_operation_that_names_nothing_is_refused() {
        let empty = then(vec![pb::RequestOp::default()]);
        assert_eq!(txn(empty.clone()), Err(Failure::KeyNotFound));
        assert_eq!(txn(then(vec![inside(empty)])), Err(Failure::KeyNotFound));
    }

    #[test]
    fn a_condition_without_a_key_is_refused() {
        let request = pb::TxnRequest { compare: vec![Default::default()], ..Default::default() };
        assert_eq!(txn(request), Err(Failure::EmptyKey));
    }

    #[test]
    fn a_condition_of_an_unknown_kind_is_refused() {
        let of = |result, target| pb::TxnRequest {
            compare: vec![pb::Compare { key: "a".into(), result, target, ..Default::default() }],
            ..Default::default()
        };
        assert_eq!(txn(of(4, 0)), Err(Failure::NotCapable));
        assert_eq!(txn(of(0, 5)), Err(Failure::NotCapable));
        assert!(txn(of(3, 4)).is_ok());
    }

    #[test]
    fn nesting_ends_at_its_limit() {
        let nest = |depth| (1..depth).fold(then(vec![]), |txn, _| then(vec![inside(txn)]));
        assert!(txn(nest(TXN_DEPTH_MAX)).is_ok());
        assert_eq!(txn(nest(TXN_DEPTH_MAX + 1)), Err(Failure::TooManyOps));
    }
}
