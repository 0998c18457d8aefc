//! What peers send, and what lies in the log.

use std::fmt::Debug;

use proptest::prelude::*;
use tenure_damage::{damaged, hold};
use tenure_replica::codec::Codec;

use crate::{read, words};

/// Damaged bytes of such a value are refused, or read as something that reads the same again.
fn are_refused_or_read<T: Codec + PartialEq + Debug>(cases: u32, sound: impl Strategy<Value = T>) {
    hold(cases, damaged(sound.prop_map(|value| value.to_bytes())), |bytes| {
        read::<T>(&bytes).map(drop)
    });
}

#[test]
fn fuzz_messages_are_refused_or_read() {
    are_refused_or_read(1000, words::message());
}

#[test]
fn fuzz_entries_are_refused_or_read() {
    are_refused_or_read(500, words::entry());
}

#[test]
fn fuzz_votes_are_refused_or_read() {
    are_refused_or_read(500, words::hard_state());
}

#[test]
fn fuzz_snapshot_marks_are_refused_or_read() {
    are_refused_or_read(500, words::mark());
}
