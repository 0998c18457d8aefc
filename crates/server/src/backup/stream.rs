//! A backup on its way to a client.
//!
//! Taking a snapshot of the state costs nothing; turning it into bytes takes as long as it takes, on a
//! thread that makes way for those that serve clients. A client that reads slowly makes the thread wait, one
//! that goes away or stops reading ends it. In memory are the few pieces between them, and the plan of the file: about
//! 64 bytes for each of its pages of 4 KiB, and 16 for each key that was made before the compacted revision.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tenure_replica::Snapshot;
use tokio::{
    runtime::{self, Runtime},
    sync::mpsc::{self, error::SendTimeoutError},
};

use super::{HASH_BYTES, Note};
use crate::{
    disk::{Breather, snapshot::Cutter},
    etcd_db::written::Written,
    node::files::beside,
};

/// A piece of a backup. Small: the thread that serves clients copies one in well under a millisecond.
const PIECE_BYTES: usize = 64 << 10;
/// How much is made between two rests. On a busy machine every rest is longer than it was meant to be.
const UNRESTED_BYTES: usize = 256 << 10;
/// Pieces that wait for a client.
const PIECES_MAX: usize = 8;
/// How long a client may take nothing. A backup holds a snapshot, and a member makes few at a time: a client that has
/// stopped reading must not keep others from theirs.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(60);

/// Some bytes of a backup.
#[derive(Debug)]
pub(crate) struct Piece {
    /// These.
    pub(crate) blob: Bytes,
    /// How many follow; 0 with the last piece, and only then.
    pub(crate) remaining: u64,
}

/// The client took nothing for too long, and the rest was given up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stalled;

/// A backup as it comes.
#[derive(Debug)]
pub(crate) struct Pieces {
    receiver: mpsc::Receiver<Piece>,
    stalled: Arc<AtomicBool>,
}

impl Pieces {
    /// The next one; nothing after the last.
    pub(crate) async fn next(&mut self) -> Option<Result<Piece, Stalled>> {
        match self.receiver.recv().await {
            Some(piece) => Some(Ok(piece)),
            // Said once, and after what was on its way.
            None => self.stalled.swap(false, Ordering::AcqRel).then_some(Err(Stalled)),
        }
    }
}

/// Starts a backup. `permit` is given back when it ends, or when nothing of it was taken for `idle_max`.
pub(crate) fn stream(
    snapshot: Box<Snapshot>,
    note: Note,
    idle_max: Duration,
    permit: impl Send + 'static,
) -> Pieces {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let stalled = Arc::new(AtomicBool::new(false));
    let pieces = Pieces { receiver, stalled: stalled.clone() };
    beside("backup", move || {
        let _permit = permit;
        let waiting = runtime::Builder::new_current_thread().enable_time().build();
        let Ok(waiting) = waiting else { return };
        let outlet = Outlet::new(sender, (waiting, idle_max));
        // Otherwise the client is gone.
        if let Err(End::Stalled(_sender)) = outlet.send(&snapshot, note) {
            tracing::warn!(?idle_max, "a backup was given up: its client takes nothing");
            stalled.store(true, Ordering::Release);
        }
    });
    pieces
}

/// Why a backup ended before its end.
enum End {
    Gone,
    /// With what keeps the stream open until the client can be told why.
    Stalled(mpsc::Sender<Piece>),
}

struct Outlet {
    sender: mpsc::Sender<Piece>,
    /// What this thread waits with, and how long at most.
    waiting: (Runtime, Duration),
    hash: Sha256,
    cutter: Cutter,
    /// How many bytes were not handed over yet.
    remaining: u64,
    breather: Breather,
    /// What was handed over since the last rest, and how long the client made us wait meanwhile.
    unrested: (usize, Duration),
}

impl Outlet {
    fn new(sender: mpsc::Sender<Piece>, waiting: (Runtime, Duration)) -> Outlet {
        let (hash, cutter) = (Sha256::new(), Cutter::new(PIECE_BYTES));
        let (breather, unrested) = (Breather::new(), (0, Duration::ZERO));
        Outlet { sender, waiting, hash, cutter, remaining: 0, breather, unrested }
    }

    fn send(mut self, snapshot: &Snapshot, note: Note) -> Result<(), End> {
        let file = Written::plan(snapshot, note.to_bytes().to_vec(), &mut || self.breather.rest());
        self.remaining = file.bytes() + HASH_BYTES as u64;
        file.write(&mut |pages| self.put(pages))?;
        let rest = self.cutter.rest();
        self.hand_over(rest.into())?;
        let hash = std::mem::take(&mut self.hash).finalize();
        self.hand_over(Bytes::copy_from_slice(&hash))
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), End> {
        self.hash.update(bytes);
        while let Some(piece) = self.cutter.cut(&mut bytes) {
            self.hand_over(piece.into())?;
        }
        Ok(())
    }

    fn hand_over(&mut self, blob: Bytes) -> Result<(), End> {
        if blob.is_empty() {
            return Ok(());
        }
        self.remaining -= blob.len() as u64;
        self.unrested.0 += blob.len();
        let asked = Instant::now();
        let (runtime, idle_max) = &self.waiting;
        let piece = Piece { blob, remaining: self.remaining };
        let sent = runtime.block_on(self.sender.send_timeout(piece, *idle_max));
        self.unrested.1 += asked.elapsed();
        if self.unrested.0 >= UNRESTED_BYTES {
            self.breather.rest_but(self.unrested.1);
            self.unrested = (0, Duration::ZERO);
        }
        sent.map_err(|error| match error {
            SendTimeoutError::Closed(_) => End::Gone,
            SendTimeoutError::Timeout(_) => End::Stalled(self.sender.clone()),
        })
    }
}
