//! A state on its way from one member to another, on a connection of its own.
//!
//! What travels are the bytes of a snapshot file, but no file has to be written first: the sender makes them from its
//! memory as the receiver takes them. The receiver builds its state from them while it writes them beside, checks
//! everything and makes the file durable before it answers. The file gets the name of a snapshot only when raft has taken the
//! state over: who may send one is for raft to say. A transfer that breaks leaves nothing.

mod receive;
mod send;

use std::time::{Duration, Instant};

use tokio::time::timeout;

pub(super) use receive::{Slot, receive};
pub(super) use send::send;

use super::{frame::FrameError, outgoing::CallError};
use crate::disk::{DiskError, snapshot::LoadError};

/// How many bytes travel in one frame.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that wait on either side to be sent or taken.
const PIECES_MAX: usize = 4;
/// How long either side waits for the other's next step.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a long transfer says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Why a snapshot did not arrive.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransferError {
    #[error("{0}")]
    Call(#[from] CallError),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Disk(#[from] DiskError),
    #[error("{0}")]
    Content(#[from] LoadError),
    #[error("nothing happened for too long")]
    Stalled,
    #[error("the raft message does not belong to the snapshot")]
    Mismatch,
    #[error("this member is stopping")]
    Stopping,
}

async fn step<T>(work: impl Future<Output = Result<T, FrameError>>) -> Result<T, TransferError> {
    Ok(timeout(STEP_TIMEOUT, work).await.map_err(|_| TransferError::Stalled)??)
}

/// Says now and then how far a transfer is.
struct Progress(Instant);

impl Progress {
    fn new() -> Progress {
        Progress(Instant::now())
    }

    fn is_due(&mut self) -> bool {
        let due = self.0.elapsed() >= PROGRESS_INTERVAL;
        if due {
            self.0 = Instant::now();
        }
        due
    }
}
