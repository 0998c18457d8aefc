//! Whatever is logged or sent is read back the same. What is damaged, or made of any bytes: see `fuzz.rs`.

mod words;

use proptest::prelude::*;
use tenure_replica::codec::Codec;

use crate::words::{batch, entry, hard_state, mark, message};

fn comes_back<T: Codec + PartialEq + std::fmt::Debug>(value: &T) -> Result<(), TestCaseError> {
    let bytes = value.to_bytes();
    let back = T::from_bytes(&bytes);
    prop_assert_eq!(back.as_ref(), Ok(value));
    // Cut anywhere, it is an error: nothing shorter means something else.
    for length in 0..bytes.len() {
        prop_assert!(T::from_bytes(&bytes[..length]).is_err());
    }
    Ok(())
}

proptest! {
    #[test]
    fn codec_round_trip_of_batches(batch in batch()) {
        comes_back(&batch)?;
    }

    #[test]
    fn codec_round_trip_of_messages(message in message()) {
        comes_back(&message)?;
    }

    #[test]
    fn codec_round_trip_of_entries_votes_and_marks(
        entry in entry(),
        mark in mark(),
        hard_state in hard_state(),
    ) {
        comes_back(&entry)?;
        comes_back(&mark)?;
        comes_back(&hard_state)?;
    }
}
