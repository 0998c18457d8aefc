//! Reading a snapshot, believing nothing, and from its chunks to the state that they hold.

use std::{
    fs::File,
    io::{BufReader, ErrorKind, Read, Take},
    path::{Path, PathBuf},
};

use tenure_replica::{
    SnapshotMark, SnapshotReader, State,
    codec::{Codec, DecodeError},
};

use super::{CHUNK_BYTES_MAX, FOOTER, MAGIC, MARK_BYTES_MAX, VERSION, chained};
use crate::{DiskError, Storage, StorageReader};

const BUFFER_BYTES: usize = 256 << 10;

/// A snapshot that is being read, chunk by chunk.
///
/// Only when [`next_chunk`](Self::next_chunk) has answered `None` is it known to be complete.
#[derive(Debug)]
pub struct SnapshotFileReader<R = File> {
    path: PathBuf,
    source: BufReader<Take<R>>,
    is_alone: bool,
    mark: SnapshotMark,
    offset: u64,
    crc: u32,
    chunks: u64,
    bytes: u64,
    ended: bool,
}

impl SnapshotFileReader {
    /// Opens a file and checks its header.
    pub fn open(path: &Path) -> Result<SnapshotFileReader, DiskError> {
        SnapshotFileReader::over(path, file(path)?, BUFFER_BYTES)
    }

    /// Opens a snapshot that other things may follow, up to `end`.
    pub fn open_followed(path: &Path, end: u64) -> Result<SnapshotFileReader, DiskError> {
        SnapshotFileReader::begin(path, file(path)?.take(end), BUFFER_BYTES, false)
    }
}

impl SnapshotFileReader<StorageReader> {
    /// Opens a file of a storage and checks its header.
    pub fn open_in(storage: &dyn Storage, path: &Path) -> Result<Self, DiskError> {
        let file = storage.open_read(path).map_err(DiskError::io("open snapshot", path))?;
        let bytes = file.length().map_err(DiskError::io("open snapshot", path))?;
        let buffer_bytes = BUFFER_BYTES.min(bytes as usize);
        SnapshotFileReader::over(path, StorageReader::new(file, 0), buffer_bytes)
    }
}

fn file(path: &Path) -> Result<File, DiskError> {
    File::open(path).map_err(DiskError::io("open snapshot", path))
}

impl<R: Read> SnapshotFileReader<R> {
    /// Reads what may or may not be in a file yet, and checks its header. The path is for errors.
    pub fn over(path: &Path, source: R, buffer_bytes: usize) -> Result<Self, DiskError> {
        SnapshotFileReader::begin(path, source.take(u64::MAX), buffer_bytes, true)
    }

    fn begin(
        path: &Path,
        source: Take<R>,
        buffer_bytes: usize,
        is_alone: bool,
    ) -> Result<Self, DiskError> {
        let mut reader = SnapshotFileReader {
            path: path.to_owned(),
            source: BufReader::with_capacity(buffer_bytes, source),
            is_alone,
            mark: SnapshotMark::default(),
            offset: 0,
            crc: 0,
            chunks: 0,
            bytes: 0,
            ended: false,
        };
        reader.read_header()?;
        Ok(reader)
    }

    /// How far it has come.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The checksum of all that was read.
    pub fn checksum(&self) -> u32 {
        self.crc
    }

    /// What follows the footer, once that was read.
    pub fn rest(mut self, max: usize) -> Result<Vec<u8>, DiskError> {
        let mut rest = Vec::new();
        let read = self.source.by_ref().take(max as u64 + 1).read_to_end(&mut rest);
        read.map_err(DiskError::io("read snapshot", &self.path))?;
        match rest.len() > max {
            false => Ok(rest),
            true => Err(self.corrupt(self.offset, "it goes on after its end")),
        }
    }

    /// What is read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where in the log the snapshot stands.
    pub fn mark(&self) -> &SnapshotMark {
        &self.mark
    }

    /// The next chunk, or `None` after the last one if everything was right.
    pub fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, DiskError> {
        if self.ended {
            return Ok(None);
        }
        let start = self.offset;
        let length: [u8; 4] = self.take()?;
        if u32::from_le_bytes(length) == FOOTER {
            self.read_footer(start)?;
            self.ended = true;
            return Ok(None);
        }
        let bytes = u32::from_le_bytes(length) as usize;
        if bytes > CHUNK_BYTES_MAX {
            return Err(self.corrupt(start, format!("a chunk of {bytes} bytes")));
        }
        let crc = u32::from_le_bytes(self.take()?);
        let chunk = self.take_bytes(bytes)?;
        self.crc = chained(self.crc, &[&length, &chunk]);
        if self.crc != crc {
            return Err(self.corrupt(start, "checksum mismatch"));
        }
        self.chunks += 1;
        self.bytes += chunk.len() as u64;
        Ok(Some(chunk))
    }

    /// Reads everything that is left and answers the mark.
    pub fn verify(mut self) -> Result<SnapshotMark, DiskError> {
        while self.next_chunk()?.is_some() {}
        Ok(self.mark)
    }

