//! Where an answer's body ends (RFC 9112, 6.3 and 7.1).

/// The rest of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes; none, if it is complete.
    Bytes(u64),
    /// Chunks, handed on as they are.
    Chunks(Chunks),
    /// Until the connection ends.
    Endless,
}

/// What an upstream calls chunks is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Garbled;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunks {
    /// The size of a chunk, of which so much is read, in so many digits.
    Size {
        so_far: u64,
        digits: u8,
    },
    /// Blanks behind a size.
    Blank {
        size: u64,
    },
    /// What stands behind a size and means nothing to us.
    Extension {
        size: u64,
    },
    /// The end of the line of a size.
    SizeEnd {
        size: u64,
    },
    /// So many bytes of data.
    Data {
        left: u64,
    },
    DataReturn,
    DataEnd,
    /// A line behind the last chunk; it has begun or not.
    Trailer {
        begun: bool,
    },
    /// The end of such a line, which ends everything if the line is empty.
    TrailerEnd {
        begun: bool,
    },
    Complete,
}

/// 16 of them are a number of 64 bits.
const DIGITS_MAX: u8 = 15;

impl Body {
    /// How many of these bytes belong to the body. They are counted as handed on.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, Garbled> {
        match self {
            Body::Bytes(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                Ok(taken)
            }
            Body::Endless => Ok(bytes.len()),
            Body::Chunks(chunks) => chunks.take(bytes),
        }
    }

    /// Whether nothing more belongs to it.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Body::Bytes(0) | Body::Chunks(Chunks::Complete))
    }
}

impl Chunks {
    pub(super) const START: Chunks = Chunks::Size { so_far: 0, digits: 0 };

    fn take(&mut self, bytes: &[u8]) -> Result<usize, Garbled> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at)
            && *self != Chunks::Complete
        {
            if let Chunks::Data { left } = self {
                let here = (*left).min((bytes.len() - at) as u64);
                *left -= here;
                at += here as usize;
                if *left == 0 {
                    *self = Chunks::DataReturn;
                }
                continue;
            }
            *self = self.after(*byte)?;
            at += 1;
        }
        Ok(at)
    }

    fn after(self, byte: u8) -> Result<Chunks, Garbled> {
        Ok(match (self, byte) {
            (Chunks::Size { digits: 0, .. }, b';' | b'\r' | b' ' | b'\t') => return Err(Garbled),
            (Chunks::Size { so_far, .. }, b' ' | b'\t') => Chunks::Blank { size: so_far },
            (Chunks::Blank { size }, b' ' | b'\t') => Chunks::Blank { size },
            (Chunks::Blank { size }, b';') => Chunks::Extension { size },
            (Chunks::Blank { size }, b'\r') => Chunks::SizeEnd { size },
            (Chunks::Size { so_far, .. }, b';') => Chunks::Extension { size: so_far },
            (Chunks::Size { so_far, .. }, b'\r') => Chunks::SizeEnd { size: so_far },
            (Chunks::Size { so_far, digits }, digit) if digits < DIGITS_MAX => {
                let digit = char::from(digit).to_digit(16).ok_or(Garbled)?;
                Chunks::Size { so_far: so_far * 16 + u64::from(digit), digits: digits + 1 }
            }
            (Chunks::Extension { size }, b'\r') => Chunks::SizeEnd { size },
            (Chunks::Extension { .. }, b'\n') => return Err(Garbled),
            (Chunks::Extension { size }, _) => Chunks::Extension { size },
            (Chunks::SizeEnd { size: 0 }, b'\n') => Chunks::Trailer { begun: false },
            (Chunks::SizeEnd { size }, b'\n') => Chunks::Data { left: size },
            (Chunks::DataReturn, b'\r') => Chunks::DataEnd,
            (Chunks::DataEnd, b'\n') => Chunks::START,
            (Chunks::Trailer { begun }, b'\r') => Chunks::TrailerEnd { begun },
            (Chunks::Trailer { .. }, b'\n') => return Err(Garbled),
            (Chunks::Trailer { .. }, _) => Chunks::Trailer { begun: true },
            (Chunks::TrailerEnd { begun: true }, b'\n') => Chunks::Trailer { begun: false },
            (Chunks::TrailerEnd { begun: false }, b'\n') => Chunks::Complete,
            _ => return Err(Garbled),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What of these bytes is one body, read in pieces of this size.
    fn taken(bytes: &[u8], piece: usize) -> Result<Option<usize>, Garbled> {
        let mut body = Body::Chunks(Chunks::START);
        let mut total = 0;
        for piece in bytes.chunks(piece) {
            total += body.take(piece)?;
            if body.is_complete() {
                return Ok(Some(total));
            }
        }
        Ok(None)
    }

    #[test]
    fn chunks_end_where_they_say_however_they_come() {
        let whole = [
            &b"0\r\n\r\n"[..],
            b"5\r\nhello\r\n0\r\n\r\n",
            b"5 \t\r\nhello\r\n0 ;a\r\n\r\n",
            b"5;a=b\r\nhe\r\no\r\nA\r\n0\r\n\r\n0\r\n\r\n\r\n00\r\n\r\n",
            b"1\r\nx\r\n0\r\nTrailer: a\r\nOther: b\r\n\r\n",
        ];
        for chunks in whole {
            let behind = [chunks, b"HTTP/1.1 200 OK"].concat();
            for piece in 1..=behind.len() {
                assert_eq!(taken(&behind, piece), Ok(Some(chunks.len())), "{piece}");
            }
            for cut in 0..chunks.len() {
                assert_eq!(taken(&chunks[..cut], 3), Ok(None));
            }
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for bytes in [
            &b"\r\n"[..],
            b"x\r\n",
            b" 5\r\n",
            b"5 5\r\n",
            b"-1\r\n",
            b"5\nhello",
            b"5\r\nhello5\r\n",
            b"5\r\nhello\n",
            b"5;\n",
            b"0\r\n\n",
            b"0\r\na\n",
            b"0000000000000001\r\nx",
            b"ffffffffffffffff\r\n",
        ] {
            assert_eq!(taken(bytes, 4), Err(Garbled), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_length_is_counted_down() {
        let mut body = Body::Bytes(5);
        assert_eq!((body.take(b"abc"), body.is_complete()), (Ok(3), false));
        assert_eq!((body.take(b"defg"), body.is_complete()), (Ok(2), true));
        assert_eq!(body.take(b"more"), Ok(0));
        let mut body = Body::Endless;
        assert_eq!((body.take(b"abc"), body.is_complete()), (Ok(3), false));
    }
}
