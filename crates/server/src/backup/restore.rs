//! A data directory from a backup.
//!
//! Every member of the new cluster makes its own, from the same file and with the same list of
//! members. All of it follows from those: the members' ids, the cluster's, the revision and the
//! place in the log at which it begins. Two members that were made from different things have
//! different cluster ids and do not talk to each other. (A member that begins alone has nobody to
//! agree with, and looks at the clock: see [`first_revision`].)

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tenure_api::{ClusterId, Member, MemberId, Revision};
use tenure_replica::{
    Frozen,
    refound::{REVISION_JUMP_MIN, first_revision},
};

use super::{Backup, BackupError, revision_by_clock};
use crate::{
    config::{Config, hash},
    disk::{DataDir, Identity, Refounded, SnapshotWriter, durable::sync_directory, lock},
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
    let dirs = Dirs::free(&plan.config)?;
    let last = backup.state.store.revision();
    let members = plan.config.members();
    let jump = plan.bump_revision.max(REVISION_JUMP_MIN);
    let floor = (members.len() == 1).then(revision_by_clock);
    let first = first_revision(last, jump, floor)
        .ok_or(BackupError::RevisionsEnd { last: last.0, jump })?;
    let behind = (backup.mark.index, backup.mark.term);
    let frozen = Frozen::refounded(&backup.state, behind, members.clone(), first);
    let cluster_id = cluster_id(backup, &plan.config, first);
    let identity = Identity { cluster_id, member_id: plan.config.member_id(), joined: false };
    let before = backup.note.map(|note| note.cluster_id);
    let written = write(&dirs, &frozen, identity, Refounded { before, cluster_id }, progress);
    // It stays locked until it is in its place, against another restore to the same.
    if let Err(error) = written.and_then(|_locked| dirs.put_in_place()) {
        dirs.remove();
        return Err(error);
    }
    let (old, new) = (&backup.state, &frozen.state);
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

fn write(
    dirs: &Dirs,
    frozen: &Frozen,
    identity: Identity,
    refounded: Refounded,
    progress: &mut dyn FnMut(u64),
) -> Result<DataDir, BackupError> {
    let (mut disk, _) =
        DataDir::open(&dirs.data.beside, dirs.wal.as_ref().map(|wal| &*wal.beside))?;
    let mut writer = SnapshotWriter::create(&disk.snapshots(), frozen.mark.clone())?;
    let mut bytes = 0;
    for chunk in frozen.chunks() {
        writer.chunk(&chunk)?;
        bytes += chunk.len() as u64;
        progress(bytes);
    }
    writer.finish()?;
    disk.mark_refounded(refounded)?;
    disk.claim(identity)?;
    Ok(disk)
}

/// Where the directory is built, and where it goes.
struct Dirs {
    data: Dir,
    wal: Option<Dir>,
}

struct Dir {
    place: PathBuf,
    beside: PathBuf,
}

impl Dirs {
    /// Makes sure that nothing is in the way.
    fn free(config: &Config) -> Result<Dirs, BackupError> {
        let data = Dir::free(&config.data_dir)?;
        let wal = config.wal_dir.as_deref().map(Dir::free).transpose()?;
        Ok(Dirs { data, wal })
    }

    /// The data directory comes last: without it, the log alone is nobody's, and a member that is
    /// started on it refuses.
    fn put_in_place(&self) -> Result<(), BackupError> {
        for dir in self.wal.iter().chain([&self.data]) {
            dir.put_in_place()?;
        }
        Ok(())
    }

    /// Whatever stays is in nobody's way, and is removed by the next attempt.
    fn remove(&self) {
        for dir in self.wal.iter().chain([&self.data]) {
            let _ = fs::remove_dir_all(&dir.beside);
        }
    }
}

impl Dir {
    fn free(place: &Path) -> Result<Dir, BackupError> {
        match fs::read_dir(place).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Ok(false) => return Err(BackupError::NotEmpty { dir: place.to_owned() }),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(BackupError::io("look into", place)(cause)),
        }
        // By its components: a slash at the end would put it inside.
        let mut beside = place.components().as_path().as_os_str().to_owned();
        beside.push(UNFINISHED);
        let beside = PathBuf::from(beside);
        let _unused = if beside.exists() { Some(lock(&beside)?) } else { None };
        match fs::remove_dir_all(&beside) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(BackupError::io("remove what an earlier attempt left in", &beside)(cause))
            }
            _ => Ok(Dir { place: place.to_owned(), beside }),
        }
    }

    /// An empty directory gives way; one that got something meanwhile does not.
    fn put_in_place(&self) -> Result<(), BackupError> {
        sync_directory(&self.beside)?;
        fs::rename(&self.beside, &self.place)
            .map_err(|cause| BackupError::InPlace { dir: self.place.clone(), cause })?;
        let parent = match self.place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Ok(sync_directory(parent)?)
    }
}
