//! Which versions of TLS and which cipher suites are spoken.

use std::sync::Arc;

use rustls::{
    CipherSuite, SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    version::{TLS12, TLS13},
};

/// A setting of the protocol that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    /// etcd's name for the setting.
    pub setting: &'static str,
    /// In etcd's words.
    pub rule: String,
}

/// Versions and cipher suites. TLS 1.2 and 1.3 by default.
#[derive(Clone, Debug)]
pub struct Protocol {
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
}

impl Default for Protocol {
    fn default() -> Protocol {
        Protocol { provider: Arc::new(ring::default_provider()), versions: vec![&TLS12, &TLS13] }
    }
}

const MIN: &str = "tls-min-version";
const MAX: &str = "tls-max-version";
const SUITES: &str = "cipher-suites";

impl Protocol {
    /// By the words of etcd's settings; an empty one is not set.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn new(min: &str, max: &str, suites: &[String]) -> Result<Protocol, Vec<ProtocolError>> {
        let mut wrong = Vec::new();
        let mut broken = |setting, rule| wrong.push(ProtocolError { setting, rule });
        let mut version = |setting, word: &str, unset| match word {
            "" => unset,
            "TLS1.2" => 2,
            "TLS1.3" => 3,
            _ => {
                let rule =
                    format!("unexpected TLS version {word:?} (must be one of: TLS1.2, TLS1.3)");
                broken(setting, rule);
                unset
            }
        };
        let (from, to) = (version(MIN, min, 2), version(MAX, max, 3));
        if from > to {
            broken(MIN, format!("min version ({min}) is greater than max version ({max})"));
        }
        if from == 3 && !suites.is_empty() {
            let rule = "cipher suites cannot be configured when only TLS1.3 is enabled";
            broken(SUITES, rule.to_owned());
        }
        let mut provider = ring::default_provider();
        for name in suites {
            if !provider.cipher_suites.iter().any(|suite| is_called(suite, name)) {
                broken(SUITES, format!("unexpected TLS cipher suite {name:?}"));
            }
        }
        if !suites.is_empty() {
            // As in Go, those of TLS 1.3 are not a matter of choice.
            provider.cipher_suites.retain(|suite| {
                suite.tls13().is_some() || suites.iter().any(|name| is_called(suite, name))
            });
        }
        let versions: Vec<_> = [(2, &TLS12), (3, &TLS13)]
            .into_iter()
            .filter(|(version, _)| (from..=to).contains(version))
            .map(|(_, version)| version)
            .collect();
        if wrong.is_empty() {
            Ok(Protocol { provider: Arc::new(provider), versions })
        } else {
            Err(wrong)
        }
    }
}

/// Whether a cipher suite of TLS 1.2 has this name with IANA, or the shorter one that Go knows too.
fn is_called(suite: &SupportedCipherSuite, name: &str) -> bool {
    let iana: CipherSuite = suite.suite();
    let iana = iana.as_str().unwrap_or_default();
    suite.tls13().is_none()
        && (iana == name
            || iana.strip_suffix("_SHA256") == Some(name) && name.ends_with("POLY1305"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(min: &str, max: &str, suites: &[&str]) -> Vec<String> {
        let suites: Vec<String> = suites.iter().map(|&name| name.to_owned()).collect();
        let wrong = Protocol::new(min, max, &suites).err().unwrap_or_default();
        wrong.into_iter().map(|one| format!("{}: {}", one.setting, one.rule)).collect()
    }

    #[test]
    fn protocol_names_everything_that_is_wrong() {
        assert_eq!(
            rules("TLS1.1", "SSL", &["TLS_RSA_WITH_3DES_EDE_CBC_SHA"]),
            [
                "tls-min-version: unexpected TLS version \"TLS1.1\" (must be one of: TLS1.2, TLS1.3)",
                "tls-max-version: unexpected TLS version \"SSL\" (must be one of: TLS1.2, TLS1.3)",
                "cipher-suites: unexpected TLS cipher suite \"TLS_RSA_WITH_3DES_EDE_CBC_SHA\"",
            ]
        );
        assert_eq!(
            rules("TLS1.3", "TLS1.2", &["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]),
            [
                "tls-min-version: min version (TLS1.3) is greater than max version (TLS1.2)",
                "cipher-suites: cipher suites cannot be configured when only TLS1.3 is enabled",
            ]
        );
    }

    #[test]
    fn protocol_offers_no_more_than_what_was_asked_for() {
        let suites =
            ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"];
        let suites = suites.map(str::to_owned);
        let protocol = Protocol::new("", "TLS1.2", &suites).unwrap();
        assert_eq!(protocol.versions, [&TLS12]);
        let offered =
            protocol.provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none());
        assert_eq!(offered.count(), 2);
    }

    #[test]
    fn protocol_has_nothing_broken_by_default() {
        for suite in &Protocol::default().provider.cipher_suites {
            let name = suite.suite().as_str().unwrap().to_owned();
            assert!(name.contains("GCM") || name.contains("POLY1305"), "{name}");
        }
    }
}
