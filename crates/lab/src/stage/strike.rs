//! Blows on a stage.

use std::time::Duration;

use super::{NodeId, STORAGE, Stage, Word, node::Happening};
use crate::{
    engine::{Event, Weather, ms},
    faults::{Action, Clears, Flapping, Script, Who, across, between, spoil, write_span},
};

/// A link that flaps changes so often.
const FLAP: Duration = ms(150);

/// How a blow ends.
#[derive(Clone, Debug)]
pub(super) enum Undo {
    Mend(Vec<(NodeId, NodeId)>),
    FairWeather(Clears),
    Fast(NodeId),
    Flap(Flapping),
}

impl<M: Word> Stage<M> {
    /// These blows fall when their time comes.
    pub fn follow(&mut self, script: &Script) -> Result<(), String> {
        for step in &script.steps {
            self.check(&step.action)?;
            let at = self.script.len();
            self.script.push(step.clone());
            let due = tenure_replica::Moment::after_start(step.at);
            self.agenda.at(due, Happening::Blow(at));
        }
        Ok(())
    }

    /// Whether there is anybody to hit, and anything to hit it with.
    fn check(&self, action: &Action) -> Result<(), String> {
        let known = |who: &Who| match who {
            Who::Named(name) if !self.names.contains(name) => {
                Err(format!("there is no {name} here, only {}", self.names.join(", ")))
            }
            _ => Ok(()),
        };
        // The storage does not fail, but it can be out of reach.
        let linked = |who: &Who| match who {
            Who::Named(name) if name == STORAGE => Ok(()),
            who => known(who),
        };
        match action {
            Action::Crash(who)
            | Action::Restart(who)
            | Action::Pause(who)
            | Action::Slow(who, _)
            | Action::Isolate(who)
            | Action::ClockJumps(who, _)
            | Action::ClockDrifts(who, _) => known(who),
            Action::Cut(a, b) | Action::CutOneWay(a, b) | Action::Flap(a, b) => {
                linked(a)?;
                linked(b)
            }
            Action::Split(groups) => {
                groups.iter().flatten().try_for_each(|name| linked(&Who::Named(name.clone())))
            }
            Action::Lose(_)
            | Action::Duplicate(_)
            | Action::Reorder(_)
            | Action::Delay(..)
            | Action::Heal => Ok(()),
            Action::DiskSlows(_)
            | Action::DiskStalls(_)
            | Action::DiskFills(_)
            | Action::DiskFails(_)
            | Action::SnapshotsFail
            | Action::Reset(..)
            | Action::HandOver => Err(format!(
                "`{action}` needs the shipped replica: this algorithm has no such thing"
            )),
        }
    }

    pub(super) fn blow(&mut self, at: usize) {
        let step = self.script[at].clone();
        self.strike(&step.action, step.lasts).expect("it was checked when the script was read");
    }

