//! Signed claims (JWT) as tokens: `--auth-token jwt,…`.
//!
//! A member that has the private key signs the name of a user, the revision of users and roles, and until when it counts.
//! Members need not remember such a token, so it outlives their restarts. With a public key alone, or a set of keys in a
//! file (JWKS), tokens are made elsewhere and only checked here.

mod keys;

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tenure_api::{Failure, Principal, Proof};
use tracing::warn;

use self::keys::{KeySet, pair};

/// How long a token counts, unless the options say otherwise.
const TTL: Duration = Duration::from_secs(300);
/// Tokens whose signature was found good and is not checked again.
const VERIFIED_MAX: usize = 4096;

/// A setting of `--auth-token` that cannot be used. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenSettingError {
    /// An option that is no option, or a file that cannot be read.
    #[error("auth: invalid auth options")]
    Options,
    /// No key at all.
    #[error("auth: missing key data")]
    MissingKey,
    /// Two keys that are no pair.
    #[error("auth: public and private keys don't match")]
    KeyMismatch,
    /// A method that is not there.
    #[error("unsupported signing method: {0}")]
    Method(String),
}

/// Makes and checks signed claims.
pub(crate) struct Jwt {
    method: Algorithm,
    ttl: Duration,
    sign: Option<EncodingKey>,
    keys: Keys,
    /// The claim that names the user.
    user: String,
    issuer: Option<String>,
    audience: Option<String>,
    verified: Mutex<HashMap<[u8; 32], Map<String, Value>>>,
}

enum Keys {
    One(DecodingKey),
    /// By their ids, from a file that may change.
    Set(KeySet),
}

impl std::fmt::Debug for Jwt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Jwt({:?})", self.method)
    }
}

impl Jwt {
    /// Reads the options behind `jwt,`, and the files that they name.
    pub(super) fn read(options: &str) -> Result<Jwt, TokenSettingError> {
        let invalid = || TokenSettingError::Options;
        let mut given = HashMap::new();
        for option in options.split(',') {
            let (name, value) = option.split_once('=').ok_or_else(invalid)?;
            if given.insert(name, value).is_some() {
                return Err(invalid());
            }
        }
        let mut take = |name: &str| given.remove(name);
        let method = take("sign-method").ok_or_else(invalid)?;
        let method: Algorithm =
            method.parse().map_err(|_| TokenSettingError::Method(method.to_owned()))?;
        let ttl = match take("ttl") {
            None => TTL,
            Some(ttl) => go_duration(ttl).filter(|ttl| !ttl.is_zero()).ok_or_else(invalid)?,
        };
        let read = |path: &str| std::fs::read(path).map_err(|_| invalid());
        let private = take("priv-key").map(read).transpose()?;
        let public = take("pub-key").map(read).transpose()?;
        let (sign, keys) = match take("jwks") {
            Some(path) => (None, Keys::Set(KeySet::read(path.into(), method)?)),
            None => {
                let (sign, verify) = pair(method, private.as_deref(), public.as_deref())?;
                (sign, Keys::One(verify))
            }
        };
        let text = |value: Option<&str>| value.map(str::to_owned);
        let user = text(take("username-claim")).unwrap_or_else(|| "username".to_owned());
        let (issuer, audience) = (text(take("issuer")), text(take("audience")));
        for name in given.keys() {
            warn!(option = name, "unknown option of --auth-token jwt");
        }
        let verified = Mutex::default();
        Ok(Jwt { method, ttl, sign, keys, user, issuer, audience, verified })
    }

    /// A token for this user, as of this revision.
    pub(crate) fn sign(&self, user: &str, revision: u64) -> Result<String, Failure> {
        let key = self.sign.as_ref().ok_or(Failure::VerifyOnlyKey)?;
        let until = now().saturating_add(self.ttl.as_secs());
        let mut claims = json!({ "revision": revision, "exp": until });
        claims[&self.user] = user.into();
        jsonwebtoken::encode(&Header::new(self.method), &claims, key)
            .map_err(|_| Failure::VerifyOnlyKey)
    }

    /// The user that a token names, if it was signed by one that may, and counts now. A token of another issuer may know
    /// nothing of revisions; then the user has the rights that it has at `revision`.
    pub(crate) fn principal(&self, token: &str, revision: u64) -> Principal {
        match self.claims(token).and_then(|claims| self.named(&claims, revision)) {
            Some(principal) => principal,
            None => Principal::Unproven,
        }
    }

    fn named(&self, claims: &Map<String, Value>, revision: u64) -> Option<Principal> {
        let now = now();
        let seconds = |name: &str| match claims.get(name) {
            None => Some(None),
            Some(value) => value.as_f64().map(Some),
        };
        let has_begun = |at: Option<f64>| at.is_none_or(|at| now as f64 >= at);
        let counts = seconds("exp")?.is_none_or(|until| (now as f64) < until)
            && has_begun(seconds("nbf")?)
            && has_begun(seconds("iat")?);
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let meets = |wanted: &Option<String>, name: &str| {
            wanted.as_ref().is_none_or(|wanted| text(name) == Some(wanted))
        };
        let is_audience = match (&self.audience, claims.get("aud")) {
            (None, _) => true,
            (Some(wanted), Some(Value::Array(all))) => all.iter().any(|one| one == wanted),
            (Some(wanted), one) => one.is_some_and(|one| one == wanted),
        };
        if !counts || !meets(&self.issuer, "iss") || !is_audience {
            return None;
        }
        let name = text(&self.user).filter(|name| !name.is_empty())?.into();
        let (auth_revision, proof) = match (claims.get("revision"), &self.keys) {
            (Some(number), _) => (whole(number)?, Proof::Claims),
            (None, Keys::Set(_)) => (revision, Proof::Held),
            (None, Keys::One(_)) => return None,
        };
        // As etcd has it: that is no identity at all.
        if auth_revision == 0 {
            return Some(Principal::Anonymous);
        }
        Some(Principal::User { name, auth_revision, proof })
    }

    /// What is in a token with a good signature.
    fn claims(&self, token: &str) -> Option<Map<String, Value>> {
        let checksum: [u8; 32] = Sha256::digest(token).into();
        let fresh = match &self.keys {
            Keys::One(_) => false,
            Keys::Set(set) => set.refresh(),
        };
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if fresh || verified.len() >= VERIFIED_MAX {
            verified.clear();
        }
        if let Some(claims) = verified.get(&checksum) {
            return Some(claims.clone());
        }
        let mut rules = Validation::new(self.method);
        // Times and names are looked at where they count, on each use.
        rules.required_spec_claims.clear();
        rules.validate_exp = false;
        rules.validate_nbf = false;
        rules.validate_aud = false;
        let decode =
            |key: &DecodingKey| jsonwebtoken::decode::<Map<String, Value>>(token, key, &rules).ok();
        let claims = match &self.keys {
            Keys::One(key) => decode(key),
            Keys::Set(set) => {
                let id = jsonwebtoken::decode_header(token).ok()?.kid;
                set.matching(id.as_deref()).iter().find_map(|key| decode(key))
            }
        };
        let claims = claims?.claims;
        verified.insert(checksum, claims.clone());
        Some(claims)
    }
}

/// A number of JSON, which some write with a point.
fn whole(number: &Value) -> Option<u64> {
    let float = || number.as_f64().filter(|float| *float >= 0.0 && float.fract() == 0.0);
    number.as_u64().or_else(|| float().map(|float| float as u64))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// As Go writes them: `10m`, `1h30m`.
fn go_duration(text: &str) -> Option<Duration> {
    tenure_api::duration::duration(text).ok()
}

#[cfg(test)]
mod tests;
