//! First come, first served: a new candidate is placed behind all healthy candidates of the same or a higher
//! priority.

use tenure_replica::{
    State,
    command::{Command, ElectionCommand, SessionRequest},
};

use super::must;
use crate::engine::RunCounts;

pub const NAME: &str = "fifo";

/// Called for every command, with the states before and after it.
pub fn check(command: &Command, before: &State, after: &State, counts: &mut RunCounts) {
    let Command::Election(ElectionCommand::Request {
        session,
        request: SessionRequest::Join(join),
        ..
    }) = command
    else {
        return;
    };
    for name in &join.names {
        let old = before.elections.election(name);
        if old.is_some_and(|election| election.candidate_of(*session).is_some()) {
            continue;
        }
        let Some(election) = after.elections.election(name) else { continue };
        let Some(own) = election.candidate_of(*session) else { continue };
        counts.count(NAME);
        let overtaken = election
            .candidates()
            .iter()
            .skip_while(|candidate| candidate.key != own.key)
            .skip(1)
            .find(|candidate| {
                let there = old.is_some_and(|election| {
                    election.candidates().iter().any(|p| p.key == candidate.key)
                });
                there && !candidate.unhealthy && candidate.priority() >= own.priority()
            });
        must!(overtaken.is_none(), "{session} joined {name:?} before {overtaken:?}: {own:?}");
    }
}
