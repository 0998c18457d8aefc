//! Invariants: what must hold in every run, one file each.
//!
//! | invariant | where it comes from |
//! |---|---|
//! | [`one_leader`] | Raft §5.2, election safety |
//! | [`log_matching`] | Raft §5.3 |
//! | [`leader_completeness`] | Raft §5.4 |
//! | [`one_membership`] | raft counts the members of the replicated list; a removed member never leads |
//! | [`agreement`] | Raft §5.4, state machine safety; invariant 1 of the design |
//! | [`durable_commit`] | invariant 3: the leader's own count waits for the disk, too |
//! | [`one_answer`] | invariant 4 |
//! | [`one_believer`] | section 6 of the design: lock delay |
//! | [`one_writer`] | section 6: fencing, whatever else goes wrong |
//! | [`one_holder`] | the library's promise: a program that believes to hold is right |
//! | [`tenures_seen`] | the library's promise: an observer sees every tenure once |
//! | [`written_once`] | an acknowledged write is there, once; a refused one is not |
//! | [`linearizable`] | a request sees what was acknowledged before it was sent |
//! | [`growth`] | invariant 5: revisions, terms and tokens only grow |
//! | [`tokens_grow`] | invariant 5, of the log and of what clients are told |
//! | [`election_advances`] | invariant 10: the first candidate leads, and is told at that revision |
//! | [`acts_once`] | section 6: retries are told apart by request id |
//! | [`fifo`] | section 6: order by create revision, priority apart |
//! | [`held_is_true`] | section 6: campaign never reports victory for a key that is gone |
//! | [`freed_by_its_token`] | section 6: resign and unlock are guarded by create revision |
//! | [`leases_kept`] | invariant 6: no lease ends before its holder stops believing |
//! | [`leases_survive`] | section 5: time in which nothing could be renewed is given back |
//! | [`leases_end`] | a dead holder's lease ends, soon |
//! | [`rights_kept`] | a principal is never granted what its roles deny |
//! | [`watch_history`] | every event once, in order, whole revisions, no gap |
//! | [`heals`] | liveness: a healed cluster serves within a bound |
//! | [`no_spin`] | a replica asks to be called only when it has something to do |
//!
//! They are checked after every call of every replica. None of them changes anything.

pub mod acts_once;
pub mod agreement;
pub mod durable_commit;
pub mod durable_term;
pub mod election_advances;
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
pub mod one_membership;
pub mod one_writer;
pub mod read_floor;
pub mod rights_kept;
pub mod tenures_seen;
pub mod tokens_grow;
pub mod watch_history;
pub mod whole_answers;
pub mod written_once;

use crate::cluster::scenario::Scenario;

/// The names of those that every scenario checks, as in counts and failures.
pub const ALL: [&str; 19] = [
    agreement::NAME,
    durable_commit::NAME,
    durable_term::NAME,
    growth::NAME,
    heals::NAME,
    leader_completeness::NAME,
    leases_end::NAME,
    leases_kept::NAME,
    leases_survive::NAME,
    linearizable::NAME,
    log_matching::NAME,
    no_spin::NAME,
    one_answer::NAME,
    one_leader::NAME,
    one_membership::NAME,
    read_floor::NAME,
    watch_history::NAME,
    whole_answers::NAME,
    written_once::NAME,
];

/// The invariants that a scenario must have checked, over enough seeds.
pub fn expected(scenario: &Scenario) -> Vec<&'static str> {
    // One log has nothing to be compared with.
    let lonely = scenario.members == 1;
    let of_elections: &[&str] = if scenario.candidates > 0 { &OF_ELECTIONS } else { &[] };
    let mut expected: Vec<&str> = ALL.iter().chain(of_elections).copied().collect();
    // Without faults there are no retries.
    expected.retain(|name| !(scenario.faults.is_empty() && *name == acts_once::NAME));
    let of_several = [durable_term::NAME, log_matching::NAME, read_floor::NAME];
    expected.retain(|name| !(lonely && of_several.contains(name)));
    // Programs write no unique values.
    expected.retain(|name| !(scenario.registers == 0 && *name == written_once::NAME));
    expected.retain(|name| !(scenario.watchers == 0 && *name == watch_history::NAME));
    if scenario.users > 0 {
        expected.push(rights_kept::NAME);
    }
    if scenario.programs.is_some() {
        expected.extend(OF_PROGRAMS);
    }
    expected
}

/// The invariants that every single run must have checked, however short.
pub fn of_every_run(scenario: &Scenario) -> Vec<&'static str> {
    let mut expected = expected(scenario);
    expected.retain(|name| !OF_ELECTIONS.contains(name));
    expected
}

/// The invariants of elections.
pub const OF_ELECTIONS: [&str; 8] = [
    acts_once::NAME,
    fifo::NAME,
    freed_by_its_token::NAME,
    held_is_true::NAME,
    one_believer::NAME,
    one_writer::NAME,
    election_advances::NAME,
    tokens_grow::NAME,
];

/// The invariants of programs that use the library.
pub const OF_PROGRAMS: [&str; 3] = [one_holder::NAME, one_writer::NAME, tenures_seen::NAME];

/// The state of all invariants.
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
    pub leases_survive: leases_survive::LeasesSurvive,
    pub leader_completeness: leader_completeness::LeaderCompleteness,
    pub read_floor: read_floor::ReadFloor,
    pub tokens_grow: tokens_grow::TokensGrow,
}

impl Invariants {
    /// What still holds in a cluster that is restored from a backup. Writes after the backup are lost, the log and its terms
    /// are new, and keys without a lease are as they were; but no token may be given out a second time.
    pub fn after_restore(self) -> Invariants {
        Invariants {
            one_writer: self.one_writer,
            tokens_grow: self.tokens_grow,
            ..Invariants::default()
        }
    }
}

/// Fails the run with the name of the invariant.
macro_rules! must {
    ($holds:expr, $($why:tt)*) => {
        if !$holds {
            panic!("invariant {}: {}", NAME, format!($($why)*));
        }
    };
}
pub(crate) use must;
