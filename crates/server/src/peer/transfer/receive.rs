//! The receiver's side.

use std::{
    fs,
    io::{self, ErrorKind, Read},
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use bytes::{Buf, Bytes, BytesMut};
use tenure_api::MemberId;
use tenure_replica::{RaftKind, RaftMessage, SnapshotMark, State, codec::Codec};
use tokio::sync::{mpsc, oneshot};
use tracing::info;

use super::{PIECE_BYTES, PIECES_MAX, Progress, TransferError, step};
use crate::{
    disk::{
        BulkFile, DiskError, Files, SnapshotFileReader,
        snapshot::{ReceivedSnapshot, read_state},
    },
    io::Stream,
    node::files::beside,
    peer::{
        frame::{FrameError, FrameKind, read_payload, write_frame},
        link::Link,
        transport::{PeerEvent, Shared},
    },
};

/// The longest snapshot that is accepted.
const SNAPSHOT_BYTES_MAX: u64 = 64 << 30;
/// Small: what is read is in memory already.
const BUFFER_BYTES: usize = 4 << 10;

/// One snapshot at a time may arrive from a member.
#[derive(Debug)]
pub(in crate::peer) struct Slot(Arc<Link>);

impl Slot {
    pub(in crate::peer) fn take(link: &Arc<Link>) -> Option<Slot> {
        let free = !link.receiving.swap(true, Ordering::AcqRel);
        free.then(|| Slot(link.clone()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.receiving.store(false, Ordering::Release);
    }
}

enum Part {
    Head(Box<RaftMessage>),
    Piece(Bytes),
    End,
}

/// Receives a state, tells that it is there, and answers the sender.
pub(in crate::peer) async fn receive(
    shared: &Shared,
    from: MemberId,
    mut stream: impl Stream,
    mut buffer: BytesMut,
) -> Result<(), TransferError> {
    let Part::Head(message) = next_part(&mut stream, &mut buffer).await? else {
        return Err(TransferError::Mismatch);
    };
    if message.from != from || message.kind != RaftKind::Snapshot {
        return Err(TransferError::Mismatch);
    }
    let mark = message.snapshot.clone().ok_or(TransferError::Mismatch)?;
    info!(from = shared.called(from), index = mark.index, "receiving a snapshot");
    let (sender, parts) = mpsc::channel(PIECES_MAX);
    // Each has a name of its own: the one before may not have been judged yet.
    let number = shared.received.fetch_add(1, Ordering::Relaxed);
    let path = shared.snapshots.join(format!("incoming-{from}-{number}.tmp"));
    let (told, taking) = oneshot::channel();
    // Beside: neither a slow disk nor a large state may hold up the core loop.
    beside("snapshot-in", move || {
        let taken = Arriving::create(path, parts).and_then(|all| all.take_in(mark));
        let _ = told.send(taken);
    });
    let came = pass_on(&shared.called(from), &mut stream, &mut buffer, sender).await;
    let taken = taking.await.map_err(|_| TransferError::Stopping)?;
    came?;
    let (state, file) = taken?;
    shared.tell(PeerEvent::SnapshotReceived { from, message: *message, state, file });
    step(write_frame(&mut stream, FrameKind::SnapshotStored, &[])).await
}

/// Passes parts on until the last, or until the reader is gone.
async fn pass_on(
    from: &str,
    stream: &mut impl Stream,
    buffer: &mut BytesMut,
    parts: mpsc::Sender<Part>,
) -> Result<(), TransferError> {
    let mut progress = Progress::new();
    let mut bytes = 0;
    loop {
        let part = next_part(stream, buffer).await?;
        match &part {
            Part::Head(_) => return Err(TransferError::Mismatch),
            Part::Piece(piece) => bytes += piece.len() as u64,
            Part::End => {}
        }
        if progress.is_due() {
            info!(from, bytes, "receiving a snapshot");
        }
        let is_last = matches!(part, Part::End);
        if parts.send(part).await.is_err() || is_last {
            return Ok(());
        }
    }
}

async fn next_part(stream: &mut impl Stream, buffer: &mut BytesMut) -> Result<Part, TransferError> {
    let (kind, payload) = step(read_payload(stream, buffer, PIECE_BYTES)).await?;
    let part = match kind {
        FrameKind::SnapshotHead => {
            let message = RaftMessage::from_bytes(&payload).map_err(FrameError::from)?;
            Part::Head(Box::new(message))
        }
        FrameKind::SnapshotPiece => Part::Piece(payload),
        FrameKind::SnapshotEnd => Part::End,
        other => return Err(FrameError::OutOfPlace(other).into()),
    };
    Ok(part)
}

/// A snapshot that is not all there: its reader also writes it to its file. Dropping it removes that.
struct Arriving {
    path: PathBuf,
    file: BulkFile,
    parts: mpsc::Receiver<Part>,
    /// What of the newest piece was not read yet.
    piece: Bytes,
    ended: bool,
    bytes: u64,
    stored: bool,
}

impl Arriving {
    fn create(path: PathBuf, parts: mpsc::Receiver<Part>) -> Result<Arriving, TransferError> {
        let file = BulkFile::create(&Files, &path)?;
        let (piece, ended, stored) = (Bytes::new(), false, false);
        Ok(Arriving { path, file, parts, piece, ended, bytes: 0, stored })
    }

    /// The state, and its file as it waits for raft's judgement.
    fn take_in(
        mut self,
        mark: SnapshotMark,
    ) -> Result<(Box<State>, ReceivedSnapshot), TransferError> {
        let path = self.path.clone();
        let mut reader = SnapshotFileReader::over(&path, &mut self, BUFFER_BYTES)?;
        if *reader.mark() != mark {
            return Err(TransferError::Mismatch);
        }
        let state = Box::new(read_state(&mut reader)?);
        self.file.finish().map_err(DiskError::io("flush snapshot", &self.path))?;
        self.stored = true;
        Ok((state, ReceivedSnapshot::new(self.path.clone(), mark)))
    }

    fn keep(&mut self, piece: &Bytes) -> io::Result<()> {
        self.bytes += piece.len() as u64;
        if self.bytes > SNAPSHOT_BYTES_MAX {
            let text = format!("it is longer than {SNAPSHOT_BYTES_MAX} bytes");
            return Err(io::Error::new(ErrorKind::FileTooLarge, text));
        }
        self.file.put(piece)
    }
}

impl Read for Arriving {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.ended {
            match self.parts.blocking_recv() {
                Some(Part::Piece(piece)) => {
                    self.keep(&piece)?;
                    self.piece = piece;
                }
                Some(Part::Head(_) | Part::End) => self.ended = true,
                None => return Err(io::Error::new(ErrorKind::ConnectionAborted, "it broke off")),
            }
        }
        let count = into.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if !self.stored {
            // If this fails, the next start removes it.
            let _ = fs::remove_file(&self.path);
        }
    }
}
