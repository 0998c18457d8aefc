//! The bytes around a snapshot's chunks, wherever they go: a file here, or a client that backs up.

use tenure_replica::{SnapshotMark, codec::Codec};

use super::{FOOTER, MAGIC, VERSION, chained};

/// Where in a snapshot the writing is. Answers the bytes that stand before, between and after the
/// chunks; the chunks themselves are the caller's to write.
#[derive(Debug)]
pub struct Frame {
    crc: u32,
    chunks: u64,
    bytes: u64,
}

impl Frame {
    /// The header.
    pub fn begin(mark: &SnapshotMark) -> (Frame, Vec<u8>) {
        let encoded = mark.to_bytes();
        let mut header = Vec::with_capacity(20 + encoded.len());
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
        header.extend_from_slice(&encoded);
        let crc = chained(0, &[&header]);
        header.extend_from_slice(&crc.to_le_bytes());
        (Frame { crc, chunks: 0, bytes: 0 }, header)
    }

    /// What stands before this chunk.
    pub fn chunk(&mut self, chunk: &[u8]) -> [u8; 8] {
        let length = (chunk.len() as u32).to_le_bytes();
        self.crc = chained(self.crc, &[&length, chunk]);
        self.chunks += 1;
        self.bytes += chunk.len() as u64;
        let mut before = [0; 8];
        before[..4].copy_from_slice(&length);
        before[4..].copy_from_slice(&self.crc.to_le_bytes());
        before
    }

    /// The footer.
    pub fn end(&self) -> Vec<u8> {
        let mut footer = Vec::with_capacity(24);
        footer.extend_from_slice(&FOOTER.to_le_bytes());
        footer.extend_from_slice(&self.chunks.to_le_bytes());
        footer.extend_from_slice(&self.bytes.to_le_bytes());
        let crc = chained(self.crc, &[&footer]);
        footer.extend_from_slice(&crc.to_le_bytes());
        footer
    }
}
