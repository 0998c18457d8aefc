//! The data directory as a whole: opening it, repairing a tear, handing it to the log thread.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use tenure_api::{ClusterId, Member};
use tenure_replica::{Entry, HardState};

use super::{
    DiskError, Identity, Log, SavedSnapshot, Writer, WriterEvent,
    durable::{create_directory, files_in, remove_unfinished, rename_durably, unfinished},
    founders::{read_founders, write_founders},
    history::Fitted,
    label::{Boot, NewCluster},
    replay::{Replay, replay},
    segment::{list_segments, prepare_segment, segment_path},
    snapshot::newest_snapshot,
    storage::{Files, Storage, StorageLock},
    wal::Wal,
};

/// How large the log's files are.
#[derive(Clone, Copy, Debug)]
pub struct DiskConfig {
    /// The first segment of a new directory. Small, because the member waits for its zeros.
    pub first_segment_bytes: u64,
    /// How large later ones may get; each is twice as large as the one before, up to this.
    pub segment_bytes: u64,
}

impl Default for DiskConfig {
    fn default() -> DiskConfig {
        DiskConfig { first_segment_bytes: 8 << 20, segment_bytes: 64 << 20 }
    }
}

/// What a member knew when it last ran.
#[derive(Debug)]
pub struct RecoveredLog {
    /// This member's identity, unless the directory is new.
    pub identity: Option<Identity>,
    /// The members that the cluster began with, if this one was among them and its directory says so.
    pub founders: Option<Vec<Member>>,
    /// The member was told that it had been removed from its cluster.
    pub removed: bool,
    /// The cluster was made from the data of another.
    pub new_cluster: Option<NewCluster>,
    /// That was done by `--force-new-cluster`, which has been there at every start since.
    pub forced: Option<NewCluster>,
    /// How often this directory was opened, this time included. It grows at every opening and
    /// tells a member's lives apart.
    pub boot: u64,
    /// The directory's own number, drawn when it was made.
    pub directory: u64,
    /// The vote.
    pub hard_state: HardState,
    /// The log after the snapshot.
    pub entries: Vec<Entry>,
    /// The newest snapshot; it was read to its end and is sound.
    pub snapshot: Option<SavedSnapshot>,
    /// What a crash had left half written, now cut off.
    pub torn: Option<Torn>,
}

/// A batch that was not written to its end, and so was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// In this file,
    pub file: PathBuf,
    /// from here on,
    pub offset: u64,
    /// so many bytes were cut off.
    pub bytes: u64,
}

/// An open data directory. It stays locked until it, and the [`Writer`] made of it, are dropped.
#[derive(Debug)]
pub struct DataDir {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    locks: Vec<StorageLock>,
    identity: Option<Identity>,
    pub(crate) wal: Wal,
    replayed_bytes: u64,
}

impl DataDir {
    /// Opens a directory, creates it if it is missing, and reads everything in it.
    ///
    /// The log lies in `wal/` inside it unless another place is given.
    pub fn open(path: &Path, wal_dir: Option<&Path>) -> Result<(DataDir, RecoveredLog), DiskError> {
        DataDir::open_in(Files::shared(), path, wal_dir, DiskConfig::default())
    }

    /// The same in another storage, with other sizes.
    pub fn open_in(
        shared: Arc<dyn Storage>,
        path: &Path,
        wal_dir: Option<&Path>,
        config: DiskConfig,
    ) -> Result<(DataDir, RecoveredLog), DiskError> {
        let storage = &*shared;
        let wal_folder = wal_dir.map_or_else(|| path.join("wal"), Path::to_owned);
        let snapshots = snapshot_folder(path);
        refuse_not_ours(storage, path, wal_dir)?;
        create_directory(storage, path)?;
        let mut locks = vec![lock(storage, path)?];
        for folder in [&wal_folder, &snapshots] {
            create_directory(storage, folder)?;
        }
        if wal_dir.is_some() {
            locks.push(lock(storage, &wal_folder)?);
        }
        for folder in [path, &wal_folder, &snapshots] {
            remove_unfinished(storage, folder)?;
        }

        let identity = Identity::read(storage, &identity_file(path))?;
        let boot = count_boot(storage, path, &wal_folder, identity)?;
        let mut segments = list_segments(storage, &wal_folder)?;
        if segments.is_empty() {
            segments = vec![create_first_segment(storage, &wal_folder, boot.directory, config)?];
        }
        let snapshot = newest_snapshot(storage, &snapshots)?;
        let mut log = replay(storage, segments, boot.directory)?;
        let torn = repair(&log)?;

        let history = std::mem::take(&mut log.history);
        let logged_until = history.last_index();
        let Fitted { hard_state, entries, starts_anew } = history
            .fit(snapshot.as_ref().map(|saved| &saved.mark))
            .map_err(|what| DiskError::Inconsistent { directory: path.to_owned(), what })?;
        let mark = snapshot.as_ref().map(|saved| saved.mark.clone()).filter(|_| starts_anew);
        let replayed_bytes = entries.iter().map(|entry| entry.data.len() as u64).sum();
        let recovered = RecoveredLog {
            identity,
            founders: read_founders(storage, &founders_file(path))?,
            removed: Identity::was_removed(storage, &removed_file(path))?,
            new_cluster: NewCluster::read(storage, &refounded_file(path))?,
            forced: NewCluster::read(storage, &forced_file(path))?,
            boot: boot.count,
            directory: boot.directory,
            hard_state,
            entries,
            snapshot,
            torn,
        };
        let wal = Wal::resume(
            shared.clone(),
            wal_folder,
            boot.directory,
            config,
            log,
            logged_until,
            hard_state,
            mark,
        );
        let path = path.to_owned();
        let data = DataDir { storage: shared, path, locks, identity, wal, replayed_bytes };
        Ok((data, recovered))
    }

