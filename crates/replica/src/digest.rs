//! A checksum of the whole replicated state, to compare members by.

use crc32fast::Hasher;

use crate::{
    snapshot::{queue_chunks, roll},
    state::State,
};

impl State {
    /// The checksum of everything that members agree on: equal on all of them at the same place of the
    /// log. How far a member has come in freeing compacted versions does not show in it. It takes time
    /// in proportion to the state: call it on a frozen clone.
    pub fn digest(&self) -> u64 {
        let mut hasher = Hasher::new();
        hasher.update(&roll(self));
        let mut record = Vec::new();
        for (id, lease) in self.leases.iter() {
            record.clear();
            lease.encode(id, false, &mut record);
            hasher.update(&record);
            // A snapshot leaves them to the store. Whether the lists are right is for this to find out.
            for key in &lease.keys {
                hasher.update(&(key.len() as u64).to_le_bytes());
                hasher.update(key);
            }
        }
        for chunk in queue_chunks(&self.queues) {
            hasher.update(&chunk);
        }
        let revisions = [self.store.revision(), self.store.compacted()];
        for revision in revisions {
            hasher.update(&revision.0.to_le_bytes());
        }
        let store = self.store.hash(None).expect("the newest revision can always be read");
        u64::from(hasher.finalize()) << 32 | u64::from(store.hash)
    }
}
