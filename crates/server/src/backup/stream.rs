//! A backup on its way to a client.
//!
//! The state is frozen, which costs nothing; turning it into bytes takes as long as it takes, on a
//! thread that makes way for those who serve clients. A client that reads slowly makes the thread wait, one
//! that goes away ends it; memory is bounded by the few pieces between them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tenure_replica::Frozen;
use tokio::sync::mpsc;

use super::{Note, PAGE_BYTES};
use crate::{
    disk::snapshot::{Cutter, Frame},
    node::files::{REST_MAX, beside},
};

/// A piece of a backup. Small: whoever serves clients copies one in well under a millisecond.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that wait for a client.
const PIECES_MAX: usize = 8;
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

/// Starts a backup. `permit` is given back when it ends.
pub(crate) fn stream(
    frozen: Box<Frozen>,
    note: Note,
    permit: impl Send + 'static,
) -> mpsc::Receiver<Piece> {
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    beside("backup", move || {
        let _permit = permit;
        // An error means that nobody listens any more.
        let _ = Outlet::new(sender, estimate(&frozen)).send(&frozen, note);
    });
    pieces
}

fn estimate(frozen: &Frozen) -> u64 {
    let store = &frozen.state.store;
    store.size_bytes().saturating_sub(OVERHEAD_BYTES * store.len() as u64)
}

struct Gone;

struct Outlet {
    sender: mpsc::Sender<Piece>,
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
    fn new(sender: mpsc::Sender<Piece>, estimate: u64) -> Outlet {
        let (hash, cutter) = (Sha256::new(), Cutter::new(PIECE_BYTES));
        Outlet { sender, hash, cutter, bytes: 0, handed: 0, estimate, waited: Duration::ZERO }
    }

    fn send(mut self, frozen: &Frozen, note: Note) -> Result<(), Gone> {
        let (mut frame, header) = Frame::begin(&frozen.mark);
        self.put(&header)?;
        let mut began = Instant::now();
        for chunk in frozen.chunks() {
            self.put(&frame.chunk(&chunk))?;
            self.put(&chunk)?;
            // It rests for as long as it worked: there may be one core for everybody.
            let worked = began.elapsed().saturating_sub(std::mem::take(&mut self.waited));
            std::thread::sleep(worked.min(REST_MAX));
            began = Instant::now();
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

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), Gone> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        while let Some(piece) = self.cutter.cut(&mut bytes) {
            self.pass_on(piece)?;
        }
        Ok(())
    }

    fn pass_on(&mut self, piece: Vec<u8>) -> Result<(), Gone> {
        if piece.is_empty() {
            return Ok(());
        }
        self.handed += piece.len() as u64;
        let remaining = self.estimate.saturating_sub(self.handed).max(1);
        self.hand_over(piece.into(), remaining)
    }

    fn hand_over(&mut self, blob: Bytes, remaining: u64) -> Result<(), Gone> {
        let asked = Instant::now();
        let sent = self.sender.blocking_send(Piece { blob, remaining });
        self.waited += asked.elapsed();
        sent.map_err(|_| Gone)
    }
}