    /// Notes the members that the cluster begins with, in the directory of one of them. Comes before the
    /// [`claim`](Self::claim), so that a member that founded a cluster always knows the other founders; a directory that
    /// has been claimed already keeps what it knows.
    pub fn keep_founders(&self, members: &[Member]) -> Result<(), DiskError> {
        let file = founders_file(&self.path);
        if self.identity.is_some() && self.storage.exists(&file) {
            return Ok(());
        }
        write_founders(&*self.storage, &file, members)
    }

    /// Makes the directory belong to a member, for ever.
    pub fn claim(&mut self, identity: Identity) -> Result<(), DiskError> {
        let file = identity_file(&self.path);
        match self.identity {
            Some(known) if known == identity => Ok(()),
            Some(_) => Err(DiskError::Claimed { file }),
            None => {
                identity.write(&*self.storage, &file)?;
                self.identity = Some(identity);
                Ok(())
            }
        }
    }

    /// Notes in a member's directory that it was removed from its cluster. It may be in use.
    pub fn mark_removed(path: &Path, identity: Identity) -> Result<(), DiskError> {
        identity.write_removed(&Files, &removed_file(path))
    }

    /// Makes the directory belong to the same member of another cluster. What is in it must become
    /// that cluster's before any client is answered: [`mark_new_cluster`](Self::mark_new_cluster) comes last.
    pub fn move_to(&mut self, cluster_id: ClusterId) -> Result<(), DiskError> {
        let file = identity_file(&self.path);
        let Some(known) = self.identity else {
            let why = "it belongs to no member".into();
            return Err(DiskError::Missing { file, why });
        };
        let identity = Identity { cluster_id, ..known };
        identity.write(&*self.storage, &file)?;
        self.identity = Some(identity);
        Ok(())
    }

    /// Notes that the directory holds a cluster that was made from another one's data.
    pub fn mark_new_cluster(&self, new_cluster: NewCluster) -> Result<(), DiskError> {
        new_cluster.write(&*self.storage, &refounded_file(&self.path))
    }

    /// Notes that `--force-new-cluster` has done its work.
    pub fn mark_forced(&self, new_cluster: NewCluster) -> Result<(), DiskError> {
        new_cluster.write(&*self.storage, &forced_file(&self.path))
    }

    /// The flag is gone: the next time it is given, it is meant.
    pub fn forget_forced(&self) -> Result<(), DiskError> {
        let file = forced_file(&self.path);
        match self.storage.remove(&file) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(DiskError::io("remove", &file)(cause))
            }
            _ => Ok(()),
        }
    }

    /// Where snapshots are saved.
    pub fn snapshots(&self) -> PathBuf {
        snapshot_folder(&self.path)
    }

    /// The log, for a host without threads.
    pub fn into_log(self) -> Log {
        Log::new(self.wal, self.locks)
    }

    /// Starts the log thread. `on_event` is called on that thread and must not block.
    pub fn start_writer(self, on_event: impl Fn(WriterEvent) + Send + 'static) -> Writer {
        Writer::start(self.wal, self.locks, self.replayed_bytes, on_event)
    }
}

pub(super) fn snapshot_folder(path: &Path) -> PathBuf {
    path.join("snap")
}

pub(super) fn identity_file(path: &Path) -> PathBuf {
    path.join("identity")
}

pub(super) fn founders_file(path: &Path) -> PathBuf {
    path.join("founders")
}

fn removed_file(path: &Path) -> PathBuf {
    path.join("removed")
}

fn refounded_file(path: &Path) -> PathBuf {
    path.join("refounded")
}

