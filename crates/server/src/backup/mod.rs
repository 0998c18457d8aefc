//! Backups: a member's state as a file, and a new cluster from such a file.
//!
//! A backup is a file in etcd's format (`etcd_db`), with a bucket more for what only tenure knows, and the
//! SHA-256 of it at the end: etcd's tools restore it as their own. `stream` makes it and hands it to a client, `file` reads
//! it and believes nothing, `restore` makes a data directory of it. `first_format` reads what earlier builds saved.
//! `survivor` does to one member's own data what a restore does to a
//! backup's, when the other members are lost for good. What becomes of the data is decided in
//! [`tenure_replica::new_cluster`].

mod error;
mod file;
mod first_format;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod fuzz;
mod note;
mod restore;
mod stream;
mod summary;
mod survivor;
#[cfg(test)]
mod tests;

use std::time::{SystemTime, UNIX_EPOCH};

use tenure_api::Revision;
use tenure_replica::new_cluster::by_clock;

pub use self::{
    error::BackupError,
    file::{Backup, HashCheck},
    note::Note,
    restore::{Plan, Restored, restore},
    summary::BackupSummary,
};
pub(crate) use self::{
    stream::{IDLE_MAX, Stalled, stream},
    survivor::force_new_cluster,
};

pub(crate) use crate::etcd_db::sha256::HASH_BYTES;

/// A backup's length without its checksum is a multiple of this.
const SECTOR_BYTES: u64 = 512;

/// The time as a revision that no cluster has reached yet; see
/// [`first_revision`](tenure_replica::new_cluster::first_revision).
fn revision_by_clock() -> Revision {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    by_clock(u64::try_from(since_1970.as_millis()).unwrap_or_default())
}
