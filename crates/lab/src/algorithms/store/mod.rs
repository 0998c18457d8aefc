//! An ideal key-value server, for algorithms that rely on one.
//!
//! One process on the stage holds keys and handles one request after the other; whatever etcd, ZooKeeper or a database does
//! to behave like one process is left out. It can
//!
//! - get, and notify once of the next change ([`StoreRequest::Get`], [`StoreRequest::List`]);
//! - write and delete under a condition ([`Condition`]): by value, by version, or if missing;
//! - expire a key by the *server's* own clock;
//! - keep sessions, whose keys go when they end ([`StoreRequest::OpenSession`]).
//!
//! Every change has a number, the revision; a key has those of its creation and of its last change. The end of a key's TTL
//! has none, so that consecutive owners have consecutive numbers, as in the literature.

mod client;
mod message;
mod server;

pub(crate) use client::StoreClient;
pub(crate) use message::{Condition, StoreEntry, StoreMessage, StoreRequest, StoreResponse};
pub(crate) use server::{SimStore, StoreOptions};

/// The name of the server's process.
pub(crate) const STORE: &str = "store";
