//! No listener is told that a candidacy holds which never led, or that one is gone which exists. What a member says of a
//! candidacy is true in its own state at that moment, or was just before.

use bytes::Bytes;
use tenure_api::Revision;
use tenure_replica::election::listeners::ListenerEvent;

use super::must;
use crate::cluster::{World, member::MemberNumber};

pub const NAME: &str = "held_is_true";

pub fn check(
    world: &mut World,
    member: MemberNumber,
    (name, key, created): (&Bytes, &Bytes, Revision),
    news: &ListenerEvent,
) {
    world.counts.count(NAME);
    let process = world.members[&member].process.as_ref();
    let Some(state) = process.map(|process| process.replica.state()) else { return };
    let candidate =
        state.elections.election(name).and_then(|election| election.candidate(created, key));
    match news {
        ListenerEvent::Held => {
            // A member that catches up may have applied the end of that tenure in the same call.
            let led = || {
                let election = state.elections.election(name);
                election.is_some_and(|election| {
                    election.tenures().any(|tenure| tenure.token == created)
                })
            };
            let holds = candidate.map_or_else(led, |candidate| candidate.told && candidate.holds());
            must!(holds, "m{member} says that {key:?} of {created} leads, but it is {candidate:?}");
        }
        ListenerEvent::Gone(_) => {
            must!(
                candidate.is_none(),
                "m{member} says that {key:?} of {created} is gone: {candidate:?}"
            );
        }
        _ => {}
    }
}
