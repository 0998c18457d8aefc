//! Large files that are written beside the log: snapshots and backups.
//!
//! They often lie on the log's disk, and a flush of the log waits for whatever that disk is busy with. So they go past
//! the system's memory in small pieces, and are flushed before many of them pile up: `docs/decisions/0030` has what that
//! is worth.

use std::{fs::File, io, path::Path};

use super::{
    DiskError,
    durable::create_file,
    pages::{Aligned, PagedFile},
    storage::{Files, Storage},
};

/// What is written at once.
const PIECE_BYTES: usize = 256 << 10;
/// What may wait for a flush.
const UNFLUSHED_BYTES_MAX: usize = 512 << 10;

/// A large file, written from its beginning to its end.
#[derive(Debug)]
pub struct BulkFile {
    file: PagedFile,
    piece: Aligned,
    filled: usize,
    written: u64,
    unflushed: usize,
}

impl BulkFile {
    /// Writes to this empty file, which is at `path`.
    pub fn new(file: File, path: &Path) -> BulkFile {
        BulkFile::over(PagedFile::new(&Files, Box::new(file), path))
    }

    /// Creates the file.
    pub fn create(storage: &dyn Storage, path: &Path) -> Result<BulkFile, DiskError> {
        Ok(BulkFile::over(PagedFile::new(storage, create_file(storage, path)?, path)))
    }

    fn over(file: PagedFile) -> BulkFile {
        let piece = Aligned::new(PIECE_BYTES);
        BulkFile { file, piece, filled: 0, written: 0, unflushed: 0 }
    }

    /// Appends.
    ///
    /// # Errors
    /// What the system says. The file is of no use then.
    pub fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = &mut self.piece.bytes()[self.filled..];
            let (now, later) = bytes.split_at(room.len().min(bytes.len()));
            room[..now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
            if self.filled == PIECE_BYTES {
                self.write_piece(PIECE_BYTES)?;
            }
        }
        Ok(())
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// What the system says. The file is of no use then.
    pub fn finish(&mut self) -> io::Result<()> {
        let bytes = self.written + self.filled as u64;
        // Whole pages; what is too much is cut off.
        let padded = PagedFile::whole_pages(self.filled);
        self.piece.bytes()[self.filled..padded].fill(0);
        self.write_piece(padded)?;
        self.file.end_at(bytes)
    }

    fn write_piece(&mut self, length: usize) -> io::Result<()> {
        self.file.write(&self.piece.bytes()[..length], self.written)?;
        self.written += length as u64;
        self.filled = 0;
        self.unflushed += length;
        if self.unflushed >= UNFLUSHED_BYTES_MAX {
            self.unflushed = 0;
            self.file.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_put_is_there_whatever_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bulk");
        let lengths = [0, 1, 4095, 4096, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES + 5];
        for length in lengths {
            let all: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            for part in [1000, PIECE_BYTES, 1 << 20] {
                let mut bulk = BulkFile::create(&Files, &path).unwrap();
                for part in all.chunks(part) {
                    bulk.put(part).unwrap();
                }
                bulk.finish().unwrap();
                assert!(fs::read(&path).unwrap() == all, "{length} in parts of {part}");
            }
        }
    }
}
