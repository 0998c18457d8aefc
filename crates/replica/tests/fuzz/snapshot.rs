//! A state as chunks, from a file or a peer.

use proptest::{collection::vec, prelude::*, sample::Index};
use tenure_damage::{Wounds, frugally, hold, spoilt};
use tenure_replica::{Snapshot, SnapshotReader, State, codec::DecodeError, command::Command};

use super::commands::{apply, beginning};
use crate::words;

fn chunks(state: State) -> Vec<Vec<u8>> {
    Snapshot { mark: Default::default(), state }.chunks().collect()
}

fn thaw(chunks: &[Vec<u8>]) -> Result<State, DecodeError> {
    let mut thaw = SnapshotReader::new();
    for chunk in chunks {
        thaw.chunk(chunk)?;
    }
    thaw.finish()
}

/// What happens to chunks, whose own checksums are right.
#[derive(Clone, Debug)]
enum Mishap {
    Hurt(Index, Wounds),
    Lost(Index),
    Twice(Index),
    Swapped(Index, Index),
}

fn mishap() -> impl Strategy<Value = Mishap> {
    let at = any::<Index>;
    prop_oneof![
        6 => (at(), spoilt()).prop_map(|(at, wounds)| Mishap::Hurt(at, wounds)),
        1 => at().prop_map(Mishap::Lost),
        1 => at().prop_map(Mishap::Twice),
        1 => (at(), at()).prop_map(|(a, b)| Mishap::Swapped(a, b)),
    ]
}

impl Mishap {
    fn befall(&self, chunks: &mut Vec<Vec<u8>>) {
        let count = chunks.len();
        match self {
            _ if count == 0 => {}
            Mishap::Hurt(at, wounds) => {
                let at = at.index(count);
                chunks[at] = wounds.on(&chunks[at]);
            }
            Mishap::Lost(at) => drop(chunks.remove(at.index(count))),
            Mishap::Twice(at) => chunks.insert(at.index(count), chunks[at.index(count)].clone()),
            Mishap::Swapped(a, b) => chunks.swap(a.index(count), b.index(count)),
        }
    }
}

fn commands() -> impl Strategy<Value = Vec<Command>> {
    vec(words::command(), 0..12)
}

#[test]
fn fuzz_snapshot_that_is_read_can_be_taken_and_read_again() {
    hold(1000, (commands(), vec(mishap(), 0..4)), |(commands, mishaps)| {
        let mut state = beginning();
        apply(&mut state, &commands);
        let mut hurt = chunks(state);
        mishaps.iter().for_each(|mishap| mishap.befall(&mut hurt));
        let bytes = hurt.iter().map(Vec::len).sum();
        let thawed = frugally(bytes, || thaw(&hurt));
        prop_assert!(thawed.is_ok() || !mishaps.is_empty(), "what is sound is refused");
        let Ok(thawed) = thawed else { return Ok(()) };
        let again = chunks(thawed);
        let twice = thaw(&again);
        prop_assert!(twice.is_ok(), "{:?}", twice.err());
        prop_assert_eq!(twice.map(chunks), Ok(again));
        Ok(())
    });
}
