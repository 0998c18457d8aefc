//! A backup on its way to a client.
//!
//! Taking a snapshot of the state costs nothing; turning it into bytes takes as long as it takes, on a
//! thread that makes way for those that serve clients. A client that reads slowly makes the thread wait, one
//! that goes away or stops reading ends it; memory is bounded by the few pieces between them.

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

use super::{Note, PAGE_BYTES};
use crate::{
    disk::{
        Breather,
        snapshot::{Cutter, Frame},
    },
    node::files::beside,
};

/// A piece of a backup. Small: the thread that serves clients copies one in well under a millisecond.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that wait for a client.
const PIECES_MAX: usize = 8;
/// How long a client may take nothing. A backup holds a snapshot, and a member makes few at a time: a client that has
/// stopped reading must not keep others from theirs.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(60);
/// What a version counts for in a store's size and does not need in a file, about.
const OVERHEAD_BYTES: u64 = 300;

/// Some bytes of a backup.
#[derive(Debug)]
pub(crate) struct Piece {
    /// These.
    pub(crate) blob: Bytes,
    /// About how many follow; 0 with the last piece, and only then.
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
        let outlet = Outlet::new(sender, (waiting, idle_max), estimate(&snapshot));
        // Otherwise the client is gone.
        if let Err(End::Stalled(_sender)) = outlet.send(&snapshot, note) {
            tracing::warn!(?idle_max, "a backup was given up: its client takes nothing");
            stalled.store(true, Ordering::Release);
        }
    });
    pieces
}

fn estimate(snapshot: &Snapshot) -> u64 {
    let store = &snapshot.state.store;
    store.size_bytes().saturating_sub(OVERHEAD_BYTES * store.len() as u64)
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
    bytes: u64,
    /// How many of them were handed over.
    handed: u64,
    estimate: u64,
    /// How long the client made us wait.
    waited: Duration,
}

impl Outlet {
    fn new(sender: mpsc::Sender<Piece>, waiting: (Runtime, Duration), estimate: u64) -> Outlet {
        let (hash, cutter) = (Sha256::new(), Cutter::new(PIECE_BYTES));
        let (bytes, handed, waited) = (0, 0, Duration::ZERO);
        Outlet { sender, waiting, hash, cutter, bytes, handed, estimate, waited }
    }

    fn send(mut self, snapshot: &Snapshot, note: Note) -> Result<(), End> {
        let (mut frame, header) = Frame::begin(&snapshot.mark);
        self.put(&header)?;
        let mut breather = Breather::new();
        for chunk in snapshot.chunks() {
            self.put(&frame.chunk(&chunk))?;
            self.put(&chunk)?;
            breather.rest_but(std::mem::take(&mut self.waited));
        }
        self.put(&frame.end())?;
        self.put(&note.to_bytes())?;
        let padding = self.bytes.next_multiple_of(PAGE_BYTES) - self.bytes;
        self.put(&vec![0; padding as usize])?;
        let rest = self.cutter.rest();
        self.pass_on(rest)?;
        let hash = std::mem::take(&mut self.hash).finalize();
        self.hand_over(Bytes::copy_from_slice(&hash), 0)
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), End> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        while let Some(piece) = self.cutter.cut(&mut bytes) {
            self.pass_on(piece)?;
        }
        Ok(())
    }

    fn pass_on(&mut self, piece: Vec<u8>) -> Result<(), End> {
        if piece.is_empty() {
            return Ok(());
        }
        self.handed += piece.len() as u64;
        let remaining = self.estimate.saturating_sub(self.handed).max(1);
        self.hand_over(piece.into(), remaining)
    }

    fn hand_over(&mut self, blob: Bytes, remaining: u64) -> Result<(), End> {
        let asked = Instant::now();
        let (runtime, idle_max) = &self.waiting;
        let piece = Piece { blob, remaining };
        let sent = runtime.block_on(self.sender.send_timeout(piece, *idle_max));
        self.waited += asked.elapsed();
        sent.map_err(|error| match error {
            SendTimeoutError::Closed(_) => End::Gone,
            SendTimeoutError::Timeout(_) => End::Stalled(self.sender.clone()),
        })
    }
}
