//! Appending to the log.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_replica::{HardState, LogIndex, Persist, SnapshotMark};

use super::{
    DiskConfig, DiskError,
    batch::{BATCH_BYTES_MAX, BatchBuffer},
    pages::{LastPage, PagedFile},
    record::{put_persist, put_snapshot, put_start},
    replay::{KnownSegment, Replay},
    segment::SEGMENT_HEADER_BYTES,
    snapshot::ReceivedSnapshot,
    storage::Storage,
    supply::Supply,
};

/// The log, open at its end.
#[derive(Debug)]
pub(crate) struct Wal {
    storage: Arc<dyn Storage>,
    folder: PathBuf,
    directory: u64,
    config: DiskConfig,
    /// Oldest first; the last is the running one.
    segments: VecDeque<KnownSegment>,
    file: PagedFile,
    offset: u64,
    capacity: u64,
    /// None until the next write.
    last_page: Option<LastPage>,
    /// The newest batch written, and the newest flushed.
    number: u64,
    durable: u64,
    chain: u32,
    hard_state: HardState,
    next_index: LogIndex,
    /// Written with the first batch if the log on disk does not lead up to the newest snapshot.
    starts_anew: Option<SnapshotMark>,
    buffer: BatchBuffer,
    supply: Option<Supply>,
}

impl Wal {
    /// Goes on where a replay ended, which must have been made durable.
    #[expect(clippy::too_many_arguments, reason = "all that a log is made of")]
    pub(crate) fn resume(
        storage: Arc<dyn Storage>,
        folder: PathBuf,
        directory: u64,
        config: DiskConfig,
        replay: Replay,
        logged_until: LogIndex,
        hard_state: HardState,
        starts_anew: Option<SnapshotMark>,
    ) -> Wal {
        let segments = VecDeque::from(replay.segments);
        let running = segments.back().expect("there is always a running segment");
        let file = PagedFile::new(&*storage, replay.file, &running.path);
        Wal {
            storage,
            folder,
            directory,
            config,
            next_index: logged_until + 1,
            segments,
            file,
            offset: replay.offset,
            capacity: replay.capacity,
            last_page: None,
            number: replay.number,
            durable: replay.number,
            chain: replay.chain,
            hard_state,
            starts_anew,
            buffer: BatchBuffer::default(),
            supply: None,
        }
    }

    /// Makes a snapshot that raft has taken over this member's newest. The write that says so comes after.
    pub(crate) fn install(&self, snapshot: ReceivedSnapshot) -> Result<(), DiskError> {
        snapshot.install(&*self.storage)
    }

    /// Writes everything as one batch, and flushes it unless only a commit index changed. Answers
    /// bytes written and how long the flush took.
    pub(crate) fn append(
        &mut self,
        persists: &[Persist],
    ) -> Result<(u64, Option<Duration>), DiskError> {
        let (written, must_flush) = self.write(persists)?;
        let flushed_in = if must_flush { Some(self.flush()?) } else { None };
        self.order_next()?;
        Ok((written, flushed_in))
    }

    /// Writes everything as one batch. Answers bytes written, and whether the batch counts only after a flush.
    pub(crate) fn write(&mut self, persists: &[Persist]) -> Result<(u64, bool), DiskError> {
        self.encode(persists);
        if self.offset + self.buffer.len() as u64 > self.capacity && !self.segment_is_fresh() {
            self.roll()?;
            self.encode(persists);
        }
        if self.buffer.len() > BATCH_BYTES_MAX {
            let (bytes, max) = (self.buffer.len(), BATCH_BYTES_MAX);
            return Err(DiskError::TooLarge { file: self.running().path.clone(), bytes, max });
        }
        // A segment's first batch is always flushed: it allows all earlier segments to go.
        let lazy = !self.segment_is_fresh()
            && self.starts_anew.is_none()
            && !persists.iter().any(|persist| self.must_flush(persist));
        let written = self.write_batch()?;
        for persist in persists {
            self.note(persist);
        }
        Ok((written, !lazy))
    }

    /// Has the next segment made in good time.
    pub(crate) fn order_next(&mut self) -> Result<(), DiskError> {
        if self.offset > self.capacity / 4 {
            let (next, bytes) = self.next_segment();
            self.supply()?.order(next, bytes);
        }
        Ok(())
    }

    /// Writes and flushes an empty batch: it vouches for the one before it.
    pub(crate) fn seal(&mut self) -> Result<(), DiskError> {
        self.flush()?;
        if !self.segment_is_fresh() {
            self.append(&[])?;
        }
        Ok(())
    }

    /// Deletes the segments in which nothing lies beyond `index`.
    pub(crate) fn release(&mut self, index: LogIndex) -> Result<(), DiskError> {
        if self.segment_is_fresh() {
            // The vote is still in an older segment only.
            return Ok(());
        }
        let mut unneeded = Vec::new();
        while self.segments.len() > 1 && self.segments[0].last_index <= index {
            unneeded.extend(self.segments.pop_front().map(|oldest| oldest.path));
        }
        if !unneeded.is_empty() {
            self.supply()?.delete(unneeded);
        }
        Ok(())
    }

