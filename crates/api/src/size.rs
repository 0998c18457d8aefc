//! Sizes as people write them: `512M`, `1.5G`, `2GiB`.

/// Reads a number of bytes: as it is, or with one of K, M, G, T (of 1024).
pub fn size(text: &str) -> Result<u64, String> {
    let refused = || format!("{text:?} is not a size; write it in bytes, or as 64K, 512M or 2G");
    let plain = text.trim().trim_end_matches("iB").trim_end_matches('B');
    let (number, unit) = match plain.char_indices().last() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => {
            (&plain[..at], letter.to_ascii_uppercase())
        }
        _ => (plain, 'B'),
    };
    let power = "BKMGT".find(unit).ok_or_else(refused)?;
    if let (Ok(bytes), 0) = (number.parse(), power) {
        return Ok(bytes);
    }
    let number: f64 = number.parse().map_err(|_| refused())?;
    if !number.is_finite() || number < 0.0 {
        return Err(refused());
    }
    // With a unit, sizes of interest are far below what a float holds exactly.
    Ok((number * 1024f64.powi(i32::try_from(power).unwrap_or(0))) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_read_as_people_write_it() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("9223372036854775807", i64::MAX as u64),
            ("2K", 2048),
            ("1.5m", 1572864),
            ("1GiB", 1 << 30),
            ("1TB", 1 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "-1G", "1X", "many", "NaN"] {
            assert!(size(text).unwrap_err().contains("512M"), "{text}");
        }
    }
}
