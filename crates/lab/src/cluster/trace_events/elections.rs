//! The state of elections and leases in traces.

use serde_json::{Value, json};
use tenure_replica::{Moment, State};

use super::micros;

/// Elections and leases as JSON, with the ends of leases where they are known.
pub(crate) fn elections(
    state: &State,
    ends: impl Fn(tenure_api::LeaseId) -> Option<Moment>,
) -> Value {
    let elections: Vec<Value> = state
        .elections
        .elections()
        .map(|(name, election)| {
            let candidates: Vec<Value> = election
                .candidates()
                .iter()
                .map(|candidate| {
                    let session = candidate.session();
                    let known = session.and_then(|id| state.elections.session(id));
                    json!({
                        "session": session.map(|id| id.0),
                        "identity": known.map(|session| session.identity.clone()),
                        "token": candidate.created.0,
                        "holds": candidate.told && candidate.holds(),
                    })
                })
                .collect();
            json!({
                "name": String::from_utf8_lossy(name),
                "frozen": election.is_frozen(),
                "delayed": election.is_delayed(),
                "candidates": candidates,
            })
        })
        .collect();
    let leases: Vec<Value> = state
        .leases
        .iter()
        .map(|(id, lease)| {
            let known = state.elections.session(id);
            let mut traced = json!({
                "id": id.0,
                "ttl_s": lease.ttl_secs,
                "identity": known.map(|session| session.identity.clone()),
            });
            if let Some(end) = ends(id) {
                traced["ends"] = json!(micros(end));
            }
            traced
        })
        .collect();
    json!({ "elections": elections, "leases": leases })
}
