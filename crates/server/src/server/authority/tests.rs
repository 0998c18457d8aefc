//! Frames as they come, in any pieces, whole and broken.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use http::uri::Authority;
use proptest::prelude::*;
use tokio::io::AsyncReadExt;

use super::*;

const URL: &str = "http://127.0.0.1:2379";
const INITIALLY: &str = "#initially=[http://127.0.0.1:2379;127.0.0.1:22379]";

/// What is read of a connection, piece by piece.
struct Pieces(VecDeque<Vec<u8>>);

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.0.pop_front() {
            let rest = piece.split_off(piece.len().min(buf.remaining()));
            buf.put_slice(&piece);
            if !rest.is_empty() {
                self.0.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// What is handed on of bytes that come in pieces of these lengths, in turn.
fn handed_on(bytes: &[u8], lengths: &[usize]) -> Vec<u8> {
    let (mut pieces, mut rest) = (VecDeque::new(), bytes);
    for length in lengths.iter().cycle() {
        let (piece, later) = rest.split_at((*length).min(rest.len()));
        pieces.push_back(piece.to_vec());
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    let mut out = vec![];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(Authorities::new(Pieces(pieces)).read_to_end(&mut out)).unwrap();
    out
}

fn huffman(text: &str) -> Vec<u8> {
    let mut bits = String::new();
    for byte in text.bytes() {
        let (mut first, mut before) = (0_u32, 0);
        for (length, symbols) in block::SYMBOLS {
            first <<= length - before;
            before = length;
            if let Some(at) = symbols.iter().position(|symbol| *symbol == byte) {
                bits += &format!("{:0width$b}", first + at as u32, width = length as usize);
            }
            first += symbols.len() as u32;
        }
    }
    while !bits.len().is_multiple_of(8) {
        bits.push('1');
    }
    bits.as_bytes()
        .chunks(8)
        .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap())
        .collect()
}

/// A string as clientv3 sends it if it is shorter so, or as it stands.
fn string(text: &str, is_huffman: bool) -> Vec<u8> {
    let (mark, text) = if is_huffman { (0x80, huffman(text)) } else { (0, text.into()) };
    assert!(text.len() < 127);
    [vec![mark | text.len() as u8], text].concat()
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
    [&head, payload].concat()
}

/// POST, http, a path, and this authority.
fn request(authority: &[u8]) -> Vec<u8> {
    [&[0x83, 0x86, 0x44][..], &string("/a/B", false), &[0x41], authority, &[0x40], b"\x01x\x01y"]
        .concat()
}

fn connection(frames: &[Vec<u8>]) -> Vec<u8> {
    let settings = frame(4, 0, &[]);
    [PREFACE, &settings, &frames.concat()].concat()
}

#[test]
fn huffman_code_is_that_of_the_standard() {
    // RFC 7541, C.4.1 and C.6.1.
    assert_eq!(huffman("www.example.com"), *b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff");
    let date =
        b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff";
    assert_eq!(huffman("Mon, 21 Oct 2013 20:13:21 GMT"), date);
    for text in ["www.example.com", URL, INITIALLY, "~{}<>^`#[]$@!\"()?'+|&*,;"] {
        let (decoded, _) = block::decode(&huffman(text)).unwrap();
        assert_eq!(decoded, text.as_bytes());
    }
}

#[test]
fn authority_that_cannot_be_parsed_is_written_over_in_its_place() {
    for text in [URL, INITIALLY, "#", "[[[[", "a b", "/", "http:/x", "unix:///run/etcd.sock"] {
        for is_huffman in [false, true] {
            let value = string(text, is_huffman);
            let sent = connection(&[frame(1, 4, &request(&value))]);
            let came = handed_on(&sent, &[sent.len()]);
            let start = sent.len() - value.len() - 5;
            let (before, rest) = came.split_at(start);
            let (mended, after) = rest.split_at(value.len());
            assert_eq!((before, after), (&sent[..start], &sent[sent.len() - 5..]), "{text}");
            assert_eq!(mended[0], value[0], "as long, in the same code");
            let mended = match is_huffman {
                true => block::decode(&mended[1..]).unwrap().0,
                false => mended[1..].to_vec(),
            };
            // Of a few rare symbols the codes are too long for as many letters.
            if !is_huffman || huffman(text).len() <= text.len() {
                assert!(Authority::try_from(&mended[..]).is_ok(), "{text}");
            }
            assert_eq!(mended.len(), text.len(), "as long for the table");
        }
    }
}

#[test]
fn authority_that_can_be_parsed_passes() {
    for text in ["127.0.0.1:2379", "localhost", "[::1]:2379", "node-1.example.com", "user@host"] {
        for is_huffman in [false, true] {
            let sent = connection(&[frame(1, 4, &request(&string(text, is_huffman)))]);
            assert_eq!(handed_on(&sent, &[sent.len()]), sent, "{text}");
        }
    }
}

#[test]
fn authority_is_found_behind_padding_and_priority_and_in_every_literal() {
    let value = string(URL, false);
    for literal in [0x41, 0x01, 0x11] {
        let block = [&[0x83, 0x3f, 0xe1, 0x1f, literal][..], &value].concat();
        let padded = [&[3][..], &[0; 5], &block, &[0; 3]].concat();
        let sent = connection(&[frame(1, 0x2c, &padded)]);
        let came = handed_on(&sent, &[sent.len()]);
        assert!(came.windows(21).any(|window| window == [b'a'; 21]), "{literal:x}");
    }
}

#[test]
fn connections_that_are_no_http2_pass() {
    let sent =
        [&b"POST /v3/kv/range HTTP/1.1\r\n\r\n"[..], &frame(1, 4, &request(&string(URL, false)))];
    let sent = sent.concat();
    assert_eq!(handed_on(&sent, &[1, 30]), sent);
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let text = prop_oneof![Just(URL.to_owned()), Just(INITIALLY.to_owned()), "[ -~]{0,40}"];
    let whole = (text, any::<bool>(), any::<u8>()).prop_map(|(text, is_huffman, flags)| {
        let value = if is_huffman { huffman(&text) } else { text.into_bytes() };
        let mark = if is_huffman { 0x80 } else { 0 };
        let value = [&[mark | value.len().min(126) as u8][..], &value].concat();
        frame(1, flags, &request(&value))
    });
    let any_bytes = prop::collection::vec(any::<u8>(), 0..200);
    let broken = (0_u8..10, any::<u8>(), any_bytes)
        .prop_map(|(kind, flags, bytes)| frame(kind, flags, &bytes));
    let noise = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::vec(prop_oneof![4 => whole, 2 => broken, 1 => noise], 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    /// Whatever comes, in whatever pieces: as many bytes go on, and the same ones.
    #[test]
    fn authorities_pass_as_much_as_they_read(frames in frames(), pieces in prop::collection::vec(1_usize..60, 1..8), cut in 0_usize..100) {
        let mut sent = connection(&frames);
        sent.truncate(sent.len() - cut.min(sent.len()));
        let whole = handed_on(&sent, &[sent.len().max(1)]);
        prop_assert_eq!(whole.len(), sent.len());
        prop_assert!(handed_on(&sent, &pieces) == whole);
        prop_assert!(handed_on(&whole, &pieces) == whole, "what was mended stays");
    }

    #[test]
    fn authority_of_any_block_is_mended_or_left(flags in any::<u8>(), block in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut mended = block.clone();
        block::mend(flags, &mut mended);
        prop_assert_eq!(mended.len(), block.len());
    }
}
