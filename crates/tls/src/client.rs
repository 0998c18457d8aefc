//! The client's end of TLS.

use std::{io, path::Path, path::PathBuf, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    sign::SingleCertAndKey,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::{PairFiles, Protocol, TlsError, TlsStream, pem, watched::Watched};

/// Settings of a client.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// What is demanded of servers.
    pub verify: Verify,
    /// Who it is, for servers that ask.
    pub pair: Option<PairFiles>,
    /// Versions and cipher suites.
    pub protocol: Protocol,
}

/// What a client demands of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// A certificate for their host, signed by an authority of the system.
    #[default]
    System,
    /// The same, signed by an authority in this file.
    By(PathBuf),
    /// Nothing: the connection is encrypted, but nobody knows for whom.
    Nothing,
}

/// A client's end of TLS. Its files are read again when they change.
#[derive(Debug)]
pub struct ClientTls(Watched<ClientConfig>);

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// If they cannot be used.
    pub fn new(options: ClientOptions) -> Result<ClientTls, TlsError> {
        let pair = options.pair.iter().flat_map(|pair| [pair.cert.clone(), pair.key.clone()]);
        let mut files: Vec<PathBuf> = pair.collect();
        if let Verify::By(authorities) = &options.verify {
            files.push(authorities.clone());
        }
        Ok(ClientTls(Watched::new(files, move || options.load())?))
    }

    /// For the next connection.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.0.get()
    }

    /// Begins TLS on a connection to this host: a name, or an address with or without brackets. What is spoken above it is one of
    /// `protocols` (ALPN).
    ///
    /// # Errors
    /// What broke the connection, or what is wrong with the server.
    pub async fn connect<S>(
        &self,
        host: &str,
        stream: S,
        protocols: &[&str],
    ) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let connector = TlsConnector::from(self.config());
        Ok(connector.with_alpn(protocols).connect(name, stream).await?.into())
    }
}

impl ClientOptions {
    fn load(&self) -> Result<ClientConfig, TlsError> {
        let provider = self.protocol.provider.clone();
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&self.protocol.versions)?;
        let builder = match &self.verify {
            Verify::System => builder.with_root_certificates(authorities(None)?),
            Verify::By(file) => builder.with_root_certificates(authorities(Some(file))?),
            Verify::Nothing => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unverified(provider.clone()))),
        };
        Ok(match &self.pair {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let pair = pair.load(&provider)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from((*pair).clone())))
            }
        })
    }
}

/// The authorities in a file, or the system's.
pub(crate) fn authorities(file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    match file {
        Some(path) => {
            for certificate in pem::read_certificates(path)? {
                store.add(certificate).map_err(|error| TlsError::content(path, error))?;
            }
        }
        None => {
            // One of hundreds that cannot be read is no reason to believe in none.
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if store.is_empty() {
                return Err(TlsError::NoAuthority);
            }
        }
    }
    Ok(store)
}

/// Takes any server that has the key of the certificate it shows.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let schemes = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let schemes = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
