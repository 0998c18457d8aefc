//! What the log, the snapshots and the labels need of a filesystem.
//!
//! A member uses [`Files`]. The lab has another: sectors in memory that tear, rot and fill up. The calls go through a
//! vtable, which costs nanoseconds where a write costs microseconds.

use std::{
    fmt::Debug,
    fs::{self, DirBuilder, File, OpenOptions},
    hash::{BuildHasher, RandomState},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{FlockOperation, OFlags};

use super::removal::remove_beside;

/// Held for as long as a directory is in use.
pub type StorageLock = Box<dyn Debug + Send>;

/// A filesystem, as far as a data directory needs one.
pub trait Storage: Debug + Send + Sync {
    /// Creates an empty file in place of any older one, for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file for reading.
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file for writing whole pages past the system's memory, if that is possible.
    fn open_direct(&self, path: &Path) -> Option<Box<dyn StorageFile>>;

    /// Everything in a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Whether there is a file of this name.
    fn exists(&self, path: &Path) -> bool;

    /// Whether there is a directory of this name.
    fn is_directory(&self, path: &Path) -> bool;

    /// Creates a directory, for this user only, and those above it.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Every file of a directory, in the order of their names.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// Gives a file another name, in place of any older file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes names created, renamed or removed in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Takes a lock file for this process, until the answer is dropped. None if another process has it.
    fn lock(&self, path: &Path) -> io::Result<Option<StorageLock>>;

    /// A number that cannot be guessed: a new directory gets it.
    fn random(&self) -> u64;

    /// Whether threads may work on it beside the caller's. If not, work in the background is done when the caller
    /// says so.
    fn has_threads(&self) -> bool {
        true
    }

    /// Removes files whose names are of no use any more, large ones a little at a time.
    fn remove_gradually(&self, retired: Vec<PathBuf>);
}

/// An open file.
pub trait StorageFile: Debug + Send {
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reads some of the bytes from an offset on; 0 at the end.
    fn read_some_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes all bytes at an offset.
    fn write_all_to(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Cuts it off or makes it longer with zeros.
    fn resize(&self, bytes: u64) -> io::Result<()>;

    /// Makes content durable, and of the metadata what is needed to read it.
    fn sync_content(&self) -> io::Result<()>;

    /// Makes content and metadata durable.
    fn sync_everything(&self) -> io::Result<()>;

    /// Fills `bytes` from an offset on.
    fn read_all_at(&self, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.read_some_at(bytes, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => {
                    bytes = &mut bytes[read..];
                    at += read as u64;
                }
            }
        }
        Ok(())
    }
}

/// Reads a file from an offset on.
#[derive(Debug)]
pub struct StorageReader<F = Box<dyn StorageFile>> {
    file: F,
    at: u64,
}

impl<F: AsRef<dyn StorageFile>> StorageReader<F> {
    /// From this offset on.
    pub fn new(file: F, at: u64) -> StorageReader<F> {
        StorageReader { file, at }
    }
}

impl<F: AsRef<dyn StorageFile>> Read for StorageReader<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.as_ref().read_some_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// The files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files;

impl Files {
    /// For all users of one storage.
    pub(crate) fn shared() -> Arc<dyn Storage> {
        Arc::new(Files)
    }
}

/// The system, or what a test has put before it.
fn system() -> &'static dyn Storage {
    #[cfg(debug_assertions)]
    if let Some(faulty) = super::faulty::storage() {
        return faulty;
    }
    &Plain
}

impl Storage for Files {
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        system().create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        system().open(path)
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        system().open_read(path)
    }

    fn open_direct(&self, path: &Path) -> Option<Box<dyn StorageFile>> {
        system().open_direct(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        system().read(path)
    }

    fn exists(&self, path: &Path) -> bool {
        system().exists(path)
    }

    fn is_directory(&self, path: &Path) -> bool {
        system().is_directory(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        system().create_directory(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        system().list(directory)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        system().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        system().remove(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        system().sync_directory(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<StorageLock>> {
        system().lock(path)
    }

    fn random(&self) -> u64 {
        system().random()
    }

    fn remove_gradually(&self, retired: Vec<PathBuf>) {
        system().remove_gradually(retired)
    }
}

/// The operating system itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain;

impl Storage for Plain {
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        Ok(Box::new(options.open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(File::open(path)?))
    }

    fn open_direct(&self, path: &Path) -> Option<Box<dyn StorageFile>> {
        let flags = OFlags::DIRECT.bits() as i32;
        let file = OpenOptions::new().write(true).custom_flags(flags).open(path).ok()?;
        Some(Box::new(file))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let files = fs::read_dir(directory)?.map(|file| file.map(|file| file.path()));
        let mut files = files.collect::<io::Result<Vec<_>>>()?;
        files.sort();
        Ok(files)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Option<StorageLock>> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn random(&self) -> u64 {
        RandomState::new().hash_one(std::process::id())
    }

    fn remove_gradually(&self, retired: Vec<PathBuf>) {
        remove_beside(retired);
    }
}

impl StorageFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_some_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        self.read_at(bytes, at)
    }

    fn write_all_to(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn resize(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync_content(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn sync_everything(&self) -> io::Result<()> {
        self.sync_all()
    }
}