    /// A blow falls now.
    pub fn strike(&mut self, action: &Action, lasts: Option<Duration>) -> Result<(), String> {
        self.check(action)?;
        self.counts.blow(kind(action));
        self.tell(|| {
            let lasting =
                lasts.map_or(String::new(), |lasts| format!(" for {}", write_span(lasts)));
            Event::new("fault", format!("** {action}{lasting}"))
                .with("action", action.to_string())
                .with("lasts", lasts.map(|lasts| lasts.as_micros() as u64))
        });
        match action {
            Action::Crash(who) => {
                for node in self.whom(who) {
                    self.crash(node);
                    if let Some(lasts) = lasts {
                        self.agenda.after(lasts, Happening::Start(node));
                    }
                }
            }
            Action::Restart(who) => self.whom(who).into_iter().for_each(|node| self.start(node)),
            Action::Pause(who) => {
                for node in self.whom(who) {
                    self.pause(node, lasts);
                }
            }
            Action::Slow(who, by) => {
                for node in self.whom(who) {
                    self.node_mut(node).slow = *by;
                    self.undo_after(lasts, Undo::Fast(node));
                }
            }
            Action::Cut(a, b) => {
                let links = between(&self.whom(a), &self.whom(b), true);
                self.cut(links, lasts);
            }
            Action::CutOneWay(a, b) => {
                let links = between(&self.whom(a), &self.whom(b), false);
                self.cut(links, lasts);
            }
            Action::Isolate(who) => {
                for node in self.whom(who) {
                    let others: Vec<NodeId> = self.everybody().filter(|o| *o != node).collect();
                    let links = between(&[node], &others, true);
                    self.cut(links, lasts);
                }
            }
            Action::Split(groups) => {
                let groups: Vec<Vec<NodeId>> = groups
                    .iter()
                    .map(|group| group.iter().filter_map(|name| self.number(name)).collect())
                    .collect();
                self.cut(across(&groups), lasts);
            }
            Action::Flap(a, b) => {
                for ends in between(&self.whom(a), &self.whom(b), false) {
                    let left = lasts.unwrap_or(Duration::from_secs(3600));
                    self.undo(Undo::Flap(Flapping { ends, cuts: true, every: FLAP, left }));
                }
            }
            Action::Lose(_) | Action::Duplicate(_) | Action::Reorder(_) | Action::Delay(..) => {
                if let Some(clears) = spoil(&mut self.links.weather, action) {
                    self.undo_after(lasts, Undo::FairWeather(clears));
                }
            }
            Action::ClockJumps(who, by_us) => {
                for node in self.whom(who) {
                    self.node_mut(node).clock.jump(*by_us);
                }
            }
            Action::ClockDrifts(who, ppm) => {
                let now = self.now();
                for node in self.whom(who) {
                    self.node_mut(node).clock.drift(now, *ppm);
                }
            }
            Action::Heal => self.heal(),
            _ => unreachable!("it was checked"),
        }
        Ok(())
    }

    fn heal(&mut self) {
        self.links.mend_all();
        self.links.weather = Weather::default();
        for node in self.everybody() {
            self.node_mut(node).slow = Duration::ZERO;
            if self.node_mut(node).pauses > 0 {
                self.node_mut(node).pauses = 1;
                let life = self.node_mut(node).life;
                self.resume(node, life);
            }
            self.start(node);
        }
    }

    fn whom(&self, who: &Who) -> Vec<NodeId> {
        match who {
            Who::Named(name) => self.number(name).into_iter().collect(),
            Who::Leader => self.leaders(),
            Who::All => (0..self.contenders() as NodeId).collect(),
        }
    }

    fn number(&self, name: &str) -> Option<NodeId> {
        if name == STORAGE {
            return Some(self.storage_id());
        }
        self.names.iter().position(|known| known == name).map(|at| at as NodeId)
    }

    fn cut(&mut self, links: Vec<(NodeId, NodeId)>, lasts: Option<Duration>) {
        links.iter().for_each(|(from, to)| self.links.cut(*from, *to));
        self.undo_after(lasts, Undo::Mend(links));
    }

    fn undo_after(&mut self, lasts: Option<Duration>, undo: Undo) {
        if let Some(lasts) = lasts {
            self.agenda.after(lasts, Happening::Undo(undo));
        }
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Mend(links) => links.into_iter().for_each(|(from, to)| self.links.mend(from, to)),
            Undo::FairWeather(change) => change(&mut self.links.weather),
            Undo::Fast(node) => self.node_mut(node).slow = Duration::ZERO,
            Undo::Flap(flapping) => {
                if let Some(next) = flapping.turn(&mut self.links) {
                    self.agenda.after(FLAP, Happening::Undo(Undo::Flap(next)));
                }
            }
        }
    }
}

/// What a blow is called in counts.
fn kind(action: &Action) -> &'static str {
    match action {
        Action::Crash(_) => "crash",
        Action::Restart(_) => "restart",
        Action::Pause(_) => "pause",
        Action::Slow(..) => "slow",
        Action::Cut(..) => "cut",
        Action::CutOneWay(..) => "cut_one_way",
        Action::Isolate(_) => "isolate",
        Action::Split(_) => "split",
        Action::Flap(..) => "flap",
        Action::Lose(_) => "lose",
        Action::Duplicate(_) => "duplicates",
        Action::Reorder(_) => "reorders",
        Action::Delay(..) => "delay",
        Action::ClockJumps(..) => "clock_jump",
        Action::ClockDrifts(..) => "clock_drift",
        _ => "heal",
    }
}
