//! What may never happen, one file each.
//!
//! | invariant | where it comes from |
//! |---|---|
//! | [`one_leader`] | Raft §5.2, election safety |
//! | [`one_roll`] | the member list lives in one place only; a removed member never leads |
//! | [`agreement`] | Raft §5.4, state machine safety; invariant 1 of the design |
//! | [`durable_commit`] | invariant 3: the leader's own count waits for the disk, too |
//! | [`one_answer`] | invariant 4 |
//! | [`one_believer`] | section 6 of the design: lock delay, fencing |
//! | [`one_holder`] | the library's promise: who believes is right |
//! | [`tenures_seen`] | the library's promise: an observer sees every tenure once |
//! | [`written_once`] | an acknowledged write is there, once; a refused one is not |
//! | [`linearizable`] | what was acknowledged before I asked, I see |
//! | [`growth`] | invariant 5: revisions, terms and tokens only grow |
//! | [`leases_kept`] | invariant 6: no lease ends before its holder stops believing |
//! | [`leases_end`] | a dead holder's lease ends, soon |
//! | [`watch_story`] | every event once, in order, whole revisions, no gap |
//! | [`no_spin`] | the machine asks to be called when it has something to do, not before |
//!
//! They are judged after every call of every machine. None of them changes anything.

pub mod agreement;
pub mod durable_commit;
pub mod growth;
pub mod leases_end;
pub mod leases_kept;
pub mod linearizable;
pub mod no_spin;
pub mod one_answer;
pub mod one_believer;
pub mod one_holder;
pub mod one_leader;
pub mod one_roll;
pub mod tenures_seen;
pub mod watch_story;
pub mod written_once;

/// What each is called in counts and failures.
pub const ALL: [&str; 12] = [
    agreement::NAME,
    durable_commit::NAME,
    growth::NAME,
    leases_end::NAME,
    leases_kept::NAME,
    linearizable::NAME,
    no_spin::NAME,
    one_answer::NAME,
    one_leader::NAME,
    one_roll::NAME,
    watch_story::NAME,
    written_once::NAME,
];

/// Everything the invariants remember.
#[derive(Default)]
pub struct Invariants {
    pub one_leader: one_leader::OneLeader,
    pub one_answer: one_answer::OneAnswer,
    pub one_believer: one_believer::OneBeliever,
    pub written_once: written_once::WrittenOnce,
    pub linearizable: linearizable::Linearizable,
    pub growth: growth::Growth,
    pub leases_kept: leases_kept::LeasesKept,
}

/// Fails the run in the name of an invariant.
macro_rules! must {
    ($holds:expr, $($why:tt)*) => {
        if !$holds {
            panic!("invariant {}: {}", NAME, format!($($why)*));
        }
    };
}
pub(crate) use must;