    /// Does what waits for a thread, if there is none.
    pub(crate) fn work(&mut self) {
        if let Some(supply) = &mut self.supply {
            supply.work();
        }
    }

    /// A commit index may be forgotten: raft finds it again. Anything else may not.
    fn must_flush(&self, persist: &Persist) -> bool {
        let voted =
            |new: &HardState| (new.term, new.vote) != (self.hard_state.term, self.hard_state.vote);
        !persist.entries.is_empty()
            || persist.snapshot.is_some()
            || persist.hard_state.as_ref().is_some_and(voted)
    }

    fn segment_is_fresh(&self) -> bool {
        self.offset == SEGMENT_HEADER_BYTES
    }

    fn running(&mut self) -> &mut KnownSegment {
        self.segments.back_mut().expect("there is always a running segment")
    }

    fn supply(&mut self) -> Result<&mut Supply, DiskError> {
        if self.supply.is_none() {
            let (storage, folder) = (self.storage.clone(), self.folder.clone());
            self.supply = Some(Supply::start(storage, folder, self.directory)?);
        }
        Ok(self.supply.as_mut().expect("it was just started"))
    }

    fn encode(&mut self, persists: &[Persist]) {
        let fresh = self.segment_is_fresh();
        let out = self.buffer.start();
        if fresh {
            put_start(out, self.next_index, &self.hard_state);
        }
        if let Some(mark) = &self.starts_anew {
            put_snapshot(out, mark);
        }
        for persist in persists {
            put_persist(out, persist);
        }
    }

    fn write_batch(&mut self) -> Result<u64, DiskError> {
        let mark = self.directory as u32;
        let mut page = match self.last_page.take() {
            Some(page) => page,
            None => LastPage::read(&self.file, self.offset)
                .map_err(|cause| self.failed("read the end of", cause))?,
        };
        let (bytes, crc) = self.buffer.seal(mark, self.number + 1, self.durable, self.chain);
        let written = bytes.len() as u64;
        if let Err(cause) = page.write(&mut self.file, self.offset, self.capacity, bytes) {
            return Err(self.failed("write", cause));
        }
        self.last_page = Some(page);
        self.offset += written;
        self.number += 1;
        self.chain = crc;
        if let Some(mark) = self.starts_anew.take() {
            self.next_index = mark.index + 1;
            self.raise(mark.index);
        }
        Ok(written)
    }

    /// Makes durable what was written. Answers how long that took.
    pub(crate) fn flush(&mut self) -> Result<Duration, DiskError> {
        let started = Instant::now();
        if let Err(cause) = self.file.flush() {
            return Err(self.failed("flush", cause));
        }
        self.durable = self.number;
        Ok(started.elapsed())
    }

    /// Goes on in the next segment. Nothing in an earlier one may be left unflushed.
    fn roll(&mut self) -> Result<(), DiskError> {
        if self.durable < self.number {
            self.flush()?;
        }
        let (sequence, bytes) = self.next_segment();
        let (file, path) = self.supply()?.take(sequence, bytes)?;
        self.file = PagedFile::new(&*self.storage, file, &path);
        self.offset = SEGMENT_HEADER_BYTES;
        self.capacity = bytes;
        self.last_page = None;
        self.segments.push_back(KnownSegment { sequence, path, last_index: 0 });
        Ok(())
    }

    /// Number and size of the next segment. Sizes grow step by step: the running segment must last
    /// until the next one is filled with zeros.
    fn next_segment(&mut self) -> (u64, u64) {
        let DiskConfig { first_segment_bytes: least, segment_bytes: most } = self.config;
        let bytes = (self.capacity * 2).clamp(least.min(most), most);
        (self.running().sequence + 1, bytes)
    }

    fn note(&mut self, persist: &Persist) {
        if let Some(hard_state) = persist.hard_state {
            self.hard_state = hard_state;
        }
        let marked = persist.snapshot.as_ref().map(|mark| mark.index);
        let appended = persist.entries.last().map(|entry| entry.index);
        for index in marked.into_iter().chain(appended) {
            self.next_index = index + 1;
            self.raise(index);
        }
    }

    fn raise(&mut self, index: LogIndex) {
        let running = self.running();
        running.last_index = running.last_index.max(index);
    }

    fn failed(&mut self, action: &'static str, cause: std::io::Error) -> DiskError {
        let path: &Path = &self.running().path;
        DiskError::io(action, path)(cause)
    }

    /// The running segment and where its next batch goes.
    #[cfg(test)]
    pub(crate) fn position(&mut self) -> (PathBuf, u64) {
        (self.running().path.clone(), self.offset)
    }

    /// The newest batch that is known to be flushed.
    #[cfg(test)]
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Puts another file in the running segment's place, to see how its failures are handled.
    #[cfg(test)]
    pub(crate) fn replace_file(&mut self, file: std::fs::File) {
        self.file = PagedFile::plain(Box::new(file));
    }
}
