//! A revision as a key of the bucket `key`: main revision, `_`, sub revision, and `t` if it is a deletion. Numbers are big
//! endian, so that their order is the order of time. The events of one transaction share a main revision, and the sub
//! revision counts them.

use tenure_api::Revision;

const BYTES: usize = 17;
const SEPARATOR: u8 = b'_';
/// What follows the revision of a deletion.
pub(super) const DELETED: &[u8] = b"t";
/// No cluster gets here by counting; and from here on there is room to count.
const REVISION_MAX: i64 = 1 << 62;

/// The main revision, and what follows the whole.
pub(super) fn decode(bytes: &[u8]) -> Option<(Revision, &[u8])> {
    let (revision, rest) = bytes.split_at_checked(BYTES)?;
    let main = i64::from_be_bytes(*revision.first_chunk()?);
    let sound = revision[8] == SEPARATOR && (1..=REVISION_MAX).contains(&main);
    sound.then_some((Revision(main), rest))
}

/// The key of the event that was the `sub`-th of its transaction.
pub(super) fn encode(main: Revision, sub: u64, is_deleted: bool) -> Vec<u8> {
    let mut key = Vec::with_capacity(BYTES + DELETED.len());
    key.extend_from_slice(&main.0.to_be_bytes());
    key.push(SEPARATOR);
    key.extend_from_slice(&sub.to_be_bytes());
    if is_deleted {
        key.extend_from_slice(DELETED);
    }
    key
}
