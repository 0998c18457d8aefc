//! What has the next segment ready before it is needed, and deletes those that are not.
//!
//! Filling 64 MB with zeros, and giving as much back, takes longer than any write may wait: a thread does it. Where
//! there are no threads ([`Storage::has_threads`]) the orders wait until [`Supply::work`] is called.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
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
    removal::retire,
    segment::{prepare_segment, segment_path},
    storage::{Storage, StorageFile},
};

#[derive(Debug)]
enum Order {
    Prepare { sequence: u64, bytes: u64 },
    Delete(Vec<PathBuf>),
}

/// A segment that was ordered; none if it could not be made.
type Prepared = (u64, Option<Box<dyn StorageFile>>);

/// Where segments come from and go to.
#[derive(Debug)]
pub(crate) struct Supply {
    place: Place,
    /// The segment that was ordered and not taken yet.
    ordered: Option<u64>,
    worker: Worker,
}

#[derive(Debug)]
enum Worker {
    Thread {
        orders: Option<Sender<Order>>,
        prepared: Receiver<Prepared>,
        stop: Arc<AtomicBool>,
        thread: Option<JoinHandle<()>>,
    },
    Caller {
        orders: VecDeque<Order>,
        prepared: Option<Prepared>,
    },
}

#[derive(Clone, Debug)]
struct Place {
    storage: Arc<dyn Storage>,
    folder: PathBuf,
    directory: u64,
}

impl Supply {
    pub(crate) fn start(
        storage: Arc<dyn Storage>,
        folder: PathBuf,
        directory: u64,
    ) -> Result<Supply, DiskError> {
        let place = Place { storage, folder, directory };
        let worker = match place.storage.has_threads() {
            true => Worker::start(place.clone())?,
            false => Worker::Caller { orders: VecDeque::new(), prepared: None },
        };
        Ok(Supply { place, ordered: None, worker })
    }

    /// Starts to prepare a segment, unless that was done before.
    pub(crate) fn order(&mut self, sequence: u64, bytes: u64) {
        if self.ordered != Some(sequence) {
            self.ordered = Some(sequence);
            self.send(Order::Prepare { sequence, bytes });
        }
    }

    /// Gives a segment its name and hands it over, waiting for it if need be.
    pub(crate) fn take(
        &mut self,
        sequence: u64,
        bytes: u64,
    ) -> Result<(Box<dyn StorageFile>, PathBuf), DiskError> {
        let mut ready = None;
        if self.ordered.take() == Some(sequence)
            && let Some((prepared, file)) = self.wait()
            && prepared == sequence
        {
            ready = file;
        }
        let file = match ready {
            Some(file) => file,
            None => self
                .place
                .prepare(sequence, bytes, &AtomicBool::new(false))?
                .expect("it was not asked to stop"),
        };
        let path = segment_path(&self.place.folder, sequence);
        rename_durably(&*self.place.storage, &unfinished(&path), &path)?;
        Ok((file, path))
    }

    /// Deletes segments, in this order.
    pub(crate) fn delete(&mut self, segments: Vec<PathBuf>) {
        if !segments.is_empty() {
            self.send(Order::Delete(segments));
        }
    }

    /// Does what was ordered, if no thread does.
    pub(crate) fn work(&mut self) {
        let Worker::Caller { orders, prepared } = &mut self.worker else { return };
        let never = AtomicBool::new(false);
        while let Some(order) = orders.pop_front() {
            *prepared = self.place.follow(order, &never).or(prepared.take());
        }
    }

    fn wait(&mut self) -> Option<Prepared> {
        self.work();
        match &mut self.worker {
            Worker::Thread { prepared, .. } => prepared.recv().ok(),
            Worker::Caller { prepared, .. } => prepared.take(),
        }
    }

    fn send(&mut self, order: Order) {
        match &mut self.worker {
            // A thread that is gone can only have panicked; `take` then does the work itself.
            Worker::Thread { orders: Some(orders), .. } => drop(orders.send(order)),
            Worker::Thread { orders: None, .. } => {}
            Worker::Caller { orders, .. } => orders.push_back(order),
        }
    }
}

impl Worker {
    fn start(place: Place) -> Result<Worker, DiskError> {
        let (orders, incoming) = channel();
        let (outgoing, prepared) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let folder = place.folder.clone();
        let work = {
            let stop = stop.clone();
            move || {
                for order in incoming {
                    if let Some(prepared) = place.follow(order, &stop)
                        && outgoing.send(prepared).is_err()
                    {
                        return;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("wal-supply".into())
            .spawn(work)
            .map_err(DiskError::io("start a thread for", &folder))?;
        Ok(Worker::Thread { orders: Some(orders), prepared, stop, thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Worker::Thread { orders, stop, thread, .. } = self else { return };
        stop.store(true, Ordering::Relaxed);
        *orders = None;
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
    }
}

impl Place {
    fn follow(&self, order: Order, stop: &AtomicBool) -> Option<Prepared> {
        match order {
            Order::Delete(segments) => {
                delete(&*self.storage, &self.folder, segments);
                None
            }
            Order::Prepare { sequence, bytes } => {
                let file = self.prepare(sequence, bytes, stop).unwrap_or_else(|error| {
                    // Not the end yet: the running segment has room, and `take` tries once more.
                    tracing::warn!(%error, "next log segment is not ready");
                    None
                });
                Some((sequence, file))
            }
        }
    }

    fn prepare(
        &self,
        sequence: u64,
        bytes: u64,
        stop: &AtomicBool,
    ) -> Result<Option<Box<dyn StorageFile>>, DiskError> {
        prepare_segment(&*self.storage, &self.folder, self.directory, sequence, bytes, stop)
    }
}

/// A segment that cannot be deleted is a waste of space, not a danger: the next start finds it,
/// reads it, and it is deleted with the next release.
fn delete(storage: &dyn Storage, folder: &Path, segments: Vec<PathBuf>) {
    let mut retired = Vec::new();
    for path in segments {
        match retire(storage, &path) {
            Ok(path) => retired.push(path),
            Err(cause) => {
                // Deleting newer ones would leave a gap.
                tracing::warn!(file = %path.display(), %cause, "old log segment cannot be deleted");
                break;
            }
        }
        // One by one: if the power fails, a filesystem may keep the removal of a newer name and forget that of an older
        // one, and the log would have a gap. And one that comes back under its old name must be whole.
        if let Err(error) = sync_directory(storage, folder) {
            tracing::warn!(%error, "deleted log segments may come back");
            return;
        }
    }
    storage.remove_gradually(retired);
}
