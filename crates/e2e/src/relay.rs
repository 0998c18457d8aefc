//! A network path that can be slow, or cut without either side being told.
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

use crate::{Address, reserve};

/// How much is passed on at once.
const PIECE: usize = 16 * 1024;
/// How long each of them takes on a slow path.
const SLOW_PIECE: Duration = Duration::from_millis(10);

/// What becomes of bytes on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    Open,
    Slow,
    Cut,
}

/// A relay that runs until it is dropped.
#[derive(Debug)]
pub struct Relay {
    /// Where it listens.
    pub address: Address,
    passage: watch::Sender<Passage>,
    running: JoinHandle<()>,
}

impl Relay {
    /// Starts one that leads to this address.
    pub async fn to(target: Address) -> Relay {
        Relay::at(reserve(1)[0], target).await
    }

    /// Starts one that listens here and leads there.
    pub async fn at(address: Address, target: Address) -> Relay {
        let listener = TcpListener::bind(address.to_string()).await.expect("nobody else has it");
        let (passage, seen) = watch::channel(Passage::Open);
        let running = tokio::spawn(async move {
            // They end with this task.
            let mut paths = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                paths.spawn(path(stream, target, seen.clone()));
            }
        });
        Relay { address, passage, running }
    }

    /// Nothing goes through any more.
    pub fn cut(&self) {
        self.passage.send_replace(Passage::Cut);
    }

    /// A piece after the other, so that others can look on.
    pub fn slow_down(&self) {
        self.passage.send_replace(Passage::Slow);
    }

    /// Everything goes through again, what was held back first.
    pub fn mend(&self) {
        self.passage.send_replace(Passage::Open);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn path(here: TcpStream, target: Address, mut passage: watch::Receiver<Passage>) {
    if not_cut(&mut passage).await.is_none() {
        return;
    }
    let Ok(there) = TcpStream::connect(target.to_string()).await else { return };
    let (here_out, here_in) = here.into_split();
    let (there_out, there_in) = there.into_split();
    tokio::join!(pass(here_out, there_in, passage.clone()), pass(there_out, here_in, passage));
}

/// Passes on what comes, also its end, for as long as it is not cut.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut passage: watch::Receiver<Passage>,
) {
    let mut bytes = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        match not_cut(&mut passage).await {
            Some(Passage::Slow) => tokio::time::sleep(SLOW_PIECE).await,
            Some(_) => {}
            None => return,
        }
        if to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
    let _ = not_cut(&mut passage).await;
    let _ = to.shutdown().await;
}

/// Waits until something goes through; nothing if the relay is gone.
async fn not_cut(passage: &mut watch::Receiver<Passage>) -> Option<Passage> {
    passage.wait_for(|passage| *passage != Passage::Cut).await.ok().map(|passage| *passage)
}
