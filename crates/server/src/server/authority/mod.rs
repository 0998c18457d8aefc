//! Requests with an unusual `:authority`, which h2 would reset.
//!
//! Some of etcd's clients send there what is no host and port: clientv3 3.4 a whole URL (`http://host:port`) for Status,
//! HashKV, Defragment and MoveLeader, clientv3 3.5.0 `#initially=[…]` for everything. Go's HTTP/2 server, and so etcd, looks
//! at nothing there. h2 does, ends such a stream with a protocol error before any code of ours sees it, and has no setting
//! for it. Nothing here uses the authority. So it is written over on its way in, with letters: as many bytes on the wire, so that
//! frames keep their lengths, and as many once decoded, so that the tables of HPACK stay in step. Others pass as they came.
//!
//! [`Authorities`] finds the header blocks in what is read of a connection, `block` the field in a block. What is
//! malformed passes unchanged, for h2 to judge. A block in several frames is looked into as far as its first frame goes:
//! the field is one of the first four.

mod block;
#[cfg(test)]
mod tests;

use std::{
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The first words of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
/// The longest frame that h2 takes without having said so. Longer ones are passed on, and refused by it.
const FRAME_BYTES_MAX: usize = 16 << 10;

/// A client's connection on which every `:authority` can be parsed.
#[derive(Debug)]
pub(super) struct Authorities<S> {
    stream: S,
    place: Place,
    /// A header frame that has not come to its end, without its head; then what of it has not been handed on.
    held: Vec<u8>,
    handed_on: usize,
}

/// Where in the connection the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// So many bytes of the preface came.
    Preface(usize),
    /// So many bytes of a frame's head came.
    Head(usize, [u8; HEAD_BYTES]),
    /// So many bytes of a frame are still to come, or of what nothing is done about.
    Inside(usize),
    /// Header frames with these flags, of which so many bytes are still to come.
    Headers(u8, usize),
    /// It is no HTTP/2.
    Foreign,
}

impl<S> Authorities<S> {
    pub(super) fn new(stream: S) -> Authorities<S> {
        Authorities { stream, place: Place::Preface(0), held: vec![], handed_on: 0 }
    }
}

impl Place {
    /// Goes over what was read. Answers how much of it can be handed on: all, or up to where a header frame begins
    /// whose end is missing.
    fn pass(&mut self, bytes: &mut [u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &mut bytes[at..];
            match self {
                Place::Foreign => return bytes.len(),
                Place::Preface(came) => {
                    let more = rest.len().min(PREFACE.len() - *came);
                    if rest[..more] != PREFACE[*came..*came + more] {
                        *self = Place::Foreign;
                        return bytes.len();
                    }
                    *came += more;
                    at += more;
                    if *came == PREFACE.len() {
                        *self = Place::Head(0, [0; HEAD_BYTES]);
                    }
                }
                Place::Head(came, head) => {
                    let more = rest.len().min(HEAD_BYTES - *came);
                    head[*came..*came + more].copy_from_slice(&rest[..more]);
                    *came += more;
                    at += more;
                    if *came == HEAD_BYTES {
                        *self = Place::after(*head);
                    }
                }
                Place::Inside(left) => {
                    let more = rest.len().min(*left);
                    at += more;
                    *self = Place::within(*left - more);
                }
                Place::Headers(flags, left) => {
                    let Some(frame) = rest.get_mut(..*left) else { return at };
                    block::mend(*flags, frame);
                    at += frame.len();
                    *self = Place::within(0);
                }
            }
        }
        at
    }

    fn after(head: [u8; HEAD_BYTES]) -> Place {
        let [a, b, c, kind, flags, ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        match kind {
            HEADERS if (1..=FRAME_BYTES_MAX).contains(&length) => Place::Headers(flags, length),
            _ => Place::within(length),
        }
    }

    fn within(left: usize) -> Place {
        if left == 0 { Place::Head(0, [0; HEAD_BYTES]) } else { Place::Inside(left) }
    }
}

impl<S: AsyncRead + Unpin> Authorities<S> {
    /// Reads the rest of the header frame that is held, and no more.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Place::Headers(flags, length) = self.place {
            let mut space = [MaybeUninit::uninit(); FRAME_BYTES_MAX];
            let missing = length - self.held.len();
            let mut more = ReadBuf::uninit(&mut space[..missing]);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut more))?;
            self.held.extend_from_slice(more.filled());
            if more.filled().is_empty() {
                // The connection ends in the middle of it.
                self.place = Place::Foreign;
            } else if self.held.len() == length {
                block::mend(flags, &mut self.held);
                self.place = Place::within(0);
            }
        }
        Poll::Ready(Ok(()))
    }

    fn hand_on(&mut self, buf: &mut ReadBuf<'_>) {
        let rest = &self.held[self.handed_on..];
        let now = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..now]);
        self.handed_on += now;
        if self.handed_on == self.held.len() {
            // It is rare that a frame comes in pieces, so no connection keeps space for it.
            self.held = vec![];
            self.handed_on = 0;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Authorities<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if !this.held.is_empty() {
                ready!(this.poll_rest(cx))?;
                this.hand_on(buf);
                return Poll::Ready(Ok(()));
            }
            let before = buf.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
            let read = &mut buf.filled_mut()[before..];
            let passed = this.place.pass(read);
            this.held.extend_from_slice(&read[passed..]);
            buf.set_filled(before + passed);
            if this.held.is_empty() || passed > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Authorities<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
