//! A thread that has the next segment ready before it is needed, and deletes those that are not.
//!
//! Filling 64 MB with zeros, and giving as much back, takes longer than any write may wait.

use std::{
    fs::File,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
};

use super::{
    DiskError,
    durable::{rename_durably, sync_directory, unfinished},
    removal::{remove_beside, retire},
    segment::{prepare_segment, segment_path},
};

enum Order {
    Prepare { sequence: u64, bytes: u64 },
    Delete(Vec<PathBuf>),
}

/// Where segments come from and go to.
#[derive(Debug)]
pub(super) struct Supply {
    folder: PathBuf,
    directory: u64,
    orders: Option<Sender<Order>>,
    prepared: Receiver<(u64, Option<File>)>,
    /// The segment that was ordered and not taken yet.
    ordered: Option<u64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Supply {
    pub(super) fn start(folder: PathBuf, directory: u64) -> Result<Supply, DiskError> {
        let (orders, incoming) = channel();
        let (outgoing, prepared) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let work = {
            let (folder, stop) = (folder.clone(), stop.clone());
            move || {
                for order in incoming {
                    match order {
                        Order::Delete(segments) => delete(&folder, segments),
                        Order::Prepare { sequence, bytes } => {
                            let file = prepare_segment(&folder, directory, sequence, bytes, &stop)
                                .unwrap_or_else(|error| {
                                    // Not the end yet: the running segment has room, and
                                    // whoever needs the next one tries once more.
                                    tracing::warn!(%error, "next log segment is not ready");
                                    None
                                });
                            if outgoing.send((sequence, file)).is_err() {
                                return;
                            }
                        }
                    }
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("wal-supply".into())
            .spawn(work)
            .map_err(DiskError::io("start a thread for", &folder))?;
        Ok(Supply {
            folder,
            directory,
            orders: Some(orders),
            prepared,
            ordered: None,
            stop,
            thread: Some(thread),
        })
    }

    /// Starts to prepare a segment, unless that was done before.
    pub(super) fn order(&mut self, sequence: u64, bytes: u64) {
        if self.ordered != Some(sequence) {
            self.ordered = Some(sequence);
            self.send(Order::Prepare { sequence, bytes });
        }
    }

    /// Gives a segment its name and hands it over, waiting for it if need be.
    pub(super) fn take(&mut self, sequence: u64, bytes: u64) -> Result<(File, PathBuf), DiskError> {
        let mut ready = None;
        if self.ordered.take() == Some(sequence)
            && let Ok((prepared, file)) = self.prepared.recv()
            && prepared == sequence
        {
            ready = file;
        }
        let file = match ready {
            Some(file) => file,
            None => {
                let never = AtomicBool::new(false);
                prepare_segment(&self.folder, self.directory, sequence, bytes, &never)?
                    .expect("nobody asked it to stop")
            }
        };
        let path = segment_path(&self.folder, sequence);
        rename_durably(&unfinished(&path), &path)?;
        Ok((file, path))
    }

    /// Deletes segments, in this order.
    pub(super) fn delete(&self, segments: Vec<PathBuf>) {
        if !segments.is_empty() {
            self.send(Order::Delete(segments));
        }
    }

    fn send(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // A thread that is gone can only have panicked; `take` then does the work itself.
            let _ = orders.send(order);
        }
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A segment that cannot be deleted is a waste of space, not a danger: the next start finds it,
/// reads it, and it is deleted with the next release.
fn delete(folder: &std::path::Path, segments: Vec<PathBuf>) {
    let mut retired = Vec::new();
    for path in segments {
        match retire(&path) {
            Ok(path) => retired.push(path),
            Err(cause) => {
                // Deleting newer ones would leave a gap.
                tracing::warn!(file = %path.display(), %cause, "old log segment cannot be deleted");
                break;
            }
        }
    }
    // One that comes back under its old name must be whole.
    match sync_directory(folder) {
        Ok(()) => remove_beside(retired),
        Err(error) => tracing::warn!(%error, "deleted log segments may come back"),
    }
}
