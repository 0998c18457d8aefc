//! The few things a durable gate wants of a file system, so that tests can break each of them.

use std::{
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::file::OpenError;

/// The name of the unfinished file beside the real one, and of the lock.
const BESIDE: &str = "new";
const LOCK: &str = "lock";
/// More than any gate writes; what is longer is not ours.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 30;

/// One file that is only ever replaced as a whole.
pub(super) trait Disk: fmt::Debug + Send + Sync {
    /// The file's name, for people.
    fn name(&self) -> String;
    /// Everything in the file; `None` if there is no file.
    fn read(&self) -> io::Result<Option<Vec<u8>>>;
    /// Writes a new file beside it, over whatever an earlier try has left.
    fn write_beside(&self, bytes: &[u8]) -> io::Result<()>;
    /// Flushes the file beside.
    fn flush_beside(&self) -> io::Result<()>;
    /// Puts the file beside in the place of the file.
    fn rename(&self) -> io::Result<()>;
    /// Flushes the directory, so that the rename survives.
    fn flush_directory(&self) -> io::Result<()>;
}

/// A real file, in a real directory. Locked, because two gates over one file would each miss what
/// the other has seen.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    directory: File,
    /// The file beside, from its writing to its flush. The same descriptor does both: the kernel reports a write-back
    /// error only to descriptors that were open then.
    beside: Mutex<Option<File>>,
    /// Held until the gate is dropped. A file of its own: the file itself is replaced at every write.
    _lock: File,
}

impl Directory {
    pub(super) fn lock(path: &Path) -> Result<Directory, OpenError> {
        let failed = |cause| OpenError::Io { file: path.display().to_string(), cause };
        let path = &real(path).map_err(failed)?;
        let directory = File::open(directory_of(path)).map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(with_ending(path, LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {
                let beside = Mutex::new(None);
                Ok(Directory { path: path.to_owned(), directory, beside, _lock: lock })
            }
            Err(TryLockError::WouldBlock) => {
                Err(OpenError::InUse { file: path.display().to_string() })
            }
            Err(TryLockError::Error(cause)) => Err(failed(cause)),
        }
    }

    pub(super) fn exists(&self) -> bool {
        // Anything but a clear "no" is looked at by opening it.
        !matches!(self.path.try_exists(), Ok(false))
    }

    fn path_beside(&self) -> PathBuf {
        with_ending(&self.path, BESIDE)
    }
}

impl Disk for Directory {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(cause),
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn write_beside(&self, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let options = options.create(true).write(true).truncate(true).mode(0o600);
        let mut file = options.open(self.path_beside())?;
        file.write_all(bytes)?;
        *self.beside.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }

    fn flush_beside(&self) -> io::Result<()> {
        match self.beside.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(file) => file.sync_all(),
            None => Err(io::Error::other("nothing was written to be flushed")),
        }
    }

    fn rename(&self) -> io::Result<()> {
        fs::rename(self.path_beside(), &self.path)
    }

    fn flush_directory(&self) -> io::Result<()> {
        self.directory.sync_all()
    }
}

/// The file itself, whatever links lead to it. Two names would be two locks, and a rename would put a
/// file in the place of the link, while the one it led to stays as it was.
fn real(path: &Path) -> io::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => fs::canonicalize(path).map_err(|cause| {
            io::Error::new(cause.kind(), format!("it is a link that leads nowhere: {cause}"))
        }),
        Ok(_) => fs::canonicalize(path),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            Ok(fs::canonicalize(directory_of(path))?.join(name))
        }
        Err(cause) => Err(cause),
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}
