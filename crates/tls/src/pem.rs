//! Certificates and keys in files.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use rustls::{
    Error, InconsistentKeys,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

use crate::TlsError;

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFiles {
    /// The certificate, then those that lead to its authority.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

impl PairFiles {
    pub(crate) fn load(&self, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
        let chain = read_certificates(&self.cert)?;
        let key = read_key(&self.key)?;
        match CertifiedKey::from_der(chain, key, provider) {
            Ok(pair) => Ok(Arc::new(pair)),
            Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                Err(TlsError::Mismatch { cert: self.cert.clone(), key: self.key.clone() })
            }
            Err(error) => Err(TlsError::content(&self.cert, error)),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(TlsError::file(path))
}

/// At least one certificate, as PEM.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| TlsError::content(path, error))?;
    if found.is_empty() {
        return Err(TlsError::content(path, "there is no certificate (PEM) in it"));
    }
    Ok(found)
}

pub(crate) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| TlsError::content(path, "there is no private key (PEM) in it"))
}

/// The content of a PEM block of this kind, or the bytes themselves if there is none.
pub(crate) fn read_block<T: PemObject + From<Vec<u8>>>(path: &Path) -> Result<T, TlsError> {
    let bytes = read(path)?;
    Ok(T::from_pem_slice(&bytes).unwrap_or_else(|_| T::from(bytes)))
}

/// A PEM block.
pub(crate) fn block(kind: &str, der: &[u8]) -> String {
    const LINE: usize = 64;
    let text = BASE64_STANDARD.encode(der);
    let mut out = format!("-----BEGIN {kind}-----\n");
    for line in text.as_bytes().chunks(LINE) {
        out.extend(line.iter().map(|byte| char::from(*byte)));
        out.push('\n');
    }
    out + &format!("-----END {kind}-----\n")
}

/// Writes a key so that only its owner can read it. The file is there whole, or as it was before.
///
/// # Errors
/// If it cannot be written.
pub fn write_private(path: &Path, text: &str) -> Result<(), TlsError> {
    replace(path, text, 0o600)
}

/// Writes a certificate, which anybody may read. The file is there whole, or as it was before.
///
/// # Errors
/// If it cannot be written.
pub fn write_public(path: &Path, text: &str) -> Result<(), TlsError> {
    replace(path, text, 0o644)
}

fn replace(path: &Path, text: &str, mode: u32) -> Result<(), TlsError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let beside = path.with_file_name(name);
    let write = || {
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(TlsError::file(path))
}
