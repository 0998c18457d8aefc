//! Lines over a socket, without waiting; and the charge, with a file attached.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::Context;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::words::Charge;

/// Longer than any charge; only our own processes write here.
const CHARGE_BYTES_MAX: usize = 64 * 1024;

/// One end of a conversation.
#[derive(Debug)]
pub(super) struct Post {
    stream: UnixStream,
    inbox: Vec<u8>,
    closed: bool,
    deserted: bool,
}

impl Post {
    pub(super) fn new(stream: UnixStream) -> io::Result<Post> {
        stream.set_nonblocking(true)?;
        Ok(Post { stream, inbox: Vec::new(), closed: false, deserted: false })
    }

    /// All whole lines that have arrived.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let mut buffer = [0; 4096];
        while !self.closed {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.closed = true,
                Ok(read) => self.inbox.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
        }
        let mut lines = Vec::new();
        while let Some(end) = self.inbox.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.inbox.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line[..end]).into_owned());
        }
        lines
    }

    /// Whether the other end is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Sends a line. A peer that does not read misses it: a guardian never waits.
    pub(super) fn say(&mut self, line: &str) {
        let said = self.stream.write_all(line.as_bytes());
        self.deserted |= said.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    }

    /// Whether something was said to an end that is not there any more.
    pub(super) fn is_deserted(&self) -> bool {
        self.deserted
    }

    /// Says no more; the other end is told.
    pub(super) fn hang_up(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }
}

impl AsFd for Post {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Hands a charge down, and the file that is to be the command's standard input.
pub(super) fn send_charge(
    stream: &UnixStream,
    charge: &Charge,
    stdin: BorrowedFd<'_>,
) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(charge)?;
    line.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = SendAncillaryBuffer::new(&mut space);
    let files = [stdin];
    attached.push(SendAncillaryMessage::ScmRights(&files));
    let sent = sendmsg(stream, &[IoSlice::new(&line)], &mut attached, SendFlags::NOSIGNAL)
        .context("hand over the charge")?;
    (&*stream).write_all(&line[sent..]).context("hand over the charge")
}

/// What the level above hands down: the socket is our standard input.
pub(super) fn receive_charge() -> anyhow::Result<(UnixStream, Charge, OwnedFd)> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut line = Vec::new();
    let mut stdin = None;
    while !line.ends_with(b"\n") {
        // Byte by byte: what follows the charge is an order, and not for us to read.
        let mut buffer = [0; 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut attached = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let read = recvmsg(&stream, &mut [IoSliceMut::new(&mut buffer)], &mut attached, flags)?;
        anyhow::ensure!(read.bytes > 0, "the supervisor has gone before it said what to do");
        line.extend_from_slice(&buffer[..read.bytes]);
        anyhow::ensure!(line.len() <= CHARGE_BYTES_MAX, "this is no charge");
        for message in attached.drain() {
            if let RecvAncillaryMessage::ScmRights(mut files) = message {
                stdin = stdin.or_else(|| files.next());
            }
        }
    }
    let charge = serde_json::from_slice(&line).context("read the charge")?;
    Ok((stream, charge, stdin.context("no standard input came along")?))
}
