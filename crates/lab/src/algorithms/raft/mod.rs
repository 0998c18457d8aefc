//! Raft (Ongaro and Ousterhout 2014): not a model of it, but the shipped replica itself.
//!
//! Time is cut into terms. Who misses the leader asks for votes in the next term, after a random while;
//! everybody has one vote a term, and a majority makes a leader. A leader that does not hear from a
//! majority steps down, and who would not win an election does not begin one (pre-vote).
//!
//! [`house`] is the house of a replica, and [`member`] lives in it; the stories are here. Besides what we ship there are the
//! timeouts of others, and Raft without one of its parts, to show what that part is for.

mod house;
mod member;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::member::{IN_TOUCH, Preset, cast};
pub(super) use self::{house::House, member::Say};
use super::{Algorithm, Scenario};
use crate::{engine::ms, stage::Promise};

const PROMISES: &[Promise] = &[
    Promise::OneLeaderPerTerm,
    Promise::OneWriter,
    Promise::SomebodyLeads,
    Promise::OneBeliever,
    Promise::Own(IN_TOUCH),
];
/// Where leaders come and go so fast, and whoever is cut off may be one of them, two may believe to lead
/// or not: nothing is said of it.
const FEWER_PROMISES: &[Promise] = &[
    Promise::OneLeaderPerTerm,
    Promise::OneWriter,
    Promise::SomebodyLeads,
    Promise::Own(IN_TOUCH),
];

/// As we ship it.
const OURS: Preset = Preset {
    tick: ms(10),
    heartbeat: ms(50),
    election_timeout: ms(500),
    pre_vote: true,
    random_timeouts: true,
    hears_of_ends: true,
};
/// 150 to 300 ms, and nobody is told that a process has ended.
const PAPER: Preset = Preset { election_timeout: ms(150), hears_of_ends: false, ..OURS };
/// What is told of Kafka's controllers: a failover of up to 18 s. Here that is a silence of 9 s, kept away
/// every 2 s, as a broker's session there, and up to as long again by chance. Kafka's own controllers can
/// be set to be much quicker.
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
    cast: |setup| cast(setup, &OURS),
};

pub(super) const RAFT_PAPER: Algorithm = Algorithm {
    name: "raft-paper",
    about: "the shipped replica with the paper's timeouts, 150 to 300 ms, and none of our short cuts",
    origin: "Ongaro and Ousterhout 2014",
    cast: |setup| cast(setup, &PAPER),
    ..RAFT
};

pub(super) const RAFT_KRAFT: Algorithm = Algorithm {
    name: "raft-kraft",
    about: "the shipped replica as patient as is told of Kafka's controllers: up to 18 s",
    origin: "Kafka KRaft, as told",
    patience: Some(ms(40_000)),
    cast: |setup| cast(setup, &KRAFT),
    ..RAFT
};

pub(super) const RAFT_ETCD: Algorithm = Algorithm {
    name: "raft-etcd",
    about: "the shipped replica with etcd's default timeouts: 1 to 2 s, a heartbeat every 100 ms",
    origin: "etcd 3.5",
    patience: Some(ms(10_000)),
    cast: |setup| cast(setup, &ETCD),
    ..RAFT
};

pub(super) const RAFT_NO_PREVOTE: Algorithm = Algorithm {
    name: "raft-no-prevote",
    about: "who misses the leader begins an election, though it could not win it",
    origin: "Ongaro and Ousterhout 2014, without section 9.6 of the dissertation",
    promises: FEWER_PROMISES,
    cast: |setup| cast(setup, &NO_PREVOTE),
    ..RAFT
};

pub(super) const RAFT_FIXED_TIMEOUTS: Algorithm = Algorithm {
    name: "raft-fixed-timeouts",
    about: "all wait equally long before an election, and all begin one in the same moment",
    origin: "Ongaro and Ousterhout 2014, without section 5.2's random timeouts",
    promises: FEWER_PROMISES,
    patience: None,
    cast: |setup| cast(setup, &FIXED),
    ..RAFT
};

