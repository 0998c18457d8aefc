//! One version as bytes: for snapshots, and for the hash that members compare.

use tenure_api::{KeyValue, LeaseId, Revision};

use crate::codec::{DecodeError, Reader, put_bytes, put_i64};

pub(super) fn encode(version: &KeyValue, out: &mut Vec<u8>) {
    put_bytes(out, &version.key);
    put_i64(out, version.mod_revision.0);
    put_i64(out, version.create_revision.0);
    put_i64(out, version.version);
    put_i64(out, LeaseId::to_wire(version.lease));
    put_bytes(out, &version.value);
}

pub(super) fn decode(input: &mut Reader<'_>) -> Result<KeyValue, DecodeError> {
    Ok(KeyValue {
        key: input.bytes()?,
        mod_revision: Revision(input.i64()?),
        create_revision: Revision(input.i64()?),
        version: input.i64()?,
        lease: LeaseId::from_wire(input.i64()?),
        value: input.bytes()?,
    })
}
