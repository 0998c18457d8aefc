//! The faults of a script.

use std::{fmt, time::Duration};

use super::write_span;

/// The syntax of each fault and what it does. `leader` and `all` are names, too.
pub const FAULT_SYNTAX: &[(&str, &str)] = &[
    ("crash NAME", "its process ends; for TIME: it starts again after that"),
    ("restart NAME", "it starts again"),
    ("pause NAME", "it is paused and does not know it"),
    ("slow NAME by TIME", "everything that it does takes longer by TIME"),
    ("cut NAME NAME", "no message passes between the two"),
    ("cut NAME -> NAME", "no message passes from the first to the second"),
    ("isolate NAME", "no message passes between it and the others"),
    ("split NAME… | NAME…", "no message passes between the groups"),
    ("flap NAME NAME", "the link between the two comes and goes"),
    ("reset NAME NAME", "their connections break and are made again (replica)"),
    ("reset NAME -> NAME", "only the connection that the first made to the second (replica)"),
    ("lose SHARE%", "this share of messages is lost"),
    ("lose NAME -> NAME SHARE%", "the same, from the first to the second only"),
    ("duplicate SHARE%", "this share of messages comes twice"),
    ("duplicate NAME -> NAME SHARE%", "the same, from the first to the second only"),
    ("reorder SHARE%", "this share of messages may overtake others"),
    ("reorder NAME -> NAME SHARE%", "the same, from the first to the second only"),
    ("delay TIME..TIME", "messages take this long"),
    (
        "delay NAME -> NAME by TIME..TIME",
        "messages from the first to the second take this much longer",
    ),
    ("clock NAME jumps ±TIME", "its wall clock is set"),
    ("clock NAME drifts ±SHARE%", "its clocks run fast or slow"),
    ("disk NAME slows", "every flush takes long (replica)"),
    ("disk NAME slows by TIME..TIME", "every flush takes this much longer (replica)"),
    ("disk NAME stalls", "no flush ends (replica)"),
    ("disk NAME fills", "nothing more can be written (replica)"),
    ("disk NAME fails", "the next flush fails, for good (replica)"),
    ("disk NAME rots", "its process ends, and some bits on its disk change (replica)"),
    ("disk NAME misplaces", "its process ends, and a sector lies in another's place (replica)"),
    ("power NAME fails", "its process ends amid one of its next disk operations (replica)"),
    ("snapshots fail", "snapshots cannot be written (replica)"),
    ("hand over", "the raft leader hands over and stops (replica)"),
    ("heal", "all faults end"),
];

/// What a fault is applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The process or member of this name.
    Named(String),
    /// The leader at the time of the fault, if there is one.
    Leader,
    /// All processes or members.
    All,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Named(name) => f.write_str(name),
            Target::Leader => f.write_str("leader"),
            Target::All => f.write_str("all"),
        }
    }
}

/// What happens to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// They are lost, per mille.
    Lose(u64),
    /// They come twice, per mille.
    Duplicate(u64),
    /// They may overtake others, per mille.
    Reorder(u64),
    /// The least and the most delay; on one link, of what is added to it.
    Delay(Duration, Duration),
}

impl LinkFault {
    /// What it does, and how much of it.
    fn words(&self) -> (&'static str, String) {
        match self {
            LinkFault::Lose(share) => ("lose", share_of(*share)),
            LinkFault::Duplicate(share) => ("duplicate", share_of(*share)),
            LinkFault::Reorder(share) => ("reorder", share_of(*share)),
            LinkFault::Delay(low, high) => ("delay", range(&(*low, *high))),
        }
    }
}

