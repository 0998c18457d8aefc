//! The kinds of faults, and how chance draws faults of each kind.

use std::time::Duration;

use super::{World, event::WorldEvent, member::MemberNumber};
use crate::{
    engine::{Dice, ms},
    faults::{Action, ScriptStep, Target},
};

/// After this many rounds every kind of fault must have had an effect.
const TURNS_ENOUGH: u64 = 4;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    Crash,
    CrashAll,
    /// Cuts one direction between two members.
    CutOneWay,
    /// Cuts both directions between two members, which still reach the others.
    CutPair,
    /// Cuts one member off from all others.
    Isolate,
    /// Cuts the cluster in two.
    Split,
    /// A link that comes and goes.
    Flap,
    Pause,
    Slow,
    SlowDisk,
    StalledDisk,
    FullDisk,
    FailingDisk,
    /// Bits of a disk change while its member is down.
    BitRot,
    /// A sector is written to another's place.
    Misplaced,
    /// The power fails amid a disk operation.
    PowerLoss,
    Reset,
    Loss,
    Duplicates,
    Reordering,
    SlowNet,
    SnapshotFailure,
    HandOver,
    ClockDrift,
    ClockJump,
    /// Breaks the connection of one direction between two members.
    OneWayReset,
    /// One direction between two members takes longer.
    SlowLink,
    LossyLink,
    RepeatingLink,
    ReorderingLink,
    /// Every flush of one member takes longer, by a random time.
    SlowerDisk,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 31] = [
        FaultKind::Crash,
        FaultKind::CrashAll,
        FaultKind::CutOneWay,
        FaultKind::CutPair,
        FaultKind::Isolate,
        FaultKind::Split,
        FaultKind::Flap,
        FaultKind::Pause,
        FaultKind::Slow,
        FaultKind::SlowDisk,
        FaultKind::StalledDisk,
        FaultKind::FullDisk,
        FaultKind::FailingDisk,
        FaultKind::BitRot,
        FaultKind::Misplaced,
        FaultKind::PowerLoss,
        FaultKind::Reset,
        FaultKind::Loss,
        FaultKind::Duplicates,
        FaultKind::Reordering,
        FaultKind::SlowNet,
        FaultKind::SnapshotFailure,
        FaultKind::HandOver,
        FaultKind::ClockDrift,
        FaultKind::ClockJump,
        FaultKind::OneWayReset,
        FaultKind::SlowLink,
        FaultKind::LossyLink,
        FaultKind::RepeatingLink,
        FaultKind::ReorderingLink,
        FaultKind::SlowerDisk,
    ];

    /// The name under which its effect is counted.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Crash => "crash",
            FaultKind::CrashAll => "crash_all",
            FaultKind::CutOneWay => "cut_one_way",
            FaultKind::CutPair => "cut",
            FaultKind::Isolate => "isolate",
            FaultKind::Split => "split",
            FaultKind::Flap => "flap",
            FaultKind::Pause => "pause",
            FaultKind::Slow => "slow",
            FaultKind::SlowDisk => "disk_slows",
            FaultKind::StalledDisk => "disk_stalls",
            FaultKind::FullDisk => "disk_full",
            FaultKind::FailingDisk => "disk_failed",
            FaultKind::BitRot => "disk_rots",
            FaultKind::Misplaced => "disk_misplaces",
            FaultKind::PowerLoss => "power_fails",
            FaultKind::Reset => "reset",
            FaultKind::Loss => "loss",
            FaultKind::Duplicates => "duplicate",
            FaultKind::Reordering => "reorder",
            FaultKind::SlowNet => "delay",
            FaultKind::SnapshotFailure => "snapshot_failure",
            FaultKind::HandOver => "hand_over",
            FaultKind::ClockDrift => "clock_drift",
            FaultKind::ClockJump => "clock_jump",
            FaultKind::OneWayReset => "reset_one_way",
            FaultKind::SlowLink => "link_delay",
            FaultKind::LossyLink => "link_loss",
            FaultKind::RepeatingLink => "link_duplicate",
            FaultKind::ReorderingLink => "link_reorder",
            FaultKind::SlowerDisk => "disk_slows_by",
        }
    }

    /// Whether its effect depends on what happens meanwhile: a message to lose, a write to refuse, a snapshot. Disks
    /// are damaged only while all others are intact.
    fn needs_luck(self) -> bool {
        matches!(
            self,
            FaultKind::FullDisk
                | FaultKind::FailingDisk
                | FaultKind::BitRot
                | FaultKind::Misplaced
                | FaultKind::PowerLoss
                | FaultKind::Loss
                | FaultKind::Duplicates
                | FaultKind::Reordering
                | FaultKind::LossyLink
                | FaultKind::RepeatingLink
                | FaultKind::ReorderingLink
                | FaultKind::SnapshotFailure
        )
    }

    /// The kind of a script's fault; none if it ends faults.
    pub fn of(action: &Action) -> Option<FaultKind> {
        Some(match action {
            Action::Crash(_) => FaultKind::Crash,
            Action::Pause(_) => FaultKind::Pause,
            Action::Slow(..) => FaultKind::Slow,
            Action::Cut(..) => FaultKind::CutPair,
            Action::CutOneWay(..) => FaultKind::CutOneWay,
            Action::Isolate(_) => FaultKind::Isolate,
            Action::Split(_) => FaultKind::Split,
            Action::Flap(..) => FaultKind::Flap,
            Action::Reset(..) => FaultKind::Reset,
            Action::Lose(_) => FaultKind::Loss,
            Action::Duplicate(_) => FaultKind::Duplicates,
            Action::Reorder(_) => FaultKind::Reordering,
            Action::Delay(..) => FaultKind::SlowNet,
            Action::ClockJumps(..) => FaultKind::ClockJump,
            Action::ClockDrifts(..) => FaultKind::ClockDrift,
            Action::DiskSlows(_) => FaultKind::SlowDisk,
            Action::DiskStalls(_) => FaultKind::StalledDisk,
            Action::DiskFills(_) => FaultKind::FullDisk,
            Action::DiskFails(_) => FaultKind::FailingDisk,
            Action::DiskRots(_) => FaultKind::BitRot,
            Action::DiskMisplaces(_) => FaultKind::Misplaced,
            Action::PowerFails(_) => FaultKind::PowerLoss,
            Action::SnapshotsFail => FaultKind::SnapshotFailure,
            Action::HandOver => FaultKind::HandOver,
            Action::ResetOneWay(..) => FaultKind::OneWayReset,
            Action::LoseOn(..) => FaultKind::LossyLink,
            Action::DuplicateOn(..) => FaultKind::RepeatingLink,
            Action::ReorderOn(..) => FaultKind::ReorderingLink,
            Action::DelayOn(..) => FaultKind::SlowLink,
            Action::DiskSlowsBy(..) => FaultKind::SlowerDisk,
            Action::Restart(_) | Action::Heal => return None,
        })
    }

    /// Draws faults of this kind: their targets, and how long they last.
    fn draw(self, at: Duration, members: &[MemberNumber], dice: &mut Dice) -> Vec<ScriptStep> {
        let named = |member: MemberNumber| Target::Named(format!("m{member}"));
        let pick = |dice: &mut Dice| *dice.pick(members).expect("a cluster has members");
        let one = pick(dice);
        let others: Vec<MemberNumber> =
            members.iter().copied().filter(|other| *other != one).collect();
        let other = *dice.pick(&others).unwrap_or(&one);
        let lasts = dice.duration(ms(50), ms(2500));
        let pair = || (named(one), named(other));
        let action = match self {
            FaultKind::Crash => Action::Crash(named(one)),
            FaultKind::CrashAll => {
                let mut crash = |member: &MemberNumber| {
                    let lasts = Some(dice.duration(ms(1), ms(400)));
                    ScriptStep { at, action: Action::Crash(named(*member)), lasts }
                };
                return members.iter().map(&mut crash).collect();
            }
            FaultKind::CutOneWay | FaultKind::CutPair | FaultKind::Flap | FaultKind::Reset
                if one == other =>
            {
                return vec![];
            }
            FaultKind::OneWayReset
            | FaultKind::SlowLink
            | FaultKind::LossyLink
            | FaultKind::RepeatingLink
            | FaultKind::ReorderingLink => {
                let steps = self.draw_on_link(named(one), named(other), lasts, dice);
                let steps = steps.into_iter().filter(|_| one != other);
                return steps.map(|(action, lasts)| ScriptStep { at, action, lasts }).collect();
            }
            FaultKind::SlowerDisk => {
                let action = Action::DiskSlowsBy(named(one), draw_delay(ms(100), dice));
                return vec![ScriptStep { at, action, lasts: Some(draw_lasts(lasts, dice)) }];
            }
            FaultKind::CutOneWay => Action::CutOneWay(pair().0, pair().1),
            FaultKind::CutPair => Action::Cut(pair().0, pair().1),
            FaultKind::Flap => Action::Flap(pair().0, pair().1),
            FaultKind::Reset => {
                let action = Action::Reset(pair().0, pair().1);
                return vec![ScriptStep { at, action, lasts: None }];
            }
            FaultKind::Isolate => Action::Isolate(named(one)),
            FaultKind::Split => {
                let mut left: Vec<String> = members.iter().map(|m| format!("m{m}")).collect();
                if left.len() < 2 {
                    return vec![];
                }
                dice.shuffle(&mut left);
                let right = left.split_off(1 + dice.below(left.len() as u64 - 1) as usize);
                Action::Split(vec![left, right])
            }
            FaultKind::Pause => Action::Pause(named(one)),
            FaultKind::Slow => Action::Slow(named(one), dice.duration(ms(1), ms(20))),
            FaultKind::SlowDisk => Action::DiskSlows(named(one)),
            FaultKind::StalledDisk => Action::DiskStalls(named(one)),
            FaultKind::FullDisk => Action::DiskFills(named(one)),
            FaultKind::FailingDisk => Action::DiskFails(named(one)),
            FaultKind::BitRot => Action::DiskRots(named(one)),
            FaultKind::Misplaced => Action::DiskMisplaces(named(one)),
            FaultKind::PowerLoss => Action::PowerFails(named(one)),
            FaultKind::Loss => Action::Lose(100),
            FaultKind::Duplicates => Action::Duplicate(100),
            FaultKind::Reordering => {
                let slow = Action::Delay(ms(0), ms(20));
                return vec![
                    ScriptStep { at, action: slow, lasts: Some(lasts) },
                    ScriptStep { at, action: Action::Reorder(500), lasts: Some(lasts) },
                ];
            }
            FaultKind::SlowNet => Action::Delay(ms(5), ms(60)),
            FaultKind::SnapshotFailure => Action::SnapshotsFail,
            FaultKind::HandOver => Action::HandOver,
            // Clocks of holders and members together may be wrong by as much as the margin covers.
            FaultKind::ClockDrift => {
                Action::ClockDrifts(named(one), dice.below(20_001) as i64 - 10_000)
            }
            FaultKind::ClockJump => {
                let by = dice.below(7_200_000_000) as i64 - 3_600_000_000;
                let action = Action::ClockJumps(named(one), by);
                return vec![ScriptStep { at, action, lasts: None }];
            }
        };
        vec![ScriptStep { at, action, lasts: Some(lasts) }]
    }

    /// Draws a fault of the link from one member to another.
    fn draw_on_link(
        self,
        from: Target,
        to: Target,
        lasts: Duration,
        dice: &mut Dice,
    ) -> Vec<(Action, Option<Duration>)> {
        if self == FaultKind::OneWayReset {
            return vec![(Action::ResetOneWay(from, to), None)];
        }
        let lasts = Some(draw_lasts(lasts, dice));
        let share = dice.between(10, 500);
        let action = match self {
            FaultKind::LossyLink => Action::LoseOn(from, to, share),
            FaultKind::RepeatingLink => Action::DuplicateOn(from, to, share),
            FaultKind::ReorderingLink => {
                // Messages with equal delays arrive in order.
                let slow = Action::DelayOn(from.clone(), to.clone(), (ms(0), ms(60)));
                return vec![(slow, lasts), (Action::ReorderOn(from, to, 500 + share), lasts)];
            }
            _ => Action::DelayOn(from, to, draw_delay(ms(150), dice)),
        };
        vec![(action, lasts)]
    }
}

