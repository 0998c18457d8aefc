//! The blows that there are.

use std::{fmt, time::Duration};

use super::write_span;

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
