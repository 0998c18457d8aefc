//! ZooKeeper's recipe: ephemeral sequential nodes.
//!
//! - `zookeeper-herd`: every candidate watches all nodes. Whenever one goes, all are told and all list them again, and for
//!   all but one nothing has changed.
//! - `zookeeper`: every candidate watches only the node before its own.
//! - `zookeeper-fenced`: the zxid in which its node was made goes with every write.
//! - `zookeeper-session-zxid`: the zxid in which its *session* was opened goes with every write, as some texts advise. The
//!   first to come need not be the first candidate: tokens go back, and the storage refuses the present leader.

use std::time::Duration;

use super::{
    LEADER_WRITES, LEADER_WRITES_TEXT, SESSION_TOKEN_PROMISES,
    candidate::{Recipe, TokenSource, build},
};
use crate::{
    algorithms::{Algorithm, Story},
    engine::ms,
    stage::{Promise, StorageGate},
};

/// ZooKeeper: session timeout 30 s.
const SESSION: Duration = ms(30_000);

const NEXT: Recipe = Recipe {
    session: SESSION,
    herd: false,
    looks_for_itself: true,
    token: TokenSource::Nothing,
    gate: StorageGate::Open,
    warms_up: false,
    notes_down: false,
    sessions_anew: false,
    may_write: None,
};
const HERD: Recipe = Recipe { herd: true, ..NEXT };
const FENCED: Recipe = Recipe { token: TokenSource::Created, gate: StorageGate::Tokens, ..NEXT };
const SESSION_ZXID: Recipe = Recipe {
    token: TokenSource::Opened,
    warms_up: true,
    notes_down: true,
    may_write: Some(LEADER_WRITES_TEXT),
    ..FENCED
};

const EXPIRED_WITHIN: Promise = Promise::VacantAtMost(ms(30_100));
const PROMISES: &[Promise] =
    &[Promise::OneBeliever, Promise::OneWriter, EXPIRED_WITHIN, Promise::LeaderAtEnd];

pub(in crate::algorithms) const ZOOKEEPER_HERD: Algorithm = Algorithm {
    name: "zookeeper-herd",
    about: "ephemeral sequential nodes, lowest leads; every candidate watches all of them",
    origin: "ZooKeeper's recipe, done the easy way",
    promises: PROMISES,
    contenders: 5,
    patience: Some(ms(32_000)),
    build: |setup| build(setup, &HERD),
};

pub(in crate::algorithms) const ZOOKEEPER: Algorithm = Algorithm {
    name: "zookeeper",
    about: "ephemeral sequential nodes, lowest leads; every candidate watches the one before",
    origin: "ZooKeeper's recipe, Hunt et al. 2010",
    build: |setup| build(setup, &NEXT),
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
        Promise::LeaderAtEnd,
    ],
    build: |setup| build(setup, &FENCED),
    ..ZOOKEEPER
};

pub(in crate::algorithms) const ZOOKEEPER_SESSION_ZXID: Algorithm = Algorithm {
    name: "zookeeper-session-zxid",
    about: "ephemeral sequential nodes; the zxid of its session goes with every write",
    origin: "a wrong but common advice",
    promises: SESSION_TOKEN_PROMISES,
    build: |setup| build(setup, &SESSION_ZXID),
    ..ZOOKEEPER_FENCED
};

const CRASH: &str = "at 50s crash leader\n";
const LONG_PAUSE: &str = "at 41s pause leader for 60s\n";

pub(in crate::algorithms) const STORIES: &[Story] = &[
    Story {
        name: "zookeeper-herd-crash",
        algorithm: &ZOOKEEPER_HERD,
        about: "The leader dies, its session ends within 30 s, and all others list the nodes.",
        lasts: Duration::from_secs(100),
        script: CRASH,
        breaks: &[],
    },
    Story {
        name: "zookeeper-crash",
        algorithm: &ZOOKEEPER,
        about: "The leader dies, its session ends within 30 s, and only the next is told.",
        lasts: Duration::from_secs(100),
        script: CRASH,
        breaks: &[],
    },
    Story {
        name: "zookeeper-pause",
        algorithm: &ZOOKEEPER,
        about: "The leader is paused for longer than its session, and when it resumes it writes beside its successor.",
        lasts: Duration::from_secs(120),
        script: LONG_PAUSE,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "zookeeper-fenced-pause",
        algorithm: &ZOOKEEPER_FENCED,
        about: "The same, but its zxid is lower than one that the storage has seen.",
        lasts: Duration::from_secs(120),
        script: LONG_PAUSE,
        breaks: &[Promise::OneBeliever],
    },
    Story {
        name: "zookeeper-session-zxid-crash",
        algorithm: &ZOOKEEPER_SESSION_ZXID,
        about: "The last to open its session is the first candidate and leads. It dies, and the next has an older session: its token is lower, and the storage refuses the only leader there is.",
        lasts: Duration::from_secs(100),
        script: CRASH,
        breaks: &[Promise::TokensGrow, LEADER_WRITES],
    },
];
