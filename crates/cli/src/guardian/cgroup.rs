//! A control group for the command, where one may be made (cgroup v2).
//!
//! The kernel kills a whole group at once, whatever its processes do meanwhile, and tells when it is
//! empty. Without one the guardian kills children until there are none, which a tree that forks faster
//! than it is killed could drag out.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Where unified hierarchies are mounted: alone, or beside those of version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// A group that exists for one command.
#[derive(Debug)]
pub(super) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// A new group below our own. None where that is not for us to make, or the kernel cannot kill groups.
    pub(super) fn make() -> Option<Cgroup> {
        let path = Cgroup::path_of(std::process::id())?;
        fs::create_dir(&path).ok()?;
        let made = Cgroup { path };
        made.path.join("cgroup.kill").exists().then_some(made)
    }

    /// The group that a guardian has made, and left behind.
    pub(super) fn left_by(guardian: u32) -> Option<Cgroup> {
        let path = Cgroup::path_of(guardian)?;
        path.exists().then_some(Cgroup { path })
    }

    fn path_of(guardian: u32) -> Option<PathBuf> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let mount = MOUNTS.iter().map(Path::new).find(|m| m.join("cgroup.procs").exists())?;
        Some(mount.join(own.trim_start_matches('/')).join(format!("tenure-{guardian}")))
    }

    /// The file that a process writes itself into.
    pub(super) fn door(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Kills all processes in it.
    pub(super) fn kill(&self) {
        if let Err(error) = fs::write(self.path.join("cgroup.kill"), "1") {
            tracing::debug!(%error, "cannot kill the control group");
        }
    }

    /// Whether no process is in it.
    pub(super) fn is_empty(&self) -> bool {
        match fs::read_to_string(self.path.join("cgroup.events")) {
            Ok(events) => events.lines().any(|line| line == "populated 0"),
            // It was removed, which needs it to be empty.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Fails while a process is in it; then it is not ours to remove.
        let _ = fs::remove_dir(&self.path);
    }
}
