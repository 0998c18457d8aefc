//! Bytes and sizes as text.

use std::borrow::Cow;
use std::fmt::Write;

/// Every byte as `\x61`.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 4), |mut text, byte| {
        let _ = write!(text, "\\x{byte:02x}");
        text
    })
}

/// Bytes in double quotes, as Go's `%q` writes them: text stays readable, the rest is escaped.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_escaped(&mut text, c));
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.push('"');
    text
}

/// What others wrote, fit for a terminal and for one field of a line: whatever moves the cursor, ends
/// the line or turns the direction of writing is shown as its number. A name must not be able to
/// forge a line or to clear the screen.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unseen(c) { push_escaped(&mut shown, c) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// The same where lines and tabs may stay: a value that is shown for itself.
pub(crate) fn readable(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| is_unseen(c) && c != '\n' && c != '\t';
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if obeyed(c) { push_escaped(&mut shown, c) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

fn is_unseen(c: char) -> bool {
    let turns =
        matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    let ends_line = matches!(c, '\u{2028}' | '\u{2029}');
    c.is_control() || turns || ends_line
}

fn push_escaped(text: &mut String, c: char) {
    let _ = match c {
        '"' => write!(text, "\\\""),
        '\\' => write!(text, "\\\\"),
        '\x07' => write!(text, "\\a"),
        '\x08' => write!(text, "\\b"),
        '\x0c' => write!(text, "\\f"),
        '\n' => write!(text, "\\n"),
        '\r' => write!(text, "\\r"),
        '\t' => write!(text, "\\t"),
        '\x0b' => write!(text, "\\v"),
        ' ' => write!(text, " "),
        c if c.is_ascii_control() => write!(text, "\\x{:02x}", c as u32),
        c if !is_unseen(c) && !c.is_whitespace() => write!(text, "{c}"),
        c if (c as u32) < 0x10000 => write!(text, "\\u{:04x}", c as u32),
        c => write!(text, "\\U{:08x}", c as u32),
    };
}

/// A size as people say it, in powers of ten: `25 kB`, `1.2 MB`.
pub(crate) fn size(bytes: i64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut amount = bytes.max(0) as f64;
    if amount < 10.0 {
        return format!("{amount} B");
    }
    let mut unit = 0;
    while amount >= 1000.0 && unit < UNITS.len() - 1 {
        amount /= 1000.0;
        unit += 1;
    }
    // Rounded half up to one decimal, which is shown below ten only.
    let rounded = (amount * 10.0 + 0.5).floor() / 10.0;
    let decimals = usize::from(rounded < 10.0);
    format!("{rounded:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_quotes_bytes_as_go_does() {
        assert_eq!(quoted(b"v 2"), r#""v 2""#);
        assert_eq!(quoted(b"1\n2\t\"\\"), r#""1\n2\t\"\\""#);
        assert_eq!(quoted(b"a\xff\x00\x7f"), r#""a\xff\x00\x7f""#);
        assert_eq!(quoted("é\u{a0}\u{85}".as_bytes()), "\"é\\u00a0\\u0085\"");
    }

    #[test]
    fn text_rounds_sizes_as_etcdctl_does() {
        for (bytes, text) in [
            (0, "0 B"),
            (9, "9 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (24_576, "25 kB"),
            (1_234_567, "1.2 MB"),
            (2_147_483_648, "2.1 GB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn text_shows_control_characters_instead_of_obeying_them() {
        assert_eq!(visible("alice ä\u{4e16} \\n"), "alice ä\u{4e16} \\n");
        assert_eq!(visible("a\nroot\tleads"), "a\\nroot\\tleads");
        assert_eq!(visible("\x1b[2J\x7f\u{9b}2J\r"), "\\x1b[2J\\x7f\\u009b2J\\r");
        assert_eq!(visible("a\u{202e}b\u{2028}"), "a\\u202eb\\u2028");
    }
}
