//! Linearizable reads, answered in rounds.
//!
//! A round asks the raft leader "up to where is the log committed, and do you still lead?". All reads
//! that wait share it; those that arrive while it is under way join the next one, because its answer
//! may be older than they are.
//!
//! A round can be lost without notice (no leader, a change of term), or take long (members that are far apart). Both look
//! the same from here. So after a while another round begins beside it, and the first one stays: a confirmation is good
//! for all reads that came before its round began, however late it arrives.

use std::{collections::VecDeque, time::Duration};

use tenure_api::Principal;

use crate::{
    Moment,
    codec::put_u64,
    command::Command,
    input::{Read, RequestId},
    log::LogIndex,
};

/// Reads that may wait for the next round, or for their turn.
const WAITING_READS_MAX: usize = 20_000;
/// Rounds under way at once. Of more than that, the oldest is no longer waited for by its own name.
const ROUNDS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct PendingRead {
    pub(crate) id: RequestId,
    pub(crate) by: Principal,
    pub(crate) wants: Wants,
    pub(crate) since: Moment,
}

/// What is to be done when its turn comes.
#[derive(Debug)]
pub(crate) enum Wants {
    /// Read this.
    Read(Read),
    /// Judge this command once more. This member refused it, but may not have known of the latest changes of users and roles.
    Write(Box<Command>),
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
    /// Oldest first.
    rounds: VecDeque<Round>,
    /// A round is wanted though no read waits: it shows that this member still leads.
    wanted: bool,
    /// When the newest round began that the present raft leader has confirmed.
    confirmed_at: Option<Moment>,
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
            rounds: VecDeque::new(),
            wanted: false,
            confirmed_at: None,
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

    /// Asks for a round though no read waits.
    pub(crate) fn want_round(&mut self) {
        self.wanted = true;
    }

    /// When the newest confirmed round began: the raft leader led then.
    pub(crate) fn confirmed_at(&self) -> Option<Moment> {
        self.confirmed_at
    }

    /// The context of a new round: if something waits for one and none is under way, or the newest has taken so long that
    /// it may be lost.
    pub(crate) fn start_round(&mut self, now: Moment, lost_after: Duration) -> Option<Vec<u8>> {
        let is_due = match self.rounds.back() {
            None => self.wanted || !self.waiting.is_empty(),
            Some(newest) => now.since(newest.started) > lost_after,
        };
        if !is_due {
            return None;
        }
        if self.rounds.len() == ROUNDS_MAX
            && let Some(oldest) = self.rounds.pop_front()
            && let Some(next) = self.rounds.front_mut()
        {
            // A later confirmation is good for earlier reads.
            next.reads.splice(..0, oldest.reads);
        }
        self.wanted = false;
        self.count += 1;
        let mut context = Vec::with_capacity(24);
        for number in [self.name.0, self.name.1, self.count] {
            put_u64(&mut context, number);
        }
        let reads = std::mem::take(&mut self.waiting);
        self.rounds.push_back(Round { context: context.clone(), started: now, reads });
        Some(context)
    }

    /// Whether a round is under way.
    pub(crate) fn is_asking(&self) -> bool {
        !self.rounds.is_empty()
    }

    /// The raft leader changed. The rounds under way are lost, and those that are confirmed may wait for
    /// what the old one had and the new one has not.
    pub(crate) fn abandon_all(&mut self) {
        self.confirmed_at = None;
        let rounds = std::mem::take(&mut self.rounds).into_iter().map(|round| round.reads);
        let confirmed = std::mem::take(&mut self.confirmed).into_iter().map(|(_, reads)| reads);
        let reads: Vec<_> = confirmed.chain(rounds).flatten().collect();
        self.waiting.splice(..0, reads);
    }

