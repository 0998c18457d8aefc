//! Alarms: a store that is full, a member that holds something else than the others.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process};
use tenure::grpc::stubs::MaintenanceClient;
use tenure_api::{LeaseId, Principal, op::PutLease};
use tenure_e2e::{Cluster, Ctl, Gateway, Member, Plan, eventually, fetch, pb};
use tenure_replica::{
    Snapshot, SnapshotReader,
    command::Command,
    state::{ApplyEffects, EntryContext},
};
use tenure_server::disk::{SnapshotFileReader, SnapshotWriter};

const QUOTA_BYTES: &str = "4194304";

/// Fills the store until it refuses; answers how many values of 100 kB it took.
async fn fill(cluster: &Cluster) -> usize {
    let client = cluster.client();
    for key in 0..1000 {
        let put = pb::PutRequest {
            key: format!("fill/{key}").into(),
            value: vec![b'x'; 100_000].into(),
            ..Default::default()
        };
        if let Err(refusal) = client.kv().put(put).await {
            let text = refusal.to_string();
            assert!(text.contains("mvcc: database space exceeded"), "{text}");
            return key;
        }
    }
    panic!("the quota does not hold");
}

async fn health(cluster: &Cluster, query: &str) -> (String, String) {
    let address = cluster.members[1].client.to_string();
    fetch(&address, &format!("/health{query}")).await.unwrap()
}

