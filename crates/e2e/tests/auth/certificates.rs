//! Certificates as logins: 59 to 64 of the transcript, on a real etcd and on us.

use std::{process::Command, sync::Arc};

use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use tenure::grpc::{Client, Dialer, Endpoint, Options};
use tenure::tls::{ClientOptions, PairFiles, Verify};
use tenure_e2e::{Certs, Cluster, Plan, Program, Spawn, eventually, pb, reserve, tools};

use crate::asking::Asker;
use crate::stage::{self, password, token};

/// A server with TLS, and what keeps it there.
struct Secured {
    certs: Arc<Certs>,
    endpoints: Vec<Endpoint>,
    is_etcd: bool,
    _server: (Option<Program>, Option<Cluster>, tempfile::TempDir),
}

impl Secured {
    /// Options of a client with a certificate of this common name.
    fn options(&self, name: &str) -> Options {
        let tls = ClientOptions {
            verify: Verify::By(self.certs.ca()),
            pair: Some(self.certs.pair(name, &[])),
            ..ClientOptions::default()
        };
        Options::default().with_tls(tls).unwrap()
    }

    fn client(&self, name: &str) -> Client {
        Client::new(self.endpoints.clone(), self.options(name))
    }

    fn asker(&self, name: &str) -> Asker {
        Asker::new(self.client(name).channel())
    }

    /// A POST as curl makes it, and the status and body of the answer.
    async fn post(
        &self,
        name: &str,
        headers: &[(&str, &str)],
        path: &str,
        body: &str,
    ) -> (u16, String) {
        let dialer = Dialer::new(self.options(name).tls);
        let socket = dialer.dial(&self.endpoints[0], &["http/1.1"]).await.unwrap();
        let (mut send, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::post(path)
            .header("host", "localhost")
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let answer = send.send_request(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }
}

async fn etcd() -> Secured {
    let certs = Certs::new();
    let home = tempfile::tempdir().unwrap();
    let [client, peer] = reserve(2)[..] else { unreachable!("two were asked for") };
    let flags = certs.server_flags("server", &[client.ip.to_string()]);
    let mut command = Command::new(tools::installed("etcd"));
    command
        .args(["--name", "n1", "--data-dir"])
        .arg(home.path().join("data"))
        .args(["--listen-client-urls", &client.https(), "--advertise-client-urls", &client.https()])
        .args(["--listen-peer-urls", &peer.url(), "--initial-advertise-peer-urls", &peer.url()])
        .args(["--initial-cluster", &format!("n1={}", peer.url())])
        .args(flags);
    let server = Program::start("etcd", &mut command);
    let endpoints = Endpoint::list(&client.https()).unwrap();
    Secured { certs, endpoints, is_etcd: true, _server: (Some(server), None, home) }
}

async fn tenure() -> Secured {
    let certs = Certs::new();
    let spawn = Spawn { tls: Some(certs.clone()), ..Spawn::default() };
    let cluster = Cluster::with(1, Plan { spawn, ..Plan::default() }).await;
    let endpoints = Endpoint::list(&cluster.members[0].client_url()).unwrap();
    let home = tempfile::tempdir().unwrap();
    Secured { certs, endpoints, is_etcd: false, _server: (None, Some(cluster), home) }
}

async fn play(side: Secured) {
    let client = side.client("setup");
    eventually("it serves", async || {
        let read = pb::RangeRequest { key: "k".into(), ..Default::default() };
        client.kv().range(read).await.map_err(|error| error.to_string())
    })
    .await;
    stage::add_users(&client).await;
    stage::enable(&client).await;
    let alice = side.asker("alice");
    assert_eq!(alice.get("foo/a").await, "OK", "59 CN alice");
    let bob = token(&side.asker("unknown"), "bob", &password("bob")).await.unwrap();
    assert_eq!(alice.token(&bob).get("foo/a").await, "PD", "60 CN alice, T on foo/");
    assert_eq!(alice.token(&bob).get("k1").await, "OK", "60 the token counts");
    assert_eq!(alice.token("abc").get("foo/a").await, "IT", "61 CN alice, x");
    let unknown = side.asker("unknown");
    assert_eq!(unknown.get("foo/a").await, "PD", "62 CN unknown");
    let empty = side.asker("");
    let said = empty.get("foo/a").await;
    assert_eq!(said, if side.is_etcd { "PD" } else { "UE" }, "63 empty CN range");
    assert_eq!(empty.user_list(Default::default()).await, "UE", "63 empty CN user list");
    // A user without a password is what a certificate is for.
    assert_eq!(side.asker("nopw").get("foo/a").await, "PD");

    let range = r#"{"key":"Zm9vL2E="}"#;
    let (status, text) = side.post("alice", &[], "/v3/kv/range", range).await;
    assert_eq!(status, 400, "64 gateway, CN alice: {text}");
    let ignored = "CommonName of client sending a request against gateway will be ignored and not used as expected";
    assert!(text.contains(ignored), "{text}");
    for headers in [&[("accept", "*/*")][..], &[]] {
        if side.is_etcd && headers.is_empty() {
            // There it acts as the common name of the server's certificate.
            continue;
        }
        let (status, text) = side.post("", headers, "/v3/kv/range", range).await;
        assert_eq!(status, 400, "64 gateway, empty CN: {text}");
        assert!(text.contains("user name is empty"), "{text}");
    }
    let alice = token(&unknown, "alice", &password("alice")).await.unwrap();
    let with = [("authorization", &alice[..])];
    let (status, text) = side.post("", &with, "/v3/kv/range", range).await;
    assert_eq!(status, 200, "64 gateway, empty CN and a token: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_logins_on_a_real_etcd() {
    play(etcd().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_logins_on_tenure() {
    play(tenure().await).await;
}

/// `PairFiles` of a user without a password lead with our command, too.
#[tokio::test(flavor = "multi_thread")]
async fn command_logs_in_by_its_certificate() {
    let side = tenure().await;
    let client = side.client("setup");
    stage::add_users(&client).await;
    stage::enable(&client).await;
    let PairFiles { cert, key } = side.certs.pair("alice", &[]);
    let run = |words: &[&str]| {
        let output = Command::new(tools::tenure())
            .args(["--endpoints", &side.endpoints[0].to_string(), "--cacert"])
            .arg(side.certs.ca())
            .arg("--cert")
            .arg(&cert)
            .arg("--key")
            .arg(&key)
            .args(words)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run(&["put", "foo/a", "1"]).0, Some(0));
    let (code, said) = run(&["put", "bar", "1"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("this user may not write \"bar\""), "{said}");
    assert_eq!(run(&["lock", "foo/l", "true"]).0, Some(0));
}
