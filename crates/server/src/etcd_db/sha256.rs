//! The checksum at the end of what `snapshot save` writes.

use std::{fs::File, io, os::unix::fs::FileExt};

use sha2::{Digest, Sha256};

/// How long it is.
pub(crate) const HASH_BYTES: usize = 32;
const BUFFER_BYTES: usize = 1 << 20;

/// What the first `bytes` of a file give, and what stands after them. `progress` hears how many were read.
pub(crate) fn at_end(
    file: &File,
    bytes: u64,
    progress: &mut dyn FnMut(u64),
) -> io::Result<([u8; HASH_BYTES], [u8; HASH_BYTES])> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let piece = (bytes - offset).min(BUFFER_BYTES as u64) as usize;
        file.read_exact_at(&mut buffer[..piece], offset)?;
        hasher.update(&buffer[..piece]);
        offset += piece as u64;
        progress(offset);
    }
    let mut expected = [0; HASH_BYTES];
    file.read_exact_at(&mut expected, bytes)?;
    Ok((hasher.finalize().into(), expected))
}
