//! The byte language of everything that is logged, sent to peers or put into a snapshot.
//!
//! Numbers are LEB128 varints (signed ones zigzag first), byte strings carry their length before
//! them, an option is a 0 or 1 byte. Decoding never trusts a length: it is checked against what is
//! left, so garbage cannot make us allocate or read past the end.

use bytes::{BufMut, Bytes};

/// The bytes are not what they claim to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end in the middle of something.
    #[error("bytes end too early")]
    Truncated,
    /// A number does not fit its type.
    #[error("number out of range")]
    Overflow,
    /// A tag that this version does not know.
    #[error("unknown tag {tag} for {what}")]
    UnknownTag {
        /// What was being read.
        what: &'static str,
        /// The tag found.
        tag: u8,
    },
    /// There is more than there should be.
    #[error("{0} bytes left over")]
    Trailing(usize),
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    NotText,
}

/// Room for most of what there is: growing a buffer from nothing costs more than filling it.
const BYTES_USUAL: usize = 128;

/// Something that can be written into bytes and read back.
pub trait Codec: Sized {
    /// Appends itself.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads itself from the front.
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// All of it as one buffer.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BYTES_USUAL);
        self.encode(&mut out);
        out
    }

    /// Reads a buffer that holds exactly one.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }
}

/// Appends an unsigned number.
pub fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Appends a signed number; small ones of either sign stay short.
pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a byte string with its length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends 0 or 1.
pub fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.push(u8::from(value));
}

/// Appends an option: 0, or 1 and the value.
pub fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    put_bool(out, value.is_some());
    if let Some(value) = value {
        put(out, value);
    }
}

/// Reads from the front of a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { left: bytes }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.left.len()
    }

    /// Fails unless everything was read.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.left.len() {
            0 => Ok(()),
            more => Err(DecodeError::Trailing(more)),
        }
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.left.split_first().ok_or(DecodeError::Truncated)?;
        self.left = rest;
        Ok(*first)
    }

    /// So many bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (first, rest) = self.left.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.left = rest;
        Ok(*first)
    }

    /// Skips a byte if it is this one.
    pub fn skip_u8(&mut self, byte: u8) -> bool {
        let rest = self.left.strip_prefix(&[byte]);
        self.left = rest.unwrap_or(self.left);
        rest.is_some()
    }

    /// An unsigned number.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Overflow);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Overflow)
    }

    /// A signed number.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        let raw = self.u64()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// A byte string, borrowed.
    pub fn slice(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.u64()?).map_err(|_| DecodeError::Overflow)?;
        if length > self.left.len() {
            return Err(DecodeError::Truncated);
        }
        let (bytes, rest) = self.left.split_at(length);
        self.left = rest;
        Ok(bytes)
    }

    /// A byte string of its own memory: what is stored must not keep a whole batch alive.
    pub fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        self.slice().map(Bytes::copy_from_slice)
    }

    /// Text.
    pub fn text(&mut self) -> Result<String, DecodeError> {
        String::from_utf8(self.slice()?.to_vec()).map_err(|_| DecodeError::NotText)
    }

    /// 0 or 1.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(DecodeError::UnknownTag { what: "bool", tag }),
        }
    }

    /// An option.
    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        Ok(if self.bool()? { Some(read(self)?) } else { None })
    }

    /// A count of things to follow, each at least one byte long.
    pub fn count(&mut self) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.u64()?).map_err(|_| DecodeError::Overflow)?;
        if count > self.left.len() {
            return Err(DecodeError::Truncated);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn codec_reads_back_what_it_writes(u: u64, i: i64, bytes: Vec<u8>, option: Option<i64>) {
            let mut out = Vec::new();
            put_u64(&mut out, u);
            put_i64(&mut out, i);
            put_bytes(&mut out, &bytes);
            put_option(&mut out, option, put_i64);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.u64().unwrap(), u);
            prop_assert_eq!(reader.i64().unwrap(), i);
            prop_assert_eq!(reader.slice().unwrap(), &bytes[..]);
            prop_assert_eq!(reader.option(Reader::i64).unwrap(), option);
            reader.finish().unwrap();
        }

        #[test]
        fn codec_refuses_garbage_without_a_panic(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while reader.bytes().is_ok() && reader.remaining() > 0 {}
            let mut reader = Reader::new(&bytes);
            while reader.u64().is_ok() && reader.remaining() > 0 {}
        }
    }
}
