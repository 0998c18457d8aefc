//! The files in a directory of certificates.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tenure::tls::issue::{Authority, Issued};
use tenure::tls::{Certificate, PairFiles, write_private, write_public};

/// The authority's own pair.
pub(super) const AUTHORITY: &str = "ca";
const CERT: &str = "crt";
const KEY: &str = "key";

/// A directory of certificates.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    dir: PathBuf,
}

impl Store {
    pub(crate) fn at(dir: impl Into<PathBuf>) -> Store {
        Store { dir: dir.into() }
    }

    /// The directory, by a path that is good from everywhere.
    pub(crate) fn dir(&self) -> PathBuf {
        std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone())
    }

    /// Makes the directory if it is not there. Others than the owner have no business in it.
    pub(super) fn make(&self) -> anyhow::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .with_context(|| format!("cannot make {}", self.dir.display()))
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.cert(AUTHORITY)
    }

    pub(super) fn cert(&self, name: &str) -> PathBuf {
        self.dir().join(format!("{name}.{CERT}"))
    }

    pub(super) fn key(&self, name: &str) -> PathBuf {
        self.dir().join(format!("{name}.{KEY}"))
    }

    pub(crate) fn pair(&self, name: &str) -> PairFiles {
        PairFiles { cert: self.cert(name), key: self.key(name) }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.cert(name).exists() || self.key(name).exists()
    }

    /// The authority, to sign with.
    pub(super) fn authority(&self) -> anyhow::Result<Authority> {
        let (cert, key) = (self.cert(AUTHORITY), self.key(AUTHORITY));
        Authority::load(&cert, &key).context("the authority cannot be used")
    }

    /// Writes a pair. The key comes first: a certificate is there only with its key.
    pub(super) fn write(&self, name: &str, issued: &Issued) -> anyhow::Result<()> {
        write_private(&self.key(name), &issued.key)?;
        Ok(write_public(&self.cert(name), &issued.cert)?)
    }

    /// The names of all certificates here, the authority's first.
    pub(super) fn names(&self) -> anyhow::Result<Vec<String>> {
        let files = match fs::read_dir(&self.dir) {
            Ok(files) => files,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                anyhow::bail!(
                    "there is no {}: make certificates with tenure certs create, or name the directory with --dir",
                    self.dir.display()
                );
            }
            Err(error) => {
                return Err(error).with_context(|| self.dir.display().to_string());
            }
        };
        let name = |path: PathBuf| {
            let is_cert = path.extension().is_some_and(|ending| ending == CERT);
            is_cert.then(|| path.file_stem()?.to_str().map(str::to_owned)).flatten()
        };
        let mut names: Vec<String> = files.flatten().filter_map(|file| name(file.path())).collect();
        names.sort_by_key(|name| (name != AUTHORITY, name.clone()));
        if names.is_empty() {
            anyhow::bail!("there is no certificate (*.{CERT}) in {}", self.dir.display());
        }
        Ok(names)
    }

    pub(super) fn load(&self, name: &str) -> anyhow::Result<Certificate> {
        Ok(Certificate::load(&self.cert(name))?)
    }
}

/// What may stand for a member or a client: it becomes a part of file names.
pub(super) fn checked_name(name: &str) -> Result<String, String> {
    let sound = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    if name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(sound) {
        return Err(format!("{name:?} is no name: use letters, digits, and . _ - @ between them"));
    }
    if name == AUTHORITY {
        return Err(format!("{AUTHORITY} is the authority's own name"));
    }
    Ok(name.to_owned())
}

/// Whether others than its owner can read a file.
pub(super) fn is_open_to_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|of| of.permissions().mode() & 0o077 != 0)
}
