//! `tenure sidecar`: what it answers, and to which clients.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tenure_e2e::{Cluster, Ctl, Etcd, Plan, Scrape, Sidecar, eventually, sidecar::token, tools};
use tokio::{io::AsyncWriteExt, net::TcpStream};

/// A lease that is short, and long enough for a busy machine.
const TTL: &str = "2s";
const LEASE: Duration = Duration::from_secs(2);
/// A lease that no test waits for.
const LONG: &str = "60s";
/// A client that asks without end leaves time for others to run.
const BREATH: Duration = Duration::from_millis(2);

fn ctl(cluster: &Cluster) -> Ctl {
    Ctl::to(&cluster.endpoints()).with_program(tools::tenure())
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_answers_as_the_retired_image_did() {
    let cluster = Cluster::start(1).await;
    let (a, b, leads) = Sidecar::pair(&cluster, "jobs", LONG).await;
    for sidecar in [&a, &b] {
        let answer = sidecar.ask("/").await;
        assert_eq!((answer.status, answer.kind.as_str()), (200, "application/json"));
        assert_eq!(answer.json(), json!({ "name": "a" }));
    }
    let follows = b.ask("/leader").await.json();
    assert_eq!(follows["is_leader"], false);
    assert_eq!(token(&follows), token(&leads));
    assert_eq!((&follows["identity"], &follows["election"]), (&json!("b"), &json!("jobs")));
    for field in ["since", "last_update"] {
        let time = follows[field].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z'), "{field}: {time}");
    }
    assert!(follows["expires_in_ms"].as_u64().unwrap() <= 60_000);
    assert_eq!(a.status("/nothing").await, 404);
    let observer = Sidecar::observe(&cluster.endpoints(), "jobs", &["--ttl", LONG]);
    let seen = observer.follows("a").await;
    assert_eq!(seen["identity"], Value::Null, "who only looks is nobody's rival");
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_waits_for_a_server_that_is_not_there_yet() {
    let mut cluster = Cluster::prepare(1, Plan::default());
    let a = Sidecar::start(&cluster.endpoints(), "jobs", "a", &["--ttl", TTL]);
    a.listens().await;
    for path in ["/", "/leader"] {
        let answer = a.ask(path).await;
        assert_eq!(answer.status, 503, "{path}");
        assert_eq!(answer.json().get("name"), None, "nobody can take it for an answer");
        assert_eq!(answer.json()["error"], "no server has answered yet");
    }
    assert_eq!(a.status("/readyz").await, 503);
    assert_eq!(a.status("/healthz").await, 200, "a restart would help nobody");
    eventually("it says what it waits for", async || {
        let log = a.log();
        if log.contains("waiting for a server: no session could be opened") {
            Ok(())
        } else {
            Err(log)
        }
    })
    .await;
    cluster.members[0].start();
    cluster.ready().await;
    a.leads().await;
    assert_eq!(a.status("/readyz").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_hands_over_once_when_it_steps_down() {
    let cluster = Cluster::start(1).await;
    let (a, b, first) = Sidecar::pair(&cluster, "jobs", LONG).await;
    b.waits().await;
    assert_eq!(b.send("POST", "/step-down", &[]).await.status, 409, "b does not lead");
    assert_eq!(a.status("/step-down").await, 405, "looking changes nothing");
    for (name, value) in
        [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site"), ("referer", "x")]
    {
        let refused = a.send("POST", "/step-down", &[(name, value)]).await;
        assert_eq!(refused.status, 403, "{name}");
    }
    let host = a.send("POST", "/step-down", &[("host", "evil.example")]).await;
    assert_eq!(host.status, 421, "a page whose name was made to point here");
    assert_eq!(a.ask("/leader").await.json()["is_leader"], true, "nothing of that did anything");

    let asked = tokio::join!(a.send("POST", "/step-down", &[]), a.send("POST", "/step-down", &[]));
    let mut codes = [asked.0.status, asked.1.status];
    codes.sort();
    assert_eq!(codes, [200, 409], "{asked:?}");
    let done = if asked.0.status == 200 { asked.0.json() } else { asked.1.json() };
    assert_eq!(done["stepped_down"], first["token"]);
    assert_eq!(done["confirmed"], true);
    assert_eq!(done["leader"]["name"], "b");
    let next = b.leads().await;
    assert_eq!(next["token"], done["leader"]["token"]);
    assert!(token(&next) > token(&first));
    // It is a candidate again, behind the others.
    a.waits().await;
    b.send("POST", "/step-down", &[]).await;
    assert!(token(&a.leads().await) > token(&next));
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_events_tell_the_state_and_every_change() {
    let mut cluster = Cluster::start(1).await;
    let (a, b, first) = Sidecar::pair(&cluster, "jobs", TTL).await;
    b.waits().await;
    let mut events = b.events().await;
    let (kind, data) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &data["name"]), ("leader", &json!("a")));
    a.send("POST", "/step-down", &[]).await;
    let change = events.until(|kind, data| kind == "leader" && data["is_leader"] == true).await;
    assert!(token(&change) > token(&first));
    cluster.members[0].kill();
    let stale = events.until(|kind, _| kind == "stale").await;
    assert_eq!(stale.get("name"), None, "{stale}");
    drop(cluster);
    let mut b = b;
    assert!(b.stop().await.success());
    // Why nothing is known may have been told once more; then the stream ends with the sidecar.
    while let Some((kind, data)) = events.next().await {
        assert_eq!(kind, "stale", "{data}");
    }
}

/// That nothing is kept for it meanwhile is shown where the events are made, in `sidecar/http/events.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn sidecar_reader_that_sleeps_finds_the_present_state() {
    let cluster = Cluster::start(1).await;
    let a = Sidecar::start(&cluster.endpoints(), "jobs", "a", &["--ttl", LONG]);
    a.leads().await;
    let mut events = a.events().await;
    events.next().await.unwrap();
    for _ in 0..10 {
        a.leads().await;
        assert_eq!(a.send("POST", "/step-down", &[]).await.status, 200);
    }
    let last = token(&a.leads().await);
    events.until(|kind, data| kind == "leader" && data["token"] == last).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_status_file_is_whole_dated_and_removed() {
    let cluster = Cluster::start(1).await;
    let flags = ["--ttl", TTL, "--status-file", "status.json"];
    let mut a = Sidecar::start(&cluster.endpoints(), "jobs", "a", &flags);
    let leads = a.leads().await;
    let path = a.status_file();
    let read = || std::fs::read_to_string(&path);
    eventually("the file says so, too", async || {
        let text = read().map_err(|cause| cause.to_string())?;
        if text.contains("\"is_leader\":true") { Ok(()) } else { Err(text) }
    })
    .await;
    let mut renewals = BTreeSet::new();
    while renewals.len() < 5 {
        // It is replaced as a whole, so a reader finds all of it.
        let status: Value = serde_json::from_str(&read().unwrap()).unwrap();
        assert_eq!((&status["token"], &status["is_leader"]), (&leads["token"], &json!(true)));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        let until = status["valid_until_unix_ms"].as_u64().unwrap();
        assert!(until > now && until <= now + LEASE.as_millis() as u64, "{until} at {now}");
        renewals.insert(until);
        tokio::time::sleep(BREATH).await;
    }
    assert!(a.stop().await.success());
    let left: Vec<_> = std::fs::read_dir(a.home.path()).unwrap().flatten().collect();
    let left: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["log"], "nothing is left behind");

    std::fs::write(&path, "{}").unwrap();
    let mut nowhere =
        Sidecar::start("127.0.0.1:1", "jobs", "a", &["--status-file", path.to_str().unwrap()]);
    nowhere.listens().await;
    assert!(!path.exists(), "what a former life left is not an answer");
    assert!(nowhere.stop().await.success(), "it waits for nobody at its end");
    let mut refused = Sidecar::start("127.0.0.1:1", "jobs", "a", &["--status-file", "/nowhere/s"]);
    assert_eq!(refused.ends().await.code(), Some(1));
    assert!(refused.log().contains("--status-file /nowhere/s"), "{}", refused.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_probes_find_the_leader() {
    let cluster = Cluster::start(1).await;
    let flags = ["--ttl", LONG, "--healthz", "leader", "--ready-when-leader"];
    let a = Sidecar::start(&cluster.endpoints(), "jobs", "a", &flags);
    a.leads().await;
    let b = Sidecar::start(&cluster.endpoints(), "jobs", "b", &flags);
    let c = Sidecar::start(&cluster.endpoints(), "jobs", "c", &["--ttl", LONG]);
    b.follows("a").await;
    c.follows("a").await;
    let mut seen = Vec::new();
    for sidecar in [&a, &b, &c] {
        for path in ["/healthz", "/readyz", "/readyz?leader=1"] {
            seen.push(sidecar.status(path).await);
        }
    }
    assert_eq!(seen, [200, 200, 200, 503, 503, 503, 200, 200, 503]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_that_is_told_to_stop_resigns_and_ends() {
    let mut cluster = Cluster::start(1).await;
    let (mut a, mut b, _) = Sidecar::pair(&cluster, "jobs", LONG).await;
    b.waits().await;
    assert_eq!(a.stop().await.code(), Some(0));
    // Long before the lease could have run out.
    b.leads().await;
    let history = ctl(&cluster).run(&["history", "jobs"]).ok();
    assert!(history.lines().next().unwrap().ends_with("resigned"), "{history}");
    // No member confirms it; it ends all the same.
    cluster.members[0].kill();
    assert_eq!(b.stop().await.code(), Some(0));
}

/// With `--grace` the program beside it hears of the end before others may lead.
#[tokio::test(flavor = "multi_thread")]
async fn sidecar_with_grace_names_no_leader_before_others_lead() {
    let cluster = Cluster::start(1).await;
    let a = Sidecar::start(&cluster.endpoints(), "jobs", "a", &["--ttl", LONG, "--grace", "3s"]);
    a.leads().await;
    let b = Sidecar::start(&cluster.endpoints(), "jobs", "b", &["--ttl", LONG]);
    b.follows("a").await;
    b.waits().await;
    let mut told = a.events().await;
    told.until(|_, data| data["is_leader"] == true).await;
    let stepping = a.send("POST", "/step-down", &[]);
    let hears = async {
        told.until(|kind, data| kind == "stale" && data.get("name").is_none()).await;
        // The word has come, and the other does not lead yet.
        assert_ne!(b.ask("/leader").await.json()["is_leader"], true);
    };
    let (done, ()) = tokio::join!(stepping, hears);
    assert_eq!(done.status, 200, "{}", done.body);
    b.leads().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_that_is_evicted_campaigns_again() {
    let cluster = Cluster::start(1).await;
    let (a, b, first) = Sidecar::pair(&cluster, "jobs", LONG).await;
    b.waits().await;
    ctl(&cluster).run(&["evict", "jobs"]).ok();
    let next = b.leads().await;
    assert!(token(&next) > token(&first));
    a.follows("b").await;
    a.waits().await;
    ctl(&cluster).run(&["transfer", "jobs", "--to", "a"]).ok();
    let third = a.leads().await;
    ctl(&cluster).run(&["freeze", "jobs"]).ok();
    for sidecar in [&a, &b] {
        let nobody = sidecar
            .says("that nobody leads", |status, body| status == 200 && body["name"] == "")
            .await;
        assert_eq!(nobody["token"], Value::Null);
    }
    ctl(&cluster).run(&["resume", "jobs"]).ok();
    let back = a.says("who leads", |status, body| status == 200 && body["name"] != "").await;
    assert!(token(&back) > token(&third));
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecars_of_two_elections_on_one_host_do_not_meet() {
    let cluster = Cluster::start(1).await;
    let a = Sidecar::start(&cluster.endpoints(), "jobs", "here", &["--ttl", LONG]);
    let b = Sidecar::start(&cluster.endpoints(), "mail", "here", &["--ttl", LONG]);
    let (first, second) = (a.leads().await, b.leads().await);
    assert_eq!((&first["election"], &second["election"]), (&json!("jobs"), &json!("mail")));

    let taken = a.address.to_string();
    let mut c = Sidecar::start(&cluster.endpoints(), "third", "c", &["--ttl", LONG]);
    c.leads().await;
    c.kill();
    let refused = std::process::Command::new(tools::tenure())
        .args(["sidecar", "--election", "third", "--listen", &taken])
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let owner = format!("process {}", a.pid());
    for part in ["--listen", &owner, &taken] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_metrics_move() {
    let mut cluster = Cluster::start(1).await;
    let (a, b, _) = Sidecar::pair(&cluster, "jobs", TTL).await;
    b.waits().await;
    let address = a.address.to_string();
    let scrape = async || Scrape::of(&address).await.unwrap();
    let before = scrape().await;
    let get = |scrape: &Scrape, name: &str| {
        scrape.total(name).unwrap_or_else(|| panic!("{name} is not there"))
    };
    assert_eq!(get(&before, "leader_election_master_status"), 1.0);
    assert_eq!(get(&before, "tenure_sidecar_fresh"), 1.0);
    assert_eq!(get(&before, "tenure_sidecar_tenures_total"), 1.0);
    assert_eq!(get(&before, "tenure_sidecar_sessions_total"), 1.0);
    assert!(get(&before, "tenure_sidecar_answer_age_seconds") < LEASE.as_secs_f64());
    let listening = a.events().await;
    eventually("a stream is counted", async || {
        let open = get(&scrape().await, "tenure_sidecar_streams");
        if open == 1.0 { Ok(()) } else { Err(open.to_string()) }
    })
    .await;
    drop(listening);
    ctl(&cluster).run(&["evict", "jobs"]).ok();
    a.follows("b").await;
    let lost = scrape().await;
    assert_eq!(get(&lost, "leader_election_master_status"), 0.0);
    assert_eq!(get(&lost, "tenure_sidecar_losses_total"), 1.0);
    assert!(
        get(&lost, "tenure_sidecar_leader_token") > get(&before, "tenure_sidecar_leader_token")
    );
    assert!(
        get(&lost, "tenure_sidecar_answers_total") > get(&before, "tenure_sidecar_answers_total")
    );
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    for metric in lost.types.keys() {
        assert!(
            page.contains(&format!("`{metric}`")),
            "{metric} is not in docs/reference/metrics.md"
        );
    }
    cluster.members[0].kill();
    a.says("nothing", |status, _| status == 503).await;
    let blind = scrape().await;
    assert_eq!(get(&blind, "tenure_sidecar_fresh"), 0.0);
    assert_eq!(get(&blind, "tenure_sidecar_leader_token"), 0.0);
    for moved in ["tenure_sidecar_asks_failed_total", "leader_election_slowpath_total"] {
        assert!(get(&blind, moved) > get(&before, moved), "{moved}");
    }
}

#[test]
fn sidecar_says_at_once_what_cannot_work() {
    for (flags, said) in [
        (&["--election", "jobs/"][..], "must not end with a slash"),
        (&["--election", "jobs", "--ttl", "1ms"], "ttl"),
        (&["--election", "jobs", "--observe-only", "--healthz", "leader"], "never be healthy"),
        (&["--election", "jobs", "--observe-only", "--ready-when-leader"], "cannot be used with"),
        (&["--election", "jobs", "--identity", ""], "--identity"),
        (&["--election", "jobs", "--priority", "1001"], "1001 is not in 0..=1000"),
        (&["--election", "jobs", "--listen", "nowhere"], "is no address"),
        (&["--election", "jobs", "--listen", "nowhere.invalid:1"], "cannot listen on nowhere"),
        (&[], "--election"),
    ] {
        let output = std::process::Command::new(tools::tenure())
            .arg("sidecar")
            .args(if flags.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] })
            .args(flags)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
        assert!(text.contains(said), "{flags:?}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_does_not_wait_for_a_real_etcd() {
    let etcd = Etcd::start(1).await;
    let mut stands = Sidecar::start(&etcd.endpoints(), "jobs", "a", &["--ttl", LONG]);
    let mut looks = Sidecar::observe(&etcd.endpoints(), "jobs", &["--ttl", LONG]);
    for sidecar in [&mut stands, &mut looks] {
        assert_eq!(sidecar.ends().await.code(), Some(1));
        assert!(sidecar.log().contains("needs tenure's own servers"), "{}", sidecar.log());
    }
}

/// There are few connections. A client that asks on and on and never reads an answer must not keep one.
#[tokio::test(flavor = "multi_thread")]
async fn sidecar_hangs_up_on_readers_that_never_read() {
    const PATIENCE: Duration = Duration::from_secs(40);
    let cluster = Cluster::start(1).await;
    let a = Sidecar::start(&cluster.endpoints(), "jobs", "a", &["--ttl", LONG]);
    a.leads().await;
    let mut stream = TcpStream::connect(a.address.to_string()).await.unwrap();
    let ask = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\n\r\n", a.address).repeat(100);
    // Writing stops when the buffers are full: the sidecar has no room for answers.
    let hung_up = tokio::time::timeout(PATIENCE, async {
        while stream.write_all(ask.as_bytes()).await.is_ok() {}
    });
    assert!(hung_up.await.is_ok(), "it is still connected after {PATIENCE:?}");
    a.leads().await;
}
