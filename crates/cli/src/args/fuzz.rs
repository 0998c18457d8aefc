//! Times and ids as people may type them.

use std::time::Duration;

use proptest::prelude::*;
use tenure_damage::{damaged_text, frugally, hold};

use super::{duration, lease_id, whole_seconds};

#[test]
fn durations_that_are_damaged_are_refused_or_read() {
    let sound =
        prop_oneof![Just("1m30s"), Just("1.5h"), Just("300ms"), Just("2h45m0.5s"), Just("7µs9ns")];
    hold(2000, damaged_text(sound.prop_map(str::to_owned)), |text| {
        let read = frugally(text.len(), || duration(&text));
        let whole = whole_seconds(&text);
        if let (Ok(time), Ok(seconds)) = (&read, &whole) {
            // A bare number is read in two ways, except for zero.
            let cut =
                text.parse::<i64>().is_err() && Duration::from_secs(seconds.unsigned_abs()) < *time;
            prop_assert!(!cut, "{time:?} became {seconds} s");
        }
        Ok(())
    });
}

/// The longest time that can be written, and a bit more, became no time at all.
#[test]
fn duration_that_is_too_long_for_the_wire_is_refused() {
    let longest = "18446744073709549568s2047s0.5s";
    assert_eq!(duration(longest).map(|time| time.as_secs()), Ok(u64::MAX));
    assert!(whole_seconds(longest).is_err());
}

#[test]
fn ids_that_are_damaged_are_refused_or_read() {
    let id = any::<i64>().prop_map(|id| format!("{id:x}"));
    hold(1000, damaged_text(id), |text| {
        let _ = lease_id(&text);
        Ok(())
    });
}
