//! Blows on a cluster. Every blow that lasts knows how it ends.

use std::time::Duration;

use super::{
    World,
    disk::{FAST, SLOW},
    happening::Happening,
    member::Number,
    so_far::note_blow,
};
use crate::{
    engine::{Event, Weather, ms},
    faults::{Action, Clears, Flapping, Script, Step, Who, across, between, spoil},
};

/// A link that flaps changes so often.
const FLAP: Duration = ms(70);
/// Whoever hands over has so long to do it before its process ends.
const HAND_OVER: Duration = ms(300);
/// What lasts, and nobody says for how long.
const LONG: Duration = Duration::from_secs(3600);

/// How a blow ends.
#[derive(Clone, Debug)]
pub enum Undo {
    Mend(Vec<(Number, Number)>),
    FastDisk(Number),
    Unstall(Number),
    Unfill(Number),
    Fast(Number),
    TrueClock(Number, i64),
    FairWeather(Clears),
    SnapshotsSucceed,
    Flap(Flapping),
}

impl World {
    /// Follows a script instead of chance. It may name members that are yet to come, if any may.
    ///
    /// # Errors
    /// If it names somebody unknown.
    pub fn follow(&mut self, script: &Script, more_may_come: bool) -> Result<(), String> {
        let last = self.members.keys().next_back().copied().unwrap_or_default();
        let here =
            |name: &str| number(name).is_some_and(|at| at > 0 && (more_may_come || at <= last));
        let known = |who: &Who| match who {
            Who::Named(name) if !here(name) => {
                Err(format!("there is no {name} here: members are called m1 to m{last}"))
            }
            _ => Ok(()),
        };
        for step in &script.steps {
            step.action.whom().into_iter().try_for_each(|who| known(&who))?;
        }
        self.script = Some(script.clone());
        Ok(())
    }

    /// A blow falls, and is noted.
    pub fn blow(&mut self, step: Step) {
        if !self.rough {
            return;
        }
        self.trace.event(self.agenda.now(), || {
            Event::new("fault", format!("** {}", step.action))
                .with("action", step.action.to_string())
                .with("lasts", step.lasts.map(|lasts| lasts.as_micros() as u64))
        });
        self.strike(&step.action, step.lasts.unwrap_or(LONG));
        note_blow(step);
    }

    pub fn strike(&mut self, action: &Action, lasts: Duration) {
        match action {
            Action::Crash(who) => {
                // Who is down already is started again, too.
                let all = self.whom(who);
                self.whom_running(who, "crash");
                all.into_iter().for_each(|one| self.crash_and_restart(one, lasts));
            }
            Action::Restart(who) => self.whom(who).into_iter().for_each(|one| self.start(one)),
            Action::Pause(who) => {
                let hit = self.whom_running(who, "pause");
                hit.into_iter().for_each(|one| self.pause(one, lasts));
            }
            Action::Slow(who, by) => {
                for one in self.whom_running(who, "slow") {
                    self.member_mut(one).slow = *by;
                    self.agenda.after(lasts, Happening::Undo(Undo::Fast(one)));
                }
            }
            Action::Cut(a, b) => {
                let links = self.between(a, b, true);
                self.cut(links, lasts);
                self.counts.count("cut");
            }
            Action::CutOneWay(a, b) => {
                let links = self.between(a, b, false);
                self.cut(links, lasts);
                self.counts.count("cut_one_way");
            }
            Action::Isolate(who) => {
                let links = self.between(who, &Who::All, true);
                self.cut(links, lasts);
                self.counts.count("isolate");
            }
            Action::Split(groups) => {
                self.split(groups, lasts);
                self.counts.count("split");
            }
            Action::Flap(a, b) => {
                for ends in self.between(a, b, false) {
                    self.undo(Undo::Flap(Flapping { ends, cuts: true, every: FLAP, left: lasts }));
                }
                self.counts.count("flap");
            }
            Action::Reset(a, b) => {
                self.between(a, b, false).into_iter().for_each(|(a, b)| self.reset(a, b));
                self.counts.count("reset");
            }
            Action::Lose(_) | Action::Duplicate(_) | Action::Reorder(_) | Action::Delay(..) => {
                if matches!(action, Action::Delay(..)) {
                    self.counts.count("delay");
                }
                if let Some(clears) = spoil(&mut self.net.links.weather, action) {
                    self.agenda.after(lasts, Happening::Undo(Undo::FairWeather(clears)));
                }
            }
            Action::ClockJumps(who, by) => {
                self.whom(who).into_iter().for_each(|one| self.member_mut(one).clock.jump(*by));
                self.counts.count("clock_jump");
            }
            Action::ClockDrifts(who, ppm) => {
                let now = self.now();
                for one in self.whom(who) {
                    let before = self.member_mut(one).clock.ppm();
                    self.member_mut(one).clock.drift(now, *ppm);
                    self.agenda.after(lasts, Happening::Undo(Undo::TrueClock(one, before)));
                }
                self.counts.count("clock_drift");
            }
            Action::DiskSlows(_)
            | Action::DiskStalls(_)
            | Action::DiskFills(_)
            | Action::DiskFails(_)
            | Action::SnapshotsFail => self.spoil_disk(action, lasts),
            Action::HandOver => {
                let Some(leader) = self.leader() else { return };
                self.hand_over(leader);
                // It is stopping: what it does not manage until then is lost.
                let life = self.members[&leader].life;
                self.agenda.after(HAND_OVER, Happening::Crash { member: leader, life });
                let back = HAND_OVER + ms(50) + lasts / 4;
                self.agenda.after(back, Happening::Start(leader));
                self.counts.count("hand_over");
            }
            Action::Heal => self.mend_everything(),
        }
    }

