//! The field `:authority` in a header block (HPACK, RFC 7541).
//!
//! A value can be written over only where it is written out, which is where it first comes: later requests of the connection
//! point at the table. Its name is number 1 of the static table, so no table need be kept here.

use http::uri::Authority;

/// The number of the name.
const AUTHORITY: usize = 1;
const PADDED: u8 = 0x8;
const WITH_PRIORITY: u8 = 0x20;
const IS_HUFFMAN: u8 = 0x80;
/// Symbols of HPACK's Huffman code, by the length of their codes in bits; all of ASCII but control characters and the
/// backslash. The code is canonical: within a length codes count up, and the next length goes on from there.
pub(super) const SYMBOLS: [(u32, &[u8]); 10] = [
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\0$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
];
/// One letter, of a host's name, for each length from 5 bits to 8.
const LETTERS: [(u32, u32); 4] = [(5, 0x3), (6, 0x23), (7, 0x74), (8, 0xfc)];

/// Writes over the authority in the payload of a header frame, if it cannot be parsed.
pub(super) fn mend(flags: u8, frame: &mut [u8]) {
    // As soon as anything makes no sense, the rest is left as it is.
    let _ = search(flags, frame);
}

fn search(flags: u8, frame: &mut [u8]) -> Option<()> {
    let mut block = frame;
    if flags & PADDED != 0 {
        let (padding, rest) = block.split_first_mut()?;
        let end = rest.len().checked_sub(usize::from(*padding))?;
        block = &mut rest[..end];
    }
    if flags & WITH_PRIORITY != 0 {
        block = block.get_mut(5..)?;
    }
    let mut at = 0;
    while let Some(first) = block.get(at) {
        // An indexed field, a new size of the table, or a literal that is added to the table or is not.
        let (prefix_bits, is_literal) = match first {
            0x80.. => (7, false),
            0x40..=0x7f => (6, true),
            0x20..=0x3f => (5, false),
            _ => (4, true),
        };
        let name = number(block, &mut at, prefix_bits)?;
        if !is_literal {
            continue;
        }
        if name == 0 {
            string(block, &mut at)?;
        }
        let start = at;
        let text = string(block, &mut at)?;
        if name == AUTHORITY {
            let is_huffman = block[start] & IS_HUFFMAN != 0;
            write_over(&mut block[text..at], is_huffman);
            return Some(());
        }
    }
    Some(())
}

/// Reads an integer whose first bits are in the low `prefix_bits` of a byte.
fn number(block: &[u8], at: &mut usize, prefix_bits: u32) -> Option<usize> {
    let most = (1_usize << prefix_bits) - 1;
    let mut number = usize::from(*block.get(*at)?) & most;
    *at += 1;
    if number < most {
        return Some(number);
    }
    // Three more bytes are far beyond the length of a frame.
    for shift in [0, 7, 14] {
        let byte = usize::from(*block.get(*at)?);
        *at += 1;
        number += (byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Goes past a string; answers where its text begins.
fn string(block: &[u8], at: &mut usize) -> Option<usize> {
    let length = number(block, at, 7)?;
    let text = *at;
    *at = text.checked_add(length).filter(|end| *end <= block.len())?;
    Some(text)
}

fn write_over(text: &mut [u8], is_huffman: bool) {
    if !is_huffman {
        if Authority::try_from(&*text).is_err() {
            text.fill(b'a');
        }
        return;
    }
    let Some((decoded, bits)) = decode(text) else { return };
    if Authority::try_from(&*decoded).is_ok() {
        return;
    }
    // As many letters, in as many bits: the shortest that leaves enough for those that follow.
    let (mut left, mut bits_left) = (decoded.len() as u32, bits);
    if !(5 * left..=8 * left).contains(&bits_left) {
        return;
    }
    let mut out = Bits { text, at: 0 };
    while left > 0 {
        left -= 1;
        let fits = LETTERS.iter().find(|(length, _)| bits_left - length <= 8 * left);
        let &(length, code) = fits.expect("the eighth bit leaves eight for each of the others");
        out.put(length, code);
        bits_left -= length;
    }
}

/// The text, and how many bits it took. Nothing if there are symbols in it that no host and no URL has.
pub(super) fn decode(text: &[u8]) -> Option<(Vec<u8>, u32)> {
    let mut decoded = Vec::with_capacity(2 * text.len());
    let bits = 8 * text.len() as u32;
    let bit = |at: u32| u32::from(text[at as usize / 8] >> (7 - at % 8) & 1);
    let (mut at, mut taken) = (0, 0);
    'symbols: while at < bits {
        // The first code of a length that has any.
        let (mut code, mut first, mut length) = (0, 0, 0);
        for (longer, symbols) in SYMBOLS {
            first <<= longer - length;
            while length < longer {
                if at == bits {
                    break 'symbols;
                }
                code = code << 1 | bit(at);
                (at, length) = (at + 1, length + 1);
            }
            let count = symbols.len() as u32;
            if code < first + count {
                decoded.push(symbols[(code - first) as usize]);
                taken = at;
                continue 'symbols;
            }
            first += count;
        }
        return None;
    }
    // What is left is padding: less than a byte of ones.
    let is_padding = bits - taken < 8 && (taken..bits).all(|at| bit(at) == 1);
    is_padding.then_some((decoded, taken))
}

/// Writes bits into a text whose last bits are as they should be.
struct Bits<'a> {
    text: &'a mut [u8],
    at: u32,
}

impl Bits<'_> {
    fn put(&mut self, length: u32, code: u32) {
        for shift in (0..length).rev() {
            let mask = 0x80 >> (self.at % 8);
            let byte = &mut self.text[self.at as usize / 8];
            *byte = if code >> shift & 1 == 1 { *byte | mask } else { *byte & !mask };
            self.at += 1;
        }
    }
}
