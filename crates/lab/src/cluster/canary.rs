//! Planted bugs in the host around the replica and in programs, never in the replica itself. An invariant must
//! find each of them; one that does not is worth nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabCanary {
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

/// Plants a bug in the shipped replica for the rest of the process, to show what a failure looks like. Release
/// builds have no planted bugs: the result is false.
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
