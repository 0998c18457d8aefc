//! A snapshot's bytes in pieces of one length, for those who take them one by one.

use bytes::Bytes;

/// What was not enough for a whole piece so far.
#[derive(Debug)]
pub(crate) struct Cutter {
    piece: Vec<u8>,
    length: usize,
}

impl Cutter {
    /// Cuts pieces of this length.
    pub(crate) fn new(length: usize) -> Cutter {
        Cutter { piece: Vec::with_capacity(length), length }
    }

    /// Takes from the front of `bytes` until a piece is whole. Nothing when all were taken before that.
    pub(crate) fn cut(&mut self, bytes: &mut &[u8]) -> Option<Bytes> {
        let room = self.length - self.piece.len();
        let (now, later) = bytes.split_at(room.min(bytes.len()));
        self.piece.extend_from_slice(now);
        *bytes = later;
        (self.piece.len() == self.length).then(|| self.rest())
    }

    /// What is left over; it may be empty.
    pub(crate) fn rest(&mut self) -> Bytes {
        std::mem::replace(&mut self.piece, Vec::with_capacity(self.length)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_and_nothing_is_lost() {
        let mut cutter = Cutter::new(4);
        let mut pieces = Vec::new();
        for mut part in [&b"ab"[..], b"", b"cdefghijk", b"l"] {
            while let Some(piece) = cutter.cut(&mut part) {
                pieces.push(piece);
            }
            assert!(part.is_empty());
        }
        assert_eq!(pieces, [&b"abcd"[..], b"efgh", b"ijkl"]);
        assert!(cutter.rest().is_empty());
    }
}
