//! Believers that wrongly believe to lead: every finding about sidecars and status files is provoked
//! here, against a real election.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::patients::{Candidate, elect, examine, has};
use rustix::process::Signal;
use serde_json::{Value, json};
use tenure_e2e::{Cluster, Ctl, Etcd, Sidecar, Supervised, eventually, reserve, tools};

/// A cluster with a leader, its token, and a directory for files.
struct Ward {
    cluster: Cluster,
    token: i64,
    home: tempfile::TempDir,
    _alice: Candidate,
}

impl Ward {
    async fn open() -> Ward {
        let cluster = Cluster::start(1).await;
        let alice = elect(&cluster.endpoints(), "jobs", "alice").await;
        let ctl = Ctl::of(&cluster).with_program(tools::tenure());
        let leader: Value =
            serde_json::from_str(&ctl.run(&["leader", "jobs", "-w", "json"]).ok()).unwrap();
        let token = leader["token"].as_i64().unwrap();
        Ward { cluster, token, home: tempfile::tempdir().unwrap(), _alice: alice }
    }

    fn at(&self) -> String {
        self.cluster.endpoints()
    }

    /// A status file as a sidecar writes it.
    fn file(&self, name: &str, status: &Value) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, status.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn status(identity: &str, token: i64, valid_for_ms: i64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    json!({
        "name": identity, "election": "jobs", "identity": identity, "is_leader": true,
        "token": token, "expires_in_ms": valid_for_ms, "valid_until_unix_ms": now + valid_for_ms,
    })
}

/// Answers `/leader` with what it is given: lies that a real sidecar cannot be made to tell.
fn sidecar(says: Arc<Mutex<(u16, Value)>>) -> String {
    let at = reserve(1)[0];
    let listener = TcpListener::bind((at.ip, at.port)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut bytes = [0; 1024];
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut bytes) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => request.extend_from_slice(&bytes[..count]),
                }
            }
            assert!(request.starts_with(b"GET /leader HTTP/1.1"));
            let (code, body) = says.lock().unwrap().clone();
            let body = body.to_string();
            let _ = write!(
                stream,
                "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    format!("http://{at}")
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_no_fault_with_true_beliefs() {
    let cluster = Cluster::start(1).await;
    let start = |name| {
        let flags = ["--status-file", "status.json"];
        Sidecar::start(&cluster.endpoints(), "jobs", name, &flags)
    };
    let a = start("a");
    a.leads().await;
    let b = start("b");
    b.follows("a").await;
    let urls = [&a, &b].map(|sidecar| format!("http://{}", sidecar.address));
    let files = [&a, &b].map(|sidecar| sidecar.status_file().to_str().unwrap().to_owned());
    let args = ["--sidecar", &urls[0], "--sidecar", &urls[1], "--status-file", &files[0]];
    let args = [&args[..], &["--status-file", &files[1]]].concat();
    let report = eventually("all is well", async || {
        let report = examine(&cluster.endpoints(), &args);
        if report.code == Some(0) { Ok(report) } else { Err(report.json.to_string()) }
    })
    .await;
    assert_eq!(report.kinds(), Vec::<String>::new(), "{}", report.json);
    let believe: Vec<_> = report.json["believers"].as_array().unwrap().iter().collect();
    let believe: Vec<_> = believe.iter().map(|one| one["believes"].as_str().unwrap()).collect();
    assert_eq!(believe, ["leads", "follows", "leads", "follows"]);
}

/// What a real `tenure run` writes, while it is true and when it was left behind.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_takes_the_marker_of_a_command_for_a_claim_to_lead() {
    let cluster = Cluster::start(1).await;
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (marker, left) = (path("marker"), path("left"));
    let words = ["run", "-e", "jobs", "--identity", "alice", "--marker", &marker, "--"];
    let mut job = Supervised::start(
        &cluster.endpoints(),
        &[&words[..], &["sh", "-c", "echo on; cat"]].concat(),
    );
    job.program.says("on").await;
    let report = examine(&cluster.endpoints(), &["--status-file", &marker]);
    assert_eq!((report.code, report.kinds()), (Some(0), vec![]), "{}", report.json);
    let believer = &report.json["believers"][0];
    assert_eq!((&believer["believes"], &believer["election"]), (&"leads".into(), &"jobs".into()));
    assert_eq!(believer["token"], report.json["elections"][0]["candidates"][0]["token"]);

    std::fs::copy(&marker, &left).unwrap();
    job.signal(Signal::TERM);
    job.program.ends().await;
    let report = examine(&cluster.endpoints(), &["--status-file", &left]);
    assert_eq!((report.code, report.level("false_belief")), (Some(1), "critical".into()));
    let text = report.finding("false_belief")["text"].as_str().unwrap();
    assert!(text.contains("alice leads jobs") && text.ends_with("but nobody does"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_no_fault_with_several_permits() {
    let cluster = Cluster::start(1).await;
    let home = tempfile::tempdir().unwrap();
    let markers = ["a", "b"].map(|name| home.path().join(name).to_str().unwrap().to_owned());
    let mut jobs = Vec::new();
    for marker in &markers {
        let words = ["lock", "pool", "--permits", "2", "--marker", marker];
        let words = [&words[..], &["--", "sh", "-c", "echo on; cat"]].concat();
        let job = Supervised::start(&cluster.endpoints(), &words);
        job.program.says("on").await;
        jobs.push(job);
    }
    let args = ["--status-file", &markers[0], "--status-file", &markers[1]];
    let report = examine(&cluster.endpoints(), &args);
    assert_eq!((report.code, report.kinds()), (Some(0), vec![]), "{}", report.json);
}

/// It has no candidates to ask for; the first key is the leader's.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_compares_a_claim_with_the_first_key_on_a_real_etcd() {
    let etcd = Etcd::start(1).await;
    let ctl = Ctl::to(&etcd.endpoints()).with_program(tools::tenure());
    ctl.run(&["put", "jobs/1f", "alice"]).ok();
    let got: Value =
        serde_json::from_str(&ctl.run(&["get", "jobs/1f", "-w", "json"]).ok()).unwrap();
    let token = got["kvs"][0]["create_revision"].as_i64().unwrap();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("status.json");
    let asked = |token| {
        std::fs::write(&path, status("alice", token, 60_000).to_string()).unwrap();
        examine(&etcd.endpoints(), &["--status-file", path.to_str().unwrap()])
    };
    let report = asked(token);
    assert_eq!((report.code, report.kinds()), (Some(0), vec!["not_tenure".into()]));
    let report = asked(token - 1);
    assert_eq!((report.code, report.level("false_belief")), (Some(1), "critical".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_takes_a_false_belief_to_lead_for_the_worst() {
    let ward = Ward::open().await;
    let old = ward.file("old.json", &status("bob", ward.token - 1, 60_000));
    let now = ward.file("now.json", &status("alice", ward.token, 60_000));
    let files = ["--status-file", &now[..], "--status-file", &old];
    let report = has(&ward.at(), &files, "false_belief").await;
    assert_eq!((report.code, report.level("false_belief")), (Some(1), "critical".into()));
    assert_eq!(report.finding("false_belief")["about"], Value::from(old.clone()));
    assert_eq!(report.level("two_believers"), "critical");
    // The same holder, seen twice, is one.
    let twice = ["--status-file", &now[..], "--status-file", &now];
    assert_eq!(examine(&ward.at(), &twice).kinds(), Vec::<String>::new());

    // There is no leader of what it believes to lead.
    let mut other = status("bob", 7, 60_000);
    other["election"] = "other".into();
    let says = Arc::new(Mutex::new((200, other)));
    let report = examine(&ward.at(), &["--sidecar", &sidecar(says)]);
    let text = report.finding("false_belief")["text"].as_str().unwrap();
    assert!(text.ends_with("but nobody does"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_tells_beliefs_that_lag_from_unknown_ones() {
    let ward = Ward::open().await;
    let says = Arc::new(Mutex::new((200, Value::Null)));
    let url = sidecar(Arc::clone(&says));
    let asked = |code: u16, body: Value| {
        *says.lock().unwrap() = (code, body);
        examine(&ward.at(), &["jobs", "--sidecar", &url])
    };
    let follows = |leader: &str, token: i64| {
        json!({"name": leader, "election": "jobs", "identity": "bob", "is_leader": false,
               "token": token, "expires_in_ms": 5000})
    };
    assert_eq!(asked(200, follows("alice", ward.token)).kinds(), Vec::<String>::new());
    let report = asked(200, follows("carol", ward.token - 1));
    assert_eq!((report.code, report.level("belief_lags")), (Some(1), "warning".into()));
    let stale = json!({"error": "older than the lease", "election": "jobs", "is_leader": false});
    let report = asked(503, stale);
    assert_eq!((report.code, report.level("believer_unsure")), (Some(1), "warning".into()));
    let nobody = format!("http://{}", reserve(1)[0]);
    let report = examine(&ward.at(), &["--sidecar", &nobody]);
    assert_eq!((report.code, report.level("believer_unreachable")), (Some(1), "warning".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_tells_old_missing_and_unreadable_files_apart() {
    let ward = Ward::open().await;
    let old = ward.file("old.json", &status("alice", ward.token, -5_000));
    let report = examine(&ward.at(), &["--status-file", &old]);
    assert_eq!((report.code, report.level("stale_belief")), (Some(1), "warning".into()));

    let gone = ward.home.path().join("gone.json");
    let report = examine(&ward.at(), &["--status-file", gone.to_str().unwrap()]);
    assert_eq!((report.code, report.level("no_belief")), (Some(0), "note".into()));

    // A marker only says that there is a leader.
    let marker = ward.home.path().join("leading");
    std::fs::write(&marker, "").unwrap();
    let marker = marker.to_str().unwrap();
    let report = examine(&ward.at(), &["--status-file", marker]);
    assert_eq!((report.code, report.level("unknown_election")), (Some(0), "note".into()));
    assert_eq!(
        examine(&ward.at(), &["jobs", "--status-file", marker]).kinds(),
        Vec::<String>::new()
    );
    let report = examine(&ward.at(), &["other", "--status-file", marker]);
    assert_eq!(report.level("false_belief"), "critical");
    assert!(Path::new(marker).exists(), "the doctor only looks");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_proves_no_belief_without_a_majority() {
    let mut cluster = Cluster::start(3).await;
    cluster.members[1].kill();
    cluster.members[2].kill();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("alice.json");
    std::fs::write(&path, status("alice", 7, 60_000).to_string()).unwrap();
    let at = cluster.members[0].client.to_string();
    let report = has(&at, &["--status-file", path.to_str().unwrap()], "unproven_belief").await;
    assert_eq!(report.level("unproven_belief"), "warning");
    assert_eq!(report.level("no_quorum"), "critical");
}
