//! TLS: which files, and who is let in.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use tenure_tls::{
    Allowed, ClientOptions, ClientTls, Clients, PairFiles, Protocol, ProtocolError, ServerOptions,
    TlsError, Verify, secret::SharedSecret,
};

use super::{
    Config,
    cluster::{address, host, is_tls},
};

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

    fn has_pair(&self) -> bool {
        self.has_files() || self.auto
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

fn peer_flag(words: &str) -> &'static str {
    match words {
        "key-file" => "peer-key-file",
        "trusted-ca-file" => "peer-trusted-ca-file",
        "crl-file" => "peer-crl-file",
        "cert-allowed-hostname" => "peer-cert-allowed-hostname",
        _ => "peer-cert-file",
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
        check_section(&self.peer_tls, peer_flag, &protocol, broken);
        if self.self_signed_cert_validity == 0 {
            let rule = "selfSignedCertValidity is invalid,it should be greater than 0";
            broken("self-signed-cert-validity", rule.into());
        }
        if !self.client_tls.has_pair() {
            for url in self.listen_client_urls.iter().filter(|url| is_tls(url)) {
                let rule = format!(
                    "TLS key/cert (--cert-file, --key-file) must be provided for client url {url} with HTTPS scheme"
                );
                broken("listen-client-urls", rule);
            }
            if self.listen_metrics_urls.iter().any(|url| is_tls(url)) {
                let rule = "client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url";
                broken("listen-metrics-urls", rule.into());
            }
        }
        self.check_peer_tls(&protocol, broken);
    }

    fn check_peer_tls(&self, protocol: &Protocol, broken: &mut impl FnMut(&'static str, String)) {
        if !self.peer_tls.has_pair() {
            for url in self.listen_peer_urls.iter().filter(|url| is_tls(url)) {
                let at = address(url).unwrap_or_default();
                let rule = format!(
                    "cannot listen on TLS for {at}: KeyFile and CertFile are not presented"
                );
                broken("listen-peer-urls", rule);
            }
        }
        match &self.peer_client_pair {
            (None, None) => {}
            (Some(_), Some(_)) if self.peer_tls.pair().is_some() => {
                if let Err(wrong) = ClientTls::new(self.peer_client_options(None, protocol.clone()))
                {
                    broken("peer-client-cert-file", wrong.to_string());
                }
            }
            (cert, key) => {
                let rule = format!(
                    "ClientKeyFile and ClientCertFile must both be present or both absent: key: {}, cert: {}]",
                    shown(key),
                    shown(cert)
                );
                broken("peer-client-cert-file", rule);
            }
        }
        if let Some(path) = &self.peer_secret_file
            && let Err(wrong) = SharedSecret::load(path)
        {
            broken("peer-secret-file", wrong.to_string());
        }
        if self.peer_allow_insecure && !self.peers_by_tls() && self.peer_secret_file.is_none() {
            let rule = "it goes with https:// in --listen-peer-urls or with --peer-secret-file: nothing is secure otherwise";
            broken("peer-allow-insecure", rule.into());
        }
    }

    /// Whether members speak TLS to each other.
    pub(crate) fn peers_by_tls(&self) -> bool {
        self.listen_peer_urls.iter().any(|url| is_tls(url))
    }

    /// For calls of other members, with the pair that is shown unless there is another one for that.
    pub(crate) fn peer_client_options(
        &self,
        pair: Option<PairFiles>,
        protocol: Protocol,
    ) -> ClientOptions {
        let (cert, key) = self.peer_client_pair.clone();
        let other = cert.zip(key).map(|(cert, key)| PairFiles { cert, key });
        let tls = &self.peer_tls;
        let verify = match &tls.trusted_ca_file {
            Some(file) => Verify::By(file.clone()),
            // Nobody has signed what a member makes itself.
            None if tls.auto && !tls.has_files() => Verify::Nothing,
            None => Verify::System,
        };
        ClientOptions { verify, pair: other.or(pair).or_else(|| tls.pair()), protocol }
    }

    /// What is odd about the settings, but can work.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (side, tls, urls, flag) in [
            ("client", &self.client_tls, &self.listen_client_urls, "listen-client-urls"),
            ("peer", &self.peer_tls, &self.listen_peer_urls, "listen-peer-urls"),
        ] {
            let prefix = if side == "peer" { "peer-" } else { "" };
            for url in urls.iter().filter(|url| !is_tls(url)) {
                if tls.has_files() {
                    warnings.push(format!(
                        "the scheme of --{flag} {url} is http while --{prefix}cert-file and --{prefix}key-file are \
                         given; ignoring them there: what comes over it is not encrypted"
                    ));
                }
                if tls.client_cert_auth {
                    warnings.push(format!(
                        "the scheme of --{flag} {url} is http while --{prefix}client-cert-auth is given; \
                         ignoring it there: a {side} needs no certificate"
                    ));
                }
                if !is_loopback(url) {
                    let way = match side {
                        "peer" => "https:// with --peer-cert-file, or --peer-secret-file",
                        _ => "https:// with --cert-file",
                    };
                    if side == "client" || self.peer_secret_file.is_none() {
                        warnings.push(format!(
                            "--{flag} {url} can be reached from other machines and has no TLS: whatever can connect \
                             is believed, and reads along; use {way} (tenure certs makes certificates)"
                        ));
                    }
                }
            }
            if tls.auto && tls.has_files() {
                warnings.push(format!("ignoring {side} auto TLS since certs given"));
            }
        }
        if self.peer_allow_insecure {
            warnings.push(
                "--peer-allow-insecure: members are spoken to in the clear where they have nothing better; remove it \
                 once all of them have"
                    .into(),
            );
        }
        warnings
    }
}

/// Whether only this machine can connect to a URL.
fn is_loopback(url: &str) -> bool {
    let Some(host) = host(url) else { return false };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn shown(path: &Option<PathBuf>) -> String {
    path.as_deref().map_or("", |path| path.to_str().unwrap_or("?")).to_owned()
}

fn check_section(
    tls: &TlsSettings,
    flag: Flag,
    protocol: &Protocol,
    broken: &mut impl FnMut(&'static str, String),
) {
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
