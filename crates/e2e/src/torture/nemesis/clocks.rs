//! Wall clocks that jump. The time that passes is left alone.

use std::fs;

use super::SHORT;
use crate::torture::{Chance, Ground};

const JUMPS: [&str; 6] = ["+5h", "-3h", "+40d", "-700d", "+1s", "+0"];

/// Some members' clocks show another time, each its own.
pub(super) async fn jump(ground: &mut Ground, chance: &mut Chance) -> bool {
    for at in 0..ground.count() {
        if at == 0 || chance.percent(60) {
            let clock = ground.clock(at);
            // A reader must never see half of it.
            let written = clock.with_extension("new");
            fs::write(&written, chance.one_of(&JUMPS)).expect("a file of ours");
            fs::rename(&written, &clock).expect("a file of ours");
        }
    }
    tokio::time::sleep(SHORT).await;
    true
}
