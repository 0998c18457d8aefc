//! Raft (Ongaro and Ousterhout 2014): not a model of it, but the shipped replica itself.
//!
//! Time is divided into terms. A member that misses the leader asks for votes in the next term, after a random time; each
//! member has one vote a term, and a majority makes a leader. A leader that does not hear from a majority steps down, and
//! a member that would not win does not begin an election (pre-vote).
//!
//! The members are those of a [cluster](crate::cluster), [`host`] puts them on a stage, [`member`] is the actor; the stories are here. Besides the shipped timeouts there are
//! those of other systems, and Raft without one of its parts, to show what that part is for.

mod host;
mod member;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::member::{IN_TOUCH, Preset, build};
pub(super) use self::{host::StageMember, member::RaftStageMessage};
use super::{Algorithm, Story};
use crate::{engine::ms, stage::Promise};

const PROMISES: &[Promise] = &[
    Promise::OneLeaderPerTerm,
    Promise::OneWriter,
    Promise::LeaderAtEnd,
    Promise::OneBeliever,
    Promise::Own(IN_TOUCH),
];
/// Where leaders change fast, and an isolated member may be one of them, two may believe to lead or not: nothing is
/// promised.
const FEWER_PROMISES: &[Promise] =
    &[Promise::OneLeaderPerTerm, Promise::OneWriter, Promise::LeaderAtEnd, Promise::Own(IN_TOUCH)];

/// As we ship it.
const OURS: Preset = Preset {
    tick: ms(10),
    heartbeat: ms(50),
    election_timeout: ms(500),
    pre_vote: true,
    random_timeouts: true,
    hears_of_ends: true,
};
/// 150 to 300 ms, without notice of a process's end.
const PAPER: Preset = Preset { election_timeout: ms(150), hears_of_ends: false, ..OURS };
/// What is told of Kafka's controllers: a failover of up to 18 s. Here that is a silence of 9 s, with heartbeats every 2 s, as
/// for a broker's session there, and up to as long again at random. Kafka's own controllers can be configured to be much
/// faster.
const KRAFT: Preset = Preset {
    tick: ms(50),
    heartbeat: ms(2000),
    election_timeout: ms(9000),
    hears_of_ends: false,
    ..OURS
};
/// etcd's defaults.
const ETCD: Preset = Preset {
    tick: ms(50),
    heartbeat: ms(100),
    election_timeout: ms(1000),
    hears_of_ends: false,
    ..OURS
};
const NO_PREVOTE: Preset = Preset { pre_vote: false, ..PAPER };
const FIXED: Preset = Preset { random_timeouts: false, ..NO_PREVOTE };

pub(super) const RAFT: Algorithm = Algorithm {
    name: "raft",
    about: "one vote a term and a majority to win: the shipped replica with its own timeouts",
    origin: "Ongaro and Ousterhout 2014; tenure",
    promises: PROMISES,
    contenders: 5,
    patience: Some(ms(5000)),
    build: |setup| build(setup, &OURS),
};

pub(super) const RAFT_PAPER: Algorithm = Algorithm {
    name: "raft-paper",
    about: "the shipped replica with the paper's timeouts, 150 to 300 ms, and none of our short cuts",
    origin: "Ongaro and Ousterhout 2014",
    build: |setup| build(setup, &PAPER),
    ..RAFT
};

pub(super) const RAFT_KRAFT: Algorithm = Algorithm {
    name: "raft-kraft",
    about: "the shipped replica with timeouts as told of Kafka's controllers: up to 18 s",
    origin: "Kafka KRaft, as told",
    patience: Some(ms(40_000)),
    build: |setup| build(setup, &KRAFT),
    ..RAFT
};

pub(super) const RAFT_ETCD: Algorithm = Algorithm {
    name: "raft-etcd",
    about: "the shipped replica with etcd's default timeouts: 1 to 2 s, a heartbeat every 100 ms",
    origin: "etcd 3.5",
    patience: Some(ms(10_000)),
    build: |setup| build(setup, &ETCD),
    ..RAFT
};

pub(super) const RAFT_NO_PREVOTE: Algorithm = Algorithm {
    name: "raft-no-prevote",
    about: "a member that misses the leader begins an election, though it cannot win it",
    origin: "Ongaro and Ousterhout 2014, without section 9.6 of the dissertation",
    promises: FEWER_PROMISES,
    build: |setup| build(setup, &NO_PREVOTE),
    ..RAFT
};

