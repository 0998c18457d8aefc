//! TLS: which files, and who is let in.

use std::path::{Path, PathBuf};

use tenure_tls::{Allowed, Clients, PairFiles, Protocol, ProtocolError, ServerOptions, TlsError};

use super::{Config, cluster::is_tls};

/// One of etcd's two groups of settings: for clients, or for members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// `cert-file`: the member's certificate.
    pub cert_file: Option<PathBuf>,
    /// `key-file`: its key.
    pub key_file: Option<PathBuf>,
    /// `client-cert-auth`: certificates are demanded, and say who a client is.
    pub client_cert_auth: bool,
    /// `trusted-ca-file`: who may have signed them; alone, it demands them too.
    pub trusted_ca_file: Option<PathBuf>,
    /// `crl-file`: which of them count no more.
    pub crl_file: Option<PathBuf>,
    /// `cert-allowed-hostname`: only certificates for these hosts are let in.
    pub allowed_hostnames: Vec<String>,
    /// `cert-allowed-cn`: only certificates with these common names are let in.
    pub allowed_cns: Vec<String>,
    /// `auto-tls`: without a pair, the member makes one that it signs itself.
    pub auto: bool,
}

/// Settings of the protocol, for clients and members alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsProtocol {
    /// `--tls-min-version`; empty for TLS 1.2.
    pub min_version: String,
    /// `--tls-max-version`; empty for the newest.
    pub max_version: String,
    /// `--cipher-suites`, of TLS 1.2; empty for all that are safe.
    pub cipher_suites: Vec<String>,
}

impl Default for TlsProtocol {
    fn default() -> TlsProtocol {
        let (min_version, max_version) = ("TLS1.2".to_owned(), String::new());
        TlsProtocol { min_version, max_version, cipher_suites: vec![] }
    }
}

impl TlsProtocol {
    pub(crate) fn read(&self) -> Result<Protocol, Vec<ProtocolError>> {
        Protocol::new(&self.min_version, &self.max_version, &self.cipher_suites)
    }
}

impl TlsSettings {
    /// The pair, if there is a whole one.
    pub(crate) fn pair(&self) -> Option<PairFiles> {
        let (cert, key) = (self.cert_file.clone()?, self.key_file.clone()?);
        Some(PairFiles { cert, key })
    }

    fn has_files(&self) -> bool {
        self.cert_file.is_some() || self.key_file.is_some()
    }

    /// For a server with this pair.
    pub(crate) fn server(&self, pair: PairFiles, protocol: Protocol) -> ServerOptions {
        let asks = self.client_cert_auth || self.trusted_ca_file.is_some();
        let clients = match asks {
            true => Clients::Asked { authorities: self.trusted_ca_file.clone() },
            false => Clients::NotAsked,
        };
        let allowed = match (&self.allowed_hostnames[..], &self.allowed_cns[..]) {
            ([], []) => Allowed::Any,
            (hosts, []) => Allowed::Hosts(hosts.to_vec()),
            (_, names) => Allowed::CommonNames(names.to_vec()),
        };
        let alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        ServerOptions { pair, clients, revoked: self.crl_file.clone(), allowed, protocol, alpn }
    }
}

/// A flag of a group, by its last words.
type Flag = fn(&str) -> &'static str;

fn client_flag(words: &str) -> &'static str {
    match words {
        "key-file" => "key-file",
        "trusted-ca-file" => "trusted-ca-file",
        "crl-file" => "client-crl-file",
        "cert-allowed-hostname" => "client-cert-allowed-hostname",
        _ => "cert-file",
    }
}

