//! What is known, as JSON: for `/`, `/leader`, `/sse` and the status file.

use jiff::Timestamp;
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
    let time = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", time.unwrap_or(Timestamp::MAX))
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
