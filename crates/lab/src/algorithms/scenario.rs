//! A story: an algorithm, what goes wrong, and what must come of it.

use std::time::Duration;

use super::{Algorithm, Setup};
use crate::{
    engine::{Counts, Trace},
    faults::Script,
    stage::{Ledger, Promise, Verdict},
};

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub algorithm: &'static Algorithm,
    /// What it shows, in a sentence or two.
    pub about: &'static str,
    pub lasts: Duration,
    /// What goes wrong, as a fault script.
    pub script: &'static str,
    /// Which of the algorithm's promises are broken by it. The others must hold.
    pub breaks: &'static [Promise],
}

/// How a story ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub verdicts: Vec<Verdict>,
    pub ledger: Ledger,
    pub counts: Counts,
    pub names: Vec<String>,
    pub checksum: u64,
    /// What was expected and did not happen. None, if the blows were not the scenario's own.
    pub surprises: Vec<String>,
}

impl Scenario {
    /// The blows that belong to it.
    pub fn own_script(&self) -> Script {
        self.script.parse().expect("scripts of our own can be read: a test reads them all")
    }

    /// Plays it. With blows of one's own, nothing in particular is expected.
    ///
    /// # Errors
    /// If the script names somebody unknown.
    pub fn play(
        &self,
        seed: u64,
        script: Option<&Script>,
        trace: Trace,
    ) -> Result<Outcome, String> {
        let mut play =
            (self.algorithm.cast)(&Setup { seed, contenders: self.algorithm.contenders });
        play.trace(trace);
        let own = self.own_script();
        play.follow(script.unwrap_or(&own))?;
        play.run(self.lasts);
        let verdicts = play.verdicts(self.algorithm.promises);
        let mut outcome = Outcome {
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
        let (struck, due) = (outcome.counts.blows(), script.unwrap_or(&own).steps.len() as u64);
        if struck < due {
            outcome.surprises.push(format!("only {struck} of {due} blows fell"));
        }
        Ok(outcome)
    }

    fn surprises(&self, outcome: &Outcome) -> Vec<String> {
        let mut surprises = vec![];
        for verdict in &outcome.verdicts {
            let expected = !self.breaks.contains(&verdict.promise);
            match (&verdict.breach, expected) {
                (Some((at, how)), true) => {
                    let at = at.since_start();
                    surprises.push(format!("broken at {at:?}: {}: {how}", verdict.promise));
                }
                (None, false) => surprises.push(format!("not broken: {}", verdict.promise)),
                (None, true) if verdict.judged == 0 => {
                    surprises.push(format!("never looked at: {}", verdict.promise));
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
