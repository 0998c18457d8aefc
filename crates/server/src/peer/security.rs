//! Who is spoken to between members: TLS, a shared secret, both or neither.
//!
//! Both are done before the first hello, so all that follows knows nothing of them, with one exception: by TLS a caller's certificate
//! must name the member that its hello claims to be.
//!
//! While one of the two is turned on, member by member, `--peer-allow-insecure` lets a member listen to others that do not have it
//! yet, and call them.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::BytesMut;
use tenure_tls::{
    ClientTls, Names, PairFiles, ServerTls, TlsError, TlsStream, reason,
    secret::{NONCE_BYTES, PROOF_BYTES, ProofSide, SharedSecret, nonce},
};
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{
    frame::{FrameError, FrameKind, read_frame, write_frame},
    handshake::{HANDSHAKE_TIMEOUT, Refusal},
    outgoing::set_options,
};
use crate::{
    config::{self, Config, host},
    io::Either,
    server::handshake::{Greeted, Tls},
};

/// How long a connection may take to stand.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How a connection begins that speaks TLS: a record of the handshake, of version 3. A frame that begins so would be longer
/// than any that comes first.
const TLS_BEGINS: [u8; 2] = [0x16, 0x03];
/// Bytes that tell TLS from frames.
const TELLING_BYTES: usize = 3;
/// Pause before more of a beginning is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// What proves the secret is short.
const PROOF_FRAME_BYTES_MAX: usize = NONCE_BYTES + PROOF_BYTES;

/// A connection between members.
pub(super) type PeerStream = Either<TcpStream, TlsStream<TcpStream>>;

/// What members must have to be spoken to. By default nothing.
#[derive(Clone, Debug, Default)]
pub struct PeerSecurity {
    tls: Option<PeerTls>,
    secret: Option<Arc<SharedSecret>>,
    allow_insecure: bool,
}

#[derive(Clone, Debug)]
struct PeerTls {
    server: Tls,
    client: Arc<ClientTls>,
    /// A caller's certificate must name the member that it claims to be.
    names_member: bool,
    /// Which names count was said by settings: then a certificate without other names may be any member's.
    names_listed: bool,
}

/// A caller as far as it has come before its hello.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) stream: PeerStream,
    /// What came after the proofs.
    pub(super) buffer: BytesMut,
    /// The names in its certificate, if one was asked for.
    pub(super) names: Option<Names>,
}

impl PeerSecurity {
    /// By the settings.
    ///
    /// # Errors
    /// If files cannot be used.
    pub fn new(config: &Config) -> Result<PeerSecurity, TlsError> {
        let secret = config.peer_secret_file.as_deref().map(SharedSecret::load).transpose()?;
        Ok(PeerSecurity {
            tls: config.peers_by_tls().then(|| PeerTls::new(config)).transpose()?,
            secret: secret.map(Arc::new),
            allow_insecure: config.peer_allow_insecure,
        })
    }

    /// Connects to a member (`host:port`), up to its hello.
    pub(super) async fn dial(&self, address: &str) -> io::Result<PeerStream> {
        let mut failed = None;
        for by_tls in self.attempts(self.tls.is_some()) {
            for with_secret in self.attempts(self.secret.is_some()) {
                let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
                let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
                set_options(&stream)?;
                let mut stream = match self.tls.as_ref().filter(|_| by_tls) {
                    None => Either::A(stream),
                    Some(tls) => match tls.call(address, stream).await {
                        Ok(secured) => Either::B(secured),
                        Err(cause) => {
                            failed.get_or_insert(cause);
                            break;
                        }
                    },
                };
                let Some(secret) = self.secret.as_ref().filter(|_| with_secret) else {
                    return Ok(stream);
                };
                match timeout(HANDSHAKE_TIMEOUT, prove(secret, &mut stream)).await {
                    Ok(Ok(())) => return Ok(stream),
                    Ok(Err(cause)) => failed.get_or_insert(cause),
                    Err(_) => failed.get_or_insert(io::ErrorKind::TimedOut.into()),
                };
            }
        }
        Err(failed.unwrap_or_else(|| io::ErrorKind::NotConnected.into()))
    }

