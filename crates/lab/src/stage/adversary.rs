//! Somebody who chooses the order in which messages arrive.
//!
//! In an asynchronous network a message may take any time, so a scheduler that hates the algorithm is
//! as good as any other. It loses nothing, forges nothing and reads the future of no dice: it only lets
//! some messages wait. It has a process on the stage, and when that is crashed or paused the network is
//! an ordinary one.

use std::{fmt, time::Duration};

use super::{NodeId, Stage, Word};

/// Decides how long a message from one process to another has to wait.
pub type Meddler<M> = Box<dyn FnMut(NodeId, NodeId, &M) -> Duration>;

pub(super) struct Adversary<M> {
    process: NodeId,
    meddler: Meddler<M>,
}

impl<M> fmt::Debug for Adversary<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adversary").field("process", &self.process).finish_non_exhaustive()
    }
}

impl<M: Word> Stage<M> {
    /// This process meddles with what all others send, for as long as it runs.
    pub fn set_adversary(&mut self, process: NodeId, meddler: Meddler<M>) {
        self.adversary = Some(Adversary { process, meddler });
    }

    /// How much longer than usual this message takes.
    pub(super) fn hold_up(&mut self, from: NodeId, to: NodeId, word: &M) -> Duration {
        match &mut self.adversary {
            Some(adversary) if self.nodes[adversary.process as usize].runs() => {
                (adversary.meddler)(from, to, word)
            }
            _ => Duration::ZERO,
        }
    }
}
