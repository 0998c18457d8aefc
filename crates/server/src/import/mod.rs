//! Moving from etcd: a snapshot file becomes the data directory of a new cluster's member.
//!
//! Keys with all their revisions since the last compaction, the revision itself, and the leases with
//! their keys, users and roles come out as they went in, so a client that knew a revision or a fencing token goes on
//! from there. Members are those of the new cluster. Every member imports the same file for itself and
//! comes to the same state, which all of them take for a snapshot at the first entry of the log. What
//! they came to is part of the cluster's id: one that imported something else, or nothing, is a stranger.
//!
//! The file is read by `etcd_db`.

mod error;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use sha2::{Digest, Sha256};
use tenure_api::{ClusterId, Revision, Term};
use tenure_replica::{
    LogIndex, Snapshot, SnapshotMark, State, auth::Auth, lease::Leases, mvcc::Store,
    new_cluster::REVISION_MAX,
};

pub use self::error::ImportError;
use crate::{
    Config,
    config::hash,
    disk::{Fresh, Identity, NewCluster},
    etcd_db::{SnapshotFile, content, ours, users::users},
};

/// The new log begins after a first entry that was never written: the import.
const MARK_INDEX: LogIndex = 1;
const MARK_TERM: Term = Term(1);
/// What a directory under construction ends with.
const UNFINISHED: &str = ".importing";

/// What to take over.
#[derive(Clone, Debug)]
pub struct Source {
    /// The snapshot file.
    pub file: PathBuf,
    /// Take it without the checksum at its end, or in spite of it.
    pub skip_hash_check: bool,
    /// Leave users and roles behind, so that every client may do everything.
    pub without_auth: bool,
    /// How far revisions jump, for a file after which etcd went on; 0 if it did not. What was before
    /// counts as compacted then: it is not known what happened between.
    pub bump_revision: i64,
}

/// What was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportSummary {
    /// The new cluster.
    pub cluster_id: ClusterId,
    /// Keys that exist now.
    pub keys: usize,
    /// Versions of keys, deletions included, that were read.
    pub versions: u64,
    /// The revision of the last change.
    pub revision: Revision,
    /// The earliest revision that can be read; 0 if nothing was ever compacted.
    pub compacted: Revision,
    /// Leases.
    pub leases: usize,
    /// Users.
    pub users: usize,
    /// Roles.
    pub roles: usize,
    /// Whether users count.
    pub auth_enabled: bool,
    /// Keys that die with a lease.
    pub leased_keys: usize,
    /// The size of the database that was read.
    pub file_bytes: u64,
    /// About the memory that the store will take.
    pub store_bytes: u64,
}

/// What an import is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It reads the file: first for its checksum, then for what is in it.
    Reading,
    /// It writes the data directory.
    Writing,
}

/// Makes the data directory of the member that the settings describe. `progress` is told now and
/// then what is done, and how many bytes of how many; at the end of each, all of them.
///
/// # Errors
/// See [`ImportError`]. Nothing is left behind then.
pub fn import(
    source: &Source,
    config: &Config,
    progress: &mut dyn FnMut(Doing, u64, u64),
) -> Result<ImportSummary, ImportError> {
    let problems = config.problems();
    if !problems.is_empty() {
        return Err(ImportError::Settings(problems));
    }
    let fresh = Fresh::at(&config.data_dir, config.wal_dir.as_deref(), UNFINISHED)?;
    let reading = &mut |done, of| progress(Doing::Reading, done, of);
    let file = SnapshotFile::open(&source.file, source.skip_hash_check, reading)?;
    let bytes = file.bytes;
    let of = file.hashed + bytes;
    let content = content::read(&file.db, &mut |read| reading(file.hashed + read, of));
    let content = content.map_err(|stop| file.error(stop))?;
    // The rest of the file is pages: their heads, free ones, and those that lead to others.
    reading(of, of);
    let auth = match source.without_auth {
        true => Auth::default(),
        false => users(&file.db).map_err(|stop| file.error(stop))?,
    };
    if ours::is_sealed(&file.db, &content).map_err(|stop| file.error(stop))? {
        return Err(ImportError::OurBackup { file: source.file.clone() });
    }
    let (mut revision, mut compacted) = (content.revision, content.compacted);
    if source.bump_revision > 0 {
        // What happened between here and there is not known. A client that asks for it must be told so, and not
        // that nothing happened.
        revision = after(revision, source.bump_revision)?;
        compacted = revision;
    }
    let versions = content.versions;
    let store = content.store_at(revision, compacted).map_err(|damage| file.error(damage))?;
    let leases = content::leases(&file.db, &store, MARK_INDEX).map_err(|stop| file.error(stop))?;
    let summary = ImportSummary {
        users: auth.users().count(),
        roles: auth.roles().count(),
        auth_enabled: auth.is_enabled(),
        ..summary(&store, &leases, versions, bytes)
    };
    let members = config.members();
    let mark = SnapshotMark {
        index: MARK_INDEX,
        term: MARK_TERM,
        voters: members.iter().map(|member| member.id).collect(),
        learners: vec![],
        outgoing: vec![],
    };
    let state = State { store, leases, ..State::new(members) }.with_imported(auth);
    let snapshot = Snapshot { mark, state };
    let (cluster_id, bytes) = cluster_id(config, &snapshot);
    let identity = Identity { cluster_id, member_id: config.member_id(), joined: false };
    // A note that this id is meant, though the settings give another.
    let new_cluster = NewCluster { before: None, cluster_id };
    let writing = &mut |done| progress(Doing::Writing, done, bytes);
    fresh.make(&snapshot, identity, new_cluster, writing)?;
    Ok(ImportSummary { cluster_id, ..summary })
}

/// Follows from the members, the token and all that was imported: the same on all members that were given
/// the same, and on no other. All of them begin at the same entry of the log, where raft takes their states for
/// one and the same; only the id keeps those apart that imported another file, were told another
/// jump, or never imported anything.
///
/// Answers also how many bytes all of that is.
fn cluster_id(config: &Config, snapshot: &Snapshot) -> (ClusterId, u64) {
    let (mut sum, mut bytes) = (Sha256::new(), 0);
    for chunk in snapshot.chunks() {
        sum.update((chunk.len() as u64).to_le_bytes());
        sum.update(&chunk);
        bytes += chunk.len() as u64;
    }
    let mut parts: Vec<String> =
        config.members().iter().map(|member| member.id.to_string()).collect();
    parts.push(config.initial_cluster_token.clone());
    parts.push(format!("imported {:x} {}", sum.finalize(), snapshot.state.store.revision().0));
    let id = ClusterId(hash(parts.iter().map(String::as_str)));
    (if id == config.cluster_id() { ClusterId(id.0 ^ 1) } else { id }, bytes)
}

fn after(last: Revision, jump: i64) -> Result<Revision, ImportError> {
    let first = last.0.checked_add(jump).map(Revision).filter(|first| *first <= REVISION_MAX);
    first.ok_or(ImportError::RevisionsEnd { last: last.0, jump })
}

fn summary(store: &Store, leases: &Leases, versions: u64, file_bytes: u64) -> ImportSummary {
    ImportSummary {
        cluster_id: ClusterId(0),
        keys: store.len(),
        versions,
        revision: store.revision(),
        compacted: store.compacted(),
        leases: leases.len(),
        users: 0,
        roles: 0,
        auth_enabled: false,
        leased_keys: leases.iter().map(|(_, lease)| lease.keys.len()).sum(),
        file_bytes,
        store_bytes: store.size_bytes(),
    }
}
