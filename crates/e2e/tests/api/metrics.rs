//! Every metric is made to move, and held against a real etcd's.

use std::time::Duration;

use tenure::api::wire::tenure::v1;
use tenure::grpc::{Client, Options};
use tenure_e2e::{
    Caller, Cluster, Ctl, Plan, Scrape, Watcher, eventually, fetch, pb,
    session::{SessionStream, connect, elections},
    tools,
};
use tokio::task::JoinSet;

/// Event one node on its own can be made to do, and what moves by it.
#[rustfmt::skip]
const ALONE: &[(Act, &[&str])] = &[
    (Act::Put, &[
        "etcd_mvcc_put_total", "etcd_debugging_mvcc_total_put_size_in_bytes", "etcd_mvcc_db_total_size_in_bytes",
        "etcd_mvcc_db_total_size_in_use_in_bytes", "etcd_debugging_mvcc_keys_total", "etcd_debugging_mvcc_current_revision",
        "etcd_server_proposals_committed_total", "etcd_server_proposals_applied_total", "etcd_server_slow_apply_total",
        "etcd_disk_wal_fsync_duration_seconds", "etcd_disk_backend_commit_duration_seconds", "etcd_disk_wal_write_bytes_total",
        "etcd_network_client_grpc_received_bytes_total", "etcd_network_client_grpc_sent_bytes_total",
        "grpc_server_started_total", "grpc_server_handled_total", "grpc_server_msg_received_total", "grpc_server_msg_sent_total",
        "grpc_server_handling_seconds",
        "tenure_core_round_seconds", "tenure_core_round_cpu_seconds", "tenure_core_round_inputs", "tenure_wal_batch_bytes",
        "tenure_log_tail_bytes", "tenure_log_tail_entries",
    ]),
    (Act::PutMuch, &["tenure_client_reads_held_total"]),
    (Act::Get, &["etcd_mvcc_range_total", "etcd_debugging_mvcc_range_total"]),
    (Act::Delete, &["etcd_mvcc_delete_total"]),
    (Act::Txn, &["etcd_mvcc_txn_total"]),
    (Act::Grant, &["etcd_debugging_lease_granted_total", "etcd_debugging_lease_ttl_total", "tenure_leases"]),
    (Act::Renew, &["etcd_debugging_lease_renewed_total"]),
    (Act::Revoke, &["etcd_debugging_lease_revoked_total"]),
    (Act::Expire, &["etcd_debugging_server_lease_expired_total"]),
    (Act::LockWithoutLease, &["tenure_unowned_leases_total"]),
    (Act::Lead, &[
        "tenure_sessions", "tenure_election_leader", "tenure_election_candidates", "tenure_election_transitions_total",
        "tenure_lock_wait_seconds",
    ]),
    (Act::LeadAndResign, &["tenure_lock_held_seconds"]),
    (Act::LeadAfterFrost, &["tenure_election_vacant_seconds_total"]),
    (Act::AddRole, &["etcd_debugging_auth_revision"]),
    (Act::Compact, &["etcd_debugging_mvcc_compact_revision", "etcd_debugging_mvcc_db_compaction_last"]),
    (Act::Hash, &["etcd_mvcc_hash_rev_duration_seconds"]),
    (Act::Health, &["etcd_server_health_success"]),
    (Act::Watch, &[
        "etcd_debugging_mvcc_watcher_total", "etcd_debugging_mvcc_watch_stream_total", "etcd_debugging_mvcc_events_total",
        "process_open_fds", "os_fd_used",
    ]),
    (Act::WatchUnread, &[
        "etcd_debugging_mvcc_pending_events_total", "etcd_debugging_mvcc_slow_watcher_total",
        "process_resident_memory_bytes", "process_cpu_seconds_total",
    ]),
    (Act::Snapshot, &["etcd_debugging_snap_save_total_duration_seconds", "etcd_snap_fsync_duration_seconds"]),
    (Act::Flood, &["tenure_wal_queued_bytes"]),
    (Act::Pause, &["tenure_pauses_total"]),
    (Act::StartAnew, &[
        "process_start_time_seconds", "process_max_fds", "os_fd_limit", "process_virtual_memory_max_bytes",
        "process_virtual_memory_bytes", "etcd_server_quota_backend_bytes",
    ]),
];

