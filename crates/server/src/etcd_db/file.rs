//! The file as etcdctl saved it: a bbolt database, and the SHA-256 of it at the end.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::{
    DatabaseError,
    bbolt::{Damage, Db, MAGIC, MAGIC_OFFSET, Stop},
    content, sha256,
};

/// bbolt's files are whole pages, and no page is a smaller power of two.
const SECTOR_BYTES: u64 = 512;
const CHECKSUM_BYTES: u64 = 32;
/// What our own files begin with; a bbolt file begins with eight zeros, the number of its first page.
const OUR_SNAPSHOT: &[u8; 8] = b"tenuresn";
const OUR_LOG: &[u8; 8] = b"tenurewl";

/// An etcd snapshot that can be read.
#[derive(Debug)]
pub(crate) struct SnapshotFile {
    path: PathBuf,
    pub(crate) db: Db,
    /// How long the database is.
    pub(crate) bytes: u64,
    /// How much of it was read for its checksum.
    pub(crate) hashed: u64,
}

impl SnapshotFile {
    /// Opens a file and compares it with the checksum at its end, unless told not to. What is read here is
    /// half of what will be.
    pub(crate) fn open(
        path: &Path,
        skip_hash_check: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SnapshotFile, DatabaseError> {
        let read = |cause| DatabaseError::Read { file: path.to_owned(), cause };
        let file = File::open(path).map_err(read)?;
        let metadata = file.metadata().map_err(read)?;
        let not_etcd = |what| Err(DatabaseError::NotEtcd { file: path.to_owned(), what });
        if metadata.is_dir() {
            return not_etcd("it is a directory; name the file that `etcdctl snapshot save` wrote");
        }
        let mut magic = [0; 8];
        let known = metadata.len() >= 8 && file.read_exact_at(&mut magic, 0).is_ok();
        match &magic {
            _ if !known => return not_etcd("it is too short"),
            OUR_SNAPSHOT => return not_etcd("it is a snapshot of a tenure server"),
            OUR_LOG => return not_etcd("it is the log of a tenure server"),
            _ => {}
        }
        let length = metadata.len();
        let has_checksum = length % SECTOR_BYTES == CHECKSUM_BYTES;
        let bytes = if has_checksum { length - CHECKSUM_BYTES } else { length };
        let whole = file.try_clone().map_err(read)?;
        let db = match Db::open(file, bytes) {
            Ok(db) => db,
            Err(_) if !is_bbolt(&whole) => return not_etcd("bbolt's mark is missing at offset 16"),
            Err(stop) => return Err(error(path, stop)),
        };
        let hashed = if skip_hash_check { 0 } else { bytes };
        let opened = SnapshotFile { path: path.to_owned(), db, bytes, hashed };
        if skip_hash_check {
            return Ok(opened);
        }
        if !has_checksum {
            return Err(DatabaseError::NoChecksum { file: path.to_owned() });
        }
        let (found, expected) =
            sha256::at_end(&whole, bytes, &mut |done| progress(done, 2 * bytes)).map_err(read)?;
        if found == expected {
            return Ok(opened);
        }
        let place = match content::read(&opened.db, &mut |_| {}) {
            Err(Stop::Damage(Damage { offset, what })) => Some(format!("at {offset}: {what}")),
            _ => None,
        };
        Err(DatabaseError::Checksum { file: path.to_owned(), bytes, place })
    }

    /// What ended a walk, with the name of the file.
    pub(crate) fn error(&self, stop: impl Into<Stop>) -> DatabaseError {
        error(&self.path, stop.into())
    }
}

fn error(path: &Path, stop: Stop) -> DatabaseError {
    let file = path.to_owned();
    match stop {
        Stop::Io(cause) => DatabaseError::Read { file, cause },
        Stop::Damage(damage) => {
            DatabaseError::Damaged { file, offset: damage.offset, what: damage.what }
        }
    }
}

fn is_bbolt(file: &File) -> bool {
    let mut mark = [0; 4];
    file.read_exact_at(&mut mark, MAGIC_OFFSET).is_ok() && mark == MAGIC.to_le_bytes()
}
