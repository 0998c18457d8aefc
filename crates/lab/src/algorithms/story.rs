//! Stories: an algorithm, faults, and the promises that they break.

use std::time::Duration;

use tenure_replica::Moment;

use super::{Algorithm, Setup};
use crate::{
    engine::{RunCounts, Trace},
    faults::FaultScript,
    stage::{Ledger, Promise, Verdict},
};

/// Into how many parts a run is cut, between which it can be ended.
const SLICES: u32 = 1000;

#[derive(Clone, Copy, Debug)]
pub struct Story {
    pub name: &'static str,
    pub algorithm: &'static Algorithm,
    /// What it shows, in a sentence or two.
    pub about: &'static str,
    pub lasts: Duration,
    /// Its faults.
    pub script: &'static str,
    /// The promises of the algorithm that it breaks. The others must hold.
    pub breaks: &'static [Promise],
}

/// The outcome of a story.
#[derive(Clone, Debug)]
pub struct StoryOutcome {
    pub verdicts: Vec<Verdict>,
    pub ledger: Ledger,
    pub counts: RunCounts,
    pub names: Vec<String>,
    pub checksum: u64,
    /// What differs from the expected outcome. None, if the faults were not the story's own.
    pub surprises: Vec<String>,
}

impl Story {
    /// The faults of the story.
    pub fn own_script(&self) -> FaultScript {
        self.script.parse().expect("the scripts of all stories can be parsed: a test does")
    }

    /// Plays it. With another fault script, no outcome is expected.
    ///
    /// # Errors
    /// If the script names an unknown process.
    pub fn play(
        &self,
        seed: u64,
        script: Option<&FaultScript>,
        trace: Trace,
    ) -> Result<StoryOutcome, String> {
        self.play_while(seed, script, trace, || Ok(()))
    }

    /// Plays it for as long as `go_on` says so, which is asked about a thousand times.
    ///
    /// # Errors
    /// If the script names an unknown process, and what `go_on` said.
    pub fn play_while(
        &self,
        seed: u64,
        script: Option<&FaultScript>,
        trace: Trace,
        mut go_on: impl FnMut() -> Result<(), String>,
    ) -> Result<StoryOutcome, String> {
        let mut play =
            (self.algorithm.build)(&Setup { seed, contenders: self.algorithm.contenders });
        play.trace(trace);
        let own = self.own_script();
        play.follow(script.unwrap_or(&own))?;
        let slice = (self.lasts / SLICES).max(Duration::from_micros(1));
        let end = Moment::after_start(self.lasts);
        while play.now() < end {
            go_on()?;
            play.run(slice.min(end.since(play.now())));
        }
        let verdicts = play.verdicts(self.algorithm.promises);
        let mut outcome = StoryOutcome {
            verdicts,
            ledger: play.ledger().clone(),
            counts: play.counts().clone(),
            names: play.names(),
            checksum: play.checksum(),
            surprises: vec![],
        };
        if script.is_none() {
            outcome.surprises = self.surprises(&outcome);
        }
        let (injected, due) =
            (outcome.counts.faults_injected(), script.unwrap_or(&own).steps.len() as u64);
        if injected < due {
            outcome.surprises.push(format!("only {injected} of {due} faults were injected"));
        }
        Ok(outcome)
    }

    fn surprises(&self, outcome: &StoryOutcome) -> Vec<String> {
        let mut surprises = vec![];
        for verdict in &outcome.verdicts {
            let expected = !self.breaks.contains(&verdict.promise);
            match (&verdict.breach, expected) {
                (Some((at, how)), true) => {
                    let at = at.since_start();
                    surprises.push(format!("broken at {at:?}: {}: {how}", verdict.promise));
                }
                (None, false) => surprises.push(format!("not broken: {}", verdict.promise)),
                (None, true) if verdict.checked == 0 => {
                    surprises.push(format!("never checked: {}", verdict.promise));
                }
                _ => {}
            }
        }
        for promise in self.breaks.iter().filter(|p| !self.algorithm.promises.contains(p)) {
            surprises.push(format!("{} never promised: {promise}", self.algorithm.name));
        }
        surprises
    }
}
