use std::path::Path;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use tempfile::TempDir;

use super::*;

const RSA: &str = include_str!("test-rsa.pem");
const RSA_PUBLIC: &str = include_str!("test-rsa.pub.pem");
/// As `openssl ecparam -genkey` writes it.
const EC: &str = include_str!("test-ec.pem");

struct Files(TempDir);

impl Files {
    fn new() -> Files {
        let files = Files(TempDir::new().unwrap());
        for (name, text) in [("rsa", RSA), ("rsa.pub", RSA_PUBLIC), ("ec", EC), ("hs", "a secret")]
        {
            std::fs::write(files.at(name), text).unwrap();
        }
        files
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        Path::join(self.0.path(), name)
    }

    /// Options in which `@name` is a file.
    fn read(&self, options: &str) -> Result<Jwt, TokenSettingError> {
        Jwt::read(&options.replace('@', &format!("{}/", self.0.path().display())))
    }
}

fn user(auth_revision: u64, proof: Proof) -> Principal {
    Principal::User { name: "ada".into(), auth_revision, proof }
}

fn signed(jwt: &Jwt, claims: &Value) -> String {
    jsonwebtoken::encode(&Header::new(jwt.method), claims, jwt.sign.as_ref().unwrap()).unwrap()
}

#[test]
fn jwt_signatures_that_are_remembered_are_verified_max_at_the_most() {
    let jwt = Files::new().read("sign-method=HS256,priv-key=@hs").unwrap();
    for revision in 1..=VERIFIED_MAX as u64 + 1 {
        let token = jwt.sign("ada", revision).unwrap();
        assert_eq!(jwt.principal(&token, revision), user(revision, Proof::Claims));
        assert!(jwt.verified.lock().unwrap().len() <= VERIFIED_MAX);
    }
}

#[test]
fn jwt_of_every_method_is_read_back() {
    let files = Files::new();
    for options in [
        "sign-method=HS256,priv-key=@hs",
        "sign-method=HS512,priv-key=@hs",
        "sign-method=RS256,priv-key=@rsa,pub-key=@rsa.pub",
        "sign-method=RS384,priv-key=@rsa",
        "sign-method=PS512,priv-key=@rsa,ttl=10m",
        "sign-method=ES256,priv-key=@ec",
    ] {
        let jwt = files.read(options).unwrap();
        let token = jwt.sign("ada", 7).unwrap();
        for _ in 0..2 {
            assert_eq!(jwt.principal(&token, 9), user(7, Proof::Claims), "{options}");
        }
        let claims: Value = serde_json::from_slice(
            &BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap(),
        )
        .unwrap();
        assert_eq!((&claims["username"], &claims["revision"]), (&"ada".into(), &7.into()));
        assert!(claims["exp"].is_u64());
    }
}

#[test]
fn jwt_with_a_public_key_alone_is_checked_and_not_made() {
    let files = Files::new();
    let signs = files.read("sign-method=RS256,priv-key=@rsa").unwrap();
    let checks = files.read("sign-method=RS256,pub-key=@rsa.pub").unwrap();
    let token = signs.sign("ada", 7).unwrap();
    assert_eq!(checks.principal(&token, 9), user(7, Proof::Claims));
    assert_eq!(checks.sign("ada", 7), Err(Failure::VerifyOnlyKey));
}

#[test]
fn jwt_setting_that_cannot_be_used_is_refused_as_in_etcd() {
    let files = Files::new();
    let refused = |options: &str| files.read(options).err().map(|error| error.to_string());
    for options in [
        "",
        "sign-method",
        "priv-key=@hs",
        "sign-method=HS256,sign-method=HS256,priv-key=@hs",
        "sign-method=HS256,priv-key=@hs,ttl=soon",
        "sign-method=HS256,priv-key=@missing",
        "sign-method=RS256,priv-key=@hs",
        "sign-method=ES256,priv-key=@rsa",
    ] {
        assert_eq!(refused(options).as_deref(), Some("auth: invalid auth options"), "{options}");
    }
    assert_eq!(refused("sign-method=RS256").as_deref(), Some("auth: missing key data"));
    assert_eq!(
        refused("sign-method=XS256,priv-key=@hs").as_deref(),
        Some("unsupported signing method: XS256")
    );
    std::fs::write(files.at("other.pub"), RSA_PUBLIC.replacen('A', "B", 1)).unwrap();
    assert!(refused("sign-method=RS256,priv-key=@rsa,pub-key=@other.pub").is_some());
    assert!(files.read("sign-method=HS256,priv-key=@hs,colour=red").is_ok(), "a warning");
}

