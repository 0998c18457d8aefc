//! The thread that writes the log: whatever was submitted while it flushed is its next batch.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tenure_replica::{LogIndex, Persist};

use super::{DiskError, snapshot::ReceivedSnapshot, storage::StorageLock, wal::Wal};

/// A batch is not made longer than this by adding one more write to it.
const BATCH_BYTES_GOAL: u64 = 16 << 20;
/// What an entry takes besides its data, roughly.
const ENTRY_BYTES: u64 = 32;

/// What the log thread tells.
#[derive(Debug)]
pub enum WriterEvent {
    /// Every write up to this number is done.
    Persisted {
        /// The highest number of the batch.
        number: u64,
        /// How long the flush took; `None` if the batch needed none.
        flushed_in: Option<Duration>,
        /// How long it took as a whole, the flush included.
        took: Duration,
        /// How many bytes were written.
        bytes: u64,
    },
    /// The disk failed and the thread has stopped. Nothing after the last
    /// [`Persisted`](Self::Persisted) may be believed to be on disk: the member must stop.
    Failed(DiskError),
}

/// The front of the log thread. Dropping it writes what was submitted and joins the thread.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<SharedInbox>,
    thread: Option<JoinHandle<()>>,
    /// The directory stays ours until the thread is gone: fields are dropped after `drop`.
    _locks: Vec<StorageLock>,
}

#[derive(Debug, Default)]
struct SharedInbox {
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    queued_bytes: AtomicU64,
    bytes_since_release: AtomicU64,
}

#[derive(Debug, Default)]
struct Inbox {
    installs: Vec<ReceivedSnapshot>,
    persists: Vec<Persist>,
    release: Option<LogIndex>,
    closed: bool,
}

impl Writer {
    pub(crate) fn start(
        wal: Wal,
        locks: Vec<StorageLock>,
        replayed_bytes: u64,
        on_event: impl Fn(WriterEvent) + Send + 'static,
    ) -> Writer {
        let shared = Arc::new(SharedInbox::default());
        shared.bytes_since_release.store(replayed_bytes, Ordering::Relaxed);
        let work = {
            let shared = shared.clone();
            move || {
                if let Err(error) = shared.run(wal, &on_event) {
                    shared.close();
                    on_event(WriterEvent::Failed(error));
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("wal".into())
            .spawn(work)
            .expect("a thread can be started when the member starts");
        Writer { shared, thread: Some(thread), _locks: locks }
    }

    /// Hands over a write; never blocks. After a failure it is dropped without an answer.
    pub fn submit(&self, persist: Persist) {
        let mut inbox = self.shared.lock();
        if inbox.closed {
            return;
        }
        self.shared.queued_bytes.fetch_add(weight(&persist), Ordering::Relaxed);
        inbox.persists.push(persist);
        drop(inbox);
        self.shared.arrived.notify_one();
    }

    /// Hands over a snapshot that raft has taken over, before the write that says so. It is in its place before that.
    pub fn install(&self, snapshot: ReceivedSnapshot) {
        let mut inbox = self.shared.lock();
        if !inbox.closed {
            inbox.installs.push(snapshot);
        }
    }

    /// Allows to delete the log up to `index`. A snapshot that covers it must be durable.
    pub fn release(&self, index: LogIndex) {
        self.shared.bytes_since_release.store(0, Ordering::Relaxed);
        let mut inbox = self.shared.lock();
        inbox.release = inbox.release.max(Some(index));
        drop(inbox);
        self.shared.arrived.notify_one();
    }

    /// Bytes that were submitted and are not yet persisted.
    pub fn queued_bytes(&self) -> u64 {
        self.shared.queued_bytes.load(Ordering::Relaxed)
    }

    /// Bytes written since the last release: what a restart has to read again. Right after a
    /// start, the bytes that were read again.
    pub fn bytes_since_release(&self) -> u64 {
        self.shared.bytes_since_release.load(Ordering::Relaxed)
    }

    /// Writes what was submitted, and stops.
    pub fn close(self) {}
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed there; there is nothing left to clean up.
            let _ = thread.join();
        }
    }
}

impl SharedInbox {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // The inbox is sound at every step; a panic elsewhere does not spoil it.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    fn run(&self, mut wal: Wal, on_event: &impl Fn(WriterEvent)) -> Result<(), DiskError> {
        let mut persists = Vec::new();
        loop {
            let mut inbox = self.lock();
            while inbox.persists.is_empty() && inbox.release.is_none() && !inbox.closed {
                inbox = self.arrived.wait(inbox).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut persists, &mut inbox.persists);
            let installs = std::mem::take(&mut inbox.installs);
            let release = inbox.release.take();
            let closed = inbox.closed;
            drop(inbox);

            installs.into_iter().try_for_each(|snapshot| wal.install(snapshot))?;
            self.write(&mut wal, &persists, on_event)?;
            let idle = persists.is_empty();
            persists.clear();
            if let Some(index) = release {
                wal.release(index)?;
            }
            if closed && idle {
                return wal.seal();
            }
        }
    }

    fn write(
        &self,
        wal: &mut Wal,
        mut persists: &[Persist],
        on_event: &impl Fn(WriterEvent),
    ) -> Result<(), DiskError> {
        while !persists.is_empty() {
            let (count, weighed) = batch_of(persists);
            let (batch, rest) = persists.split_at(count);
            let began = Instant::now();
            let (bytes, flushed_in) = wal.append(batch)?;
            let took = began.elapsed();
            self.bytes_since_release.fetch_add(bytes, Ordering::Relaxed);
            self.queued_bytes.fetch_sub(weighed, Ordering::Relaxed);
            let number = batch.last().expect("a batch has at least one write").number;
            on_event(WriterEvent::Persisted { number, flushed_in, took, bytes });
            persists = rest;
        }
        Ok(())
    }
}

/// How many of these go into one batch, and what they weigh.
fn batch_of(persists: &[Persist]) -> (usize, u64) {
    let mut weighed = 0;
    for (count, persist) in persists.iter().enumerate() {
        let weight = weight(persist);
        if count > 0 && weighed + weight > BATCH_BYTES_GOAL {
            return (count, weighed);
        }
        weighed += weight;
    }
    (persists.len(), weighed)
}

pub(crate) fn weight(persist: &Persist) -> u64 {
    persist
        .entries
        .iter()
        .fold(ENTRY_BYTES, |sum, entry| sum + ENTRY_BYTES + entry.data.len() as u64)
}
