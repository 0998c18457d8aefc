use std::{io, path::PathBuf};

/// Why files cannot be used for TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("{}: {cause}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A file does not have what it is named for.
    #[error("{}: {why}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The two files belong to different pairs.
    #[error("tls: private key does not match public key: {} and {}", key.display(), cert.display())]
    Mismatch {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// No authority was named, and the system knows none.
    #[error("no certificate authority was named, and the system has none")]
    NoAuthority,
    /// rustls refuses the whole.
    #[error(transparent)]
    Refused(#[from] rustls::Error),
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Issue(#[from] rcgen::Error),
}

impl TlsError {
    pub(crate) fn content(path: &std::path::Path, why: impl ToString) -> TlsError {
        TlsError::Content { path: path.to_owned(), why: why.to_string() }
    }

    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> TlsError {
        move |cause| TlsError::File { path: path.to_owned(), cause }
    }
}

/// Why a handshake failed, in words.
pub fn reason(failed: &io::Error) -> String {
    use rustls::{CertificateError, Error};
    let inner = failed.get_ref().and_then(|error| error.downcast_ref::<Error>());
    match inner {
        // rustls shows what refused a certificate as Rust code.
        Some(Error::InvalidCertificate(CertificateError::Other(why))) => why.0.to_string(),
        _ => failed.to_string(),
    }
}
