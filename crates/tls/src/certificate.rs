//! What stands in a certificate.

use std::{
    net::IpAddr,
    path::Path,
    time::{Duration, SystemTime},
};

use rustls::{
    client::verify_server_name,
    pki_types::{CertificateDer, ServerName},
    server::ParsedCertificate,
};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

use crate::{TlsError, pem};

/// The names that a certificate proves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The subject's common name; empty if there is none.
    pub common_name: String,
    /// Host names among the alternative names, perhaps with a `*.` in front.
    pub dns: Vec<String>,
    /// Addresses among them.
    pub ips: Vec<IpAddr>,
    /// URIs among them, such as those of SPIFFE.
    pub uris: Vec<String>,
}

impl Names {
    /// Whether one of the alternative names is this host: an address, or a name for which a `*` may stand in the first place.
    pub fn cover(&self, host: &str) -> bool {
        let host = host.trim_matches(['[', ']']);
        if let Ok(ip) = host.parse::<IpAddr>() {
            return self.ips.iter().any(|one| one.to_canonical() == ip.to_canonical());
        }
        self.dns.iter().any(|name| match name.strip_prefix("*.") {
            None => name.eq_ignore_ascii_case(host),
            Some(domain) => {
                host.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(domain))
            }
        })
    }
}

/// One certificate, read.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Whom it names.
    pub names: Names,
    /// Its number, in hexadecimal.
    pub serial: String,
    /// Its subject, whole.
    pub subject: String,
    /// The subject of its issuer, whole.
    pub issuer: String,
    /// From when on it counts.
    pub not_before: SystemTime,
    /// Until when it counts.
    pub not_after: SystemTime,
    /// It may sign other certificates.
    pub is_authority: bool,
    /// It may stand for a server.
    pub for_servers: bool,
    /// It may stand for a client.
    pub for_clients: bool,
    der: CertificateDer<'static>,
}

impl Certificate {
    /// The first certificate in a file.
    ///
    /// # Errors
    /// If there is none that can be read.
    pub fn load(path: &Path) -> Result<Certificate, TlsError> {
        let first = pem::read_certificates(path)?.swap_remove(0);
        Certificate::read(&first).map_err(|why| TlsError::content(path, why))
    }

    /// Reads one. Answers what is wrong with it if that fails.
    ///
    /// # Errors
    /// If it is no certificate.
    pub fn read(der: &CertificateDer<'_>) -> Result<Certificate, &'static str> {
        let (_, found) =
            X509Certificate::from_der(der).map_err(|_| "it is not an X.509 certificate")?;
        let common_name = found.subject().iter_common_name().next();
        let mut names = Names {
            common_name: common_name.and_then(|name| name.as_str().ok()).unwrap_or("").to_owned(),
            ..Names::default()
        };
        let alternative = found.subject_alternative_name().ok().flatten();
        for name in alternative.iter().flat_map(|extension| &extension.value.general_names) {
            match name {
                GeneralName::DNSName(name) => names.dns.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => names.ips.extend(ip(bytes)),
                GeneralName::URI(uri) => names.uris.push((*uri).to_owned()),
                _ => {}
            }
        }
        let usage = found.extended_key_usage().ok().flatten().map(|extension| extension.value);
        let may = |allowed: fn(&x509_parser::extensions::ExtendedKeyUsage<'_>) -> bool| {
            usage.is_none_or(|usage| usage.any || allowed(usage))
        };
        Ok(Certificate {
            names,
            serial: found.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect(),
            subject: found.subject().to_string(),
            issuer: found.issuer().to_string(),
            not_before: moment(found.validity().not_before.timestamp()),
            not_after: moment(found.validity().not_after.timestamp()),
            is_authority: found.is_ca(),
            for_servers: may(|usage| usage.server_auth),
            for_clients: may(|usage| usage.client_auth),
            der: der.clone().into_owned(),
        })
    }

    /// Whether this authority's key has signed that certificate.
    pub fn has_signed(&self, other: &Certificate) -> bool {
        let read = |certificate: &Certificate| certificate.der.clone();
        let (ours, theirs) = (read(self), read(other));
        let (Ok((_, ours)), Ok((_, theirs))) =
            (X509Certificate::from_der(&ours), X509Certificate::from_der(&theirs))
        else {
            return false;
        };
        ours.subject() == theirs.issuer()
            && theirs.verify_signature(Some(ours.public_key())).is_ok()
    }

    /// Whether it counts for a server that is reached at this host.
    pub fn fits_host(&self, host: &str) -> bool {
        let Ok(name) = ServerName::try_from(host) else { return false };
        ParsedCertificate::try_from(&self.der)
            .is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
    }

    /// How long it still counts; none if it does not.
    pub fn left(&self, now: SystemTime) -> Option<Duration> {
        self.not_after.duration_since(now).ok()
    }
}

fn moment(timestamp: i64) -> SystemTime {
    let seconds = u64::try_from(timestamp).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(<[u8; 4]>::try_from(bytes).ok()?.into()),
        16 => Some(<[u8; 16]>::try_from(bytes).ok()?.into()),
        _ => None,
    }
}
