//! What peers send, and what lies in the log.

use proptest::prelude::*;
use tenure_damage::{damaged, hold};
use tenure_replica::{Entry, HardState, Message, SnapshotMark, codec::Codec};

use crate::{read, words};

#[test]
fn fuzz_messages_are_refused_or_read() {
    hold(1000, damaged(words::message().prop_map(|message| message.to_bytes())), |bytes| {
        read::<Message>(&bytes).map(drop)
    });
}

#[test]
fn fuzz_entries_are_refused_or_read() {
    hold(500, damaged(words::entry().prop_map(|entry| entry.to_bytes())), |bytes| {
        read::<Entry>(&bytes).map(drop)
    });
}

#[test]
fn fuzz_votes_are_refused_or_read() {
    hold(500, damaged(words::hard_state().prop_map(|state| state.to_bytes())), |bytes| {
        read::<HardState>(&bytes).map(drop)
    });
}

#[test]
fn fuzz_snapshot_marks_are_refused_or_read() {
    hold(500, damaged(words::mark().prop_map(|mark| mark.to_bytes())), |bytes| {
        read::<SnapshotMark>(&bytes).map(drop)
    });
}
