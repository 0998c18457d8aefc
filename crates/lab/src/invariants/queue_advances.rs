//! Whenever a line has somebody who may lead, somebody leads and was told: the queue advances at the
//! revision at which the leader goes. And it is the first in line who leads, always.

use tenure_replica::{State, queue::Mode};

use super::must;
use crate::engine::Counts;

pub const NAME: &str = "queue_advances";

/// To be asked after every entry that touched a line.
pub fn judge(state: &State, counts: &mut Counts) {
    for line in state.queues.lines() {
        let (name, line) = line;
        let Some(first) = line.places().first() else { continue };
        counts.count(NAME);
        if line.places().iter().all(|place| place.mode() == Mode::Exclusive) {
            let leads = line.places().iter().position(|place| place.told && place.holds());
            must!(
                leads.is_none_or(|at| at == 0),
                "the {leads:?}th in line leads {name:?}: {:?}",
                line.places()
            );
        }
        // Somebody may have to wait for a stop, for a drain, for a thaw, or for other names.
        let alone = first.candidate.as_ref().is_none_or(|candidate| candidate.together.len() == 1);
        let may = !line.is_frozen() && !line.is_delayed() && !first.unhealthy && alone;
        must!(!may || first.told, "{name:?} stands still: {:?}", line.places());
    }
}
