//! Saving a snapshot beside its place, and putting it there when it is complete.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tenure_replica::SnapshotMark;

use super::{CHUNK_BYTES_MAX, Frame, SavedSnapshot, prune_snapshots, snapshot_path};
use crate::{
    BulkFile, DiskError, Files, Storage,
    durable::{rename_durably, unfinished},
};

/// A snapshot that is being written. Dropping it unfinished removes it.
#[derive(Debug)]
pub struct SnapshotWriter {
    storage: Arc<dyn Storage>,
    mark: SnapshotMark,
    path: PathBuf,
    beside: PathBuf,
    file: BulkFile,
    frame: Frame,
    placed: bool,
}

impl SnapshotWriter {
    /// Starts a snapshot in the directory that [`DataDir::snapshots`](crate::DataDir::snapshots) names.
    pub fn create(folder: &Path, mark: SnapshotMark) -> Result<SnapshotWriter, DiskError> {
        SnapshotWriter::create_in(Files::shared(), folder, mark)
    }

    /// The same in another storage.
    pub fn create_in(
        storage: Arc<dyn Storage>,
        folder: &Path,
        mark: SnapshotMark,
    ) -> Result<SnapshotWriter, DiskError> {
        let path = snapshot_path(folder, &mark);
        let beside = unfinished(&path);
        let file = BulkFile::create(&*storage, &beside)?;
        let (frame, header) = Frame::begin(&mark);
        let mut writer = SnapshotWriter { storage, mark, path, beside, file, frame, placed: false };
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
        self.put(&[&before, chunk])
    }

    /// Completes the file, makes it durable, and deletes snapshots that are now too old.
    pub fn finish(mut self) -> Result<SavedSnapshot, DiskError> {
        self.put(&[&self.frame.end()])?;
        self.file.finish().map_err(DiskError::io("flush snapshot", &self.beside))?;
        rename_durably(&*self.storage, &self.beside, &self.path)?;
        self.placed = true;
        let folder = self.path.parent().expect("a snapshot lies in a directory");
        prune_snapshots(&*self.storage, folder)?;
        Ok(SavedSnapshot { mark: self.mark.clone(), path: self.path.clone() })
    }

    fn put(&mut self, parts: &[&[u8]]) -> Result<(), DiskError> {
        for part in parts {
            self.file.put(part).map_err(DiskError::io("write snapshot", &self.beside))?;
        }
        Ok(())
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.placed {
            // If this fails, the next start removes it.
            let _ = self.storage.remove(&self.beside);
        }
    }
}
