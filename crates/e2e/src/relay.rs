//! A network path that can be cut without anybody being told.
//!
//! Bytes that are on their way when it is cut are held back, and arrive when it is mended: late, as networks
//! do it. Connections that are made meanwhile are taken and lead nowhere.

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

/// A relay that runs until it is dropped.
#[derive(Debug)]
pub struct Relay {
    /// Where it listens.
    pub address: Address,
    open: watch::Sender<bool>,
    running: JoinHandle<()>,
}

impl Relay {
    /// Starts one that leads to this address.
    pub async fn to(target: Address) -> Relay {
        let address = reserve(1)[0];
        let listener = TcpListener::bind(address.to_string()).await.expect("nobody else has it");
        let (open, opened) = watch::channel(true);
        let running = tokio::spawn(async move {
            // They end with this task.
            let mut paths = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                paths.spawn(path(stream, target, opened.clone()));
            }
        });
        Relay { address, open, running }
    }

    /// Nothing goes through any more.
    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    /// Everything goes through again, what was held back first.
    pub fn mend(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn path(here: TcpStream, target: Address, mut open: watch::Receiver<bool>) {
    if open.wait_for(|open| *open).await.is_err() {
        return;
    }
    let Ok(there) = TcpStream::connect(target.to_string()).await else { return };
    let (here_out, here_in) = here.into_split();
    let (there_out, there_in) = there.into_split();
    tokio::join!(pass(here_out, there_in, open.clone()), pass(there_out, here_in, open));
}

/// Passes on what comes, also its end, for as long as it is open.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut bytes = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if open.wait_for(|open| *open).await.is_err()
            || to.write_all(&bytes[..length]).await.is_err()
        {
            return;
        }
    }
    let _ = open.wait_for(|open| *open).await;
    let _ = to.shutdown().await;
}
