//! The small files that say whose directory this is, how often it was opened, and whether its member
//! was removed.
//!
//! All have the same shape: magic, version, two numbers, checksum. See `docs/reference/formats.md`.

use std::{io, path::Path};

use tenure_api::{ClusterId, MemberId};

use super::{DiskError, durable::write_durably, storage::Storage};

const VERSION: u32 = 1;
/// The identity of a member that joined a running cluster: its log begins with a snapshot.
const JOINED_VERSION: u32 = 2;
const LABEL_BYTES: usize = 32;
const IDENTITY_MAGIC: &[u8; 8] = b"tenureid";
const BOOT_MAGIC: &[u8; 8] = b"tenurebt";
const REMOVED_MAGIC: &[u8; 8] = b"tenurerm";
const REFOUNDED_MAGIC: &[u8; 8] = b"tenurerf";

/// Which member of which cluster a directory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The member.
    pub member_id: MemberId,
    /// It joined the cluster when that ran already. Without a snapshot it knows nothing; a member
    /// that founded the cluster knows the other founders.
    pub joined: bool,
}

impl Identity {
    pub(crate) fn read(storage: &dyn Storage, path: &Path) -> Result<Option<Identity>, DiskError> {
        let label = read(storage, path, IDENTITY_MAGIC, JOINED_VERSION)?;
        Ok(label.map(|(version, [cluster, member])| Identity {
            cluster_id: ClusterId(cluster),
            member_id: MemberId(member),
            joined: version == JOINED_VERSION,
        }))
    }

    pub(crate) fn write(self, storage: &dyn Storage, path: &Path) -> Result<(), DiskError> {
        let version = if self.joined { JOINED_VERSION } else { VERSION };
        write(storage, path, IDENTITY_MAGIC, version, [self.cluster_id.0, self.member_id.0])
    }

    /// Whether the member was told that it had been removed.
    pub(crate) fn was_removed(storage: &dyn Storage, path: &Path) -> Result<bool, DiskError> {
        Ok(read(storage, path, REMOVED_MAGIC, VERSION)?.is_some())
    }

    /// Notes that the cluster goes on without this member.
    pub(crate) fn write_removed(self, storage: &dyn Storage, path: &Path) -> Result<(), DiskError> {
        write(storage, path, REMOVED_MAGIC, VERSION, [self.cluster_id.0, self.member_id.0])
    }
}

/// The directory's own number, and how often it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    /// Drawn when the directory was made. Every segment of its log carries it, so that two
    /// members' logs cannot be swapped, and no client can guess what a batch starts with.
    pub(crate) directory: u64,
    pub(crate) count: u64,
}

impl Boot {
    /// Before the first opening of a new directory.
    pub(crate) fn fresh(storage: &dyn Storage) -> Boot {
        Boot { directory: storage.random(), count: 0 }
    }

    pub(crate) fn read(storage: &dyn Storage, path: &Path) -> Result<Option<Boot>, DiskError> {
        let label = read(storage, path, BOOT_MAGIC, VERSION)?;
        Ok(label.map(|(_, [directory, count])| Boot { directory, count }))
    }

    pub(crate) fn write(self, storage: &dyn Storage, path: &Path) -> Result<(), DiskError> {
        write(storage, path, BOOT_MAGIC, VERSION, [self.directory, self.count])
    }
}

/// The cluster was made from the data of another: by a restore, or by `--force-new-cluster`. Its id
/// does not follow from the settings then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewCluster {
    /// Whose data it was, if that is known.
    pub before: Option<ClusterId>,
    /// Which cluster it is.
    pub cluster_id: ClusterId,
}

impl NewCluster {
    pub(crate) fn read(
        storage: &dyn Storage,
        path: &Path,
    ) -> Result<Option<NewCluster>, DiskError> {
        Ok(read(storage, path, REFOUNDED_MAGIC, VERSION)?.map(|(_, [before, cluster])| {
            NewCluster {
                before: Some(ClusterId(before)).filter(|_| before != 0),
                cluster_id: ClusterId(cluster),
            }
        }))
    }

    pub(crate) fn write(self, storage: &dyn Storage, path: &Path) -> Result<(), DiskError> {
        let before = self.before.map_or(0, |before| before.0);
        write(storage, path, REFOUNDED_MAGIC, VERSION, [before, self.cluster_id.0])
    }
}

fn write(
    storage: &dyn Storage,
    path: &Path,
    magic: &[u8; 8],
    version: u32,
    numbers: [u64; 2],
) -> Result<(), DiskError> {
    let mut label = Vec::with_capacity(LABEL_BYTES);
    label.extend_from_slice(magic);
    label.extend_from_slice(&version.to_le_bytes());
    for number in numbers {
        label.extend_from_slice(&number.to_le_bytes());
    }
    label.extend_from_slice(&crc32fast::hash(&label).to_le_bytes());
    write_durably(storage, path, &label)
}

/// The version, from 1 to `known`, and the two numbers; none if there is no such file.
fn read(
    storage: &dyn Storage,
    path: &Path,
    magic: &[u8; 8],
    known: u32,
) -> Result<Option<(u32, [u64; 2])>, DiskError> {
    let label = match storage.read(path) {
        Ok(label) => label,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(DiskError::io("read", path)(cause)),
    };
    let Ok(label) = <[u8; LABEL_BYTES]>::try_from(label) else {
        return Err(DiskError::corrupt(path, 0, format!("it is not {LABEL_BYTES} bytes long")));
    };
    let word = |at: usize| u32::from_le_bytes(label[at..at + 4].try_into().expect("four bytes"));
    let number = |at: usize| u64::from_le_bytes(label[at..at + 8].try_into().expect("eight bytes"));
    if label[..8] != magic[..] {
        return Err(DiskError::corrupt(path, 0, "it is not such a file"));
    }
    if word(28) != crc32fast::hash(&label[..28]) {
        return Err(DiskError::corrupt(path, 0, "checksum mismatch"));
    }
    let found = word(8);
    if !(VERSION..=known).contains(&found) {
        return Err(DiskError::UnknownVersion { file: path.to_owned(), found, known });
    }
    Ok(Some((found, [number(12), number(20)])))
}
