//! The kinds of trouble that chance may pick, and how it makes blows of them.

use std::time::Duration;

use super::{World, happening::Happening, member::Number};
use crate::{
    engine::{Dice, ms},
    faults::{Action, Step, Who},
};

/// After so many turns a fault has found somebody to hit.
const TURNS_ENOUGH: u64 = 4;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Crash,
    CrashAll,
    /// One direction between two members.
    CutOneWay,
    /// Both directions between two members, who still reach the others.
    CutPair,
    /// One member from all others.
    Isolate,
    /// The cluster in two.
    Split,
    /// A link that comes and goes.
    Flap,
    Pause,
    Slow,
    SlowDisk,
    StalledDisk,
    FullDisk,
    FailingDisk,
    Reset,
    Loss,
    Duplicates,
    Reordering,
    SlowNet,
    SnapshotFailure,
    HandOver,
    ClockDrift,
    ClockJump,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 22] = [
        Fault::Crash,
        Fault::CrashAll,
        Fault::CutOneWay,
        Fault::CutPair,
        Fault::Isolate,
        Fault::Split,
        Fault::Flap,
        Fault::Pause,
        Fault::Slow,
        Fault::SlowDisk,
        Fault::StalledDisk,
        Fault::FullDisk,
        Fault::FailingDisk,
        Fault::Reset,
        Fault::Loss,
        Fault::Duplicates,
        Fault::Reordering,
        Fault::SlowNet,
        Fault::SnapshotFailure,
        Fault::HandOver,
        Fault::ClockDrift,
        Fault::ClockJump,
    ];

    /// What counts as its having struck.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Crash => "crash",
            Fault::CrashAll => "crash_all",
            Fault::CutOneWay => "cut_one_way",
            Fault::CutPair => "cut",
            Fault::Isolate => "isolate",
            Fault::Split => "split",
            Fault::Flap => "flap",
            Fault::Pause => "pause",
            Fault::Slow => "slow",
            Fault::SlowDisk => "disk_slows",
            Fault::StalledDisk => "disk_stalls",
            Fault::FullDisk => "disk_full",
            Fault::FailingDisk => "disk_failed",
            Fault::Reset => "reset",
            Fault::Loss => "loss",
            Fault::Duplicates => "duplicate",
            Fault::Reordering => "reorder",
            Fault::SlowNet => "delay",
            Fault::SnapshotFailure => "snapshot_failure",
            Fault::HandOver => "hand_over",
            Fault::ClockDrift => "clock_drift",
            Fault::ClockJump => "clock_jump",
        }
    }

    /// Felt only if something happens meanwhile: a message to lose, a write to refuse, a snapshot.
    fn needs_luck(self) -> bool {
        matches!(
            self,
            Fault::FullDisk
                | Fault::FailingDisk
                | Fault::Loss
                | Fault::Duplicates
                | Fault::Reordering
                | Fault::SnapshotFailure
        )
    }

    /// The kind of trouble that a blow of a script is; none if it mends something.
    pub fn of(action: &Action) -> Option<Fault> {
        Some(match action {
            Action::Crash(_) => Fault::Crash,
            Action::Pause(_) => Fault::Pause,
            Action::Slow(..) => Fault::Slow,
            Action::Cut(..) => Fault::CutPair,
            Action::CutOneWay(..) => Fault::CutOneWay,
            Action::Isolate(_) => Fault::Isolate,
            Action::Split(_) => Fault::Split,
            Action::Flap(..) => Fault::Flap,
            Action::Reset(..) => Fault::Reset,
            Action::Lose(_) => Fault::Loss,
            Action::Duplicate(_) => Fault::Duplicates,
            Action::Reorder(_) => Fault::Reordering,
            Action::Delay(..) => Fault::SlowNet,
            Action::ClockJumps(..) => Fault::ClockJump,
            Action::ClockDrifts(..) => Fault::ClockDrift,
            Action::DiskSlows(_) => Fault::SlowDisk,
            Action::DiskStalls(_) => Fault::StalledDisk,
            Action::DiskFills(_) => Fault::FullDisk,
            Action::DiskFails(_) => Fault::FailingDisk,
            Action::SnapshotsFail => Fault::SnapshotFailure,
            Action::HandOver => Fault::HandOver,
            Action::Restart(_) | Action::Heal => return None,
        })
    }

    /// What this kind of trouble is today: whom it hits, and for how long.
    fn draw(self, at: Duration, members: &[Number], dice: &mut Dice) -> Vec<Step> {
        let named = |member: Number| Who::Named(format!("m{member}"));
        let pick = |dice: &mut Dice| *dice.pick(members).expect("a cluster has members");
        let one = pick(dice);
        let others: Vec<Number> = members.iter().copied().filter(|other| *other != one).collect();
        let other = *dice.pick(&others).unwrap_or(&one);
        let lasts = dice.duration(ms(50), ms(2500));
        let pair = || (named(one), named(other));
        let action = match self {
            Fault::Crash => Action::Crash(named(one)),
            Fault::CrashAll => {
                let mut crash = |member: &Number| {
                    let lasts = Some(dice.duration(ms(1), ms(400)));
                    Step { at, action: Action::Crash(named(*member)), lasts }
                };
                return members.iter().map(&mut crash).collect();
            }
            Fault::CutOneWay | Fault::CutPair | Fault::Flap | Fault::Reset if one == other => {
                return vec![];
            }
            Fault::CutOneWay => Action::CutOneWay(pair().0, pair().1),
            Fault::CutPair => Action::Cut(pair().0, pair().1),
            Fault::Flap => Action::Flap(pair().0, pair().1),
            Fault::Reset => {
                let action = Action::Reset(pair().0, pair().1);
                return vec![Step { at, action, lasts: None }];
            }
            Fault::Isolate => Action::Isolate(named(one)),
            Fault::Split => {
                let mut left: Vec<String> = members.iter().map(|m| format!("m{m}")).collect();
                if left.len() < 2 {
                    return vec![];
                }
                dice.shuffle(&mut left);
                let right = left.split_off(1 + dice.below(left.len() as u64 - 1) as usize);
                Action::Split(vec![left, right])
            }
            Fault::Pause => Action::Pause(named(one)),
            Fault::Slow => Action::Slow(named(one), dice.duration(ms(1), ms(20))),
            Fault::SlowDisk => Action::DiskSlows(named(one)),
            Fault::StalledDisk => Action::DiskStalls(named(one)),
            Fault::FullDisk => Action::DiskFills(named(one)),
            Fault::FailingDisk => Action::DiskFails(named(one)),
            Fault::Loss => Action::Lose(100),
            Fault::Duplicates => Action::Duplicate(100),
            Fault::Reordering => {
                let slow = Action::Delay(ms(0), ms(20));
                return vec![
                    Step { at, action: slow, lasts: Some(lasts) },
                    Step { at, action: Action::Reorder(500), lasts: Some(lasts) },
                ];
            }
            Fault::SlowNet => Action::Delay(ms(5), ms(60)),
            Fault::SnapshotFailure => Action::SnapshotsFail,
            Fault::HandOver => Action::HandOver,
            // Holders and members together may be wrong by as much as the margin covers.
            Fault::ClockDrift => {
                Action::ClockDrifts(named(one), dice.below(20_001) as i64 - 10_000)
            }
            Fault::ClockJump => {
                let by = dice.below(7_200_000_000) as i64 - 3_600_000_000;
                let action = Action::ClockJumps(named(one), by);
                return vec![Step { at, action, lasts: None }];
            }
        };
        vec![Step { at, action, lasts: Some(lasts) }]
    }
}

