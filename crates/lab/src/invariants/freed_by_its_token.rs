//! Leaving frees the place that it names by its token, and nothing else: what comes late, or again, cannot
//! free a newer hold.

use tenure_replica::{
    command::{Ask, Command, LineCommand},
    queue::{Event, TenureEnd},
};

use super::must;
use crate::engine::Counts;

pub const NAME: &str = "freed_by_its_token";

/// To be asked of every command, with what came of it.
pub fn judge(command: &Command, events: &[Event], counts: &mut Counts) {
    let Command::Line(LineCommand::Ask { session, ask: Ask::Leave { name, token, .. }, .. }) =
        command
    else {
        return;
    };
    let Some(token) = token else { return };
    counts.count(NAME);
    for event in events {
        let Event::Gone { name: of, place, why } = event else { continue };
        let left = of == name && place.session() == Some(*session) && *why == TenureEnd::Resigned;
        must!(
            !left || place.created == *token,
            "{session} left {name:?} with token {token} and lost {}",
            place.created
        );
    }
}
