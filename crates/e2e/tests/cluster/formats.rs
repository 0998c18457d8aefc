//! Data directories that earlier builds wrote: a member starts on them and knows all that is in them.
//!
//! `samples/version-<n>` is what a member wrote when the cluster version was n: its labels, its log without the
//! zeros at the end, its snapshots. It is never changed. A new cluster version brings a new sample, made by
//!
//! ```sh
//! TENURE_SAMPLE=$PWD/crates/e2e/tests/cluster/samples/version-9 cargo nextest run --workspace -E "test(its_own_data)"
//! ```

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
};

use tenure::api::wire::tenure::v1::{EndReason, EvictRequest, Join};
use tenure_e2e::{
    Address, Cluster, Member, Plan, eventually, pb, reserve,
    session::{SessionStream, connect},
};
use tenure_replica::command::COMMAND_VERSION;

/// Before this version there were no samples.
const FIRST_SAMPLE: u32 = 3;
/// The first segment of a log. The sample has none of its zeros.
const SEGMENT_BYTES: u64 = 8 << 20;
/// The longest time to live of a session: a holder in a sample still holds when it is read, years later.
const TTL_SECS: i64 = 24 * 3600;
const LEASE: i64 = 0x4d2;
const CANDIDATE: i64 = 0x162e;

/// A cluster of one. Where it says that other members reach it is part of its cluster's id, and none calls; it listens
/// wherever there is room.
fn alone() -> Cluster {
    let [client, peer] = reserve(2)[..] else { unreachable!("two were asked for") };
    let told = Address { ip: [127, 0, 0, 1].into(), port: 2380 };
    let flags = ["--snapshot-count", "20"];
    let plan = Plan { addresses: Some(vec![(client, told)]), ..Plan::flags(&flags) };
    let mut cluster = Cluster::prepare(1, plan);
    cluster.members[0].moved_to = Some(peer);
    cluster
}

async fn put(cluster: &Cluster, key: &str, value: &str, lease: i64) {
    let (key, value) = (key.to_owned().into(), value.to_owned().into());
    let request = pb::PutRequest { key, value, lease, ..Default::default() };
    cluster.client().kv().put(request).await.unwrap();
}

async fn session(cluster: &Cluster, identity: &str) -> SessionStream {
    let channel = connect(cluster.members[0].client).await;
    SessionStream::open(channel, identity, TTL_SECS as u64 * 1000, false).await
}

fn join(name: &str) -> Join {
    Join { names: vec![name.to_owned()], ..Default::default() }
}

fn snapshots(member: &Member) -> Vec<PathBuf> {
    let mut files = member.files("snap");
    files.retain(|file| file.extension().is_some_and(|kind| kind == "snap"));
    files
}

/// Has something of everything written: keys with history, leases, sessions, elections, a delay, tenures; first into
/// a snapshot, then more into the log behind it.
async fn write_all(cluster: &mut Cluster) {
    let client = cluster.client();
    for value in ["one", "two", "three"] {
        put(cluster, "plain", value, 0).await;
    }
    let compact = pb::CompactionRequest { revision: 2, physical: true };
    client.kv().compact(compact).await.unwrap();
    for id in [LEASE, CANDIDATE] {
        client.lease().grant(pb::LeaseGrantRequest { ttl: TTL_SECS, id }).await.unwrap();
    }
    put(cluster, "leased", "value", LEASE).await;
    // As etcd's recipe has it.
    put(cluster, &format!("office/{CANDIDATE:x}"), "stock", CANDIDATE).await;

    let mut old = session(cluster, "old").await;
    old.join("jobs").await;
    let mut next = session(cluster, "next").await;
    let careful = Join { no_overlap: true, ..join("jobs") };
    next.join_as(Join { metadata: [("zone".into(), "west".into())].into(), ..careful }).await;
    let evict = EvictRequest { name: "jobs".into(), token: 0 };
    client.elections().evict(evict).await.unwrap();
    client.elections().freeze("closed".to_owned()).await.unwrap();

    let mut key = 0;
    eventually("a snapshot is taken", async || {
        key += 1;
        put(cluster, &format!("fill/{key}"), "value", 0).await;
        snapshots(&cluster.members[0]).pop().map(drop).ok_or_else(|| "none yet".to_owned())
    })
    .await;
    put(cluster, "behind", "the snapshot", 0).await;
    next.join("late").await;
    client.elections().freeze("closed later".to_owned()).await.unwrap();
    assert!(cluster.members[0].stop().await.success());
}

