//! Faults that a test asks for: death between two steps, a disk that forgets what was not flushed, a slow disk.
//!
//! Only in builds with debug assertions; a release build has none of this, not even the variable's name. `TENURE_FAULTS` holds
//! any of these, separated by commas:
//!
//! | setting | what happens |
//! |---|---|
//! | `kill=wal.write.after:3` | the process kills itself when it passes this point for the third time |
//! | `forget` | what was not flushed is in this process's memory only: its death is a loss of power |
//! | `forget=30` | the same, but of a hundred pages 30 reach the disk at once, as if the system had written them back |
//! | `lie` | flushes of the log do nothing: with `forget`, writes are lost that were acknowledged, which tests must notice |
//! | `slow=FILE` | every flush takes as many milliseconds as the file says, for as long as it says so |

use std::{
    collections::BTreeMap,
    env, fs,
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::storage::{Plain, Storage, StorageFile, StorageLock};

const VARIABLE: &str = "TENURE_FAULTS";
const PAGE_BYTES: u64 = 4096;
/// How files are called that have no durable name yet.
const NAMELESS: &str = ".nameless-";
/// Pause between two looks at how slow a flush is to be.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Every point at which a process can be made to kill itself. `lock`: the lock file. `label`: boot, identity and the
/// other small files. `segment`: a log segment that is being made; `wal`: one that is in use. `snapshot`: one that is
/// being written; `snap`: one that is there. `folder`: the directory that a name was changed in.
pub const POINTS: &[&str] = &[
    "lock.lock.before",
    "lock.lock.after",
    "label.create.before",
    "label.create.after",
    "label.write.after",
    "label.sync.after",
    "label.rename.before",
    "label.rename.after",
    "segment.create.before",
    "segment.create.after",
    "segment.write.after",
    "segment.sync.before",
    "segment.sync.after",
    "segment.rename.before",
    "segment.rename.after",
    "wal.write.before",
    "wal.write.after",
    "wal.sync.before",
    "wal.sync.after",
    "wal.rename.before",
    "wal.rename.after",
    "snapshot.create.before",
    "snapshot.create.after",
    "snapshot.write.after",
    "snapshot.sync.before",
    "snapshot.sync.after",
    "snapshot.rename.before",
    "snapshot.rename.after",
    "snap.rename.before",
    "snap.rename.after",
    "folder.sync.before",
    "folder.sync.after",
    "core.messages.before",
    "core.messages.after",
    "core.persist.before",
    "core.persist.after",
    "core.answers.before",
    "core.answers.after",
];

/// Kills the process here if that was asked for.
pub fn kill_point(name: &str) {
    let Some(faults) = faults() else { return };
    debug_assert!(POINTS.contains(&name), "{name} is missing in the table of points");
    if let Some((point, times)) = &faults.kill
        && point == name
        && faults.passed.fetch_add(1, Ordering::SeqCst) + 1 == *times
    {
        // No handler, no flush, no destructor.
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            thread::park();
        }
    }
}

/// Another storage instead of the system's, if that was asked for.
pub(crate) fn storage() -> Option<&'static dyn Storage> {
    faults().map(|faults| faults as &dyn Storage)
}

fn faults() -> Option<&'static &'static Faulty> {
    static FAULTS: OnceLock<Option<&'static Faulty>> = OnceLock::new();
    let read = || Some(&*Box::leak(Box::new(Faulty::parse(&env::var(VARIABLE).ok()?)?)));
    FAULTS.get_or_init(read).as_ref()
}

#[derive(Debug, Default)]
struct Faulty {
    kill: Option<(String, usize)>,
    passed: AtomicUsize,
    /// Of a hundred pages so many are written at once; none if nothing is forgotten.
    forgets: Option<u64>,
    lies: bool,
    slow: Option<PathBuf>,
    names: Mutex<Names>,
}

/// What the directories look like to this process, where that is not durable yet.
#[derive(Debug, Default)]
struct Names {
    /// Where the content of a name is; none if the name is gone.
    changed: BTreeMap<PathBuf, Option<PathBuf>>,
    /// What was not flushed, by where the content is.
    unflushed: BTreeMap<PathBuf, Arc<Unflushed>>,
    made: u64,
}

/// The content of a file as this process sees it.
#[derive(Debug, Default)]
struct Unflushed {
    pages: Mutex<BTreeMap<u64, Vec<u8>>>,
    length: AtomicU64,
}

