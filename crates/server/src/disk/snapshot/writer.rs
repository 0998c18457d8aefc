//! Saving a snapshot beside its place, and putting it there when it is complete.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use tenure_replica::SnapshotMark;

use super::{CHUNK_BYTES_MAX, Frame, SavedSnapshot, prune_snapshots, snapshot_path};
use crate::disk::{
    DiskError,
    durable::{create_file, rename_durably, unfinished},
};

const BUFFER_BYTES: usize = 256 << 10;
/// Flushed this often, so that the log's own flush never waits behind a whole snapshot.
pub(crate) const FLUSH_BYTES: u64 = 4 << 20;

/// A snapshot that is being written. Dropping it unfinished removes it.
#[derive(Debug)]
pub struct SnapshotWriter {
    mark: SnapshotMark,
    path: PathBuf,
    beside: PathBuf,
    file: BufWriter<File>,
    frame: Frame,
    unflushed: u64,
    placed: bool,
}

impl SnapshotWriter {
    /// Starts a snapshot in the directory that [`DataDir::snapshots`](crate::disk::DataDir::snapshots) names.
    pub fn create(folder: &Path, mark: SnapshotMark) -> Result<SnapshotWriter, DiskError> {
        let path = snapshot_path(folder, &mark);
        let beside = unfinished(&path);
        let file = BufWriter::with_capacity(BUFFER_BYTES, create_file(&beside)?);
        let (frame, header) = Frame::begin(&mark);
        let mut writer =
            SnapshotWriter { mark, path, beside, file, frame, unflushed: 0, placed: false };
        writer.put(&[&header])?;
        Ok(writer)
    }

    /// Appends a chunk; the reader gives back the same chunks in the same order.
    pub fn chunk(&mut self, chunk: &[u8]) -> Result<(), DiskError> {
        if chunk.len() > CHUNK_BYTES_MAX {
            return Err(DiskError::TooLarge {
                file: self.beside.clone(),
                bytes: chunk.len(),
                max: CHUNK_BYTES_MAX,
            });
        }
        let before = self.frame.chunk(chunk);
        self.put(&[&before, chunk])?;
        self.unflushed += chunk.len() as u64;
        if self.unflushed >= FLUSH_BYTES {
            self.unflushed = 0;
            self.flush()?;
        }
        Ok(())
    }

    /// Completes the file, makes it durable, and deletes snapshots that are now too old.
    pub fn finish(mut self) -> Result<SavedSnapshot, DiskError> {
        self.put(&[&self.frame.end()])?;
        self.file.flush().map_err(DiskError::io("write snapshot", &self.beside))?;
        self.file.get_ref().sync_all().map_err(DiskError::io("flush snapshot", &self.beside))?;
        rename_durably(&self.beside, &self.path)?;
        self.placed = true;
        prune_snapshots(self.path.parent().expect("a snapshot lies in a directory"))?;
        Ok(SavedSnapshot { mark: self.mark.clone(), path: self.path.clone() })
    }

    fn put(&mut self, parts: &[&[u8]]) -> Result<(), DiskError> {
        for part in parts {
            self.file.write_all(part).map_err(DiskError::io("write snapshot", &self.beside))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_data())
            .map_err(DiskError::io("flush snapshot", &self.beside))
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.placed {
            // If this fails, the next start removes it.
            let _ = fs::remove_file(&self.beside);
        }
    }
}
