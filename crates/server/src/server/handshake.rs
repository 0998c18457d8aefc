//! Handshakes of TLS: how long one may take, and how many are under way.
//!
//! A handshake costs a member a fraction of a millisecond, on the thread that everything else runs on. When a thousand clients
//! come back at once, the core loop must have its turns in between, so only a few begin at a time. A stranger that
//! connects and does not go on holds nothing that others need: when too many are under way, the oldest is ended.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
};

use tenure_tls::{
    Certificate, LazyConfigAcceptor, ServerTls, TlsStream, reason, rustls::server::Acceptor,
};
use tokio::{
    net::TcpStream,
    sync::{Notify, Semaphore},
    time::timeout,
};

use crate::{
    admission::{HANDSHAKE_MAX, HANDSHAKES_MAX, HANDSHAKES_PER_TURN, Secured},
    peer::Grumble,
};

/// The first byte of a connection that speaks TLS. No method of HTTP begins with it.
const HANDSHAKE: u8 = 0x16;

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.server.fmt(f)
    }
}

/// TLS at some addresses. Clones share what is under way.
#[derive(Clone)]
pub(crate) struct Tls {
    server: Arc<ServerTls>,
    names_user: bool,
    under_way: Arc<UnderWay>,
    lane: Arc<Semaphore>,
    rejected: Arc<Grumble>,
}

/// A client that has proven what it had to.
pub(crate) struct Greeted {
    pub(crate) stream: TlsStream<TcpStream>,
    pub(crate) secured: Secured,
}

impl Tls {
    pub(crate) fn new(server: ServerTls, names_user: bool) -> Tls {
        Tls {
            server: Arc::new(server),
            names_user,
            under_way: Arc::default(),
            lane: Arc::new(Semaphore::new(HANDSHAKES_PER_TURN)),
            rejected: Arc::default(),
        }
    }

    /// The client behind a connection; none if the handshake failed, of which the log tells.
    pub(crate) async fn greet(&self, stream: TcpStream, from: SocketAddr) -> Option<Greeted> {
        let one = self.under_way.begin();
        let greeted = tokio::select! {
            greeted = timeout(HANDSHAKE_MAX, self.handshake(stream)) => match greeted {
                Ok(greeted) => greeted,
                Err(_) => Err(io::Error::other(format!("no handshake within {HANDSHAKE_MAX:?}"))),
            },
            () = one.ended.notified() => Err(io::Error::other("too many handshakes are under way")),
        };
        match greeted {
            Ok(greeted) => Some(greeted),
            Err(error) => {
                let (remote, why) = (from.ip(), reason(&error));
                self.rejected.about(format!("rejected connection from {remote}: {why}"));
                None
            }
        }
    }

    async fn handshake(&self, stream: TcpStream) -> io::Result<Greeted> {
        let began = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        // What follows at once is what costs most; the rest waits for the client.
        let turn = self.lane.acquire().await.map_err(io::Error::other)?;
        let mut handshake = pin!(began.into_stream(self.server.config()));
        let done = poll_fn(|cx| Poll::Ready(handshake.as_mut().poll(cx))).await;
        tokio::task::yield_now().await;
        drop(turn);
        let stream = match done {
            Poll::Ready(done) => done?,
            Poll::Pending => handshake.await?,
        };
        let leaf = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let certificate = leaf.map(Certificate::read).transpose().map_err(io::Error::other)?;
        let certificate = certificate.map(|certificate| certificate.names);
        let secured = Secured { certificate, names_user: self.names_user };
        Ok(Greeted { stream: stream.into(), secured })
    }
}

/// Whether a client speaks TLS, by its first byte. None if it is silent.
pub(super) async fn speaks_tls(stream: &TcpStream) -> Option<bool> {
    let mut first = [0];
    let came = timeout(HANDSHAKE_MAX, stream.peek(&mut first)).await.ok()?.ok()?;
    Some(came == 1 && first[0] == HANDSHAKE)
}

/// The handshakes that are under way, oldest first.
#[derive(Default)]
struct UnderWay(Mutex<Numbered>);

#[derive(Default)]
struct Numbered {
    next: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

impl UnderWay {
    fn numbered(&self) -> std::sync::MutexGuard<'_, Numbered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, in place of the oldest if there are too many.
    fn begin(&self) -> One<'_> {
        let mut all = self.numbered();
        let (number, ended) = (all.next, Arc::new(Notify::new()));
        all.next += 1;
        all.waiting.insert(number, ended.clone());
        if all.waiting.len() > HANDSHAKES_MAX
            && let Some((_, oldest)) = all.waiting.pop_first()
        {
            oldest.notify_one();
        }
        One { all: self, number, ended }
    }
}

/// A handshake that is under way until this is dropped.
struct One<'a> {
    all: &'a UnderWay,
    number: u64,
    ended: Arc<Notify>,
}

impl Drop for One<'_> {
    fn drop(&mut self) {
        self.all.numbered().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
