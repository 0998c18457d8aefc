//! TLS on the client port: our command, our library and etcdctl against us, and our command against a real etcd.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tenure::{
    Election, Engine, Session,
    grpc::{Client, Endpoint, Options},
    tls::{ClientOptions, PairFiles, Verify},
};
use tenure_e2e::{
    Certs, Cluster, Ctl, Plan, Program, Sidecar, Spawn, Supervised, eventually, pb, reserve, send,
    tools,
};

/// Long enough not to be confused with the end of a lease.
const LONG_TTL: &str = "60s";
/// Far less than that, and time enough on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(20);

async fn cluster(members: usize) -> (Cluster, std::sync::Arc<Certs>) {
    let certs = Certs::new();
    let spawn = Spawn { tls: Some(certs.clone()), ..Spawn::default() };
    (Cluster::with(members, Plan { spawn, ..Plan::default() }).await, certs)
}

fn words<'a>(flags: &'a [String], rest: &[&'a str]) -> Vec<&'a str> {
    flags.iter().map(String::as_str).chain(rest.iter().copied()).collect()
}

/// Both clients say the same, and neither is let in without what it has to show.
#[tokio::test(flavor = "multi_thread")]
async fn tls_client_port_serves_etcdctl_and_our_command_alike() {
    let (cluster, certs) = cluster(3).await;
    let theirs = Ctl::of(&cluster);
    let ours = theirs.with_program(tools::tenure());
    for ctl in [&theirs, &ours] {
        assert_eq!(ctl.run(&["put", "k", "v"]).ok(), "OK\n");
        assert_eq!(ctl.run(&["get", "k"]).ok(), "k\nv\n");
        let health = ctl.run(&["endpoint", "health", "--cluster"]);
        assert_eq!(health.code, Some(0), "{}{}", health.out, health.err);
        let members = ctl.run(&["member", "list"]).ok();
        assert_eq!(members.matches("https://").count(), 3, "{members}");
    }
    let ca = certs.ca().display().to_string();
    let stranger = ours.with_flags(&["--cacert".to_owned(), ca.clone()]);
    let refused = stranger.run(&["get", "k"]);
    assert_ne!(refused.code, Some(0));
    let clear = ours.with_flags(&[]).run(&["--dial-timeout", "1s", "get", "k"]);
    assert_ne!(clear.code, Some(0), "the port speaks TLS only");
    // An authority that did not sign the member's certificate.
    let other = Certs::new();
    let astray = ours.with_flags(&other.client_flags()).run(&["get", "k"]);
    assert!(astray.err.contains("invalid peer certificate"), "{}", astray.err);
    let PairFiles { cert, key } = certs.pair("client", &[]);
    let pair =
        ["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()].map(str::to_owned);
    let unverified = [&pair[..], &["--insecure-skip-tls-verify".to_owned()]].concat();
    assert_eq!(ours.with_flags(&unverified).run(&["get", "k"]).ok(), "k\nv\n");
    let half = ours.with_flags(&pair[..2]).run(&["get", "k"]);
    assert_eq!(half.code, Some(2), "{}", half.err);
    assert!(half.err.contains("KeyFile and CertFile must both be present"), "{}", half.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_settings_come_from_the_environment_and_https_endpoints() {
    let (cluster, certs) = cluster(1).await;
    Ctl::of(&cluster).run(&["put", "k", "v"]).ok();
    let PairFiles { cert, key } = certs.pair("client", &[]);
    for (prefix, key_name) in [("TENURE_", "TENURE_TLS_KEY"), ("ETCDCTL_", "ETCDCTL_KEY")] {
        for endpoint in [cluster.endpoints(), cluster.members[0].client_url()] {
            let said = Command::new(tools::tenure())
                .env(format!("{prefix}ENDPOINTS"), &endpoint)
                .env(format!("{prefix}CACERT"), certs.ca())
                .env(format!("{prefix}CERT"), &cert)
                .env(key_name, &key)
                .args(["get", "k"])
                .output()
                .unwrap();
            let err = String::from_utf8_lossy(&said.stderr);
            assert_eq!(
                String::from_utf8_lossy(&said.stdout),
                "k\nv\n",
                "{prefix} {endpoint}: {err}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_of_a_real_etcd_is_spoken_by_our_command() {
    let certs = Certs::new();
    let [client, peer] = reserve(2)[..] else { unreachable!("two were asked for") };
    let home = tempfile::tempdir().unwrap();
    let flags = certs.server_flags("etcd", &[client.ip.to_string()]);
    let mut etcd = Command::new(tools::installed("etcd"));
    etcd.args(["--name", "n1", "--data-dir"])
        .arg(home.path())
        .args(["--listen-client-urls", &client.https(), "--advertise-client-urls", &client.https()])
        .args(["--listen-peer-urls", &peer.url(), "--initial-advertise-peer-urls", &peer.url()])
        .args(["--initial-cluster", &format!("n1={}", peer.url())])
        .args(flags);
    let _etcd = Program::start("etcd", &mut etcd);
    let theirs = Ctl::to(&client.https()).with_flags(&certs.client_flags());
    let ours = theirs.with_program(tools::tenure());
    eventually("etcd is healthy", async || match ours.run(&["endpoint", "health"]) {
        said if said.code == Some(0) => Ok(()),
        said => Err(said.err),
    })
    .await;
    ours.run(&["put", "k", "v"]).ok();
    assert_eq!(theirs.run(&["get", "k"]).ok(), ours.run(&["get", "k"]).ok());
    let options = certs.options();
    let engine = Engine::detect_at(Endpoint::list(&client.https()).unwrap(), options).await;
    assert_eq!(engine.unwrap().name(), "etcd");
}

/// A process that dies says no farewell: the connection below TLS ends, and that must be enough.
#[tokio::test(flavor = "multi_thread")]
async fn tls_fast_release_ends_the_session_of_a_killed_process() {
    let (cluster, certs) = cluster(3).await;
    let flags = certs.client_flags();
    let elect = |who: &str| {
        let verb = ["elect", "office", who, "--ttl", LONG_TTL, "--fast-release"];
        Supervised::start(&cluster.endpoints(), &words(&flags, &verb))
    };
    let mut first = elect("first");
    first.program.says("leading office").await;
    let leader = async || {
        let engine =
            Engine::tenure_at(Endpoint::list(&cluster.endpoints()).unwrap(), certs.options());
        let candidates = engine.candidates("office").await.map_err(|error| error.to_string())?;
        let held = candidates.into_iter().find(|one| one.holds);
        let value = held.ok_or_else(|| "no leader".to_owned())?.value;
        Ok::<_, String>(String::from_utf8_lossy(&value).into_owned())
    };
    eventually("the first leads", async || match leader().await? {
        who if who == "first" => Ok(()),
        who => Err(who),
    })
    .await;
    let _second = elect("second");
    let begun = Instant::now();
    first.program.kill();
    eventually("the second leads", async || match leader().await? {
        who if who == "second" => Ok(()),
        who => Err(who),
    })
    .await;
    assert!(begun.elapsed() < AT_ONCE, "it waited for the lease: {:?}", begun.elapsed());
}

/// The supervisor is gone: its guardian tells the server by TLS that the command has ended.
#[tokio::test(flavor = "multi_thread")]
async fn tls_guardian_confirms_that_the_command_of_a_killed_supervisor_has_ended() {
    let (cluster, certs) = cluster(1).await;
    let flags = certs.client_flags();
    let run = |command: &str| {
        let verb = ["run", "--election", "job", "--ttl", LONG_TTL, "--", "sh", "-c", command];
        Supervised::start(&cluster.endpoints(), &words(&flags, &verb))
    };
    // What the command finds in its environment lets it speak to the cluster.
    let ours = format!("echo works; {} get k; exec sleep 1000", tools::tenure().display());
    Ctl::of(&cluster).run(&["put", "k", "seen-by-the-command"]).ok();
    let mut first = run(&ours);
    first.program.says("seen-by-the-command").await;
    let second = run("echo works; exec sleep 1000");
    second.program.says("waiting for job").await;
    let begun = Instant::now();
    send(first.pid(), Signal::KILL);
    second.program.says("works").await;
    assert!(begun.elapsed() < AT_ONCE, "it waited for the lease: {:?}", begun.elapsed());
    first.program.kill();
    let history = Ctl::of(&cluster).with_program(tools::tenure()).run(&["history", "job"]).ok();
    assert!(history.contains("process killed"), "{history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_reaches_the_sidecar_the_doctor_the_bench_and_the_status() {
    let (cluster, certs) = cluster(1).await;
    let flags = certs.client_flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let sidecar = Sidecar::start(&cluster.endpoints(), "office", "a", &flags);
    sidecar.leads().await;
    let ours = Ctl::of(&cluster).with_program(tools::tenure());
    let status = ours.run(&["status", "-w", "json"]).json();
    assert!(status[0].to_string().contains(env!("CARGO_PKG_VERSION")), "{status:?}");
    let doctor = ours.run(&["doctor", "-w", "json"]);
    assert_eq!(doctor.code, Some(0), "{}{}", doctor.out, doctor.err);
    for workload in
        [&["bench", "put", "--total", "50"][..], &["bench", "put", "--gateway", "--total", "50"]]
    {
        let report = ours.run(&[workload, &["-w", "json"]].concat()).json();
        assert_eq!(report[0]["operations"], 50, "{report:?}");
    }
}

/// A pair that is renewed on disk is what the next connection shows; the one that is open goes on.
#[tokio::test(flavor = "multi_thread")]
async fn tls_library_shows_a_renewed_certificate_without_being_made_again() {
    let (cluster, certs) = cluster(1).await;
    let pair = certs.issue("app", &[]);
    let tls = ClientOptions {
        verify: Verify::By(certs.ca()),
        pair: Some(pair.clone()),
        ..ClientOptions::default()
    };
    let options = Options::default().with_tls(tls).unwrap();
    let endpoints = Endpoint::list(&cluster.endpoints()).unwrap();
    let engine = Engine::tenure_at(endpoints.clone(), options.clone());
    let lead = async |identity: &str| {
        let session = Session::open(&engine, Duration::from_secs(10)).await.unwrap();
        let election = Election::new(&session, identity).unwrap();
        election.candidate(identity).campaign().await.unwrap().resign().await.unwrap();
    };
    lead("before").await;
    // Of another authority: what is shown from now on is refused.
    let others = Certs::new();
    let other = others.issue("app", &[]);
    let sound = [fs::read(&pair.cert).unwrap(), fs::read(&pair.key).unwrap()];
    fs::copy(&other.key, &pair.key).unwrap();
    fs::copy(&other.cert, &pair.cert).unwrap();
    let client = Client::new(endpoints, options.within(Duration::from_secs(2)));
    let range = || pb::RangeRequest { key: "k".into(), ..Default::default() };
    client.kv().range(range()).await.unwrap_err();
    fs::write(&pair.key, &sound[1]).unwrap();
    fs::write(&pair.cert, &sound[0]).unwrap();
    client.kv().range(range()).await.unwrap();
    lead("after").await;
}
