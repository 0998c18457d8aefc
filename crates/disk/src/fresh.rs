//! A data directory that begins with a state: what a restore and an import make.
//!
//! It is built beside its place and renamed when everything in it is durable, so it is there as a whole or not at
//! all. With a log in a directory of its own (`--wal-dir`) two directories have to appear, and a crash can come between
//! them. The log goes first. As long as the data is still beside its place, it carries the same number as the
//! log, and so the next attempt can tell a log that is a leftover from one that belongs to another member.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf, absolute},
};

use tenure_replica::Snapshot;

use super::{
    DataDir, DiskError, Files, Identity, NewCluster, SnapshotWriter,
    directory::lock,
    durable::{files_in, sync_directory},
    label::Boot,
    segment::{SEGMENT_HEADER_BYTES, check_header, list_segments},
};

/// Where a directory is built, and where it goes.
#[derive(Debug)]
pub struct Fresh {
    data: Place,
    wal: Option<Place>,
}

#[derive(Debug)]
struct Place {
    /// Whole and without a slash at its end, so that it has a parent and a name.
    path: PathBuf,
    beside: PathBuf,
}

impl Fresh {
    /// Makes sure that nothing is in the way, and removes what an attempt before left. What is under
    /// construction ends with `suffix`.
    pub fn at(data: &Path, wal: Option<&Path>, suffix: &str) -> Result<Fresh, DiskError> {
        let place = |path| Place::new(path, suffix);
        let fresh = Fresh { data: place(data)?, wal: wal.map(place).transpose()? };
        fresh.data.refuse_occupied()?;
        let left = &fresh.data.beside;
        // Another process may be at it.
        let _unused = if left.exists() { Some(lock(&Files, left)?) } else { None };
        if let Some(wal) = &fresh.wal {
            if is_log_of(left, &wal.path) {
                let _unused = lock(&Files, &wal.path)?;
                remove(&wal.path)?;
            }
            wal.refuse_occupied()?;
            remove(&wal.beside)?;
        }
        // Last, because it is what tells whose the log is.
        remove(left)?;
        Ok(fresh)
    }

    /// Makes the directory of a member that has come to `snapshot`. `progress` hears how many bytes were
    /// written.
    pub fn make(
        &self,
        snapshot: &Snapshot,
        identity: Identity,
        new_cluster: NewCluster,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), DiskError> {
        let written = self.write(snapshot, identity, new_cluster, progress);
        // It stays locked until it is in its place, against another attempt at the same.
        let placed = written.and_then(|_locked| self.put_in_place());
        if placed.is_err() {
            // Whatever stays is removed by the next attempt, and the error that led here is what matters.
            let beside = self.wal.iter().chain([&self.data]).map(|place| &place.beside);
            beside.for_each(|path| drop(fs::remove_dir_all(path)));
        }
        placed
    }

    fn write(
        &self,
        snapshot: &Snapshot,
        identity: Identity,
        new_cluster: NewCluster,
        progress: &mut dyn FnMut(u64),
    ) -> Result<DataDir, DiskError> {
        let wal = self.wal.as_ref().map(|wal| &*wal.beside);
        let (mut disk, _) = DataDir::open(&self.data.beside, wal)?;
        let mut writer = SnapshotWriter::create(&disk.snapshots(), snapshot.mark.clone())?;
        let mut bytes = 0;
        for chunk in snapshot.chunks() {
            writer.chunk(&chunk)?;
            bytes += chunk.len() as u64;
            progress(bytes);
        }
        writer.finish()?;
        disk.mark_new_cluster(new_cluster)?;
        disk.claim(identity)?;
        Ok(disk)
    }

    fn put_in_place(&self) -> Result<(), DiskError> {
        let Some(wal) = &self.wal else { return self.data.put() };
        wal.put()?;
        self.data.put().inspect_err(|_| wal.take_back())
    }
}

impl Place {
    fn new(path: &Path, suffix: &str) -> Result<Place, DiskError> {
        let whole = absolute(path).map_err(DiskError::io("find", path))?;
        let path: PathBuf = whole.components().collect();
        let mut beside = path.clone().into_os_string();
        beside.push(suffix);
        Ok(Place { path, beside: beside.into() })
    }

    fn refuse_occupied(&self) -> Result<(), DiskError> {
        match fs::read_dir(&self.path).map(|mut entries| entries.next().is_none()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(DiskError::NotEmpty { dir: self.path.clone() }),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(cause) => Err(DiskError::io("list directory", &self.path)(cause)),
        }
    }

    /// An empty directory gives way; one that got something meanwhile does not.
    fn put(&self) -> Result<(), DiskError> {
        sync_directory(&Files, &self.beside)?;
        fs::rename(&self.beside, &self.path)
            .map_err(|cause| DiskError::InPlace { dir: self.path.clone(), cause })?;
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        sync_directory(&Files, parent).inspect_err(|_| self.take_back())
    }

    /// Undoes [`put`](Self::put), as well as it can be.
    fn take_back(&self) {
        let _ = fs::rename(&self.path, &self.beside);
    }
}

