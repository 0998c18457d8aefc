//! The server's end of TLS.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::{
        NoServerSessionStorage, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::SingleCertAndKey,
};

use crate::{
    Certificate, PairFiles, Protocol, TlsError, client::authorities, revoked::Revoked,
    watched::Watched,
};

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Who it is.
    pub pair: PairFiles,
    /// Whether clients have to show who they are.
    pub clients: Clients,
    /// Certificates that count no more, whoever signed them.
    pub revoked: Option<PathBuf>,
    /// Which of the clients whose certificates count are let in.
    pub allowed: Allowed,
    /// Versions and cipher suites.
    pub protocol: Protocol,
    /// Application protocols, best first.
    pub alpn: Vec<Vec<u8>>,
}

/// Whether a server asks its clients for certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clients {
    /// It does not.
    NotAsked,
    /// It does, and takes only those that an authority in this file has signed, or one of the system's.
    Asked {
        /// The file.
        authorities: Option<PathBuf>,
    },
}

/// Which certificates are let in, beside being signed by an authority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Allowed {
    /// All.
    #[default]
    Any,
    /// Those for one of these hosts.
    Hosts(Vec<String>),
    /// Those with one of these common names.
    CommonNames(Vec<String>),
}

impl Allowed {
    fn lets_in(&self, certificate: &CertificateDer<'_>) -> bool {
        let read = || Certificate::read(certificate);
        match self {
            Allowed::Any => true,
            Allowed::Hosts(hosts) => {
                read().is_ok_and(|found| hosts.iter().any(|host| found.fits_host(host)))
            }
            Allowed::CommonNames(names) => {
                read().is_ok_and(|found| names.contains(&found.names.common_name))
            }
        }
    }
}

/// A server's end of TLS. Its files are read again when they change.
#[derive(Debug)]
pub struct ServerTls(Watched<ServerConfig>);

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// If they cannot be used.
    pub fn new(options: ServerOptions) -> Result<ServerTls, TlsError> {
        let ServerOptions { pair, clients, revoked, .. } = &options;
        let mut files = vec![pair.cert.clone(), pair.key.clone()];
        if let Clients::Asked { authorities } = clients {
            files.extend(authorities.clone());
        }
        files.extend(revoked.clone());
        Ok(ServerTls(Watched::new(files, move || options.load())?))
    }

    /// For the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.0.get()
    }
}

impl ServerOptions {
    /// Everything that is wrong with the files, each with the last words of etcd's flag for it.
    pub fn problems(&self) -> Vec<(&'static str, TlsError)> {
        let mut problems = Vec::new();
        let mut check = |flag, wrong: Option<TlsError>| problems.extend(wrong.map(|e| (flag, e)));
        check("cert-file", self.pair.load(&self.protocol.provider).err());
        if let Clients::Asked { authorities: file } = &self.clients {
            check("trusted-ca-file", authorities(file.as_deref()).err());
        }
        check("crl-file", self.revoked.as_deref().and_then(|path| Revoked::load(path).err()));
        if problems.is_empty() {
            problems.extend(self.load().err().map(|error| ("cert-file", error)));
        }
        problems
    }

    fn load(&self) -> Result<ServerConfig, TlsError> {
        let provider = self.protocol.provider.clone();
        let pair = self.pair.load(&provider)?;
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&self.protocol.versions)?;
        let revoked = self.revoked.as_deref().map(Revoked::load).transpose()?.unwrap_or_default();
        let builder = match &self.clients {
            Clients::NotAsked => builder.with_no_client_auth(),
            Clients::Asked { authorities: file } => {
                let roots: RootCertStore = authorities(file.as_deref())?;
                let chain = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                    .build()
                    .map_err(|error| Error::General(error.to_string()))?;
                let allowed = self.allowed.clone();
                builder.with_client_cert_verifier(Arc::new(Verifier { chain, revoked, allowed }))
            }
        };
        let mut config =
            builder.with_cert_resolver(Arc::new(SingleCertAndKey::from((*pair).clone())));
        config.alpn_protocols.clone_from(&self.alpn);
        // Connections are kept for long, and one that is taken up again would not be judged again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// Judges clients' certificates: by their signatures as usual, then by what the settings say.
#[derive(Debug)]
struct Verifier {
    chain: Arc<dyn ClientCertVerifier>,
    revoked: Revoked,
    allowed: Allowed,
}

/// Why a certificate is refused that would count otherwise.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("transport: certificate serial {0} revoked")]
    Revoked(String),
    #[error("client certificate authentication failed")]
    NotAllowed,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        CertificateError::Other(OtherError(Arc::new(refusal))).into()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.chain.verify_client_cert(leaf, others, now)?;
        if let Some(serial) = self.revoked.first_of(std::iter::once(leaf).chain(others)) {
            return Err(Refusal::Revoked(serial).into());
        }
        if !self.allowed.lets_in(leaf) {
            return Err(Refusal::NotAllowed.into());
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