    /// With it if we have it, and without it too where that is allowed.
    fn attempts(&self, have: bool) -> impl Iterator<Item = bool> + use<> {
        let without = !have || self.allow_insecure;
        have.then_some(true).into_iter().chain(without.then_some(false))
    }

    /// Takes a call, up to its hello. None if it has not what it must have; the log was told, or the reason is answered.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        from: SocketAddr,
    ) -> Option<Result<Arrived, String>> {
        let by_tls = match &self.tls {
            None => None,
            Some(tls) if !self.allow_insecure => Some(tls),
            Some(tls) => begins_tls(&stream).await?.then_some(tls),
        };
        let (mut stream, names) = match by_tls {
            None => (Either::A(stream), None),
            Some(tls) => {
                let Greeted { stream, secured } = tls.server.greet(stream, from).await?;
                (Either::B(stream), secured.certificate)
            }
        };
        let mut buffer = BytesMut::new();
        if let Some(secret) = &self.secret {
            let proven = demand(secret, &mut stream, &mut buffer, self.allow_insecure);
            match timeout(HANDSHAKE_TIMEOUT, proven).await {
                Ok(Ok(())) => {}
                Ok(Err(cause)) => return Some(Err(cause)),
                Err(_) => return Some(Err("it has not proven the secret in time".to_owned())),
            }
        }
        Some(Ok(Arrived { stream, buffer, names }))
    }

    /// Whether a caller with this certificate may be the member of this name at this address (`host:port`).
    pub(super) fn fits(&self, names: Option<&Names>, name: &str, address: &str) -> bool {
        let Some(tls) = self.tls.as_ref().filter(|tls| tls.names_member) else { return true };
        // Where no certificate was asked for there is none; where it must be shown, TLS has seen to that.
        let Some(names) = names else { return true };
        let has_hosts = !names.dns.is_empty() || !names.ips.is_empty();
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        names.cover(host)
            || (!name.is_empty() && names.common_name == name)
            || (!has_hosts && tls.names_listed)
    }
}

impl PeerTls {
    fn new(config: &Config) -> Result<PeerTls, TlsError> {
        let protocol = config.tls_protocol.read().unwrap_or_default();
        let settings = &config.peer_tls;
        let pair = match settings.pair() {
            Some(pair) => pair,
            None => auto_pair(config)?,
        };
        let mut options = settings.server(pair.clone(), protocol.clone());
        // What is spoken above it is no protocol with a name.
        options.alpn.clear();
        let server = Tls::new(ServerTls::new(options)?, false);
        let client = ClientTls::new(config.peer_client_options(Some(pair), protocol))?;
        let listed = !settings.allowed_cns.is_empty() || !settings.allowed_hostnames.is_empty();
        Ok(PeerTls {
            server,
            client: Arc::new(client),
            names_member: !config.peer_skip_names,
            names_listed: listed,
        })
    }

    async fn call(&self, address: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let secured = timeout(HANDSHAKE_TIMEOUT, self.client.connect(host, stream, &[])).await;
        let secured = secured.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        secured.map_err(|cause| io::Error::other(format!("TLS: {}", reason(&cause))))
    }
}

fn auto_pair(config: &Config) -> Result<PairFiles, TlsError> {
    let hosts = config.listen_peer_urls.iter().filter_map(|url| host(url)).collect();
    let dir: PathBuf = config.data_dir.join("fixtures").join("peer");
    config::auto_pair(&dir, hosts, config.self_signed_cert_validity)
}

