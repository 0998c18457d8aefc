//! bbolt files in which anything may be wrong but the checksums of their meta pages.

use proptest::{prelude::*, sample::Index};
use tenure_damage::{Wounds, frugally, hold, spoilt};

use super::tests::{PAGE_BYTES, SNAPSHOT, read};

/// How much of a page says where the rest is: its header and some elements.
const TELLING_BYTES: usize = 16 + 8 * 16;
/// What the checksum of a meta page covers, and where that stands.
const COVERED: std::ops::Range<usize> = 16..72;

/// A part of a page, and what happens to it.
#[derive(Clone, Debug)]
struct Hurt {
    page: Index,
    /// Only in the part that says where the rest is.
    telling: bool,
    wounds: Wounds,
}

fn hurt() -> impl Strategy<Value = Hurt> {
    (any::<Index>(), prop::bool::weighted(0.8), spoilt()).prop_map(|(page, telling, wounds)| Hurt {
        page,
        telling,
        wounds,
    })
}

fn fnv64a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Pages stay where they are, as in a file that was written over.
fn hurt_file(hurts: &[Hurt]) -> Vec<u8> {
    let mut bytes = SNAPSHOT.to_vec();
    for Hurt { page, telling, wounds } in hurts {
        let start = page.index(SNAPSHOT.len() / PAGE_BYTES) * PAGE_BYTES;
        let length = if *telling { TELLING_BYTES } else { PAGE_BYTES };
        let mut part = wounds.on(&bytes[start..start + length]);
        part.resize(length, 0);
        bytes[start..start + length].copy_from_slice(&part);
    }
    for meta in [0, PAGE_BYTES] {
        let sum = fnv64a(&bytes[meta + COVERED.start..meta + COVERED.end]);
        bytes[meta + COVERED.end..][..8].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

#[test]
fn pages_that_are_wrong() {
    assert_eq!(hurt_file(&[]), SNAPSHOT, "what is sealed by hand is sealed right");
    hold(400, prop::collection::vec(hurt(), 1..4), |hurts| {
        let bytes = hurt_file(&hurts);
        let _ = frugally(bytes.len(), || read(&bytes, true));
        Ok(())
    });
}

#[test]
fn files_that_are_cut_and_stretched() {
    hold(200, spoilt(), |wounds| {
        let bytes = wounds.on(SNAPSHOT);
        let _ = frugally(bytes.len(), || read(&bytes, true));
        let _ = frugally(bytes.len(), || read(&bytes, false));
        Ok(())
    });
}
