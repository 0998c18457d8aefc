//! Files: how many this process may have open, and how it replaces one that others read.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Each client is a file to the kernel, and what it asks for may be another one. Shells and systemd allow 1024 until asked for
/// more, up to a limit that only root may pass.
pub(crate) fn allow_many() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Mode of a file that is there to be read: everything in it can be asked for.
const READABLE: u32 = 0o644;

/// Replaces a file by this text, all at once: a reader sees the old or the new.
///
/// The new one is made under a name that another user may have guessed and put a link at. So that name is removed, and made
/// by us or not at all. A link at `path` itself is replaced and not followed.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut beside = OsString::from(".");
    beside.push(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = create_anew(&beside).and_then(|mut file| file.write_all(text));
    let replaced = written.and_then(|()| fs::rename(&beside, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&beside);
    }
    replaced
}

/// A file that did not exist, in place of whatever had its name.
pub(crate) fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // O_EXCL follows no link.
    OpenOptions::new().write(true).create_new(true).mode(READABLE).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As another user does who knows the process number and may write into the folder.
    #[test]
    fn replaced_file_follows_no_link() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let path = home.path().join("status");
        let beside = home.path().join(format!(".status.{}.tmp", std::process::id()));
        for link in [&beside, &path] {
            std::os::unix::fs::symlink(&victim, link).unwrap();
        }
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert!(fs::symlink_metadata(&beside).is_err(), "nothing is left");
    }
}
