//! Protobuf as any client may send it.

use proptest::prelude::*;
use prost::Message;
use tenure_damage::{damaged, frugally, hold};

use super::{delete_range, put, range, round_trip, txn};
use crate::wire::{etcdserverpb as pb, tenure::v1};

/// Reads bytes as a message; and what can be read, comes back.
fn read<T: Message + Default + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
) -> Result<Option<T>, TestCaseError> {
    let Ok(message) = frugally(bytes.len(), || T::decode(bytes)) else { return Ok(None) };
    let again = T::decode(&message.encode_to_vec()[..]);
    prop_assert_eq!(again.as_ref(), Ok(&message));
    Ok(Some(message))
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    round_trip::a_txn().prop_map(|txn| pb::TxnRequest::from(txn).encode_to_vec())
}

#[test]
fn transactions_and_what_is_in_them() {
    hold(1000, damaged(bytes()), |bytes| {
        let Some(request) = read::<pb::TxnRequest>(&bytes)? else { return Ok(()) };
        let Ok(meant) = frugally(bytes.len(), || txn(request)) else { return Ok(()) };
        prop_assert_eq!(txn(meant.clone().into()), Ok(meant));
        Ok(())
    });
}

#[test]
fn operations() {
    let inner = bytes().prop_filter_map("there is no operation in it", |bytes| {
        let txn = pb::TxnRequest::decode(&bytes[..]).ok()?;
        // An operation begins with its kind and its length; what is behind them is the request.
        let operation = txn.success.first()?.encode_to_vec();
        operation.get(2..).map(<[u8]>::to_vec)
    });
    hold(1000, damaged(inner), |bytes| {
        if let Some(request) = read::<pb::RangeRequest>(&bytes)? {
            let _ = range(request);
        }
        if let Some(request) = read::<pb::PutRequest>(&bytes)? {
            let _ = put(request);
        }
        if let Some(request) = read::<pb::DeleteRangeRequest>(&bytes)? {
            let _ = delete_range(request);
        }
        Ok(())
    });
}

/// Every other request, from the bytes of those that have the most fields.
#[test]
fn other_requests() {
    hold(500, damaged(bytes()), |bytes| {
        read::<pb::WatchRequest>(&bytes)?;
        read::<pb::LeaseGrantRequest>(&bytes)?;
        read::<pb::LeaseKeepAliveRequest>(&bytes)?;
        read::<pb::MemberAddRequest>(&bytes)?;
        read::<pb::AlarmRequest>(&bytes)?;
        read::<pb::AuthRoleGrantPermissionRequest>(&bytes)?;
        read::<v1::SessionRequest>(&bytes)?;
        Ok(())
    });
}

/// The shortest operation is two bytes long, and in memory as large as any. So many are in the largest
/// request that is let in by default, of 2 MiB.
#[test]
fn a_transaction_of_nothing_but_empty_operations() {
    for tag in [0x0a, 0x12] {
        let bytes = [tag, 0].repeat(1 << 20);
        let read = frugally(bytes.len(), || pb::TxnRequest::decode(&bytes[..])).unwrap();
        assert_eq!(read.compare.len() + read.success.len(), 1 << 20);
    }
}