/// Whether a caller speaks TLS, by its first bytes. None if it says nothing.
async fn begins_tls(stream: &TcpStream) -> Option<bool> {
    let mut first = [0; TELLING_BYTES];
    let telling = async {
        loop {
            match stream.peek(&mut first).await.ok()? {
                0 => return None,
                TELLING_BYTES => {
                    // A frame of this length that comes first is refused anyway.
                    return Some(first[..2] == TLS_BEGINS && first[2] != 0);
                }
                _ => sleep(LOOK_AGAIN).await,
            }
        }
    };
    timeout(HANDSHAKE_TIMEOUT, telling).await.ok()?
}

/// Proves the secret to the member that was called, and has it prove the same.
async fn prove(secret: &SharedSecret, stream: &mut PeerStream) -> io::Result<()> {
    const UNKNOWN: &str = "it does not know the secret of --peer-secret-file";
    let ours = nonce().map_err(io::Error::other)?;
    let broken = |cause: FrameError| io::Error::other(format!("{UNKNOWN}, or {cause}"));
    write_frame(stream, FrameKind::Challenge, &ours).await.map_err(broken)?;
    let mut buffer = BytesMut::new();
    let answer =
        read_frame(stream, &mut buffer, PROOF_FRAME_BYTES_MAX, |kind, payload| match kind {
            FrameKind::Challenge => Ok(payload.to_vec()),
            other => Err(FrameError::OutOfPlace(other)),
        });
    let answer = answer.await.map_err(broken)?;
    let Some((theirs, proof)) = answer.split_first_chunk::<NONCE_BYTES>() else {
        return Err(io::Error::other(UNKNOWN));
    };
    if !secret.verify(ProofSide::Called, &ours, theirs, proof) {
        return Err(io::Error::other(UNKNOWN));
    }
    let proof = secret.prove(ProofSide::Caller, &ours, theirs);
    write_frame(stream, FrameKind::Proof, &proof).await.map_err(broken)
}

/// Has a caller prove the secret, and proves the same. Or says why it is not spoken to.
async fn demand(
    secret: &SharedSecret,
    stream: &mut PeerStream,
    buffer: &mut BytesMut,
    allow_insecure: bool,
) -> Result<(), String> {
    let text = |cause: FrameError| cause.to_string();
    let first = read_frame(stream, buffer, super::handshake::FIRST_BYTES_MAX, |kind, payload| {
        match kind {
            FrameKind::Challenge => Ok(<[u8; NONCE_BYTES]>::try_from(payload).ok()),
            // It stays in the buffer.
            other => Err(FrameError::OutOfPlace(other)),
        }
    });
    let theirs = match first.await {
        Ok(Some(theirs)) => theirs,
        Ok(None) => return Err("its challenge is none".to_owned()),
        Err(FrameError::OutOfPlace(FrameKind::Hello | FrameKind::Ask | FrameKind::Roster))
            if allow_insecure =>
        {
            return Ok(());
        }
        Err(FrameError::OutOfPlace(_)) => return Err(unproven(stream).await),
        Err(cause) => return Err(text(cause)),
    };
    let ours = nonce().map_err(|cause| cause.to_string())?;
    let proof = secret.prove(ProofSide::Called, &theirs, &ours);
    let answer = [&ours[..], &proof].concat();
    write_frame(stream, FrameKind::Challenge, &answer).await.map_err(text)?;
    let proof = read_frame(stream, buffer, PROOF_FRAME_BYTES_MAX, |kind, payload| match kind {
        FrameKind::Proof => Ok(payload.to_vec()),
        other => Err(FrameError::OutOfPlace(other)),
    });
    let proof = proof.await.map_err(text)?;
    if secret.verify(ProofSide::Caller, &theirs, &ours, &proof) {
        return Ok(());
    }
    Err(unproven(stream).await)
}

async fn unproven(stream: &mut PeerStream) -> String {
    use tenure_replica::codec::Codec;
    let refusal = Refusal::Unproven;
    // It is told, if it still listens.
    let _ = write_frame(stream, FrameKind::Refusal, &refusal.to_bytes()).await;
    format!("told it that {refusal}")
}
