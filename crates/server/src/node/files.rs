//! Snapshots between the replica and the disk, beside the core loop.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_replica::{Frozen, LogIndex, State};
use tokio::sync::mpsc;

use super::core::CoreEvent;
use crate::{
    disk::{DiskError, SavedSnapshot, SnapshotWriter},
    metrics::Metrics,
};

/// How nice work beside the loop is to those that serve clients.
const NICENESS: i32 = 10;

/// Reckons a state's checksum on a thread of its own and tells the core loop.
pub(super) fn audit(index: LogIndex, state: State, events: mpsc::UnboundedSender<CoreEvent>) {
    beside("audit", move || {
        let _ = events.send(CoreEvent::Audited(index, state.digest()));
    });
}

/// Writes a frozen state on a thread of its own and reports to the core loop.
pub(super) fn save(
    folder: PathBuf,
    frozen: Frozen,
    events: mpsc::UnboundedSender<CoreEvent>,
    metrics: Arc<Metrics>,
) {
    beside("snapshot", move || {
        let event = match write(&folder, &frozen, &metrics) {
            Ok(saved) => CoreEvent::SnapshotSaved(saved),
            Err(error) => CoreEvent::SnapshotFailed(error),
        };
        let _ = events.send(event);
    });
}

/// Work that nobody waits for, on a thread that gets out of the way of those that serve clients.
pub(crate) fn beside(name: &'static str, work: impl FnOnce() + Send + 'static) {
    let nicely = move || {
        // If the system does not allow it, the work only gets in the way a little more.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
        work();
    };
    if let Err(cause) = std::thread::Builder::new().name(name.to_owned()).spawn(nicely) {
        tracing::error!(%cause, name, "no thread for this work: it is left undone");
    }
}

/// Half of the time it rests: nobody waits for a snapshot, but writers wait for the disk it shares.
fn write(folder: &Path, frozen: &Frozen, metrics: &Metrics) -> Result<SavedSnapshot, DiskError> {
    let started = Instant::now();
    let mut writer = SnapshotWriter::create(folder, frozen.mark.clone())?;
    let mut began = Instant::now();
    for chunk in frozen.chunks() {
        writer.chunk(&chunk)?;
        std::thread::sleep(began.elapsed().min(REST_MAX));
        began = Instant::now();
    }
    let flushing = Instant::now();
    let saved = writer.finish()?;
    metrics.disk.snapshot_saved(started.elapsed(), flushing.elapsed());
    Ok(saved)
}

/// The longest rest after one chunk.
pub(crate) const REST_MAX: Duration = Duration::from_millis(20);
