//! Snapshots between the replica and the disk, beside the core loop.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use tenure_replica::{LogIndex, Snapshot, State};
use tokio::sync::mpsc;

use super::core::CoreEvent;
use crate::{
    disk::{Breather, DiskError, SavedSnapshot, SnapshotWriter},
    metrics::Metrics,
};

/// How nice work beside the loop is to those that serve clients.
const NICENESS: i32 = 10;

type Work = Box<dyn FnOnce() + Send>;
/// What starts a thread for some work; in tests, something that cannot.
type Start = fn(&'static str, Work) -> io::Result<()>;

/// Reckons a state's checksum on a thread of its own and tells the core loop.
pub(super) fn audit(index: LogIndex, state: State, events: mpsc::UnboundedSender<CoreEvent>) {
    audit_by(start, index, state, events);
}

/// Whatever happens, the loop is told: it waits for one before it begins the next.
fn audit_by(start: Start, index: LogIndex, state: State, events: mpsc::UnboundedSender<CoreEvent>) {
    let failed = events.clone();
    let work = move || {
        let _ = events.send(CoreEvent::Audited(index, state.digest()));
    };
    if let Err(cause) = start("audit", Box::new(work)) {
        let _ = failed.send(CoreEvent::AuditFailed(cause));
    }
}

/// Writes a frozen state on a thread of its own and reports to the core loop.
pub(super) fn save(
    folder: PathBuf,
    snapshot: Snapshot,
    events: mpsc::UnboundedSender<CoreEvent>,
    metrics: Arc<Metrics>,
) {
    save_by(start, folder, snapshot, events, metrics);
}

fn save_by(
    start: Start,
    folder: PathBuf,
    snapshot: Snapshot,
    events: mpsc::UnboundedSender<CoreEvent>,
    metrics: Arc<Metrics>,
) {
    let (failed, candidate) = (events.clone(), folder.clone());
    let work = move || {
        let event = match write(&folder, &snapshot, &metrics) {
            Ok(saved) => CoreEvent::SnapshotSaved(saved),
            Err(error) => CoreEvent::SnapshotFailed(error),
        };
        let _ = events.send(event);
    };
    if let Err(cause) = start("snapshot", Box::new(work)) {
        let error = DiskError::io("start a thread for a snapshot", &candidate)(cause);
        let _ = failed.send(CoreEvent::SnapshotFailed(error));
    }
}

/// Background work, on a thread that gets out of the way of those that serve clients. Without a thread it
/// is left undone, which drops it.
pub(crate) fn beside(name: &'static str, work: impl FnOnce() + Send + 'static) {
    if let Err(cause) = start(name, Box::new(work)) {
        tracing::error!(%cause, name, "no thread for this work: it is left undone");
    }
}

fn start(name: &'static str, work: Work) -> io::Result<()> {
    let nicely = move || {
        // If the system does not allow it, the work only gets in the way a little more.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
        work();
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(nicely).map(drop)
}

/// Half of the time it rests: a snapshot is not urgent, but writers wait for the disk it shares.
fn write(
    folder: &Path,
    snapshot: &Snapshot,
    metrics: &Metrics,
) -> Result<SavedSnapshot, DiskError> {
    let started = Instant::now();
    let mut writer = SnapshotWriter::create(folder, snapshot.mark.clone())?;
    let mut breather = Breather::new();
    for chunk in snapshot.chunks() {
        writer.chunk(&chunk)?;
        breather.rest();
    }
    let flushing = Instant::now();
    let saved = writer.finish()?;
    metrics.disk.snapshot_saved(started.elapsed(), flushing.elapsed());
    Ok(saved)
}

#[cfg(test)]
mod tests {
    use tenure_replica::SnapshotMark;

    use super::*;
    use crate::Config;

    fn none_left(_: &'static str, _: Work) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::WouldBlock))
    }

    /// Otherwise it would wait for this one for ever, and never take another.
    #[test]
    fn the_loop_is_told_when_there_is_no_thread() {
        let (events, mut told) = mpsc::unbounded_channel();
        let metrics = Arc::new(Metrics::new(&Config::default()));
        let snapshot = Snapshot { mark: SnapshotMark::default(), state: State::default() };
        save_by(none_left, PathBuf::from("snap"), snapshot, events.clone(), metrics);
        assert!(matches!(told.try_recv(), Ok(CoreEvent::SnapshotFailed(_))));
        audit_by(none_left, 1, State::default(), events);
        assert!(matches!(told.try_recv(), Ok(CoreEvent::AuditFailed(_))));
    }
}
