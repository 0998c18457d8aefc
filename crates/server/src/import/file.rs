//! The file as etcdctl saved it: a bbolt database, and the SHA-256 of it at the end.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{
    ImportError,
    bbolt::{Db, MAGIC, MAGIC_OFFSET, Stop},
    etcd,
};

/// bbolt's files are whole pages, and no page is a smaller power of two.
const SECTOR_BYTES: u64 = 512;
const CHECKSUM_BYTES: u64 = 32;
const BUFFER_BYTES: usize = 1 << 20;
/// What our own files begin with; a bbolt file begins with eight zeros, the number of its first page.
const OUR_SNAPSHOT: &[u8; 8] = b"tenuresn";
const OUR_LOG: &[u8; 8] = b"tenurewl";

/// An etcd snapshot that can be read.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    path: PathBuf,
    pub(super) db: Db,
    /// How long the database is.
    pub(super) bytes: u64,
    /// How much of it was read for its checksum.
    pub(super) hashed: u64,
}

impl SnapshotFile {
    /// Opens a file and compares it with the checksum at its end, unless told not to. What is read here is
    /// half of what will be.
    pub(super) fn open(
        path: &Path,
        skip_hash_check: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SnapshotFile, ImportError> {
        let read = |cause| ImportError::Read { file: path.to_owned(), cause };
        let file = File::open(path).map_err(read)?;
        let metadata = file.metadata().map_err(read)?;
        let not_etcd = |what| Err(ImportError::NotEtcd { file: path.to_owned(), what });
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
            return Err(ImportError::NoChecksum { file: path.to_owned() });
        }
        if is_sound(&whole, bytes, &mut |done| progress(done, 2 * bytes)).map_err(read)? {
            return Ok(opened);
        }
        let place = match etcd::read(&opened, 0, &mut |_, _| {}) {
            Err(ImportError::Damaged { offset, what, .. }) => Some(format!("at {offset}: {what}")),
            _ => None,
        };
        Err(ImportError::Checksum { file: path.to_owned(), bytes, place })
    }

    /// What ended a walk, with the name of the file.
    pub(super) fn error(&self, stop: impl Into<Stop>) -> ImportError {
        error(&self.path, stop.into())
    }
}

fn error(path: &Path, stop: Stop) -> ImportError {
    let file = path.to_owned();
    match stop {
        Stop::Io(cause) => ImportError::Read { file, cause },
        Stop::Damage(damage) => {
            ImportError::Damaged { file, offset: damage.offset, what: damage.what }
        }
    }
}

fn is_bbolt(file: &File) -> bool {
    let mut mark = [0; 4];
    file.read_exact_at(&mut mark, MAGIC_OFFSET).is_ok() && mark == MAGIC.to_le_bytes()
}

/// Whether the checksum after the first `bytes` is theirs.
fn is_sound(file: &File, bytes: u64, progress: &mut dyn FnMut(u64)) -> io::Result<bool> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let piece = (bytes - offset).min(BUFFER_BYTES as u64) as usize;
        file.read_exact_at(&mut buffer[..piece], offset)?;
        hasher.update(&buffer[..piece]);
        offset += piece as u64;
        progress(offset);
    }
    let mut expected = [0; CHECKSUM_BYTES as usize];
    file.read_exact_at(&mut expected, bytes)?;
    Ok(hasher.finalize()[..] == expected)
}
