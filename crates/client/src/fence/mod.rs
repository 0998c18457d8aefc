//! Fencing: what makes a lock safe for what it protects.
//!
//! No lock can stop its holder from acting late. A process that pauses (a long collection, a stopped
//! virtual machine, a slow disk) does not notice that its lease ran out, and goes on where it was; a
//! request of its own may sit in a network queue and arrive when the next holder has long begun. Only
//! the thing that is written to can tell, and it needs a number to tell by: the [`FencingToken`], which
//! grows from holder to holder. A gate that has seen a token refuses older ones.
//!
//! | what is protected | what checks the token |
//! |---|---|
//! | keys in tenure or etcd | the store itself: [`Held::put`](crate::Held::put), [`Held::txn`](crate::Held::txn), and with a client of one's own [`guarded_put`], [`guarded_txn`] |
//! | memory, files or devices of a Rust service | a [`Gate`] |
//! | a Rust service behind HTTP | the same gate, as a tower layer: `http::FenceLayer` (feature `tower`) |
//! | a service that cannot be changed, behind HTTP | the same gate, as a proxy: the command `tenure fence` |
//! | tables in PostgreSQL | a row beside them, in the same transaction: [`postgres`] |
//!
//! What a gate cannot do: it believes the numbers it is shown. It is no access control, and a client that shows an
//! invented large token shuts out all others. A [`Horizon`] in front of it asks the cluster whether a token can have
//! been given at all.

mod book;
mod disk;
mod file;
mod gate;
mod horizon;
pub mod http;
mod keeper;
mod pass;
mod passage;
pub mod postgres;
mod refusal;
mod store;
mod token;
mod writes;

#[cfg(test)]
mod tests;

pub use file::OpenError;
pub use gate::{Gate, GateLimits, RESOURCE_BYTES_MAX};
pub use horizon::{Horizon, TokenDoubt};
pub use pass::{Hold, Pass};
pub use passage::Passage;
pub use refusal::{Admission, Obstacle, Refusal};
pub use store::{GuardedError, HolderKey, guarded_delete, guarded_put, guarded_txn};
pub use token::{FencingToken, NotAToken};
pub use writes::GuardedTxn;
pub(crate) use writes::keys_of;