#[test]
fn jwt_that_does_not_count_proves_nothing() {
    let files = Files::new();
    let jwt = files.read("sign-method=RS256,priv-key=@rsa").unwrap();
    let now = now();
    let good = json!({ "username": "ada", "revision": 7, "exp": now + 60 });
    assert_eq!(jwt.principal(&signed(&jwt, &good), 9), user(7, Proof::Claims));
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        jwt.principal(&signed(&jwt, &claims), 9)
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        jwt.principal(&signed(&jwt, &claims), 9)
    };
    for refused in [
        without("username"),
        without("revision"),
        with("username", 7.into()),
        with("username", "".into()),
        with("revision", "7".into()),
        with("revision", (-1).into()),
        with("revision", 7.5.into()),
        with("exp", (now - 1).into()),
        with("exp", "never".into()),
        with("nbf", (now + 60).into()),
        with("iat", (now + 60).into()),
    ] {
        assert_eq!(refused, Principal::Unproven);
    }
    assert_eq!(without("exp"), user(7, Proof::Claims), "for ever");
    assert_eq!(with("revision", 7.0.into()), user(7, Proof::Claims));
    assert_eq!(with("revision", 0.into()), Principal::Anonymous);
}

#[test]
fn jwt_of_another_method_proves_nothing() {
    let files = Files::new();
    let jwt = files.read("sign-method=RS256,priv-key=@rsa").unwrap();
    let claims = json!({ "username": "ada", "revision": 7 });
    let with_key = |method, key: &EncodingKey| {
        jsonwebtoken::encode(&Header::new(method), &claims, key).unwrap()
    };
    let rsa = EncodingKey::from_rsa_pem(RSA.as_bytes()).unwrap();
    assert_eq!(jwt.principal(&with_key(Algorithm::RS512, &rsa), 9), Principal::Unproven);
    // The public key is known to all: taken for a secret, it would sign anything.
    let secret = EncodingKey::from_secret(RSA_PUBLIC.as_bytes());
    assert_eq!(jwt.principal(&with_key(Algorithm::HS256, &secret), 9), Principal::Unproven);
    let part = |json: Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
    for alg in ["none", "None", "RS256"] {
        let bare =
            format!("{}.{}.", part(json!({ "alg": alg, "typ": "JWT" })), part(claims.clone()));
        assert_eq!(jwt.principal(&bare, 9), Principal::Unproven, "{alg}");
    }
    for odd in ["", ".", "..", "a.b.c", "ä"] {
        assert_eq!(jwt.principal(odd, 9), Principal::Unproven);
    }
}

#[test]
fn jwt_of_another_issuer_counts_by_its_set_of_keys() {
    let files = Files::new();
    let secret = |id: &str, text: &str| json!({ "kty": "oct", "kid": id, "alg": "HS256", "k": BASE64_URL_SAFE_NO_PAD.encode(text) });
    let keys = json!({ "keys": [secret("one", "first"), secret("two", "second")] });
    std::fs::write(files.at("jwks"), keys.to_string()).unwrap();
    let jwt = files
        .read("sign-method=HS256,jwks=@jwks,username-claim=sub,issuer=https://id,audience=tenure")
        .unwrap();
    let token = |id: &str, text: &str, audience: Value| {
        let header = Header { kid: Some(id.to_owned()), ..Header::new(Algorithm::HS256) };
        let claims = json!({ "sub": "ada", "iss": "https://id", "aud": audience });
        jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(text.as_bytes())).unwrap()
    };
    let follows = user(9, Proof::Held);
    assert_eq!(jwt.principal(&token("two", "second", "tenure".into()), 9), follows);
    assert_eq!(jwt.principal(&token("one", "first", json!(["a", "tenure"])), 9), follows);
    for refused in [
        token("two", "first", "tenure".into()),
        token("three", "first", "tenure".into()),
        token("one", "first", "other".into()),
    ] {
        assert_eq!(jwt.principal(&refused, 9), Principal::Unproven);
    }
    assert_eq!(jwt.sign("ada", 9), Err(Failure::VerifyOnlyKey));
    std::fs::write(files.at("empty"), json!({ "keys": [] }).to_string()).unwrap();
    assert!(files.read("sign-method=HS256,jwks=@empty").is_err());
}
