//! A scheduler that delays messages so that the algorithm makes no progress.
//!
//! In an asynchronous network a message may take any time, so a hostile schedule is as valid as any other.
//! The adversary loses nothing, forges nothing and does not know what chance will bring: it only delays
//! messages. It is a process on the stage; while that is crashed or paused, the network is an ordinary one.

use std::{fmt, time::Duration};

use super::{ProcessId, ProtocolMessage, Stage};

/// Chooses the delay of a message from one process to another.
pub type ChooseDelay<M> = Box<dyn FnMut(ProcessId, ProcessId, &M) -> Duration>;

pub(super) struct Adversary<M> {
    process: ProcessId,
    choose_delay: ChooseDelay<M>,
}

impl<M> fmt::Debug for Adversary<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adversary").field("process", &self.process).finish_non_exhaustive()
    }
}

impl<M: ProtocolMessage> Stage<M> {
    /// Gives this process control over the delays of all other processes' messages, for as long as it runs.
    pub fn set_adversary(&mut self, process: ProcessId, choose_delay: ChooseDelay<M>) {
        self.adversary = Some(Adversary { process, choose_delay });
    }

    /// The delay that the adversary adds to this message.
    pub(super) fn added_delay(&mut self, from: ProcessId, to: ProcessId, message: &M) -> Duration {
        match &mut self.adversary {
            Some(adversary) if self.slots[adversary.process as usize].runs() => {
                (adversary.choose_delay)(from, to, message)
            }
            _ => Duration::ZERO,
        }
    }
}
