//! A secret that members share, for those that have no certificates.
//!
//! It never crosses the network: each side proves by a keyed hash of what both drew at random that it knows it. That keeps strangers
//! out. It hides nothing, and does not stop a stranger that sits on the path between two members: that takes TLS.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};

use crate::{TlsError, watched::Watched};

/// Random bytes that each side draws for one connection.
pub const NONCE_BYTES: usize = 32;
/// A proof.
pub const PROOF_BYTES: usize = 32;
/// A secret that is shorter can be guessed.
const SECRET_BYTES_MIN: usize = 16;
/// Secrets that count at the same time: the old one and the new one, and some that were forgotten.
const SECRETS_MAX: usize = 8;

/// Which side of a connection proves something. A proof of one is none of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofSide {
    /// The side that has called.
    Caller,
    /// The side that was called.
    Called,
}

/// The secrets in a file, which is read again when it changes.
///
/// Each line is one. Proofs are made with the first, and taken by any: so a new one is brought in by adding it behind, then
/// moving it to the front, then removing the old one, at each step on all members in turn.
pub struct SharedSecret {
    path: PathBuf,
    keys: Watched<Vec<hmac::Key>>,
}

/// Bytes of its own for one connection.
///
/// # Errors
/// If the system has no random numbers.
pub fn nonce() -> Result<[u8; NONCE_BYTES], TlsError> {
    let mut nonce = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut nonce).map_err(|_| rcgen::Error::RingUnspecified)?;
    Ok(nonce)
}

impl SharedSecret {
    /// Reads the file.
    ///
    /// # Errors
    /// If it cannot be read, or has no secret that is long enough.
    pub fn load(path: &Path) -> Result<SharedSecret, TlsError> {
        let file = path.to_owned();
        let keys = Watched::new(vec![path.to_owned()], move || read(&file))?;
        Ok(SharedSecret { path: path.to_owned(), keys })
    }

    /// Proves to the other side that this one knows the secret.
    pub fn prove(&self, side: ProofSide, caller: &[u8], called: &[u8]) -> [u8; PROOF_BYTES] {
        let keys = self.keys.get();
        let tag = hmac::sign(&keys[0], &statement(side, caller, called));
        tag.as_ref().try_into().expect("SHA-256 has so many bytes")
    }

    /// Whether the other side knows it.
    pub fn verify(&self, side: ProofSide, caller: &[u8], called: &[u8], proof: &[u8]) -> bool {
        let statement = statement(side, caller, called);
        self.keys.get().iter().any(|key| hmac::verify(key, &statement, proof).is_ok())
    }
}

fn statement(side: ProofSide, caller: &[u8], called: &[u8]) -> Vec<u8> {
    let side: &[u8] = match side {
        ProofSide::Caller => b"tenure-peer caller\0",
        ProofSide::Called => b"tenure-peer called\0",
    };
    [side, caller, called].concat()
}

fn read(path: &Path) -> Result<Vec<hmac::Key>, TlsError> {
    let text = fs::read(path).map_err(TlsError::file(path))?;
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let secrets: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
    if secrets.is_empty() || secrets.len() > SECRETS_MAX {
        let why = format!("it must have one secret a line, 1 to {SECRETS_MAX} of them");
        return Err(TlsError::content(path, why));
    }
    if secrets.iter().any(|secret| secret.len() < SECRET_BYTES_MIN) {
        let why = format!("a secret must have {SECRET_BYTES_MIN} characters at least");
        return Err(TlsError::content(path, why));
    }
    Ok(secrets.iter().map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)).collect())
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSecret").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(dir: &tempfile::TempDir, text: &str) -> Result<SharedSecret, TlsError> {
        let path = dir.path().join("secret");
        fs::write(&path, text).unwrap();
        SharedSecret::load(&path)
    }

    #[test]
    fn secret_is_proven_for_one_side_of_one_connection() {
        let dir = tempfile::tempdir().unwrap();
        let ours = secret(&dir, "a secret of some length\n").unwrap();
        let (a, b) = (nonce().unwrap(), nonce().unwrap());
        assert_ne!(a, b);
        let proof = ours.prove(ProofSide::Caller, &a, &b);
        assert!(ours.verify(ProofSide::Caller, &a, &b, &proof));
        assert!(!ours.verify(ProofSide::Called, &a, &b, &proof), "it was reflected");
        assert!(!ours.verify(ProofSide::Caller, &b, &a, &proof), "it is of another connection");
        let other = tempfile::tempdir().unwrap();
        let other = secret(&other, "another secret of some length").unwrap();
        assert!(!other.verify(ProofSide::Caller, &a, &b, &proof));
    }

    #[test]
    fn secret_is_replaced_in_three_steps_without_a_gap() {
        let (old, new) = ("the old one, long enough", "the new one, long enough");
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let one = secret(&dirs[0], old).unwrap();
        let two = secret(&dirs[1], old).unwrap();
        let fits = || {
            let proof = one.prove(ProofSide::Caller, b"a", b"b");
            let back = two.prove(ProofSide::Called, b"a", b"b");
            two.verify(ProofSide::Caller, b"a", b"b", &proof)
                && one.verify(ProofSide::Called, b"a", b"b", &back)
        };
        for step in [format!("{old}\n{new}\n"), format!("{new}\n{old}\n"), format!("{new}\n")] {
            for dir in &dirs {
                fs::write(dir.path().join("secret"), &step).unwrap();
                assert!(fits(), "{step:?}");
            }
        }
    }

    #[test]
    fn secret_that_can_be_guessed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(secret(&dir, "").is_err());
        assert!(secret(&dir, "short").is_err());
        assert!(secret(&dir, "this one is long enough\nshort").is_err());
        assert!(secret(&dir, &"this one is long enough\n".repeat(SECRETS_MAX + 1)).is_err());
        assert!(secret(&dir, &"this one is long enough\n".repeat(SECRETS_MAX)).is_ok());
    }
}
