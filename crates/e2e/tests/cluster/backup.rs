//! Backups of real clusters, real clusters from backups, and what is left of a lost majority.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;
use tenure::grpc::Client;
use tenure_e2e::{
    Cluster, Ctl, Gateway, Load, Member, Plan, Volume, eventually, mvccpb::KeyValue, pb, tools,
};

/// Revisions jump at least so far (the design's promise; ours is larger).
const JUMP_MIN: i64 = 1_000_000_000;

/// `tenure snapshot …`, at these endpoints.
fn snapshot(endpoints: &str, args: &[&str]) -> Command {
    let mut command = Command::new(tools::tenure());
    command.args(["--endpoints", endpoints, "snapshot"]).args(args).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Saves what a member holds.
fn save(member: &Member, file: &Path) {
    let mut command = snapshot(&member.client.to_string(), &["save"]);
    let said = done(&command.arg(file).output().unwrap());
    assert!(said.starts_with("Snapshot saved at "), "{said}");
}

fn status(file: &Path) -> Value {
    let mut command = snapshot("none:1", &["status", "-w", "json"]);
    serde_json::from_str(&done(&command.arg(file).output().unwrap())).unwrap()
}

/// A cluster of members that were restored from a file.
async fn restored(count: usize, file: &Path) -> Cluster {
    let mut cluster = Cluster::prepare(count, Plan::default());
    for member in &mut cluster.members {
        done(&member.restore(file));
        member.start();
    }
    cluster.ready().await;
    cluster
}

async fn put(client: &Client, key: &str, lease: i64) -> i64 {
    let put = pb::PutRequest {
        key: key.to_owned().into(),
        value: "v".into(),
        lease,
        ..Default::default()
    };
    let put = eventually("a put", async || {
        client.kv().put(put.clone()).await.map_err(|error| error.to_string())
    });
    put.await.header.unwrap().revision
}

/// A lease, and a key on it.
async fn session(client: &Client) -> i64 {
    let lease = client.lease().grant(pb::LeaseGrantRequest { ttl: 600, id: 0 }).await.unwrap().id;
    put(client, "session/holder", lease).await
}

/// Everything at a revision, by key.
async fn everything(client: &Client, revision: i64) -> Result<BTreeMap<Vec<u8>, KeyValue>, String> {
    let range = pb::RangeRequest {
        key: "\0".into(),
        range_end: "\0".into(),
        revision,
        ..Default::default()
    };
    let found = client.kv().range(range).await.map_err(|error| error.to_string())?;
    Ok(found.kvs.into_iter().map(|kv| (kv.key.to_vec(), kv)).collect())
}

async fn cluster_id(client: &Client) -> u64 {
    client.maintenance().status().await.unwrap().header.unwrap().cluster_id
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_saves_what_we_can_read() {
    let home = TempDir::new().unwrap();
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let revision = session(&client).await;
    let (theirs, ours) = (home.path().join("theirs.db"), home.path().join("ours.db"));
    Ctl::of(&cluster).run(&["snapshot", "save", theirs.to_str().unwrap()]).ok();
    save(&cluster.members[0], &ours);
    let hash = client.maintenance().hash_kv(pb::HashKvRequest { revision: 0 }).await.unwrap();
    for file in [theirs, ours] {
        let status = status(&file);
        assert_eq!(status["revision"], revision);
        assert_eq!(status["hash"], hash.hash, "what HashKV says");
        assert_eq!((&status["totalKey"], &status["leases"]), (&1.into(), &1.into()));
        assert_eq!(status["clusterId"], cluster_id(&client).await);
        assert_eq!(status["members"][0]["name"], "n1");
        assert!(!home.path().join("ours.db.part").exists());
    }
}

/// What a piece of JSON carries.
fn decoded(base64: &str) -> Vec<u8> {
    let mut command = Command::new(tools::system("base64", "coreutils"));
    let mut child = command.arg("-d").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = base64.to_owned();
    let writing = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_over_http_is_the_same_file() {
    let home = TempDir::new().unwrap();
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let revision = session(&client).await;
    let gateway = Gateway::at(cluster.members[0].client);
    let pieces = gateway.lines("/v3/maintenance/snapshot", &[], "{}").await.rest().await;
    let mut bytes = Vec::new();
    for piece in &pieces {
        bytes.extend(decoded(piece["result"]["blob"].as_str().unwrap_or_default()));
    }
    let file = home.path().join("http.db");
    fs::write(&file, &bytes).unwrap();
    // It reads the file to its end and compares the checksum there.
    assert_eq!(status(&file)["revision"], revision);
    let hash = client.maintenance().hash_kv(pb::HashKvRequest { revision: 0 }).await.unwrap();
    assert_eq!(status(&file)["hash"], hash.hash, "what HashKV says");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let refused = snapshot("none:1", &["status"]).arg(&file).output().unwrap();
    assert!(!refused.status.success(), "{}", text(&refused.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_taken_under_load_becomes_one_member_or_three() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("backup.db");
    let old = Cluster::start(3).await;
    session(&old.client()).await;
    let load = Load::start("load", old.members.iter().map(Member::client).collect());
    load.progress(200).await;
    save(&old.members[old.other_than(old.leader().await)], &file);
    load.progress(200).await;
    load.stop().await.assert_no_failure();
    let client = old.client();
    let last = put(&client, "after", 0).await;
    let saved = status(&file)["revision"].as_i64().unwrap();
    assert!(saved < last);
    let mut kept = everything(&client, saved).await.unwrap();
    kept.retain(|_, kv| kv.lease == 0);
    assert!(kept.len() >= 200);

    // The second time by three, too: what the first three gave out must not come again.
    let mut newest = last + JUMP_MIN;
    for count in [1, 3, 3] {
        let mut new = restored(count, &file).await;
        let client = new.client();
        assert_eq!(everything(&client, 0).await.unwrap(), kept, "all but what hung on a lease");
        assert!(client.lease().leases().await.unwrap().leases.is_empty());
        assert_ne!(cluster_id(&client).await, cluster_id(&old.client()).await);
        for past in [1, saved, last] {
            let refused = everything(&client, past).await.unwrap_err();
            assert!(refused.contains("required revision has been compacted"), "{refused}");
        }
        let watched = pb::WatchCreateRequest {
            key: "load/".into(),
            start_revision: saved,
            ..Default::default()
        };
        let refused = match client.watch().resumed(watched).await {
            Ok(mut watch) => format!("{:?}", watch.next().await),
            Err(error) => error.to_string(),
        };
        assert!(refused.to_lowercase().contains("compact"), "{refused}");
        let first = put(&client, "new", 0).await;
        assert!(first > newest, "{first} after {newest}");
        new.same_everywhere().await;

        // What was restored outlives its first start.
        new.members.iter_mut().for_each(Member::kill);
        new.members.iter_mut().for_each(Member::start);
        new.ready().await;
        newest = put(&new.client(), "newer", 0).await;
        assert!(newest > first);
        assert_eq!(everything(&new.client(), 0).await.unwrap().len(), kept.len() + 2);
        new.same_everywhere().await;
    }
}

/// Each is refused with a reason, and leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn restore_refuses_a_bad_file() {
    let home = TempDir::new().unwrap();
    let cluster = Cluster::start(1).await;
    for n in 0..50 {
        put(&cluster.client(), &format!("key{n}"), 0).await;
    }
    let good = home.path().join("good.db");
    save(&cluster.members[0], &good);
    let etcd = Ctl::with_real_etcd().await;
    etcd.run(&["put", "a", "b"]).ok();
    let theirs = home.path().join("etcd.db");
    etcd.run(&["snapshot", "save", theirs.to_str().unwrap()]).ok();
    // Asked of a stock etcd, we save its file too, and say that it is etcd's.
    let mut asked = snapshot(etcd.endpoints(), &["save"]);
    let output = asked.arg(home.path().join("stock.db")).output().unwrap();
    assert!(text(&output.stderr).contains("a database of etcd"), "{}", text(&output.stderr));

    let bytes = fs::read(&good).unwrap();
    let flipped = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        bytes
    };
    let end = bytes.len();
    let cases: [(&str, Vec<u8>, &str); 8] = [
        ("cut in the middle", bytes[..end / 2].to_vec(), "is cut off"),
        ("cut before the checksum", bytes[..end - 32].to_vec(), "is cut off"),
        ("changed header", flipped(9), "was changed"),
        ("changed data", flipped(end / 2), "was changed"),
        ("changed checksum", flipped(end - 1), "was changed"),
        ("of etcd", fs::read(&theirs).unwrap(), "a database of etcd"),
        ("noise", (0..5000_u32).map(|n| ((n * 7919) >> 3) as u8).collect(), "is not a snapshot"),
        ("nothing", vec![], "it is empty"),
    ];
    let target = Cluster::prepare(1, Plan::default());
    let member = &target.members[0];
    for (what, bytes, expected) in cases {
        let file = home.path().join("bad.db");
        fs::write(&file, bytes).unwrap();
        let output = member.restore(&file);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what}: {said}");
        assert!(said.contains(expected), "{what}: {said}");
        assert!(!member.data_dir.exists(), "{what}");
    }
    let missing = member.restore(&home.path().join("missing.db"));
    assert!(text(&missing.stderr).contains("No such file"), "{}", text(&missing.stderr));
    assert_eq!(member.restore(&good).status.code(), Some(0), "the good one still works");
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_does_not_overwrite_a_members_data() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("backup.db");
    let mut cluster = Cluster::start(1).await;
    put(&cluster.client(), "precious", 0).await;
    save(&cluster.members[0], &file);
    for runs in [true, false] {
        if !runs {
            cluster.members[0].kill();
        }
        let output = cluster.members[0].restore(&file);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("is not empty"), "{}", text(&output.stderr));
    }
    cluster.members[0].start();
    cluster.ready().await;
    assert_eq!(everything(&cluster.client(), 0).await.unwrap().len(), 1);
}

/// The log is in its place already when the data finds a volume in the way.
#[tokio::test(flavor = "multi_thread")]
async fn restore_that_did_not_get_to_its_place_can_be_tried_again() {
    let home = TempDir::new().unwrap();
    let (file, log) = (home.path().join("backup.db"), home.path().join("log"));
    let cluster = Cluster::start(1).await;
    put(&cluster.client(), "kept", 0).await;
    save(&cluster.members[0], &file);
    let volume = Volume::new("size=64m");
    let mut target = Cluster::prepare(1, Plan::default());
    let member = &mut target.members[0];
    let flags = ["--wal-dir".to_owned(), log.to_str().unwrap().to_owned()];
    let restore = |member: &Member| {
        let mut command = snapshot("none:1", &["restore", "--name", &member.name]);
        command.arg(&file).args(["--initial-cluster", member.initial_cluster()]);
        command.args(["--initial-advertise-peer-urls", &member.peer.url()]);
        command.arg("--data-dir").arg(&member.data_dir).args(&flags).output().unwrap()
    };
    member.data_dir = volume.path().to_owned();
    let refused = restore(member);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("a directory inside it"), "{said}");
    assert!(!log.exists(), "a log without its data is in the way of the next attempt");

    member.data_dir = volume.path().join("inside");
    done(&restore(member));
    member.spawn.flags = flags.to_vec();
    member.start();
    member.ready().await;
    assert_eq!(everything(&member.client(), 0).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn member_that_dies_while_it_is_saved_leaves_no_file() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("backup.db");
    fs::write(&file, "the one before").unwrap();
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client();
    for n in 0..64 {
        let value = vec![n; 1 << 20].into();
        let put = pb::PutRequest { key: vec![b'k', n].into(), value, ..Default::default() };
        client.kv().put(put).await.unwrap();
    }
    let mut command = snapshot(&cluster.endpoints(), &["save"]);
    let saving = command.arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let part = PathBuf::from(format!("{}.part", file.display()));
    eventually("it has begun", async || match fs::metadata(&part) {
        Ok(part) if part.len() > 0 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    cluster.members[0].kill();
    let output = saving.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}{said}", text(&output.stdout));
    assert!(said.contains("broke off") || said.contains("in the middle"), "{said}");
    assert!(!part.exists());
    assert_eq!(fs::read_to_string(&file).unwrap(), "the one before");
}

/// Each has a connection of its own: a stream that is not read holds up all others on the same one.
#[tokio::test(flavor = "multi_thread")]
async fn backups_are_taken_four_at_a_time_and_no_more() {
    let cluster = Cluster::start(1).await;
    for n in 0..16 {
        let value = vec![n; 1 << 20].into();
        let put = pb::PutRequest { key: vec![b'k', n].into(), value, ..Default::default() };
        cluster.client().kv().put(put).await.unwrap();
    }
    let mut begun = Vec::new();
    for _ in 0..4 {
        let mut stream = cluster.client().maintenance().snapshot().await.unwrap();
        assert!(stream.message().await.unwrap().is_some());
        begun.push(stream);
    }
    let fifth = async || {
        let opened = cluster.client().maintenance().snapshot().await;
        let mut stream = opened.map_err(|error| error.to_string())?;
        stream.message().await.map(drop).map_err(|status| status.message().to_owned())
    };
    let refused = fifth().await.unwrap_err();
    assert!(refused.contains("etcdserver: too many requests"), "{refused}");
    begun.pop();
    eventually("there is room for another", fifth).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn survivor_of_three_goes_on_alone() {
    let mut cluster = Cluster::start(3).await;
    let before = cluster_id(&cluster.client()).await;
    session(&cluster.client()).await;
    let load = Load::start("load", vec![cluster.client()]);
    load.progress(100).await;
    load.stop().await.assert_no_failure();
    let last = put(&cluster.client(), "last", 0).await;
    cluster.same_everywhere().await;
    let mut kept = everything(&cluster.client(), 0).await.unwrap();
    kept.retain(|_, kv| kv.lease == 0);
    cluster.members.iter_mut().for_each(Member::kill);

    cluster.members[0].spawn.flags.push("--force-new-cluster".into());
    cluster.members[0].start();
    cluster.members[0].ready().await;
    cluster.members[0].logs("FORCING A NEW CLUSTER").await;
    let client = cluster.members[0].client();
    assert_eq!(everything(&client, 0).await.unwrap(), kept);
    let forced = cluster_id(&client).await;
    assert_ne!(forced, before);
    let first = put(&client, "alone", 0).await;
    assert!(first > last + JUMP_MIN);
    let members =
        client.cluster().member_list(pb::MemberListRequest::default()).await.unwrap().members;
    assert_eq!(members.iter().map(|member| &member.name[..]).collect::<Vec<_>>(), ["n1"]);

    // The flag was forgotten in a unit file: nothing happens a second time.
    cluster.members[0].kill();
    cluster.members[0].start();
    cluster.members[0].ready().await;
    cluster.members[0].logs("has no effect").await;
    assert_eq!(cluster_id(&client).await, forced);
    assert_eq!(put(&client, "again", 0).await, first + 1);

    // One of the others comes back after all. It finds no member of its cluster, and disturbs none.
    cluster.members[1].start();
    cluster.members[1].logs("it belongs to cluster").await;
    assert_eq!(put(&client, "undisturbed", 0).await, first + 2);
    cluster.members[0].kill();
    cluster.members[0].spawn.flags.clear();
    cluster.members[0].start();
    cluster.members[0].ready().await;
    assert_eq!(everything(&client, 0).await.unwrap().len(), kept.len() + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn force_new_cluster_of_nothing_or_of_data_in_use_is_refused() {
    let force = Plan::flags(&["--force-new-cluster"]);
    let mut empty = Cluster::prepare(1, force.clone());
    empty.members[0].start();
    assert!(!empty.members[0].wait_for_end().await.success());
    let log = empty.members[0].log();
    assert!(log.contains("holds no member's data"), "{log}");
    assert!(!empty.members[0].data_dir.exists());

    let cluster = Cluster::start(1).await;
    let mut second = Cluster::prepare(1, force);
    second.members[0].data_dir.clone_from(&cluster.members[0].data_dir);
    second.members[0].start();
    assert!(!second.members[0].wait_for_end().await.success());
    let log = second.members[0].log();
    assert!(log.contains("another process uses this data directory"), "{log}");
    put(&cluster.client(), "still", 0).await;
}
