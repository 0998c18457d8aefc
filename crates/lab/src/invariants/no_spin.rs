//! The machine asks to be called again when it has something to do. One that asks for "now" over and
//! over and then does nothing burns a core, and just when the others need it.

use tenure_replica::{Effects, Moment};

use super::must;
use crate::{
    cluster::member::{Number, Process},
    engine::Counts,
};

pub const NAME: &str = "no_spin";

/// So many calls in a row may come to nothing, if they follow each other as closely as this. (Reading
/// history for a watcher that is behind is work, though nothing may come of it for a while.)
const IDLE_CALLS_MAX: u32 = 300;
const CLOSELY: std::time::Duration = std::time::Duration::from_millis(2);

pub fn judge(
    member: Number,
    process: &mut Process,
    (now, unasked): (Moment, bool),
    effects: &Effects,
    counts: &mut Counts,
) {
    counts.count(NAME);
    let idle = unasked
        && now.since(process.last_call) <= CLOSELY
        && effects.persist.is_empty()
        && effects.messages.is_empty()
        && effects.answers.is_empty()
        && effects.watch.is_empty()
        && effects.notices.is_empty();
    process.last_call = now;
    process.idle_calls = if idle { process.idle_calls + 1 } else { 0 };
    let spins = process.idle_calls > IDLE_CALLS_MAX;
    must!(!spins, "member {member} spins: {:?}", process.replica.status());
}
