//! Whose backup it is. Stands behind the snapshot, in what is otherwise padding.

use tenure_api::{ClusterId, MemberId};

const MAGIC: &[u8; 8] = b"tenurebk";
const VERSION: u32 = 1;
/// How long a note is.
pub(super) const NOTE_BYTES: usize = 40;

/// Where and when a backup was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The member that was asked.
    pub member_id: MemberId,
    /// When, by that member's clock, in seconds since 1970. For people: nothing follows from it.
    pub taken_at: u64,
}

impl Note {
    pub(super) fn to_bytes(self) -> [u8; NOTE_BYTES] {
        let mut note = [0; NOTE_BYTES];
        note[..8].copy_from_slice(MAGIC);
        note[8..12].copy_from_slice(&VERSION.to_le_bytes());
        note[12..20].copy_from_slice(&self.cluster_id.0.to_le_bytes());
        note[20..28].copy_from_slice(&self.member_id.0.to_le_bytes());
        note[28..36].copy_from_slice(&self.taken_at.to_le_bytes());
        let crc = crc32fast::hash(&note[..36]);
        note[36..].copy_from_slice(&crc.to_le_bytes());
        note
    }

    /// None if there is no note, or one that this release does not know: nothing depends on it.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Note> {
        let note: &[u8; NOTE_BYTES] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes(note[at..at + 4].try_into().expect("four bytes"));
        let number =
            |at: usize| u64::from_le_bytes(note[at..at + 8].try_into().expect("eight bytes"));
        let sound = note[..8] == MAGIC[..]
            && word(8) == VERSION
            && word(36) == crc32fast::hash(&note[..36]);
        sound.then(|| Note {
            cluster_id: ClusterId(number(12)),
            member_id: MemberId(number(20)),
            taken_at: number(28),
        })
    }
}
