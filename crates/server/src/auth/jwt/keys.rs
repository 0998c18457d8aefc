//! The keys of signed claims, from their files.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header, Validation,
    jwk::{AlgorithmParameters, JwkSet},
};
use ring::{rand::SystemRandom, signature};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};
use tracing::warn;

use super::TokenSettingError as Wrong;

/// How often a file of keys is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Secret,
    Rsa,
    Ec,
}

fn family(method: Algorithm) -> Result<Family, Wrong> {
    use Algorithm::{ES256, ES384, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512};
    match method {
        HS256 | HS384 | HS512 => Ok(Family::Secret),
        RS256 | RS384 | RS512 | PS256 | PS384 | PS512 => Ok(Family::Rsa),
        ES256 | ES384 => Ok(Family::Ec),
        other => Err(Wrong::Method(format!("{other:?}"))),
    }
}

/// The key that signs, if there is one, and the key that checks.
pub(super) fn pair(
    method: Algorithm,
    private: Option<&[u8]>,
    public: Option<&[u8]>,
) -> Result<(Option<EncodingKey>, DecodingKey), Wrong> {
    let family = family(method)?;
    if family == Family::Secret {
        let secret = private.filter(|secret| !secret.is_empty()).ok_or(Wrong::MissingKey)?;
        return Ok((Some(EncodingKey::from_secret(secret)), DecodingKey::from_secret(secret)));
    }
    let signing = private.map(|pem| signing(method, family, pem)).transpose()?;
    let checking = public.map(|pem| match family {
        Family::Ec => DecodingKey::from_ec_pem(pem),
        _ => DecodingKey::from_rsa_pem(pem),
    });
    let checking = checking.transpose().map_err(|_| Wrong::Options)?;
    match (signing, checking) {
        (None, None) => Err(Wrong::MissingKey),
        (None, Some(checking)) => Ok((None, checking)),
        (Some((sign, own)), None) => Ok((Some(sign), own)),
        (Some((sign, _)), Some(checking)) if fits(method, &sign, &checking) => {
            Ok((Some(sign), checking))
        }
        (Some(_), Some(_)) => Err(Wrong::KeyMismatch),
    }
}

/// Whether what one signs the other finds good.
fn fits(method: Algorithm, sign: &EncodingKey, check: &DecodingKey) -> bool {
    let mut rules = Validation::new(method);
    rules.required_spec_claims.clear();
    let token = jsonwebtoken::encode(&Header::new(method), &json!({}), sign);
    token.is_ok_and(|token| jsonwebtoken::decode::<Value>(&token, check, &rules).is_ok())
}

/// A private key, and the public one that belongs to it.
fn signing(
    method: Algorithm,
    family: Family,
    pem: &[u8],
) -> Result<(EncodingKey, DecodingKey), Wrong> {
    let invalid = |_| Wrong::Options;
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| Wrong::Options)?;
    if family == Family::Ec {
        let document = match &key {
            PrivateKeyDer::Pkcs8(document) => document.secret_pkcs8_der().to_vec(),
            PrivateKeyDer::Sec1(bare) => wrapped(method, bare.secret_sec1_der()),
            _ => return Err(Wrong::Options),
        };
        let kind = match method {
            Algorithm::ES256 => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            _ => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
        };
        let random = SystemRandom::new();
        let pair = signature::EcdsaKeyPair::from_pkcs8(kind, &document, &random);
        let pair = pair.map_err(|_| Wrong::Options)?;
        let point = signature::KeyPair::public_key(&pair);
        let check = DecodingKey::from_ec_der(point.as_ref());
        return Ok((EncodingKey::from_ec_der(&document), check));
    }
    let pair = match &key {
        PrivateKeyDer::Pkcs8(document) => {
            signature::RsaKeyPair::from_pkcs8(document.secret_pkcs8_der())
        }
        PrivateKeyDer::Pkcs1(bare) => signature::RsaKeyPair::from_der(bare.secret_pkcs1_der()),
        _ => return Err(Wrong::Options),
    };
    let pair = pair.map_err(|_| Wrong::Options)?;
    let public: ring::rsa::PublicKeyComponents<Vec<u8>> = pair.public().into();
    let check = DecodingKey::from_rsa_raw_components(&public.n, &public.e);
    Ok((EncodingKey::from_rsa_pem(pem).map_err(invalid)?, check))
}

