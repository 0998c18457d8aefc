//! The two meta pages: where everything else is. The newer one that is sound counts.

use super::{Damage, page::HEADER_BYTES};

/// Stands at the beginning of both.
pub(crate) const MAGIC: u32 = 0xed0c_daed;
/// Where it stands on a page.
pub(crate) const MAGIC_OFFSET: u64 = HEADER_BYTES as u64;
const VERSION: u32 = 2;
/// Bytes that the checksum covers; it follows them.
const COVERED_BYTES: usize = 56;
pub(super) const META_BYTES: usize = HEADER_BYTES + COVERED_BYTES + 8;
/// Page sizes that bbolt can have: those of the machines it runs on.
pub(super) const PAGE_BYTES_MIN: u64 = 512;
pub(super) const PAGE_BYTES_MAX: u64 = 64 << 10;

/// What a meta page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) page_bytes: u64,
    /// The page of the bucket of buckets.
    pub(super) root: u64,
    /// All pages have smaller numbers.
    pub(super) pages: u64,
    pub(super) transaction: u64,
}

impl Meta {
    /// Reads the page whose first bytes these are.
    pub(super) fn read(bytes: &[u8; META_BYTES], offset: u64) -> Result<Meta, Damage> {
        let meta = &bytes[HEADER_BYTES..];
        let word = |at: usize| u32::from_le_bytes(*meta[at..].first_chunk().expect("it fits"));
        let number = |at: usize| u64::from_le_bytes(*meta[at..].first_chunk().expect("it fits"));
        let damaged = |what: String| Err(Damage { offset: offset + HEADER_BYTES as u64, what });
        if word(0) != MAGIC {
            return damaged("a meta page without bbolt's mark".into());
        }
        if word(4) != VERSION {
            return damaged(format!("bbolt format {}, only {VERSION} is known", word(4)));
        }
        if number(COVERED_BYTES) != fnv64a(&meta[..COVERED_BYTES]) {
            return damaged("a meta page whose checksum is wrong".into());
        }
        let page_bytes = u64::from(word(8));
        if !page_bytes.is_power_of_two() || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes)
        {
            return damaged(format!("pages of {page_bytes} bytes"));
        }
        Ok(Meta { page_bytes, root: number(16), pages: number(40), transaction: number(48) })
    }

    /// What follows the header of the page, if the list of free pages is on that page.
    pub(super) fn to_bytes(self, free_list: u64) -> [u8; COVERED_BYTES + 8] {
        let mut meta = [0; COVERED_BYTES + 8];
        let halves = [MAGIC, VERSION, self.page_bytes as u32, 0];
        for (at, half) in halves.into_iter().enumerate() {
            meta[4 * at..][..4].copy_from_slice(&half.to_le_bytes());
        }
        // The second word is the sequence number of the bucket of buckets, which has none.
        let words = [self.root, 0, free_list, self.pages, self.transaction];
        for (at, word) in words.into_iter().enumerate() {
            meta[16 + 8 * at..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let checksum = fnv64a(&meta[..COVERED_BYTES]);
        meta[COVERED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        meta
    }
}

fn fnv64a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
