//! A data directory from a backup.
//!
//! Every member of the new cluster makes its own, from the same file and with the same list of
//! members. All of it follows from those: the members' ids, the cluster's, the revision and the
//! log index at which it begins. Two members that were made from different things have
//! different cluster ids and do not talk to each other. (A member that begins alone has no other to
//! agree with, and looks at the clock: see [`first_revision`].)

use tenure_api::{ClusterId, Member, MemberId, Revision};
use tenure_replica::{
    Snapshot,
    new_cluster::{REVISION_JUMP_MIN, first_revision},
};

use super::{Backup, BackupError, revision_by_clock};
use crate::{
    config::{Config, hash},
    disk::{Fresh, Identity, NewCluster},
};

/// What a directory under construction ends with.
const UNFINISHED: &str = ".restoring";

/// What is to be made of a backup.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name, directories, members and token of the new member; the rest does not matter.
    pub config: Config,
    /// How far revisions are to jump, if further than [`REVISION_JUMP_MIN`].
    pub bump_revision: i64,
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The new cluster.
    pub cluster_id: ClusterId,
    /// The member that the directory belongs to.
    pub member_id: MemberId,
    /// All members.
    pub members: Vec<Member>,
    /// The revision at which the new cluster begins, or the first that several members go on from: they leap to
    /// the clock's time with their first batch.
    pub revision: Revision,
    /// Keys that were kept.
    pub keys: usize,
    /// Keys that hung on a lease, and are gone with it.
    pub keys_dropped: usize,
    /// Leases that are gone.
    pub leases_dropped: usize,
}

/// Makes a data directory. It is there as a whole or not at all. `progress` hears how many bytes were
/// written.
pub fn restore(
    backup: &Backup,
    plan: &Plan,
    progress: &mut dyn FnMut(u64),
) -> Result<Restored, BackupError> {
    let problems = plan.config.problems();
    if !problems.is_empty() {
        return Err(BackupError::Settings(problems));
    }
    let (data, wal) = (&plan.config.data_dir, plan.config.wal_dir.as_deref());
    let fresh = Fresh::at(data, wal, UNFINISHED)?;
    let last = backup.state.store.revision();
    let members = plan.config.members();
    let jump = plan.bump_revision.max(REVISION_JUMP_MIN);
    let floor = (members.len() == 1).then(revision_by_clock);
    let first = first_revision(last, jump, floor)
        .ok_or(BackupError::RevisionsEnd { last: last.0, jump })?;
    let behind = (backup.mark.index, backup.mark.term);
    let snapshot = Snapshot::new_cluster(&backup.state, behind, members.clone(), first);
    let cluster_id = cluster_id(backup, &plan.config, first);
    let identity = Identity { cluster_id, member_id: plan.config.member_id(), joined: false };
    let before = backup.note.map(|note| note.cluster_id);
    fresh.make(&snapshot, identity, NewCluster { before, cluster_id }, progress)?;
    let (old, new) = (&backup.state, &snapshot.state);
    Ok(Restored {
        cluster_id,
        member_id: identity.member_id,
        members,
        revision: first,
        keys: new.store.len(),
        keys_dropped: old.store.len() - new.store.len(),
        leases_dropped: old.leases.len(),
    })
}

/// Follows from the members, the token, the backup and the revision: the same on all members, and
/// another one than the old cluster's.
fn cluster_id(backup: &Backup, config: &Config, first: Revision) -> ClusterId {
    let mut parts: Vec<String> =
        config.members().iter().map(|member| member.id.to_string()).collect();
    parts.push(config.initial_cluster_token.clone());
    let (mark, checksum) = (&backup.mark, backup.checksum);
    parts.push(format!("restored {checksum:08x} {} {} {}", mark.index, mark.term.0, first.0));
    let id = ClusterId(hash(parts.iter().map(String::as_str)));
    match backup.note {
        Some(note) if note.cluster_id == id => ClusterId(id.0 ^ 1),
        _ => id,
    }
}