    /// A round is confirmed, and with it the reads of all rounds before it.
    pub(crate) fn confirm(&mut self, context: &[u8], index: LogIndex) {
        let Some(at) = self.rounds.iter().position(|round| round.context == context) else {
            return;
        };
        if canary!(LateRoundLost) && at + 1 < self.rounds.len() {
            return;
        }
        self.confirmed_at = self.confirmed_at.max(Some(self.rounds[at].started));
        let reads: Vec<_> = self.rounds.drain(..=at).flat_map(|round| round.reads).collect();
        if !reads.is_empty() {
            self.confirmed.push_back((index, reads));
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
            .chain(self.rounds.iter_mut().map(|round| &mut round.reads))
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
        if self.waiting.is_empty() && self.rounds.iter().all(|round| round.reads.is_empty()) {
            self.rounds.clear();
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

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.rounds.iter().all(|round| round.reads.is_empty())
            && self.confirmed.is_empty()
            && self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::ZERO;
    const LOST_AFTER: Duration = Duration::from_millis(200);

    fn read(id: RequestId) -> PendingRead {
        let wants = Wants::Read(Read::Freshness);
        PendingRead { id, by: Principal::System, wants, since: NOW }
    }

    /// As many as may wait, and the number of the first that was refused.
    fn overloaded() -> (Reads, RequestId) {
        let mut reads = Reads::new(1, 1);
        let refused = (0..).find(|id| !reads.push(read(*id)));
        (reads, refused.expect("one is refused"))
    }

    /// All that can be answered.
    fn ready(reads: &mut Reads, applied: LogIndex) -> Vec<RequestId> {
        let ready = std::iter::from_fn(|| reads.next_ready(applied)).map(|read| read.id).collect();
        assert!(!reads.is_ready(applied));
        ready
    }

    #[test]
    fn reads_beyond_the_limit_are_refused_and_the_others_answered() {
        let (mut reads, refused) = overloaded();
        assert_eq!(refused as usize, WAITING_READS_MAX);
        assert!(!reads.push(read(refused)), "it is still full");
        let round = reads.start_round(NOW, LOST_AFTER).expect("reads wait");
        // Those of a round under way do not wait for one: there is room for the next.
        assert!(reads.push(read(refused)));
        assert_eq!(reads.start_round(NOW, LOST_AFTER), None, "it is not late yet");
        reads.confirm(&round, 5);
        assert!(ready(&mut reads, 4).is_empty());
        assert_eq!(ready(&mut reads, 5), (0..refused).collect::<Vec<_>>());
        assert!(!reads.is_idle(), "one waits for the next round");
    }

    /// Nothing is forgotten however full it is: to refuse a read that was taken would come too late.
    #[test]
    fn reads_of_a_lost_round_are_confirmed_by_the_next() {
        let (mut reads, refused) = overloaded();
        let lost = reads.start_round(NOW, LOST_AFTER).expect("reads wait");
        assert!(reads.push(read(refused)));
        let later = NOW + 2 * LOST_AFTER;
        let round = reads.start_round(later, LOST_AFTER).expect("the first may be lost");
        assert_ne!(round, lost);
        reads.confirm(&round, 6);
        assert_eq!(ready(&mut reads, 6), (0..=refused).collect::<Vec<_>>());
        assert!(reads.is_idle());
        reads.confirm(&lost, 7);
        assert!(ready(&mut reads, 7).is_empty(), "it was for reads that are answered");
    }

    #[test]
    fn reads_are_confirmed_by_their_round_however_late() {
        let mut reads = Reads::new(1, 1);
        let rounds: Vec<_> = (0..2 * ROUNDS_MAX as u64)
            .map(|id| {
                assert!(reads.push(read(id)));
                let now = NOW + 2 * LOST_AFTER * id as u32;
                reads.start_round(now, LOST_AFTER).expect("the one before may be lost")
            })
            .collect();
        // The oldest names are forgotten, their reads are not.
        let oldest = ROUNDS_MAX;
        reads.confirm(&rounds[oldest - 1], 5);
        assert!(ready(&mut reads, 5).is_empty());
        reads.confirm(&rounds[oldest], 5);
        assert_eq!(ready(&mut reads, 5), (0..=oldest as u64).collect::<Vec<_>>());
        assert_eq!(reads.confirmed_at(), Some(NOW + 2 * LOST_AFTER * oldest as u32));
    }

    /// What a former raft leader has confirmed may wait for entries that will never come.
    #[test]
    fn reads_without_an_answer_are_asked_of_a_new_raft_leader() {
        let mut reads = Reads::new(1, 1);
        for id in 0..3 {
            assert!(reads.push(read(id)));
            let round = reads.start_round(NOW, LOST_AFTER).expect("a read waits");
            if id < 2 {
                reads.confirm(&round, 9);
            }
        }
        reads.abandon_all();
        assert!(ready(&mut reads, 9).is_empty());
        let round = reads.start_round(NOW, LOST_AFTER).expect("reads wait");
        reads.confirm(&round, 9);
        let mut answered = ready(&mut reads, 9);
        answered.sort_unstable();
        assert_eq!(answered, [0, 1, 2]);
    }

    #[test]
    fn reads_that_time_out_make_room_wherever_they_wait() {
        let (mut reads, refused) = overloaded();
        let round = reads.start_round(NOW, LOST_AFTER).expect("reads wait");
        reads.confirm(&round, 5);
        assert!(reads.push(read(refused)));
        reads.start_round(NOW, LOST_AFTER).expect("a read waits");
        let later = NOW + Duration::from_secs(1);
        assert!(reads.push(read(refused + 1)));
        assert!(reads.push(PendingRead { since: later, ..read(refused + 2) }));
        let mut given_up = reads.give_up(NOW);
        given_up.sort_unstable();
        assert_eq!(given_up, (0..=refused + 1).collect::<Vec<_>>());
        assert!(ready(&mut reads, 5).is_empty());
        let round = reads.start_round(later, LOST_AFTER).expect("the late one waits");
        reads.confirm(&round, 5);
        assert_eq!(ready(&mut reads, 5), [refused + 2]);
    }
}
