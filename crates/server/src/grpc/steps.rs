//! The headers inside a transaction's answer.
//!
//! etcd puts nothing but a revision into them: the one that stood after the operation. The header of a
//! transaction inside a transaction is empty.

use tenure_api::wire::etcdserverpb::{self as pb, response_op::Response};

/// Fills in the headers of all operations, given the header of the whole.
pub(super) fn date(answer: &mut pb::TxnResponse) {
    let after = answer.header.as_ref().map_or(0, |header| header.revision);
    // A transaction makes one revision at the most, with the first of its operations that changes anything.
    let before = after - i64::from(answer.responses.iter().any(changes));
    let mut now = before;
    date_all(&mut answer.responses, &mut now, after);
}

fn date_all(steps: &mut [pb::ResponseOp], now: &mut i64, after: i64) {
    for step in steps {
        if !matches!(step.response, Some(Response::ResponseTxn(_))) && changes(step) {
            *now = after;
        }
        let dated = Some(pb::ResponseHeader { revision: *now, ..Default::default() });
        match &mut step.response {
            Some(Response::ResponseRange(range)) => range.header = dated,
            Some(Response::ResponsePut(put)) => put.header = dated,
            Some(Response::ResponseDeleteRange(delete)) => delete.header = dated,
            Some(Response::ResponseTxn(txn)) => {
                txn.header = Some(pb::ResponseHeader::default());
                date_all(&mut txn.responses, now, after);
            }
            None => {}
        }
    }
}

fn changes(step: &pb::ResponseOp) -> bool {
    match &step.response {
        Some(Response::ResponsePut(_)) => true,
        Some(Response::ResponseDeleteRange(delete)) => delete.deleted > 0,
        Some(Response::ResponseTxn(txn)) => txn.responses.iter().any(changes),
        Some(Response::ResponseRange(_)) | None => false,
    }
}