/// Everything that [`write_all`] had written is answered, and life goes on.
async fn knows_all(cluster: &Cluster) {
    let client = cluster.client();
    let get = async |key: &'static str, revision| {
        let request = pb::RangeRequest { key: key.into(), revision, ..Default::default() };
        client.kv().range(request).await.unwrap().kvs.pop().expect("the key is there")
    };
    let now = get("plain", 0).await;
    assert_eq!((&now.value[..], now.version, now.create_revision), (&b"three"[..], 3, 2));
    assert_eq!(&get("plain", 3).await.value[..], b"two");
    assert_eq!(&get("behind", 0).await.value[..], b"the snapshot");
    assert_eq!(get("leased", 0).await.lease, LEASE);

    let request = pb::LeaseTimeToLiveRequest { id: LEASE, keys: true };
    let lease = client.lease().time_to_live(request).await.unwrap();
    assert_eq!((lease.granted_ttl, &lease.keys[..]), (TTL_SECS, &["leased".into()][..]));

    let jobs = client.elections().candidates("jobs".to_owned()).await.unwrap();
    let next = &jobs.candidates[0];
    assert_eq!((jobs.candidates.len(), &next.identity[..], next.holds), (1, "next", true));
    assert_eq!(next.metadata["zone"], "west");
    assert!(jobs.delay_ms.is_some(), "the one before may not have stopped");
    let history = client.elections().history("jobs".to_owned()).await.unwrap();
    let told: Vec<_> = history.tenures.iter().map(|t| (&t.identity[..], t.reason())).collect();
    assert_eq!(told[0], ("old", EndReason::Evicted));
    for name in ["closed", "closed later"] {
        assert!(client.elections().candidates(name.to_owned()).await.unwrap().frozen, "{name}");
    }
    let office = client.elections().candidates("office".to_owned()).await.unwrap();
    assert!(office.candidates[0].stock && office.candidates[0].holds);
    let late = client.elections().candidates("late".to_owned()).await.unwrap();
    assert_eq!(late.candidates[0].session, next.session);

    let sessions = client.sessions().list().await.unwrap().sessions;
    let mut identities: Vec<_> = sessions.iter().map(|session| &session.identity[..]).collect();
    identities.sort_unstable();
    assert_eq!(identities, ["next", "old"]);
    client.lease().revoke(LEASE).await.unwrap();
    let request = pb::RangeRequest { key: "leased".into(), ..Default::default() };
    assert_eq!(client.kv().range(request).await.unwrap().count, 0, "it went with its lease");
    let mut newcomer = session(cluster, "newcomer").await;
    let token = newcomer.join("jobs").await.candidacies[0].token;
    assert!(token > next.token, "tokens grow");
}

/// The files of a data directory without a log's zeros.
fn keep(data: &Path, sample: &Path) {
    for folder in ["", "wal", "snap"] {
        fs::create_dir_all(sample.join(folder)).unwrap();
        for entry in fs::read_dir(data.join(folder)).unwrap().flatten() {
            let name = entry.file_name();
            if entry.path().is_dir() || name == "lock" {
                continue;
            }
            let mut bytes = fs::read(entry.path()).unwrap();
            if folder == "wal" {
                let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
                bytes.truncate((used + 1).next_multiple_of(8));
            }
            fs::write(sample.join(folder).join(name), bytes).unwrap();
        }
    }
}

/// A data directory as the sample was before it was cut short.
fn unpack(sample: &Path, data: &Path) {
    for folder in ["", "wal", "snap"] {
        fs::create_dir_all(data.join(folder)).unwrap();
        for entry in fs::read_dir(sample.join(folder)).unwrap().flatten() {
            let place = data.join(folder).join(entry.file_name());
            if entry.path().is_file() {
                fs::copy(entry.path(), &place).unwrap();
            }
            if folder == "wal" {
                let log = File::options().write(true).open(&place).unwrap();
                log.set_len(SEGMENT_BYTES).unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn member_knows_all_of_the_data_of_earlier_builds() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/samples");
    for version in FIRST_SAMPLE..=COMMAND_VERSION {
        let sample = samples.join(format!("version-{version}"));
        assert!(sample.is_dir(), "version {version} has no sample: see the top of this file");
        let mut cluster = alone();
        unpack(&sample, &cluster.members[0].data_dir);
        cluster.members[0].start();
        cluster.ready().await;
        knows_all(&cluster).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn member_knows_all_of_its_own_data() {
    let mut cluster = alone();
    cluster.members[0].start();
    cluster.ready().await;
    write_all(&mut cluster).await;
    if let Some(sample) = env::var_os("TENURE_SAMPLE") {
        keep(&cluster.members[0].data_dir, Path::new(&sample));
    }
    cluster.members[0].start();
    cluster.ready().await;
    knows_all(&cluster).await;
}
