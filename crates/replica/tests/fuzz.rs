//! Damaged bytes against everything here that reads bytes: see `tenure-damage`.

#[path = "fuzz/commands.rs"]
mod commands;
#[path = "fuzz/messages.rs"]
mod messages;
#[path = "fuzz/snapshot.rs"]
mod snapshot;
mod words;

use std::fmt::Debug;

use proptest::prelude::*;
use tenure_damage::frugally;
use tenure_replica::codec::Codec;

/// Reads; and what can be read means the same when it is written and read again.
fn read<T: Codec + PartialEq + Debug>(bytes: &[u8]) -> Result<Option<T>, TestCaseError> {
    let Ok(value) = frugally(bytes.len(), || T::from_bytes(bytes)) else { return Ok(None) };
    let again = T::from_bytes(&value.to_bytes());
    prop_assert_eq!(again.as_ref(), Ok(&value));
    Ok(Some(value))
}
