//! One page: a header, elements, and the keys and values they point at.
//!
//! All numbers are little endian; bbolt writes them as the machine has them, and etcd runs on little
//! endian machines. An element says where its key lies counted from the element itself.

use super::Damage;

/// Bytes of a page's header: id, flags, count, overflow.
pub(super) const HEADER_BYTES: usize = 16;
/// Bytes of an element of either kind.
pub(super) const ELEMENT_BYTES: usize = 16;
pub(super) const BRANCH: u16 = 0x01;
pub(super) const LEAF: u16 = 0x02;
/// The flag of a leaf's element whose value is a bucket.
pub(super) const IS_BUCKET: u32 = 0x01;

/// A branch or a leaf with all of its bytes, overflow included.
#[derive(Debug)]
pub(super) struct Page {
    bytes: Vec<u8>,
    /// The offset of its first byte in the file.
    offset: u64,
    pub(super) is_branch: bool,
    pub(super) count: usize,
}

/// An element of a leaf.
#[derive(Debug)]
pub(super) struct Leaf<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    /// The offset of the value in the file.
    pub(super) offset: u64,
    pub(super) is_bucket: bool,
}

/// A page's header, as it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) id: u64,
    pub(super) flags: u16,
    pub(super) count: u16,
    /// How many pages follow that belong to this one.
    pub(super) overflow: u32,
}

impl Header {
    pub(super) fn read(bytes: [u8; HEADER_BYTES]) -> Header {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Header {
            id: u64::from_le_bytes(*bytes.first_chunk().expect("a header has 16 bytes")),
            flags: half(8),
            count: half(10),
            overflow: u32::from_le_bytes(*bytes.last_chunk().expect("a header has 16 bytes")),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.flags.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.count.to_le_bytes());
        bytes[12..].copy_from_slice(&self.overflow.to_le_bytes());
        bytes
    }
}

impl Page {
    /// Reads a page of a tree from all of its bytes.
    pub(super) fn new(bytes: Vec<u8>, offset: u64) -> Result<Page, Damage> {
        let damaged = |what: String| Damage { offset, what };
        let Some(header) = bytes.first_chunk() else {
            return Err(damaged("a page is shorter than its header".into()));
        };
        let header = Header::read(*header);
        let is_branch = match header.flags {
            BRANCH => true,
            LEAF => false,
            flags => {
                return Err(damaged(format!(
                    "a page has flags {flags:#x}: neither branch nor leaf"
                )));
            }
        };
        let count = usize::from(header.count);
        if HEADER_BYTES + count * ELEMENT_BYTES > bytes.len() {
            return Err(damaged(format!("a page has no room for its {count} elements")));
        }
        if is_branch && count == 0 {
            return Err(damaged("a branch has no children".into()));
        }
        Ok(Page { bytes, offset, is_branch, count })
    }

    /// The page of a branch's child, and where the branch says so.
    pub(super) fn child(&self, at: usize) -> (u64, u64) {
        let start = HEADER_BYTES + at * ELEMENT_BYTES;
        (self.u64(start + 8), self.offset + start as u64)
    }

    /// An element of a leaf.
    pub(super) fn leaf(&self, at: usize) -> Result<Leaf<'_>, Damage> {
        let start = HEADER_BYTES + at * ELEMENT_BYTES;
        let [flags, position, key_bytes, value_bytes] =
            [0, 4, 8, 12].map(|field| self.u32(start + field));
        let key = self.slice(start, position, key_bytes)?;
        let after_key = u64::from(position) + u64::from(key_bytes);
        let value = u32::try_from(after_key)
            .map_err(|_| self.outside(start))
            .and_then(|position| self.slice(start, position, value_bytes))?;
        let offset = self.offset + start as u64 + after_key;
        Ok(Leaf { key, value, offset, is_bucket: flags & IS_BUCKET != 0 })
    }

    /// Bytes that an element points at.
    fn slice(&self, element: usize, position: u32, length: u32) -> Result<&[u8], Damage> {
        let from = element as u64 + u64::from(position);
        let range = usize::try_from(from).ok().zip(usize::try_from(from + u64::from(length)).ok());
        range.and_then(|(from, to)| self.bytes.get(from..to)).ok_or_else(|| self.outside(element))
    }

    fn outside(&self, element: usize) -> Damage {
        let offset = self.offset + element as u64;
        Damage { offset, what: "an element points out of its page".into() }
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(*self.bytes[at..].first_chunk().expect("the elements fit: checked"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(*self.bytes[at..].first_chunk().expect("the elements fit: checked"))
    }
}
