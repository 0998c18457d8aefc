//! The frame around everything that becomes durable with one flush.
//!
//! The header carries its own checksum, so that a later header can vouch for an earlier batch even
//! if its own body was torn: it says up to which batch everything had been flushed when it was
//! written. Each header repeats the checksum of the header before it, which chains all batches, across
//! segments too, and shows if one is missing.

/// Bytes of a header.
pub(crate) const BATCH_HEADER_BYTES: usize = 40;
/// Batches start at multiples of this, which makes looking for one cheap.
pub(crate) const BATCH_ALIGNMENT: usize = 8;
/// The longest body. A batch is held in memory as a whole.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 30;

/// What stands before a batch's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    /// Bytes of the body without padding.
    pub(crate) length: u32,
    /// Batches are counted from 1, across segments.
    pub(crate) number: u64,
    /// The newest batch that was known to be flushed when this one was written.
    pub(crate) durable: u64,
    /// The checksum of the header before.
    pub(crate) previous: u32,
    /// The checksum of body and padding.
    pub(crate) body_crc: u32,
    /// The checksum of this header.
    pub(crate) crc: u32,
}

impl BatchHeader {
    /// Reads a header if these bytes are one of this directory.
    pub(crate) fn parse(bytes: &[u8], mark: u32) -> Option<BatchHeader> {
        let bytes: &[u8; BATCH_HEADER_BYTES] = bytes.first_chunk()?;
        let word =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let number =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if word(0) != mark || word(36) != crc32fast::hash(&bytes[..36]) {
            return None;
        }
        Some(BatchHeader {
            length: word(4),
            number: number(8),
            durable: number(16),
            previous: word(24),
            body_crc: word(28),
            crc: word(36),
        })
    }

    /// Bytes of the body with padding.
    pub(crate) fn padded(&self) -> usize {
        (self.length as usize).next_multiple_of(BATCH_ALIGNMENT)
    }
}

/// A batch under construction; its memory is used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct BatchBuffer {
    bytes: Vec<u8>,
}

impl BatchBuffer {
    /// Memory kept between batches; more is given back.
    const KEPT_BYTES_MAX: usize = 4 << 20;

    /// Starts an empty batch and gives the buffer for its records.
    pub(crate) fn start(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() > Self::KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.bytes.resize(BATCH_HEADER_BYTES, 0);
        &mut self.bytes
    }

    /// Bytes that the finished batch will take.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len().next_multiple_of(BATCH_ALIGNMENT)
    }

    /// Writes padding and header. Answers all bytes, and the checksum the next header repeats.
    pub(crate) fn seal(
        &mut self,
        mark: u32,
        number: u64,
        durable: u64,
        previous: u32,
    ) -> (&[u8], u32) {
        let length = (self.bytes.len() - BATCH_HEADER_BYTES) as u32;
        self.bytes.resize(self.len(), 0);
        let (header, body) = self.bytes.split_at_mut(BATCH_HEADER_BYTES);
        header[0..4].copy_from_slice(&mark.to_le_bytes());
        header[4..8].copy_from_slice(&length.to_le_bytes());
        header[8..16].copy_from_slice(&number.to_le_bytes());
        header[16..24].copy_from_slice(&durable.to_le_bytes());
        header[24..28].copy_from_slice(&previous.to_le_bytes());
        header[28..32].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
        header[32..36].fill(0);
        let crc = crc32fast::hash(&header[..36]);
        header[36..40].copy_from_slice(&crc.to_le_bytes());
        (&self.bytes, crc)
    }
}