/// Draws a short or a long delay, steady or not.
fn draw_delay(longest: Duration, dice: &mut Dice) -> (Duration, Duration) {
    let most = longest / *dice.pick(&[1, 4, 16]).expect("there are three");
    let low = dice.duration(ms(1), most);
    (low, (low + dice.duration(ms(0), low)).min(longest))
}

/// Faults of links and disks are short, or last as long as a run.
fn draw_lasts(short: Duration, dice: &mut Dice) -> Duration {
    if dice.chance(300) { dice.duration(ms(4000), ms(10_000)) } else { short }
}

impl World {
    /// Enables these kinds of faults, unless the run has a script. Every other run enables a random part of them only:
    /// where everything happens, nothing lasts.
    pub fn start_faults(&mut self, faults: &[FaultKind]) {
        self.faults = faults.to_vec();
        if faults.len() > 1 && self.fate.chance(500) {
            self.fate.shuffle(&mut self.faults);
            let part = 1 + self.fate.below(faults.len() as u64 - 1) as usize;
            self.faults.truncate(part);
        }
        self.rough = true;
        super::progress::clear_faults();
        match self.script.clone() {
            Some(script) => {
                for step in script.steps {
                    let at = tenure_replica::Moment::after_start(step.at);
                    self.agenda.at(at, WorldEvent::Inject(Box::new(step)));
                }
            }
            None => self.agenda.after(ms(300), WorldEvent::Nemesis),
        }
    }

