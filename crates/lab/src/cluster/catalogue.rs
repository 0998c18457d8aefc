//! The scenarios of the shipped replica, by name.

use super::{faults::Fault, scenario::Scenario};
use crate::{engine::ms, recipes::cast::Cast};

pub const CALM: Scenario = Scenario {
    name: "calm",
    about: "Three members, and nothing goes wrong.",
    members: 3,
    faults: &[],
    rough_for: ms(2000),
    registers: 4,
    holders: 3,
    watchers: 2,
    movers: 0,
    operators: 0,
    candidates: 0,
    programs: None,
    leisure: 1,
    restored: false,
};

pub const ROUGH: Scenario = Scenario {
    name: "rough",
    about: "Three members, and everything goes wrong that can.",
    faults: &Fault::ALL,
    rough_for: ms(6000),
    ..CALM
};

pub const ROUGH_ALONE: Scenario = Scenario {
    name: "rough-alone",
    about: "One member that crashes, pauses and has trouble with its disk.",
    members: 1,
    faults: &[
        Fault::Crash,
        Fault::Pause,
        Fault::SlowDisk,
        Fault::StalledDisk,
        Fault::FullDisk,
        Fault::FailingDisk,
        Fault::SnapshotFailure,
        Fault::HandOver,
    ],
    ..ROUGH
};

pub const ROUGH_FIVE: Scenario = Scenario {
    name: "rough-five",
    about: "Five members, and everything goes wrong that can.",
    members: 5,
    ..ROUGH
};

pub const ROUGH_SEVEN: Scenario = Scenario {
    name: "rough-seven",
    about: "Seven members, and everything goes wrong that can.",
    members: 7,
    ..ROUGH
};

pub const CRASHES: Scenario = Scenario {
    name: "crashes",
    about: "Members crash, alone and all at once, and lose what was not flushed.",
    faults: &[Fault::Crash, Fault::CrashAll, Fault::SlowDisk, Fault::HandOver],
    ..ROUGH
};

pub const PARTITIONS: Scenario = Scenario {
    name: "partitions",
    about: "Five members whose network is cut in every shape.",
    faults: &[
        Fault::CutOneWay,
        Fault::CutPair,
        Fault::Isolate,
        Fault::Split,
        Fault::Flap,
        Fault::Reset,
    ],
    members: 5,
    ..ROUGH
};

pub const BAD_NET: Scenario = Scenario {
    name: "bad-net",
    about: "Messages are lost, repeated, reordered and late, while the leadership is moved about.",
    faults: &[
        Fault::Loss,
        Fault::Duplicates,
        Fault::Reordering,
        Fault::SlowNet,
        Fault::Reset,
        Fault::Crash,
    ],
    movers: 1,
    ..ROUGH
};

pub const BAD_DISKS: Scenario = Scenario {
    name: "bad-disks",
    about: "Disks are slow, stall, fill up and fail.",
    faults: &[
        Fault::SlowDisk,
        Fault::StalledDisk,
        Fault::FullDisk,
        Fault::FailingDisk,
        Fault::Pause,
        Fault::Crash,
        Fault::SnapshotFailure,
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
    about: "Operators change who belongs to the cluster while everything goes wrong.",
    operators: 2,
    ..ROUGH
};

pub const LINES_CALM: Scenario = Scenario {
    name: "lines-calm",
    about: "Candidates stand in two lines; an operator evicts, transfers, freezes and resumes.",
    registers: 1,
    holders: 1,
    watchers: 1,
    candidates: 4,
    rough_for: ms(4000),
    ..CALM
};

pub const LINES: Scenario = Scenario {
    name: "lines",
    about: "Candidates stand in two lines while everything goes wrong: one leads at a time.",
    faults: ROUGH.faults,
    rough_for: ms(8000),
    ..LINES_CALM
};

pub const RESTORED: Scenario = Scenario {
    name: "restored",
    about: "A cluster is lost in the middle of trouble and begins again from a backup: tokens still grow.",
    restored: true,
    ..LINES
};

pub const RECIPES_CALM: Scenario = Scenario {
    name: "recipes-calm",
    about: "Programs use the library's elections, locks and electors; an operator rules over one line.",
    registers: 0,
    holders: 0,
    watchers: 0,
    rough_for: ms(4000),
    programs: Some(Cast::ALL),
    ..CALM
};

pub const RECIPES_PROGRAMS: Scenario = Scenario {
    name: "recipes-programs",
    about: "Programs that use the library are stopped, killed and cut off; the members are well.",
    rough_for: ms(8000),
    programs: Some(Cast { rough: true, ..Cast::ALL }),
    ..RECIPES_CALM
};

pub const RECIPES_MEMBERS: Scenario = Scenario {
    name: "recipes-members",
    about: "Programs use the library while everything goes wrong at the members.",
    faults: &Fault::ALL,
    rough_for: ms(8000),
    ..RECIPES_CALM
};

pub const RECIPES: Scenario = Scenario {
    name: "recipes",
    about: "Programs use the library while everything goes wrong everywhere: who believes is right.",
    programs: RECIPES_PROGRAMS.programs,
    ..RECIPES_MEMBERS
};

pub const RECIPES_FIVE: Scenario =
    Scenario { name: "recipes-five", about: "The same with five members.", members: 5, ..RECIPES };

/// What a soak is made of: long, and with as many clients as it takes to find something.
pub const SOAK: Scenario = Scenario {
    name: "soak",
    about: "A long life of three members: writes, leases, watches and elections, and no quiet day.",
    faults: &Fault::ALL,
    rough_for: ms(120_000),
    registers: 1,
    holders: 2,
    watchers: 1,
    candidates: 2,
    leisure: 28,
    ..CALM
};

/// All of them.
pub const SCENARIOS: [&Scenario; 20] = [
    &CALM,
    &ROUGH,
    &ROUGH_ALONE,
    &ROUGH_FIVE,
    &ROUGH_SEVEN,
    &CRASHES,
    &PARTITIONS,
    &BAD_NET,
    &BAD_DISKS,
    &CHANGING_CALM,
    &CHANGING,
    &LINES_CALM,
    &LINES,
    &RESTORED,
    &RECIPES_CALM,
    &RECIPES_PROGRAMS,
    &RECIPES_MEMBERS,
    &RECIPES,
    &RECIPES_FIVE,
    &SOAK,
];
