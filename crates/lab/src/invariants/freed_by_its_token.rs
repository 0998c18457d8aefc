//! A leave ends the candidacy of its token and nothing else: a late or repeated leave cannot end a newer candidacy.

use tenure_replica::{
    command::{Command, ElectionCommand, SessionRequest},
    election::{ElectionEvent, EndReason},
};

use super::must;
use crate::engine::RunCounts;

pub const NAME: &str = "freed_by_its_token";

/// Called for every command, with its events.
pub fn check(command: &Command, events: &[ElectionEvent], counts: &mut RunCounts) {
    let Command::Election(ElectionCommand::Request {
        session,
        request: SessionRequest::Leave { name, token, .. },
        ..
    }) = command
    else {
        return;
    };
    let Some(token) = token else { return };
    counts.count(NAME);
    for event in events {
        let ElectionEvent::Gone { name: of, candidate, why } = event else { continue };
        let left =
            of == name && candidate.session() == Some(*session) && *why == EndReason::Resigned;
        must!(
            !left || candidate.created == *token,
            "{session} left {name:?} with token {token} and lost {}",
            candidate.created
        );
    }
}
