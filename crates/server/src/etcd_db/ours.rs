//! The bucket `tenure`: what of a member's state etcd has no bucket for. etcd neither reads it nor drops it.
//!
//! | key | value |
//! |---|---|
//! | `chunk`, and a number (4 bytes, big endian) | the chunks of the state beside the store, as on disk |
//! | `format` | 1 (4 bytes, little endian) |
//! | `mark` | where in the log the state stands |
//! | `note` | whose it is |
//! | `seal` | a CRC-32 of all keys and values of the bucket `key`, and then of this bucket before the seal |
//!
//! A file may go to etcd, be written to there, and come back: this bucket then speaks of keys that are no more. The seal tells
//! the two apart.

use tenure_replica::{
    SnapshotMark, SnapshotReader,
    codec::{Codec, DecodeError},
};

use super::{
    bbolt::{Damage, Db, Stop},
    content::{self, Content},
};

/// Its name.
pub(super) const BUCKET: &[u8] = b"tenure";
pub(super) const CHUNK: &[u8] = b"chunk";
pub(super) const FORMAT: &[u8] = b"format";
pub(super) const MARK: &[u8] = b"mark";
pub(super) const NOTE: &[u8] = b"note";
pub(super) const SEAL: &[u8] = b"seal";
pub(super) const FORMAT_1: [u8; 4] = 1_u32.to_le_bytes();

/// What the bucket holds.
#[derive(Debug)]
pub(crate) struct Ours {
    /// The state, but for its store.
    pub(crate) reader: SnapshotReader,
    /// Where in the log it stands.
    pub(crate) mark: SnapshotMark,
    /// Whose it is.
    pub(crate) note: Vec<u8>,
    /// The checksum of it all.
    pub(crate) seal: u32,
}

/// What there is in a file that tenure may have saved.
#[derive(Debug)]
pub(crate) enum Found {
    /// The bucket, and the keys are those that it was saved with.
    Ours(Box<Ours>),
    /// The bucket of an earlier state: etcd wrote to the file, or it is damaged.
    Stale,
    /// No such bucket: etcd saved it.
    None,
    /// A newer release saved it.
    Newer(u32),
}

/// Why the bucket cannot be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Stop(Stop),
    Content(DecodeError),
}

/// Whether tenure saved the file that this was read from, and nothing wrote to it since.
pub(crate) fn is_sealed(db: &Db, content: &Content) -> Result<bool, Stop> {
    let (sum, seal) = sealed(db, content)?;
    Ok(seal.as_deref() == Some(&sum.to_le_bytes()) && !content.auth_enabled)
}

/// Reads the bucket.
pub(crate) fn read(db: &Db, content: &Content) -> Result<Found, Unreadable> {
    if db.bucket(BUCKET).map_err(Unreadable::Stop)?.is_none() {
        return Ok(Found::None);
    }
    if !is_sealed(db, content).map_err(Unreadable::Stop)? {
        return Ok(Found::Stale);
    }
    let (mut reader, mut mark, mut note, mut seal) = (SnapshotReader::new(), None, vec![], 0);
    let (mut newer, mut wrong) = (None, None);
    db.walk_named(BUCKET, &mut |item| {
        let word = || item.value.first_chunk().map_or(u32::MAX, |word| u32::from_le_bytes(*word));
        let read = match item.key {
            FORMAT if item.value != FORMAT_1 => {
                newer = Some(word());
                Ok(())
            }
            MARK => SnapshotMark::from_bytes(item.value).map(|found| mark = Some(found)),
            NOTE => {
                note = item.value.to_vec();
                Ok(())
            }
            SEAL => {
                seal = word();
                Ok(())
            }
            key if key.starts_with(CHUNK) => reader.chunk(item.value),
            _ => Ok(()),
        };
        // What is wrong with one is not where the file is damaged: the seal is right.
        wrong = wrong.take().or(read.err());
        Ok(())
    })
    .map_err(Unreadable::Stop)?;
    if let Some(found) = newer {
        return Ok(Found::Newer(found));
    }
    match (wrong, mark) {
        (Some(cause), _) => Err(Unreadable::Content(cause)),
        (None, None) => Err(Unreadable::Content(DecodeError::Truncated)),
        (None, Some(mark)) => Ok(Found::Ours(Box::new(Ours { reader, mark, note, seal }))),
    }
}

/// The checksum that the seal should be, and the seal.
fn sealed(db: &Db, content: &Content) -> Result<(u32, Option<Vec<u8>>), Stop> {
    let (mut checksum, mut seal) = (content.checksum.clone(), None);
    db.walk_named(BUCKET, &mut |item| -> Result<(), Damage> {
        match item.key {
            SEAL => seal = Some(item.value.to_vec()),
            _ => content::sum(&mut checksum, item.key, item.value),
        }
        Ok(())
    })?;
    Ok((checksum.finalize(), seal))
}
