//! A session's request acts once, however often it arrives: a retry changes nothing.

use std::collections::BTreeSet;

use tenure_api::LeaseId;
use tenure_replica::{
    command::{Command, ElectionCommand},
    state::ApplyEffects,
};

use super::must;
use crate::engine::RunCounts;

pub const NAME: &str = "acts_once";

#[derive(Default)]
pub struct ActsOnce {
    seen: BTreeSet<(LeaseId, u64)>,
}

impl ActsOnce {
    /// Called for every command, with its effects.
    pub fn check(&mut self, command: &Command, effects: &ApplyEffects, counts: &mut RunCounts) {
        match command {
            Command::Election(ElectionCommand::Request {
                session,
                number: request,
                request: ask,
            }) => {
                let again = !self.seen.insert((*session, *request));
                if again {
                    counts.count(NAME);
                    let acts = !effects.changes.is_empty();
                    must!(!acts, "request {request} of {session} acted again: {ask:?}");
                }
            }
            // The session id may be used again.
            Command::Election(ElectionCommand::Open { id, .. }) => {
                self.seen.retain(|(session, _)| session != id);
            }
            _ => {}
        }
    }
}
