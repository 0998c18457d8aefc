//! Which commands need room in the store, and which go first when there is too much to do.
//!
//! When the store is full, what frees room must pass, and so must what keeps sessions and elections
//! going: a cluster that cannot change a leader because it was filled with data would be a
//! poor coordinator. So leases always pass, and so do small writes that live on one: they go when
//! their session goes.

use tenure_api::{Op, Put, Txn, op::PutLease};

use super::Command;
use crate::{lease::LEASE_BYTES, mvcc::VERSION_OVERHEAD};

/// A key bound to a lease, with its value, is small up to this size.
const SMALL_PUT_BYTES: usize = 4 << 10;

/// Whose turn it is when more is asked than can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// What keeps sessions, elections and the cluster itself alive: renewals, ends of leases, all of
    /// `tenure.v1`, the members' own announcements. Goes first, is refused last.
    Session,
    /// Small writes on leases, and transactions that write nothing else: how stock clients become candidates and
    /// resign. Any client can ask for any number of them, so they come after the sessions.
    Leased,
    /// All other writes.
    Ordinary,
}

impl Command {
    /// Its lane.
    pub fn lane(&self) -> Lane {
        match self {
            Command::Put(_) | Command::Txn(_) if self.needs_room() => Lane::Ordinary,
            Command::DeleteRange(_) | Command::Compact(_) | Command::LeaseGrant { .. } => {
                Lane::Ordinary
            }
            Command::Put(_) | Command::Txn(_) => Lane::Leased,
            _ => Lane::Session,
        }
    }

    /// Whether its member does not let it wait: an election may depend on it. A renewal waits: there are
    /// many of them, and none is in a hurry.
    pub(crate) fn is_urgent(&self) -> bool {
        self.lane() != Lane::Ordinary && !matches!(self, Command::LeaseRenew(_))
    }

    /// Whether it may not be applied while the store is full.
    pub fn needs_room(&self) -> bool {
        match self {
            Command::Put(put) => !is_small_and_leased(put),
            Command::Txn(txn) => any_put(txn, &mut |put| !is_small_and_leased(put)),
            _ => false,
        }
    }

    /// Bytes it may add to the store, roughly; 0 for what adds none.
    pub fn room_wanted(&self) -> u64 {
        let mut bytes = 0;
        match self {
            Command::Put(put) => bytes = put_bytes(put) + VERSION_OVERHEAD,
            Command::Txn(txn) => {
                any_put(txn, &mut |put| {
                    bytes += put_bytes(put) + VERSION_OVERHEAD;
                    false
                });
            }
            Command::LeaseGrant { .. } => bytes = LEASE_BYTES,
            Command::Election(command) => bytes = command.room_wanted(),
            _ => {}
        }
        bytes as u64
    }
}

fn is_small_and_leased(put: &Put) -> bool {
    matches!(put.lease, PutLease::Set(Some(_))) && put_bytes(put) <= SMALL_PUT_BYTES
}

fn put_bytes(put: &Put) -> usize {
    put.key.len() + put.value.as_ref().map_or(0, |value| value.len())
}

/// Looks at all puts of both branches, those of inner transactions too, until one is found.
fn any_put(txn: &Txn, wanted: &mut dyn FnMut(&Put) -> bool) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match op {
        Op::Put(put) => wanted(put),
        Op::Txn(inner) => any_put(inner, wanted),
        Op::Range(_) | Op::DeleteRange(_) => false,
    })
}
