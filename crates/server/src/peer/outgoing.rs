//! Calling a member, again and again, and sending it what is queued.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::debug;

use super::{
    backoff::Backoff,
    handshake::{HandshakeError, Hello, Purpose, Refusal, introduce},
    link::Link,
    roster,
    transport::{PeerEvent, Shared},
};
use crate::{io::Stream, liveness::Liveness};

/// A member that has not answered for so long is worth a line.
const SILENT_MAX: Duration = Duration::from_secs(2);
/// Members hear of each other many times a second: one that is silent is soon gone.
const LIVENESS: Liveness = Liveness {
    unacknowledged_max: Duration::from_secs(2),
    ask_after: Duration::from_secs(5),
    ask_every: Duration::from_secs(1),
};

/// Keeps one outgoing connection to a member.
pub(super) async fn keep_calling(shared: Arc<Shared>, link: Arc<Link>) {
    let mut backoff = Backoff::new();
    let mut silent_since = Instant::now();
    loop {
        match call(&shared, &link, Purpose::Messages).await {
            Ok((stream, theirs)) => {
                link.content();
                if begin(&shared, &link, &theirs) {
                    backoff.reset();
                    serve(&shared, &link, stream, &theirs).await;
                }
                silent_since = Instant::now();
            }
            Err(CallError::Unreachable(cause)) => {
                debug!(peer = %link.id, address = %link.address, %cause, "cannot be reached");
                // Members that start together do not find each other at once.
                if silent_since.elapsed() > SILENT_MAX {
                    link.complain(&shared.called(link.id), format!("does not answer: {cause}"));
                }
            }
            Err(CallError::Handshake(error)) => {
                match &error {
                    // An address that was only heard of may be anybody's.
                    HandshakeError::Refused(_) if shared.is_off_list(link.id) => {}
                    HandshakeError::Refused(Refusal::ReplacedDirectory) => {
                        shared.tell(PeerEvent::Disowned { by: link.id });
                    }
                    HandshakeError::Refused(Refusal::Removed(_)) => {
                        shared.tell(PeerEvent::Removed { by: link.id });
                    }
                    HandshakeError::Refused(Refusal::UnknownMember(_)) => {
                        roster::tell(&link.address, &shared.security, &shared.roster()).await;
                    }
                    _ => {}
                }
                link.complain(&shared.called(link.id), format!("does not take our call: {error}"));
            }
            Err(CallError::Unwanted(refusal)) => {
                link.complain(
                    &shared.called(link.id),
                    format!("its answer is of no use, from its view {refusal}"),
                );
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next()) => {}
            // It called us, so it is there.
            () = link.call_now.notified() => {}
        }
    }
}

/// Why a call led to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("{0}")]
    Unreachable(#[from] io::Error),
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    #[error("{0}")]
    Unwanted(Refusal),
}

/// Connects and introduces us.
pub(super) async fn call(
    shared: &Shared,
    link: &Link,
    purpose: Purpose,
) -> Result<(impl Stream, Hello), CallError> {
    let mut stream = shared.security.dial(&link.address).await?;
    let theirs = introduce(&mut stream, &shared.hello(link.id, purpose)).await?;
    shared.check(&theirs).map_err(CallError::Unwanted)?;
    if theirs.from != link.id {
        return Err(CallError::Unwanted(Refusal::OtherMember(theirs.from)));
    }
    Ok((stream, theirs))
}

/// What every peer connection needs.
pub(super) fn set_options(stream: &impl Stream) -> io::Result<()> {
    stream.set_nodelay()?;
    stream.watch(&LIVENESS)
}

/// Messages to this life are queued from now on; false if a newer one has been heard of.
fn begin(shared: &Shared, link: &Link, theirs: &Hello) -> bool {
    let mut presence = link.presence();
    if presence.answered(theirs.boot).is_err() {
        return false;
    }
    link.open();
    let command_version = theirs.command_version;
    shared.tell(PeerEvent::Connected { member: link.id, command_version });
    true
}

/// Sends until the connection breaks.
async fn serve(shared: &Shared, link: &Link, stream: impl Stream, theirs: &Hello) {
    // Also when this task is ended from outside, nothing must stay queued.
    let _closing = Closing(link);
    let cause = pump(link, stream).await;
    debug!(peer = %link.id, %cause, "outgoing connection ended");
    link.close();
    let mut presence = link.presence();
    if presence.broke(theirs.boot) {
        shared.tell(PeerEvent::Lost(link.id));
    }
}

struct Closing<'a>(&'a Link);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Writes everything that is queued with one call, then what was queued meanwhile.
async fn pump(link: &Link, mut stream: impl Stream) -> io::Error {
    let (mut read, mut write) = stream.halves();
    let mut bytes = Vec::new();
    let mut nothing = [0];
    loop {
        link.take(&mut bytes);
        let done = if bytes.is_empty() {
            tokio::select! {
                () = link.filled.notified() => Ok(()),
                end = read.read(&mut nothing) => end.and_then(ended),
            }
        } else {
            tokio::select! {
                written = async {
                    write.write_all(&bytes).await?;
                    // TLS keeps what the socket had no room for.
                    write.flush().await
                } => {
                    link.sent_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    written
                }
                end = read.read(&mut nothing) => end.and_then(ended),
            }
        };
        if let Err(cause) = done {
            return cause;
        }
    }
}

/// The other side never speaks on this connection: what can be read is its end.
fn ended(read: usize) -> io::Result<()> {
    Err(match read {
        0 => io::ErrorKind::UnexpectedEof.into(),
        _ => io::Error::new(io::ErrorKind::InvalidData, "it spoke on a connection that is ours"),
    })
}