/// Event takes several members, and mostly a fault.
#[rustfmt::skip]
const TOGETHER: &[&str] = &[
    "etcd_network_peer_sent_bytes_total", "etcd_network_peer_received_bytes_total", "etcd_network_peer_round_trip_time_seconds",
    "etcd_network_active_peers", "etcd_network_disconnected_peers_total", "etcd_network_peer_sent_failures_total",
    "etcd_network_snapshot_send_success", "etcd_network_snapshot_send_failures", "etcd_network_snapshot_receive_success",
    "tenure_snapshots_installed_total",
    "etcd_server_has_leader", "etcd_server_is_leader", "etcd_server_leader_changes_seen_total",
    "etcd_server_proposals_pending", "etcd_server_proposals_failed_total", "etcd_server_read_indexes_failed_total",
    "etcd_server_slow_read_indexes_total", "etcd_server_heartbeat_send_failures_total", "etcd_server_health_failures",
    "tenure_raft_term", "tenure_raft_vacant_seconds_total",
    "etcd_server_is_learner", "etcd_server_learner_promote_failures", "etcd_server_learner_promote_successes",
];

/// Facts: their value is 1 and the label is what matters.
const FACTS: [&str; 3] = ["etcd_server_id", "etcd_server_version", "etcd_cluster_version"];

#[derive(Clone, Copy, Debug)]
enum Act {
    Put,
    PutMuch,
    Get,
    Delete,
    Txn,
    Grant,
    Renew,
    Revoke,
    Expire,
    LockWithoutLease,
    Lead,
    LeadAndResign,
    LeadAfterFrost,
    AddRole,
    Compact,
    Hash,
    Health,
    Watch,
    WatchUnread,
    Snapshot,
    Flood,
    Pause,
    StartAnew,
}

fn set(key: impl Into<String>, size: usize) -> pb::PutRequest {
    pb::PutRequest { key: key.into().into(), value: vec![b'x'; size].into(), ..Default::default() }
}

fn get(key: &str) -> pb::RangeRequest {
    pb::RangeRequest { key: key.to_owned().into(), ..Default::default() }
}

/// Event has to stay open while the metrics are looked at.
#[derive(Default)]
struct Held {
    _watcher: Option<Watcher>,
    _session: Option<SessionStream>,
    /// Ends when it is dropped.
    tasks: JoinSet<()>,
}

async fn session(cluster: &Cluster) -> SessionStream {
    let channel = connect(cluster.members[0].client).await;
    SessionStream::open(channel, "a", 60_000, false).await
}