pub(super) const RAFT_FIXED_TIMEOUTS: Algorithm = Algorithm {
    name: "raft-fixed-timeouts",
    about: "all wait equally long before an election, and all begin one in the same moment",
    origin: "Ongaro and Ousterhout 2014, without section 5.2's random timeouts",
    promises: FEWER_PROMISES,
    patience: None,
    build: |setup| build(setup, &FIXED),
    ..RAFT
};

/// One member loses the others repeatedly.
const FLAPPING: &str = "at 3s isolate e for 1s\nat 5s isolate e for 1s\nat 7s isolate e for 1s\nat 9s isolate e for 1s\nat 11s isolate e for 1s\n";

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "raft-crash",
        algorithm: &RAFT,
        about: "The leader's process dies and its connections close: the others are told, and a few milliseconds later another leads, long before any timeout.",
        lasts: Duration::from_secs(10),
        script: "at 3s crash leader for 3s\n",
        breaks: &[],
    },
    Story {
        name: "raft-partition",
        algorithm: &RAFT,
        about: "The leader is cut off. The others elect another while it still believes to lead, until it notices that no majority answers. Its writes carry an older term, and the storage refuses them.",
        lasts: Duration::from_secs(10),
        script: "at 3.01s isolate leader for 4s\n",
        breaks: &[Promise::OneBeliever],
    },
    Story {
        name: "raft-pause",
        algorithm: &RAFT,
        about: "The leader is paused for longer than the others wait. When it resumes it believes to lead, until it gets to the news of another term among all that has piled up. What it writes before that is refused.",
        lasts: Duration::from_secs(10),
        script: "at 3s pause leader for 3s\n",
        breaks: &[Promise::OneBeliever],
    },
    Story {
        name: "raft-flapping",
        algorithm: &RAFT,
        about: "One member loses the others repeatedly. It asks before it begins an election, gets no votes, and the leader is not disturbed.",
        lasts: Duration::from_secs(15),
        script: FLAPPING,
        breaks: &[],
    },
    Story {
        name: "raft-paper-crash",
        algorithm: &RAFT_PAPER,
        about: "The leader dies, and no member is told. Each of the others waits for 150 to 300 ms from its last heartbeat; the one that waits the shortest leads.",
        lasts: Duration::from_secs(10),
        script: "at 3s crash leader for 3s\n",
        breaks: &[],
    },
    Story {
        name: "raft-kraft-crash",
        algorithm: &RAFT_KRAFT,
        about: "The leader dies, and no member misses it until 9 to 18 s after its last heartbeat.",
        lasts: Duration::from_secs(90),
        script: "at 40s crash leader\n",
        breaks: &[],
    },
    Story {
        name: "raft-etcd-crash",
        algorithm: &RAFT_ETCD,
        about: "The leader dies, and no member misses it until 1 to 2 s after its last heartbeat.",
        lasts: Duration::from_secs(20),
        script: "at 8s crash leader\n",
        breaks: &[],
    },
    Story {
        name: "raft-no-prevote-crash",
        algorithm: &RAFT_NO_PREVOTE,
        about: "The leader dies, and without pre-vote another leads just as soon.",
        lasts: Duration::from_secs(10),
        script: "at 3s crash leader for 3s\n",
        breaks: &[],
    },
    Story {
        name: "raft-no-prevote-flapping",
        algorithm: &RAFT_NO_PREVOTE,
        about: "One member loses the others repeatedly, and each time begins elections that it cannot win. When it is back its term is higher than the leader's, which has to step down though it was healthy.",
        lasts: Duration::from_secs(15),
        script: FLAPPING,
        breaks: &[Promise::Own(IN_TOUCH)],
    },
    Story {
        name: "raft-fixed-timeouts-split",
        algorithm: &RAFT_FIXED_TIMEOUTS,
        about: "Messages take 5 to 8 ms. The leader dies, and all others miss it in the same moment: each votes for itself before it hears of another, none wins, and all try again in the same moment, for ever.",
        lasts: Duration::from_secs(10),
        script: "at 1ms crash b for 20ms\nat 1ms crash c for 40ms\nat 1ms crash d for 60ms\nat 1ms crash e for 80ms\nat 2s delay 5ms..8ms\nat 3s crash leader\n",
        breaks: &[Promise::LeaderAtEnd],
    },
    Story {
        name: "raft-fixed-timeouts-apart",
        algorithm: &RAFT_FIXED_TIMEOUTS,
        about: "The members start one after the other, so the first misses a leader first, and all goes well for as long as it lives.",
        lasts: Duration::from_secs(10),
        script: "at 1ms crash b for 20ms\nat 1ms crash c for 40ms\nat 1ms crash d for 60ms\nat 1ms crash e for 80ms\n",
        breaks: &[],
    },
];