impl Faulty {
    fn parse(text: &str) -> Option<Faulty> {
        let mut faulty = Faulty::default();
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            match name {
                "kill" => {
                    let (point, times) = value.split_once(':').unwrap_or((value, "1"));
                    assert!(POINTS.contains(&point), "{VARIABLE}: there is no point {point}");
                    faulty.kill = Some((point.to_owned(), times.parse().ok()?));
                }
                "forget" => faulty.forgets = Some(value.parse().unwrap_or(0)),
                "lie" => faulty.lies = true,
                "slow" => faulty.slow = Some(value.into()),
                _ => panic!("{VARIABLE}: {setting} is no fault"),
            }
        }
        Some(faulty)
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the content of a name is.
    fn place(&self, path: &Path) -> io::Result<PathBuf> {
        match self.names().changed.get(path) {
            None => Ok(path.to_owned()),
            Some(Some(place)) => Ok(place.clone()),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn wrap(
        &'static self,
        class: &'static str,
        place: &Path,
        file: Box<dyn StorageFile>,
    ) -> io::Result<Box<dyn StorageFile>> {
        let mut unflushed = None;
        if self.forgets.is_some() {
            let mut names = self.names();
            let known = names.unflushed.entry(place.to_owned());
            let length = file.length()?;
            let shared = known.or_insert_with(|| {
                Arc::new(Unflushed { length: AtomicU64::new(length), ..Unflushed::default() })
            });
            unflushed = Some(Arc::clone(shared));
        }
        Ok(Box::new(FaultyFile { faults: self, class, file, unflushed }))
    }
}

/// What a file is, in the words of [`POINTS`].
fn class(path: &Path) -> &'static str {
    let text = path.to_string_lossy();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let unfinished = !name.ends_with(".wal") && !name.ends_with(".snap");
    if text.contains(".wal") {
        if unfinished { "segment" } else { "wal" }
    } else if text.contains("/snap/") || name.contains(".snap") {
        if unfinished { "snapshot" } else { "snap" }
    } else if name == "lock" {
        "lock"
    } else {
        "label"
    }
}

/// Passes a point, if this combination of file and step has one.
fn pass(class: &str, step: &str, when: &str) {
    let name = format!("{class}.{step}.{when}");
    if POINTS.contains(&name.as_str()) {
        kill_point(&name);
    }
}

fn around<T>(class: &str, step: &str, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    pass(class, step, "before");
    let done = work()?;
    pass(class, step, "after");
    Ok(done)
}

impl Storage for &'static Faulty {
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let class = class(path);
        around(class, "create", || {
            if self.forgets.is_none() {
                return self.wrap(class, path, Plain.create(path)?);
            }
            let mut names = self.names();
            names.made += 1;
            let name = format!("{NAMELESS}{}-{}", std::process::id(), names.made);
            let place = path.with_file_name(name);
            names.changed.insert(path.to_owned(), Some(place.clone()));
            drop(names);
            let file = Plain.create(&place)?;
            self.wrap(class, &place, file)
        })
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let place = self.place(path)?;
        self.wrap(class(path), &place, Plain.open(&place)?)
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let place = self.place(path)?;
        self.wrap(class(path), &place, Plain.open_read(&place)?)
    }

    fn open_direct(&self, path: &Path) -> Option<Box<dyn StorageFile>> {
        if self.forgets.is_some() {
            return None;
        }
        self.wrap(class(path), path, Plain.open_direct(path)?).ok()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if self.forgets.is_none() {
            return Plain.read(path);
        }
        let file = self.open_read(path)?;
        let mut bytes = vec![0; file.length()? as usize];
        file.read_all_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn exists(&self, path: &Path) -> bool {
        self.place(path).is_ok_and(|place| Plain.exists(&place))
    }

    fn is_directory(&self, path: &Path) -> bool {
        Plain.is_directory(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        Plain.create_directory(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut files = Plain.list(directory)?;
        let own = format!("{NAMELESS}{}-", std::process::id());
        files.retain(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(NAMELESS) && !name.starts_with(&own) {
                // A process that is gone never gave it a name. A loss of power would have freed its blocks.
                let _ = fs::remove_file(path);
            }
            !name.starts_with(NAMELESS)
        });
        let names = self.names();
        for (path, place) in
            names.changed.iter().filter(|(path, _)| path.parent() == Some(directory))
        {
            files.retain(|known| known != path);
            if place.is_some() {
                files.push(path.clone());
            }
        }
        files.sort();
        Ok(files)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        around(class(from), "rename", || {
            if self.forgets.is_none() {
                return Plain.rename(from, to);
            }
            let place = self.place(from)?;
            let mut names = self.names();
            names.changed.insert(to.to_owned(), Some(place));
            names.changed.insert(from.to_owned(), None);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if self.forgets.is_none() {
            return Plain.remove(path);
        }
        self.place(path)?;
        self.names().changed.insert(path.to_owned(), None);
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        around("folder", "sync", || {
            if self.forgets.is_some() {
                self.names().make_durable(path)?;
            }
            Plain.sync_directory(path)
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<StorageLock>> {
        around("lock", "lock", || Plain.lock(path))
    }

    fn random(&self) -> u64 {
        Plain.random()
    }

    fn remove_gradually(&self, retired: Vec<PathBuf>) {
        if self.forgets.is_none() {
            return Plain.remove_gradually(retired);
        }
        for path in retired {
            let _ = self.remove(&path);
        }
    }
}

impl Names {
    /// Does to the directory what was done to its names. Those that were names before go first: what they were called may be
    /// another file's name by now.
    fn make_durable(&mut self, directory: &Path) -> io::Result<()> {
        let changed: Vec<(PathBuf, Option<PathBuf>)> = {
            let inside = self.changed.extract_if(.., |path, _| path.parent() == Some(directory));
            inside.collect()
        };
        let is_nameless = |place: &Path| place.to_string_lossy().contains(NAMELESS);
        let (named, nameless): (Vec<_>, Vec<_>) = changed
            .iter()
            .filter_map(|(path, place)| Some((path, place.as_ref()?)))
            .partition(|(_, place)| !is_nameless(place));
        for (path, place) in named.into_iter().chain(nameless) {
            fs::rename(place, path)?;
            if let Some(content) = self.unflushed.remove(place) {
                self.unflushed.insert(path.clone(), content);
            }
        }
        for (path, _) in changed.iter().filter(|(_, place)| place.is_none()) {
            match fs::remove_file(path) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                _ => {}
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct FaultyFile {
    faults: &'static Faulty,
    class: &'static str,
    file: Box<dyn StorageFile>,
    unflushed: Option<Arc<Unflushed>>,
}

impl Unflushed {
    fn pages(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultyFile {
    /// A flush takes as long as it is told to, and may be told so while it lasts.
    fn linger(&self) {
        let Some(file) = &self.faults.slow else { return };
        let began = Instant::now();
        let asked = || {
            let text = fs::read_to_string(file).unwrap_or_default();
            Duration::from_millis(text.trim().parse().unwrap_or(0))
        };
        while began.elapsed() < asked() {
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn flush(&self) -> io::Result<()> {
        let Some(unflushed) = &self.unflushed else { return Ok(()) };
        if self.faults.lies && self.class == "wal" {
            return Ok(());
        }
        let mut pages = unflushed.pages();
        let length = unflushed.length.load(Ordering::SeqCst);
        if self.file.length()? != length {
            self.file.resize(length)?;
        }
        for (number, page) in std::mem::take(&mut *pages) {
            let at = number * PAGE_BYTES;
            let rest = length.saturating_sub(at).min(PAGE_BYTES) as usize;
            self.file.write_all_to(&page[..rest], at)?;
        }
        Ok(())
    }

    /// A page as it is now.
    fn page(&self, number: u64) -> io::Result<Vec<u8>> {
        let mut page = vec![0; PAGE_BYTES as usize];
        let mut filled = 0;
        while filled < page.len() {
            match self
                .file
                .read_some_at(&mut page[filled..], number * PAGE_BYTES + filled as u64)?
            {
                0 => break,
                read => filled += read,
            }
        }
        Ok(page)
    }
}

impl StorageFile for FaultyFile {
    fn length(&self) -> io::Result<u64> {
        match &self.unflushed {
            Some(unflushed) => Ok(unflushed.length.load(Ordering::SeqCst)),
            None => self.file.length(),
        }
    }

    fn read_some_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let Some(unflushed) = &self.unflushed else { return self.file.read_some_at(bytes, at) };
        let pages = unflushed.pages();
        let left = unflushed.length.load(Ordering::SeqCst).saturating_sub(at);
        let inside = (at % PAGE_BYTES) as usize;
        let count = bytes.len().min(left as usize).min(PAGE_BYTES as usize - inside);
        let page = match pages.get(&(at / PAGE_BYTES)) {
            Some(page) => page.clone(),
            None => self.page(at / PAGE_BYTES)?,
        };
        bytes[..count].copy_from_slice(&page[inside..inside + count]);
        Ok(count)
    }

    fn write_all_to(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        around(self.class, "write", || {
            let Some(unflushed) = &self.unflushed else { return self.file.write_all_to(bytes, at) };
            let mut pages = unflushed.pages();
            let (mut bytes, mut at) = (bytes, at);
            while !bytes.is_empty() {
                let (number, inside) = (at / PAGE_BYTES, (at % PAGE_BYTES) as usize);
                let count = bytes.len().min(PAGE_BYTES as usize - inside);
                let mut page = match pages.remove(&number) {
                    Some(page) => page,
                    None => self.page(number)?,
                };
                page[inside..inside + count].copy_from_slice(&bytes[..count]);
                let luck = RandomState::new().hash_one(number) % 100;
                if self.faults.forgets.is_some_and(|percent| luck < percent)
                    && self.file.length()? >= (number + 1) * PAGE_BYTES
                {
                    self.file.write_all_to(&page, number * PAGE_BYTES)?;
                }
                pages.insert(number, page);
                (bytes, at) = (&bytes[count..], at + count as u64);
                unflushed.length.fetch_max(at, Ordering::SeqCst);
            }
            Ok(())
        })
    }

    fn resize(&self, bytes: u64) -> io::Result<()> {
        let Some(unflushed) = &self.unflushed else { return self.file.resize(bytes) };
        let mut pages = unflushed.pages();
        pages.retain(|number, _| number * PAGE_BYTES < bytes);
        if let Some(page) = pages.get_mut(&(bytes / PAGE_BYTES)) {
            page[(bytes % PAGE_BYTES) as usize..].fill(0);
        }
        unflushed.length.store(bytes, Ordering::SeqCst);
        Ok(())
    }

    fn sync_content(&self) -> io::Result<()> {
        around(self.class, "sync", || {
            self.linger();
            self.flush()?;
            self.file.sync_content()
        })
    }

    fn sync_everything(&self) -> io::Result<()> {
        around(self.class, "sync", || {
            self.linger();
            self.flush()?;
            self.file.sync_everything()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forgetful() -> &'static Faulty {
        Box::leak(Box::new(Faulty::parse("forget").unwrap()))
    }

    #[test]
    fn forgetful_disk_keeps_flushed_content_under_durable_names_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let before = forgetful();
        let kept = before.create(&path("kept")).unwrap();
        kept.write_all_to(b"first", 0).unwrap();
        kept.sync_everything().unwrap();
        before.create(&path("nameless")).unwrap().sync_everything().unwrap();
        assert!(before.exists(&path("nameless")));
        let named = vec![path("kept"), path("nameless")];
        assert_eq!((&before).list(folder.path()).unwrap(), named);
        // Nothing has a name on the disk yet.
        assert_eq!((&forgetful()).list(folder.path()).unwrap(), Vec::<PathBuf>::new());
        (&before).remove(&path("nameless")).unwrap();
        (&before).sync_directory(folder.path()).unwrap();
        kept.write_all_to(b"second", 0).unwrap();
        (&before).rename(&path("kept"), &path("moved")).unwrap();
        assert_eq!((&before).read(&path("moved")).unwrap(), b"second");
        assert!(!before.exists(&path("kept")));

        // The power is lost.
        let after = forgetful();
        assert_eq!((&after).list(folder.path()).unwrap(), [path("kept")]);
        assert_eq!((&after).read(&path("kept")).unwrap(), b"first");
    }

    #[test]
    fn forgetful_disk_frees_what_a_dead_process_left_without_a_name() {
        let folder = tempfile::tempdir().unwrap();
        // Process 1 is never this one.
        let left = folder.path().join(format!("{NAMELESS}1-4"));
        fs::write(&left, b"blocks").unwrap();
        assert_eq!((&forgetful()).list(folder.path()).unwrap(), Vec::<PathBuf>::new());
        assert!(!left.exists());
    }

    #[test]
    fn forgetful_disk_moves_a_name_and_makes_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let disk = &forgetful();
        let write = |name: &str, text: &[u8]| {
            let file = disk.create(&path(name)).unwrap();
            file.write_all_to(text, 0).unwrap();
            file.sync_content().unwrap();
        };
        write("a.tmp", b"1");
        disk.sync_directory(folder.path()).unwrap();
        disk.rename(&path("a.tmp"), &path("a")).unwrap();
        write("a.tmp", b"2");
        disk.sync_directory(folder.path()).unwrap();
        assert_eq!(fs::read(path("a")).unwrap(), b"1");
        assert_eq!(fs::read(path("a.tmp")).unwrap(), b"2");
    }
}
