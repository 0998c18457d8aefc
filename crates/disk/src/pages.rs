//! Writing a file in whole pages, from its beginning to its end.
//!
//! A segment's zeros do not pass through the system's memory ([`fill`]): that took a tenth of a busy member's CPU. So its
//! pages are not there when a batch is written, and to change a part of one the system would have to read it first. What is
//! already in the last page is therefore written again, as it is, together with what follows it. To the disk that is no
//! difference: it never gets less than a page.

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    DiskError,
    storage::{Storage, StorageFile},
};

const PAGE_BYTES: u64 = 4096;
/// Zeros are written in pieces of this size, so that filling can be interrupted.
const FILL_BYTES: usize = 1 << 20;
/// Zeros that did pass through the system's memory are flushed this often, so that they never pile up before another flush.
const FILL_FLUSH_BYTES: u64 = 8 << 20;
/// Memory kept between writes; more is given back.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// The page in which the next write begins.
#[derive(Debug)]
pub(crate) struct LastPage {
    /// Begins on a page's boundary with what the page holds so far; what is written next follows it.
    memory: Aligned,
    held: usize,
}

impl LastPage {
    /// The one in which a file that is written up to `offset` goes on.
    pub(crate) fn read(file: &PagedFile, offset: u64) -> io::Result<LastPage> {
        let held = (offset % PAGE_BYTES) as usize;
        let mut memory = Aligned::new(PAGE_BYTES as usize);
        file.read(&mut memory.bytes()[..held], offset - offset % PAGE_BYTES)?;
        Ok(LastPage { memory, held })
    }

    /// Writes at `offset`, which must be where the last write ended, and zeros up to the end of the page.
    /// The file is `capacity` long, and stays so.
    pub(crate) fn write(
        &mut self,
        file: &mut PagedFile,
        offset: u64,
        capacity: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        debug_assert_eq!(self.held as u64, offset % PAGE_BYTES, "writes follow each other");
        let begin = offset - self.held as u64;
        let end = offset + bytes.len() as u64;
        let padded = end.next_multiple_of(PAGE_BYTES).min(capacity).max(end);
        let (held, filled) = (self.held, self.held + bytes.len());
        let pages = self.memory.with_room((padded - begin) as usize, held);
        pages[held..filled].copy_from_slice(bytes);
        pages[filled..].fill(0);
        file.write(pages, begin)?;
        let kept = filled / PAGE_BYTES as usize * PAGE_BYTES as usize;
        pages.copy_within(kept..filled, 0);
        self.held = filled - kept;
        self.memory.shrink(self.held);
        Ok(())
    }
}

/// Memory that begins on a page's boundary.
#[derive(Debug)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
    start: usize,
}

impl Aligned {
    pub(crate) fn new(bytes: usize) -> Aligned {
        let memory = vec![0; bytes + PAGE_BYTES as usize];
        let start = memory.as_ptr().align_offset(PAGE_BYTES as usize);
        Aligned { memory, start }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let end = self.memory.len() - PAGE_BYTES as usize + self.start;
        &mut self.memory[self.start..end]
    }

    /// So many bytes, of which the first `held` are what they were.
    fn with_room(&mut self, bytes: usize, held: usize) -> &mut [u8] {
        if self.bytes().len() < bytes {
            let mut larger = Aligned::new(bytes.next_power_of_two());
            larger.bytes()[..held].copy_from_slice(&self.bytes()[..held]);
            *self = larger;
        }
        &mut self.bytes()[..bytes]
    }

    fn shrink(&mut self, held: usize) {
        if self.memory.len() > KEPT_BYTES_MAX {
            let mut smaller = Aligned::new(PAGE_BYTES as usize);
            smaller.bytes()[..held].copy_from_slice(&self.bytes()[..held]);
            *self = smaller;
        }
    }
}

/// A file whose whole pages are written past the system's memory, if the filesystem can.
///
/// A log is not read while it is written, so copies of its pages are of no use; and a flush then has nothing to do but
/// to tell the disk.
#[derive(Debug)]
pub(crate) struct PagedFile {
    file: Box<dyn StorageFile>,
    past_memory: Option<Box<dyn StorageFile>>,
}

impl PagedFile {
    pub(crate) fn new(storage: &dyn Storage, file: Box<dyn StorageFile>, path: &Path) -> PagedFile {
        let past_memory = storage.open_direct(path);
        PagedFile { file, past_memory }
    }

    /// One that is written as any other.
    #[cfg(test)]
    pub(crate) fn plain(file: Box<dyn StorageFile>) -> PagedFile {
        PagedFile { file, past_memory: None }
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_all_at(bytes, at)
    }