/// A fault. Its duration, if it has one, is in the script; without one it lasts for the rest of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process ends; memory and unflushed writes are lost.
    Crash(Target),
    /// The process starts again.
    Restart(Target),
    /// The process is paused and does not know it; messages to it wait.
    Pause(Target),
    /// Everything that it does takes this much longer.
    Slow(Target, Duration),
    /// No message passes between the two, in either direction.
    Cut(Target, Target),
    /// No message passes from the first to the second.
    CutOneWay(Target, Target),
    /// No message passes between it and the others.
    Isolate(Target),
    /// No message passes between the groups.
    Split(Vec<Vec<String>>),
    /// The link between the two comes and goes.
    Flap(Target, Target),
    /// The connections of the two break and are made again.
    Reset(Target, Target),
    /// The connection that the first made to the second breaks and is made again.
    ResetOneWay(Target, Target),
    /// All messages.
    Network(LinkFault),
    /// Messages from the first to the second.
    Link(Target, Target, LinkFault),
    /// The wall clock is set ahead, or back, by microseconds.
    ClockJumps(Target, i64),
    /// The clocks run fast, or slow, by millionths.
    ClockDrifts(Target, i64),
    /// Every flush takes long.
    DiskSlows(Target),
    /// The least and the most added time of every flush.
    DiskSlowsBy(Target, (Duration, Duration)),
    /// No flush ends.
    DiskStalls(Target),
    /// Nothing more can be written.
    DiskFills(Target),
    /// The next flush fails, for good.
    DiskFails(Target),
    /// The process ends, and some bits on its disk change.
    DiskRots(Target),
    /// The process ends, and a sector that it wrote lies in another's place.
    DiskMisplaces(Target),
    /// The power fails amid one of the next disk operations.
    PowerFails(Target),
    /// Snapshots cannot be written.
    SnapshotsFail,
    /// The raft leader hands over and stops.
    HandOver,
    /// All faults end.
    Heal,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Crash(target) => write!(f, "crash {target}"),
            Action::Restart(target) => write!(f, "restart {target}"),
            Action::Pause(target) => write!(f, "pause {target}"),
            Action::Slow(target, by) => write!(f, "slow {target} by {}", write_span(*by)),
            Action::Cut(a, b) => write!(f, "cut {a} {b}"),
            Action::CutOneWay(a, b) => write!(f, "cut {a} -> {b}"),
            Action::Isolate(target) => write!(f, "isolate {target}"),
            Action::Split(groups) => {
                let groups: Vec<String> = groups.iter().map(|group| group.join(" ")).collect();
                write!(f, "split {}", groups.join(" | "))
            }
            Action::Flap(a, b) => write!(f, "flap {a} {b}"),
            Action::Reset(a, b) => write!(f, "reset {a} {b}"),
            Action::ResetOneWay(a, b) => write!(f, "reset {a} -> {b}"),
            Action::Network(fault) => {
                let (what, much) = fault.words();
                write!(f, "{what} {much}")
            }
            Action::Link(a, b, fault) => {
                let (what, much) = fault.words();
                let by = if what == "delay" { "by " } else { "" };
                write!(f, "{what} {a} -> {b} {by}{much}")
            }
            Action::ClockJumps(target, us) => {
                let sign = if *us < 0 { '-' } else { '+' };
                let by = Duration::from_micros(us.unsigned_abs());
                write!(f, "clock {target} jumps {sign}{}", write_span(by))
            }
            Action::ClockDrifts(target, ppm) => {
                write!(f, "clock {target} drifts {}", percent(*ppm, 10_000))
            }
            Action::DiskSlows(target) => write!(f, "disk {target} slows"),
            Action::DiskSlowsBy(target, by) => write!(f, "disk {target} slows by {}", range(by)),
            Action::DiskStalls(target) => write!(f, "disk {target} stalls"),
            Action::DiskFills(target) => write!(f, "disk {target} fills"),
            Action::DiskFails(target) => write!(f, "disk {target} fails"),
            Action::DiskRots(target) => write!(f, "disk {target} rots"),
            Action::DiskMisplaces(target) => write!(f, "disk {target} misplaces"),
            Action::PowerFails(target) => write!(f, "power {target} fails"),
            Action::SnapshotsFail => f.write_str("snapshots fail"),
            Action::HandOver => f.write_str("hand over"),
            Action::Heal => f.write_str("heal"),
        }
    }
}

