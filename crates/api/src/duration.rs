//! Lengths of time, as etcdctl's users write them: `5s`, `300ms`, `1m30s`, `1.5h`; and `7d`.

use std::time::Duration;

/// Reads a length of time. A number without a unit is refused: it could mean anything.
pub fn duration(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is not a duration; write it as 5s, 300ms or 1m30s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refused)?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(refused()),
        };
        let number: f64 = number.parse().map_err(|_| refused())?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| refused())?;
        total = total.checked_add(part).ok_or_else(refused)?;
        rest = after;
    }
    if text.is_empty() { Err(refused()) } else { Ok(total) }
}

/// Reads a time to live. The wire knows whole seconds only: a fraction becomes the next second, so
/// that nothing dies earlier than asked. A bare number is seconds, as for `lease grant`.
pub fn whole_seconds(text: &str) -> Result<i64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let duration = duration(text)?;
    let seconds = duration.as_secs().checked_add(u64::from(duration.subsec_nanos() > 0));
    let seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok());
    seconds.ok_or_else(|| format!("{text:?} is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("5s", 5_000),
            ("300ms", 300),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("7d", 604_800_000),
            ("2h45m0.5s", 9_900_500),
            ("0", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(duration("10us"), Ok(Duration::from_micros(10)));
    }

    #[test]
    fn what_has_no_unit_is_refused() {
        for text in ["", "5", "s", "5 s", "-5s", "5x", "1m30", "1..5s", "99999999999999999999h"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_time_to_live_is_never_cut_short() {
        assert_eq!(whole_seconds("10s"), Ok(10));
        assert_eq!(whole_seconds("1500ms"), Ok(2));
        assert_eq!(whole_seconds("60"), Ok(60));
        assert!(whole_seconds("soon").is_err());
    }
}
