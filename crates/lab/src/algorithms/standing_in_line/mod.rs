//! Standing in line with keys that live as long as their owner's session: the recipe of etcd and of
//! ZooKeeper.
//!
//! Each candidate opens a session and keeps it alive, makes a key under the election's name, and lists all
//! keys there. The one that was made first leads. All others wait until those before them are gone; a key
//! goes when its owner's session ends, and the server judges that by its own clock.
//!
//! Whom one waits for makes the difference between one message and a herd of them; what one takes for a
//! token, and whether one looks for its own key before it believes to lead, that between right and wrong.

use crate::stage::Promise;

mod candidate;
mod etcd;
mod zookeeper;

pub(super) use etcd::{
    ETCD_RECIPE, ETCD_RECIPE_CHECKED, ETCD_RECIPE_GRANT_TOKEN, ETCD_RECIPE_GRANT_TOKEN_QUIET,
    ETCD_RECIPE_SHORTEST, SCENARIOS as ETCD_SCENARIOS,
};
pub(super) use zookeeper::{
    SCENARIOS as ZOOKEEPER_SCENARIOS, ZOOKEEPER, ZOOKEEPER_FENCED, ZOOKEEPER_HERD,
    ZOOKEEPER_SESSION_ZXID,
};

/// What a leader whose token is refused finds out; judged at every write that is answered.
const LEADER_WRITES_TEXT: &str = "who leads may write";
const LEADER_WRITES: Promise = Promise::Own(LEADER_WRITES_TEXT);
/// What those promise who take the number of their session for a token.
const SESSION_TOKEN_PROMISES: &[Promise] = &[
    Promise::OneBeliever,
    Promise::OneWriter,
    Promise::TokensGrow,
    LEADER_WRITES,
    Promise::SomebodyLeads,
];