/// Whether this is the log of a directory that never got to its place: nothing but segments with its number.
fn is_log_of(data: &Path, wal: &Path) -> bool {
    let (Ok(Some(boot)), Ok(segments), Ok(files)) =
        (Boot::read(&Files, &data.join("boot")), list_segments(&Files, wal), files_in(&Files, wal))
    else {
        return false;
    };
    let is_ours = |(sequence, path): &(u64, PathBuf)| {
        let mut header = Vec::new();
        let read = File::open(path)
            .and_then(|file| file.take(SEGMENT_HEADER_BYTES).read_to_end(&mut header));
        read.is_ok() && check_header(path, &header, boot.directory, *sequence).is_ok()
    };
    let is_known = |file: &PathBuf| {
        file.ends_with("lock") || segments.iter().any(|(_, segment)| segment == file)
    };
    !segments.is_empty() && segments.iter().all(is_ours) && files.iter().all(is_known)
}

fn remove(path: &Path) -> Result<(), DiskError> {
    match fs::remove_dir_all(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(DiskError::io("remove what an earlier attempt left in", path)(cause))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tempfile::TempDir;
    use tenure_api::{ClusterId, MemberId};

    use super::*;

    const SUFFIX: &str = ".making";
    const IDENTITY: Identity =
        Identity { cluster_id: ClusterId(7), member_id: MemberId(1), joined: false };
    const REFOUNDED: NewCluster = NewCluster { before: None, cluster_id: ClusterId(7) };

    struct Home {
        home: TempDir,
        data: PathBuf,
        wal: PathBuf,
    }

    fn home() -> Home {
        let home = TempDir::new().unwrap();
        Home { data: home.path().join("data"), wal: home.path().join("log"), home }
    }

    impl Home {
        fn fresh(&self) -> Result<Fresh, DiskError> {
            Fresh::at(&self.data, Some(&self.wal), SUFFIX)
        }

        fn make(&self) -> Result<(), DiskError> {
            let snapshot = Snapshot { mark: Default::default(), state: Default::default() };
            self.fresh()?.make(&snapshot, IDENTITY, REFOUNDED, &mut |_| {})
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.home.path()).unwrap().flatten();
            let mut names: Vec<_> =
                entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    fn write(fresh: &Fresh) -> DataDir {
        let snapshot = Snapshot { mark: Default::default(), state: Default::default() };
        fresh.write(&snapshot, IDENTITY, REFOUNDED, &mut |_| {}).unwrap()
    }

    #[test]
    fn a_directory_and_its_log_appear_together() {
        let home = home();
        home.make().unwrap();
        assert_eq!(home.names(), ["data", "log"]);
        let (_, recovered) = DataDir::open(&home.data, Some(&home.wal)).unwrap();
        assert_eq!(recovered.identity, Some(IDENTITY));
    }

    /// The process died between the two renames.
    #[test]
    fn a_log_without_its_data_does_not_block_the_next_attempt() {
        let home = home();
        let fresh = home.fresh().unwrap();
        let disk = write(&fresh);
        fresh.wal.as_ref().unwrap().put().unwrap();
        let busy = home.fresh().unwrap_err();
        assert!(matches!(busy, DiskError::InUse { .. }), "it may still be at it: {busy}");
        drop(disk);
        assert_eq!(home.names(), ["data.making", "log"]);
        home.make().unwrap();
        assert_eq!(home.names(), ["data", "log"]);
        DataDir::open(&home.data, Some(&home.wal)).unwrap();
    }

    /// Something came into the way at the last moment, or a volume is mounted there.
    #[test]
    fn data_that_does_not_get_to_its_place_takes_its_log_back() {
        let home = home();
        let fresh = home.fresh().unwrap();
        let snapshot = Snapshot { mark: Default::default(), state: Default::default() };
        let get_in_the_way = &mut |_| {
            fs::create_dir_all(&home.data).unwrap();
            fs::write(home.data.join("precious"), "data").unwrap();
        };
        let refused = fresh.make(&snapshot, IDENTITY, REFOUNDED, get_in_the_way).unwrap_err();
        assert!(matches!(refused, DiskError::InPlace { .. }), "{refused}");
        assert_eq!(home.names(), ["data"]);
        fs::remove_file(home.data.join("precious")).unwrap();
        home.make().unwrap();
    }

    #[test]
    fn a_log_that_may_be_somebodys_is_left_alone() {
        let home = home();
        drop(DataDir::open(&home.home.path().join("other"), Some(&home.wal)).unwrap());
        let refused = home.make().unwrap_err();
        assert!(matches!(&refused, DiskError::NotEmpty { dir } if *dir == home.wal), "{refused}");
        // A leftover of ours beside it proves nothing: the numbers differ.
        let elsewhere = home.home.path().join("elsewhere");
        write(&Fresh::at(&home.data, Some(&elsewhere), SUFFIX).unwrap());
        let refused = home.make().unwrap_err();
        assert!(matches!(&refused, DiskError::NotEmpty { dir } if *dir == home.wal), "{refused}");
        DataDir::open(&home.home.path().join("other"), Some(&home.wal)).unwrap();
    }
}
