//! New certificates: an authority of one's own, and what it signs.
//!
//! Keys are ECDSA on P-256, which every client knows and which costs a server least.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber, string::Ia5String,
};
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;

use crate::{TlsError, pem};

/// Clocks of other machines may be behind by so much.
const BEFORE: Duration = Duration::from_secs(300);

/// What a certificate is to say.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The common name; none if empty.
    pub common_name: String,
    /// The organization; none if empty.
    pub organization: String,
    /// Hosts and addresses.
    pub hosts: Vec<String>,
    /// It may stand for a server.
    pub for_servers: bool,
    /// It may stand for a client.
    pub for_clients: bool,
    /// How long it counts.
    pub valid: Duration,
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Issued {
    /// The certificate.
    pub cert: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").field("cert", &self.cert).finish_non_exhaustive()
    }
}

/// An authority that signs certificates.
pub struct Authority {
    cert: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(common_name: &str, valid: Duration) -> Result<Authority, TlsError> {
        let wanted = Wanted { common_name: common_name.to_owned(), valid, ..Wanted::default() };
        let mut params = params(&wanted)?;
        // It signs what stands for members and clients, no other authorities.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let cert = params.self_signed(&key)?.der().clone();
        Ok(Authority { cert, issuer: Issuer::new(params, key) })
    }

    /// One in files.
    ///
    /// # Errors
    /// If it is not there, or no authority.
    pub fn load(cert: &Path, key: &Path) -> Result<Authority, TlsError> {
        let found = pem::read_certificates(cert)?.swap_remove(0);
        let key = key_pair(key)?;
        let issuer = Issuer::from_ca_cert_der(&found, key)
            .map_err(|error| TlsError::content(cert, error))?;
        Ok(Authority { cert: found, issuer })
    }

    /// Its certificate and key, as PEM.
    pub fn pem(&self) -> Issued {
        issued(&self.cert, self.issuer.key())
    }

    /// A new certificate with a new key.
    ///
    /// # Errors
    /// If a name is none.
    pub fn issue(&self, wanted: &Wanted) -> Result<Issued, TlsError> {
        self.issue_for(wanted, &KeyPair::generate()?)
    }

    /// A new certificate for a key that exists: the certificate alone has to be replaced, which is one step.
    ///
    /// # Errors
    /// If a name is none, or there is no key.
    pub fn issue_again(&self, wanted: &Wanted, key: &Path) -> Result<Issued, TlsError> {
        self.issue_for(wanted, &key_pair(key)?)
    }

    #[cfg(test)]
    pub(crate) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    fn issue_for(&self, wanted: &Wanted, key: &KeyPair) -> Result<Issued, TlsError> {
        let mut params = params(wanted)?;
        params.use_authority_key_identifier_extension = true;
        Ok(issued(params.signed_by(key, &self.issuer)?.der(), key))
    }
}

/// A certificate that no authority has signed.
///
/// # Errors
/// If a name is none.
pub fn self_signed(wanted: &Wanted) -> Result<Issued, TlsError> {
    let key = KeyPair::generate()?;
    Ok(issued(params(wanted)?.self_signed(&key)?.der(), &key))
}

fn key_pair(path: &Path) -> Result<KeyPair, TlsError> {
    let key = pem::read_key(path)?;
    KeyPair::try_from(&key).map_err(|error| TlsError::content(path, error))
}

fn issued(cert: &CertificateDer<'_>, key: &KeyPair) -> Issued {
    Issued {
        cert: pem::block("CERTIFICATE", cert),
        key: pem::block("PRIVATE KEY", key.serialized_der()),
    }
}

fn params(wanted: &Wanted) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, name) in [
        (DnType::OrganizationName, &wanted.organization),
        (DnType::CommonName, &wanted.common_name),
    ] {
        if !name.is_empty() {
            params.distinguished_name.push(kind, name.as_str());
        }
    }
    for host in &wanted.hosts {
        params.subject_alt_names.push(match host.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(Ia5String::try_from(host.as_str())?),
        });
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let usages = [
        (wanted.for_servers, ExtendedKeyUsagePurpose::ServerAuth),
        (wanted.for_clients, ExtendedKeyUsagePurpose::ClientAuth),
    ];
    params.extended_key_usages =
        usages.into_iter().filter(|(wanted, _)| *wanted).map(|(_, usage)| usage).collect();
    let now = SystemTime::now();
    params.not_before = OffsetDateTime::from(now - BEFORE);
    params.not_after = OffsetDateTime::from(now + wanted.valid);
    params.serial_number = Some(serial()?);
    Ok(params)
}

/// 16 random bytes, of which the first says that the number is positive.
fn serial() -> Result<SerialNumber, TlsError> {
    let mut bytes = [0; 16];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| rcgen::Error::RingUnspecified)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}
