//! Reads the logs of all members while they run.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tenure_replica::{Entry, State};
use tenure_server::disk::{
    Record,
    inspect::{LogFollower, founders},
};

use super::Log;

/// Pause between two looks: far less than a segment lives.
const LOOK_AGAIN: Duration = Duration::from_millis(40);

/// Reads until it is dropped.
#[derive(Debug)]
pub struct Witness {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    directories: Vec<Directory>,
    /// Entries that some member knows to be committed and that follow a gap.
    ahead: BTreeMap<u64, Entry>,
    /// Term and checksum of every entry that was followed, the first at index 1.
    followed: Vec<(u64, u32)>,
    state: Option<State>,
    log: Log,
    /// How often a second member's entry was compared with the first's.
    compared: usize,
}

/// The log of one member.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    follower: Option<LogFollower>,
    /// Entries that may still be replaced.
    tail: BTreeMap<u64, Entry>,
    commit: u64,
}

impl Witness {
    /// Begins to read, as soon as there is something.
    pub fn start() -> Witness {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let work = {
            let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    lock(&seen).look();
                    std::thread::sleep(LOOK_AGAIN);
                }
            }
        };
        let thread = std::thread::Builder::new().name("witness".into()).spawn(work);
        Witness { seen, stop, thread: Some(thread.expect("there are threads")) }
    }

    /// Reads the log in this data directory, too.
    pub fn watch(&self, path: PathBuf) {
        let mut seen = lock(&self.seen);
        if seen.directories.iter().all(|known| known.path != path) {
            let (follower, tail, commit) = (None, BTreeMap::new(), 0);
            seen.directories.push(Directory { path, follower, tail, commit });
        }
    }

    /// The newest revision that it knows of.
    pub fn revision(&self) -> i64 {
        lock(&self.seen).log.revision
    }

    /// What the log did so far, and how many entries of a second member were compared with a first one's.
    pub fn log(&self) -> (Log, usize) {
        let seen = lock(&self.seen);
        (seen.log.clone(), seen.compared)
    }

    /// How far it is, for people.
    pub fn progress(&self) -> String {
        let seen = lock(&self.seen);
        let members = seen.directories.iter().map(|one| (one.path.file_name(), one.commit));
        format!(
            "followed {} entries, {} wait behind a gap; members {:?}",
            seen.followed.len(),
            seen.ahead.len(),
            members.collect::<Vec<_>>()
        )
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn look(&mut self) {
        let mut directories = std::mem::take(&mut self.directories);
        for directory in &mut directories {
            let committed = directory.read();
            committed.into_iter().for_each(|entry| self.committed(&directory.path, entry));
            if self.state.is_none()
                && let Ok(Some(members)) = founders(&directory.path)
            {
                self.state = Some(State::new(members));
            }
        }
        self.directories = directories;
        while let Some(state) = &mut self.state
            && let Some(entry) = self.ahead.remove(&(self.followed.len() as u64 + 1))
        {
            if self.log.revision == 0 {
                self.log.revision = state.store.revision().0;
            }
            self.log.entries += 1;
            let log = &mut self.log;
            if let Err(cause) = state.replay(&entry, &mut |applied| log.follow(&applied)) {
                self.log.wrong.push(format!("entry {}: {cause}", entry.index));
            }
            self.followed.push(name_of(&entry));
        }
    }

    /// A member knows that this entry is committed. No other member may know another one in its place.
    fn committed(&mut self, from: &std::path::Path, entry: Entry) {
        let first = match self.followed.get(entry.index as usize - 1) {
            Some(first) => Some(*first),
            None => self.ahead.get(&entry.index).map(name_of),
        };
        match first {
            None => drop(self.ahead.insert(entry.index, entry)),
            Some(first) if first == name_of(&entry) => self.compared += 1,
            Some((term, _)) => self.log.wrong.push(format!(
                "entry {} is of term {} in {} and of term {term} elsewhere, both committed",
                entry.index,
                entry.term.0,
                from.display()
            )),
        }
    }
}

impl Directory {
    /// Entries that are now known to be committed. Whatever cannot be read may be there at the next look; what never
    /// comes leaves a gap, which is noticed at the end.
    fn read(&mut self) -> Vec<Entry> {
        if self.follower.is_none() {
            self.follower = LogFollower::open(&self.path).ok();
        }
        let Some(follower) = &mut self.follower else { return Vec::new() };
        let mut records = Vec::new();
        let whole = follower.poll(&mut |record| records.push(record)).unwrap_or(true);
        if !whole {
            self.tail.clear();
        }
        for record in records {
            match record {
                Record::Start { hard_state, .. } | Record::HardState(hard_state) => {
                    self.commit = self.commit.max(hard_state.commit);
                }
                Record::Snapshot(mark) => {
                    self.tail.clear();
                    self.commit = self.commit.max(mark.index);
                }
                Record::Entry(entry) => {
                    self.tail.split_off(&entry.index);
                    self.tail.insert(entry.index, entry);
                }
            }
        }
        // Only now: a batch may say that an index is committed before it brings the entry that belongs there.
        let later = self.tail.split_off(&(self.commit + 1));
        std::mem::replace(&mut self.tail, later).into_values().collect()
    }
}

fn name_of(entry: &Entry) -> (u64, u32) {
    // Collisions do not matter: a mistake would have to meet one.
    let sum = entry
        .data
        .iter()
        .fold(2_166_136_261u32, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(16_777_619));
    (entry.term.0, sum)
}
