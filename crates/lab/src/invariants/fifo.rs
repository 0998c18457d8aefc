//! First come, first served: whoever joins stands behind everybody who came before with the same priority
//! or a higher one and is fit to lead.

use tenure_replica::{
    State,
    command::{Ask, Command, LineCommand},
};

use super::must;
use crate::engine::Counts;

pub const NAME: &str = "fifo";

/// To be asked of every command, with the states before and after it.
pub fn judge(command: &Command, before: &State, after: &State, counts: &mut Counts) {
    let Command::Line(LineCommand::Ask { session, ask: Ask::Join(join), .. }) = command else {
        return;
    };
    for name in &join.names {
        let old = before.queues.line(name);
        if old.is_some_and(|line| line.place_of(*session).is_some()) {
            continue;
        }
        let Some(line) = after.queues.line(name) else { continue };
        let Some(own) = line.place_of(*session) else { continue };
        counts.count(NAME);
        let overtaken =
            line.places().iter().skip_while(|place| place.key != own.key).skip(1).find(|place| {
                let there =
                    old.is_some_and(|line| line.places().iter().any(|p| p.key == place.key));
                there && !place.unhealthy && place.priority() >= own.priority()
            });
        must!(overtaken.is_none(), "{session} joined {name:?} before {overtaken:?}: {own:?}");
    }
}
