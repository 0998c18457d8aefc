//! A network path that can be slow, lossy, or cut without either side being told.
//!
//! Bytes that are on their way when it is cut are held back, and arrive when it is mended: late, as networks
//! do it. Connections that are made meanwhile are taken and lead nowhere.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use crate::{Address, reserve, torture::Chance};

/// How much is passed on at once.
const PIECE: usize = 16 * 1024;
/// How long each of them takes on a slow path.
const SLOW_PIECE: Duration = Duration::from_millis(10);
/// How long a lost packet is missed: a TCP retransmission takes no less.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// What one direction is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direction {
    pub(crate) open: bool,
    /// How long each piece takes.
    pub(crate) delay: Duration,
    /// Pieces of a hundred that come a retransmission later.
    pub(crate) lost: usize,
}

impl Direction {
    pub(crate) const GOOD: Direction = Direction { open: true, delay: Duration::ZERO, lost: 0 };
}

/// A relay that runs until it is dropped.
#[derive(Debug)]
pub struct Relay {
    /// Where it listens.
    pub address: Address,
    direction: watch::Sender<Direction>,
    running: JoinHandle<()>,
}

impl Relay {
    /// Starts one that leads to this address.
    pub async fn to(target: Address) -> Relay {
        Relay::at(reserve(1)[0], target).await
    }

    /// Starts one that listens here and leads there.
    pub async fn at(address: Address, target: Address) -> Relay {
        let (direction, seen) = watch::channel(Direction::GOOD);
        let running = serve(address, move |stream| {
            let seen = seen.clone();
            async move { carry(stream, target, seen.clone(), seen).await }
        });
        Relay { address, direction, running: running.await }
    }

    /// Nothing goes through any more.
    pub fn cut(&self) {
        self.direction.send_replace(Direction { open: false, ..Direction::GOOD });
    }

    /// A piece after the other, so that others can look on.
    pub fn slow_down(&self) {
        self.direction.send_replace(Direction { delay: SLOW_PIECE, ..Direction::GOOD });
    }

    /// Everything goes through again, what was held back first.
    pub fn mend(&self) {
        self.direction.send_replace(Direction::GOOD);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Listens, and does this with every connection. Connections end with the task.
pub(crate) async fn serve<Carried>(
    address: Address,
    carry: impl Fn(TcpStream) -> Carried + Send + 'static,
) -> JoinHandle<()>
where
    Carried: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(address.to_string()).await.expect("nobody else has it");
    tokio::spawn(async move {
        let mut paths = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            paths.spawn(carry(stream));
        }
    })
}

/// Carries one connection on, as both directions allow.
pub(crate) async fn carry(
    here: TcpStream,
    target: Address,
    mut there: watch::Receiver<Direction>,
    back: watch::Receiver<Direction>,
) {
    if there.wait_for(|direction| direction.open).await.is_err() {
        return;
    }
    let Ok(stream) = TcpStream::connect(target.to_string()).await else { return };
    let _ = (here.set_nodelay(true), stream.set_nodelay(true));
    let (here_out, here_in) = here.into_split();
    let (there_out, there_in) = stream.into_split();
    tokio::join!(pass(here_out, there_in, there), pass(there_out, here_in, back));
}

/// Passes on what comes, also its end.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut direction: watch::Receiver<Direction>,
) {
    let mut chance = Chance::new(u64::from(from.peer_addr().map_or(0, |peer| peer.port())));
    let mut bytes = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let now = *direction.borrow();
        let lost = if chance.percent(now.lost) { RETRANSMISSION } else { Duration::ZERO };
        if !(now.delay + lost).is_zero() {
            tokio::time::sleep(now.delay + lost).await;
        }
        if direction.wait_for(|direction| direction.open).await.is_err()
            || to.write_all(&bytes[..length]).await.is_err()
        {
            return;
        }
    }
    let _ = direction.wait_for(|direction| direction.open).await;
    let _ = to.shutdown().await;
}
