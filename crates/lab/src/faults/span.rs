//! Durations as scripts have them: `30s`, `1.5s`, `250ms`, `40us`, `2m`, `1h`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] =
    [("us", 1), ("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000)];
/// The longest duration.
const SPAN_MAX: Duration = Duration::from_secs(1000 * 24 * 3600);

/// Reads a duration; none if it is malformed, finer than a microsecond, or too long.
pub fn read_span(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(digits);
    let micros = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits_only = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits_only(whole) || !digits_only(part) || part.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(part.len() as u32);
    let part = part.parse::<u64>().ok()?.checked_mul(micros)?;
    if part % scale != 0 {
        return None;
    }
    let total = whole.parse::<u64>().ok()?.checked_mul(micros)?.checked_add(part / scale)?;
    Some(Duration::from_micros(total)).filter(|span| *span <= SPAN_MAX)
}

/// Writes a duration so that it reads as the same.
pub fn write_span(span: Duration) -> String {
    let micros = span.as_micros() as u64;
    let (unit, size): (&str, u64) = match micros {
        0 => ("s", 1_000_000),
        _ if micros.is_multiple_of(3_600_000_000) => ("h", 3_600_000_000),
        _ if micros.is_multiple_of(60_000_000) => ("m", 60_000_000),
        1..1_000 => ("us", 1),
        1_000..1_000_000 => ("ms", 1_000),
        _ => ("s", 1_000_000),
    };
    let width = size.ilog10() as usize;
    let part = format!("{:0width$}", micros % size);
    let part = part.trim_end_matches('0');
    match part {
        "" => format!("{}{unit}", micros / size),
        part => format!("{}.{part}{unit}", micros / size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_reads_the_usual_notations() {
        for (text, micros) in [
            ("30s", 30_000_000),
            ("1.5s", 1_500_000),
            ("250ms", 250_000),
            ("40us", 40),
            ("2m", 120_000_000),
        ] {
            assert_eq!(read_span(text), Some(Duration::from_micros(micros)), "{text}");
        }
        for wrong in
            ["", "s", "5", "-5s", "1.s", ".5s", "5 s", "1e3s", "0.5us", "99999999999h", "1.2.3s"]
        {
            assert_eq!(read_span(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn span_survives_writing_and_reading() {
        for micros in
            [0, 1, 999, 1_000, 1_001, 90_000, 1_500_000, 60_000_000, 61_000_001, 7_200_000_000]
        {
            let span = Duration::from_micros(micros);
            assert_eq!(read_span(&write_span(span)), Some(span), "{}", write_span(span));
        }
    }
}
