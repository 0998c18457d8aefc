//! Lists of certificates that count no more.

use std::path::Path;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

use crate::{TlsError, pem::read_block};

/// The serials in a list. Like etcd, whoever may write the file is believed: its signature is not looked at.
#[derive(Debug, Default)]
pub(crate) struct Revoked(Vec<Vec<u8>>);

impl Revoked {
    /// A list as PEM or DER.
    pub(crate) fn load(path: &Path) -> Result<Revoked, TlsError> {
        let list: CertificateRevocationListDer<'_> = read_block(path)?;
        let (_, list) = CertificateRevocationList::from_der(&list)
            .map_err(|_| TlsError::content(path, "it is not a list of revoked certificates"))?;
        let serials = list.iter_revoked_certificates().map(|one| one.raw_serial().to_vec());
        Ok(Revoked(serials.collect()))
    }

    /// The serial of the first of these certificates that is listed, in hexadecimal.
    pub(crate) fn first_of<'a>(
        &self,
        chain: impl IntoIterator<Item = &'a CertificateDer<'a>>,
    ) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        chain.into_iter().find_map(|certificate| {
            let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
            let serial = certificate.raw_serial();
            let is_listed = self.0.iter().any(|listed| digits(listed) == digits(serial));
            is_listed.then(|| digits(serial).iter().map(|byte| format!("{byte:02x}")).collect())
        })
    }
}

/// Without the zeros in front that keep a number positive.
fn digits(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    &serial[zeros..]
}
