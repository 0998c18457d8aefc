//! What can happen to bytes.

use std::fmt;

use proptest::{collection::vec, prelude::*, sample::Index};

/// The longest that anything grows by being hurt.
const GROWN_BYTES_MAX: usize = 64 << 10;
/// How often something may be hurt.
const WOUNDS_MAX: usize = 5;
/// Numbers that nobody expects, as they may be written.
const EXTREME: [&[u8]; 6] = [
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0x00; 8],
];

/// One thing that happens to bytes. Places are shares of whatever is there when it happens.
#[derive(Clone, Debug)]
enum Wound {
    /// A bit is another.
    Flip(Index, u8),
    /// A byte is another.
    Set(Index, u8),
    /// The rest is missing.
    Cut(Index),
    /// A piece is missing.
    Remove(Index, Index),
    /// Something stands where nothing did.
    Insert(Index, Vec<u8>),
    /// A piece comes so many times, to nest or to pile up.
    Repeat(Index, Index, usize),
    /// The same with the count before it, as a list has it.
    List(Index, Index, usize),
    /// A piece stands in another place, too.
    Copy(Index, Index, Index),
    /// Two pieces have changed places.
    Swap(Index, Index, Index),
    /// A number, wherever one is, is as large or as small as can be.
    Extreme(Index, usize),
    /// A byte grows or shrinks by a little: a length that is off by one.
    Nudge(Index, i8),
}

fn wound() -> impl Strategy<Value = Wound> {
    let at = any::<Index>;
    let times = || prop_oneof![3 => 1..20usize, 1 => 20..GROWN_BYTES_MAX];
    prop_oneof![
        4 => (at(), 0..8u8).prop_map(|(at, bit)| Wound::Flip(at, bit)),
        4 => (at(), any::<u8>()).prop_map(|(at, byte)| Wound::Set(at, byte)),
        2 => at().prop_map(Wound::Cut),
        2 => (at(), at()).prop_map(|(from, to)| Wound::Remove(from, to)),
        2 => (at(), vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Wound::Insert(at, bytes)),
        2 => (at(), at(), times()).prop_map(|(from, to, n)| Wound::Repeat(from, to, n)),
        2 => (at(), at(), times()).prop_map(|(from, to, n)| Wound::List(from, to, n)),
        2 => (at(), at(), at()).prop_map(|(from, to, place)| Wound::Copy(from, to, place)),
        2 => (at(), at(), at()).prop_map(|(from, middle, to)| Wound::Swap(from, middle, to)),
        4 => (at(), 0..EXTREME.len()).prop_map(|(at, which)| Wound::Extreme(at, which)),
        4 => (at(), -2..=2i8).prop_map(|(at, by)| Wound::Nudge(at, by)),
    ]
}

impl Wound {
    fn strike(&self, bytes: &mut Vec<u8>) {
        let end = bytes.len();
        // A place between two bytes, or at either end.
        let place = |at: &Index| at.index(end + 1);
        let piece = |from: &Index, to: &Index| {
            let (a, b) = (place(from), place(to));
            a.min(b)..a.max(b)
        };
        match self {
            Wound::Flip(..) | Wound::Set(..) | Wound::Nudge(..) if end == 0 => {}
            Wound::Flip(at, bit) => bytes[at.index(end)] ^= 1 << bit,
            Wound::Set(at, byte) => bytes[at.index(end)] = *byte,
            Wound::Nudge(at, by) => {
                let byte = &mut bytes[at.index(end)];
                *byte = byte.wrapping_add_signed(*by);
            }
            Wound::Cut(at) => bytes.truncate(place(at)),
            Wound::Remove(from, to) => drop(bytes.drain(piece(from, to))),
            Wound::Insert(at, more) => {
                let at = place(at);
                bytes.splice(at..at, more.iter().copied());
            }
            Wound::Repeat(from, to, times) => {
                let piece = piece(from, to);
                let many = repeated(&bytes[piece.clone()], *times).0;
                bytes.splice(piece, many);
            }
            Wound::List(from, to, times) => {
                let piece = piece(from, to);
                let (many, times) = repeated(&bytes[piece.clone()], *times);
                let count = varint(times);
                // In the place of the count that stood before, if one did.
                let start = piece.start.saturating_sub(1);
                bytes.splice(start..piece.end, count.into_iter().chain(many));
            }
            Wound::Copy(from, to, at) => {
                let copy = bytes[piece(from, to)].to_vec();
                let at = place(at);
                bytes.splice(at..at, copy);
            }
            Wound::Swap(from, middle, to) => {
                let mut places = [place(from), place(middle), place(to)];
                places.sort_unstable();
                bytes[places[0]..places[2]].rotate_left(places[1] - places[0]);
            }
            Wound::Extreme(at, which) => {
                let at = place(at);
                let over = (at + EXTREME[*which].len()).min(end);
                bytes.splice(at..over, EXTREME[*which].iter().copied());
            }
        }
        bytes.truncate(GROWN_BYTES_MAX.max(end));
    }
}

/// A piece so many times, within the limit, and how many times that was.
fn repeated(piece: &[u8], times: usize) -> (Vec<u8>, usize) {
    let times = times.min(GROWN_BYTES_MAX / piece.len().max(1));
    (piece.repeat(times), times)
}

fn varint(mut number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// Damaged bytes, which show themselves as text that can be copied into a test.
#[derive(Clone)]
pub struct Damaged(Vec<u8>);

impl std::ops::Deref for Damaged {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes: b\"{}\"", self.0.len(), self.0.escape_ascii())
    }
}

/// Hurts bytes in a way that can be repeated on others.
#[derive(Clone, Debug)]
pub struct Wounds(Vec<Wound>);

impl Wounds {
    /// The bytes after that.
    pub fn on(&self, sound: &[u8]) -> Vec<u8> {
        let mut bytes = sound.to_vec();
        self.0.iter().for_each(|wound| wound.strike(&mut bytes));
        bytes
    }
}

/// Some wounds, for bytes that are made only when a test runs.
pub fn spoilt() -> impl Strategy<Value = Wounds> {
    vec(wound(), 1..=WOUNDS_MAX).prop_map(Wounds)
}

/// What is sound, hurt once or a few times; now and then bytes of no meaning.
pub fn damaged(sound: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Damaged> {
    let hurt = (sound, spoilt()).prop_map(|(sound, wounds)| Damaged(wounds.on(&sound)));
    let noise = vec(any::<u8>(), 0..400).prop_map(Damaged);
    prop_oneof![12 => hurt, 1 => noise]
}

/// The same for texts. What is no text any more has a sign in its place that says so.
pub fn damaged_text(sound: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    damaged(sound.prop_map(String::into_bytes))
        .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use crate::hold;

    use super::*;

    #[test]
    fn whatever_happens_has_an_end() {
        hold(2000, damaged(vec(any::<u8>(), 0..100)), |bytes| {
            prop_assert!(bytes.len() <= GROWN_BYTES_MAX);
            Ok(())
        });
    }

    #[test]
    fn nearly_everything_is_changed_and_little_is_left_out() {
        let sound = b"a sound sentence of some length".to_vec();
        let changed = std::cell::Cell::new(0);
        hold(640, damaged(Just(sound.clone())), |bytes| {
            changed.set(changed.get() + u32::from(bytes[..] != sound[..]));
            Ok(())
        });
        assert!(changed.get() > 500, "{} of 640", changed.get());
    }
}
