//! A session's request acts once, however often it comes: a retry changes nothing.

use std::collections::BTreeSet;

use tenure_api::LeaseId;
use tenure_replica::{
    command::{Command, LineCommand},
    state::Traces,
};

use super::must;
use crate::engine::Counts;

pub const NAME: &str = "acts_once";

#[derive(Default)]
pub struct ActsOnce {
    seen: BTreeSet<(LeaseId, u64)>,
}

impl ActsOnce {
    /// To be asked of every command, with what came of it.
    pub fn judge(&mut self, command: &Command, traces: &Traces, counts: &mut Counts) {
        match command {
            Command::Line(LineCommand::Ask { session, request, ask }) => {
                let again = !self.seen.insert((*session, *request));
                if again {
                    counts.count(NAME);
                    let acts = !traces.changes.is_empty();
                    must!(!acts, "request {request} of {session} acted again: {ask:?}");
                }
            }
            // Its number may be given to another session.
            Command::Line(LineCommand::Open { id, .. }) => {
                self.seen.retain(|(session, _)| session != id);
            }
            _ => {}
        }
    }
}
