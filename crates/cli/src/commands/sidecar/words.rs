//! What is known, as JSON: for `/`, `/leader`, `/sse` and the status file.

use serde_json::{Value, json};

use super::belief::{Belief, Sure, Unsure};
use super::status_cache::StatusCache;

/// The leader, and everything that is known about it, judged not before that time.
pub(super) fn leader(status: &StatusCache, sure: &Sure, judged_unix_ms: u64) -> Value {
    let leader = sure.leader.as_ref();
    let age_ms = sure.age.as_millis() as u64;
    json!({
        "name": leader.map_or("", |leader| &leader.name),
        "election": status.election,
        "identity": status.identity,
        "is_leader": sure.is_leader,
        "token": leader.map(|leader| leader.token.get()),
        "value": leader.map(|leader| &leader.value),
        "since": leader.and_then(|leader| leader.since_unix_ms).map(rfc3339),
        "last_update": rfc3339(judged_unix_ms.saturating_sub(age_ms)),
        "expires_in_ms": sure.expires_in.as_millis() as u64,
    })
}

/// That nothing can be said, and why. There is no `name` in it, so nothing can be compared with it.
pub(super) fn unsure(status: &StatusCache, why: Unsure) -> Value {
    json!({
        "error": why.text(),
        "election": status.election,
        "identity": status.identity,
        "is_leader": false,
    })
}

/// Either, judged not before that time.
pub(super) fn whole(status: &StatusCache, belief: &Belief, judged_unix_ms: u64) -> Value {
    match belief {
        Belief::Sure(sure) => leader(status, sure, judged_unix_ms),
        Belief::Unsure(why) => unsure(status, *why),
    }
}

/// Milliseconds since 1970 as people and libraries write a time: `2026-01-31T23:59:59.999Z`.
pub(super) fn rfc3339(unix_ms: u64) -> String {
    let (secs, ms) = (unix_ms / 1000, unix_ms % 1000);
    let (days, of_day) = (secs / 86_400, secs % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The date so many days after 1970-01-01. Years are counted from March, so that the leap day is
/// the last one, and in eras of 400 years, which all have the same number of days.
fn civil(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097;
    let days = days + 719_468;
    let (era, of_era) = (days / ERA, days % ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecar_times_are_written_in_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_102_444_799_001, "2099-12-31T23:59:59.001Z"),
        ] {
            assert_eq!(rfc3339(ms), text);
        }
    }
}
