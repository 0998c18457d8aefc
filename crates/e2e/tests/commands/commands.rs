//! Our own commands for looking after a cluster, beside etcdctl 3.5.1 on the same cluster: what a
//! script reads must be the same, apart from how long things took.

use serde_json::Value;
use tenure_e2e::{Cluster, Ctl, Plan, Said, eventually, pb, tools};

const FORMATS: [&str; 4] = ["simple", "json", "fields", "table"];

/// Both programs, asked the same.
fn both(etcdctl: &Ctl, args: &[&str]) -> (Said, Said) {
    (plain(etcdctl.run(args)), plain(etcdctl.with_program(tools::tenure()).run(args)))
}

/// Without times, and without what etcdctl 3.5.1 does not show yet.
fn plain(mut said: Said) -> Said {
    if let Ok(mut json) = serde_json::from_str::<Value>(&said.out) {
        let entries = json.as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("took");
            if let Some(hash) = entry.get_mut("HashKV").and_then(Value::as_object_mut) {
                hash.remove("hash_revision");
            }
        }
        // etcdctl prints members in the order in which they answered.
        entries.sort_by_key(Value::to_string);
        said.out = json.to_string();
        return said;
    }
    let mut lines: Vec<String> = said.out.lines().map(without_time).collect();
    if ["is healthy", "\"Took\"", "TOOK"].iter().any(|mark| said.out.contains(mark)) {
        lines.sort();
    }
    said.out = lines.join("\n");
    said
}

fn without_time(line: &str) -> String {
    let words = line.split_whitespace().map(|word| match word.strip_suffix("ms") {
        Some(number) if number.parse::<f64>().is_ok() => "…",
        _ => word,
    });
    // Rules and padding of a table are as wide as the time in it.
    words.filter(|word| !word.starts_with('+')).collect::<Vec<_>>().join(" ")
}

