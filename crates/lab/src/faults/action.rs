//! The blows that there are.

use std::{fmt, time::Duration};

use super::write_span;

/// All blows as a script says them, and what they do. `leader` and `all` are names, too.
pub const BLOWS: &[(&str, &str)] = &[
    ("crash NAME", "its process ends; for TIME: it starts again after that"),
    ("restart NAME", "it starts again"),
    ("pause NAME", "it stands still and does not know it"),
    ("slow NAME by TIME", "everything takes it so much longer"),
    ("cut NAME NAME", "no message passes between the two"),
    ("cut NAME -> NAME", "none passes from the first to the second"),
    ("isolate NAME", "none passes between it and anybody else"),
    ("split NAME… | NAME…", "none passes between the groups"),
    ("flap NAME NAME", "the link between the two comes and goes"),
    ("reset NAME NAME", "their connection breaks and is made again (replica)"),
    ("lose SHARE%", "so many messages are lost"),
    ("duplicate SHARE%", "so many come twice"),
    ("reorder SHARE%", "so many may overtake others"),
    ("delay TIME..TIME", "messages take so long"),
    ("clock NAME jumps ±TIME", "its wall clock is set"),
    ("clock NAME drifts ±SHARE%", "its clocks run fast or slow"),
    ("disk NAME slows", "every flush takes long (replica)"),
    ("disk NAME stalls", "no flush ends (replica)"),
    ("disk NAME fills", "nothing more can be written (replica)"),
    ("disk NAME fails", "the next flush fails, for good (replica)"),
    ("snapshots fail", "snapshots cannot be written (replica)"),
    ("hand over", "the raft leader hands over and stops (replica)"),
    ("heal", "all is well"),
];

/// Whom a blow hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// This one.
    Named(String),
    /// Whoever leads when it strikes; nobody, if nobody does.
    Leader,
    /// Everybody.
    All,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Named(name) => f.write_str(name),
            Who::Leader => f.write_str("leader"),
            Who::All => f.write_str("all"),
        }
    }
}

/// One blow. Those that last end after the time that the script says, or never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process ends; what was only in memory, or on the way to the disk, is gone.
    Crash(Who),
    /// It starts again.
    Restart(Who),
    /// It stands still and does not know it; what reaches it waits.
    Pause(Who),
    /// Everything takes it so much longer.
    Slow(Who, Duration),
    /// No message passes between the two, in either direction.
    Cut(Who, Who),
    /// None passes from the first to the second.
    CutOneWay(Who, Who),
    /// None passes between it and anybody else.
    Isolate(Who),
    /// None passes between the groups.
    Split(Vec<Vec<String>>),
    /// The link between the two comes and goes.
    Flap(Who, Who),
    /// The connection of the two breaks and is made again.
    Reset(Who, Who),
    /// So many of a thousand messages are lost.
    Lose(u64),
    /// So many of a thousand come twice.
    Duplicate(u64),
    /// So many of a thousand may overtake others.
    Reorder(u64),
    /// Messages take from so long to so long.
    Delay(Duration, Duration),
    /// The wall clock is set ahead by so many microseconds, or back.
    ClockJumps(Who, i64),
    /// Its clocks run fast by so many millionths, or slow.
    ClockDrifts(Who, i64),
    /// Every flush takes long.
    DiskSlows(Who),
    /// No flush ends.
    DiskStalls(Who),
    /// Nothing more can be written.
    DiskFills(Who),
    /// The next flush fails, for good.
    DiskFails(Who),
    /// Snapshots cannot be written.
    SnapshotsFail,
    /// The leader of the log hands over and stops.
    HandOver,
    /// All is well.
    Heal,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Crash(who) => write!(f, "crash {who}"),
            Action::Restart(who) => write!(f, "restart {who}"),
            Action::Pause(who) => write!(f, "pause {who}"),
            Action::Slow(who, by) => write!(f, "slow {who} by {}", write_span(*by)),
            Action::Cut(a, b) => write!(f, "cut {a} {b}"),
            Action::CutOneWay(a, b) => write!(f, "cut {a} -> {b}"),
            Action::Isolate(who) => write!(f, "isolate {who}"),
            Action::Split(groups) => {
                let groups: Vec<String> = groups.iter().map(|group| group.join(" ")).collect();
                write!(f, "split {}", groups.join(" | "))
            }
            Action::Flap(a, b) => write!(f, "flap {a} {b}"),
            Action::Reset(a, b) => write!(f, "reset {a} {b}"),
            Action::Lose(share) => write!(f, "lose {}", percent(*share as i64, 10)),
            Action::Duplicate(share) => write!(f, "duplicate {}", percent(*share as i64, 10)),
            Action::Reorder(share) => write!(f, "reorder {}", percent(*share as i64, 10)),
            Action::Delay(low, high) => {
                write!(f, "delay {}..{}", write_span(*low), write_span(*high))
            }
            Action::ClockJumps(who, us) => {
                let sign = if *us < 0 { '-' } else { '+' };
                let by = Duration::from_micros(us.unsigned_abs());
                write!(f, "clock {who} jumps {sign}{}", write_span(by))
            }
            Action::ClockDrifts(who, ppm) => {
                write!(f, "clock {who} drifts {}", percent(*ppm, 10_000))
            }
            Action::DiskSlows(who) => write!(f, "disk {who} slows"),
            Action::DiskStalls(who) => write!(f, "disk {who} stalls"),
            Action::DiskFills(who) => write!(f, "disk {who} fills"),
            Action::DiskFails(who) => write!(f, "disk {who} fails"),
            Action::SnapshotsFail => f.write_str("snapshots fail"),
            Action::HandOver => f.write_str("hand over"),
            Action::Heal => f.write_str("heal"),
        }
    }
}

impl Action {
    /// Those whom it names.
    pub fn whom(&self) -> Vec<Who> {
        match self {
            Action::Crash(who)
            | Action::Restart(who)
            | Action::Pause(who)
            | Action::Slow(who, _)
            | Action::Isolate(who)
            | Action::ClockJumps(who, _)
            | Action::ClockDrifts(who, _)
            | Action::DiskSlows(who)
            | Action::DiskStalls(who)
            | Action::DiskFills(who)
            | Action::DiskFails(who) => vec![who.clone()],
            Action::Cut(a, b)
            | Action::CutOneWay(a, b)
            | Action::Flap(a, b)
            | Action::Reset(a, b) => vec![a.clone(), b.clone()],
            Action::Split(groups) => groups.iter().flatten().cloned().map(Who::Named).collect(),
            Action::Lose(_)
            | Action::Duplicate(_)
            | Action::Reorder(_)
            | Action::Delay(..)
            | Action::SnapshotsFail
            | Action::HandOver
            | Action::Heal => vec![],
        }
    }
}

/// So many of these are one percent.
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
