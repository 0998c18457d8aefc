//! Tables, drawn as etcdctl draws them: headings centred, cells to the right.

use std::io::{self, Write};

/// Writes a table of `rows` under `heads`.
pub(super) fn draw<const N: usize>(
    out: &mut impl Write,
    heads: [&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or_default()
    });
    let rule =
        widths.iter().fold(String::from("+"), |rule, width| rule + &"-".repeat(width + 2) + "+");
    writeln!(out, "{rule}")?;
    for (head, width) in heads.iter().zip(widths) {
        write!(out, "| {head:^width$} ")?;
    }
    writeln!(out, "|\n{rule}")?;
    for row in rows {
        for (cell, width) in row.iter().zip(widths) {
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