    pub(crate) fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let is_whole = (bytes.len() as u64).is_multiple_of(PAGE_BYTES);
        if let Some(past_memory) = self.past_memory.as_ref().filter(|_| is_whole) {
            match past_memory.write_all_to(bytes, at) {
                // Not every filesystem can; some say so only now.
                Err(cause) if cause.kind() == io::ErrorKind::InvalidInput => {}
                written => return written,
            }
            self.past_memory = None;
        }
        self.file.write_all_to(bytes, at)
    }

    /// The least whole pages for so many bytes.
    pub(crate) fn whole_pages(bytes: usize) -> usize {
        bytes.next_multiple_of(PAGE_BYTES as usize)
    }

    /// Makes durable what was written, and that the file is so long.
    pub(crate) fn end_at(&self, bytes: u64) -> io::Result<()> {
        self.file.resize(bytes)?;
        self.file.sync_everything()
    }

    /// Makes durable what was written, whichever way it went.
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.file.sync_content()
    }
}

/// Fills a new file with zeros. False if `stop` was raised meanwhile.
pub(crate) fn fill(
    storage: &dyn Storage,
    file: &dyn StorageFile,
    path: &Path,
    bytes: u64,
    stop: &AtomicBool,
) -> Result<bool, DiskError> {
    let at_once = FILL_BYTES.min(bytes as usize);
    let memory = vec![0; at_once + PAGE_BYTES as usize];
    let zeros = &memory[memory.as_ptr().align_offset(PAGE_BYTES as usize)..][..at_once];
    let mut past_memory = storage.open_direct(path).filter(|_| bytes.is_multiple_of(PAGE_BYTES));
    let mut at = 0;
    while at < bytes {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let piece = &zeros[..zeros.len().min((bytes - at) as usize)];
        let written = past_memory.as_deref().unwrap_or(file).write_all_to(piece, at);
        match written {
            // Not every filesystem can; some say so only now.
            Err(cause) if cause.kind() == io::ErrorKind::InvalidInput && past_memory.is_some() => {
                past_memory = None;
                continue;
            }
            written => written.map_err(DiskError::io("fill segment", path))?,
        }
        at += piece.len() as u64;
        if past_memory.is_none() && at.is_multiple_of(FILL_FLUSH_BYTES) && at < bytes {
            file.sync_content().map_err(DiskError::io("flush segment", path))?;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, os::unix::fs::FileExt};

    use super::*;
    use crate::{Files, durable::create_file};

    /// Writes the same plainly and in pages into files that are `capacity` long, which must stay alike.
    fn compare(
        capacity: u64,
        lengths: &[usize],
        paged: impl Fn(Box<dyn StorageFile>, &Path) -> PagedFile,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let path = folder.path().join(name);
            let file = create_file(&Files, &path).unwrap();
            assert!(fill(&Files, &*file, &path, capacity, &AtomicBool::new(false)).unwrap());
            (file, path)
        };
        let ((plain, _), (file, path)) = (open("plain"), open("paged"));
        let mut paged = paged(file, &path);
        let mut offset = 64;
        let mut last = LastPage::read(&paged, offset).unwrap();
        for (number, length) in (1u8..).zip(lengths) {
            if number == 6 {
                last = LastPage::read(&paged, offset).unwrap();
            }
            let bytes = vec![number; *length];
            plain.write_all_to(&bytes, offset).unwrap();
            last.write(&mut paged, offset, capacity, &bytes).unwrap();
            offset += *length as u64;
            let read = |file: &dyn StorageFile| {
                let mut all = vec![0; capacity as usize];
                file.read_all_at(&mut all, 0).unwrap();
                assert_eq!(file.length().unwrap(), capacity);
                all
            };
            assert!(read(&*plain) == read(&*paged.file), "after write {number}");
        }
    }

    const LENGTHS: [usize; 10] = [8, 4000, 24, 4096, 1, 9000, 4095, 8192, 8, 10_000];

    fn paged(file: Box<dyn StorageFile>, path: &Path) -> PagedFile {
        PagedFile::new(&Files, file, path)
    }

    #[test]
    fn what_is_written_in_pages_is_what_is_written_plainly() {
        compare(40_000, &LENGTHS, paged);
        compare(40_960, &LENGTHS, paged);
        compare(16 << 20, &[1, 5 << 20, 4095, 6 << 20, 3, 17], paged);
        compare(40_960, &LENGTHS, |file, _| PagedFile::plain(file));
    }

    #[test]
    fn a_filesystem_that_cannot_write_past_memory_is_written_plainly() {
        // A file of the kernel's that takes no nonsense: it refuses with the same word.
        let refuses = || OpenOptions::new().write(true).open("/proc/self/oom_score_adj").unwrap();
        let refused = refuses().write_all_at(&[0; PAGE_BYTES as usize], 0).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        compare(40_960, &LENGTHS, |file, _| PagedFile {
            file,
            past_memory: Some(Box::new(refuses())),
        });
    }

    #[test]
    fn a_file_is_filled_with_zeros_whatever_its_length() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [64, 4096, 10_000, 3 << 20, (1 << 20) + 1] {
            let path = folder.path().join(bytes.to_string());
            let file = create_file(&Files, &path).unwrap();
            assert!(fill(&Files, &*file, &path, bytes, &AtomicBool::new(false)).unwrap());
            let found = std::fs::read(&path).unwrap();
            assert!(found.len() as u64 == bytes && found.iter().all(|byte| *byte == 0), "{bytes}");
            assert!(!fill(&Files, &*file, &path, bytes, &AtomicBool::new(true)).unwrap());
        }
    }
}
