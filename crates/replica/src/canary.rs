//! Planted bugs: mistakes that somebody could make here, each behind a switch.
//!
//! They prove the checks of the lab: one that no invariant finds says that an invariant sleeps. There are
//! none in a release build; in a build with debug assertions all are off until a test plants one, on its
//! own thread.

use std::cell::Cell;

/// A mistake in this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// A follower acknowledges entries, and grants votes, before its disk has them.
    SkippedFlush,
    /// The raft leader counts its own entries before its disk has them.
    EarlyPersist,
    /// The vote is not written with the term.
    VoteNotPersisted,
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
    /// A new raft leader counts the time in which nobody could renew.
    LeaderlessTimeCounts,
    /// A process that stood still expires what it could not hear of.
    PauseCounts,
    /// Leaving frees whatever the session holds, whichever token it names.
    UnguardedUnlock,
    /// A leader that makes room keeps its token for its next time.
    TokenReused,
    /// Nobody waits for an evicted leader to have stopped.
    DelayForgotten,
    /// A waiter is told that it holds a place which is gone.
    OwnKeyNotReread,
    /// A request of a session that comes again is done again.
    RequestTwice,
    /// A watcher that catches up misses what happened at the revision where it begins.
    WatchGap,
    /// Nobody is told when a leader goes: the line stands still.
    QueueStuck,
    /// A newcomer overtakes those of its own priority, too.
    JumpsTheLine,
    /// A vote is given without asking how far the candidate's log goes.
    VoteForAnybody,
    /// It asks to be called again at once, always.
    NeverSleeps,
    /// Once somebody has led, nobody campaigns again.
    NeverCampaigns,
    /// A follower takes entries without asking what comes before them.
    AppendsAnywhere,
    /// A transaction that changes nothing gives back the revision that it never took.
    RevisionGivenBack,
    /// What the log says is done by each member's own clock.
    OwnClock,
    /// A cluster that is restored goes on from where its backup ends.
    RestoredInPlace,
}

impl Canary {
    /// All of them.
    pub const ALL: [Canary; 27] = [
        Canary::SkippedFlush,
        Canary::EarlyPersist,
        Canary::VoteNotPersisted,
        Canary::ReadUnasked,
        Canary::ReadUncounted,
        Canary::VouchesUnwritten,
        Canary::VouchesInCrowds,
        Canary::BatchTwice,
        Canary::StaleExpiry,
        Canary::TtlReset,
        Canary::LeaderlessTimeCounts,
        Canary::PauseCounts,
        Canary::UnguardedUnlock,
        Canary::TokenReused,
        Canary::DelayForgotten,
        Canary::OwnKeyNotReread,
        Canary::RequestTwice,
        Canary::WatchGap,
        Canary::QueueStuck,
        Canary::JumpsTheLine,
        Canary::VoteForAnybody,
        Canary::NeverSleeps,
        Canary::NeverCampaigns,
        Canary::AppendsAnywhere,
        Canary::RevisionGivenBack,
        Canary::OwnClock,
        Canary::RestoredInPlace,
    ];

    /// Whether it is planted on this thread. Never, in a release build.
    pub(crate) fn sings(self) -> bool {
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
