//! A disk of our own, which can be small, full or read-only.

use std::{path::Path, process::Command};

use tempfile::TempDir;

use crate::tools;

/// A small volume in memory, unmounted when dropped.
#[derive(Debug)]
pub struct Volume(TempDir);

impl Volume {
    /// Mounts one with options as tmpfs has them: `size=24m`.
    pub fn new(options: &str) -> Volume {
        tools::must_be_root("it mounts a small volume");
        let directory = TempDir::with_prefix("tenure-e2e-volume-");
        let volume = Volume(directory.expect("a temporary directory can be made"));
        mount(&["-t", "tmpfs", "-o", options, "tenure-e2e", &volume.name()]);
        volume
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Gives it other options.
    pub fn remount(&self, options: &str) {
        mount(&["-o", &format!("remount,{options}"), &self.name()]);
    }

    fn name(&self) -> String {
        self.path().to_string_lossy().into_owned()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let umount = tools::system("umount", "mount");
        let _ = Command::new(umount).arg("-l").arg(self.path()).output();
    }
}

fn mount(args: &[&str]) {
    tools::run(&tools::system("mount", "mount"), args);
}