/// One member loses the others again and again.
const FLAPPING: &str = "at 3s isolate e for 1s\nat 5s isolate e for 1s\nat 7s isolate e for 1s\nat 9s isolate e for 1s\nat 11s isolate e for 1s\n";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "raft-crash",
        algorithm: &RAFT,
        about: "The leader's process dies and its connections close: the others hear of that, and a few milliseconds later another leads, long before any timeout.",
        lasts: Duration::from_secs(10),
        script: "at 3s crash leader for 3s\n",
        breaks: &[],
    },
    Scenario {
        name: "raft-partition",
        algorithm: &RAFT,
        about: "The leader is cut off. The others elect another while it still believes to lead, until it notices that no majority answers. Its writes carry an older term, and the storage refuses them.",
        lasts: Duration::from_secs(10),
        script: "at 3.01s isolate leader for 4s\n",
        breaks: &[Promise::OneBeliever],
    },
    Scenario {
        name: "raft-pause",
        algorithm: &RAFT,
        about: "The leader stands still for longer than the others wait. When it goes on it believes in itself, until among all that has piled up it comes to the news of another term. What it writes before that is refused.",
        lasts: Duration::from_secs(10),
        script: "at 3s pause leader for 3s\n",
        breaks: &[Promise::OneBeliever],
    },
    Scenario {
        name: "raft-flapping",
        algorithm: &RAFT,
        about: "One member loses the others again and again. It asks before it begins an election, nobody would vote for it, and the leader never hears of it.",
        lasts: Duration::from_secs(15),
        script: FLAPPING,
        breaks: &[],
    },
    Scenario {
        name: "raft-paper-crash",
        algorithm: &RAFT_PAPER,
        about: "The leader dies, and nobody is told. Each of the others waits for 150 to 300 ms from its last heartbeat; the one that waits the shortest leads.",
        lasts: Duration::from_secs(10),
        script: "at 3s crash leader for 3s\n",
        breaks: &[],
    },
    Scenario {
        name: "raft-kraft-crash",
        algorithm: &RAFT_KRAFT,
        about: "The leader dies, and nobody misses it until 9 to 18 s after its last heartbeat.",
        lasts: Duration::from_secs(90),
        script: "at 40s crash leader\n",
        breaks: &[],
    },
    Scenario {
        name: "raft-etcd-crash",
        algorithm: &RAFT_ETCD,
        about: "The leader dies, and nobody misses it until 1 to 2 s after its last heartbeat.",
        lasts: Duration::from_secs(20),
        script: "at 8s crash leader\n",
        breaks: &[],
    },
    Scenario {
        name: "raft-no-prevote-crash",
        algorithm: &RAFT_NO_PREVOTE,
        about: "The leader dies, and without pre-vote another leads just as soon.",
        lasts: Duration::from_secs(10),
        script: "at 3s crash leader for 3s\n",
        breaks: &[],
    },
    Scenario {
        name: "raft-no-prevote-flapping",
        algorithm: &RAFT_NO_PREVOTE,
        about: "One member loses the others again and again, and each time begins elections that it cannot win. When it is back its term is higher than the leader's, who has to go though nobody missed it.",
        lasts: Duration::from_secs(15),
        script: FLAPPING,
        breaks: &[Promise::Own(IN_TOUCH)],
    },
    Scenario {
        name: "raft-fixed-timeouts-split",
        algorithm: &RAFT_FIXED_TIMEOUTS,
        about: "Messages take 5 to 8 ms. The leader dies, and all others miss it in the same moment: everybody votes for itself before it hears of anybody else, nobody wins, and all try again in the same moment, for ever.",
        lasts: Duration::from_secs(10),
        script: "at 1ms crash b for 20ms\nat 1ms crash c for 40ms\nat 1ms crash d for 60ms\nat 1ms crash e for 80ms\nat 2s delay 5ms..8ms\nat 3s crash leader\n",
        breaks: &[Promise::SomebodyLeads],
    },
    Scenario {
        name: "raft-fixed-timeouts-apart",
        algorithm: &RAFT_FIXED_TIMEOUTS,
        about: "The members start one after the other, so the first misses a leader first, and all goes well for as long as it lives.",
        lasts: Duration::from_secs(10),
        script: "at 1ms crash b for 20ms\nat 1ms crash c for 40ms\nat 1ms crash d for 60ms\nat 1ms crash e for 80ms\n",
        breaks: &[],
    },
];