    fn spoil_disk(&mut self, action: &Action, lasts: Duration) {
        match action {
            Action::DiskSlows(who) => {
                for one in self.whom_running(who, "disk_slows") {
                    self.member_mut(one).disk.flush = SLOW;
                    self.agenda.after(lasts, Happening::Undo(Undo::FastDisk(one)));
                }
            }
            Action::DiskStalls(who) => {
                let hit = self.whom_running(who, "disk_stalls");
                hit.into_iter().for_each(|one| self.stall_disk(one, lasts));
            }
            Action::DiskFills(who) => {
                for one in self.whom(who) {
                    self.member_mut(one).disk.full = true;
                    self.agenda.after(lasts, Happening::Undo(Undo::Unfill(one)));
                }
            }
            Action::DiskFails(who) => {
                for one in self.whom(who) {
                    self.member_mut(one).disk.fails = true;
                    // Somebody replaces the cable and starts it again.
                    self.agenda.after(lasts, Happening::Start(one));
                }
            }
            Action::SnapshotsFail => {
                self.snapshot_failures = 500;
                self.agenda.after(lasts, Happening::Undo(Undo::SnapshotsSucceed));
            }
            _ => {}
        }
    }

    fn split(&mut self, groups: &[Vec<String>], lasts: Duration) {
        let numbers = |group: &Vec<String>| -> Vec<Number> {
            group.iter().filter_map(|name| number(name)).collect()
        };
        let groups: Vec<Vec<Number>> = groups.iter().map(numbers).collect();
        self.cut(across(&groups), lasts);
    }

    /// Those whom a name means now and whose process runs. It counts as felt if there are any.
    fn whom_running(&mut self, who: &Who, felt: &'static str) -> Vec<Number> {
        let mut hit = self.whom(who);
        hit.retain(|one| self.members[one].process.is_some());
        if !hit.is_empty() {
            self.counts.count(felt);
        }
        hit
    }

    /// Those whom a name means now, as far as there are any.
    fn whom(&self, who: &Who) -> Vec<Number> {
        match who {
            Who::Named(name) => {
                number(name).filter(|one| self.members.contains_key(one)).into_iter().collect()
            }
            Who::Leader => self.leader().into_iter().collect(),
            Who::All => self.numbers(),
        }
    }

    fn between(&self, a: &Who, b: &Who, both: bool) -> Vec<(Number, Number)> {
        between(&self.whom(a), &self.whom(b), both)
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

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Mend(links) => {
                links.into_iter().for_each(|(from, to)| self.net.links.mend(from, to));
            }
            Undo::FastDisk(member) => self.member_mut(member).disk.flush = FAST,
            Undo::Unstall(member) => {
                let disk = &mut self.member_mut(member).disk;
                disk.stalls = disk.stalls.saturating_sub(1);
            }
            Undo::Unfill(member) => {
                self.member_mut(member).disk.full = false;
                self.start(member);
            }
            Undo::Fast(member) => self.member_mut(member).slow = Duration::ZERO,
            Undo::TrueClock(member, ppm) => {
                let now = self.now();
                self.member_mut(member).clock.drift(now, ppm);
            }
            Undo::FairWeather(end) => end(&mut self.net.links.weather),
            Undo::SnapshotsSucceed => self.snapshot_failures = 0,
            Undo::Flap(flapping) => {
                let next = flapping.turn(&mut self.net.links);
                // When all is well it is mended once more, and stays so.
                if let Some(next) = next.filter(|next| self.rough || !next.cuts) {
                    self.agenda.after(FLAP, Happening::Undo(Undo::Flap(next)));
                }
            }
        }
    }

    /// Everything is well from now on, and everybody is there.
    pub fn heal(&mut self) {
        self.rough = false;
        self.mend_everything();
        self.trace.event(self.agenda.now(), || Event::new("heal", "** all is well"));
    }

    fn mend_everything(&mut self) {
        self.net.links.mend_all();
        self.net.links.weather = Weather::default();
        self.snapshot_failures = 0;
        for number in self.numbers() {
            let member = self.member_mut(number);
            member.disk.flush = FAST;
            member.disk.stalls = 0;
            member.disk.full = false;
            member.disk.fails = false;
            member.slow = Duration::ZERO;
            let life = member.life;
            if let Some(process) = member.process.as_mut().filter(|process| process.pauses > 0) {
                process.pauses = 1;
                self.resume(number, life);
            }
            self.start(number);
        }
    }

    pub fn member_mut(&mut self, number: Number) -> &mut super::member::Member {
        self.members.get_mut(&number).expect("only members have faults")
    }
}

/// The member that is called so.
fn number(name: &str) -> Option<Number> {
    name.strip_prefix('m')?.parse().ok()
}
