//! Nobody is told that it holds a place that never led, or that a place is gone which is there: what a member
//! says of a place is so in its own state when it says it, or was a moment before.

use bytes::Bytes;
use tenure_api::Revision;
use tenure_replica::queue::listeners::LineNews;

use super::must;
use crate::cluster::{World, member::Number};

pub const NAME: &str = "held_is_true";

pub fn judge(
    world: &mut World,
    member: Number,
    (name, key, created): (&Bytes, &Bytes, Revision),
    news: &LineNews,
) {
    world.counts.count(NAME);
    let process = world.members[&member].process.as_ref();
    let Some(state) = process.map(|process| process.replica.state()) else { return };
    let place = state.queues.line(name).and_then(|line| line.place(created, key));
    match news {
        LineNews::Held => {
            // A member that catches up may have come to the end of that tenure in the same breath.
            let led = || {
                let line = state.queues.line(name);
                line.is_some_and(|line| line.tenures().any(|tenure| tenure.token == created))
            };
            let holds = place.map_or_else(led, |place| place.told && place.holds());
            must!(holds, "m{member} says that {key:?} of {created} leads, but it is {place:?}");
        }
        LineNews::Gone(_) => {
            must!(place.is_none(), "m{member} says that {key:?} of {created} is gone: {place:?}");
        }
        _ => {}
    }
}
