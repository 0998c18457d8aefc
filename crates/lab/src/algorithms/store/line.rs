//! A client's line to a server.

use std::time::Duration;

use super::{Ask, Say};
use crate::{
    engine::ms,
    stage::{NodeId, Scene},
};

/// Whoever hears nothing for so long takes the question, or the answer, for lost.
const ANSWER: Duration = ms(1000);

/// One question at a time: a new one takes the place of that before, whose answer does not count any
/// more.
#[derive(Debug, Default)]
pub(crate) struct Line {
    number: u64,
    purpose: &'static str,
    insists: bool,
}

impl Line {
    /// Asks. If no answer comes, the alarm `answer` rings.
    pub(crate) fn ask(
        &mut self,
        to: NodeId,
        purpose: &'static str,
        what: Ask,
        scene: &mut Scene<'_, Say>,
    ) {
        self.ask_once(to, purpose, what, scene);
        self.insists = true;
        scene.alarm("answer", ANSWER);
    }

    /// Asks. If no answer comes, so be it.
    pub(crate) fn ask_once(
        &mut self,
        to: NodeId,
        purpose: &'static str,
        what: Ask,
        scene: &mut Scene<'_, Say>,
    ) {
        self.number += 1;
        self.purpose = purpose;
        self.insists = false;
        scene.send(to, Say::Ask { number: self.number, purpose, what });
    }

    /// Whether this answer is waited for.
    pub(crate) fn hears(&mut self, number: u64, scene: &mut Scene<'_, Say>) -> bool {
        let waited_for = number == self.number && !self.purpose.is_empty();
        if waited_for {
            self.purpose = "";
            if self.insists {
                scene.cancel("answer");
            }
        }
        waited_for
    }

    /// What it has asked for and waits for.
    pub(crate) fn waits_for(&self) -> &'static str {
        self.purpose
    }
}
