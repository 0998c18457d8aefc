//! The file of a durable gate: what is in it, and how it is replaced.
//!
//! The file is small and is written as a whole: beside, flushed, renamed, its directory flushed. So
//! it is always the old one or the new one. `docs/reference/formats.md` has every byte.

use std::{collections::BTreeMap, io, sync::Arc};

use super::book::{Marks, Place};
use super::disk::{Disk, FILE_BYTES_MAX};
use super::{FencingToken, RESOURCE_BYTES_MAX};

const MAGIC: &[u8; 8] = b"tenuregt";
const VERSION: u32 = 1;
const CRC_BYTES: usize = 4;

/// Why a durable gate cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file system refused something.
    #[error("gate file {file}: {cause}")]
    Io {
        /// The file.
        file: String,
        /// What it said.
        #[source]
        cause: io::Error,
    },
    /// Another process has this gate, or another part of this one. Clone the gate instead of opening
    /// it twice.
    #[error(
        "gate file {file} is in use: two gates over one file would not see each other's tokens"
    )]
    InUse {
        /// The file.
        file: String,
    },
    /// There is no such file.
    #[error(
        "gate file {file} does not exist: create the gate if this is its first start; if it existed \
         before, raise a new one to the present holder's token before anything else"
    )]
    Missing {
        /// The file.
        file: String,
    },
    /// There is such a file already.
    #[error("gate file {file} exists: open it instead of making a new one")]
    Exists {
        /// The file.
        file: String,
    },
    /// The file is not as it was written.
    #[error(
        "gate file {file} is damaged ({what}): nobody knows which tokens it had seen. Stop all holders, \
         move the file away, create a new gate, and let a new holder raise it before anybody writes"
    )]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// The file was written by a newer release.
    #[error(
        "gate file {file} has version {version}, and this release reads {VERSION}: use a newer one"
    )]
    Newer {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
}

/// Writes the first file, of a gate that has seen nothing.
pub(super) fn create(disk: &dyn Disk) -> Result<(), OpenError> {
    let failed = |cause| OpenError::Io { file: disk.name(), cause };
    if disk.read().map_err(failed)?.is_some() {
        return Err(OpenError::Exists { file: disk.name() });
    }
    replace(disk, &BTreeMap::new()).map_err(failed)
}

/// Reads what a gate has seen.
pub(super) fn load(disk: &dyn Disk) -> Result<BTreeMap<Place, Marks>, OpenError> {
    let file = disk.name();
    match disk.read() {
        Ok(Some(bytes)) => decode(&bytes).map_err(|damage| match damage {
            Damage::Newer(version) => OpenError::Newer { file, version },
            Damage::Other(what) => OpenError::Damaged { file, what },
        }),
        Ok(None) => Err(OpenError::Missing { file }),
        Err(cause) => Err(OpenError::Io { file, cause }),
    }
}

/// Writes down what a gate has seen. If this fails, what the disk has is unknown: the old file or the
/// new one. It must not be tried again, because a second flush may report success for what the first
/// one lost.
pub(super) fn replace(disk: &dyn Disk, marks: &BTreeMap<Place, Marks>) -> io::Result<()> {
    let bytes = encode(marks);
    if bytes.len() as u64 >= FILE_BYTES_MAX {
        return Err(io::Error::other("the gate has seen more than a file holds"));
    }
    disk.write_beside(&bytes)?;
    disk.flush_beside()?;
    disk.rename()?;
    disk.flush_directory()
}

pub(super) fn encode(marks: &BTreeMap<Place, Marks>) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(marks.len() as u32).to_le_bytes());
    for (place, marks) in marks {
        let name = place.resource.as_bytes();
        bytes.push(u8::from(place.slot.is_some()));
        bytes.extend_from_slice(&place.slot.unwrap_or(0).to_le_bytes());
        for mark in [marks.exclusive, marks.shared] {
            bytes.extend_from_slice(&mark.map_or(0, FencingToken::get).to_le_bytes());
        }
        // A name that is too long was refused before it was seen.
        bytes.push(name.len() as u8);
        bytes.extend_from_slice(name);
    }
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

const _: () = assert!(RESOURCE_BYTES_MAX == u8::MAX as usize, "a name's length is one byte");

pub(super) enum Damage {
    Newer(u32),
    Other(String),
}

impl From<&str> for Damage {
    fn from(what: &str) -> Damage {
        Damage::Other(what.to_owned())
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<BTreeMap<Place, Marks>, Damage> {
    let Some((body, crc)) = bytes.split_last_chunk::<CRC_BYTES>() else {
        return Err(Damage::Other(format!("it has {} bytes", bytes.len())));
    };
    let mut reader = Reader(body);
    if reader.array()? != *MAGIC {
        return Err("it does not begin as a gate's file".into());
    }
    // The version stands before the checksum is judged: a newer layout may end in another way.
    match u32::from_le_bytes(reader.array()?) {
        VERSION => {}
        version => return Err(Damage::Newer(version)),
    }
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return Err("its checksum does not fit".into());
    }
    let count = u32::from_le_bytes(reader.array()?);
    let mut marks = BTreeMap::new();
    for _ in 0..count {
        let (place, seen) = reader.line()?;
        if marks.insert(place, seen).is_some() {
            return Err("it names a resource twice".into());
        }
    }
    if !reader.0.is_empty() {
        return Err("it goes on behind its end".into());
    }
    Ok(marks)
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let (array, rest) = self.0.split_first_chunk().ok_or("it is cut off")?;
        self.0 = rest;
        Ok(*array)
    }

    fn mark(&mut self) -> Result<Option<FencingToken>, Damage> {
        match i64::from_le_bytes(self.array()?) {
            0 => Ok(None),
            revision => match FencingToken::from_revision(revision) {
                Some(token) => Ok(Some(token)),
                None => Err("it has a token below 1".into()),
            },
        }
    }

    fn line(&mut self) -> Result<(Place, Marks), Damage> {
        let [has_slot] = self.array()?;
        let slot = u32::from_le_bytes(self.array()?);
        let slot = match (has_slot, slot) {
            (0, 0) => None,
            (1, slot) => Some(slot),
            _ => return Err("it has a slot that is none".into()),
        };
        let marks = Marks { exclusive: self.mark()?, shared: self.mark()? };
        let [bytes] = self.array()?;
        let (name, rest) = self.0.split_at_checked(bytes.into()).ok_or("it is cut off")?;
        self.0 = rest;
        let name = std::str::from_utf8(name).map_err(|_| "it has a name that is no text")?;
        Ok((Place { resource: Arc::from(name), slot }, marks))
    }
}
