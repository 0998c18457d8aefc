//! A snapshot's file on its way from one member to another, on a connection of its own.
//!
//! The receiver writes beside, checks every byte, makes the file durable and puts it in its place before
//! it answers. A transfer that breaks leaves nothing.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use tenure_api::MemberId;
use tenure_replica::{RaftKind, RaftMessage, codec::Codec};
use tokio::{net::TcpStream, task::spawn_blocking, time::timeout};
use tracing::{info, warn};

use super::{
    frame::{FrameError, FrameKind, read_frame, write_frame},
    handshake::Purpose,
    link::Link,
    outgoing::{CallError, call},
    transport::{PeerEvent, Shared},
};
use crate::disk::{
    DiskError, SnapshotReader,
    durable::{create_file, rename_durably},
    snapshot::{prune_snapshots, snapshot_path},
};

/// How much of the file travels in one frame.
const PIECE_BYTES: usize = 256 << 10;
/// The longest snapshot that is accepted.
pub const SNAPSHOT_BYTES_MAX: u64 = 64 << 30;
/// How long either side waits for the other's next step.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a long transfer says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// How long the receiver may take to check the file and make it durable.
const STORE_TIMEOUT: Duration = Duration::from_secs(120);

/// Why a snapshot did not arrive.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransferError {
    #[error("{0}")]
    Call(#[from] CallError),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Disk(#[from] DiskError),
    #[error("nothing happened for too long")]
    Stalled,
    #[error("the raft message does not belong to the snapshot")]
    Mismatch,
    #[error("it is longer than {SNAPSHOT_BYTES_MAX} bytes")]
    TooLong,
    #[error("this member is stopping")]
    Stopping,
}

/// One snapshot at a time may arrive from a member.
#[derive(Debug)]
pub(super) struct Slot(Arc<Link>);

impl Slot {
    pub(super) fn take(link: &Arc<Link>) -> Option<Slot> {
        let free = !link.receiving.swap(true, Ordering::AcqRel);
        free.then(|| Slot(link.clone()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.receiving.store(false, Ordering::Release);
    }
}

/// Sends a file and tells how it went.
pub(super) async fn send(
    shared: Arc<Shared>,
    link: Arc<Link>,
    message: RaftMessage,
    path: PathBuf,
) {
    let to = link.id;
    let sent = try_send(&shared, &link, &message, &path).await;
    match &sent {
        Ok(bytes) => info!(%to, file = %path.display(), bytes, "snapshot sent"),
        Err(error) => warn!(%to, file = %path.display(), %error, "snapshot not sent"),
    }
    shared.tell(PeerEvent::SnapshotSent { to, ok: sent.is_ok() });
}

async fn try_send(
    shared: &Shared,
    link: &Link,
    message: &RaftMessage,
    path: &Path,
) -> Result<u64, TransferError> {
    let mut file = File::open(path).map_err(DiskError::io("open snapshot", path))?;
    let total = file.metadata().map_err(DiskError::io("look at snapshot", path))?.len();
    let mut progress = Progress::new();
    let (mut stream, _) = call(shared, link, Purpose::Snapshot).await?;
    step(write_frame(&mut stream, FrameKind::SnapshotHead, &message.to_bytes())).await?;
    let mut bytes = 0;
    loop {
        let path = path.to_owned();
        let (back, piece) = blocking(move || {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            (&mut file)
                .take(PIECE_BYTES as u64)
                .read_to_end(&mut piece)
                .map_err(DiskError::io("read snapshot", &path))?;
            Ok((file, piece))
        })
        .await?;
        file = back;
        if piece.is_empty() {
            break;
        }
        bytes += piece.len() as u64;
        if progress.is_due() {
            info!(to = %link.id, bytes, total, "sending a snapshot");
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

enum Part {
    Head(Box<RaftMessage>),
    Piece(Bytes),
    End,
}

/// Receives a file, tells that it is there, and answers the sender.
pub(super) async fn receive(
    shared: &Shared,
    from: MemberId,
    mut stream: TcpStream,
    mut buffer: BytesMut,
) -> Result<(), TransferError> {
    let Part::Head(message) = next_part(&mut stream, &mut buffer).await? else {
        return Err(TransferError::Mismatch);
    };
    if message.from != from || message.kind != RaftKind::Snapshot || message.snapshot.is_none() {
        return Err(TransferError::Mismatch);
    }
    let path = shared.snapshots.join(format!("incoming-{from}.tmp"));
    let mut arriving = blocking(move || Arriving::create(path)).await?;
    let mut progress = Progress::new();
    info!(%from, "receiving a snapshot");
    loop {
        match next_part(&mut stream, &mut buffer).await? {
            Part::Head(_) => return Err(TransferError::Mismatch),
            Part::Piece(piece) => {
                arriving = blocking(move || arriving.append(&piece)).await?;
                if progress.is_due() {
                    info!(%from, bytes = arriving.bytes, "receiving a snapshot");
                }
            }
            Part::End => break,
        }
    }
    let (folder, expected) = (shared.snapshots.clone(), message.clone());
    let path = blocking(move || arriving.store(&folder, &expected)).await?;
    shared.tell(PeerEvent::SnapshotReceived { from, message: *message, path });
    step(write_frame(&mut stream, FrameKind::SnapshotStored, &[])).await
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

async fn next_part(stream: &mut TcpStream, buffer: &mut BytesMut) -> Result<Part, TransferError> {
    step(read_frame(stream, buffer, PIECE_BYTES, |kind, payload| match kind {
        FrameKind::SnapshotHead => Ok(Part::Head(Box::new(RaftMessage::from_bytes(payload)?))),
        FrameKind::SnapshotPiece => Ok(Part::Piece(Bytes::copy_from_slice(payload))),
        FrameKind::SnapshotEnd => Ok(Part::End),
        other => Err(FrameError::OutOfPlace(other)),
    }))
    .await
}

async fn step<T>(work: impl Future<Output = Result<T, FrameError>>) -> Result<T, TransferError> {
    Ok(timeout(STEP_TIMEOUT, work).await.map_err(|_| TransferError::Stalled)??)
}

/// Files are touched on other threads: a slow disk must not hold up the core loop.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
) -> Result<T, TransferError> {
    spawn_blocking(work).await.map_err(|_| TransferError::Stopping)?
}

/// A file that is not all there; dropping it removes it.
struct Arriving {
    path: PathBuf,
    file: File,
    bytes: u64,
    stored: bool,
}

impl Arriving {
    fn create(path: PathBuf) -> Result<Arriving, TransferError> {
        Ok(Arriving { file: create_file(&path)?, path, bytes: 0, stored: false })
    }

    fn append(mut self, piece: &[u8]) -> Result<Arriving, TransferError> {
        self.bytes += piece.len() as u64;
        if self.bytes > SNAPSHOT_BYTES_MAX {
            return Err(TransferError::TooLong);
        }
        self.file.write_all(piece).map_err(DiskError::io("write snapshot", &self.path))?;
        Ok(self)
    }

    fn store(mut self, folder: &Path, message: &RaftMessage) -> Result<PathBuf, TransferError> {
        self.file.sync_all().map_err(DiskError::io("flush snapshot", &self.path))?;
        let mark = SnapshotReader::open(&self.path)?.verify()?;
        if message.snapshot.as_ref() != Some(&mark) {
            return Err(TransferError::Mismatch);
        }
        let place = snapshot_path(folder, &mark);
        rename_durably(&self.path, &place)?;
        self.stored = true;
        prune_snapshots(folder)?;
        Ok(place)
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