/// Writes until there is no room for more.
fn fill(ctl: &Ctl) {
    let value = "x".repeat(100_000);
    let full = (0..50).map(|n| ctl.run_with(&["put", &format!("big{n}")], &value));
    let refused = full.into_iter().find(|said| said.code != Some(0)).unwrap();
    assert!(refused.err.contains("database space exceeded"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_verbs_shows_members_and_alarms_as_etcdctl_does() {
    let cluster = Cluster::with(3, Plan::flags(&["--quota-backend-bytes", "1048576"])).await;
    let etcdctl = Ctl::of(&cluster);
    etcdctl.run(&["put", "a", "1"]).ok();
    cluster.same_everywhere().await;
    // Where any member may answer, both ask the same one.
    let first = Ctl::to(&cluster.members[0].client.to_string());
    let same_in = |formats: &[&str], verb: &[&str]| {
        let asked = if verb[0] == "alarm" { &first } else { &etcdctl };
        for format in formats {
            let args = [verb, &["-w", format]].concat();
            let (theirs, ours) = both(asked, &args);
            assert_eq!(ours.out, theirs.out, "{args:?}");
            assert_eq!(ours.code == Some(0), theirs.code == Some(0), "{args:?}: {ours:?}");
        }
    };
    let same = |verb: &[&str]| same_in(&FORMATS, verb);
    for verb in [&["endpoint", "health"][..], &["endpoint", "status"], &["endpoint", "hashkv"]] {
        same(verb);
        same(&[verb, &["--cluster"]].concat());
    }
    same(&["endpoint", "hashkv", "--rev", "2"]);
    same(&["alarm", "list"]);

    fill(&etcdctl.with_program(tools::tenure()));
    cluster.same_everywhere().await;
    same(&["alarm", "list"]);
    // Its tables break a long cell into several lines; ours stay one line a member.
    same_in(&FORMATS[..3], &["endpoint", "health"]);
    same_in(&FORMATS[..3], &["endpoint", "status"]);
    let health = etcdctl.with_program(tools::tenure()).run(&["endpoint", "health"]);
    assert_eq!((health.code, &health.err[..]), (Some(1), "Error: unhealthy cluster"));

    etcdctl.with_program(tools::tenure()).run(&["del", "big", "--prefix"]).ok();
    let status = etcdctl.with_program(tools::tenure()).run(&["get", "a", "-w", "json"]).ok();
    let status: Value = serde_json::from_str(&status).unwrap();
    etcdctl
        .with_program(tools::tenure())
        .run(&["compact", &status["header"]["revision"].to_string()])
        .ok();
    eventually("the alarm ends by itself", async || {
        let listed = etcdctl.run(&["alarm", "list"]).ok();
        if listed.is_empty() { Ok(()) } else { Err(listed) }
    })
    .await;

    // This one stays until it is disarmed.
    let id = cluster.id(2).await;
    let raise = pb::AlarmRequest {
        action: pb::alarm_request::AlarmAction::Activate as i32,
        member_id: id,
        alarm: pb::AlarmType::Corrupt as i32,
    };
    let raised = format!("memberID:{id} alarm:CORRUPT \n");
    for program in [first.program(), tools::tenure()] {
        cluster.members[0].client().maintenance().alarm(raise).await.unwrap();
        same(&["alarm", "list"]);
        assert_eq!(first.with_program(program).run(&["alarm", "disarm"]).ok(), raised);
        assert_eq!(first.run(&["alarm", "list"]).ok(), "");
    }
    etcdctl.with_program(tools::tenure()).run(&["put", "b", "1"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_verbs_names_the_member_that_does_not_answer() {
    let mut cluster = Cluster::start(3).await;
    let ours = Ctl::of(&cluster).with_program(tools::tenure());
    assert_eq!(ours.run(&["endpoint", "hashkv"]).err, "all 3 members are equal at revision 1");
    cluster.members[2].kill();
    let gone = cluster.members[2].client.to_string();
    let health = ours.run(&["endpoint", "health", "-w", "json"]);
    assert_eq!(health.code, Some(1));
    let health: Value = serde_json::from_str(&health.out).unwrap();
    let sick: Vec<_> = health.as_array().unwrap().iter().filter(|m| m["health"] == false).collect();
    assert_eq!(sick.len(), 1, "{health}");
    assert_eq!(sick[0]["endpoint"], gone);
    let status = ours.run(&["endpoint", "status"]);
    assert_eq!((status.code, status.out.lines().count()), (Some(1), 2), "{status:?}");
    assert!(status.err.starts_with(&format!("no status of {gone}: ")), "{status:?}");
    assert_ne!(ours.run(&["endpoint", "hashkv"]).code, Some(0));
    assert_eq!(ours.run(&["defrag"]).code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_verbs_compacts_and_defragments() {
    let cluster = Cluster::start(1).await;
    let etcdctl = Ctl::of(&cluster);
    let ours = etcdctl.with_program(tools::tenure());
    for n in 0..5 {
        ours.run(&["put", "a", &n.to_string()]).ok();
    }
    assert_eq!(ours.run(&["compact", "3"]).ok(), "compacted revision 3\n");
    assert_eq!(ours.run(&["compaction", "4", "--physical"]).ok(), "compacted revision 4\n");
    for (revision, text) in [("4", "has been compacted"), ("99", "is a future revision")] {
        let (theirs, mine) = both(&etcdctl, &["compaction", revision]);
        assert!(theirs.err.contains(text), "{theirs:?}");
        assert_eq!(mine.code, Some(1), "{mine:?}");
    }
    let (theirs, mine) = both(&etcdctl, &["defrag"]);
    assert_eq!(mine.out, theirs.out);
    assert!(mine.err.contains("nothing to do"), "{mine:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_verbs_finds_the_raft_leader_by_itself() {
    let cluster = Cluster::start(3).await;
    let from = cluster.leader().await;
    let to = cluster.other_than(from);
    let (old, new) = (cluster.id(from).await, cluster.id(to).await);
    // Only the future raft leader is named, which cannot hand over; etcdctl gives up here.
    let only = Ctl::to(&cluster.members[to].client.to_string());
    let id = format!("{new:x}");
    assert!(only.run(&["move-leader", &id]).err.contains("no leader endpoint given"));
    let said = only.with_program(tools::tenure()).run(&["move-leader", &id]).ok();
    assert_eq!(said, format!("Leadership transferred from {old:x} to {new:x}\n"));
    assert_eq!(cluster.leader().await, to);
    let nobody = Ctl::of(&cluster).with_program(tools::tenure()).run(&["move-leader", "1234"]);
    assert_eq!(nobody.code, Some(1));
    assert_eq!(
        Ctl::of(&cluster).with_program(tools::tenure()).run(&["move-leader", "nobody"]).code,
        Some(2)
    );
}
