//! One other member: what waits to be sent to it, and whether it is there.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tenure_api::MemberId;
use tenure_replica::{Message, codec::Codec};
use tokio::sync::Notify;

use super::{
    frame::{FrameKind, put_frame},
    presence::Presence,
};

/// Bytes that may wait for one member. What comes on top is dropped: raft sends again what matters.
pub const OUTGOING_BYTES_MAX: usize = 64 << 20;
/// Memory that a buffer keeps when it was emptied.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The state that tasks share about one member.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: MemberId,
    pub(super) address: String,
    queue: Mutex<Queue>,
    /// There is something to send.
    pub(super) filled: Notify,
    /// There is a reason to call at once.
    pub(super) call_now: Notify,
    presence: Mutex<Presence>,
    /// A snapshot is arriving from it.
    pub(super) receiving: AtomicBool,
    dropped: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    /// What was last logged about its refusals, so that a retry does not say it again.
    complaint: Mutex<Option<String>>,
}

#[derive(Debug, Default)]
struct Queue {
    open: bool,
    bytes: Vec<u8>,
}

impl Link {
    pub(super) fn new(id: MemberId, address: String) -> Link {
        Link {
            id,
            address,
            queue: Mutex::default(),
            filled: Notify::new(),
            call_now: Notify::new(),
            presence: Mutex::default(),
            receiving: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            complaint: Mutex::default(),
        }
    }

    /// Queues a message; answers whether there was room and a connection.
    pub(super) fn send(&self, message: &Message) -> bool {
        let mut queue = lock(&self.queue);
        let was_empty = queue.bytes.is_empty();
        let fits = queue.open && queue.bytes.len() < OUTGOING_BYTES_MAX;
        if !fits
            || put_frame(&mut queue.bytes, FrameKind::Message, |out| message.encode(out)).is_err()
        {
            drop(queue);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        drop(queue);
        if was_empty {
            self.filled.notify_one();
        }
        true
    }

    /// Takes what is queued, in exchange for an empty buffer.
    pub(super) fn take(&self, empty: &mut Vec<u8>) {
        empty.clear();
        empty.shrink_to(KEPT_BYTES_MAX);
        std::mem::swap(&mut lock(&self.queue).bytes, empty);
    }

    /// Messages are queued from now on.
    pub(super) fn open(&self) {
        lock(&self.queue).open = true;
    }

    /// Messages are dropped from now on, and those that waited too: they would be stale when
    /// the next connection stands.
    pub(super) fn close(&self) {
        *lock(&self.queue) = Queue::default();
    }

    /// How many messages were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn presence(&self) -> MutexGuard<'_, Presence> {
        lock(&self.presence)
    }

    /// Logs a complaint unless it is the one that was logged last.
    pub(super) fn complain(&self, peer: &str, about: String) {
        let mut last = lock(&self.complaint);
        if last.as_ref() != Some(&about) {
            tracing::warn!(peer, address = %self.address, "{about}");
            *last = Some(about);
        }
    }

    /// The complaint is over.
    pub(super) fn content(&self) {
        *lock(&self.complaint) = None;
    }
}

/// What these locks guard is sound at every step; a panic elsewhere does not spoil it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
