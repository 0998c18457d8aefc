//! The envelope of everything said on a peer connection: length, checksum, kind, payload.
//!
//! Nothing is allocated because a length claims it: buffers grow with the bytes that arrive.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest payload of any frame.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// Bytes before the payload: length and checksum of four bytes each, and the kind.
pub(super) const FRAME_HEADER_BYTES: usize = 9;
const READ_STEP_BYTES: usize = 64 << 10;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// The sender's identity; the first frame in each direction.
    Hello = 1,
    /// Instead of a hello in return: why not.
    Refusal = 2,
    /// A message between replicas.
    Message = 3,
    /// A snapshot follows; the raft message that goes with it.
    SnapshotHead = 4,
    /// A piece of the snapshot's file.
    SnapshotPiece = 5,
    /// That was all of it.
    SnapshotEnd = 6,
    /// The receiver has it, durably.
    SnapshotStored = 7,
    /// Instead of a hello: asks for the members of this cluster.
    Ask = 8,
    /// The answer.
    Roster = 9,
    /// Before a hello, where members share a secret: random bytes of the caller; then those of the called side with its proof.
    Challenge = 10,
    /// The caller's proof.
    Proof = 11,
}

impl FrameKind {
    fn from_tag(tag: u8) -> Option<FrameKind> {
        use FrameKind::*;
        let pieces = [SnapshotHead, SnapshotPiece, SnapshotEnd, SnapshotStored];
        [Hello, Refusal, Message, Ask, Roster, Challenge, Proof]
            .into_iter()
            .chain(pieces)
            .find(|kind| *kind as u8 == tag)
    }
}

/// Why a connection cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error("a frame of {length} bytes is longer than the {max} allowed here")]
    TooLong { length: usize, max: usize },
    #[error("a frame's checksum does not match")]
    Checksum,
    #[error("unknown kind of frame: {0}")]
    UnknownKind(u8),
    #[error("a frame of kind {0:?} does not belong here")]
    OutOfPlace(FrameKind),
    #[error("a frame cannot be read: {0}")]
    Content(#[from] tenure_replica::codec::DecodeError),
    #[error("a batch is of another life of the member than the one that answers there")]
    OtherLife,
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
}

/// Appends a frame. One that would be too long is left out, and its length answered.
pub(super) fn put_frame(
    out: &mut Vec<u8>,
    kind: FrameKind,
    payload: impl FnOnce(&mut Vec<u8>),
) -> Result<(), usize> {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    payload(out);
    let length = out.len() - start - FRAME_HEADER_BYTES;
    if length > FRAME_BYTES_MAX {
        out.truncate(start);
        return Err(length);
    }
    seal(&mut out[start..], kind);
    Ok(())
}

/// Makes a frame of a payload that stands behind the room for its header.
pub(super) fn seal(frame: &mut [u8], kind: FrameKind) {
    let length = frame.len() - FRAME_HEADER_BYTES;
    frame[8] = kind as u8;
    let crc = crc32fast::hash(&frame[8..]);
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Gives the first frame of a buffer to `read` and removes it; `None` if it is not all there yet.
pub(super) fn take_frame<T>(
    buffer: &mut BytesMut,
    max: usize,
    read: impl FnOnce(FrameKind, &[u8]) -> Result<T, FrameError>,
) -> Result<Option<T>, FrameError> {
    let Front::Whole(kind, end) = front(buffer, max)? else { return Ok(None) };
    let value = read(kind, &buffer[FRAME_HEADER_BYTES..end])?;
    buffer.advance(end);
    Ok(Some(value))
}

/// What a buffer begins with.
enum Front {
    /// Part of a frame: at least so many bytes are missing.
    Part(usize),
    /// A sound frame of this kind that ends here.
    Whole(FrameKind, usize),
}

fn front(buffer: &[u8], max: usize) -> Result<Front, FrameError> {
    let Some(header) = buffer.first_chunk::<FRAME_HEADER_BYTES>() else {
        return Ok(Front::Part(FRAME_HEADER_BYTES - buffer.len()));
    };
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let (length, crc, kind) = (word(0) as usize, word(4), header[8]);
    if length > max {
        return Err(FrameError::TooLong { length, max });
    }
    let end = FRAME_HEADER_BYTES + length;
    if buffer.len() < end {
        return Ok(Front::Part(end - buffer.len()));
    }
    if crc32fast::hash(&buffer[8..end]) != crc {
        return Err(FrameError::Checksum);
    }
    let kind = FrameKind::from_tag(kind).ok_or(FrameError::UnknownKind(kind))?;
    Ok(Front::Whole(kind, end))
}

/// Waits for one frame.
pub(super) async fn read_frame<T>(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    max: usize,
    mut read: impl FnMut(FrameKind, &[u8]) -> Result<T, FrameError>,
) -> Result<T, FrameError> {
    loop {
        if let Some(value) = take_frame(buffer, max, &mut read)? {
            return Ok(value);
        }
        buffer.reserve(READ_STEP_BYTES.min(max + FRAME_HEADER_BYTES));
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

/// Waits for one frame and takes its payload out of the buffer as it is. For a few large ones: the buffer is made anew
/// each time.
pub(super) async fn read_payload(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    max: usize,
) -> Result<(FrameKind, Bytes), FrameError> {
    loop {
        match front(buffer, max)? {
            Front::Whole(kind, end) => {
                let payload = buffer.split_to(end).freeze().slice(FRAME_HEADER_BYTES..);
                return Ok((kind, payload));
            }
            // With the next one's header, which says how long that is.
            Front::Part(missing) => buffer.reserve(missing + FRAME_HEADER_BYTES),
        }
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

/// Sends one frame.
pub(super) async fn write_frame(
    stream: &mut (impl AsyncWrite + Unpin),
    kind: FrameKind,
    payload: &[u8],
) -> Result<(), FrameError> {
    let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES + payload.len());
    put_frame(&mut frame, kind, |out| out.extend_from_slice(payload))
        .map_err(|length| FrameError::TooLong { length, max: FRAME_BYTES_MAX })?;
    stream.write_all(&frame).await?;
    // TLS keeps what the socket had no room for.
    Ok(stream.flush().await?)
}
