//! What peers send, and what lies in the log.

use proptest::prelude::*;
use tenure_damage::{damaged, hold};
use tenure_replica::{Entry, HardState, Message, SnapshotMark, codec::Codec};

use crate::{read, words};

#[test]
fn messages() {
    hold(1000, damaged(words::message().prop_map(|message| message.to_bytes())), |bytes| {
        read::<Message>(&bytes).map(drop)
    });
}

#[test]
fn entries() {
    hold(500, damaged(words::entry().prop_map(|entry| entry.to_bytes())), |bytes| {
        read::<Entry>(&bytes).map(drop)
    });
}

#[test]
fn votes() {
    hold(500, damaged(words::hard_state().prop_map(|state| state.to_bytes())), |bytes| {
        read::<HardState>(&bytes).map(drop)
    });
}

#[test]
fn marks_of_snapshots() {
    hold(500, damaged(words::mark().prop_map(|mark| mark.to_bytes())), |bytes| {
        read::<SnapshotMark>(&bytes).map(drop)
    });
}
