//! The table of `tenure lab compare`.

use std::time::Duration;

use super::{ComparisonRow, TwoLeaders};

/// What the cell of two leaders for no time says.
const INSTANT: &str = "an instant";
const INSTANT_NOTE: &str = "\
an instant: two leaders for no time at all. A leader that was paused for longer
than its lease resumes and looks at its clock at once; what it wrote before it
looked counts among the stale writes, if the storage took it.
";

/// One row for each algorithm. A table wider than `width` is cut into several, one below the other, each with the names.
pub fn table(rows: &[ComparisonRow], width: usize) -> String {
    let heads = [
        "algorithm",
        "messages at n = 3, 5, 9, 17",
        "grows",
        "rounds at n = 3, 5, 9, 17",
        "detection",
        "failover (max)",
        "nines, one death a day",
        "vacant",
        "top winner",
        "in a partition leads",
        "two leaders: partition",
        "two leaders: pause",
        "two leaders: clocks",
        "stale writes in these",
        "routine/s",
    ];
    let mut cells: Vec<Vec<String>> = vec![heads.map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(line));
    let widths: Vec<usize> = (0..heads.len())
        .map(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for columns in blocks(&widths, width) {
        if !text.is_empty() {
            text.push('\n');
        }
        for (at, row) in cells.iter().enumerate() {
            let padded: Vec<String> = columns
                .iter()
                .map(|column| format!("{:<1$}", row[*column], widths[*column]))
                .collect();
            text += &format!("| {} |\n", padded.join(" | "));
            if at == 0 {
                let rules: Vec<String> =
                    columns.iter().map(|column| "-".repeat(widths[*column])).collect();
                text += &format!("| {} |\n", rules.join(" | "));
            }
        }
    }
    if text.contains(INSTANT) {
        text += "\n";
        text += INSTANT_NOTE;
    }
    text
}

/// The columns of each table: the first is in all of them.
fn blocks(widths: &[usize], width: usize) -> Vec<Vec<usize>> {
    let (mut blocks, mut taken) = (vec![vec![0]], widths[0] + 4);
    for (column, wide) in widths.iter().enumerate().skip(1) {
        let last = blocks.len() - 1;
        if taken + wide + 3 > width && blocks[last].len() > 1 {
            blocks.push(vec![0, column]);
            taken = widths[0] + 4 + wide + 3;
        } else {
            blocks[last].push(column);
            taken += wide + 3;
        }
    }
    blocks
}

fn line(row: &ComparisonRow) -> Vec<String> {
    let messages: Vec<String> = row
        .messages
        .iter()
        .map(|(_, count)| count.map_or("–".into(), |count| format!("{count:.0}")))
        .collect();
    let rounds: Vec<String> = row
        .rounds
        .iter()
        .map(|(_, count)| count.map_or("–".into(), |count| count.to_string()))
        .collect();
    vec![
        row.algorithm.to_owned(),
        messages.join(", "),
        row.growth.map_or("–".into(), |growth| format!("n^{growth:.1}")),
        rounds.join(", "),
        time(row.detection),
        format!("{} ({})", time(row.failover), time(row.failover_max)),
        row.nines().map_or("–".into(), |nines| format!("{nines:.1}")),
        format!("{:.1} %", 100.0 * row.vacancy),
        format!("{:.0} % of {}", 100.0 * row.top_share, row.winners),
        row.sides.name().to_owned(),
        two_leaders(row.in_partition),
        two_leaders(row.in_pause),
        two_leaders(row.in_skew),
        format!("{}, {}, {}", row.in_partition.stale, row.in_pause.stale, row.in_skew.stale),
        format!("{:.1}", row.routine_per_s),
    ]
}

fn two_leaders(two: TwoLeaders) -> String {
    match two {
        TwoLeaders { times: 0, .. } => "never".to_owned(),
        TwoLeaders { lasted: Duration::ZERO, .. } => INSTANT.to_owned(),
        TwoLeaders { lasted, .. } => time(Some(lasted)),
    }
}

/// A duration, as precise as a reader needs it.
fn time(time: Option<Duration>) -> String {
    match time {
        None => "–".into(),
        Some(Duration::ZERO) => "0".into(),
        Some(time) if time < Duration::from_micros(1) => format!("{} ns", time.as_nanos()),
        Some(time) if time < Duration::from_millis(1) => format!("{} us", time.as_micros()),
        Some(time) if time < Duration::from_secs(1) => format!("{} ms", time.as_millis()),
        Some(time) => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_cut_into_several_that_fit_and_all_have_the_names() {
        assert_eq!(blocks(&[10, 5, 5, 5], usize::MAX), [[0, 1, 2, 3]]);
        assert_eq!(blocks(&[10, 5, 5, 5], 38), [[0, 1, 2, 3]]);
        assert_eq!(blocks(&[10, 5, 5, 5], 37), [vec![0, 1, 2], vec![0, 3]]);
        assert_eq!(
            blocks(&[10, 50, 5], 20),
            [vec![0, 1], vec![0, 2]],
            "a wide column has a table of its own"
        );
    }

    #[test]
    fn two_leaders_for_no_time_are_not_none() {
        let two = |times, lasted| two_leaders(TwoLeaders { times, lasted, stale: 0 });
        assert_eq!(two(0, Duration::ZERO), "never");
        assert_eq!(two(5, Duration::ZERO), "an instant");
        assert_eq!(two(5, Duration::from_secs(2)), "2.0 s");
    }
}
