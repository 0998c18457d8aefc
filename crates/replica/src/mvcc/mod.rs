//! The store: every key, every version of it since the last compaction, in memory.
//!
//! A write never changes a version; it adds one. The store's **revision** counts writes, and a
//! transaction is one write however many keys it touches. So "the store at revision 17" stays
//! readable after revision 18 came, a watcher can be told everything since 17, and a fencing token
//! is simply the revision at which a key was created.
//!
//! Two views of the same versions are kept:
//! - by key: an ordered map from each key to its `History`, oldest first, a
//!   deletion being a version too (a *tombstone*);
//! - by revision: the list of [`Change`]s, from which watchers that start in the past are served.
//!
//! **Compaction** is a promise that no request needs anything before a revision. It takes effect at
//! once as a number; the memory is given back by [`Store::sweep`] in steps as small as the caller
//! likes, so a store of a million keys never stops the loop.
//!
//! Both views are persistent structures: a [`Store`] is cloned in constant time, and the clone stays
//! as it was while the original goes on. Snapshots, hashes and reads beside the write path work on
//! such clones, on another thread. A write while a clone lives copies the few nodes on its path.
//!
//! Nothing here knows raft, leases, watchers or time. Whether a lease lives is asked of the caller.

mod answer;
mod compaction;
mod hash;
mod history;
mod key;
mod new_cluster;
mod ordered;
mod range;
mod restore;
mod retell;
mod rules;
mod snapshot;
mod store;

mod txn;
mod version;

pub use answer::TXN_ANSWER_BYTES_MAX;
pub use hash::KvHash;
pub use ordered::OrderedVersions;
pub use restore::Restore;
pub use retell::{OutOfOrder, Retelling};
pub use rules::{TXN_OPS_MAX, check_txn};
pub(crate) use store::VERSION_OVERHEAD;
pub use store::{Change, Store};
