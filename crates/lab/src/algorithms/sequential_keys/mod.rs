//! Keys in the order of their creation, which live as long as their owner's session: the recipe of etcd and ZooKeeper.
//!
//! Each candidate opens a session and keeps it alive, creates a key under the election's name, and lists all keys there. The
//! owner of the first key leads. All others wait until the keys before theirs are gone; a key goes when its owner's session
//! ends, by the server's own clock.
//!
//! Which keys a candidate watches makes the difference between one message and a herd of them. What it takes for a token,
//! and whether it looks for its own key before it believes to lead, makes the difference between right and wrong.

use crate::stage::Promise;

mod candidate;
mod etcd;
mod zookeeper;

pub(super) use etcd::{
    ETCD_RECIPE, ETCD_RECIPE_CHECKED, ETCD_RECIPE_GRANT_TOKEN, ETCD_RECIPE_GRANT_TOKEN_QUIET,
    ETCD_RECIPE_SHORTEST, STORIES as ETCD_STORIES,
};
pub(super) use zookeeper::{
    STORIES as ZOOKEEPER_STORIES, ZOOKEEPER, ZOOKEEPER_FENCED, ZOOKEEPER_HERD,
    ZOOKEEPER_SESSION_ZXID,
};

/// Broken when the storage refuses the leader's token; checked at every write that is answered.
const LEADER_WRITES_TEXT: &str = "the leader may write";
const LEADER_WRITES: Promise = Promise::Own(LEADER_WRITES_TEXT);
/// The promises of recipes that take the number of the session for a token.
const SESSION_TOKEN_PROMISES: &[Promise] = &[
    Promise::OneBeliever,
    Promise::OneWriter,
    Promise::TokensGrow,
    LEADER_WRITES,
    Promise::LeaderAtEnd,
];
