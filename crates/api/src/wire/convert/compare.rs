//! The conditions of a transaction.

use super::request::span;
use crate::op::{Compare, CompareResult, CompareTarget};
use crate::wire::etcdserverpb as pb;
use crate::wire::etcdserverpb::compare::{
    CompareResult as WireResult, CompareTarget as WireTarget, TargetUnion,
};
use crate::{Failure, LeaseId, Revision};

/// Reads one condition.
///
/// The operand counts only if it belongs to the target, else it is zero or empty, as in etcd. A
/// relation or target that we do not know is refused: etcd lets such a condition hold, and a
/// transaction guarded by it would be guarded by nothing.
pub(super) fn compare(compare: pb::Compare) -> Result<Compare, Failure> {
    let result = match WireResult::try_from(compare.result) {
        Ok(WireResult::Equal) => CompareResult::Equal,
        Ok(WireResult::Greater) => CompareResult::Greater,
        Ok(WireResult::Less) => CompareResult::Less,
        Ok(WireResult::NotEqual) => CompareResult::NotEqual,
        Err(_) => return Err(Failure::NotCapable),
    };
    let operand = compare.target_union;
    let target = match WireTarget::try_from(compare.target) {
        Ok(WireTarget::Version) => CompareTarget::Version(match operand {
            Some(TargetUnion::Version(version)) => version,
            _ => 0,
        }),
        Ok(WireTarget::Create) => CompareTarget::Create(Revision(match operand {
            Some(TargetUnion::CreateRevision(revision)) => revision,
            _ => 0,
        })),
        Ok(WireTarget::Mod) => CompareTarget::Mod(Revision(match operand {
            Some(TargetUnion::ModRevision(revision)) => revision,
            _ => 0,
        })),
        Ok(WireTarget::Value) => CompareTarget::Value(match operand {
            Some(TargetUnion::Value(value)) => value,
            _ => Default::default(),
        }),
        Ok(WireTarget::Lease) => CompareTarget::Lease(match operand {
            Some(TargetUnion::Lease(lease)) => LeaseId::from_wire(lease),
            _ => None,
        }),
        Err(_) => return Err(Failure::NotCapable),
    };
    Ok(Compare { span: span(compare.key, compare.range_end)?, result, target })
}

impl From<Compare> for pb::Compare {
    fn from(compare: Compare) -> Self {
        let (key, range_end) = compare.span.to_wire();
        let result = match compare.result {
            CompareResult::Equal => WireResult::Equal,
            CompareResult::Greater => WireResult::Greater,
            CompareResult::Less => WireResult::Less,
            CompareResult::NotEqual => WireResult::NotEqual,
        };
        let (target, operand) = match compare.target {
            CompareTarget::Version(version) => (WireTarget::Version, TargetUnion::Version(version)),
            CompareTarget::Create(revision) => {
                (WireTarget::Create, TargetUnion::CreateRevision(revision.0))
            }
            CompareTarget::Mod(revision) => (WireTarget::Mod, TargetUnion::ModRevision(revision.0)),
            CompareTarget::Value(value) => (WireTarget::Value, TargetUnion::Value(value)),
            CompareTarget::Lease(lease) => {
                (WireTarget::Lease, TargetUnion::Lease(LeaseId::to_wire(lease)))
            }
        };
        pb::Compare {
            result: result.into(),
            target: target.into(),
            key,
            target_union: Some(operand),
            range_end,
        }
    }
}
