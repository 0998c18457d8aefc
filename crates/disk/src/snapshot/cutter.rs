//! A snapshot's bytes in pieces of one length, for readers that take them one by one.

/// What was not enough for a whole piece so far.
#[derive(Debug)]
pub struct Cutter {
    piece: Vec<u8>,
    head: usize,
    length: usize,
}

impl Cutter {
    /// Cuts pieces of this length.
    pub fn new(length: usize) -> Cutter {
        Cutter::with_head(0, length)
    }

    /// The same, each after so many zeros.
    pub fn with_head(head: usize, length: usize) -> Cutter {
        Cutter { piece: begun(head, length), head, length }
    }

    /// Takes from the front of `bytes` until a piece is whole. Nothing when all were taken before that.
    pub fn cut(&mut self, bytes: &mut &[u8]) -> Option<Vec<u8>> {
        let room = self.head + self.length - self.piece.len();
        let (now, later) = bytes.split_at(room.min(bytes.len()));
        self.piece.extend_from_slice(now);
        *bytes = later;
        (self.piece.len() == self.head + self.length).then(|| self.rest())
    }

    /// What is left over; there may be nothing in it.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::replace(&mut self.piece, begun(self.head, self.length))
    }
}

fn begun(head: usize, length: usize) -> Vec<u8> {
    let mut piece = Vec::with_capacity(head + length);
    piece.resize(head, 0);
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_and_nothing_is_lost() {
        let mut cutter = Cutter::with_head(1, 4);
        let mut pieces = Vec::new();
        for mut part in [&b"ab"[..], b"", b"cdefghijk", b"l"] {
            while let Some(piece) = cutter.cut(&mut part) {
                pieces.push(piece);
            }
            assert!(part.is_empty());
        }
        assert_eq!(pieces, [&b"\0abcd"[..], b"\0efgh", b"\0ijkl"]);
        assert_eq!(cutter.rest(), [0]);
    }
}
