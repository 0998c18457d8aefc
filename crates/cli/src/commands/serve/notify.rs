//! Tells systemd how far we are, for units of `Type=notify`.
//!
//! A message is one datagram to the socket that `NOTIFY_SOCKET` names: a path, or with `@` in front a name in the
//! kernel's own namespace. There is no answer, and a server that cannot say that it is ready serves all the same. But a
//! unit whose message is lost stays activating for ever, and whatever is ordered after it never starts: when the queue
//! of a busy manager is full, it is sent again.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio::time::sleep;
use tracing::warn;

/// The pause after a manager had no room for a message.
const AGAIN: Duration = Duration::from_millis(100);

/// Says that clients can connect, until there was room for it. Whether a majority is there to answer them is
/// another question: members that are started one after the other must not wait for each other.
pub(super) async fn ready() -> Infallible {
    while tell("READY=1") == Told::NoRoom {
        sleep(AGAIN).await;
    }
    std::future::pending().await
}

/// Says that no more than what was begun is done. Once: the process that stops us knows it already.
pub(super) fn stopping() {
    tell("STOPPING=1");
}

/// What became of a message.
#[derive(PartialEq, Eq)]
enum Told {
    /// It was sent, or nothing listens, or it can never be sent.
    Done,
    /// Too many wait to be read.
    NoRoom,
}

fn tell(word: &str) -> Told {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return Told::Done;
    };
    match send(&socket, word) {
        Ok(()) => Told::Done,
        Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Told::NoRoom,
        Err(cause) => {
            warn!(%cause, ?socket, "cannot tell systemd {word}");
            Told::Done
        }
    }
}

fn send(socket: &OsStr, word: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let from = UnixDatagram::unbound()?;
    // A manager that does not read must not hold up a server.
    from.set_nonblocking(true)?;
    from.send_to_addr(word.as_bytes(), &address).map(drop)
}