fn forced_file(path: &Path) -> PathBuf {
    path.join("forced")
}

/// Everything that a member puts into its directory.
const OURS: [&str; 9] =
    ["lock", "wal", "snap", "boot", "identity", "founders", "removed", "refounded", "forced"];
/// So many names of other files say what they are.
const NAMED_MAX: usize = 3;

/// Refuses a directory with other files in it: a slip in its name would strew a member's files among them. One that is
/// a member's may have more in it, and so may the root of a filesystem.
fn refuse_not_ours(
    storage: &dyn Storage,
    path: &Path,
    wal_dir: Option<&Path>,
) -> Result<(), DiskError> {
    let is_ours = ["boot", "identity"].iter().any(|name| storage.exists(&path.join(name)));
    if is_ours || !storage.is_directory(path) {
        return Ok(());
    }
    let is_known = |file: &Path| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.strip_suffix(".tmp").unwrap_or(name);
        OURS.contains(&name)
            || name == "lost+found"
            || wal_dir.is_some_and(|wal| wal.starts_with(file))
    };
    let mut other = files_in(storage, path)?;
    other.retain(|file| !is_known(file));
    if other.is_empty() {
        return Ok(());
    }
    let named = other.iter().take(NAMED_MAX).filter_map(|file| file.file_name());
    let mut found = named.map(|name| name.to_string_lossy()).collect::<Vec<_>>().join(", ");
    if other.len() > NAMED_MAX {
        found += &format!(" and {} more", other.len() - NAMED_MAX);
    }
    Err(DiskError::NotOurs { directory: path.to_owned(), found })
}

/// Takes a directory for this process, until the answer is dropped.
pub(crate) fn lock(storage: &dyn Storage, folder: &Path) -> Result<StorageLock, DiskError> {
    let path = folder.join("lock");
    match storage.lock(&path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(DiskError::InUse { file: path }),
        Err(cause) => Err(DiskError::io("lock", &path)(cause)),
    }
}

/// Counts this opening, durably, before anything else can follow from it.
///
/// A directory that has a past must have all of it: a member that forgot its vote could vote
/// twice in a term.
fn count_boot(
    storage: &dyn Storage,
    path: &Path,
    wal_folder: &Path,
    identity: Option<Identity>,
) -> Result<Boot, DiskError> {
    let file = path.join("boot");
    let known = Boot::read(storage, &file)?;
    let segments = list_segments(storage, wal_folder)?;
    if identity.is_some() && segments.is_empty() {
        return Err(DiskError::Missing {
            file: wal_folder.to_owned(),
            why: "the directory belongs to a member, but there is no log".into(),
        });
    }
    if known.is_none() && (identity.is_some() || !segments.is_empty()) {
        let why = "the directory was used before, but not counted".into();
        return Err(DiskError::Missing { file, why });
    }
    let known = known.unwrap_or_else(|| Boot::fresh(storage));
    let Some(count) = known.count.checked_add(1) else {
        return Err(DiskError::corrupt(&file, 0, "it cannot have been opened so often"));
    };
    let boot = Boot { count, ..known };
    boot.write(storage, &file)?;
    Ok(boot)
}

fn create_first_segment(
    storage: &dyn Storage,
    folder: &Path,
    directory: u64,
    config: DiskConfig,
) -> Result<(u64, PathBuf), DiskError> {
    let sequence = 1;
    let path = segment_path(folder, sequence);
    let never = AtomicBool::new(false);
    prepare_segment(storage, folder, directory, sequence, config.first_segment_bytes, &never)?;
    rename_durably(storage, &unfinished(&path), &path)?;
    Ok((sequence, path))
}

/// Makes durable what was read, and cuts off what was torn.
///
/// What we have read may lie in the page cache only: the member may have been killed between
/// writing and flushing, or a flush may have failed, after which the kernel takes pages for clean
/// that never reached the disk. So whatever no later batch vouches for is written again.
fn repair(log: &Replay) -> Result<Option<Torn>, DiskError> {
    let path = &log.segments.last().expect("a log has at least one segment").path;
    let mut bytes = vec![0; (log.offset - log.unproven_from) as usize];
    log.file
        .read_all_at(&mut bytes, log.unproven_from)
        .map_err(DiskError::io("read segment", path))?;
    // Bytes that were cut must not be there when a shorter batch is written over them.
    bytes.resize(bytes.len() + log.torn_bytes as usize, 0);
    log.file
        .write_all_to(&bytes, log.unproven_from)
        .and_then(|()| log.file.sync_content())
        .map_err(DiskError::io("repair segment", path))?;
    Ok((log.torn_bytes > 0).then(|| Torn {
        file: path.clone(),
        offset: log.offset,
        bytes: log.torn_bytes,
    }))
}
