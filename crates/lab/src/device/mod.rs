//! A disk of sectors in memory, on which the shipped disk code runs.
//!
//! A file is bytes in sectors of 512. A write changes at once what is read, and changes the disk when it is flushed. When
//! the power fails ([`Device::crash`]), each sector of each unflushed write is there or not, independently; so are names
//! that were created, changed or removed since their directory was flushed. Directories themselves are durable when they
//! are made. On command the disk is full, fails to flush, loses power after some operations, rots (`damage.rs`) or puts a
//! sector in another's place.

mod damage;
mod files;
mod storage;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use damage::DeviceDamage;
use files::Content;

use crate::engine::Dice;

/// The unit that is written as a whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

type FileId = u64;

/// A disk. Clones share it.
#[derive(Clone, Debug)]
pub struct Device(Arc<Mutex<DeviceState>>);

/// What a crash did to unflushed writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrashReport {
    /// Sectors that kept their old content.
    pub lost: usize,
    /// Sectors whose writes got through.
    pub kept: usize,
}

#[derive(Debug)]
struct DeviceState {
    files: BTreeMap<FileId, Content>,
    next: FileId,
    /// As a process sees them.
    names: BTreeMap<PathBuf, FileId>,
    durable_names: BTreeMap<PathBuf, FileId>,
    /// Not durable yet, oldest first.
    changes: Vec<Change>,
    directories: BTreeSet<PathBuf>,
    /// The number that a new data directory gets.
    number: u64,
    trouble: DeviceFaults,
    /// The operations left before the power fails.
    power: Option<u32>,
    damaged: Vec<DeviceDamage>,
}

/// The faults of a disk at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceFaults {
    /// No file can grow.
    pub full: bool,
    /// No flush succeeds.
    pub fails: bool,
}

/// A change of the names, which a crash may undo as a whole.
#[derive(Clone, Debug)]
struct Change {
    folder: PathBuf,
    gone: Option<PathBuf>,
    there: Option<(PathBuf, FileId)>,
}

impl Device {
    /// An empty disk, on which a data directory gets this number.
    pub fn new(number: u64) -> Device {
        let disk = DeviceState {
            files: BTreeMap::new(),
            next: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: vec![],
            directories: BTreeSet::new(),
            number,
            trouble: DeviceFaults::default(),
            power: None,
            damaged: vec![],
        };
        Device(Arc::new(Mutex::new(disk)))
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, trouble: DeviceFaults) {
        self.disk().trouble = trouble;
    }

    /// The power fails after `left` more operations, and all after that fail; `None` restores it.
    pub fn set_power(&self, left: Option<u32>) {
        self.disk().power = left;
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.disk().power == Some(0)
    }

    /// The power fails. No file may be open any more.
    pub fn crash(&self, dice: &mut Dice) -> CrashReport {
        let disk = &mut *self.disk();
        disk.power = None;
        disk.forget_names(dice);
        let mut crash = CrashReport::default();
        for file in disk.files.values_mut() {
            file.crash(dice, &mut crash);
        }
        crash
    }

    fn disk(&self) -> MutexGuard<'_, DeviceState> {
        // There are no threads here; a poisoned lock belongs to a failed run.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceState {
    /// Every operation that changes something calls this.
    fn powered(&mut self) -> io::Result<()> {
        match &mut self.power {
            Some(0) => return Err(io::Error::other("the power has failed")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    fn find(&self, path: &Path) -> io::Result<FileId> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&mut self, gone: Option<&Path>, there: Option<(&Path, FileId)>) {
        let named = gone.or(there.map(|(path, _)| path)).and_then(Path::parent);
        let change = Change {
            folder: named.unwrap_or(Path::new("")).to_owned(),
            gone: gone.map(Path::to_owned),
            there: there.map(|(path, id)| (path.to_owned(), id)),
        };
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn sync_names(&mut self, folder: &Path) {
        let names = &mut self.durable_names;
        self.changes.retain(|change| {
            let stays = change.folder != folder;
            if !stays {
                change.apply(names);
            }
            stays
        });
        self.forget_files();
    }

    /// Unflushed changes of names are lost or not: all of them, none, or each independently.
    fn forget_names(&mut self, dice: &mut Dice) {
        let through = [0, 500, 1000][dice.below(3) as usize];
        for change in std::mem::take(&mut self.changes) {
            if dice.chance(through) {
                change.apply(&mut self.durable_names);
            }
        }
        self.names.clone_from(&self.durable_names);
        self.forget_files();
    }

    /// Drops files without a name.
    fn forget_files(&mut self) {
        let (now, durably) = (&self.names, &self.durable_names);
        self.files.retain(|id, _| now.values().chain(durably.values()).any(|named| named == id));
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<PathBuf, FileId>) {
        if let Some(gone) = &self.gone {
            names.remove(gone);
        }
        if let Some((path, id)) = &self.there {
            names.insert(path.clone(), *id);
        }
    }
}

#[cfg(test)]
mod tests;
