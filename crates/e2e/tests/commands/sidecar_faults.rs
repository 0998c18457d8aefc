//! `tenure sidecar` when things go wrong: when it must not answer, and which answers may be believed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tenure_e2e::{
    Address, Cluster, Ctl, Gateway, Relay, Sidecar, eventually, sidecar::token, tools,
};
use tokio::sync::watch;

/// A lease that is short, and long enough for a busy machine.
const TTL: &str = "2s";
const LEASE: Duration = Duration::from_secs(2);
/// A lease that no test waits for.
const LONG: &str = "60s";
/// A client that asks without end leaves time for others to run.
const BREATH: Duration = Duration::from_millis(2);

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_that_is_killed_is_followed_by_another() {
    let cluster = Cluster::start(3).await;
    let (mut a, b, first) = Sidecar::pair(&cluster, "jobs", TTL).await;
    let c = Sidecar::start(&cluster.endpoints(), "jobs", "c", &["--ttl", TTL]);
    c.follows("a").await;
    b.waits().await;
    a.kill();
    let (b, c) = (&b, &c);
    let next = eventually("another leads", async || {
        let answers = [b.ask("/leader").await, c.ask("/leader").await];
        let leads = answers.iter().find(|answer| answer.json()["is_leader"] == true);
        leads.map(|answer| answer.json()).ok_or(format!("{answers:?}"))
    })
    .await;
    assert!(token(&next) > token(&first), "{next} after {first}");
}

/// Everything that was asked while it slept is answered when it wakes, before it has heard a thing.
#[tokio::test(flavor = "multi_thread")]
async fn sidecar_that_was_paused_does_not_say_that_it_leads_when_it_wakes() {
    let cluster = Cluster::start(1).await;
    let flags = ["--ttl", TTL, "--healthz", "leader", "--status-file", "status.json"];
    let a = Sidecar::start(&cluster.endpoints(), "jobs", "a", &flags);
    let before = a.leads().await;
    let mut events = a.events().await;
    events.until(|_, data| data["is_leader"] == true).await;
    let b = Sidecar::start(&cluster.endpoints(), "jobs", "b", &["--ttl", TTL]);
    b.follows("a").await;
    b.waits().await;
    a.pause();
    let after = b.leads().await;
    assert!(token(&after) > token(&before));
    let status: Value = serde_json::from_slice(&std::fs::read(a.status_file()).unwrap()).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    assert!(status["valid_until_unix_ms"].as_u64().unwrap() < now, "a reader can tell: {status}");

    let paths = ["/", "/leader", "/readyz?leader=1", "/healthz", "/metrics"];
    let asked: Vec<_> = paths
        .map(|path| {
            let gateway = Gateway::at(a.address);
            tokio::spawn(async move { gateway.request("GET", path, &[], "").await })
        })
        .into_iter()
        .collect();
    eventually("all questions are in the kernel's hands", async || {
        let waiting = connections_to(a.address.port);
        if waiting > paths.len() { Ok(()) } else { Err(format!("{waiting} connections")) }
    })
    .await;
    a.resume();
    for (path, answer) in paths.iter().zip(asked) {
        let answer = answer.await.unwrap();
        let body = answer.body.as_str();
        match *path {
            "/" | "/leader" => {
                let body = answer.json();
                assert_ne!(body["is_leader"], true, "{path}: {body}");
                assert_ne!(body["name"], "a", "{path}: {body}");
            }
            "/metrics" => {
                assert!(body.contains("leader_election_master_status{name=\"jobs\"} 0"), "{body}");
            }
            _ => assert_eq!(answer.status, 503, "{path}: {body}"),
        }
    }
    let next = events.next().await.expect("the stream goes on").1;
    assert_ne!(next["is_leader"], true, "{next}");
    a.follows("b").await;
}

/// What a program may believe that counts `expires_in_ms` from when it sent its question.
#[derive(Debug)]
struct Believed {
    by: String,
    token: i64,
    from: Instant,
    until: Instant,
}

/// Asks one sidecar again and again, and keeps every time in which it may be believed to lead.
async fn ask_on(address: Address, name: String, mut stop: watch::Receiver<bool>) -> Vec<Believed> {
    let mut believed = Vec::new();
    while !*stop.borrow_and_update() {
        tokio::time::sleep(BREATH).await;
        let sent = Instant::now();
        let answer = Gateway::at(address).request("GET", "/leader", &[], "").await;
        let (body, from) = (answer.json(), Instant::now());
        if body["is_leader"] == true {
            let until = sent + Duration::from_millis(body["expires_in_ms"].as_u64().unwrap());
            believed.push(Believed { by: name.clone(), token: token(&body), from, until });
        }
    }
    believed
}

/// Waits until one of these leads.
async fn one_leads<'a>(sidecars: &[&'a Sidecar]) -> &'a Sidecar {
    eventually("one leads", async || {
        for sidecar in sidecars {
            if sidecar.ask("/leader").await.json()["is_leader"] == true {
                return Ok(*sidecar);
            }
        }
        Err("nobody does".to_owned())
    })
    .await
}

