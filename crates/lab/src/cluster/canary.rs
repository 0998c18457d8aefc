//! Planted bugs. They live in the house around the machine, never in the machine; each must be found
//! by an invariant, or the invariant is worth nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// The disk says "durable" when it has only been asked.
    DiskLies,
    /// A write is acknowledged while one before it still waits.
    DiskAcknowledgesOutOfOrder,
    /// A restarted member has forgotten its vote.
    VoteForgotten,
    /// Linearizable reads are answered from whatever the member has.
    StaleReads,
    /// A forwarded batch goes in twice, under two numbers.
    ForwardedTwice,
    /// A member's clock runs at double speed.
    ClockRuns,
    /// A watch stream loses one of its messages.
    NewsLost,
    /// A snapshot is of a later state than its mark says.
    SnapshotMislabelled,
    /// A snapshot is saved under the list of members as it will be when the change under way is done.
    MarkForgetsChange,
    /// An answer is given twice.
    AnsweredTwice,
    /// An answer never leaves the house.
    AnswerSwallowed,
    /// The clocks of programs run at half the speed: they believe for too long.
    SlowPrograms,
    /// An observer misses a sight now and then.
    BlindObservers,
    /// Programs write without the guard of their tokens.
    UnguardedWrites,
    /// Programs that lose something go on for a while, past their deadline.
    StubbornHolders,
}

/// Plants a mistake in the shipped replica, for as long as the process lives: for those who want to see
/// what is said when something breaks. In a release build there is none, and the answer is no.
pub fn plant_for_good(name: &str) -> bool {
    #[cfg(debug_assertions)]
    {
        let known = tenure_replica::canary::Canary::ALL;
        if let Some(canary) = known.iter().find(|canary| format!("{canary:?}") == name) {
            std::mem::forget(tenure_replica::canary::plant(*canary));
            return true;
        }
    }
    let _ = name;
    false
}
