//! Paragraphs that fit the terminal.

use std::io::stdout;

use crate::commands::columns;

/// Longer lines are hard to read, whatever the terminal has.
pub(super) const TEXT_COLUMNS: usize = 110;

/// How many columns text on stdout has.
pub(super) fn width() -> usize {
    columns(stdout()).min(TEXT_COLUMNS)
}

/// Breaks text at blanks into lines of so many columns at most; all lines but the first are indented.
pub(super) fn wrapped(text: &str, indent: usize, width: usize) -> String {
    let mut lines = String::new();
    let mut taken = 0;
    for (at, word) in text.split(' ').enumerate() {
        let wide = word.chars().count();
        if at > 0 && taken + 1 + wide > width {
            lines += "\n";
            lines += &" ".repeat(indent);
            taken = indent;
        } else if at > 0 {
            lines += " ";
            taken += 1;
        }
        lines += word;
        taken += wide;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_text_is_broken_at_blanks_and_indented() {
        assert_eq!(wrapped("one two three", 2, 20), "one two three");
        assert_eq!(wrapped("one two three", 2, 8), "one two\n  three");
        assert_eq!(wrapped("  one two three four", 4, 12), "  one two\n    three\n    four");
        assert_eq!(wrapped("unbreakable", 2, 4), "unbreakable");
    }
}