async fn act(act: Act, cluster: &mut Cluster) -> Held {
    let client = cluster.members[0].client();
    match act {
        Act::Put => drop(client.kv().put(set("k", 100)).await.unwrap()),
        // More than is read before the core loop has its turn.
        Act::PutMuch => drop(client.kv().put(set("k", 1_400_000)).await.unwrap()),
        Act::Get => drop(client.kv().range(get("k")).await.unwrap()),
        Act::Delete => {
            let delete = pb::DeleteRangeRequest { key: "k".into(), ..Default::default() };
            client.kv().delete_range(delete).await.unwrap();
        }
        Act::Txn => {
            let op = |key: &str| pb::RequestOp {
                request: Some(pb::request_op::Request::RequestPut(set(key, 1))),
            };
            let txn = pb::TxnRequest { success: vec![op("a"), op("b")], ..Default::default() };
            client.kv().txn(txn).await.unwrap();
        }
        Act::Grant => grant(&client, 600, 7).await,
        Act::Renew => {
            let mut renewals = client.lease().renewals(7).await.unwrap();
            renewals.renew().await.unwrap();
            assert!(renewals.answer().await.unwrap().ttl > 0);
        }
        Act::Revoke => drop(client.lease().revoke(7).await.unwrap()),
        Act::Expire => grant(&client, 1, 8).await,
        Act::LockWithoutLease => drop(Caller::new(client).locked("door", 0).await),
        Act::Lead => {
            let mut session = session(cluster).await;
            session.join("jobs").await;
            return Held { _session: Some(session), ..Held::default() };
        }
        Act::LeadAndResign => {
            let mut session = session(cluster).await;
            session.join("other").await;
            session.leave("other", 0).await;
        }
        Act::LeadAfterFrost => {
            let name = || "cold".to_owned();
            let mut operator = elections(cluster.members[0].client).await;
            operator.freeze(v1::FreezeRequest { name: name() }).await.unwrap();
            let mut session = session(cluster).await;
            session.join("cold").await;
            // The clock is read in whole milliseconds; each of these takes a write to the disk.
            for _ in 0..20 {
                client.kv().put(set("meanwhile", 1)).await.unwrap();
            }
            operator.resume(v1::ResumeRequest { name: name() }).await.unwrap();
            session.granted("cold").await;
        }
        Act::AddRole => {
            let request = pb::AuthRoleAddRequest { name: "ops".into() };
            client.auth().role_add(request).await.unwrap();
        }
        Act::Compact => {
            let revision = client.kv().range(get("k")).await.unwrap().header.unwrap().revision;
            let request = pb::CompactionRequest { revision, physical: true };
            client.kv().compact(request).await.unwrap();
        }
        Act::Hash => {
            client.maintenance().hash_kv(pb::HashKvRequest { revision: 0 }).await.unwrap();
        }
        Act::Health => {
            let (status, _) = fetch(&cluster.endpoints(), "/health").await.unwrap();
            assert!(status.contains("200"), "{status}");
        }
        Act::Watch => {
            let mut watcher = watch(&client).await;
            client.kv().put(set("w/1", 1)).await.unwrap();
            assert_eq!(watcher.next().await.events.len(), 1);
            return Held { _watcher: Some(watcher), ..Held::default() };
        }
        Act::WatchUnread => {
            // More than client and connection take in before it is asked for.
            let watcher = watch(&client).await;
            for n in 0..24 {
                cluster.members[0].client().kv().put(set(format!("w/{n}"), 1 << 20)).await.unwrap();
            }
            return Held { _watcher: Some(watcher), ..Held::default() };
        }
        Act::Snapshot => {
            for n in 0..SNAPSHOT_COUNT {
                client.kv().put(set(format!("s/{n}"), 10)).await.unwrap();
            }
        }
        Act::Flood => {
            let mut held = Held::default();
            held.tasks.spawn(async move {
                while client.kv().put(set("flood", 1 << 20)).await.is_ok() {}
            });
            return held;
        }
        Act::Pause => pause_for(cluster, 0, Duration::from_millis(300)).await,
        Act::StartAnew => {
            let member = &mut cluster.members[0];
            assert!(member.stop().await.success());
            let prlimit = tools::system("prlimit", "util-linux");
            let limits = ["--nofile=2000:2000", "--as=64000000000"].map(Into::into);
            member.spawn.before = [prlimit.into()].into_iter().chain(limits).collect();
            member.spawn.flags.extend(["--quota-backend-bytes", "1073741824"].map(str::to_owned));
            member.start();
            member.ready().await;
        }
    }
    Held::default()
}

const SNAPSHOT_COUNT: usize = 50;

async fn grant(client: &Client, ttl: i64, id: i64) {
    client.lease().grant(pb::LeaseGrantRequest { ttl, id }).await.unwrap();
}

async fn watch(client: &Client) -> Watcher {
    let mut watcher = Watcher::open(client, false).await.unwrap();
    let create =
        pb::WatchCreateRequest { key: "w/".into(), range_end: "w0".into(), ..Default::default() };
    watcher.create(create).await;
    assert!(watcher.next().await.created);
    watcher
}

/// The length of the pause is what is tested.
async fn pause_for(cluster: &Cluster, at: usize, time: Duration) {
    cluster.members[at].pause();
    tokio::time::sleep(time).await;
    cluster.members[at].resume();
}

async fn scrape(cluster: &Cluster, at: usize) -> Scrape {
    let address = cluster.members[at].client.to_string();
    eventually("metrics", async || Scrape::of(&address).await).await
}

