//! The sender's side.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use tenure_replica::{Frozen, RaftMessage, codec::Codec};
use tokio::{sync::mpsc, task::spawn_blocking, time::timeout};
use tracing::{info, warn};

use super::{PIECE_BYTES, PIECES_MAX, Progress, TransferError, step};
use crate::{
    disk::snapshot::{Cutter, Frame},
    peer::{
        frame::{FrameError, FrameKind, read_frame, write_frame},
        handshake::Purpose,
        link::Link,
        outgoing::call,
        transport::{PeerEvent, Shared},
    },
};

/// How long the receiver may take to make the file durable.
const STORE_TIMEOUT: Duration = Duration::from_secs(120);

/// Sends a state and tells how it went.
pub(in crate::peer) async fn send(
    shared: Arc<Shared>,
    link: Arc<Link>,
    message: RaftMessage,
    frozen: Frozen,
) {
    let (to, index) = (link.id, frozen.mark.index);
    let sent = try_send(&shared, &link, &message, frozen).await;
    match &sent {
        Ok(bytes) => info!(%to, index, bytes, "snapshot sent"),
        Err(error) => warn!(%to, index, %error, "snapshot not sent"),
    }
    shared.tell(PeerEvent::SnapshotSent { to, ok: sent.is_ok() });
}

async fn try_send(
    shared: &Shared,
    link: &Link,
    message: &RaftMessage,
    frozen: Frozen,
) -> Result<u64, TransferError> {
    let (mut stream, _) = call(shared, link, Purpose::Snapshot).await?;
    step(write_frame(&mut stream, FrameKind::SnapshotHead, &message.to_bytes())).await?;
    let mut progress = Progress::new();
    let mut bytes = 0;
    let mut pieces = pieces(frozen);
    while let Some(piece) = pieces.recv().await {
        bytes += piece.len() as u64;
        if progress.is_due() {
            info!(to = %link.id, bytes, "sending a snapshot");
        }
        step(write_frame(&mut stream, FrameKind::SnapshotPiece, &piece)).await?;
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

/// The bytes of a snapshot file, made on another thread and no faster than they are taken. If that thread should
/// die the footer is missing, and the receiver takes nothing over.
fn pieces(frozen: Frozen) -> mpsc::Receiver<Bytes> {
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    spawn_blocking(move || {
        // An error means that nobody listens any more.
        let _ = Outlet { sender, cutter: Cutter::new(PIECE_BYTES) }.send(&frozen);
    });
    pieces
}

struct Gone;

struct Outlet {
    sender: mpsc::Sender<Bytes>,
    cutter: Cutter,
}

impl Outlet {
    fn send(mut self, frozen: &Frozen) -> Result<(), Gone> {
        let (mut frame, header) = Frame::begin(&frozen.mark);
        self.put(&header)?;
        for chunk in frozen.chunks() {
            self.put(&frame.chunk(&chunk))?;
            self.put(&chunk)?;
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

    fn hand_over(&self, piece: Bytes) -> Result<(), Gone> {
        self.sender.blocking_send(piece).map_err(|_| Gone)
    }
}
