//! Counts gRPC messages in the bytes of a stream.

/// What comes before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// How far into a message a stream is.
#[derive(Debug, Default)]
pub(super) struct MessageCounter {
    prefix: [u8; PREFIX_BYTES],
    prefix_seen: usize,
    /// Bytes of the present message that are still to come.
    ahead: usize,
}

impl MessageCounter {
    /// How many messages begin in these bytes.
    pub(super) fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut begun = 0;
        loop {
            let skipped = self.ahead.min(bytes.len());
            self.ahead -= skipped;
            bytes = &bytes[skipped..];
            let Some((first, rest)) = bytes.split_first() else { return begun };
            self.prefix[self.prefix_seen] = *first;
            self.prefix_seen += 1;
            bytes = rest;
            if self.prefix_seen == PREFIX_BYTES {
                let [_, length @ ..] = self.prefix;
                self.ahead = u32::from_be_bytes(length) as usize;
                self.prefix_seen = 0;
                begun += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        let mut stream = Vec::new();
        for length in [0_usize, 3, 300, 1, 70_000] {
            stream.push(0);
            stream.extend((length as u32).to_be_bytes());
            stream.extend(vec![7; length]);
        }
        for piece in [1, 2, 5, 7, 1000, stream.len()] {
            let mut counter = MessageCounter::default();
            let counted: u64 = stream.chunks(piece).map(|bytes| counter.count(bytes)).sum();
            assert_eq!(counted, 5, "in pieces of {piece}");
        }
    }
}
