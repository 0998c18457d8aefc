//! Planted bugs: plausible mistakes, each behind a switch.
//!
//! They prove the checks of the lab: one that no invariant finds says that an invariant sleeps. There are
//! none in a release build; in a build with debug assertions all are off until a test plants one, on its
//! own thread.

use std::cell::Cell;

/// A mistake in this crate, or in the one that writes its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// A follower acknowledges entries, and grants votes, before its disk has them.
    SkippedFlush,
    /// The raft leader counts its own entries before its disk has them.
    EarlyPersist,
    /// The vote is not written with the term.
    VoteNotPersisted,
    /// A raft leader speaks in a term that its disk does not have.
    SpeaksBeforeVote,
    /// A raft leader that confirms a round of reads and steps down at once does not say what the round must wait for.
    FloorForgotten,
    /// A round of reads that is confirmed after the next has begun counts for nothing.
    LateRoundLost,
    /// A leader answers linearizable reads without asking whether it still leads.
    ReadUnasked,
    /// A read misses what a follower has counted, and answered, before the raft leader knew of it.
    ReadUncounted,
    /// The raft leader vouches for entries that its disk does not have yet.
    VouchesUnwritten,
    /// The raft leader vouches also where two are no majority.
    VouchesInCrowds,
    /// A batch that comes again is done again.
    BatchTwice,
    /// An expiry is carried out though the lease was renewed after it was judged.
    StaleExpiry,
    /// A new raft leader gives every lease its whole time again.
    TtlReset,
    /// A new raft leader counts the time in which no lease could be renewed.
    LeaderlessTimeCounts,
    /// A raft leader that was cut off counts that time.
    CutOffTimeCounts,
    /// A raft leader that hears no quorum does not tell its followers.
    AloneUntold,
    /// A raft leader that replayed its log late does not look how old its leases are.
    AgeUnknown,
    /// A raft leader ends leases without asking whether it still leads.
    VerdictUnasked,
    /// A process that stood still expires what it could not hear of.
    PauseCounts,
    /// Leaving frees whatever the session holds, whichever token it names.
    UnguardedUnlock,
    /// A leader that makes room keeps its token for its next time.
    TokenReused,
    /// No candidate waits for an evicted leader to have stopped.
    DelayForgotten,
    /// A waiter is told that it holds a candidacy which is gone.
    OwnKeyNotReread,
    /// A request of a session that comes again is done again.
    RequestTwice,
    /// A watcher that catches up misses what happened at the revision where it begins.
    WatchGap,
    /// The next candidate is not told when a leader goes: the election is stuck.
    ElectionStuck,
    /// A newcomer overtakes those of its own priority, too.
    OvertakesEqual,
    /// A vote is given without asking how far the candidate's log goes.
    VoteForAnybody,
    /// It asks to be called again at once, always.
    NeverSleeps,
    /// Once there has been a raft leader, no member campaigns again.
    NeverCampaigns,
    /// A follower takes entries without asking what comes before them.
    AppendsAnywhere,
    /// A transaction that changes nothing gives back the revision that it never took.
    RevisionGivenBack,
    /// What the log says is done by each member's own clock.
    OwnClock,
    /// A cluster that is restored goes on from where its backup ends.
    RestoredInPlace,
    /// A last batch that was damaged after it was written is cut off like one that a crash cut short (`tenure-disk`).
    DamagedTailCut,
    /// A member that was lost is there again only when it answers a call, not when it calls.
    OnlyAnswersReturn,
}

impl Canary {
    /// All of them.
    pub const ALL: [Canary; 36] = [
        Canary::SkippedFlush,
        Canary::EarlyPersist,
        Canary::VoteNotPersisted,
        Canary::SpeaksBeforeVote,
        Canary::FloorForgotten,
        Canary::LateRoundLost,
        Canary::ReadUnasked,
        Canary::ReadUncounted,
        Canary::VouchesUnwritten,
        Canary::VouchesInCrowds,
        Canary::BatchTwice,
        Canary::StaleExpiry,
        Canary::TtlReset,
        Canary::LeaderlessTimeCounts,
        Canary::CutOffTimeCounts,
        Canary::AloneUntold,
        Canary::AgeUnknown,
        Canary::VerdictUnasked,
        Canary::PauseCounts,
        Canary::UnguardedUnlock,
        Canary::TokenReused,
        Canary::DelayForgotten,
        Canary::OwnKeyNotReread,
        Canary::RequestTwice,
        Canary::WatchGap,
        Canary::ElectionStuck,
        Canary::OvertakesEqual,
        Canary::VoteForAnybody,
        Canary::NeverSleeps,
        Canary::NeverCampaigns,
        Canary::AppendsAnywhere,
        Canary::RevisionGivenBack,
        Canary::OwnClock,
        Canary::RestoredInPlace,
        Canary::DamagedTailCut,
        Canary::OnlyAnswersReturn,
    ];

    /// Whether it is planted on this thread. Never, in a release build.
    pub fn sings(self) -> bool {
        cfg!(debug_assertions) && PLANTED.with(Cell::get) == Some(self)
    }
}

thread_local! {
    static PLANTED: Cell<Option<Canary>> = const { Cell::new(None) };
}

/// Plants a mistake on this thread until the answer is dropped.
#[cfg(debug_assertions)]
pub fn plant(canary: Canary) -> Planted {
    PLANTED.with(|planted| planted.set(Some(canary)));
    Planted(())
}

/// A mistake is planted for as long as this lives.
#[cfg(debug_assertions)]
#[derive(Debug)]
pub struct Planted(());

#[cfg(debug_assertions)]
impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.with(|planted| planted.set(None));
    }
}
