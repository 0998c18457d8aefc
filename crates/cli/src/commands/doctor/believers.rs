//! Believers outside the cluster: sidecars, status files, marker files.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use http::Uri;
use serde_json::Value;
use tenure::grpc::{Dialer, Endpoint};

use super::chart::{Belief, Believer};
use crate::args::Settings;
use crate::commands::web;

/// Where sidecars listen if nothing else is said.
const SIDECAR_PORT: u16 = 4040;

/// Asks all of them for what they believe now.
pub(super) async fn ask(
    sidecars: &[String],
    files: &[PathBuf],
    settings: &Settings,
) -> Vec<Believer> {
    let mut believers = Vec::new();
    for url in sidecars {
        let belief = sidecar(url, settings)
            .await
            .unwrap_or_else(|cause| Belief::Silent { why: format!("{cause:#}"), missing: false });
        believers.push(Believer { place: url.clone(), belief });
    }
    for path in files {
        believers.push(Believer { place: path.display().to_string(), belief: file(path) });
    }
    believers
}

/// What was believed before and after. A believer that changed its mind meanwhile is taken at its last word, and only a
/// claim to lead that was made twice counts as one.
pub(super) fn steady(before: Vec<Believer>, after: Vec<Believer>) -> Vec<Believer> {
    let both = before.into_iter().zip(after);
    both.map(|(before, after)| match (&before.belief, &after.belief) {
        (Belief::Leads { token: old, .. }, Belief::Leads { token: new, .. }) if old == new => after,
        (_, Belief::Leads { election, .. }) => {
            let why = "it has begun to lead while it was asked; ask again".to_owned();
            let belief = Belief::Unsure { election: election.clone(), why };
            Believer { place: after.place, belief }
        }
        (Belief::Leads { election, .. }, Belief::Silent { missing: true, .. }) => {
            let why = "it has ceased to lead while it was asked; ask again".to_owned();
            let belief = Belief::Unsure { election: election.clone(), why };
            Believer { place: after.place, belief }
        }
        _ => after,
    })
    .collect()
}

impl Believer {
    /// Which election this is about.
    pub(super) fn election(&self) -> Option<&str> {
        match &self.belief {
            Belief::Leads { election, .. }
            | Belief::Follows { election, .. }
            | Belief::Unsure { election, .. }
            | Belief::Marker { election } => election.as_deref(),
            Belief::Silent { .. } => None,
        }
    }

    /// Where it does not say what it is about, this.
    pub(super) fn assume(&mut self, name: &str) {
        match &mut self.belief {
            Belief::Leads { election, .. }
            | Belief::Follows { election, .. }
            | Belief::Unsure { election, .. }
            | Belief::Marker { election } => {
                election.get_or_insert_with(|| name.to_owned());
            }
            Belief::Silent { .. } => {}
        }
    }
}

/// A sidecar's address, and the path of what it believes.
fn sidecar_at(url: &str) -> anyhow::Result<(Endpoint, String)> {
    let with_scheme = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let uri: Uri = with_scheme.parse()?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        anyhow::bail!("no host");
    };
    let port = authority.port_u16().unwrap_or(SIDECAR_PORT);
    let base = uri.path().trim_end_matches('/').trim_end_matches("/leader");
    Ok((format!("{scheme}://{}:{port}", authority.host()).parse()?, format!("{base}/leader")))
}

async fn sidecar(url: &str, settings: &Settings) -> anyhow::Result<Belief> {
    let (at, path) = sidecar_at(url)?;
    let dialer = Dialer::new(settings.options.tls.clone());
    let answer = web::get(&dialer, &at, &path, settings.options.request_timeout).await?;
    match serde_json::from_slice(&answer.body) {
        Ok(json) => Ok(read(&json, false)),
        Err(_) => anyhow::bail!("{} and no JSON: is that a sidecar?", answer.status),
    }
}

fn file(path: &Path) -> Belief {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(cause) => {
            let missing = cause.kind() == std::io::ErrorKind::NotFound;
            return Belief::Silent { why: cause.to_string(), missing };
        }
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(json) if json.is_object() => read(&json, true),
        _ => Belief::Marker { election: None },
    }
}

