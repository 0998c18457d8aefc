//! What goes wrong, by chance or on purpose. Every fault knows how it ends.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    cluster::{
        World,
        disk::{FAST, SLOW},
        happening::Happening,
        member::Number,
    },
    engine::{Weather, ms},
};

/// A kind of trouble that chance may pick.
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
    Pause,
    SlowDisk,
    StalledDisk,
    Reset,
    Loss,
    Duplicates,
    Reordering,
    SlowNet,
    SnapshotFailure,
    HandOver,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 16] = [
        Fault::Crash,
        Fault::CrashAll,
        Fault::CutOneWay,
        Fault::CutPair,
        Fault::Isolate,
        Fault::Split,
        Fault::Pause,
        Fault::SlowDisk,
        Fault::StalledDisk,
        Fault::Reset,
        Fault::Loss,
        Fault::Duplicates,
        Fault::Reordering,
        Fault::SlowNet,
        Fault::SnapshotFailure,
        Fault::HandOver,
    ];

    /// What counts as its having struck.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Crash => "crash",
            Fault::CrashAll => "crash_all",
            Fault::CutOneWay => "cut_one_way",
            Fault::CutPair => "cut_pair",
            Fault::Isolate => "isolate",
            Fault::Split => "split",
            Fault::Pause => "pause",
            Fault::SlowDisk => "slow_disk",
            Fault::StalledDisk => "stalled_disk",
            Fault::Reset => "reset",
            Fault::Loss => "loss",
            Fault::Duplicates => "duplicate",
            Fault::Reordering => "reorder",
            Fault::SlowNet => "slow_net",
            Fault::SnapshotFailure => "snapshot_failure",
            Fault::HandOver => "hand_over",
        }
    }
}

/// How a fault ends.
#[derive(Clone, Debug)]
pub enum Undo {
    Mend(Vec<(Number, Number)>),
    FastDisk(Number),
    Unstall(Number),
    FairWeather,
    SnapshotsSucceed,
}

impl World {
    /// From now on, chance picks among these.
    pub fn trouble(&mut self, faults: &[Fault]) {
        self.faults = faults.to_vec();
        self.rough = true;
        self.agenda.after(ms(300), Happening::Nemesis);
    }

    pub(super) fn nemesis(&mut self) {
        if !self.rough {
            return;
        }
        if let Some(fault) = { self.dice.pick(&self.faults).copied() } {
            self.strike(fault);
        }
        let next = self.dice.duration(ms(60), ms(900));
        self.agenda.after(next, Happening::Nemesis);
    }