/// Leaders sleep past their leases and wake up with questions in their ears, or are cut off while an
/// operator makes another candidate the leader; so are members of the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn sidecars_are_never_two_that_may_be_believed() {
    const ROUNDS: usize = 12;
    let cluster = Cluster::start(3).await;
    let operator = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    let mut relays = Vec::new();
    let mut sidecars = Vec::new();
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        let relay = Relay::to(cluster.members[at].client).await;
        let flags = ["--ttl", "1s"];
        sidecars.push(Sidecar::start(&relay.address.to_string(), "jobs", name, &flags));
        relays.push(relay);
    }
    let all: Vec<&Sidecar> = sidecars.iter().collect();
    for sidecar in &all {
        sidecar.says("somebody", |status, body| status == 200 && body["name"] != "").await;
    }
    let (stop, stopping) = watch::channel(false);
    let ask =
        |one: &&Sidecar| tokio::spawn(ask_on(one.address, one.name.clone(), stopping.clone()));
    let askers: Vec<_> = all.iter().map(ask).collect();
    for round in 0..ROUNDS {
        let leads = one_leads(&all).await;
        let at = all.iter().position(|one| one.name == leads.name).unwrap();
        let others: Vec<_> = all.iter().copied().filter(|one| one.name != leads.name).collect();
        // A member with which the others can do without.
        let member = (round % 2 == 1).then_some(&cluster.members[at]);
        member.inspect(|member| member.pause());
        if round % 3 == 0 {
            relays[at].cut();
            // If there is no candidate yet, there is no successor: it runs out then.
            operator.run(&["resign", "jobs", "--within", "1ms", "--no-wait"]);
            one_leads(&others).await;
            relays[at].mend();
        } else {
            leads.pause();
            one_leads(&others).await;
            leads.resume();
        }
        member.inspect(|member| member.resume());
    }
    stop.send(true).unwrap();
    let mut believed = Vec::new();
    for asker in askers {
        believed.extend(asker.await.unwrap());
    }
    let tokens: BTreeSet<i64> = believed.iter().map(|one| one.token).collect();
    // Some tenures are too short for all clients to have asked.
    assert!(tokens.len() > ROUNDS / 2, "there was something to compare: {tokens:?}");
    believed.retain(|one| one.from < one.until);
    believed.sort_by_key(|one| one.from);
    for (at, one) in believed.iter().enumerate() {
        let before = believed[..at].iter().filter(|other| other.by != one.by);
        if let Some(other) = before.max_by_key(|other| other.until) {
            assert!(other.until <= one.from, "{other:?} and {one:?}");
            assert!(other.token < one.token, "{other:?} before {one:?}");
        }
    }
}

/// The leader is cut off and believes on, its successor is known to the servers: it must neither lead nor be named by
/// itself before that belief has run out.
#[tokio::test(flavor = "multi_thread")]
async fn sidecar_waits_for_the_time_of_one_that_is_cut_off_to_pass() {
    let cluster = Cluster::start(1).await;
    let relay = Relay::to(cluster.members[0].client).await;
    let a = Sidecar::start(&relay.address.to_string(), "jobs", "a", &["--ttl", "4s"]);
    a.leads().await;
    let b = Sidecar::start(&cluster.endpoints(), "jobs", "b", &["--ttl", "4s"]);
    b.follows("a").await;
    b.waits().await;
    relay.cut();
    let operator = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    operator.run(&["resign", "jobs", "--within", "1ms"]).ok();
    let mut believed_until = Instant::now();
    let mut held_back = false;
    loop {
        let sent = Instant::now();
        let old = a.ask("/leader").await.json();
        if old["is_leader"] == true {
            believed_until = sent + Duration::from_millis(old["expires_in_ms"].as_u64().unwrap());
        }
        let next = b.ask("/leader").await.json();
        let left = believed_until.saturating_duration_since(Instant::now());
        held_back |= next["error"].as_str().is_some_and(|error| error.contains("is next"));
        if next["name"] == "b" || next["is_leader"] == true {
            assert!(left.is_zero(), "{left:?} too early: {next} beside {old}");
        }
        if next["is_leader"] == true {
            break;
        }
        tokio::time::sleep(BREATH).await;
    }
    assert!(held_back, "it said why nobody leads");
    relay.mend();
    a.follows("b").await;
}

