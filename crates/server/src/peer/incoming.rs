//! Taking calls, and reading what members say.
//!
//! Memory: a reader adds what one read of the socket gave, and then lets all other tasks run. On the
//! runtime that it shares with the core loop, the loop has taken those messages before the reader goes on; a
//! flood waits in the sender's socket.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use tenure_replica::{Message, codec::Codec};
use tenure_tls::Names;
use tokio::{io::AsyncReadExt, net::TcpListener, task::JoinSet};
use tracing::{debug, warn};

use super::{
    frame::{FRAME_BYTES_MAX, FrameError, FrameKind, take_frame, write_frame},
    grumble::Grumble,
    handshake::{Ask, Caller, Hello, PROTOCOL_VERSION, Purpose, Refusal, listen},
    link::Link,
    outgoing::set_options,
    presence::Call,
    security::{Arrived, PeerStream},
    strangers::Strangers,
    transfer,
    transport::{PeerEvent, Shared},
};
use crate::io::Stream;

/// Room for one read.
const READ_BYTES: usize = 128 << 10;
/// Memory that a reader keeps when it has nothing to read.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Pause when the system has no more sockets to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Takes calls for ever.
pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let strangers = Arc::new(Strangers::default());
    let grumble = Arc::new(Grumble::default());
    let mut calls = JoinSet::new();
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(cause) => {
                grumble.about(format!("cannot take calls from members: {cause}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while calls.try_join_next().is_some() {}
        let Some(stranger) = strangers.admit(address.ip()) else {
            let ip = address.ip();
            grumble.about(format!(
                "closed a call from {ip}: too many callers have not said who they are"
            ));
            continue;
        };
        let (shared, grumble) = (shared.clone(), grumble.clone());
        calls.spawn(async move {
            let arrived = match shared.security.accept(stream, address).await {
                Some(Ok(arrived)) => arrived,
                Some(Err(cause)) => {
                    let ip = address.ip();
                    return grumble.about(format!(
                        "closed a call from {ip} that is not from a member: {cause}"
                    ));
                }
                None => return,
            };
            if let Some((accepted, stream, buffer)) =
                greet(&shared, arrived, address, &grumble).await
            {
                drop(stranger);
                accepted.serve(shared, stream, buffer).await;
            }
        });
    }
}

/// A caller that was let in.
struct Accepted {
    link: Arc<Link>,
    hello: Hello,
    entry: Entry,
}

enum Entry {
    Messages(Call),
    Snapshot(transfer::Slot),
}

async fn greet(
    shared: &Arc<Shared>,
    arrived: Arrived,
    address: SocketAddr,
    grumble: &Grumble,
) -> Option<(Accepted, PeerStream, BytesMut)> {
    let Arrived { mut stream, mut buffer, names } = arrived;
    let hello = match listen(&mut stream, &mut buffer).await {
        Ok(Caller::Member(hello)) => hello,
        Ok(Caller::Asks(ask)) => {
            debug!(%address, "asked for the members");
            let answered = answer(shared, &mut stream, ask).await;
            if let Err(error) = answered {
                debug!(%address, %error, "could not tell the members");
            }
            return None;
        }
        Ok(Caller::Tells(roster)) => {
            debug!(%address, "told the members");
            if shared.has_strangers(&roster) {
                shared.ask_around();
            }
            return None;
        }
        Err(error) => {
            let ip = address.ip();
            grumble.about(format!("closed a call from {ip} that is not from a member: {error}"));
            return None;
        }
    };
    match admit(shared, &hello, names.as_ref()) {
        Ok(accepted) => Some((accepted, stream, buffer)),
        Err(refusal) => {
            let (from, ip) = (hello.from, address.ip());
            grumble
                .about(format!("refused a call of member {from} at {ip}: told it that {refusal}"));
            let _ = write_frame(&mut stream, FrameKind::Refusal, &refusal.to_bytes()).await;
            None
        }
    }
}

async fn answer(shared: &Shared, stream: &mut impl Stream, ask: Ask) -> Result<(), FrameError> {
    if ask.protocol != PROTOCOL_VERSION {
        let refusal = Refusal::Protocol(PROTOCOL_VERSION).to_bytes();
        return write_frame(stream, FrameKind::Refusal, &refusal).await;
    }
    write_frame(stream, FrameKind::Roster, &shared.roster().to_bytes()).await
}

fn admit(shared: &Shared, hello: &Hello, names: Option<&Names>) -> Result<Accepted, Refusal> {
    let link = shared.check(hello)?;
    if !shared.security.fits(names, &shared.name_of(hello.from), &link.address) {
        return Err(Refusal::OtherCertificate(hello.from));
    }
    let entry = match hello.purpose {
        Purpose::Messages => {
            let mut presence = link.presence();
            let call = presence.called(hello.boot, hello.directory);
            link.call_now.notify_one();
            let call = call.map_err(|newer| Refusal::Outlived(newer.0))?;
            // Under the lock, so that whatever is told next is told next.
            if call.returned {
                let (member, command_version) = (link.id, hello.command_version);
                shared.tell(PeerEvent::Connected { member, command_version });
            }
            drop(presence);
            Entry::Messages(call)
        }
        Purpose::Snapshot => Entry::Snapshot(transfer::Slot::take(&link).ok_or(Refusal::Busy)?),
    };
    Ok(Accepted { link, hello: hello.clone(), entry })
}

impl Accepted {
    async fn serve(self, shared: Arc<Shared>, mut stream: impl Stream, buffer: BytesMut) {
        let from = self.link.id;
        let greeted = self.greet_back(&shared, &mut stream).await;
        match self.entry {
            Entry::Snapshot(slot) => {
                if greeted.is_ok()
                    && let Err(error) = transfer::receive(&shared, from, stream, buffer).await
                {
                    let from = shared.called(from);
                    warn!(from, %error, "a snapshot did not arrive");
                }
                drop(slot);
            }
            Entry::Messages(mut call) => {
                debug!(peer = %from, boot = self.hello.boot, "incoming connection");
                tokio::select! {
                    error = read(&shared, &self.link, stream, buffer), if greeted.is_ok() => {
                        match error {
                            FrameError::Broken(cause) => debug!(%from, %cause, "it hung up"),
                            error => warn!(from = shared.called(from), %error, "closed a connection without sense"),
                        }
                    }
                    _ = &mut call.superseded, if greeted.is_ok() => {}
                    else => {}
                }
                let mut presence = self.link.presence();
                if presence.hung_up(&call) {
                    shared.tell(PeerEvent::Lost(from));
                }
            }
        }
    }

    async fn greet_back(
        &self,
        shared: &Shared,
        stream: &mut impl Stream,
    ) -> Result<(), FrameError> {
        let ours = shared.hello(self.hello.from, self.hello.purpose).to_bytes();
        set_options(stream)?;
        write_frame(stream, FrameKind::Hello, &ours).await
    }
}

/// A batch counts for the life that made it, and one of a later life would lock the member itself out for ever: its own
/// would be too old. So only that life is believed that has answered our call.
fn is_of_another_life(link: &Link, message: &Message) -> bool {
    message.life().is_some_and(|life| link.presence().life() != life)
}

/// Reads messages until the connection ends.
async fn read(
    shared: &Shared,
    link: &Link,
    mut stream: impl Stream,
    mut buffer: BytesMut,
) -> FrameError {
    loop {
        let arrived = Instant::now();
        let message = |kind, payload: &[u8]| match kind {
            FrameKind::Message => Ok(Message::from_bytes(payload)?),
            other => Err(FrameError::OutOfPlace(other)),
        };
        loop {
            match take_frame(&mut buffer, FRAME_BYTES_MAX, message) {
                Ok(Some(message)) if !is_of_another_life(link, &message) => {
                    shared.tell(PeerEvent::Message { from: link.id, message, arrived });
                }
                Ok(Some(_)) => return FrameError::OtherLife,
                Ok(None) => break,
                Err(error) => return error,
            }
        }
        if buffer.is_empty() && buffer.capacity() > KEPT_BYTES_MAX {
            buffer = BytesMut::new();
        }
        buffer.reserve(READ_BYTES);
        let room = buffer.capacity() - buffer.len();
        match stream.read_buf(&mut buffer).await {
            Ok(0) => return io::Error::from(io::ErrorKind::UnexpectedEof).into(),
            Ok(read) => {
                link.received_bytes.fetch_add(read as u64, Ordering::Relaxed);
                if read == room {
                    tokio::task::yield_now().await;
                }
            }
            Err(cause) => return cause.into(),
        }
    }
}