impl Config {
    /// What breaks rules about TLS, the files included.
    pub(super) fn check_tls(&self, broken: &mut impl FnMut(&'static str, String)) {
        let protocol = self.tls_protocol.read();
        for wrong in protocol.as_ref().err().into_iter().flatten() {
            broken(wrong.setting, wrong.rule.clone());
        }
        let protocol = protocol.unwrap_or_default();
        check_section(&self.client_tls, client_flag, &protocol, broken);
        if self.self_signed_cert_validity == 0 {
            let rule = "selfSignedCertValidity is invalid,it should be greater than 0";
            broken("self-signed-cert-validity", rule.into());
        }
        let pair = self.client_tls.has_files() || self.client_tls.auto;
        for url in self.listen_client_urls.iter().filter(|url| is_tls(url) && !pair) {
            let rule = format!(
                "TLS key/cert (--cert-file, --key-file) must be provided for client url {url} with HTTPS scheme"
            );
            broken("listen-client-urls", rule);
        }
        for url in self.listen_metrics_urls.iter().filter(|url| is_tls(url)) {
            let rule = format!("{url}: TLS for metrics arrives in a later version; use http://");
            broken("listen-metrics-urls", rule);
        }
    }

    /// What is odd about the settings, but can work.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let tls = &self.client_tls;
        for url in self.listen_client_urls.iter().filter(|url| !is_tls(url)) {
            if tls.has_files() {
                warnings.push(format!(
                    "the scheme of --listen-client-urls {url} is http while --cert-file and --key-file are given; \
                     ignoring them there: what comes over it is not encrypted"
                ));
            }
            if tls.client_cert_auth {
                warnings.push(format!(
                    "the scheme of --listen-client-urls {url} is http while --client-cert-auth is given; \
                     ignoring it there: a client needs no certificate"
                ));
            }
        }
        if tls.auto && tls.has_files() {
            warnings.push("ignoring client auto TLS since certs given".into());
        }
        warnings
    }
}

fn check_section(
    tls: &TlsSettings,
    flag: Flag,
    protocol: &Protocol,
    broken: &mut impl FnMut(&'static str, String),
) {
    let shown = |path: &Option<PathBuf>| {
        path.as_deref().map_or("", |p| p.to_str().unwrap_or("?")).to_owned()
    };
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        let given = if tls.cert_file.is_some() { "cert-file" } else { "key-file" };
        let (key, cert) = (shown(&tls.key_file), shown(&tls.cert_file));
        let rule = format!("KeyFile and CertFile must both be present[key: {key}, cert: {cert}]");
        broken(flag(given), rule);
    }
    if !tls.allowed_cns.is_empty() && !tls.allowed_hostnames.is_empty() {
        let rule = format!(
            "AllowedCNs and AllowedHostnames are mutually exclusive (cns={:?}, hostnames={:?})",
            tls.allowed_cns, tls.allowed_hostnames
        );
        broken(flag("cert-allowed-hostname"), rule);
    }
    if let Some(pair) = tls.pair() {
        for (part, wrong) in tls.server(pair, protocol.clone()).problems() {
            broken(flag(part), wrong.to_string());
        }
    }
}

/// Makes a pair that is signed by itself, unless there is one that still counts.
pub(crate) fn auto_pair(dir: &Path, hosts: Vec<String>, years: u32) -> Result<PairFiles, TlsError> {
    use std::{
        fs,
        os::unix::fs::DirBuilderExt,
        time::{Duration, SystemTime},
    };
    use tenure_tls::{Certificate, issue, write_private, write_public};

    const YEAR: Duration = Duration::from_secs(365 * 86400);
    let pair = PairFiles { cert: dir.join("cert.pem"), key: dir.join("key.pem") };
    let counts = |found: Certificate| found.left(SystemTime::now()).is_some();
    if pair.key.exists() && Certificate::load(&pair.cert).is_ok_and(counts) {
        return Ok(pair);
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|cause| TlsError::File { path: dir.to_owned(), cause })?;
    let wanted = issue::Wanted {
        organization: "tenure".into(),
        hosts,
        for_servers: true,
        for_clients: true,
        valid: YEAR.saturating_mul(years),
        ..issue::Wanted::default()
    };
    let made = issue::self_signed(&wanted)?;
    write_private(&pair.key, &made.key)?;
    write_public(&pair.cert, &made.cert)?;
    Ok(pair)
}
