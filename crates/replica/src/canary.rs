//! Planted bugs: plausible mistakes, each behind [`canary!`](crate::canary!).
//!
//! They prove the checks of the lab: one that no invariant finds says that an invariant sleeps. There are
//! none in a release build; in a build with debug assertions all are off until a test plants one, on its
//! own thread.

use std::cell::Cell;

/// Whether this mistake is planted on this thread. A release build has `false` in its place, and nothing behind it.
#[macro_export]
macro_rules! canary {
    ($name:ident) => {
        cfg!(debug_assertions) && $crate::canary::Canary::$name.is_planted()
    };
}

/// Defines [`Canary`], and the list of all.
macro_rules! canaries {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// A mistake in this crate, in the one that writes its log, or in the lab around both.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Canary { $($(#[$about])* $name,)* }

        const ALL: &[Canary] = &[$(Canary::$name,)*];
    };
}

canaries! {
    // Of the replica, and of the disk.

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
    /// What a user may do is not worked out anew when its roles change.
    RevokedRightsStay,
    /// Raft takes messages and snapshots of peers as they come.
    UncheckedMessages,

    // Of the lab: the host around the replica, and programs.

    /// The disk acknowledges writes before they are durable.
    DiskLies,
    /// A write is acknowledged while one before it still waits.
    DiskAcknowledgesOutOfOrder,
    /// A restarted member has forgotten its vote.
    VoteForgotten,
    /// Linearizable reads are answered from whatever state the member has.
    StaleReads,
    /// A forwarded batch is delivered twice, under two sequence numbers.
    ForwardedTwice,
    /// A member's clock runs at double speed.
    ClockRuns,
    /// A watch stream loses one of its messages.
    NewsLost,
    /// A snapshot is of a later state than its mark says.
    SnapshotMislabelled,
    /// A snapshot is saved under the list of members as it will be when the change under way is done.
    MarkForgetsChange,
    /// A deletion says that it deleted one key more than it did.
    DeletionMiscounted,
    /// A request is answered twice.
    AnsweredTwice,
    /// The host drops an answer.
    AnswerSwallowed,
    /// The clocks of programs run at half the speed, so that programs believe for too long.
    SlowPrograms,
    /// An observer misses an event now and then.
    BlindObservers,
    /// Programs write without a guard on their tokens.
    UnguardedWrites,
    /// Programs ignore a loss for a while, past their deadline.
    StubbornHolders,
}

thread_local! {
    static PLANTED: Cell<Option<Canary>> = const { Cell::new(None) };
}

impl Canary {
    /// The mistake of that name. None in a release build, which has no planted bugs.
    pub fn named(name: &str) -> Option<Canary> {
        let is_meant = |canary: &&Canary| cfg!(debug_assertions) && format!("{canary:?}") == name;
        ALL.iter().find(is_meant).copied()
    }

    /// Whether any mistake is planted on this thread.
    pub fn any_is_planted() -> bool {
        PLANTED.get().is_some()
    }

    /// For [`canary!`](crate::canary!).
    pub fn is_planted(self) -> bool {
        PLANTED.get() == Some(self)
    }

    /// Plants it on this thread until the answer is dropped.
    pub fn plant(self) -> Planted {
        PLANTED.set(Some(self));
        Planted(())
    }
}

/// A mistake is planted for as long as this lives.
#[must_use]
#[derive(Debug)]
pub struct Planted(());

impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(None);
    }
}
