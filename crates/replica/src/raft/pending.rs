//! Rounds whose writes are not durable yet, and the messages that wait for them.
//!
//! A message of a follower promises something about its log or its vote, so it waits for the write of its own round. The
//! raft leader's messages promise nothing about its disk, but for one thing: its term. A single voter goes from
//! campaigning to leading in one step, and would speak in a term that a crash makes it forget; after that it leads the same
//! term again and logs other entries under the same numbers. So the raft leader's messages wait too, while a term or vote is
//! being written. The rule for all: no message carries a term above the one that the sender's disk has.

use std::collections::VecDeque;

use tenure_api::Term;

use crate::{log::LogIndex, message::RaftMessage};

/// A round whose write, or an earlier one's, is not durable yet.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) number: u64,
    pub(super) needs_disk: bool,
    /// The term that is written, if it or the vote is another than before.
    pub(super) term: Option<Term>,
    pub(super) installed: Option<LogIndex>,
    /// What leaves when this round is durable.
    pub(super) messages: Vec<RaftMessage>,
}

/// Rounds in the order in which they were handed to the disk.
#[derive(Debug)]
pub(super) struct Pending {
    rounds: VecDeque<Round>,
    /// How many of those write something, a term or vote, or install a snapshot. Counted, because a slow disk leaves many
    /// waiting.
    writes: usize,
    votes: usize,
    snapshots: usize,
    /// The raft leader's messages, which wait for the last term or vote.
    held: Vec<RaftMessage>,
    durable_term: Term,
}

/// What follows from a flush.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// The last round that is done.
    pub(super) number: Option<u64>,
    pub(super) installed: Option<LogIndex>,
    /// What may leave now.
    pub(super) messages: Vec<RaftMessage>,
}

impl Pending {
    pub(super) fn new(durable_term: Term) -> Pending {
        let (rounds, held) = (VecDeque::new(), vec![]);
        Pending { rounds, writes: 0, votes: 0, snapshots: 0, held, durable_term }
    }

    pub(super) fn push(&mut self, round: Round) {
        self.writes += usize::from(round.needs_disk);
        self.votes += usize::from(round.term.is_some());
        self.snapshots += usize::from(round.installed.is_some());
        self.rounds.push_back(round);
    }

    /// Keeps messages of the raft leader until the disk has its term and vote.
    pub(super) fn hold(&mut self, messages: Vec<RaftMessage>) {
        self.held.extend(messages);
    }

    /// Ends the rounds whose writes are durable and, behind them, those that wrote nothing.
    pub(super) fn settle(&mut self, durable: u64) -> Settled {
        let mut settled = Settled::default();
        while let Some(round) =
            self.rounds.pop_front_if(|round| !round.needs_disk || round.number <= durable)
        {
            self.writes -= usize::from(round.needs_disk);
            self.votes -= usize::from(round.term.is_some());
            self.snapshots -= usize::from(round.installed.is_some());
            self.durable_term = round.term.unwrap_or(self.durable_term);
            settled.number = Some(round.number);
            settled.installed = round.installed.or(settled.installed);
            settled.messages.extend(round.messages);
        }
        if self.votes == 0 {
            settled.messages.append(&mut self.held);
        }
        settled
    }

    /// The term as the disk has it.
    pub(super) fn durable_term(&self) -> Term {
        self.durable_term
    }

    pub(super) fn has_writes(&self) -> bool {
        self.writes > 0
    }

    pub(super) fn has_votes(&self) -> bool {
        self.votes > 0
    }

    pub(super) fn has_snapshots(&self) -> bool {
        self.snapshots > 0
    }
}
