//! What is read from files, and again when they have changed.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{info, warn};

use crate::TlsError;

type Load<T> = Box<dyn Fn() -> Result<T, TlsError> + Send + Sync>;

/// A value that is made of files.
///
/// A change is noticed by what the kernel says of the files each time the value is asked for, which costs a microsecond. Files
/// that do not fit together, as between the renewal of a certificate and that of its key, leave the value as it was.
pub(crate) struct Watched<T> {
    files: Vec<PathBuf>,
    load: Load<T>,
    now: Mutex<Now<T>>,
}

struct Now<T> {
    seen: Vec<Option<Mark>>,
    value: Arc<T>,
}

/// What tells a file from what it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

fn marks(files: &[PathBuf]) -> Vec<Option<Mark>> {
    let mark = |path: &PathBuf| {
        let of = fs::metadata(path).ok()?;
        Some(Mark {
            inode: of.ino(),
            bytes: of.len(),
            modified: (of.mtime(), of.mtime_nsec()),
            changed: (of.ctime(), of.ctime_nsec()),
        })
    };
    files.iter().map(mark).collect()
}

impl<T> Watched<T> {
    pub(crate) fn new(
        files: Vec<PathBuf>,
        load: impl Fn() -> Result<T, TlsError> + Send + Sync + 'static,
    ) -> Result<Watched<T>, TlsError> {
        // Looked at before it is read: what is written in between is read again.
        let seen = marks(&files);
        let now = Mutex::new(Now { seen, value: Arc::new(load()?) });
        Ok(Watched { files, load: Box::new(load), now })
    }

    /// The value of the files as they are now, or as they last were in order.
    pub(crate) fn get(&self) -> Arc<T> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = marks(&self.files);
        if seen != now.seen {
            now.seen = seen;
            match (self.load)() {
                Ok(value) => {
                    now.value = Arc::new(value);
                    info!(files = %self.named(), "certificates were read again");
                }
                Err(cause) => {
                    warn!(%cause, "the changed certificates cannot be used; those before stay in use");
                }
            }
        }
        now.value.clone()
    }

    fn named(&self) -> String {
        self.files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

impl<T> std::fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("files", &self.files).finish_non_exhaustive()
    }
}
