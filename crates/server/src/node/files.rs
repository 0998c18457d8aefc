//! Snapshots between the replica and the disk, beside the core loop.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_replica::{Frozen, LogIndex, SnapshotMark, State, Thaw};
use tokio::sync::mpsc;

use super::core::CoreEvent;
use crate::{
    disk::{DiskError, SavedSnapshot, SnapshotReader, SnapshotWriter},
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

/// Reads a snapshot file into a state.
pub(crate) fn load(path: &Path) -> Result<(SnapshotMark, State), LoadError> {
    let mut reader = SnapshotReader::open(path)?;
    let mut thaw = Thaw::new();
    while let Some(chunk) = reader.next_chunk()? {
        thaw.chunk(&chunk).map_err(|cause| LoadError::content(path, cause))?;
    }
    let state = thaw.finish().map_err(|cause| LoadError::content(path, cause))?;
    Ok((reader.mark().clone(), state))
}

/// Why a snapshot could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is not what was written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file is whole, but its content makes no sense to this version.
    #[error("snapshot {} cannot be read: {cause}; was it written by a newer version?", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What was wrong.
        cause: tenure_replica::codec::DecodeError,
    },
}

impl LoadError {
    fn content(path: &Path, cause: tenure_replica::codec::DecodeError) -> LoadError {
        LoadError::Content { path: path.to_owned(), cause }
    }
}
