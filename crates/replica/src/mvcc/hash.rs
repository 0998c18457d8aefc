//! A checksum of what the store says, to compare members by.

use crc32fast::Hasher;
use tenure_api::{Failure, Revision};

use super::{Store, version};

/// A checksum and what it covers. Comparable between members when both revisions agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvHash {
    /// The checksum.
    pub hash: u32,
    /// Versions after this revision are not in it.
    pub hash_revision: Revision,
    /// Versions superseded by this revision are not in it.
    pub compact_revision: Revision,
}

impl Store {
    /// The checksum over all versions that can still be read, up to a revision. It takes time in
    /// proportion to the store: call it on a frozen clone.
    pub fn hash(&self, at: Option<Revision>) -> Result<KvHash, Failure> {
        let hash_revision = at.unwrap_or(self.revision);
        if hash_revision > self.revision {
            return Err(Failure::FutureRevision);
        }
        if hash_revision < self.compacted {
            return Err(Failure::Compacted);
        }
        let mut hasher = Hasher::new();
        let mut scratch = Vec::new();
        for (_, history) in &self.keys {
            let versions = history.since(self.compacted);
            for kv in versions.take_while(|kv| kv.mod_revision <= hash_revision) {
                scratch.clear();
                version::encode(kv, &mut scratch);
                hasher.update(&scratch);
            }
        }
        let compact_revision = self.compacted;
        Ok(KvHash { hash: hasher.finalize(), hash_revision, compact_revision })
    }
}
