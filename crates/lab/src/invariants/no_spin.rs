//! A replica asks to be called again only when it has something to do. One that asks for "now" again and again and then
//! does nothing burns a core.

use tenure_replica::{Effects, Moment};

use super::must;
use crate::{
    cluster::member::{MemberNumber, MemberProcess},
    engine::RunCounts,
};

pub const NAME: &str = "no_spin";

/// How many calls in a row may have no effect, if they follow each other as closely as this. (To read history for a
/// watcher that is behind is work, though it may have no effect for a while.)
const IDLE_CALLS_MAX: u32 = 300;
const CLOSELY: std::time::Duration = std::time::Duration::from_millis(2);

pub fn check(
    member: MemberNumber,
    process: &mut MemberProcess,
    (now, unasked): (Moment, bool),
    effects: &Effects,
    counts: &mut RunCounts,
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