#[tokio::test]
async fn store_that_is_full_keeps_elections_going_and_recovers_by_itself() {
    let cluster = Cluster::with(3, Plan::flags(&["--quota-backend-bytes", QUOTA_BYTES])).await;
    let ctl = Ctl::of(&cluster);
    let taken = fill(&cluster).await;
    assert!((20..=42).contains(&taken), "{taken} values of 100 kB in 4 MiB");
    eventually("the alarm is known", async || {
        let listed = ctl.run(&["alarm", "list"]).ok();
        if listed.contains("NOSPACE") { Ok(()) } else { Err(listed) }
    })
    .await;
    assert!(ctl.run(&["put", "one", "more"]).err.contains("database space exceeded"));
    let (_, body) = health(&cluster, "").await;
    assert!(body.contains(r#""health":"false""#) && body.contains("ALARM NOSPACE"), "{body}");
    let (_, body) = health(&cluster, "?exclude=NOSPACE").await;
    assert!(body.contains(r#""health":"true""#), "{body}");

    // A stock client's lock is a lease and small keys on it.
    let held = ctl.run(&["lock", "jobs", "echo", "held"]).ok();
    assert!(held.contains("held"), "{held}");
    // So is a stock client's candidacy, which another waits for in the middle of it all.
    let line = async |wanted: &str| {
        eventually(&format!("candidates: {wanted}"), async || {
            let order = ["--sort-by", "CREATE", "--print-value-only"];
            let found = ctl.run(&[&["get", "--prefix", "office/"], &order[..]].concat()).ok();
            let found = found.split_whitespace().collect::<Vec<_>>().join(" ");
            if found == wanted { Ok(()) } else { Err(found) }
        })
        .await;
    };
    let candidate = |name: &str| {
        let mut command = ctl.command(&["elect", "office", name]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut leader = candidate("first");
    line("first").await;
    let mut waiter = candidate("second");
    line("first second").await;
    // It resigns when it is interrupted, as at a keyboard.
    let pid = Pid::from_child(&leader);
    kill_process(pid, Signal::INT).unwrap();
    leader.wait().unwrap();
    line("second").await;
    let mut elected = [String::new(), String::new()];
    let mut told = BufReader::new(waiter.stdout.take().unwrap());
    for line in &mut elected {
        told.read_line(line).unwrap();
    }
    assert_eq!(elected[1].trim(), "second", "etcdctl says who leads: {elected:?}");
    let listed = ctl.run(&["alarm", "list"]).ok();
    assert!(listed.contains("NOSPACE"), "there was no room all the while: {listed}");
    waiter.kill().unwrap();
    waiter.wait().unwrap();

    let fill = pb::DeleteRangeRequest {
        key: "fill/".into(),
        range_end: "fill0".into(),
        ..Default::default()
    };
    let deleted = cluster.client().kv().delete_range(fill).await.unwrap();
    ctl.run(&["compaction", &deleted.header.unwrap().revision.to_string()]).ok();
    eventually("the alarm ends by itself", async || {
        let listed = ctl.run(&["alarm", "list"]).ok();
        if listed.trim().is_empty() { Ok(()) } else { Err(listed) }
    })
    .await;
    ctl.run(&["put", "one", "more"]).ok();
    for member in &cluster.members {
        warned_in_time(member);
    }
}

/// The warning comes at the first look after a fifth of the room was left, some values later, and not when all is lost.
fn warned_in_time(member: &Member) {
    let log = member.log();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text:?} is not in: {log}"));
    assert!(at("the store fills up") < at("alarm raised"), "{log}");
    let line = log.lines().find(|line| line.contains("the store fills up")).unwrap();
    let number = |name: &str| {
        let text = line.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap();
        text.parse::<u64>().unwrap()
    };
    let percent = number("used=") * 100 / number("quota=");
    assert!((80..100).contains(&percent), "warned at {percent} %: {line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_hold_the_same_have_the_same_hash() {
    let cluster = Cluster::start(3).await;
    let everywhere = async || {
        eventually("the same hash everywhere", async || {
            let mut seen = Vec::new();
            for member in &cluster.members {
                let mut stub = MaintenanceClient::new(member.client().channel());
                let hash = stub.hash(pb::HashRequest {}).await;
                seen.push(hash.map_err(|error| error.to_string())?.into_inner().hash);
            }
            if seen.windows(2).all(|pair| pair[0] == pair[1]) {
                Ok(seen[0])
            } else {
                Err(format!("{seen:?}"))
            }
        })
        .await
    };
    let empty = everywhere().await;
    let client = cluster.client();
    let put = pb::PutRequest { key: "k".into(), ..Default::default() };
    client.kv().put(put).await.unwrap();
    let with_a_key = everywhere().await;
    assert_ne!(with_a_key, empty);
    client.lease().grant(pb::LeaseGrantRequest { ttl: 600, id: 7 }).await.unwrap();
    assert_ne!(everywhere().await, with_a_key, "it is of all that they hold, not only of keys");
}

#[tokio::test]
async fn alarm_can_be_raised_and_lowered_by_hand() {
    let cluster = Cluster::start(1).await;
    let gateway = Gateway::at(cluster.members[0].client);
    let alarm = async |action: &str, member: u64| {
        let body = format!(r#"{{"action":"{action}","memberID":"{member}","alarm":"CORRUPT"}}"#);
        gateway.post("/v3/maintenance/alarm", body).await
    };
    let health = async |path: &str| {
        let (head, _) = fetch(&cluster.members[0].client.to_string(), path).await.unwrap();
        head.contains(" 200 ")
    };
    let put = r#"{"key":"aw==","value":"dg=="}"#;
    let id = cluster.id(0).await;
    let watch = r#"{"create_request":{"key":"aw=="}}"#;
    let mut watching = gateway.lines("/v3/watch", &[], watch).await;
    assert_eq!(watching.next().await.unwrap()["result"]["created"], true);
    eventually("the cluster knows alarms", async || {
        let raised = alarm("ACTIVATE", id).await;
        if raised.status == 200 { Ok(()) } else { Err(raised.body) }
    })
    .await;
    let refused = gateway.post("/v3/kv/put", put).await;
    assert!(refused.body.contains("etcdserver: corrupt cluster"), "{}", refused.body);
    assert!(health("/livez").await, "nobody shall end it for that");
    assert!(!health("/readyz").await);
    for lines in [watching, gateway.lines("/v3/watch", &[], watch).await] {
        let last = lines.rest().await.pop().expect("it is told why").to_string();
        assert!(last.contains("etcdserver: corrupt cluster"), "{last}");
    }
    let unknown = alarm("ACTIVATE", 7).await;
    assert!(unknown.body.contains("member not found"), "{}", unknown.body);
    let lowered = alarm("DEACTIVATE", 0).await;
    assert!(lowered.body.contains("CORRUPT"), "{}", lowered.body);
    assert_eq!(gateway.post("/v3/kv/put", put).await.status, 200);
}

fn snapshots(member: &Member) -> Vec<PathBuf> {
    let is_snapshot = |file: &PathBuf| file.extension().is_some_and(|kind| kind == "snap");
    member.files("snap").into_iter().filter(is_snapshot).collect()
}

/// Something that the others do not have, in a file whose checksums are all right.
fn rot(member: &Member, command: &Command) {
    let path = snapshots(member).pop().expect("a snapshot was taken");
    let mut reader = SnapshotFileReader::open(&path).unwrap();
    let mut chunks_read = SnapshotReader::new();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        chunks_read.chunk(&chunk).unwrap();
    }
    let (mut state, mark) = (chunks_read.finish().unwrap(), reader.mark().clone());
    let at = EntryContext { index: mark.index, term: mark.term, ms: 0 };
    state.apply(at, &Principal::System, command, &mut ApplyEffects::default()).unwrap();
    let mut writer = SnapshotWriter::create(path.parent().unwrap(), mark.clone()).unwrap();
    for chunk in (Snapshot { mark, state }).chunks() {
        writer.chunk(&chunk).unwrap();
    }
    writer.finish().unwrap();
}

fn put(key: usize) -> pb::PutRequest {
    pb::PutRequest { key: format!("{key}").into(), ..Default::default() }
}

/// Lets one member alone have done this, and waits until it is named. Answers which it is.
async fn rots_and_is_named(command: &Command) -> (Cluster, usize) {
    let flags = ["--corrupt-check-time", "1s", "--snapshot-count", "20"];
    let mut cluster = Cluster::with(3, Plan::flags(&flags)).await;
    let client = cluster.client();
    let rotten = cluster.other_than(cluster.leader().await);
    for key in 0..60 {
        client.kv().put(put(key)).await.unwrap();
    }
    eventually("a snapshot is taken", async || {
        let taken = !snapshots(&cluster.members[rotten]).is_empty();
        if taken { Ok(()) } else { Err("none yet".to_owned()) }
    })
    .await;
    cluster.members[rotten].stop().await;
    rot(&cluster.members[rotten], command);
    cluster.members[rotten].start();
    cluster.members[rotten].ready().await;
    let id = cluster.id(rotten).await;
    let mut key = 100;
    eventually("the difference is found", async || {
        key += 1;
        let healthy = cluster.members[cluster.other_than(rotten)].client();
        healthy.kv().put(put(key)).await.map_err(|cause| cause.to_string())?;
        let listed = Ctl::of(&cluster).run(&["alarm", "list"]).out;
        if listed.contains(&format!("memberID:{id} alarm:CORRUPT")) { Ok(()) } else { Err(listed) }
    })
    .await;
    (cluster, rotten)
}

#[tokio::test]
async fn member_that_holds_something_else_is_named_and_the_others_go_on() {
    let more = tenure_api::Put {
        key: "rot".into(),
        value: Some("rot".into()),
        lease: PutLease::Set(None),
        prev_kv: false,
    };
    let (cluster, rotten) = rots_and_is_named(&Command::Put(more)).await;
    let refused = cluster.members[rotten].client().kv().put(put(0)).await.unwrap_err().to_string();
    assert!(refused.contains("etcdserver: corrupt cluster"), "{refused}");
    let leader = cluster.leader().await;
    cluster.members[leader].logs("these members hold something else than the majority").await;
}

/// The keys are the same everywhere: comparing them alone would find nothing.
#[tokio::test]
async fn member_that_holds_another_lease_is_named_too() {
    let lease = Command::LeaseGrant { id: LeaseId(4711), ttl_secs: 3600 };
    let (cluster, _) = rots_and_is_named(&lease).await;
    let leader = cluster.leader().await;
    cluster.members[leader].logs("these members hold something else than the majority").await;
}
