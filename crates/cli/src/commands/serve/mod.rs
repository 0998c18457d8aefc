//! Run a server.

mod flags;
mod log;
mod welcome;

use tenure_server::{Server, StartError};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use self::flags::Args;
use crate::exit::Exit;

/// Runs it until it is told to stop.
///
/// One thread carries the network, the core loop and the peers: they share everything, and handing
/// requests between threads costs more than it gains. The log has a thread of its own.
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    log::start(&args);
    let config = match args.config() {
        Ok(config) => config,
        Err(problems) => return Err(StartError::Settings(problems).into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::start(config.clone()).await?;
        welcome::print(&config, server.client_addresses());
        server.run_until(told_to_stop()).await?;
        Ok(Exit::Done)
    })
}

async fn told_to_stop() {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
    let [Ok(mut terminate), Ok(mut interrupt)] = kinds.map(signal) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
