//! Linearizable reads, answered in rounds.
//!
//! A round asks the raft leader "up to where is the log committed, and do you still lead?". All reads
//! that wait share it; those that arrive while it is under way join the next one, because its answer
//! may be older than they are. A round can be lost without notice (no leader, a change of term), so
//! it is started again, under a new name, whenever that may have happened.

use std::collections::VecDeque;

use crate::{
    codec::put_u64,
    input::{Read, RequestId},
    log::LogIndex,
    moment::Moment,
};

/// Reads that may wait for the next round, or for their turn.
const WAITING_READS_MAX: usize = 20_000;

#[derive(Debug)]
pub(crate) struct PendingRead {
    pub(crate) id: RequestId,
    pub(crate) read: Read,
    pub(crate) since: Moment,
}

#[derive(Debug)]
struct Round {
    context: Vec<u8>,
    started: Moment,
    reads: Vec<PendingRead>,
}

#[derive(Debug)]
pub(crate) struct Reads {
    /// Makes the names of this member's rounds unique in the cluster and over its lives.
    name: (u64, u64),
    count: u64,
    waiting: Vec<PendingRead>,
    round: Option<Round>,
    confirmed: VecDeque<(LogIndex, Vec<PendingRead>)>,
    /// Those that wait for nothing but their turn.
    ready: VecDeque<PendingRead>,
}

impl Reads {
    pub(crate) fn new(member: u64, boot: u64) -> Reads {
        Reads {
            name: (member, boot),
            count: 0,
            waiting: vec![],
            round: None,
            confirmed: VecDeque::new(),
            ready: VecDeque::new(),
        }
    }

    /// A read that need not be linearizable. False if too many wait already.
    pub(crate) fn push_ready(&mut self, read: PendingRead) -> bool {
        let room = self.has_room();
        if room {
            self.ready.push_back(read);
        }
        room
    }

    fn has_room(&self) -> bool {
        self.waiting.len() + self.ready.len() < WAITING_READS_MAX
    }

    /// False if too many wait already.
    pub(crate) fn push(&mut self, read: PendingRead) -> bool {
        let room = self.has_room();
        if room {
            self.waiting.push(read);
        }
        room
    }

    /// The context of a new round, if reads wait and none is under way.
    pub(crate) fn start_round(&mut self, now: Moment) -> Option<Vec<u8>> {
        if self.round.is_some() || self.waiting.is_empty() {
            return None;
        }
        self.count += 1;
        let mut context = Vec::with_capacity(24);
        for number in [self.name.0, self.name.1, self.count] {
            put_u64(&mut context, number);
        }
        let reads = std::mem::take(&mut self.waiting);
        self.round = Some(Round { context: context.clone(), started: now, reads });
        Some(context)
    }

    /// The round under way may be lost: its reads wait for another.
    pub(crate) fn abandon_round(&mut self) {
        if let Some(mut round) = self.round.take() {
            round.reads.append(&mut self.waiting);
            self.waiting = round.reads;
        }
    }

    /// The raft leader changed. The round under way is lost, and those that are confirmed may wait for
    /// what the old one had and the new one has not.
    pub(crate) fn abandon_all(&mut self) {
        self.abandon_round();
        let confirmed = std::mem::take(&mut self.confirmed);
        self.waiting.extend(confirmed.into_iter().flat_map(|(_, reads)| reads));
    }

    pub(crate) fn confirm(&mut self, context: &[u8], index: LogIndex) {
        if let Some(round) = self.round.take_if(|round| round.context == context) {
            self.confirmed.push_back((index, round.reads));
        }
    }

    /// The next read that can be answered from the state as it is, with so much of the log applied.
    pub(crate) fn next_ready(&mut self, applied: LogIndex) -> Option<PendingRead> {
        while let Some((_, reads)) = self.confirmed.pop_front_if(|(index, _)| *index <= applied) {
            self.ready.extend(reads);
        }
        self.ready.pop_front()
    }

    /// Whether there is one.
    pub(crate) fn is_ready(&self, applied: LogIndex) -> bool {
        let is_applied = |(index, _): &(LogIndex, _)| *index <= applied;
        !self.ready.is_empty() || self.confirmed.front().is_some_and(is_applied)
    }

    /// Reads that came at or before a moment are given up, wherever they wait for others.
    pub(crate) fn give_up(&mut self, before: Moment) -> Vec<RequestId> {
        let mut given_up = Vec::new();
        let groups = std::iter::once(&mut self.waiting)
            .chain(self.round.as_mut().map(|round| &mut round.reads))
            .chain(self.confirmed.iter_mut().map(|(_, reads)| reads));
        for reads in groups {
            reads.retain(|read| {
                let keep = read.since > before;
                if !keep {
                    given_up.push(read.id);
                }
                keep
            });
        }
        given_up
    }

