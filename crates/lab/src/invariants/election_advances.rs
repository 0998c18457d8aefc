//! Whenever an election has a candidate that may lead, one leads and was told: the election advances at the revision
//! at which its leader goes. The leader is always the first candidate.

use tenure_replica::{State, election::Mode};

use super::must;
use crate::engine::RunCounts;

pub const NAME: &str = "election_advances";

/// Called after every entry that touched an election.
pub fn check(state: &State, counts: &mut RunCounts) {
    for election in state.elections.elections() {
        let (name, election) = election;
        let Some(first) = election.candidates().first() else { continue };
        counts.count(NAME);
        if election.candidates().iter().all(|candidate| candidate.mode() == Mode::Exclusive) {
            let leads = election
                .candidates()
                .iter()
                .position(|candidate| candidate.told && candidate.holds());
            must!(
                leads.is_none_or(|at| at == 0),
                "candidate {leads:?}, not the first, leads {name:?}: {:?}",
                election.candidates()
            );
        }
        // The first candidate may have to wait for a stop, a drain, a resume, or for other names.
        let alone = first.spec.as_ref().is_none_or(|spec| spec.together.len() == 1);
        let may = !election.is_frozen() && !election.is_delayed() && !first.unhealthy && alone;
        must!(!may || first.told, "{name:?} does not advance: {:?}", election.candidates());
    }
}
