//! What waits to be sent: the commands of one lane, in batches that fill up.

use std::{collections::VecDeque, time::Duration};

use tenure_api::{Failure, Principal};

use super::{Part, Waiter};
use crate::{
    Moment,
    command::{COMMANDS_MAX, Command, encode_attributed},
};

/// A batch takes no more commands once it has so many bytes.
const BATCH_BYTES_MAX: usize = 512 << 10;
/// A batch takes no more commands once they weigh so much, which is so many commands at the most.
pub(super) const BATCH_WEIGHT_MAX: usize = 1024;
const _: () =
    assert!(4 * BATCH_WEIGHT_MAX <= COMMANDS_MAX, "a full batch of each lane can be read");
/// Bytes of a lane that may wait before more are turned away.
pub(super) const WAITING_BYTES_MAX: usize = 64 << 20;

/// The commands of one lane that were not sent yet.
#[derive(Debug)]
pub(super) struct Waiting {
    open: VecDeque<Open>,
    pub(super) commands: usize,
    pub(super) bytes: usize,
    commands_max: usize,
    /// How long the last one that was sent had waited, and how many went meanwhile, it included.
    pace: Option<(Duration, usize)>,
}

/// A batch in the making.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) commands: Vec<u8>,
    pub(super) waiters: Vec<Waiter>,
    weight: usize,
    pub(super) since: Moment,
    /// How many commands waited before it when it was begun.
    ahead: usize,
    /// Nothing may be added to it: it carries a change of the members.
    pub(super) is_change: bool,
    /// It does not wait here, for company or for another batch: an election may depend on it.
    pub(super) is_urgent: bool,
}

impl Waiting {
    pub(super) fn new(commands_max: usize) -> Waiting {
        Waiting { open: VecDeque::new(), commands: 0, bytes: 0, commands_max, pace: None }
    }

    pub(super) fn push(
        &mut self,
        now: Moment,
        waiter: Waiter,
        by: &Principal,
        command: &Command,
    ) -> Result<(), Failure> {
        if self.bytes > WAITING_BYTES_MAX || self.commands >= self.commands_max {
            return Err(Failure::TooManyRequests);
        }
        let is_change = command.concerns_raft();
        if is_change || self.open.back().is_none_or(Open::is_full) {
            self.open.push_back(Open {
                commands: vec![],
                waiters: vec![],
                weight: 0,
                since: now,
                ahead: self.commands,
                is_change,
                is_urgent: false,
            });
        }
        let open = self.open.back_mut().expect("an open batch was just made sure of");
        let before = open.commands.len();
        encode_attributed(&mut open.commands, by, command);
        open.is_urgent |= command.is_urgent();
        open.waiters.push(waiter);
        open.weight += command.weight();
        self.bytes += open.commands.len() - before;
        self.commands += 1;
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<Open> {
        let open = self.open.pop_front()?;
        self.bytes -= open.commands.len();
        self.commands -= open.waiters.len();
        Some(open)
    }

    /// The next one to be sent.
    pub(super) fn send(&mut self, now: Moment) -> Option<Open> {
        let open = self.pop()?;
        // A batch that leaves nothing behind says nothing about a backlog.
        let pace = (now.since(open.since), open.ahead + open.waiters.len());
        self.pace = (self.commands > 0).then_some(pace);
        Some(open)
    }

    /// How long a new command will wait, if it goes on as it went.
    pub(super) fn wait(&self, now: Moment) -> Duration {
        let waits = self.first().map_or(Duration::ZERO, |first| now.since(first.since));
        let (took, went) = self.pace.unwrap_or((Duration::ZERO, 1));
        waits.max(took * self.commands as u32 / went as u32)
    }

    pub(super) fn pop_if(&mut self, wanted: impl FnOnce(&Open) -> bool) -> Option<Open> {
        self.open.front().is_some_and(wanted).then(|| self.pop())?
    }

    pub(super) fn first(&self) -> Option<&Open> {
        self.open.front()
    }
}

impl Open {
    pub(super) fn is_full(&self) -> bool {
        self.commands.len() >= BATCH_BYTES_MAX || self.weight >= BATCH_WEIGHT_MAX || self.is_change
    }

    pub(super) fn part(&self) -> Part {
        Part {
            commands: self.waiters.len(),
            weight: self.weight,
            bytes: self.commands.len(),
            since: self.since,
        }
    }
}
