use std::{path::PathBuf, sync::mpsc, time::Duration};

use axum::{Extension, Router, routing::get};
use tempfile::TempDir;
use tenure_tls::{
    Allowed, ClientOptions, ClientTls, Clients, PairFiles, Protocol, ServerOptions, Verify,
    issue::{Authority, Wanted},
    write_private, write_public,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
};

use super::*;
use crate::{
    Config,
    admission::{Admission, Calls, Connection, Connections, Link, ReadThrottle},
    browsers::Guarded,
    metrics::{Counted, Metrics},
    server::{
        listen::Listener,
        serve::{Limits, Patience, clients},
    },
};

const DAY: Duration = Duration::from_secs(86400);
const REQUEST: &[u8] = b"GET /who HTTP/1.1\r\nhost: a\r\n\r\n";

/// A port of a member on which HTTP and TLS are spoken, and what clients need for it.
struct Port {
    at: SocketAddr,
    dir: TempDir,
    authority: Authority,
    links: mpsc::Receiver<Link>,
    _served: JoinHandle<()>,
    _stop: watch::Sender<bool>,
}

impl Port {
    async fn open(asks: bool, names_user: bool) -> Port {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("of a test", DAY).unwrap();
        write_public(&dir.path().join("ca.crt"), &authority.pem().cert).unwrap();
        let pair = pair(&dir, &authority, "member");
        let ca = Some(dir.path().join("ca.crt"));
        let options = ServerOptions {
            pair,
            clients: if asks { Clients::Asked { authorities: ca } } else { Clients::NotAsked },
            revoked: None,
            allowed: Allowed::Any,
            protocol: Protocol::default(),
            alpn: vec![],
        };
        let tls = Tls::new(ServerTls::new(options).unwrap(), names_user);
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = socket.local_addr().unwrap();
        let metrics = Arc::new(Metrics::new(&Config::default()));
        let throttle = ReadThrottle::new(metrics.network.client_held.clone());
        let (connected, links) = mpsc::channel();
        let who = async move |Extension(connection): Extension<Connection>| {
            connected.send(connection.link.clone()).unwrap();
            let certificate = connection.tls.as_ref().and_then(|tls| tls.certificate.clone());
            let names = certificate.map(|names| (names.common_name, names.dns));
            format!("{:?} {names:?} {:?}", connection.tls.is_some(), connection.certificate_user())
        };
        let router = Router::new().route("/who", get(who));
        let inner = Counted { router: Admission::open(router), metrics };
        let router = Guarded { browsers: Arc::default(), inner };
        let (stop, stopping) = watch::channel(false);
        let patience = Patience::of(&Config::default());
        let (calls, connections) = (Calls::default(), Connections::new(5000));
        let limits = Limits { patience, throttle, calls, connections };
        let listener = Listener { socket, in_the_clear: true, tls: true };
        let served = tokio::spawn(clients(listener, Some(tls), router, limits, stopping));
        Port { at, dir, authority, links, _served: served, _stop: stop }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }

    async fn secure(&self, name: Option<&str>) -> io::Result<TlsStream<TcpStream>> {
        let pair = name.map(|name| pair(&self.dir, &self.authority, name));
        let verify = Verify::By(self.dir.path().join("ca.crt"));
        let client = ClientTls::new(ClientOptions { verify, pair, ..ClientOptions::default() });
        client.unwrap().connect("127.0.0.1", self.connect().await, &[]).await
    }
}

fn pair(dir: &TempDir, authority: &Authority, name: &str) -> PairFiles {
    let path = |ending: &str| -> PathBuf { dir.path().join(format!("{name}.{ending}")) };
    let wanted = Wanted {
        common_name: name.to_owned(),
        hosts: vec!["127.0.0.1".into(), format!("{name}.example")],
        for_servers: true,
        for_clients: true,
        valid: DAY,
        ..Wanted::default()
    };
    let issued = authority.issue(&wanted).unwrap();
    write_public(&path("crt"), &issued.cert).unwrap();
    write_private(&path("key"), &issued.key).unwrap();
    PairFiles { cert: path("crt"), key: path("key") }
}

