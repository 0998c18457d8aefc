//! Tables, drawn as etcdctl draws them: headings centred, cells to the right.

use std::io::{self, Write};

/// Writes a table of `rows` under `heads`; every row has a cell for each head.
pub(super) fn draw<H: AsRef<str>, R: AsRef<[String]>>(
    out: &mut impl Write,
    heads: impl AsRef<[H]>,
    rows: &[R],
) -> io::Result<()> {
    let heads: Vec<&str> = heads.as_ref().iter().map(AsRef::as_ref).collect();
    let width = |(column, head): (usize, &&str)| {
        let cells = rows.iter().map(|row| row.as_ref()[column].chars().count());
        cells.chain([head.chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = heads.iter().enumerate().map(width).collect();
    let rule =
        widths.iter().fold(String::from("+"), |rule, width| rule + &"-".repeat(width + 2) + "+");
    writeln!(out, "{rule}")?;
    for (head, width) in heads.iter().zip(&widths) {
        write!(out, "| {head:^width$} ")?;
    }
    writeln!(out, "|\n{rule}")?;
    for row in rows {
        for (cell, width) in row.as_ref().iter().zip(&widths) {
            write!(out, "| {cell:>width$} ")?;
        }
        writeln!(out, "|")?;
    }
    writeln!(out, "{rule}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn table_columns_are_as_wide_as_their_widest_cell() {
        let mut out = Vec::new();
        let rows = [["a".into(), "12".into()], ["bbbb".into(), "3".into()]];
        super::draw(&mut out, ["K", "COUNT"], &rows).unwrap();
        let expected = "\
+------+-------+
|  K   | COUNT |
+------+-------+
|    a |    12 |
| bbbb |     3 |
+------+-------+
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