impl Action {
    /// The targets that it names.
    pub fn targets(&self) -> Vec<Target> {
        match self {
            Action::Crash(target)
            | Action::Restart(target)
            | Action::Pause(target)
            | Action::Slow(target, _)
            | Action::Isolate(target)
            | Action::ClockJumps(target, _)
            | Action::ClockDrifts(target, _)
            | Action::DiskSlows(target)
            | Action::DiskSlowsBy(target, _)
            | Action::DiskStalls(target)
            | Action::DiskFills(target)
            | Action::DiskFails(target)
            | Action::DiskRots(target)
            | Action::DiskMisplaces(target)
            | Action::PowerFails(target) => vec![target.clone()],
            Action::Cut(a, b)
            | Action::CutOneWay(a, b)
            | Action::Flap(a, b)
            | Action::Reset(a, b)
            | Action::ResetOneWay(a, b)
            | Action::Link(a, b, _) => vec![a.clone(), b.clone()],
            Action::Split(groups) => groups.iter().flatten().cloned().map(Target::Named).collect(),
            Action::Network(_) | Action::SnapshotsFail | Action::HandOver | Action::Heal => vec![],
        }
    }
}

impl Action {
    /// The name under which its effect is counted; none if it ends faults.
    pub fn counted_as(&self) -> Option<&'static str> {
        Some(match self {
            Action::Crash(_) => "crash",
            Action::Pause(_) => "pause",
            Action::Slow(..) => "slow",
            Action::Cut(..) => "cut",
            Action::CutOneWay(..) => "cut_one_way",
            Action::Isolate(_) => "isolate",
            Action::Split(_) => "split",
            Action::Flap(..) => "flap",
            Action::Reset(..) => "reset",
            Action::ResetOneWay(..) => "reset_one_way",
            Action::Network(LinkFault::Lose(_)) => "loss",
            Action::Network(LinkFault::Duplicate(_)) => "duplicate",
            Action::Network(LinkFault::Reorder(_)) => "reorder",
            Action::Network(LinkFault::Delay(..)) => "delay",
            Action::Link(.., LinkFault::Lose(_)) => "link_loss",
            Action::Link(.., LinkFault::Duplicate(_)) => "link_duplicate",
            Action::Link(.., LinkFault::Reorder(_)) => "link_reorder",
            Action::Link(.., LinkFault::Delay(..)) => "link_delay",
            Action::ClockJumps(..) => "clock_jump",
            Action::ClockDrifts(..) => "clock_drift",
            Action::DiskSlows(_) => "disk_slows",
            Action::DiskSlowsBy(..) => "disk_slows_by",
            Action::DiskStalls(_) => "disk_stalls",
            Action::DiskFills(_) => "disk_full",
            Action::DiskFails(_) => "disk_failed",
            Action::DiskRots(_) => "disk_rots",
            Action::DiskMisplaces(_) => "disk_misplaces",
            Action::PowerFails(_) => "power_fails",
            Action::SnapshotsFail => "snapshot_failure",
            Action::HandOver => "hand_over",
            Action::Restart(_) | Action::Heal => return None,
        })
    }

    /// Whether only members of a cluster can have it: they have disks, and connections of their own.
    pub fn needs_cluster(&self) -> bool {
        matches!(
            self,
            Action::DiskSlows(_)
                | Action::DiskSlowsBy(..)
                | Action::DiskStalls(_)
                | Action::DiskFills(_)
                | Action::DiskFails(_)
                | Action::DiskRots(_)
                | Action::DiskMisplaces(_)
                | Action::PowerFails(_)
                | Action::SnapshotsFail
                | Action::Reset(..)
                | Action::ResetOneWay(..)
                | Action::HandOver
        )
    }
}

/// Per mille, as a percentage.
fn share_of(per_mille: u64) -> String {
    percent(per_mille as i64, 10)
}

fn range((low, high): &(Duration, Duration)) -> String {
    format!("{}..{}", write_span(*low), write_span(*high))
}

/// `number` as a percentage, where `of_one` is one percent.
fn percent(number: i64, of_one: i64) -> String {
    let (whole, part) = (number / of_one, (number % of_one).abs());
    let sign = if number < 0 && whole == 0 { "-" } else { "" };
    let width = of_one.ilog10() as usize;
    let part = format!("{part:0width$}");
    match part.trim_end_matches('0') {
        "" => format!("{sign}{whole}%"),
        part => format!("{sign}{whole}.{part}%"),
    }
}
