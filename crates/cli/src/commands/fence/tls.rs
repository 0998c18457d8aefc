//! TLS on both sides of the proxy: with its clients, and with the upstream.

use std::path::PathBuf;
use std::sync::Arc;

use tenure::tls::{
    Allowed, ClientOptions, ClientTls, Clients, PairFiles, Protocol, ServerOptions, ServerTls,
    Verify,
};

use super::upstream::Upstream;
use crate::exit::usage;

/// Flags. Those of the cluster have etcdctl's names.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ProxyTlsArgs {
    /// Take requests by TLS, with this certificate
    #[arg(long, value_name = "FILE", requires = "listen_key")]
    listen_cert: Option<PathBuf>,
    /// The key of --listen-cert
    #[arg(long, value_name = "FILE", requires = "listen_cert")]
    listen_key: Option<PathBuf>,
    /// Demand certificates of clients that these authorities have signed
    #[arg(long, value_name = "FILE", requires = "listen_cert")]
    listen_client_ca: Option<PathBuf>,
    /// The authorities that may have signed the certificate of an https:// upstream [default: the system's]
    #[arg(long, value_name = "FILE")]
    upstream_cacert: Option<PathBuf>,
    /// The certificate to show to an https:// upstream
    #[arg(long, value_name = "FILE", requires = "upstream_key")]
    upstream_cert: Option<PathBuf>,
    /// The key of --upstream-cert
    #[arg(long, value_name = "FILE", requires = "upstream_cert")]
    upstream_key: Option<PathBuf>,
}

fn pair(cert: &Option<PathBuf>, key: &Option<PathBuf>) -> Option<PairFiles> {
    Some(PairFiles { cert: cert.clone()?, key: key.clone()? })
}

impl ProxyTlsArgs {
    /// For the clients' side, if it is wanted there.
    pub(super) fn server(&self) -> anyhow::Result<Option<Arc<ServerTls>>> {
        let Some(pair) = pair(&self.listen_cert, &self.listen_key) else { return Ok(None) };
        let clients = match &self.listen_client_ca {
            Some(file) => Clients::Asked { authorities: Some(file.clone()) },
            None => Clients::NotAsked,
        };
        let options = ServerOptions {
            pair,
            clients,
            revoked: None,
            allowed: Allowed::Any,
            protocol: Protocol::default(),
            alpn: vec![b"http/1.1".to_vec()],
        };
        Ok(Some(Arc::new(ServerTls::new(options)?)))
    }

    /// For the upstream's side, if it speaks TLS.
    pub(super) fn upstream(&self, upstream: &Upstream) -> anyhow::Result<Option<Arc<ClientTls>>> {
        if !upstream.is_secure() {
            // Going on in the clear is not what was asked for.
            if self.upstream_cacert.is_some() || self.upstream_cert.is_some() {
                return Err(usage(format!(
                    "--upstream {upstream} is not spoken to by TLS: begin it with https://, or leave out \
                     --upstream-cacert and --upstream-cert"
                )));
            }
            return Ok(None);
        }
        let options = ClientOptions {
            verify: self.upstream_cacert.clone().map_or(Verify::System, Verify::By),
            pair: pair(&self.upstream_cert, &self.upstream_key),
            ..ClientOptions::default()
        };
        Ok(Some(Arc::new(ClientTls::new(options)?)))
    }
}