/// A resignation within less than `--grace`, or an eviction: the successor still waits for all of it.
#[tokio::test(flavor = "multi_thread")]
async fn sidecar_grace_is_not_shortened_by_an_eviction() {
    const GRACE: Duration = Duration::from_secs(3);
    let cluster = Cluster::start(1).await;
    for verb in [&["resign", "jobs", "--within", "1ms", "--no-wait"][..], &["evict", "jobs"]] {
        let a =
            Sidecar::start(&cluster.endpoints(), "jobs", "a", &["--ttl", LONG, "--grace", "3s"]);
        a.leads().await;
        let b = Sidecar::start(&cluster.endpoints(), "jobs", "b", &["--ttl", LONG]);
        b.follows("a").await;
        b.waits().await;
        let asked = Instant::now();
        Ctl::to(&cluster.endpoints()).with_program(tools::tenure()).run(verb).ok();
        b.leads().await;
        assert!(asked.elapsed() >= GRACE, "{verb:?}: after {:?}", asked.elapsed());
        // It has said so, or the others would have waited for the end of the lease.
        a.follows("b").await;
        for mut sidecar in [b, a] {
            assert!(sidecar.stop().await.success());
        }
    }
}

/// How many connections to a port are established, seen from this side.
fn connections_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!(":{port:04X}");
    let established = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.len() > 3 && fields[2].ends_with(&remote) && fields[3] == "01"
    };
    table.lines().filter(established).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_without_servers_answers_for_a_lease_and_not_longer() {
    let mut cluster = Cluster::start(1).await;
    let flags = ["--ttl", TTL, "--status-file", "status.json"];
    let a = Sidecar::start(&cluster.endpoints(), "jobs", "a", &flags);
    let first = a.leads().await;
    let b = Sidecar::start(&cluster.endpoints(), "jobs", "b", &["--ttl", TTL]);
    let o = Sidecar::observe(&cluster.endpoints(), "jobs", &["--ttl", TTL]);
    b.follows("a").await;
    o.follows("a").await;
    cluster.members[0].kill();
    let gone = Instant::now();
    tokio::join!(runs_out(&a, gone), runs_out(&b, gone), runs_out(&o, gone));
    for sidecar in [&a, &b, &o] {
        assert_eq!(sidecar.status("/").await, 503);
        assert_eq!(sidecar.status("/readyz").await, 503);
    }
    // As client-go has it: only a leader that could not renew is unhealthy.
    let health = (a.status("/healthz").await, b.status("/healthz").await);
    assert_eq!(health, (503, 200));
    eventually("the status file is gone", async || {
        if a.status_file().exists() { Err("it is there".to_owned()) } else { Ok(()) }
    })
    .await;

    cluster.members[0].start();
    cluster.ready().await;
    let again = o.says("who leads", |status, body| status == 200 && body["token"].is_i64()).await;
    assert!(token(&again) >= token(&first), "{again} after {first}");
    eventually("it is healthy again", async || match a.status("/healthz").await {
        200 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
}

/// Asks until there is no answer any more. Each one says how long it may be believed: it must be repeated for that
/// long, and nothing may be answered when a lease has passed since the server died.
async fn runs_out(sidecar: &Sidecar, gone: Instant) {
    let mut believed_until = gone;
    loop {
        tokio::time::sleep(BREATH).await;
        let asked = Instant::now();
        let answer = sidecar.ask("/leader").await;
        if answer.status != 200 {
            let early = believed_until.saturating_duration_since(Instant::now());
            assert!(early.is_zero(), "{}: {early:?} too early: {}", sidecar.name, answer.body);
            return;
        }
        assert!(asked < gone + LEASE, "{}: too late: {}", sidecar.name, answer.body);
        let expires = answer.json()["expires_in_ms"].as_u64().unwrap();
        believed_until = asked + Duration::from_millis(expires);
    }
}

/// A member that is cut off from the others still takes connections, and its watches are only silent.
#[tokio::test(flavor = "multi_thread")]
async fn sidecar_is_not_kept_fresh_by_a_member_without_a_majority() {
    let cluster = Cluster::start(3).await;
    let alone = &cluster.members[0];
    let o = Sidecar::observe(&alone.client.to_string(), "jobs", &["--ttl", TTL]);
    let a = Sidecar::start(&alone.client.to_string(), "jobs", "a", &["--ttl", TTL]);
    o.follows("a").await;
    a.leads().await;
    for member in &cluster.members[1..] {
        member.pause();
    }
    for sidecar in [&o, &a] {
        sidecar.says("nothing", |status, _| status == 503).await;
    }
    for member in &cluster.members[1..] {
        member.resume();
    }
    o.says("something", |status, _| status == 200).await;
}

/// A program that compares names must not take another process for itself.
#[tokio::test(flavor = "multi_thread")]
async fn sidecar_never_says_its_own_name_for_another() {
    let cluster = Cluster::start(1).await;
    let a = Sidecar::start(&cluster.endpoints(), "jobs", "twin", &["--ttl", LONG]);
    a.leads().await;
    let b = Sidecar::start(&cluster.endpoints(), "jobs", "twin", &["--ttl", LONG]);
    let answer = b
        .says("that there is a twin", |status, body| {
            status == 503 && body["error"].as_str().is_some_and(|e| e.contains("same --identity"))
        })
        .await;
    assert_eq!(answer.get("name"), None);
    assert_eq!(b.status("/").await, 503);
    assert_eq!(a.ask("/").await.json(), json!({ "name": "twin" }));
}
