//! Writing a file in whole pages, from its beginning to its end.
//!
//! A segment's zeros do not pass through the system's memory ([`fill`]): that took a tenth of a busy member's CPU. So its pages are
//! not there when a batch is written, and to change a part of one the system would have to read it first. What already stands in
//! the last page is therefore written again, as it is, together with what follows it. To the disk that is no
//! difference: it never gets less than a page.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::fs::OFlags;

use super::DiskError;

const PAGE_BYTES: u64 = 4096;
/// Zeros are written in pieces of this size, so that filling can be interrupted.
const FILL_BYTES: usize = 1 << 20;
/// Zeros that did pass through the system's memory are flushed this often, so that they never pile up before somebody else's flush.
const FILL_FLUSH_BYTES: u64 = 8 << 20;
/// Memory kept between writes; more is given back.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// The page in which the next write begins.
#[derive(Debug)]
pub(super) struct LastPage {
    /// What it holds so far; with it begins what is written next.
    bytes: Vec<u8>,
}

impl LastPage {
    /// The one in which a file that is written up to `offset` goes on.
    pub(super) fn read(file: &File, offset: u64) -> io::Result<LastPage> {
        let mut bytes = vec![0; (offset % PAGE_BYTES) as usize];
        file.read_exact_at(&mut bytes, offset - offset % PAGE_BYTES)?;
        Ok(LastPage { bytes })
    }

    /// Writes at `offset`, which must be where the last write ended, and zeros up to the end of the page.
    /// The file is `capacity` long, and stays so.
    pub(super) fn write(
        &mut self,
        file: &File,
        offset: u64,
        capacity: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        debug_assert_eq!(self.bytes.len() as u64, offset % PAGE_BYTES, "writes follow each other");
        let begin = offset - self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        let end = offset + bytes.len() as u64;
        let padded = end.next_multiple_of(PAGE_BYTES).min(capacity).max(end);
        self.bytes.resize((padded - begin) as usize, 0);
        file.write_all_at(&self.bytes, begin)?;
        let kept = (end - end % PAGE_BYTES).max(begin) - begin;
        self.bytes.truncate((end - begin) as usize);
        self.bytes.drain(..kept as usize);
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        Ok(())
    }
}

/// Fills a new file with zeros. False if `stop` was raised meanwhile.
pub(super) fn fill(
    file: &File,
    path: &Path,
    bytes: u64,
    stop: &AtomicBool,
) -> Result<bool, DiskError> {
    let memory = vec![0; FILL_BYTES + PAGE_BYTES as usize];
    let zeros = &memory[memory.as_ptr().align_offset(PAGE_BYTES as usize)..][..FILL_BYTES];
    let mut past_memory = open_past_memory(path).filter(|_| bytes % PAGE_BYTES == 0);
    let mut at = 0;
    while at < bytes {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let piece = &zeros[..zeros.len().min((bytes - at) as usize)];
        let written = past_memory.as_ref().unwrap_or(file).write_all_at(piece, at);
        match written {
            // Not every filesystem can; some say so only now.
            Err(cause) if cause.kind() == io::ErrorKind::InvalidInput && past_memory.is_some() => {
                past_memory = None;
                continue;
            }
            written => written.map_err(DiskError::io("fill segment", path))?,
        }
        at += piece.len() as u64;
        if past_memory.is_none() && at % FILL_FLUSH_BYTES == 0 && at < bytes {
            file.sync_data().map_err(DiskError::io("flush segment", path))?;
        }
    }
    Ok(true)
}

fn open_past_memory(path: &Path) -> Option<File> {
    let flags = OFlags::DIRECT.bits() as i32;
    OpenOptions::new().write(true).custom_flags(flags).open(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_pages_is_what_is_written_plainly() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let path = folder.path().join(name);
            let file = super::super::durable::create_file(&path).unwrap();
            assert!(fill(&file, &path, 40_000, &AtomicBool::new(false)).unwrap());
            file
        };
        let (plain, paged) = (open("plain"), open("paged"));
        let mut offset = 64;
        let mut last = LastPage::read(&paged, offset).unwrap();
        for (number, length) in (1u8..).zip([8, 4000, 24, 4096, 1, 9000, 4095, 8192, 8, 10_000]) {
            if number == 6 {
                last = LastPage::read(&paged, offset).unwrap();
            }
            let bytes = vec![number; length];
            plain.write_all_at(&bytes, offset).unwrap();
            last.write(&paged, offset, 40_000, &bytes).unwrap();
            offset += length as u64;
            let read = |file: &File| {
                let mut all = vec![0; 40_000];
                file.read_exact_at(&mut all, 0).unwrap();
                assert_eq!(file.metadata().unwrap().len(), 40_000);
                all
            };
            assert!(read(&plain) == read(&paged), "after write {number}");
        }
    }

    #[test]
    fn a_file_is_filled_with_zeros_whatever_its_length() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [64, 4096, 10_000, 3 << 20, (1 << 20) + 1] {
            let path = folder.path().join(bytes.to_string());
            let file = super::super::durable::create_file(&path).unwrap();
            assert!(fill(&file, &path, bytes, &AtomicBool::new(false)).unwrap());
            let found = std::fs::read(&path).unwrap();
            assert!(found.len() as u64 == bytes && found.iter().all(|byte| *byte == 0), "{bytes}");
            assert!(!fill(&file, &path, bytes, &AtomicBool::new(true)).unwrap());
        }
    }
}