    pub fn strike(&mut self, fault: Fault) {
        let all = self.numbers();
        let one = *self.dice.pick(&all).expect("a cluster has members");
        let other = *self.dice.pick(&all).expect("a cluster has members");
        let duration = self.dice.duration(ms(50), ms(2500));
        self.log(|| format!("fault {fault:?} at m{one} (m{other}) for {duration:?}"));
        match fault {
            Fault::Crash => self.crash_and_restart(one, duration),
            Fault::CrashAll => {
                for member in all {
                    let duration = self.dice.duration(ms(1), ms(400));
                    self.crash_and_restart(member, duration);
                }
            }
            Fault::CutOneWay if one != other => self.cut(vec![(one, other)], duration),
            Fault::CutPair if one != other => {
                self.cut(vec![(one, other), (other, one)], duration);
            }
            Fault::Isolate => {
                let others = all.iter().filter(|member| **member != one);
                self.cut(
                    others.flat_map(|other| [(one, *other), (*other, one)]).collect(),
                    duration,
                );
            }
            Fault::Split => {
                let side: BTreeMap<Number, bool> =
                    all.iter().map(|member| (*member, self.dice.chance(500))).collect();
                let across = |a: &Number, b: &Number| side[a] != side[b];
                let pairs = all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b)));
                self.cut(pairs.filter(|(a, b)| across(a, b)).collect(), duration);
            }
            Fault::Pause => {
                self.pause(one, duration);
            }
            Fault::SlowDisk => {
                self.member_mut(one).disk.flush = SLOW;
                self.agenda.after(duration, Happening::Undo(Undo::FastDisk(one)));
            }
            Fault::StalledDisk => self.stall_disk(one, duration),
            Fault::Reset if one != other => self.reset(one, other),
            Fault::Loss => self.weather(Weather { loss: 100, ..self.net.links.weather }, duration),
            Fault::Duplicates => {
                self.weather(Weather { duplicates: 100, ..self.net.links.weather }, duration);
            }
            Fault::Reordering => {
                let delay_max = ms(20);
                self.weather(
                    Weather { reordered: 500, delay_max, ..self.net.links.weather },
                    duration,
                );
            }
            Fault::SlowNet => {
                let (delay_min, delay_max) = (ms(5), ms(60));
                self.weather(Weather { delay_min, delay_max, ..self.net.links.weather }, duration);
            }
            Fault::SnapshotFailure => {
                self.snapshot_failures = 500;
                self.agenda.after(duration, Happening::Undo(Undo::SnapshotsSucceed));
                return;
            }
            Fault::HandOver => {
                let Some(leader) = self.leader() else { return };
                self.hand_over(leader);
                // It is stopping: what it does not manage until then is lost.
                let life = self.members[&leader].life;
                self.agenda.after(ms(300), Happening::Crash { member: leader, life });
                self.agenda.after(ms(350) + duration / 4, Happening::Start(leader));
            }
            Fault::CutOneWay | Fault::CutPair | Fault::Reset => return,
        }
        if !matches!(fault, Fault::Loss | Fault::Duplicates | Fault::Reordering) {
            self.counts.count(fault.name());
        }
    }

    pub fn hand_over(&mut self, number: Number) {
        self.hand_in(number, tenure_replica::Input::HandOver);
    }

    pub fn crash_and_restart(&mut self, number: Number, down_for: Duration) {
        self.crash(number);
        self.agenda.after(down_for, Happening::Start(number));
    }

    pub fn cut(&mut self, links: Vec<(Number, Number)>, duration: Duration) {
        for (from, to) in &links {
            self.net.links.cut(*from, *to);
        }
        self.agenda.after(duration, Happening::Undo(Undo::Mend(links)));
    }

    /// One member hears nobody and is heard by nobody; nobody is told.
    pub fn isolate(&mut self, number: Number) {
        for other in self.numbers().into_iter().filter(|other| *other != number) {
            self.net.links.cut(number, other);
            self.net.links.cut(other, number);
        }
    }

    pub fn stall_disk(&mut self, number: Number, duration: Duration) {
        self.member_mut(number).disk.stalls += 1;
        self.agenda.after(duration, Happening::Undo(Undo::Unstall(number)));
    }

    fn weather(&mut self, weather: Weather, duration: Duration) {
        self.net.links.weather = weather;
        self.agenda.after(duration, Happening::Undo(Undo::FairWeather));
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Mend(links) => {
                links.into_iter().for_each(|(from, to)| self.net.links.mend(from, to))
            }
            Undo::FastDisk(member) => self.member_mut(member).disk.flush = FAST,
            Undo::Unstall(member) => {
                let disk = &mut self.member_mut(member).disk;
                disk.stalls = disk.stalls.saturating_sub(1);
            }
            Undo::FairWeather => self.net.links.weather = Weather::default(),
            Undo::SnapshotsSucceed => self.snapshot_failures = 0,
        }
    }

    /// Everything is well from now on, and everybody is there.
    pub fn heal(&mut self) {
        self.rough = false;
        self.net.links.mend_all();
        self.net.links.weather = Weather::default();
        self.snapshot_failures = 0;
        for number in self.numbers() {
            let member = self.member_mut(number);
            member.disk.flush = FAST;
            member.disk.stalls = 0;
            let life = member.life;
            if let Some(process) = member.process.as_mut().filter(|process| process.pauses > 0) {
                process.pauses = 1;
                self.resume(number, life);
            }
            self.start(number);
        }
        self.log(|| "all is well".into());
    }

    pub fn member_mut(&mut self, number: Number) -> &mut super::member::Member {
        self.members.get_mut(&number).expect("only members have faults")
    }
}
