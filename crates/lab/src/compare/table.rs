//! The table of `tenure lab compare`.

use std::time::Duration;

use super::ComparisonRow;

/// One row for each algorithm.
pub fn table(rows: &[ComparisonRow]) -> String {
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
        "pause",
        "skew",
        "stale writes taken",
        "routine/s",
    ];
    let mut cells: Vec<Vec<String>> = vec![heads.map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(line));
    let widths: Vec<usize> = (0..heads.len())
        .map(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for (at, row) in cells.iter().enumerate() {
        let padded: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += &format!("| {} |\n", padded.join(" | "));
        if at == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            text += &format!("| {} |\n", rules.join(" | "));
        }
    }
    text
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
        time(Some(row.double_in_partition)),
        time(Some(row.double_in_pause)),
        time(Some(row.double_in_skew)),
        format!("{}, {}, {}", row.stale_in_partition, row.stale_in_pause, row.stale_in_skew),
        format!("{:.1}", row.routine_per_s),
    ]
}

/// A duration, as precise as a reader needs it.
fn time(time: Option<Duration>) -> String {
    match time {
        None => "–".into(),
        Some(Duration::ZERO) => "0".into(),
        Some(time) if time < Duration::from_millis(1) => format!("{} us", time.as_micros()),
        Some(time) if time < Duration::from_secs(1) => format!("{} ms", time.as_millis()),
        Some(time) => format!("{:.1} s", time.as_secs_f64()),
    }
}