impl World {
    /// From now on, chance picks among these, unless there is a script to follow.
    pub fn trouble(&mut self, faults: &[Fault]) {
        self.faults = faults.to_vec();
        self.rough = true;
        super::so_far::forget_blows();
        match self.script.clone() {
            Some(script) => {
                for step in script.steps {
                    let at = tenure_replica::Moment::after_start(step.at);
                    self.agenda.at(at, Happening::Blow(Box::new(step)));
                }
            }
            None => self.agenda.after(ms(300), Happening::Nemesis),
        }
    }

    pub(super) fn nemesis(&mut self) {
        if !self.rough {
            return;
        }
        let (at, members) = (self.now().since_start(), self.numbers());
        if let Some(fault) = self.deal() {
            let blows = fault.draw(at, &members, &mut self.fate);
            if fault == Fault::CrashAll {
                self.counts.count("crash_all");
            }
            blows.into_iter().for_each(|step| self.blow(step));
        }
        let next = self.fate.duration(ms(60), ms(900));
        self.agenda.after(next, Happening::Nemesis);
    }

    /// What should have struck by now and never did: of a script, all of it; of chance, what had its turns
    /// and needs no luck.
    pub fn never_struck(&self) -> Vec<&'static str> {
        let due: Vec<Fault> = match &self.script {
            Some(script) => {
                script.steps.iter().filter_map(|step| Fault::of(&step.action)).collect()
            }
            None if self.decks_dealt > TURNS_ENOUGH => {
                self.faults.iter().copied().filter(|fault| !fault.needs_luck()).collect()
            }
            None => vec![],
        };
        let mut never = self.counts.missing(due.into_iter().map(Fault::name));
        never.sort_unstable();
        never.dedup();
        never
    }

    /// The next kind of trouble. They are dealt like cards, so that none is missed for long.
    fn deal(&mut self) -> Option<Fault> {
        if self.deck.is_empty() {
            self.deck = self.faults.clone();
            self.fate.shuffle(&mut self.deck);
            self.decks_dealt += 1;
        }
        self.deck.pop()
    }
}