    pub(super) fn nemesis(&mut self) {
        if !self.rough {
            return;
        }
        let (at, members) = (self.now().since_start(), self.numbers());
        if let Some(fault) = self.deal() {
            let faults_injected = fault.draw(at, &members, &mut self.fate);
            if fault == FaultKind::CrashAll {
                self.counts.count("crash_all");
            }
            faults_injected.into_iter().for_each(|step| self.inject_step(step));
        }
        let next = self.fate.duration(ms(60), ms(900));
        self.agenda.after(next, WorldEvent::Nemesis);
    }

    /// Faults that should have had an effect by now and had none: all of a script; of random ones, those that had
    /// enough turns and do not depend on luck.
    pub fn never_injected(&self) -> Vec<&'static str> {
        let due: Vec<FaultKind> = match &self.script {
            Some(script) => {
                script.steps.iter().filter_map(|step| FaultKind::of(&step.action)).collect()
            }
            None if self.decks_dealt > TURNS_ENOUGH => {
                self.faults.iter().copied().filter(|fault| !fault.needs_luck()).collect()
            }
            None => vec![],
        };
        let mut never = self.counts.missing(due.into_iter().map(FaultKind::name));
        never.sort_unstable();
        never.dedup();
        never
    }

    /// The next kind of fault. Kinds are dealt like cards, so that none is missed for long.
    fn deal(&mut self) -> Option<FaultKind> {
        if self.deck.is_empty() {
            self.deck = self.faults.clone();
            self.fate.shuffle(&mut self.deck);
            self.decks_dealt += 1;
        }
        self.deck.pop()
    }
}
