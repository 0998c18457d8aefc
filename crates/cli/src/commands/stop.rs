//! Signals that ask this process to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Is done when SIGTERM or SIGINT has come since this was called, awaited or not. Must be called inside a
/// runtime.
pub(super) fn told_to_stop() -> impl Future<Output = ()> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    async move {
        let [Ok(mut terminate), Ok(mut interrupt)] = signals else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