/// The last line of the answer to the question who asks.
async fn who(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<String> {
    stream.write_all(REQUEST).await?;
    stream.flush().await?;
    let mut answer = String::new();
    loop {
        let mut piece = [0; 1024];
        match stream.read(&mut piece).await? {
            0 => return Ok(answer),
            some => answer += &String::from_utf8_lossy(&piece[..some]),
        }
        if let Some((_, body)) = answer.split_once("\r\n\r\n") {
            return Ok(body.to_owned());
        }
    }
}

#[tokio::test]
async fn one_port_serves_http_and_tls_by_the_first_byte() {
    let port = Port::open(false, false).await;
    assert_eq!(who(&mut port.connect().await).await.unwrap(), "false None None");
    let mut secured = port.secure(None).await.unwrap();
    assert_eq!(who(&mut secured).await.unwrap(), "true None None");
}

#[tokio::test]
async fn requests_carry_the_names_of_the_certificate_of_their_connection() {
    let named = "true Some((\"ann\", [\"ann.example\"]))";
    for (names_user, user) in [(true, "Some(\"ann\")"), (false, "None")] {
        let port = Port::open(true, names_user).await;
        let mut secured = port.secure(Some("ann")).await.unwrap();
        assert_eq!(who(&mut secured).await.unwrap(), format!("{named} {user}"));
        // The server's refusal comes after a client of TLS 1.3 believes that it is through.
        let refused = match port.secure(None).await {
            Ok(mut secured) => who(&mut secured).await.is_err(),
            Err(_) => true,
        };
        assert!(refused);
    }
}

/// A process that dies says no farewell; its kernel closes the connection all the same. That is what fast release needs.
#[tokio::test]
async fn link_is_gone_when_the_process_at_the_other_end_dies() {
    let port = Port::open(false, false).await;
    for farewell in [false, true] {
        let mut secured = port.secure(None).await.unwrap();
        who(&mut secured).await.unwrap();
        let link = port.links.recv().unwrap();
        assert!(!link.is_gone());
        if farewell {
            secured.shutdown().await.unwrap();
        }
        drop(secured);
        let noticed = async {
            while !link.is_gone() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), noticed).await.expect("the end of the connection");
    }
}

/// Time is made to pass by the runtime whenever all tasks wait.
#[tokio::test(start_paused = true)]
async fn handshake_that_is_not_finished_ends_after_its_time() {
    let port = Port::open(false, false).await;
    for begun in [&b""[..], &[HANDSHAKE], &[HANDSHAKE, 3, 1, 0, 200, 1]] {
        let mut silent = port.connect().await;
        silent.write_all(begun).await.unwrap();
        let began = tokio::time::Instant::now();
        let mut answer = Vec::new();
        let _ = silent.read_to_end(&mut answer).await;
        let took = began.elapsed();
        let latest = HANDSHAKE_MAX + Duration::from_secs(1);
        assert!(took >= HANDSHAKE_MAX && took < latest, "{begun:?}: {took:?}");
    }
}

/// Strangers cannot take the place of clients: who has waited longest makes room.
#[tokio::test]
async fn handshakes_beyond_the_limit_end_the_oldest() {
    let under_way = UnderWay::default();
    let mut all: Vec<One<'_>> = (0..HANDSHAKES_MAX).map(|_| under_way.begin()).collect();
    let is_ended = |one: &One<'_>| {
        let ended = pin!(one.ended.notified());
        ended
            .poll(&mut std::task::Context::from_waker(futures_util::task::noop_waker_ref()))
            .is_ready()
    };
    assert!(!is_ended(&all[0]));
    all.push(under_way.begin());
    assert!(is_ended(&all[0]) && !is_ended(&all[1]));
    drop(all);
    assert!(under_way.numbered().waiting.is_empty());
}
