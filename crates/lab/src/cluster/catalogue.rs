//! The scenarios of the shipped replica, by name.

use std::time::Duration;

use super::{
    faults::FaultKind,
    scenario::{Distance, Scenario},
};
use crate::{engine::ms, recipes::program_mix::ProgramMix};

pub const CALM: Scenario = Scenario {
    name: "calm",
    about: "Three members, and no faults.",
    members: 3,
    faults: &[],
    rough_for: ms(2000),
    registers: 4,
    holders: 3,
    watchers: 2,
    movers: 0,
    operators: 0,
    users: 0,
    candidates: 0,
    programs: None,
    leisure: 1,
    restored: false,
    mixed: false,
    distance: None,
};

pub const ROUGH: Scenario = Scenario {
    name: "rough",
    about: "Three members under all faults.",
    faults: FaultKind::ALL,
    rough_for: ms(6000),
    ..CALM
};

pub const ROUGH_ALONE: Scenario = Scenario {
    name: "rough-alone",
    about: "One member that crashes, pauses and has disk faults.",
    members: 1,
    faults: &[
        FaultKind::CRASH,
        FaultKind::PAUSE,
        FaultKind::SLOW_DISK,
        FaultKind::STALLED_DISK,
        FaultKind::FULL_DISK,
        FaultKind::FAILING_DISK,
        FaultKind::SNAPSHOT_FAILURE,
        FaultKind::HAND_OVER,
    ],
    ..ROUGH
};

pub const ROUGH_FIVE: Scenario =
    Scenario { name: "rough-five", about: "Five members under all faults.", members: 5, ..ROUGH };

pub const ROUGH_SEVEN: Scenario =
    Scenario { name: "rough-seven", about: "Seven members under all faults.", members: 7, ..ROUGH };

pub const CRASHES: Scenario = Scenario {
    name: "crashes",
    about: "Members crash, alone and all at once, and lose what was not flushed.",
    faults: &[FaultKind::CRASH, FaultKind::CRASH_ALL, FaultKind::SLOW_DISK, FaultKind::HAND_OVER],
    ..ROUGH
};

pub const PARTITIONS: Scenario = Scenario {
    name: "partitions",
    about: "Five members whose network is cut in every shape.",
    faults: &[
        FaultKind::CUT_ONE_WAY,
        FaultKind::CUT_PAIR,
        FaultKind::ISOLATE,
        FaultKind::SPLIT,
        FaultKind::FLAP,
        FaultKind::RESET,
        FaultKind::ONE_WAY_RESET,
    ],
    members: 5,
    ..ROUGH
};

pub const BAD_NET: Scenario = Scenario {
    name: "bad-net",
    about: "Messages are lost, repeated, reordered and late, while raft leadership moves between members.",
    faults: &[
        FaultKind::LOSS,
        FaultKind::DUPLICATES,
        FaultKind::REORDERING,
        FaultKind::SLOW_NET,
        FaultKind::RESET,
        FaultKind::CRASH,
    ],
    movers: 1,
    ..ROUGH
};

pub const MOVING: Scenario = Scenario {
    name: "moving",
    about: "Raft leadership moves all the time, between members and disks that are slow now and then.",
    faults: &[
        FaultKind::SLOW,
        FaultKind::SLOW_DISK,
        FaultKind::SLOW_NET,
        FaultKind::REORDERING,
        FaultKind::STALLED_DISK,
    ],
    registers: 12,
    movers: 4,
    rough_for: ms(12_000),
    ..ROUGH
};

pub const BAD_LINKS: Scenario = Scenario {
    name: "bad-links",
    about: "Single directions between members are slow, lossy and reset, and disks differ.",
    faults: &[
        FaultKind::ONE_WAY_RESET,
        FaultKind::SLOW_LINK,
        FaultKind::LOSSY_LINK,
        FaultKind::REPEATING_LINK,
        FaultKind::REORDERING_LINK,
        FaultKind::SLOWER_DISK,
        FaultKind::CUT_ONE_WAY,
        FaultKind::CRASH,
    ],
    rough_for: ms(8000),
    ..ROUGH
};

pub const FAR_APART: Scenario = Scenario {
    name: "far-apart",
    about: "Members on three continents, with timing to match, lose links and crash.",
    faults: &[
        FaultKind::CRASH,
        FaultKind::CUT_ONE_WAY,
        FaultKind::ONE_WAY_RESET,
        FaultKind::LOSSY_LINK,
    ],
    rough_for: ms(8000),
    distance: Some(Distance {
        one_way: (ms(20), ms(80)),
        flush: (ms(0), ms(20)),
        // As etcd advises: a heartbeat is about a round trip, an election timeout ten of them.
        timing: Some((ms(200), ms(2000))),
    }),
    ..ROUGH
};

/// How far apart members with the usual timing may be.
const USUAL_TIMING_ONE_WAY_MAX: Duration = ms(80);

pub const FAR_APART_USUAL: Scenario = Scenario {
    name: "far-apart-usual",
    about: "Members that are far apart, with the timing of a local network, serve all the same.",
    distance: Some(Distance {
        one_way: (ms(5), USUAL_TIMING_ONE_WAY_MAX),
        flush: (ms(0), ms(10)),
        timing: None,
    }),
    ..FAR_APART
};

