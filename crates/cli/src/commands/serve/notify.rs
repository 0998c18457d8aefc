//! Tells systemd how far we are, for units of `Type=notify`.
//!
//! A word is one datagram to the socket that `NOTIFY_SOCKET` names: a path, or with `@` in front a name
//! in the kernel's own namespace. Nobody answers, and a server that cannot say that it is ready serves all
//! the same.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

/// Clients can connect. Whether a majority is there to answer them is another question: members that
/// are started one after the other must not wait for each other.
pub(super) const READY: &str = "READY=1";
/// No more than what was begun is done.
pub(super) const STOPPING: &str = "STOPPING=1";

/// Says it, if somebody wants to hear it.
pub(super) fn tell(word: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return;
    };
    if let Err(cause) = send(&socket, word) {
        warn!(%cause, ?socket, "cannot tell systemd {word}");
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
