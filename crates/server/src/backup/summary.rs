//! What a backup holds, in a few numbers.

use tenure_api::{Member, Revision, Term};
use tenure_replica::LogIndex;

use super::{Backup, Note};

/// What a person wants to know of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// The hash of its keys: what HashKV answered for its revision.
    pub hash: u32,
    /// The revision of its last change.
    pub revision: Revision,
    /// Up to where history was dropped.
    pub compacted: Revision,
    /// Live keys.
    pub keys: usize,
    /// Those of them that hang on a lease, and that a restore drops.
    pub leased_keys: usize,
    /// Leases.
    pub leases: usize,
    /// The length of the file.
    pub bytes: u64,
    /// Its SHA-256, if it was looked at.
    pub sha256: Option<String>,
    /// The cluster's members.
    pub members: Vec<Member>,
    /// The cluster's command version.
    pub cluster_version: u32,
    /// Where in the log it stands.
    pub index: LogIndex,
    /// That entry's term.
    pub term: Term,
    /// Whose it is, if it says so.
    pub note: Option<Note>,
}

impl Backup {
    /// Sums it up.
    pub fn summary(&self) -> BackupSummary {
        let (state, store) = (&self.state, &self.state.store);
        BackupSummary {
            // The newest revision can always be asked for.
            hash: store.hash(None).map_or(0, |hashed| hashed.hash),
            revision: store.revision(),
            compacted: store.compacted(),
            keys: store.len(),
            leased_keys: state.leases.iter().map(|(_, lease)| lease.keys.len()).sum(),
            leases: state.leases.len(),
            bytes: self.bytes,
            sha256: self.sha256.clone(),
            members: state.members.values().cloned().collect(),
            cluster_version: state.cluster_version,
            index: self.mark.index,
            term: self.mark.term,
            note: self.note,
        }
    }
}