/// A key as `openssl ecparam -genkey` writes it, in the envelope (PKCS#8) that ring reads.
fn wrapped(method: Algorithm, key: &[u8]) -> Vec<u8> {
    const EC: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
    const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    const P384: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];
    let curve = if method == Algorithm::ES256 { P256 } else { P384 };
    let kind = tagged(0x30, &[EC, curve].concat());
    let version = [0x02, 0x01, 0x00];
    tagged(0x30, &[&version, &kind[..], &tagged(0x04, key)].concat())
}

/// DER: a tag, the length, the content.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    match length {
        0..=0x7f => out.push(length as u8),
        0x80..=0xff => out.extend([0x81, length as u8]),
        _ => out.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    out.extend_from_slice(content);
    out
}

/// Keys of other issuers, from a file that they may be changed in.
pub(super) struct KeySet {
    path: PathBuf,
    method: Algorithm,
    known: Mutex<Known>,
}

struct Known {
    keys: Vec<(Option<String>, Arc<DecodingKey>)>,
    written: Option<SystemTime>,
    looked: Instant,
}

impl KeySet {
    pub(super) fn read(path: PathBuf, method: Algorithm) -> Result<KeySet, Wrong> {
        let written = written(&path);
        let keys = read(&path, family(method)?).ok_or(Wrong::Options)?;
        if keys.is_empty() {
            return Err(Wrong::MissingKey);
        }
        let known = Mutex::new(Known { keys, written, looked: Instant::now() });
        Ok(KeySet { path, method, known })
    }

    /// Reads the file again if it was written. True if there are other keys now.
    pub(super) fn refresh(&self) -> bool {
        let mut known = self.known();
        if known.looked.elapsed() < LOOK_EVERY {
            return false;
        }
        known.looked = Instant::now();
        let written = written(&self.path);
        if written == known.written {
            return false;
        }
        let read = family(self.method).ok().and_then(|family| read(&self.path, family));
        match read.filter(|keys| !keys.is_empty()) {
            Some(keys) => {
                known.keys = keys;
                known.written = written;
                true
            }
            None => {
                warn!(file = %self.path.display(), "no keys can be read; those read before count");
                false
            }
        }
    }

    /// The key of this id; without an id, all.
    pub(super) fn matching(&self, id: Option<&str>) -> Vec<Arc<DecodingKey>> {
        let known = self.known();
        let fits = |(known, _): &&(Option<String>, _)| match id {
            Some(id) => known.as_deref().is_none_or(|known| known == id),
            None => true,
        };
        known.keys.iter().filter(fits).map(|(_, key)| key.clone()).collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn written(path: &PathBuf) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|about| about.modified()).ok()
}

/// Keys of this family. A secret among them is none that an issuer would publish, and is left out for other methods.
fn read(path: &PathBuf, family: Family) -> Option<Vec<(Option<String>, Arc<DecodingKey>)>> {
    let set: JwkSet = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let keys = set.keys.iter().filter(|key| match &key.algorithm {
        AlgorithmParameters::RSA(_) => family == Family::Rsa,
        AlgorithmParameters::EllipticCurve(_) => family == Family::Ec,
        AlgorithmParameters::OctetKey(_) => family == Family::Secret,
        _ => false,
    });
    let read = keys.filter_map(|key| {
        let id = key.common.key_id.clone();
        Some((id, Arc::new(DecodingKey::from_jwk(key).ok()?)))
    });
    Some(read.collect())
}
