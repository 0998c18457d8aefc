//! The replicated half: which leases exist and what hangs on them.

use bytes::Bytes;
use imbl::{OrdMap, OrdSet};
use tenure_api::{Failure, LeaseId};

use crate::{
    codec::{Codec, DecodeError, Reader, put_bytes, put_i64, put_u64},
    command::Expiry,
    log::LogIndex,
};

/// The largest TTL etcd grants, in seconds.
const TTL_SECS_MAX: i64 = 9_000_000_000;

/// Leases that a cluster may have, those of sessions included; one more is refused.
pub const LEASES_MAX: usize = 1_000_000;
/// What a lease counts against the quota: its entry, its place among the deadlines of the member that judges them.
pub const LEASE_BYTES: usize = 512;
/// What a session counts beside its lease: its identity, and the requests whose answers it remembers.
pub const SESSION_BYTES: usize = 2048;

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Seconds it lives without a renewal.
    pub ttl_secs: i64,
    /// The log index of its last renewal, or of its grant.
    pub renewed_at: LogIndex,
    /// The keys that die with it.
    pub keys: OrdSet<Bytes>,
}

/// All live leases. Cloning is O(1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    book: OrdMap<LeaseId, Lease>,
}

impl Leases {
    /// Adds a lease. A TTL below one second is raised to one.
    pub fn grant(&mut self, id: LeaseId, ttl_secs: i64, at: LogIndex) -> Result<i64, Failure> {
        if ttl_secs > TTL_SECS_MAX {
            return Err(Failure::LeaseTtlTooLarge);
        }
        if self.book.contains_key(&id) {
            return Err(Failure::LeaseExists);
        }
        let ttl_secs = ttl_secs.max(1);
        self.book.insert(id, Lease { ttl_secs, renewed_at: at, keys: OrdSet::new() });
        Ok(ttl_secs)
    }

    /// Notes a sign of life; answers the TTL that starts anew.
    pub fn renew(&mut self, id: LeaseId, at: LogIndex) -> Result<i64, Failure> {
        let lease = self.book.get_mut(&id).ok_or(Failure::LeaseNotFound)?;
        lease.renewed_at = at;
        Ok(lease.ttl_secs)
    }

    /// Removes a lease; answers the keys that must go with it, in key order.
    pub fn revoke(&mut self, id: LeaseId) -> Result<Vec<Bytes>, Failure> {
        let lease = self.book.remove(&id).ok_or(Failure::LeaseNotFound)?;
        Ok(lease.keys.iter().cloned().collect())
    }

    /// Whether an expiry still speaks of the lease as it is: not renewed since it was judged.
    pub fn confirms(&self, expiry: Expiry) -> bool {
        self.book.get(&expiry.id).is_some_and(|lease| lease.renewed_at == expiry.renewed_at)
    }

    /// Ties a key to a lease.
    pub fn attach(&mut self, id: LeaseId, key: Bytes) {
        if let Some(lease) = self.book.get_mut(&id) {
            lease.keys.insert(key);
        }
    }

    /// Unties a key.
    pub fn detach(&mut self, id: LeaseId, key: &Bytes) {
        if let Some(lease) = self.book.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    /// The lease of this id.
    pub fn get(&self, id: LeaseId) -> Option<&Lease> {
        self.book.get(&id)
    }

    /// Whether a lease lives.
    pub fn contains(&self, id: LeaseId) -> bool {
        self.book.contains_key(&id)
    }

    /// All leases in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.book.iter().map(|(id, lease)| (*id, lease))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.book.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.book.is_empty()
    }

    /// Reads one lease of a snapshot into the book. A list of its keys, if there is one, is passed
    /// over: the keys say themselves which lease they are on.
    pub(crate) fn decode_one(&mut self, input: &mut Reader<'_>) -> Result<(), DecodeError> {
        let id = LeaseId(input.i64()?);
        let ttl_secs = input.i64()?;
        let renewed_at = input.u64()?;
        for _ in 0..input.count()? {
            input.slice()?;
        }
        self.book.insert(id, Lease { ttl_secs, renewed_at, keys: OrdSet::new() });
        Ok(())
    }
}

impl Lease {
    /// Appends it, for a snapshot.
    pub(crate) fn encode(&self, id: LeaseId, with_keys: bool, out: &mut Vec<u8>) {
        put_i64(out, id.0);
        put_i64(out, self.ttl_secs);
        put_u64(out, self.renewed_at);
        if !with_keys {
            return put_u64(out, 0);
        }
        put_u64(out, self.keys.len() as u64);
        for key in &self.keys {
            put_bytes(out, key);
        }
    }
}

impl Codec for Expiry {
    fn encode(&self, out: &mut Vec<u8>) {
        put_i64(out, self.id.0);
        put_u64(out, self.renewed_at);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Expiry, DecodeError> {
        Ok(Expiry { id: LeaseId(input.i64()?), renewed_at: input.u64()? })
    }
}
