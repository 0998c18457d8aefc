//! The sender's side.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use tenure_replica::{RaftMessage, Snapshot, codec::Codec};
use tokio::{io::AsyncWriteExt, sync::mpsc, time::timeout};
use tracing::{info, warn};

use super::{PIECE_BYTES, PIECES_MAX, Progress, TransferError, step};
use crate::{
    disk::{
        REST_MAX,
        snapshot::{Cutter, Frame},
    },
    node::files::beside,
    peer::{
        frame::{FRAME_HEADER_BYTES, FrameError, FrameKind, read_frame, seal, write_frame},
        handshake::Purpose,
        link::Link,
        outgoing::call,
        transport::{PeerEvent, Shared},
    },
};

/// How long the receiver may take to make the file durable.
const STORE_TIMEOUT: Duration = Duration::from_secs(120);
/// A million keys of 256 bytes in less than ten seconds.
const BYTES_PER_SECOND_FAIR: f64 = 38e6;

/// Sends a state and tells how it went.
pub(in crate::peer) async fn send(
    shared: Arc<Shared>,
    link: Arc<Link>,
    message: RaftMessage,
    snapshot: Snapshot,
) {
    let (to, index) = (link.id, snapshot.mark.index);
    let sent = try_send(&shared, &link, &message, snapshot).await;
    match &sent {
        Ok(bytes) => info!(to = shared.called(to), index, bytes, "snapshot sent"),
        Err(error) => warn!(to = shared.called(to), index, %error, "snapshot not sent"),
    }
    shared.tell(PeerEvent::SnapshotSent { to, ok: sent.is_ok() });
}

async fn try_send(
    shared: &Shared,
    link: &Link,
    message: &RaftMessage,
    snapshot: Snapshot,
) -> Result<u64, TransferError> {
    let (mut stream, _) = call(shared, link, Purpose::Snapshot).await?;
    step(write_frame(&mut stream, FrameKind::SnapshotHead, &message.to_bytes())).await?;
    let mut progress = Progress::new();
    let mut bytes = 0;
    let mut frames = frames(snapshot);
    while let Some(frame) = frames.recv().await {
        bytes += (frame.len() - FRAME_HEADER_BYTES) as u64;
        if progress.is_due() {
            info!(to = shared.called(link.id), bytes, "sending a snapshot");
        }
        step(async { Ok(stream.write_all(&frame).await?) }).await?;
    }
    step(write_frame(&mut stream, FrameKind::SnapshotEnd, &[])).await?;
    let mut buffer = BytesMut::new();
    let stored = read_frame(&mut stream, &mut buffer, PIECE_BYTES, |kind, _| match kind {
        FrameKind::SnapshotStored => Ok(()),
        other => Err(FrameError::OutOfPlace(other)),
    });
    timeout(STORE_TIMEOUT, stored).await.map_err(|_| TransferError::Stalled)??;
    Ok(bytes)
}

/// The bytes of a snapshot file in frames, made on another thread and no faster than they are taken. If that thread
/// should die the footer is missing, and the receiver takes nothing over.
fn frames(snapshot: Snapshot) -> mpsc::Receiver<Vec<u8>> {
    let (sender, frames) = mpsc::channel(PIECES_MAX);
    beside("snapshot-out", move || {
        let cutter = Cutter::with_head(FRAME_HEADER_BYTES, PIECE_BYTES);
        // An error means that the receiving end is gone.
        let _ = Outlet { sender, cutter }.send(&snapshot);
    });
    frames
}

/// No faster than is fair: clients come first, and the receiver may share a disk with another member's log.
struct Pace {
    began: Instant,
    bytes: usize,
}

impl Pace {
    fn new() -> Pace {
        Pace { began: Instant::now(), bytes: 0 }
    }

    fn rest(&mut self, bytes: usize) {
        self.bytes += bytes;
        let fair = Duration::from_secs_f64(self.bytes as f64 / BYTES_PER_SECOND_FAIR);
        std::thread::sleep(fair.saturating_sub(self.began.elapsed()).min(REST_MAX));
    }
}

struct Gone;

struct Outlet {
    sender: mpsc::Sender<Vec<u8>>,
    cutter: Cutter,
}

impl Outlet {
    fn send(mut self, snapshot: &Snapshot) -> Result<(), Gone> {
        let (mut frame, header) = Frame::begin(&snapshot.mark);
        self.put(&header)?;
        let mut pace = Pace::new();
        for chunk in snapshot.chunks() {
            self.put(&frame.chunk(&chunk))?;
            self.put(&chunk)?;
            pace.rest(chunk.len());
        }
        self.put(&frame.end())?;
        let rest = self.cutter.rest();
        self.hand_over(rest)
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), Gone> {
        while let Some(piece) = self.cutter.cut(&mut bytes) {
            self.hand_over(piece)?;
        }
        Ok(())
    }

    fn hand_over(&self, mut frame: Vec<u8>) -> Result<(), Gone> {
        seal(&mut frame, FrameKind::SnapshotPiece);
        self.sender.blocking_send(frame).map_err(|_| Gone)
    }
}
