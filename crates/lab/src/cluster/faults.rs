//! The kinds of faults, and how chance draws faults of each kind.

use std::time::Duration;

use tenure_replica::Moment;

use super::{World, event::WorldEvent, member::MemberNumber, progress::clear_faults};
use crate::{
    engine::{Dice, ms},
    faults::{Action, LinkFault, ScriptStep, Target},
};

/// After this many rounds every kind of fault must have had an effect.
const TURNS_ENOUGH: u64 = 4;

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
pub struct FaultKind {
    /// The name under which its effect is counted.
    pub name: &'static str,
    draw: fn(&mut FaultDraw<'_>) -> Vec<ScriptStep>,
}

macro_rules! fault_kinds {
    ($($(#[$about:meta])* $kind:ident = $name:literal, $draw:expr;)*) => {
        impl FaultKind {
            $($(#[$about])* pub const $kind: FaultKind = FaultKind { name: $name, draw: $draw };)*

            pub const ALL: &[FaultKind] = &[$(FaultKind::$kind),*];
        }
    };
}

fault_kinds! {
    CRASH = "crash", |draw| draw.on_one(Action::Crash);
    CRASH_ALL = "crash_all", |draw| {
        let at = draw.at;
        let mut crash = |member: &MemberNumber| {
            let lasts = Some(draw.dice.duration(ms(1), ms(400)));
            ScriptStep { at, action: Action::Crash(named(*member)), lasts }
        };
        draw.members.iter().map(&mut crash).collect()
    };
    CUT_ONE_WAY = "cut_one_way", |draw| draw.on_pair(Action::CutOneWay);
    /// The two still reach the others.
    CUT_PAIR = "cut", |draw| draw.on_pair(Action::Cut);
    ISOLATE = "isolate", |draw| draw.on_one(Action::Isolate);
    SPLIT = "split", |draw| {
        let mut left: Vec<String> = draw.members.iter().map(|m| format!("m{m}")).collect();
        if left.len() < 2 {
            return vec![];
        }
        draw.dice.shuffle(&mut left);
        let right = left.split_off(1 + draw.dice.below(left.len() as u64 - 1) as usize);
        draw.steps([Action::Split(vec![left, right])])
    };
    FLAP = "flap", |draw| draw.on_pair(Action::Flap);
    PAUSE = "pause", |draw| draw.on_one(Action::Pause);
    SLOW = "slow", |draw| {
        let by = draw.dice.duration(ms(1), ms(20));
        draw.on_one(|one| Action::Slow(one, by))
    };
    SLOW_DISK = "disk_slows", |draw| draw.on_one(Action::DiskSlows);
    STALLED_DISK = "disk_stalls", |draw| draw.on_one(Action::DiskStalls);
    FULL_DISK = "disk_full", |draw| draw.on_one(Action::DiskFills);
    FAILING_DISK = "disk_failed", |draw| draw.on_one(Action::DiskFails);
    BIT_ROT = "disk_rots", |draw| draw.on_one(Action::DiskRots);
    MISPLACED = "disk_misplaces", |draw| draw.on_one(Action::DiskMisplaces);
    POWER_LOSS = "power_fails", |draw| draw.on_one(Action::PowerFails);
    RESET = "reset", |draw| draw.forever().on_pair(Action::Reset);
    LOSS = "loss", |draw| draw.steps([Action::Network(LinkFault::Lose(100))]);
    DUPLICATES = "duplicate", |draw| draw.steps([Action::Network(LinkFault::Duplicate(100))]);
    // Messages with equal delays arrive in order.
    REORDERING = "reorder", |draw| {
        let faults = [LinkFault::Delay(ms(0), ms(20)), LinkFault::Reorder(500)];
        draw.steps(faults.map(Action::Network))
    };
    SLOW_NET = "delay", |draw| draw.steps([Action::Network(LinkFault::Delay(ms(5), ms(60)))]);
    SNAPSHOT_FAILURE = "snapshot_failure", |draw| draw.steps([Action::SnapshotsFail]);
    HAND_OVER = "hand_over", |draw| draw.steps([Action::HandOver]);
    /// Clocks of holders and members together may be wrong by as much as the margin covers.
    CLOCK_DRIFT = "clock_drift", |draw| {
        let ppm = draw.dice.below(20_001) as i64 - 10_000;
        draw.on_one(|one| Action::ClockDrifts(one, ppm))
    };
    CLOCK_JUMP = "clock_jump", |draw| {
        let by = draw.dice.below(7_200_000_000) as i64 - 3_600_000_000;
        draw.forever().on_one(|one| Action::ClockJumps(one, by))
    };
    ONE_WAY_RESET = "reset_one_way", |draw| draw.forever().on_pair(Action::ResetOneWay);
    SLOW_LINK = "link_delay", |draw| {
        draw.short_or_long().share();
        let by = draw.delay(ms(150));
        draw.on_pair(|from, to| Action::Link(from, to, LinkFault::Delay(by.0, by.1)))
    };
    LOSSY_LINK = "link_loss", |draw| {
        let share = draw.short_or_long().share();
        draw.on_pair(|from, to| Action::Link(from, to, LinkFault::Lose(share)))
    };
    REPEATING_LINK = "link_duplicate", |draw| {
        let share = draw.short_or_long().share();
        draw.on_pair(|from, to| Action::Link(from, to, LinkFault::Duplicate(share)))
    };
    REORDERING_LINK = "link_reorder", |draw| {
        let share = 500 + draw.short_or_long().share();
        let faults = [LinkFault::Delay(ms(0), ms(60)), LinkFault::Reorder(share)];
        let step = |fault| draw.on_pair(|from, to| Action::Link(from, to, fault));
        faults.into_iter().flat_map(step).collect()
    };
    /// Every flush of one member takes longer, by a random time.
    SLOWER_DISK = "disk_slows_by", |draw| {
        let by = draw.delay(ms(100));
        draw.short_or_long().on_one(|one| Action::DiskSlowsBy(one, by))
    };
}

/// Kinds whose effect depends on what happens meanwhile: a message to lose, a write to refuse, a snapshot. Disks
/// are damaged only while all others are intact.
const BY_LUCK: [&str; 12] = [
    FaultKind::FULL_DISK.name,
    FaultKind::FAILING_DISK.name,
    FaultKind::BIT_ROT.name,
    FaultKind::MISPLACED.name,
    FaultKind::POWER_LOSS.name,
    FaultKind::LOSS.name,
    FaultKind::DUPLICATES.name,
    FaultKind::REORDERING.name,
    FaultKind::LOSSY_LINK.name,
    FaultKind::REPEATING_LINK.name,
    FaultKind::REORDERING_LINK.name,
    FaultKind::SNAPSHOT_FAILURE.name,
];

impl FaultKind {
    /// Draws faults of this kind: their targets, and how long they last.
    fn draw(self, at: Duration, members: &[MemberNumber], dice: &mut Dice) -> Vec<ScriptStep> {
        let one = *dice.pick(members).expect("a cluster has members");
        let others: Vec<MemberNumber> =
            members.iter().copied().filter(|other| *other != one).collect();
        let other = *dice.pick(&others).unwrap_or(&one);
        let lasts = Some(dice.duration(ms(50), ms(2500)));
        (self.draw)(&mut FaultDraw { at, members, one, other, lasts, dice })
    }
}

/// What chance draws for a fault of any kind, and what it draws from.
#[derive(Debug)]
struct FaultDraw<'a> {
    at: Duration,
    members: &'a [MemberNumber],
    one: MemberNumber,
    /// Another one, unless there is none.
    other: MemberNumber,
    lasts: Option<Duration>,
    dice: &'a mut Dice,
}

impl FaultDraw<'_> {
    fn steps(&self, actions: impl IntoIterator<Item = Action>) -> Vec<ScriptStep> {
        let (at, lasts) = (self.at, self.lasts);
        actions.into_iter().map(|action| ScriptStep { at, action, lasts }).collect()
    }

    fn on_one(&self, action: impl FnOnce(Target) -> Action) -> Vec<ScriptStep> {
        self.steps([action(named(self.one))])
    }

    fn on_pair(&self, action: impl FnOnce(Target, Target) -> Action) -> Vec<ScriptStep> {
        if self.one == self.other {
            return vec![];
        }
        self.steps([action(named(self.one), named(self.other))])
    }

    fn forever(&mut self) -> &mut Self {
        self.lasts = None;
        self
    }

    /// Faults of links and disks are short, or last as long as a run.
    fn short_or_long(&mut self) -> &mut Self {
        if self.dice.chance(300) {
            self.lasts = Some(self.dice.duration(ms(4000), ms(10_000)));
        }
        self
    }

    fn share(&mut self) -> u64 {
        self.dice.between(10, 500)
    }

    /// A short or a long delay, steady or not.
    fn delay(&mut self, longest: Duration) -> (Duration, Duration) {
        let most = longest / *self.dice.pick(&[1, 4, 16]).expect("there are three");
        let low = self.dice.duration(ms(1), most);
        (low, (low + self.dice.duration(ms(0), low)).min(longest))
    }
}

fn named(member: MemberNumber) -> Target {
    Target::Named(format!("m{member}"))
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
        clear_faults();
        match self.script.clone() {
            Some(script) => {
                for step in script.steps {
                    let at = Moment::after_start(step.at);
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
            let steps = fault.draw(at, &members, &mut self.fate);
            if fault.name == FaultKind::CRASH_ALL.name {
                self.counts.count(fault.name);
            }
            steps.into_iter().for_each(|step| self.inject_step(step));
        }
        let next = self.fate.duration(ms(60), ms(900));
        self.agenda.after(next, WorldEvent::Nemesis);
    }

    /// Faults that should have had an effect by now and had none: all of a script; of random ones, those that had
    /// enough turns and do not depend on luck.
    pub fn never_injected(&self) -> Vec<&'static str> {
        let due: Vec<&'static str> = match &self.script {
            Some(script) => {
                script.steps.iter().filter_map(|step| step.action.counted_as()).collect()
            }
            None if self.decks_dealt > TURNS_ENOUGH => {
                let names = self.faults.iter().map(|fault| fault.name);
                names.filter(|name| !BY_LUCK.contains(name)).collect()
            }
            None => vec![],
        };
        let mut never = self.counts.missing(due);
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
