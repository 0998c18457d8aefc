//! A key-value server that is always right, for algorithms that leave the hard part to one.
//!
//! One process on the stage holds keys and does one thing after the other; whatever etcd, ZooKeeper or a
//! database does to be as good as one process is left out. It can
//!
//! - get, and tell once of the next change ([`Ask::Get`], [`Ask::List`]);
//! - write and delete if a condition holds ([`When`]), by value, by version, or not yet there;
//! - forget a key when its time is up, by the *server's* own clock;
//! - keep sessions, whose keys go when they end ([`Ask::OpenSession`]).
//!
//! Every change has a number, the revision; a key remembers those of its creation and of its last change.
//! That a key's time is up has none, so that owner after owner has number after number, as in the books.

mod line;
mod server;
mod words;

pub(crate) use line::Line;
pub(crate) use server::{Rules, Store};
pub(crate) use words::{Answer, Ask, Entry, Say, When};

/// What the server is called.
pub(crate) const STORE: &str = "store";