/// Waits until every one of these has another value than before.
async fn moved(cluster: &Cluster, at: usize, before: &Scrape, metrics: &[&str]) {
    let mut left: Vec<&str> = metrics.to_vec();
    eventually(&format!("member {at}: metrics move"), async || {
        let now = scrape(cluster, at).await;
        left.retain(|metric| {
            now.total(metric).is_none() || now.total(metric) == before.total(metric)
        });
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_moves_what_one_node_measures() {
    let snapshot_count = SNAPSHOT_COUNT.to_string();
    let flags = [
        ["--metrics", "extensive"],
        ["--warning-apply-duration", "1ns"],
        ["--snapshot-count", &snapshot_count],
    ];
    let mut cluster = Cluster::with(1, Plan::flags(flags.as_flattened())).await;
    for (what, metrics) in ALONE {
        let before = scrape(&cluster, 0).await;
        let held = act(*what, &mut cluster).await;
        moved(&cluster, 0, &before, metrics).await;
        drop(held);
    }
    let now = scrape(&cluster, 0).await;
    let id = format!("etcd_server_id{{server_id=\"{:x}\"}}", cluster.id(0).await);
    assert_eq!(now.series.get(&id), Some(&1.0), "{id}");
    let version = cluster.status(0).await.unwrap().version;
    let version = format!("etcd_server_version{{server_version=\"{version}\"}}");
    assert_eq!(now.series.get(&version), Some(&1.0), "{version}");
    let (_, page) = fetch(&cluster.endpoints(), "/version").await.unwrap();
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    let version = page["etcdcluster"].as_str().unwrap().trim_end_matches(".0");
    let version = format!("etcd_cluster_version{{cluster_version=\"{version}\"}}");
    assert_eq!(now.series.get(&version), Some(&1.0), "{version}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_moves_what_only_a_cluster_can() {
    let mut cluster = Cluster::with(3, Plan::flags(&["--snapshot-count", "20"])).await;
    let mut shown: Vec<&str> = Vec::new();
    let mut show = |metrics: &[&'static str]| {
        shown.extend(metrics);
        metrics.to_vec()
    };
    let leader = cluster.leader().await;

    // Members talk to each other.
    let before = scrape(&cluster, leader).await;
    cluster.client().kv().put(set("k", 1)).await.unwrap();
    let talk = show(&[
        "etcd_network_peer_sent_bytes_total",
        "etcd_network_peer_received_bytes_total",
        "etcd_network_peer_round_trip_time_seconds",
    ]);
    moved(&cluster, leader, &before, &talk).await;

    // The raft leader does not run for a while, but not long enough to be replaced.
    let before = scrape(&cluster, leader).await;
    pause_for(&cluster, leader, Duration::from_millis(250)).await;
    let late = show(&["etcd_server_heartbeat_send_failures_total"]);
    moved(&cluster, leader, &before, &late).await;

    // A member is gone.
    let leader = cluster.leader().await;
    let gone = cluster.other_than(leader);
    let before = scrape(&cluster, leader).await;
    cluster.members[gone].kill();
    let lost = show(&[
        "etcd_network_active_peers",
        "etcd_network_disconnected_peers_total",
        "etcd_network_peer_sent_failures_total",
    ]);
    moved(&cluster, leader, &before, &lost).await;

    // It comes back when the log has moved on, and dies while the snapshot is on its way.
    let client = cluster.members[leader].client();
    for n in 0..90 {
        client.kv().put(set(format!("big/{n}"), 1 << 20)).await.unwrap();
    }
    let before = scrape(&cluster, leader).await;
    cluster.members[gone].start();
    cluster.members[leader].logs("sending a snapshot").await;
    cluster.members[gone].kill();
    moved(&cluster, leader, &before, &show(&["etcd_network_snapshot_send_failures"])).await;
    cluster.members[gone].start();
    moved(&cluster, leader, &before, &show(&["etcd_network_snapshot_send_success"])).await;
    cluster.members[gone].ready().await;
    let received =
        show(&["etcd_network_snapshot_receive_success", "tenure_snapshots_installed_total"]);
    moved(&cluster, gone, &Scrape::default(), &received).await;
    cluster.same_everywhere().await;

    // Another raft leader.
    let mut before = Vec::new();
    for at in 0..cluster.members.len() {
        before.push(scrape(&cluster, at).await);
    }
    let first = cluster.leader().await;
    cluster.members[first].kill();
    let followers: Vec<usize> = (0..3).filter(|at| *at != first).collect();
    let next = cluster.leader_among(&followers).await;
    let change = show(&[
        "etcd_server_is_leader",
        "etcd_server_leader_changes_seen_total",
        "tenure_raft_term",
        "tenure_raft_vacant_seconds_total",
    ]);
    moved(&cluster, next, &before[next], &change).await;
    cluster.members[first].start();
    cluster.ready().await;

    // No follower answers the raft leader: what it has begun waits, then fails.
    let leader = cluster.leader().await;
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    let before = scrape(&cluster, leader).await;
    others.iter().for_each(|at| cluster.members[*at].pause());
    let patient = Options { request_timeout: Duration::from_secs(30), ..Options::default() };
    let endpoint = cluster.members[leader].client.to_string().parse().unwrap();
    let client = Client::new(vec![endpoint], patient);
    let (writer, reader) = (client.clone(), client);
    let write = tokio::spawn(async move { writer.kv().put(set("k", 4 << 10)).await });
    let read = tokio::spawn(async move { reader.kv().range(get("k")).await });
    let waiting = show(&["etcd_server_proposals_pending", "etcd_server_slow_read_indexes_total"]);
    moved(&cluster, leader, &before, &waiting).await;
    moved(&cluster, leader, &before, &show(&["etcd_server_has_leader"])).await;
    let failed =
        show(&["etcd_server_proposals_failed_total", "etcd_server_read_indexes_failed_total"]);
    moved(&cluster, leader, &before, &failed).await;
    let address = cluster.members[leader].client.to_string();
    assert!(fetch(&address, "/health").await.unwrap().0.contains("503"));
    moved(&cluster, leader, &before, &show(&["etcd_server_health_failures"])).await;
    assert!(write.await.unwrap().is_err() && read.await.unwrap().is_err());
    others.iter().for_each(|at| cluster.members[*at].resume());
    cluster.ready().await;

    // A member that has no vote gets one, when it follows.
    let leader = cluster.leader().await;
    let tool = Ctl::ours(&cluster.members[leader]);
    let learner = cluster.add(&tool, &["--learner"]);
    let before = scrape(&cluster, leader).await;
    let client = cluster.members[leader].client();
    let list = pb::MemberListRequest { linearizable: true };
    let members = client.cluster().member_list(list).await.unwrap().members;
    let promote = pb::MemberPromoteRequest {
        id: members.iter().find(|member| member.is_learner).unwrap().id,
    };
    client.cluster().member_promote(promote).await.unwrap_err();
    moved(&cluster, leader, &before, &show(&["etcd_server_learner_promote_failures"])).await;
    let now = scrape(&cluster, leader).await;
    let labels = &now.labels["etcd_server_learner_promote_failures"];
    assert_eq!(labels.iter().collect::<Vec<_>>(), ["Reason"]);
    cluster.members[learner].start();
    cluster.members[learner].logs("caught up with the raft leader").await;
    let without_vote = scrape(&cluster, learner).await;
    assert_eq!(without_vote.total("etcd_server_is_learner"), Some(1.0));
    eventually("the learner is promoted", async || {
        client.cluster().member_promote(promote).await.map_err(|error| error.to_string())
    })
    .await;
    moved(&cluster, leader, &before, &show(&["etcd_server_learner_promote_successes"])).await;
    moved(&cluster, learner, &without_vote, &show(&["etcd_server_is_learner"])).await;

    shown.sort_unstable();
    let mut together = TOGETHER.to_vec();
    together.sort_unstable();
    assert_eq!(shown, together);
    let everything: Vec<&str> = ALONE.iter().flat_map(|(_, metrics)| *metrics).copied().collect();
    let known = |name: &String| {
        let name = name.as_str();
        everything.contains(&name) || shown.contains(&name) || FACTS.contains(&name)
    };
    let served = scrape(&cluster, leader).await.types;
    let unknown: Vec<_> = served.keys().filter(|name| !known(name)).collect();
    assert!(unknown.is_empty(), "nothing makes these move: {unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_has_etcds_names_types_and_labels() {
    let etcd = Ctl::with_real_etcd().await;
    let theirs = Scrape::of(etcd.endpoints()).await.unwrap();
    let cluster = Cluster::with(1, Plan::flags(&["--metrics", "basic"])).await;
    let ours = scrape(&cluster, 0).await;
    let mut both = 0;
    for (name, kind) in &ours.types {
        let Some(their_kind) = theirs.types.get(name) else { continue };
        assert_eq!(kind, their_kind, "{name}");
        assert_eq!(ours.labels.get(name), theirs.labels.get(name), "{name}");
        both += 1;
    }
    assert!(both > 55, "only {both} of ours are etcd's");
    let only_ours: Vec<_> = ours
        .types
        .keys()
        .filter(|name| !theirs.types.contains_key(*name) && !name.starts_with("tenure_"))
        .collect();
    assert!(only_ours.is_empty(), "etcd does not have {only_ours:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_serves_metrics_and_health_apart_from_clients_if_told_to() {
    let apart = tenure_e2e::reserve(1)[0];
    let cluster = Cluster::with(1, Plan::flags(&["--listen-metrics-urls", &apart.url()])).await;
    let apart = apart.to_string();
    assert!(Scrape::of(&apart).await.unwrap().types.len() > 50);
    eventually("it is healthy", async || {
        let said = fetch(&apart, "/health").await.unwrap().0;
        if said.contains("200") { Ok(()) } else { Err(said) }
    })
    .await;
    drop(cluster);
}

#[test]
fn metrics_describes_every_metric() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let alone = ALONE.iter().flat_map(|(_, metrics)| *metrics);
    for metric in alone.chain(TOGETHER).chain(&FACTS) {
        assert!(
            page.contains(&format!("`{metric}`")),
            "{metric} is not in docs/reference/metrics.md"
        );
    }
}