pub const BAD_DISKS: Scenario = Scenario {
    name: "bad-disks",
    about: "Disks are slow, stall, fill up and fail.",
    faults: &[
        FaultKind::SLOW_DISK,
        FaultKind::SLOWER_DISK,
        FaultKind::STALLED_DISK,
        FaultKind::FULL_DISK,
        FaultKind::FAILING_DISK,
        FaultKind::POWER_LOSS,
        FaultKind::PAUSE,
        FaultKind::CRASH,
        FaultKind::SNAPSHOT_FAILURE,
    ],
    ..ROUGH
};

pub const ROTTEN_DISKS: Scenario = Scenario {
    name: "rotten-disks",
    about: "Bits on disks change, sectors lie in the wrong place, and members crash.",
    faults: &[
        FaultKind::BIT_ROT,
        FaultKind::MISPLACED,
        FaultKind::POWER_LOSS,
        FaultKind::CRASH,
        FaultKind::CRASH_ALL,
        FaultKind::FAILING_DISK,
        FaultKind::SLOW_DISK,
    ],
    ..ROUGH
};

pub const CHANGING_CALM: Scenario = Scenario {
    name: "changing-calm",
    about: "Operators add, promote, move and remove members.",
    faults: &[],
    operators: 2,
    ..ROUGH
};

pub const CHANGING: Scenario = Scenario {
    name: "changing",
    about: "Operators add, promote and remove members under all faults.",
    operators: 2,
    ..ROUGH
};

pub const GROWING: Scenario = Scenario {
    name: "growing",
    about: "A cluster of one grows, shrinks and changes under all faults.",
    members: 1,
    ..CHANGING
};

pub const ROUGH_TWO: Scenario =
    Scenario { name: "rough-two", about: "Two members under all faults.", members: 2, ..ROUGH };

pub const ROUGH_FOUR: Scenario =
    Scenario { name: "rough-four", about: "Four members under all faults.", members: 4, ..ROUGH };

pub const MIXED: Scenario = Scenario {
    name: "mixed",
    about: "Members of different versions, which are replaced by newer ones when they start again, under all faults.",
    mixed: true,
    ..ROUGH
};

pub const USERS: Scenario = Scenario {
    name: "users",
    about: "Users and roles change while users ask, under all faults; members begin with different versions.",
    users: 4,
    mixed: true,
    ..ROUGH
};

pub const ELECTIONS_CALM: Scenario = Scenario {
    name: "elections-calm",
    about: "Candidates of two elections; an operator evicts, transfers, freezes and resumes.",
    registers: 1,
    holders: 1,
    watchers: 1,
    candidates: 4,
    rough_for: ms(4000),
    ..CALM
};

pub const ELECTIONS: Scenario = Scenario {
    name: "elections",
    about: "Candidates of two elections under all faults: one leads at a time.",
    faults: ROUGH.faults,
    rough_for: ms(8000),
    ..ELECTIONS_CALM
};

pub const RESTORED: Scenario = Scenario {
    name: "restored",
    about: "A cluster under faults is lost and restored from a backup: tokens still grow.",
    restored: true,
    ..ELECTIONS
};

pub const RECIPES_CALM: Scenario = Scenario {
    name: "recipes-calm",
    about: "Programs use the library's elections, locks and electors; an operator administers one election.",
    registers: 0,
    holders: 0,
    watchers: 0,
    rough_for: ms(4000),
    programs: Some(ProgramMix::ALL),
    ..CALM
};

pub const RECIPES_PROGRAMS: Scenario = Scenario {
    name: "recipes-programs",
    about: "Programs that use the library are stopped, killed and cut off; the members have no faults.",
    rough_for: ms(8000),
    programs: Some(ProgramMix { rough: true, ..ProgramMix::ALL }),
    ..RECIPES_CALM
};

pub const RECIPES_MEMBERS: Scenario = Scenario {
    name: "recipes-members",
    about: "Programs use the library while the members have all faults.",
    faults: FaultKind::ALL,
    rough_for: ms(8000),
    ..RECIPES_CALM
};

pub const RECIPES: Scenario = Scenario {
    name: "recipes",
    about: "Programs use the library under all faults everywhere: a program that believes to hold is right.",
    programs: RECIPES_PROGRAMS.programs,
    ..RECIPES_MEMBERS
};

pub const RECIPES_FIVE: Scenario =
    Scenario { name: "recipes-five", about: "The same with five members.", members: 5, ..RECIPES };

/// The scenario of soaks: long, with enough clients to find something.
pub const SOAK: Scenario = Scenario {
    name: "soak",
    about: "Three members for a long time: writes, leases, watches and elections under all faults.",
    faults: FaultKind::ALL,
    rough_for: ms(120_000),
    registers: 1,
    holders: 2,
    watchers: 1,
    candidates: 2,
    leisure: 28,
    ..CALM
};

/// All scenarios.
pub const SCENARIOS: [&Scenario; 30] = [
    &CALM,
    &ROUGH,
    &ROUGH_ALONE,
    &ROUGH_FIVE,
    &ROUGH_SEVEN,
    &CRASHES,
    &PARTITIONS,
    &BAD_NET,
    &MOVING,
    &BAD_LINKS,
    &FAR_APART,
    &FAR_APART_USUAL,
    &BAD_DISKS,
    &ROTTEN_DISKS,
    &CHANGING_CALM,
    &CHANGING,
    &GROWING,
    &ROUGH_TWO,
    &ROUGH_FOUR,
    &MIXED,
    &USERS,
    &ELECTIONS_CALM,
    &ELECTIONS,
    &RESTORED,
    &RECIPES_CALM,
    &RECIPES_PROGRAMS,
    &RECIPES_MEMBERS,
    &RECIPES,
    &RECIPES_FIVE,
    &SOAK,
];