    fn read_header(&mut self) -> Result<(), DiskError> {
        let start: [u8; 16] = self.take()?;
        let word =
            |at: usize| u32::from_le_bytes(start[at..at + 4].try_into().expect("four bytes"));
        if start[..8] != MAGIC[..] {
            return Err(self.corrupt(0, "it is not a snapshot"));
        }
        if word(8) > VERSION {
            let file = self.path.clone();
            return Err(DiskError::UnknownVersion { file, found: word(8), known: VERSION });
        }
        let length = word(12) as usize;
        if length > MARK_BYTES_MAX {
            return Err(self.corrupt(12, format!("a mark of {length} bytes")));
        }
        let mark = self.take_bytes(length)?;
        let crc = u32::from_le_bytes(self.take()?);
        self.crc = chained(0, &[&start, &mark]);
        if self.crc != crc || word(8) != VERSION {
            return Err(self.corrupt(0, "the header is damaged"));
        }
        self.mark =
            SnapshotMark::from_bytes(&mark).map_err(|error| self.corrupt(16, error.to_string()))?;
        Ok(())
    }

    fn read_footer(&mut self, start: u64) -> Result<(), DiskError> {
        let chunks: [u8; 8] = self.take()?;
        let bytes: [u8; 8] = self.take()?;
        let crc = u32::from_le_bytes(self.take()?);
        let expected = chained(self.crc, &[&FOOTER.to_le_bytes(), &chunks, &bytes]);
        let counted = (u64::from_le_bytes(chunks), u64::from_le_bytes(bytes));
        self.crc = expected;
        if crc != expected || counted != (self.chunks, self.bytes) {
            return Err(self.corrupt(start, "the footer is damaged"));
        }
        if !self.is_alone {
            return Ok(());
        }
        let end = self.offset;
        let mut more = [0];
        match self.source.read(&mut more) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.corrupt(end, "it goes on after its footer")),
            Err(cause) => Err(DiskError::io("read snapshot", &self.path)(cause)),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DiskError> {
        let mut bytes = [0; N];
        match self.source.read_exact(&mut bytes) {
            Ok(()) => {
                self.offset += N as u64;
                Ok(bytes)
            }
            Err(cause) if cause.kind() == ErrorKind::UnexpectedEof => {
                Err(self.corrupt(self.offset, "it ends too early"))
            }
            Err(cause) => Err(DiskError::io("read snapshot", &self.path)(cause)),
        }
    }

    /// Memory grows with what is really there, not with what a length claims.
    fn take_bytes(&mut self, length: usize) -> Result<Vec<u8>, DiskError> {
        let mut bytes = Vec::with_capacity(length.min(2 * BUFFER_BYTES));
        self.source
            .by_ref()
            .take(length as u64)
            .read_to_end(&mut bytes)
            .map_err(DiskError::io("read snapshot", &self.path))?;
        if bytes.len() < length {
            return Err(self.corrupt(self.offset, "it ends too early"));
        }
        self.offset += length as u64;
        Ok(bytes)
    }

    fn corrupt(&self, offset: u64, what: impl Into<String>) -> DiskError {
        DiskError::corrupt(&self.path, offset, what)
    }
}

impl<R: Read> Iterator for SnapshotFileReader<R> {
    type Item = Result<Vec<u8>, DiskError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_chunk().transpose();
        // After an error there is nothing more to say.
        self.ended |= matches!(next, Some(Err(_)));
        next
    }
}

/// Reads a snapshot file into a state.
pub fn load(path: &Path) -> Result<(SnapshotMark, State), LoadError> {
    let mut reader = SnapshotFileReader::open(path)?;
    let state = read_state(&mut reader)?;
    Ok((reader.mark().clone(), state))
}

/// Reads a snapshot file of a storage into a state.
pub fn load_in(storage: &dyn Storage, path: &Path) -> Result<(SnapshotMark, State), LoadError> {
    let mut reader = SnapshotFileReader::open_in(storage, path)?;
    let state = read_state(&mut reader)?;
    Ok((reader.mark().clone(), state))
}

/// Makes a state from everything that is left to read.
pub fn read_state<R: Read>(reader: &mut SnapshotFileReader<R>) -> Result<State, LoadError> {
    let mut chunks_read = SnapshotReader::new();
    while let Some(chunk) = reader.next_chunk()? {
        chunks_read.chunk(&chunk).map_err(|cause| LoadError::content(reader.path(), cause))?;
    }
    chunks_read.finish().map_err(|cause| LoadError::content(reader.path(), cause))
}

/// Why a snapshot could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is not what was written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file is whole, but its content makes no sense to this version.
    #[error(
        "snapshot {} is whole, but this release cannot read it: {cause}; nothing was changed. Start \
         the release that wrote it, which may be older or newer (`tenure version`)", path.display()
    )]
    Content {
        /// Which file.
        path: PathBuf,
        /// What was wrong.
        cause: DecodeError,
    },
}

impl LoadError {
    fn content(path: &Path, cause: DecodeError) -> LoadError {
        LoadError::Content { path: path.to_owned(), cause }
    }
}
