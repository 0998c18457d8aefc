//! A snapshot as bytes, and saving it beside its place, where it is put when it is complete. A client that backs up gets
//! the same bytes in pieces.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tenure_replica::{SnapshotMark, codec::Codec};

use super::{
    CHUNK_BYTES_MAX, FOOTER, MAGIC, SavedSnapshot, VERSION, chained, prune_snapshots, snapshot_path,
};
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

/// The bytes around a snapshot's chunks: where in a snapshot the writing is. Answers the bytes that stand before, between and after the
/// chunks; the chunks themselves are the caller's to write.
#[derive(Debug)]
pub struct Frame {
    crc: u32,
    chunks: u64,
    bytes: u64,
}

impl Frame {
    /// The header.
    pub fn begin(mark: &SnapshotMark) -> (Frame, Vec<u8>) {
        let encoded = mark.to_bytes();
        let mut header = Vec::with_capacity(20 + encoded.len());
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
        header.extend_from_slice(&encoded);
        let crc = chained(0, &[&header]);
        header.extend_from_slice(&crc.to_le_bytes());
        (Frame { crc, chunks: 0, bytes: 0 }, header)
    }

    /// What stands before this chunk.
    pub fn chunk(&mut self, chunk: &[u8]) -> [u8; 8] {
        let length = (chunk.len() as u32).to_le_bytes();
        self.crc = chained(self.crc, &[&length, chunk]);
        self.chunks += 1;
        self.bytes += chunk.len() as u64;
        let mut before = [0; 8];
        before[..4].copy_from_slice(&length);
        before[4..].copy_from_slice(&self.crc.to_le_bytes());
        before
    }

    /// The footer.
    pub fn end(&self) -> Vec<u8> {
        let mut footer = Vec::with_capacity(24);
        footer.extend_from_slice(&FOOTER.to_le_bytes());
        footer.extend_from_slice(&self.chunks.to_le_bytes());
        footer.extend_from_slice(&self.bytes.to_le_bytes());
        let crc = chained(self.crc, &[&footer]);
        footer.extend_from_slice(&crc.to_le_bytes());
        footer
    }
}

/// A snapshot's bytes in pieces of one length, for readers that take them one by one: what was not enough for a whole
/// piece so far.
#[derive(Debug)]
pub struct Cutter {
    piece: Vec<u8>,
    head: usize,
    length: usize,
}

impl Cutter {
    /// Cuts pieces of this length.
    pub fn new(length: usize) -> Cutter {
        Cutter::with_head(0, length)
    }

    /// The same, each after so many zeros.
    pub fn with_head(head: usize, length: usize) -> Cutter {
        Cutter { piece: begun(head, length), head, length }
    }

    /// Takes from the front of `bytes` until a piece is whole. Nothing when all were taken before that.
    pub fn cut(&mut self, bytes: &mut &[u8]) -> Option<Vec<u8>> {
        let room = self.head + self.length - self.piece.len();
        let (now, later) = bytes.split_at(room.min(bytes.len()));
        self.piece.extend_from_slice(now);
        *bytes = later;
        (self.piece.len() == self.head + self.length).then(|| self.rest())
    }

    /// What is left over; there may be nothing in it.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::replace(&mut self.piece, begun(self.head, self.length))
    }
}

fn begun(head: usize, length: usize) -> Vec<u8> {
    let mut piece = Vec::with_capacity(head + length);
    piece.resize(head, 0);
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_and_nothing_is_lost() {
        let mut cutter = Cutter::with_head(1, 4);
        let mut pieces = Vec::new();
        for mut part in [&b"ab"[..], b"", b"cdefghijk", b"l"] {
            while let Some(piece) = cutter.cut(&mut part) {
                pieces.push(piece);
            }
            assert!(part.is_empty());
        }
        assert_eq!(pieces, [&b"\0abcd"[..], b"\0efgh", b"\0ijkl"]);
        assert_eq!(cutter.rest(), [0]);
    }
}
