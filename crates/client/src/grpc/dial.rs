//! Connections to members: TCP or a unix socket, in the clear or by TLS.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use http::Uri;
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tenure_tls::{ClientOptions, ClientTls};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixStream,
};
use tonic::codegen::Service;

use super::{Endpoint, endpoint::Place};

/// Whom a unix socket is taken for where a certificate is looked at.
const LOCAL: &str = "localhost";

/// A connection to a member.
pub trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// How members are connected to.
#[derive(Clone, Debug, Default)]
pub struct Dialer {
    tls: Option<Arc<ClientTls>>,
}

/// For `https://` where there are no settings: the authorities of the system. They are hundreds of files, and read once.
fn by_system() -> io::Result<Arc<ClientTls>> {
    static SYSTEM: OnceLock<Result<Arc<ClientTls>, String>> = OnceLock::new();
    let read = || ClientTls::new(ClientOptions::default()).map(Arc::new);
    let read = SYSTEM.get_or_init(|| read().map_err(|error| error.to_string()));
    read.clone().map_err(io::Error::other)
}

impl Dialer {
    /// With the TLS of a client's settings.
    pub fn new(tls: Option<Arc<ClientTls>>) -> Dialer {
        Dialer { tls }
    }

    /// Whether connections to this endpoint are made by TLS.
    pub fn secures(&self, endpoint: &Endpoint) -> bool {
        endpoint.is_secure(self.tls.is_some())
    }

    /// The endpoint as a URI, with the scheme that it is spoken to by.
    pub fn uri(&self, endpoint: &Endpoint) -> Uri {
        let mut parts = endpoint.uri().clone().into_parts();
        parts.scheme = Some(match self.secures(endpoint) {
            true => http::uri::Scheme::HTTPS,
            false => http::uri::Scheme::HTTP,
        });
        Uri::from_parts(parts).expect("the other parts are those of a whole URI")
    }

    /// Connects, to speak one of these protocols (ALPN): `h2`, `http/1.1`.
    ///
    /// # Errors
    /// Why there is no connection, or what is wrong with the member's certificate.
    pub async fn dial(
        &self,
        endpoint: &Endpoint,
        protocols: &[&str],
    ) -> io::Result<Box<dyn Socket>> {
        let stream = connect(endpoint).await?;
        if !self.secures(endpoint) {
            return Ok(stream);
        }
        let tls = match &self.tls {
            Some(tls) => tls.clone(),
            None => by_system()?,
        };
        let host = match endpoint.place() {
            Place::Tcp => endpoint.uri().host().unwrap_or_default(),
            Place::Unix(_) => LOCAL,
        };
        Ok(Box::new(tls.connect(host, stream, protocols).await?))
    }
}

async fn connect(endpoint: &Endpoint) -> io::Result<Box<dyn Socket>> {
    match endpoint.place() {
        Place::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        Place::Tcp => {
            // It tries the addresses of a name side by side.
            let mut tcp = HttpConnector::new();
            tcp.enforce_http(false);
            tcp.set_nodelay(true);
            std::future::poll_fn(|cx| tcp.poll_ready(cx)).await.map_err(io::Error::other)?;
            let stream = tcp.call(endpoint.uri().clone()).await.map_err(io::Error::other)?;
            Ok(Box::new(stream.into_inner()))
        }
    }
}

/// Connects a channel to one endpoint.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    pub(super) dialer: Dialer,
    pub(super) endpoint: Endpoint,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Socket>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Connector { dialer, endpoint } = self.clone();
        Box::pin(async move { dialer.dial(&endpoint, &["h2"]).await.map(TokioIo::new) })
    }
}
