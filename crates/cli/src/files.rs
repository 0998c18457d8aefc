//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Each client is a file to the kernel, and what it asks for may be another one. Shells and systemd allow 1024 until asked for
/// more, up to a limit that only root may pass.
pub(crate) fn allow_many() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
