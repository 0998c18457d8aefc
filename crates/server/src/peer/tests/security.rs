//! TLS and the shared secret between members, and what strangers get who have neither.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tenure_tls::{
    ClientOptions, ClientTls, PairFiles, Verify,
    issue::{Authority, Wanted},
    write_private, write_public,
};
use tokio::io::AsyncReadExt;

use super::*;
use crate::{Config, config::TlsSettings};

const SECRET: &str = "a secret of some length\n";

/// Files for members of one cluster.
struct Files {
    dir: tempfile::TempDir,
    authority: Authority,
}

impl Files {
    fn new() -> Files {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("members", Duration::from_secs(86400)).unwrap();
        write_public(&dir.path().join("ca.crt"), &authority.pem().cert).unwrap();
        Files { dir, authority }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn pair(&self, name: &str, hosts: &[&str]) -> PairFiles {
        let wanted = Wanted {
            common_name: name.to_owned(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            for_servers: true,
            for_clients: true,
            valid: Duration::from_secs(86400),
            ..Wanted::default()
        };
        let issued = self.authority.issue(&wanted).unwrap();
        let pair = PairFiles {
            cert: self.path(&format!("{name}.crt")),
            key: self.path(&format!("{name}.key")),
        };
        write_public(&pair.cert, &issued.cert).unwrap();
        write_private(&pair.key, &issued.key).unwrap();
        pair
    }

    /// Settings of a member with TLS.
    fn tls(&self) -> Config {
        let pair = self.pair("member", &["127.0.0.1"]);
        Config {
            listen_peer_urls: vec!["https://127.0.0.1:0".into()],
            peer_tls: TlsSettings {
                cert_file: Some(pair.cert),
                key_file: Some(pair.key),
                client_cert_auth: true,
                trusted_ca_file: Some(self.path("ca.crt")),
                ..TlsSettings::default()
            },
            ..Config::default()
        }
    }

    fn secret(&self, name: &str, text: &str) -> Config {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        Config { peer_secret_file: Some(path), ..Config::default() }
    }
}

async fn two(one: &Config, two: &Config) -> (Side, Side, SocketAddr) {
    let (one_listener, one_at) = listener().await;
    let (two_listener, two_at) = listener().await;
    let security = |config| PeerSecurity::new(config).unwrap();
    let one = Side::start_with(security(one), ONE, one_listener, 1, (TWO, two_at));
    let two = Side::start_with(security(two), TWO, two_listener, 1, (ONE, one_at));
    (one, two, one_at)
}

/// Says hello as member 2, and hears the answer; none if the connection is ended without one.
async fn hello_over(stream: &mut impl crate::io::Stream) -> Option<Result<Hello, Refusal>> {
    let ours = hello(Purpose::Messages).to_bytes();
    write_frame(stream, FrameKind::Hello, &ours).await.ok()?;
    let mut buffer = BytesMut::new();
    let answer = read_frame(stream, &mut buffer, 1000, |kind, payload| match kind {
        FrameKind::Hello => Ok(Ok(Hello::from_bytes(payload)?)),
        FrameKind::Refusal => Ok(Err(Refusal::from_bytes(payload)?)),
        other => Err(FrameError::OutOfPlace(other)),
    });
    timeout(LIMIT, answer).await.expect("it ends").ok()
}

async fn secured(
    at: SocketAddr,
    ca: &Path,
    pair: Option<PairFiles>,
) -> std::io::Result<tenure_tls::TlsStream<TcpStream>> {
    let verify = Verify::By(ca.to_owned());
    let client =
        ClientTls::new(ClientOptions { verify, pair, ..ClientOptions::default() }).unwrap();
    client.connect("127.0.0.1", TcpStream::connect(at).await.unwrap(), &[]).await
}

#[tokio::test]
async fn peer_tls_connects_members_and_shows_at_once_that_one_is_gone() {
    let files = Files::new();
    let (mut one, mut two, _) = two(&files.tls(), &files.tls()).await;
    one.connected(TWO).await;
    two.connected(ONE).await;
    assert!(two.transport.send(ONE, &text("through TLS")));
    one.hears("through TLS").await;
    drop(two);
    one.lost(TWO).await;
}

#[tokio::test]
async fn peer_tls_has_no_answer_for_a_stranger() {
    let files = Files::new();
    let (_one, _two, at) = two(&files.tls(), &files.tls()).await;
    let mut clear = TcpStream::connect(at).await.unwrap();
    assert!(hello_over(&mut clear).await.is_none(), "it answered in the clear");
    let ca = files.path("ca.crt");
    if let Ok(mut nameless) = secured(at, &ca, None).await {
        assert!(nameless.read_u8().await.is_err(), "it needs no certificate");
    }
    let others = Files::new();
    let other = others.pair("member", &["127.0.0.1"]);
    if let Ok(mut foreign) = secured(at, &ca, Some(other)).await {
        assert!(foreign.read_u8().await.is_err(), "a stranger's authority counts");
    }
}

#[tokio::test]
async fn peer_tls_certificate_must_name_the_member_of_the_hello() {
    let files = Files::new();
    let (one, _two, at) = two(&files.tls(), &files.tls()).await;
    let ca = files.path("ca.crt");
    let asks = async |pair: PairFiles| {
        let mut stream = secured(at, &ca, Some(pair)).await.unwrap();
        hello_over(&mut stream).await.expect("an answer")
    };
    let right = asks(files.pair("whatever", &["127.0.0.1"])).await;
    assert_eq!(right.unwrap().from, ONE);
    let elsewhere = asks(files.pair("elsewhere", &["10.0.0.9"])).await;
    assert_eq!(elsewhere, Err(Refusal::OtherCertificate(TWO)));
    let nameless = asks(files.pair("n2", &[])).await;
    assert_eq!(nameless, Err(Refusal::OtherCertificate(TWO)));
    // Its name is known now.
    let member = tenure_api::Member {
        id: TWO,
        name: "n2".into(),
        peer_urls: vec![],
        client_urls: vec![],
        is_learner: false,
    };
    one.transport.know(Known { members: vec![member], ..Known::default() });
    assert!(asks(files.pair("n2", &[])).await.is_ok());
    assert!(asks(files.pair("n3", &[])).await.is_err());
}

#[tokio::test]
async fn peer_tls_names_are_not_looked_at_where_settings_say_which_count() {
    let files = Files::new();
    let with = |skip, allowed: &[&str]| {
        let mut config = files.tls();
        config.peer_skip_names = skip;
        config.peer_tls.allowed_cns = allowed.iter().map(|&name| name.to_owned()).collect();
        PeerSecurity::new(&config).unwrap()
    };
    let names = |name: &str, dns: &[&str]| tenure_tls::Names {
        common_name: name.into(),
        dns: dns.iter().map(|&name| name.to_owned()).collect(),
        ..Default::default()
    };
    let fits = |security: &PeerSecurity, names| security.fits(Some(&names), "n2", "db2:2380");
    let strict = with(false, &[]);
    assert!(fits(&strict, names("", &["db2"])) && fits(&strict, names("n2", &[])));
    assert!(!fits(&strict, names("any", &[])) && !fits(&strict, names("any", &["db3"])));
    let listed = with(false, &["any"]);
    assert!(fits(&listed, names("any", &[])));
    assert!(!fits(&listed, names("any", &["db3"])), "it names another host");
    assert!(fits(&with(true, &[]), names("any", &["db3"])));
}

#[tokio::test]
async fn peer_secret_keeps_out_a_caller_that_does_not_know_it() {
    let files = Files::new();
    let (ours, theirs) =
        (files.secret("ours", SECRET), files.secret("other", "another, as long\n"));
    let (mut one, mut two, at) = two(&ours, &ours).await;
    one.connected(TWO).await;
    two.connected(ONE).await;
    assert!(two.transport.send(ONE, &text("it is proven")));
    one.hears("it is proven").await;
    let mut stranger = TcpStream::connect(at).await.unwrap();
    assert_eq!(hello_over(&mut stranger).await, Some(Err(Refusal::Unproven)));
    let other = PeerSecurity::new(&theirs).unwrap();
    let refused = other.dial(&at.to_string()).await.unwrap_err().to_string();
    assert!(refused.contains("does not know the secret"), "{refused}");
    let ours = PeerSecurity::new(&ours).unwrap();
    let mut known = ours.dial(&at.to_string()).await.unwrap();
    assert!(hello_over(&mut known).await.unwrap().is_ok());
}

/// Which members speak to each other, while TLS or a secret is turned on member by member.
#[tokio::test]
async fn peer_security_is_turned_on_member_by_member() {
    let files = Files::new();
    let clear = Config::default();
    let strict = [files.tls(), files.secret("s", SECRET), {
        Config { peer_secret_file: Some(files.path("s")), ..files.tls() }
    }];
    for secure in strict {
        let changing = Config { peer_allow_insecure: true, ..secure.clone() };
        for (a, b) in [(&clear, &changing), (&changing, &changing), (&changing, &secure)] {
            let (mut one, mut two, _) = two(a, b).await;
            one.connected(TWO).await;
            two.connected(ONE).await;
            assert!(
                two.transport.send(ONE, &text("heard")) && one.transport.send(TWO, &text("too"))
            );
            one.hears("heard").await;
            two.hears("too").await;
        }
        let at = two(&secure, &secure).await;
        let dialled = PeerSecurity::new(&clear).unwrap().dial(&at.2.to_string()).await;
        let answer = hello_over(&mut dialled.unwrap()).await;
        assert!(matches!(answer, None | Some(Err(Refusal::Unproven))), "{answer:?}");
    }
}
