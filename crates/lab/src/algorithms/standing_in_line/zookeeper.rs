//! ZooKeeper's recipe: ephemeral sequential nodes.
//!
//! - `zookeeper-herd`: everybody watches all nodes. Whenever one goes, all are told and all list them again,
//!   and for all but one nothing has changed.
//! - `zookeeper`: everybody watches the node before its own only.
//! - `zookeeper-fenced`: the zxid in which its node was made goes with every write.
//! - `zookeeper-session-zxid`: the zxid in which its *session* was opened does, as one can read. Who came
//!   first need not be first in line: tokens go back, and the storage refuses the leader of the day.

use std::time::Duration;

use super::{
    LEADER_WRITES, LEADER_WRITES_TEXT, SESSION_TOKEN_PROMISES,
    candidate::{Recipe, Token, cast},
};
use crate::{
    algorithms::{Algorithm, Scenario},
    engine::ms,
    stage::{Gate, Promise},
};

/// ZooKeeper: session timeout 30 s.
const SESSION: Duration = ms(30_000);

const NEXT: Recipe = Recipe {
    session: SESSION,
    herd: false,
    looks_for_itself: true,
    token: Token::Nothing,
    gate: Gate::Open,
    warms_up: false,
    notes_down: false,
    sessions_anew: false,
    may_write: None,
};
const HERD: Recipe = Recipe { herd: true, ..NEXT };
const FENCED: Recipe = Recipe { token: Token::Created, gate: Gate::Tokens, ..NEXT };
const SESSION_ZXID: Recipe = Recipe {
    token: Token::Opened,
    warms_up: true,
    notes_down: true,
    may_write: Some(LEADER_WRITES_TEXT),
    ..FENCED
};

const EXPIRED_WITHIN: Promise = Promise::VacantAtMost(ms(30_100));
const PROMISES: &[Promise] =
    &[Promise::OneBeliever, Promise::OneWriter, EXPIRED_WITHIN, Promise::SomebodyLeads];

pub(in crate::algorithms) const ZOOKEEPER_HERD: Algorithm = Algorithm {
    name: "zookeeper-herd",
    about: "ephemeral sequential nodes, lowest leads; everybody watches all of them",
    origin: "ZooKeeper's recipe, done the easy way",
    promises: PROMISES,
    contenders: 5,
    patience: Some(ms(32_000)),
    cast: |setup| cast(setup, &HERD),
};

pub(in crate::algorithms) const ZOOKEEPER: Algorithm = Algorithm {
    name: "zookeeper",
    about: "ephemeral sequential nodes, lowest leads; everybody watches the one before",
    origin: "ZooKeeper's recipe, Hunt et al. 2010",
    cast: |setup| cast(setup, &NEXT),
    ..ZOOKEEPER_HERD
};

pub(in crate::algorithms) const ZOOKEEPER_FENCED: Algorithm = Algorithm {
    name: "zookeeper-fenced",
    about: "ephemeral sequential nodes; the zxid of its node goes with every write",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        Promise::TokensGrow,
        EXPIRED_WITHIN,
        Promise::SomebodyLeads,
    ],
    cast: |setup| cast(setup, &FENCED),
    ..ZOOKEEPER
};

pub(in crate::algorithms) const ZOOKEEPER_SESSION_ZXID: Algorithm = Algorithm {
    name: "zookeeper-session-zxid",
    about: "ephemeral sequential nodes; the zxid of its session goes with every write",
    origin: "a wrong but common advice",
    promises: SESSION_TOKEN_PROMISES,
    cast: |setup| cast(setup, &SESSION_ZXID),
    ..ZOOKEEPER_FENCED
};

const CRASH: &str = "at 50s crash leader\n";
const LONG_PAUSE: &str = "at 41s pause leader for 60s\n";

pub(in crate::algorithms) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "zookeeper-herd-crash",
        algorithm: &ZOOKEEPER_HERD,
        about: "The leader dies, its session ends within 30 s, and all others rush to look.",
        lasts: Duration::from_secs(100),
        script: CRASH,
        breaks: &[],
    },
    Scenario {
        name: "zookeeper-crash",
        algorithm: &ZOOKEEPER,
        about: "The leader dies, its session ends within 30 s, and only the next is told.",
        lasts: Duration::from_secs(100),
        script: CRASH,
        breaks: &[],
    },
    Scenario {
        name: "zookeeper-pause",
        algorithm: &ZOOKEEPER,
        about: "The leader stands still for longer than its session, and when it goes on it writes beside its successor.",
        lasts: Duration::from_secs(120),
        script: LONG_PAUSE,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "zookeeper-fenced-pause",
        algorithm: &ZOOKEEPER_FENCED,
        about: "The same, but its zxid is lower than one that the storage has seen.",
        lasts: Duration::from_secs(120),
        script: LONG_PAUSE,
        breaks: &[Promise::OneBeliever],
    },
    Scenario {
        name: "zookeeper-session-zxid-crash",
        algorithm: &ZOOKEEPER_SESSION_ZXID,
        about: "The last to open its session is the first in line and leads. It dies, and the next has an older session: its token is lower, and the storage refuses the only leader there is.",
        lasts: Duration::from_secs(100),
        script: CRASH,
        breaks: &[Promise::TokensGrow, LEADER_WRITES],
    },
];