    /// The same for those that wait for their turn only. They need no raft leader.
    pub(crate) fn give_up_ready(&mut self, before: Moment) -> Vec<RequestId> {
        let mut given_up = Vec::new();
        while let Some(read) = self.ready.pop_front_if(|read| read.since <= before) {
            given_up.push(read.id);
        }
        given_up
    }

    pub(crate) fn round_started(&self) -> Option<Moment> {
        self.round.as_ref().map(|round| round.started)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.round.is_none()
            && self.confirmed.is_empty()
            && self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Moment = Moment::ZERO;

    fn read(id: RequestId) -> PendingRead {
        PendingRead { id, read: Read::Freshness, since: NOW }
    }

    /// As many as may wait, and the number of the first that was refused.
    fn overloaded() -> (Reads, RequestId) {
        let mut reads = Reads::new(1, 1);
        let refused = (0..).find(|id| !reads.push(read(*id)));
        (reads, refused.expect("somebody is refused"))
    }

    /// All that can be answered.
    fn ready(reads: &mut Reads, applied: LogIndex) -> Vec<RequestId> {
        let ready = std::iter::from_fn(|| reads.next_ready(applied)).map(|read| read.id).collect();
        assert!(!reads.is_ready(applied));
        ready
    }

    #[test]
    fn reads_past_what_may_wait_are_refused_and_those_that_were_taken_are_answered() {
        let (mut reads, refused) = overloaded();
        assert_eq!(refused as usize, WAITING_READS_MAX);
        assert!(!reads.push(read(refused)), "it is still full");
        let round = reads.start_round(NOW).expect("reads wait");
        // Those of a round under way do not wait for one: there is room for the next.
        assert!(reads.push(read(refused)));
        assert_eq!(reads.start_round(NOW), None, "one round at a time");
        reads.confirm(&round, 5);
        assert!(ready(&mut reads, 4).is_empty());
        assert_eq!(ready(&mut reads, 5), (0..refused).collect::<Vec<_>>());
        assert!(!reads.is_idle(), "one waits for the next round");
    }

    /// Nothing is forgotten however full it is: to refuse a read that was taken would come too late.
    #[test]
    fn a_lost_round_gives_all_its_reads_back_and_nobody_else_comes_in() {
        let (mut reads, refused) = overloaded();
        let lost = reads.start_round(NOW).expect("reads wait");
        assert!(reads.push(read(refused)));
        reads.abandon_round();
        assert!(!reads.push(read(refused + 1)));
        reads.confirm(&lost, 5);
        assert!(ready(&mut reads, 5).is_empty(), "an answer to the lost round comes too late");
        let round = reads.start_round(NOW).expect("reads wait");
        assert_ne!(round, lost);
        reads.confirm(&round, 6);
        assert_eq!(ready(&mut reads, 6), (0..=refused).collect::<Vec<_>>());
        assert!(reads.is_idle());
    }

    /// What a former raft leader has confirmed may wait for entries that will never come.
    #[test]
    fn a_new_raft_leader_is_asked_for_all_that_was_not_answered() {
        let mut reads = Reads::new(1, 1);
        for id in 0..3 {
            assert!(reads.push(read(id)));
            let round = reads.start_round(NOW).expect("a read waits");
            if id < 2 {
                reads.confirm(&round, 9);
            }
        }
        reads.abandon_all();
        assert!(ready(&mut reads, 9).is_empty());
        let round = reads.start_round(NOW).expect("reads wait");
        reads.confirm(&round, 9);
        let mut answered = ready(&mut reads, 9);
        answered.sort_unstable();
        assert_eq!(answered, [0, 1, 2]);
    }

    #[test]
    fn reads_are_given_up_wherever_they_wait_and_make_room() {
        let (mut reads, refused) = overloaded();
        let round = reads.start_round(NOW).expect("reads wait");
        reads.confirm(&round, 5);
        assert!(reads.push(read(refused)));
        reads.start_round(NOW).expect("a read waits");
        let later = NOW + Duration::from_secs(1);
        assert!(reads.push(read(refused + 1)));
        assert!(reads.push(PendingRead { since: later, ..read(refused + 2) }));
        let mut given_up = reads.give_up(NOW);
        given_up.sort_unstable();
        assert_eq!(given_up, (0..=refused + 1).collect::<Vec<_>>());
        assert!(ready(&mut reads, 5).is_empty());
        reads.abandon_round();
        let round = reads.start_round(later).expect("the late one waits");
        reads.confirm(&round, 5);
        assert_eq!(ready(&mut reads, 5), [refused + 2]);
    }
}
