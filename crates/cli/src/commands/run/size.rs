//! A size that is shown in MiB.

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

/// Reads a size, with its unit.
pub(crate) fn size(text: &str) -> Result<Size, String> {
    tenure::api::size::size(text).map(Size)
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
    fn size_that_is_damaged_is_refused_or_read() {
        let sound = proptest::strategy::Just("1.5GiB".to_owned());
        tenure_damage::hold(500, tenure_damage::damaged_text(sound), |text| {
            let _ = size(&text);
            Ok(())
        });
    }
}