/// Reads what `/leader` and the status file say.
fn read(json: &Value, is_file: bool) -> Belief {
    let text = |field: &str| json[field].as_str().map(str::to_owned);
    let election = text("election");
    if let Some(why) = text("error") {
        return Belief::Unsure { election, why };
    }
    let valid_ms = match json["valid_until_unix_ms"].as_i64() {
        Some(until) if is_file => Some(until.saturating_sub(now_unix_ms())),
        _ => json["expires_in_ms"].as_i64(),
    };
    let token = json["token"].as_i64();
    if is_file && let Some(belief) = marker(json) {
        return belief;
    }
    match json["is_leader"].as_bool() {
        Some(true) => {
            let identity = text("identity").or_else(|| text("name")).unwrap_or_default();
            Belief::Leads { election, identity, token, valid_ms }
        }
        _ => {
            let leader = text("name").unwrap_or_default();
            Belief::Follows { election, leader, token, valid_ms }
        }
    }
}

/// The marker of `tenure run`. It exists while the command may run, so it needs no `is_leader`; and its
/// `name` is the election, not the leader.
fn marker(json: &Value) -> Option<Belief> {
    let is_marker = json["is_leader"].is_null()
        && json["token"].is_i64()
        && (json["session"].is_string() || json["pid"].is_u64());
    let election = json["name"].as_str().filter(|_| is_marker)?;
    Some(Belief::Leads {
        election: Some(election.to_owned()),
        identity: json["identity"].as_str().unwrap_or("somebody").to_owned(),
        token: json["token"].as_i64(),
        valid_ms: None,
    })
}

fn now_unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_millis() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn leads(token: i64) -> Believer {
        let report =
            json!({"election": "jobs", "identity": "a", "is_leader": true, "token": token});
        Believer { place: "x".into(), belief: read(&report, false) }
    }

    #[test]
    fn believer_counts_only_with_a_claim_made_twice() {
        let claims = |before, after| steady(vec![before], vec![after]).remove(0).belief;
        assert!(matches!(claims(leads(7), leads(7)), Belief::Leads { token: Some(7), .. }));
        assert!(matches!(claims(leads(7), leads(9)), Belief::Unsure { .. }));
        let follows = json!({"election": "jobs", "name": "b", "is_leader": false});
        let follows = || Believer { place: "x".into(), belief: read(&follows, false) };
        assert!(matches!(claims(leads(7), follows()), Belief::Follows { .. }));
        assert!(matches!(claims(follows(), leads(7)), Belief::Unsure { .. }));
    }

    #[test]
    fn believer_file_is_believed_as_long_as_it_says() {
        let report = json!({"is_leader": true, "valid_until_unix_ms": 1, "expires_in_ms": 9000});
        let Belief::Leads { valid_ms: Some(ms), .. } = read(&report, true) else { panic!("leads") };
        assert!(ms < 0, "{ms}");
        let Belief::Leads { valid_ms, .. } = read(&report, false) else { panic!("leads") };
        assert_eq!(valid_ms, Some(9000));
    }

    #[test]
    fn believer_marker_is_a_claim_to_lead() {
        let report =
            json!({"name": "jobs", "identity": "a", "token": 7, "session": "1f", "pid": 9});
        let leads = Belief::Leads {
            election: Some("jobs".into()),
            identity: "a".into(),
            token: Some(7),
            valid_ms: None,
        };
        assert_eq!(read(&report, true), leads);
        // A sidecar that answers `/leader` is no file and names the leader.
        assert!(matches!(read(&report, false), Belief::Follows { leader, .. } if leader == "jobs"));
    }

    #[test]
    fn believer_that_does_not_know_says_so() {
        let report = json!({"election": "jobs", "error": "too old", "is_leader": false});
        let unsure = Belief::Unsure { election: Some("jobs".into()), why: "too old".into() };
        assert_eq!(read(&report, false), unsure);
    }

    #[test]
    fn believer_file_may_have_been_valid_before_the_epoch() {
        let report = json!({"is_leader": true, "valid_until_unix_ms": i64::MIN});
        assert!(matches!(read(&report, true), Belief::Leads { valid_ms: Some(i64::MIN), .. }));
    }

    #[test]
    fn believer_claims_that_are_damaged_are_refused_or_read() {
        let sound = json!({
            "election": "jobs", "identity": "a", "name": "b", "is_leader": true, "token": 7, "pid": 9,
            "session": "1f", "valid_until_unix_ms": 1_700_000_000_000_i64, "expires_in_ms": 9000,
        });
        let text = tenure_damage::damaged_text(proptest::strategy::Just(sound.to_string()));
        tenure_damage::hold(1000, text, |text| {
            if let Ok(json) = serde_json::from_str(&text) {
                let _ = (read(&json, true), read(&json, false));
            }
            Ok(())
        });
    }
}
