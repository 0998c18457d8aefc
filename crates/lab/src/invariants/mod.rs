//! What may never happen, one file each.
//!
//! | invariant | where it comes from |
//! |---|---|
//! | [`one_leader`] | Raft §5.2, election safety |
//! | [`log_matching`] | Raft §5.3 |
//! | [`leader_completeness`] | Raft §5.4 |
//! | [`one_roll`] | the member list lives in one place only; a removed member never leads |
//! | [`agreement`] | Raft §5.4, state machine safety; invariant 1 of the design |
//! | [`durable_commit`] | invariant 3: the leader's own count waits for the disk, too |
//! | [`one_answer`] | invariant 4 |
//! | [`one_believer`] | section 6 of the design: lock delay |
//! | [`one_writer`] | section 6: fencing, whatever else goes wrong |
//! | [`one_holder`] | the library's promise: who believes is right |
//! | [`tenures_seen`] | the library's promise: an observer sees every tenure once |
//! | [`written_once`] | an acknowledged write is there, once; a refused one is not |
//! | [`linearizable`] | what was acknowledged before I asked, I see |
//! | [`growth`] | invariant 5: revisions, terms and tokens only grow |
//! | [`tokens_grow`] | invariant 5, of the log and of what clients are told |
//! | [`queue_advances`] | invariant 10: the first in line leads, and is told at that revision |
//! | [`acts_once`] | section 6: retries are told apart by request id |
//! | [`fifo`] | section 6: order by create revision, priority apart |
//! | [`held_is_true`] | section 6: campaign never reports victory for a key that is gone |
//! | [`freed_by_its_token`] | section 6: resign and unlock are guarded by create revision |
//! | [`leases_kept`] | invariant 6: no lease ends before its holder stops believing |
//! | [`leases_survive`] | section 5: a leader change does not cut a live lease |
//! | [`leases_end`] | a dead holder's lease ends, soon |
//! | [`watch_story`] | every event once, in order, whole revisions, no gap |
//! | [`heals`] | liveness: a healed cluster serves within a bound |
//! | [`no_spin`] | the machine asks to be called when it has something to do, not before |
//!
//! They are judged after every call of every machine. None of them changes anything.

pub mod acts_once;
pub mod agreement;
pub mod durable_commit;
pub mod fifo;
pub mod freed_by_its_token;
pub mod growth;
pub mod heals;
pub mod held_is_true;
pub mod leader_completeness;
pub mod leases_end;
pub mod leases_kept;
pub mod leases_survive;
pub mod linearizable;
pub mod log_matching;
pub mod no_spin;
pub mod one_answer;
pub mod one_believer;
pub mod one_holder;
pub mod one_leader;
pub mod one_roll;
pub mod one_writer;
pub mod queue_advances;
pub mod tenures_seen;
pub mod tokens_grow;
pub mod watch_story;
pub mod written_once;

use crate::cluster::scenario::Scenario;

/// What each is called in counts and failures.
pub const ALL: [&str; 15] = [
    agreement::NAME,
    durable_commit::NAME,
    growth::NAME,
    heals::NAME,
    leader_completeness::NAME,
    leases_end::NAME,
    leases_kept::NAME,
    linearizable::NAME,
    log_matching::NAME,
    no_spin::NAME,
    one_answer::NAME,
    one_leader::NAME,
    one_roll::NAME,
    watch_story::NAME,
    written_once::NAME,
];

/// Those that can be held against a scenario.
pub fn expected(scenario: &Scenario) -> Vec<&'static str> {
    // One log has nothing to be compared with.
    let lonely = scenario.members == 1;
    let of_lines: &[&str] = if scenario.candidates > 0 { &OF_LINES } else { &[] };
    let mut expected: Vec<&str> = ALL.iter().chain(of_lines).copied().collect();
    // Without trouble nobody has to ask again.
    expected.retain(|name| !(scenario.faults.is_empty() && *name == acts_once::NAME));
    expected.retain(|name| !(lonely && *name == log_matching::NAME));
    // Programs write nothing that is written once.
    expected.retain(|name| !(scenario.registers == 0 && *name == written_once::NAME));
    expected.retain(|name| !(scenario.watchers == 0 && *name == watch_story::NAME));
    if scenario.programs.is_some() {
        expected.extend(OF_PROGRAMS);
    }
    expected
}

/// Those that something is held against in every single run, however short.
pub fn of_every_run(scenario: &Scenario) -> Vec<&'static str> {
    let mut expected = expected(scenario);
    expected.retain(|name| !OF_LINES.contains(name));
    expected
}

/// Those of elections, where there are any.
pub const OF_LINES: [&str; 8] = [
    acts_once::NAME,
    fifo::NAME,
    freed_by_its_token::NAME,
    held_is_true::NAME,
    one_believer::NAME,
    one_writer::NAME,
    queue_advances::NAME,
    tokens_grow::NAME,
];

/// Those of programs that use the library.
pub const OF_PROGRAMS: [&str; 3] = [one_holder::NAME, one_writer::NAME, tenures_seen::NAME];

/// Everything the invariants remember.
#[derive(Default)]
pub struct Invariants {
    pub log_matching: log_matching::LogMatching,
    pub one_leader: one_leader::OneLeader,
    pub one_answer: one_answer::OneAnswer,
    pub one_believer: one_believer::OneBeliever,
    pub one_writer: one_writer::OneWriter,
    pub written_once: written_once::WrittenOnce,
    pub linearizable: linearizable::Linearizable,
    pub growth: growth::Growth,
    pub leases_kept: leases_kept::LeasesKept,
    pub leader_completeness: leader_completeness::LeaderCompleteness,
    pub tokens_grow: tokens_grow::TokensGrow,
}

impl Invariants {
    /// What a cluster still owes that begins again from a backup. What was acknowledged after the backup is lost,
    /// the log and its terms are new, and keys that hang on no lease are as they were; but no token that was
    /// ever given out may come a second time.
    pub fn after_restore(self) -> Invariants {
        Invariants {
            one_writer: self.one_writer,
            tokens_grow: self.tokens_grow,
            ..Invariants::default()
        }
    }
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
