//! Saving a snapshot beside its place, and putting it there when it is complete.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tenure_replica::SnapshotMark;

use super::{CHUNK_BYTES_MAX, Frame, SavedSnapshot, prune_snapshots, snapshot_path};
use crate::disk::{
    BulkFile, DiskError,
    durable::{create_file, rename_durably, unfinished},
};

/// A snapshot that is being written. Dropping it unfinished removes it.
#[derive(Debug)]
pub struct SnapshotWriter {
    mark: SnapshotMark,
    path: PathBuf,
    beside: PathBuf,
    file: BulkFile,
    frame: Frame,
    placed: bool,
}

impl SnapshotWriter {
    /// Starts a snapshot in the directory that [`DataDir::snapshots`](crate::disk::DataDir::snapshots) names.
    pub fn create(folder: &Path, mark: SnapshotMark) -> Result<SnapshotWriter, DiskError> {
        let path = snapshot_path(folder, &mark);
        let beside = unfinished(&path);
        let file = BulkFile::new(create_file(&beside)?, &beside);
        let (frame, header) = Frame::begin(&mark);
        let mut writer = SnapshotWriter { mark, path, beside, file, frame, placed: false };
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
        rename_durably(&self.beside, &self.path)?;
        self.placed = true;
        prune_snapshots(self.path.parent().expect("a snapshot lies in a directory"))?;
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
            let _ = fs::remove_file(&self.beside);
        }
    }
}
