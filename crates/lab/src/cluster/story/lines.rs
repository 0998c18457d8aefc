//! Lines and leases, as they are drawn.

use serde_json::{Value, json};
use tenure_replica::{Moment, State};

use super::micros;

/// With the ends of leases, as far as somebody knows them.
pub(crate) fn lines(state: &State, ends: impl Fn(tenure_api::LeaseId) -> Option<Moment>) -> Value {
    let lines: Vec<Value> = state
        .queues
        .lines()
        .map(|(name, line)| {
            let places: Vec<Value> = line
                .places()
                .iter()
                .map(|place| {
                    let session = place.session();
                    let known = session.and_then(|id| state.queues.session(id));
                    json!({
                        "session": session.map(|id| id.0),
                        "identity": known.map(|session| session.identity.clone()),
                        "token": place.created.0,
                        "holds": place.told && place.holds(),
                    })
                })
                .collect();
            json!({
                "name": String::from_utf8_lossy(name),
                "frozen": line.is_frozen(),
                "delayed": line.is_delayed(),
                "places": places,
            })
        })
        .collect();
    let leases: Vec<Value> = state
        .leases
        .iter()
        .map(|(id, lease)| {
            let known = state.queues.session(id);
            let mut shown = json!({
                "id": id.0,
                "ttl_s": lease.ttl_secs,
                "identity": known.map(|session| session.identity.clone()),
            });
            if let Some(end) = ends(id) {
                shown["ends"] = json!(micros(end));
            }
            shown
        })
        .collect();
    json!({ "lines": lines, "leases": leases })
}
