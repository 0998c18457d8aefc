//! Sizes as people write them: 512M, 1.5G.

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

/// Reads a size: bytes, or with one of K, M, G, T (of 1024).
pub(crate) fn size(text: &str) -> Result<Size, String> {
    let bad = || format!("{text} is no size; try 512M or 2G");
    let plain = text.trim().trim_end_matches("iB").trim_end_matches('B');
    let (number, unit) = match plain.char_indices().last() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => {
            (&plain[..at], letter.to_ascii_uppercase())
        }
        _ => (plain, 'B'),
    };
    let power = "BKMGT".find(unit).ok_or_else(bad)?;
    let number: f64 = number.parse().map_err(|_| bad())?;
    if !number.is_finite() || number < 0.0 {
        return Err(bad());
    }
    // Sizes of interest are far below what a float holds exactly.
    Ok(Size((number * 1024f64.powi(i32::try_from(power).unwrap_or(0))) as u64))
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / (1024.0 * 1024.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_read_as_people_write_it() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("2K", 2048),
            ("1.5m", 1572864),
            ("1GiB", 1 << 30),
            ("1TB", 1 << 40),
        ] {
            assert_eq!(size(text), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "M", "-1G", "1X", "many", "NaN"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn size_that_is_damaged_is_refused_or_read() {
        let sound = proptest::strategy::Just("1.5GiB".to_owned());
        tenure_damage::hold(500, tenure_damage::damaged_text(sound), |text| {
            let _ = size(&text);
            Ok(())
        });
    }
}
