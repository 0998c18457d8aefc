//! Watches, as they are on the wire.

use std::time::Duration;

use tenure::grpc::{
    Client, Endpoint, Options,
    stubs::{LeaseClient, WatchClient},
};
use tenure_e2e::{Cluster, Ctl, Plan, Watcher, mvccpb, pb};
use tokio_stream::StreamExt;
use tonic::Code;

use pb::{watch_create_request::FilterType, watch_request::RequestUnion};

/// How long an end that must come may take.
const PATIENCE: Duration = Duration::from_secs(10);

async fn put(client: &Client, key: &str, value: impl Into<Vec<u8>>) -> i64 {
    let put = pb::PutRequest {
        key: key.to_owned().into(),
        value: value.into().into(),
        ..Default::default()
    };
    client.kv().put(put).await.unwrap().header.unwrap().revision
}

async fn delete(client: &Client, key: &str) -> i64 {
    let delete = pb::DeleteRangeRequest { key: key.to_owned().into(), ..Default::default() };
    client.kv().delete_range(delete).await.unwrap().header.unwrap().revision
}

fn of(key: &str) -> pb::WatchCreateRequest {
    pb::WatchCreateRequest { key: key.to_owned().into(), ..Default::default() }
}

fn prefix(prefix: &str) -> pb::WatchCreateRequest {
    pb::WatchCreateRequest { range_end: format!("{prefix}0").into(), ..of(&format!("{prefix}/")) }
}

/// Key and revision of each event.
fn told(response: &pb::WatchResponse) -> Vec<(String, i64)> {
    let kv = |event: &mvccpb::Event| event.kv.clone().unwrap();
    let told = response.events.iter().map(kv);
    told.map(|kv| (String::from_utf8_lossy(&kv.key).into_owned(), kv.mod_revision)).collect()
}

/// Reads until so many events have come.
async fn collect(watcher: &mut Watcher, count: usize) -> Vec<(String, i64)> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(told(&watcher.next().await));
    }
    all
}

async fn created(watcher: &mut Watcher) -> pb::WatchResponse {
    let response = watcher.next().await;
    assert!(response.created && !response.canceled, "{response:?}");
    assert!(response.events.is_empty());
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_tells_the_past_the_present_and_what_is_to_come() {
    let cluster = Cluster::start(3).await;
    for member in &cluster.members {
        let client = member.client();
        let key = format!("{}/1", member.name);
        let first = put(&client, &key, "a").await;
        let second = put(&client, &key, "b").await;
        let mut watcher = Watcher::open(&client, false).await.unwrap();
        watcher.create(pb::WatchCreateRequest { start_revision: first, ..of(&key) }).await;
        assert_eq!(created(&mut watcher).await.watch_id, 0);
        let past = collect(&mut watcher, 2).await;
        assert_eq!(past, [(key.clone(), first), (key.clone(), second)]);
        let third = put(&client, &key, "c").await;
        assert_eq!(collect(&mut watcher, 1).await, [(key.clone(), third)]);

        // From two revisions ahead: the next write is not told, the one after it is.
        let mut ahead = Watcher::open(&client, false).await.unwrap();
        ahead.create(pb::WatchCreateRequest { start_revision: third + 2, ..of(&key) }).await;
        created(&mut ahead).await;
        put(&client, &key, "d").await;
        let fifth = put(&client, &key, "e").await;
        assert_eq!(collect(&mut ahead, 1).await, [(key, fifth)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_numbers_watches_and_lets_clients_choose() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let mut watcher = Watcher::open(&client, false).await.unwrap();
    watcher.create(of("a")).await;
    assert_eq!(created(&mut watcher).await.watch_id, 0);
    watcher.create(of("b")).await;
    assert_eq!(created(&mut watcher).await.watch_id, 1);
    watcher.create(pb::WatchCreateRequest { watch_id: 7, ..prefix("c") }).await;
    assert_eq!(created(&mut watcher).await.watch_id, 7);

    watcher.create(pb::WatchCreateRequest { watch_id: 7, ..of("d") }).await;
    let twice = watcher.next().await;
    assert!(twice.created && twice.canceled);
    assert_eq!(twice.watch_id, -1);
    assert_eq!(twice.cancel_reason, "mvcc: duplicate watch ID provided on the WatchStream");

    watcher.create(pb::WatchCreateRequest { range_end: "a".into(), ..of("b") }).await;
    let empty = watcher.next().await;
    assert!(empty.created && empty.canceled);
    assert_eq!((empty.watch_id, &empty.cancel_reason[..]), (-1, "mvcc: watcher range is empty"));

    put(&client, "c/1", "").await;
    assert_eq!(watcher.next().await.watch_id, 7);
    put(&client, "b", "").await;
    assert_eq!(watcher.next().await.watch_id, 1);

    watcher.cancel(1).await;
    let cancelled = watcher.next().await;
    assert!(cancelled.canceled && !cancelled.created && cancelled.watch_id == 1, "{cancelled:?}");
    put(&client, "b", "").await;
    put(&client, "a", "").await;
    assert_eq!(watcher.next().await.watch_id, 0, "a cancelled watch must be silent");
}

/// What a stream answers to watches that come, go and cannot begin.
async fn numbers(client: &Client) -> Vec<(i64, bool, bool)> {
    let create = |watch_id| {
        let create = pb::WatchCreateRequest { watch_id, ..of("a") };
        RequestUnion::CreateRequest(create)
    };
    let cancel = |watch_id| RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id });
    let steps = [create(0), cancel(0), create(0), cancel(1), create(2), create(0)];
    let count = steps.len();
    let asked = steps.map(|step| pb::WatchRequest { request_union: Some(step) });
    // etcd opens a stream only when it is asked something.
    let requests = tokio_stream::iter(asked).chain(tokio_stream::pending());
    let mut answers =
        WatchClient::new(client.channel()).watch(requests).await.unwrap().into_inner();
    let mut seen = Vec::new();
    while seen.len() < count {
        let answer = answers.message().await.unwrap().unwrap();
        seen.push((answer.watch_id, answer.created, answer.canceled));
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_never_gives_a_number_twice_on_a_stream_and_neither_does_etcd() {
    let cluster = Cluster::start(1).await;
    let expected = [
        (0, true, false),
        (0, false, true),
        (1, true, false),
        (1, false, true),
        (2, true, false),
        (3, true, false),
    ];
    assert_eq!(numbers(&cluster.client()).await, expected);
    let etcd = Ctl::with_real_etcd().await;
    let endpoints = Endpoint::list(etcd.endpoints()).unwrap();
    assert_eq!(numbers(&Client::new(endpoints, Options::default())).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_takes_a_negative_revision_for_a_compacted_one() {
    let cluster = Cluster::start(1).await;
    let mut watcher = Watcher::open(&cluster.client(), false).await.unwrap();
    watcher.create(pb::WatchCreateRequest { start_revision: -1, ..of("k") }).await;
    let refused = watcher.next().await;
    assert!(refused.created && refused.canceled, "{refused:?}");
    assert_eq!((refused.watch_id, refused.compact_revision), (-1, 1));
    assert_eq!(refused.cancel_reason, "mvcc: required revision has been compacted");
    watcher.create(of("k")).await;
    assert_eq!(created(&mut watcher).await.watch_id, 0, "the stream goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_filters_and_shows_what_was_before() {
    let cluster = Cluster::start(3).await;
    let client = cluster.client();
    let mut watcher = Watcher::open(&client, false).await.unwrap();
    let filtered = |filter: FilterType, watch_id| pb::WatchCreateRequest {
        filters: vec![filter as i32],
        watch_id,
        ..of("k")
    };
    watcher.create(filtered(FilterType::Noput, 1)).await;
    created(&mut watcher).await;
    watcher.create(filtered(FilterType::Nodelete, 2)).await;
    created(&mut watcher).await;
    put(&client, "k", "1").await;
    assert_eq!(watcher.next().await.watch_id, 2);
    delete(&client, "k").await;
    assert_eq!(watcher.next().await.watch_id, 1);

    let mut before = Watcher::open(&client, false).await.unwrap();
    let from = put(&client, "k", "old").await;
    put(&client, "k", "new").await;
    let gone = delete(&client, "k").await;
    before.create(pb::WatchCreateRequest { prev_kv: true, start_revision: from, ..of("k") }).await;
    created(&mut before).await;
    let mut events = Vec::new();
    while events.len() < 3 {
        events.extend(before.next().await.events);
    }
    let previous: Vec<_> =
        events.iter().map(|event| event.prev_kv.as_ref().map(|kv| kv.value.to_vec())).collect();
    assert_eq!(previous, [None, Some(b"old".to_vec()), Some(b"new".to_vec())]);
    let last = events[2].kv.clone().unwrap();
    assert_eq!(events[2].r#type(), mvccpb::event::EventType::Delete);
    assert_eq!((last.mod_revision, last.create_revision, last.value.len()), (gone, 0, 0));
}

/// One transaction whose events, with what was before, are larger than a request may be.
async fn large_revision(client: &Client) -> i64 {
    let op = |n: usize| pb::RequestOp {
        request: Some(pb::request_op::Request::RequestPut(pb::PutRequest {
            key: format!("big/{n}").into(),
            value: vec![b'x'; 400 << 10].into(),
            ..Default::default()
        })),
    };
    let txn = || pb::TxnRequest { success: (0..3).map(op).collect(), ..Default::default() };
    client.kv().txn(txn()).await.unwrap();
    client.kv().txn(txn()).await.unwrap().header.unwrap().revision
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_splits_a_large_revision_only_if_asked_to() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let revision = large_revision(&client).await;
    let whole = pb::WatchCreateRequest { prev_kv: true, start_revision: revision, ..prefix("big") };

    let mut plain = Watcher::open(&client, false).await.unwrap();
    plain.create(whole.clone()).await;
    created(&mut plain).await;
    let response = plain.next().await;
    assert_eq!((response.events.len(), response.fragment), (3, false));

    let mut split = Watcher::open(&client, false).await.unwrap();
    split.create(pb::WatchCreateRequest { fragment: true, ..whole }).await;
    created(&mut split).await;
    let mut parts = vec![split.next().await];
    while parts.last().unwrap().fragment {
        parts.push(split.next().await);
    }
    assert!(parts.len() > 1, "more than fits into one answer");
    let keys: Vec<_> = parts.iter().flat_map(told).collect();
    assert_eq!(keys, [0, 1, 2].map(|n| (format!("big/{n}"), revision)));
    assert!(split.is_silent(Duration::from_millis(100)).await, "nothing is told twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_tells_a_large_history_in_answers_of_bearable_size() {
    const WRITES: usize = 64;
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    for _ in 0..WRITES {
        put(&client, "k", vec![b'x'; 1 << 20]).await;
    }
    let mut watcher = Watcher::open(&client, false).await.unwrap();
    watcher.create(pb::WatchCreateRequest { start_revision: 1, ..of("k") }).await;
    created(&mut watcher).await;
    let mut revisions = Vec::new();
    while revisions.len() < WRITES {
        let response = watcher.next().await;
        let bytes: usize =
            response.events.iter().flat_map(|e| &e.kv).map(|kv| kv.value.len()).sum();
        assert!(bytes < 5 << 19, "{bytes} bytes at once");
        revisions.extend(told(&response).into_iter().map(|(_, revision)| revision));
    }
    assert_eq!(revisions, (2..2 + WRITES as i64).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_tells_how_far_it_is_when_asked() {
    let cluster = Cluster::start(3).await;
    for member in &cluster.members {
        let client = member.client();
        let mut watcher = Watcher::open(&client, false).await.unwrap();
        let key = format!("{}/1", member.name);
        watcher.create(of(&key)).await;
        created(&mut watcher).await;
        watcher.create(of("somewhere else")).await;
        created(&mut watcher).await;
        let mut last = 0;
        for _ in 0..50 {
            last = put(&client, &key, "x").await;
        }
        watcher.progress().await;
        // Whatever the progress says must have been told before it.
        let mut told_until = 0;
        loop {
            let response = watcher.next().await;
            if response.watch_id == -1 {
                let revision = response.header.unwrap().revision;
                assert!(response.events.is_empty());
                assert_eq!(revision.min(last), told_until, "events up to {revision} are missing");
                if revision >= last {
                    break;
                }
                watcher.progress().await;
            } else {
                told_until = told(&response).last().unwrap().1;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_tells_quiet_watchers_how_far_it_is_from_time_to_time() {
    let flags = ["--watch-progress-notify-interval", "200ms"];
    let cluster = Cluster::with(1, Plan::flags(&flags)).await;
    let client = cluster.client();
    let mut watcher = Watcher::open(&client, false).await.unwrap();
    watcher
        .create(pb::WatchCreateRequest { progress_notify: true, watch_id: 3, ..of("quiet") })
        .await;
    created(&mut watcher).await;
    let mut other = Watcher::open(&client, false).await.unwrap();
    other.create(of("quiet")).await;
    created(&mut other).await;
    let revision = put(&client, "loud", "").await;
    loop {
        let progress = watcher.next().await;
        assert!(progress.events.is_empty() && progress.watch_id == 3, "{progress:?}");
        if progress.header.unwrap().revision == revision {
            break;
        }
    }
    assert!(other.is_silent(Duration::from_millis(500)).await, "it did not ask for progress");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_ends_a_watch_of_a_compacted_revision_and_says_where_history_begins() {
    let cluster = Cluster::start(3).await;
    let client = cluster.client();
    let mut last = 0;
    for _ in 0..10 {
        last = put(&client, "k", "x").await;
    }
    let compact = pb::CompactionRequest { revision: last - 2, physical: true };
    client.kv().compact(compact).await.unwrap();
    cluster.same_everywhere().await;
    for member in &cluster.members {
        let mut watcher = Watcher::open(&member.client(), false).await.unwrap();
        watcher.create(pb::WatchCreateRequest { start_revision: 3, ..of("k") }).await;
        created(&mut watcher).await;
        let ended = watcher.next().await;
        assert!(ended.canceled && !ended.created, "{ended:?}");
        assert_eq!(ended.compact_revision, last - 2);
        // The stream itself goes on.
        watcher.create(pb::WatchCreateRequest { start_revision: last - 1, ..of("k") }).await;
        created(&mut watcher).await;
        assert_eq!(collect(&mut watcher, 2).await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_that_is_slow_holds_no_other_up_and_loses_nothing() {
    const WRITES: usize = 200;
    let cluster = Cluster::start(1).await;
    let slow_client = cluster.members[0].client();
    let mut slow = Watcher::open(&slow_client, false).await.unwrap();
    slow.create(pb::WatchCreateRequest { prev_kv: true, ..prefix("k") }).await;
    created(&mut slow).await;
    let client = cluster.members[0].client();
    let mut fast = Watcher::open(&client, false).await.unwrap();
    fast.create(prefix("k")).await;
    created(&mut fast).await;
    let mut revisions = Vec::new();
    // 40 MB, more than any buffer on the way; the slow one reads none of it.
    for n in 0..WRITES {
        revisions.push(put(&client, &format!("k/{}", n % 10), vec![b'x'; 200 << 10]).await);
        assert_eq!(collect(&mut fast, 1).await[0].1, revisions[n], "told at once, and in order");
    }
    let late = collect(&mut slow, WRITES).await;
    assert_eq!(late.iter().map(|(_, revision)| *revision).collect::<Vec<_>>(), revisions);
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_ends_a_slow_watch_that_compaction_overtook_rather_than_leave_a_gap() {
    const WRITES: usize = 150;
    let cluster = Cluster::start(1).await;
    let slow_client = cluster.members[0].client();
    let mut slow = Watcher::open(&slow_client, false).await.unwrap();
    slow.create(prefix("k")).await;
    created(&mut slow).await;
    let client = cluster.members[0].client();
    let mut revisions = Vec::new();
    for n in 0..WRITES {
        revisions.push(put(&client, &format!("k/{n}"), vec![b'x'; 200 << 10]).await);
    }
    let compacted = *revisions.last().unwrap();
    let compact = pb::CompactionRequest { revision: compacted, physical: true };
    client.kv().compact(compact).await.unwrap();
    let mut seen = Vec::new();
    let ended = loop {
        let response = slow.next().await;
        if response.canceled {
            break response;
        }
        seen.extend(told(&response).into_iter().map(|(_, revision)| revision));
        assert_eq!(seen, revisions[..seen.len()], "a gap");
        assert!(seen.len() < WRITES, "the watcher was not slow enough to test anything");
    };
    assert_eq!(ended.compact_revision, compacted);
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_serves_hundreds_of_watches_on_one_stream_without_a_gap() {
    const WATCHES: usize = 300;
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let mut watcher = Watcher::open(&client, false).await.unwrap();
    for n in 0..WATCHES {
        let watch_id = 1 + n as i64;
        watcher.create(pb::WatchCreateRequest { prev_kv: true, watch_id, ..prefix("k") }).await;
        created(&mut watcher).await;
    }
    let mut expected = Vec::new();
    for n in 0..20 {
        expected.push(put(&client, &format!("k/{}", n % 3), "x").await);
    }
    let mut seen = vec![Vec::new(); WATCHES];
    while seen.iter().any(|one| one.len() < expected.len()) {
        let response = watcher.next().await;
        let revisions = told(&response).into_iter().map(|(_, revision)| revision);
        seen[response.watch_id as usize - 1].extend(revisions);
    }
    assert!(seen.iter().all(|one| *one == expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_ends_watches_that_want_a_leader_when_there_is_none() {
    let mut cluster = Cluster::start(3).await;
    let client = cluster.members[0].client();
    let mut wants = Watcher::open(&client, true).await.unwrap();
    wants.create(of("k")).await;
    created(&mut wants).await;
    let mut patient = Watcher::open(&client, false).await.unwrap();
    patient.create(of("k")).await;
    created(&mut patient).await;
    cluster.members[1].kill();
    cluster.members[2].kill();
    let ended = wants.try_next().await.unwrap_err();
    assert_eq!((ended.code(), ended.message()), (Code::Unavailable, "etcdserver: no leader"));
    let refused = Watcher::open(&client, true).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unavailable, "etcdserver: no leader"));
    cluster.members[1].start();
    cluster.members[2].start();
    cluster.ready().await;
    let revision = put(&client, "k", "").await;
    assert_eq!(collect(&mut patient, 1).await[0].1, revision, "who did not ask stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_ends_renewals_that_want_a_leader_when_there_is_none() {
    let mut cluster = Cluster::start(3).await;
    let client = cluster.members[0].client();
    let id = client.lease().grant(pb::LeaseGrantRequest { ttl: 60, id: 0 }).await.unwrap().id;
    let open = async |has_leader: bool| {
        // Both are renewed once, and say nothing more.
        let once = tokio_stream::iter([pb::LeaseKeepAliveRequest { id }]);
        let mut request = tonic::Request::new(once.chain(tokio_stream::pending()));
        if has_leader {
            request.metadata_mut().insert("hasleader", "true".parse().unwrap());
        }
        let opened = LeaseClient::new(client.channel()).lease_keep_alive(request).await;
        opened.map(tonic::Response::into_inner)
    };
    let mut wants = open(true).await.unwrap();
    assert_eq!(wants.message().await.unwrap().unwrap().ttl, 60);
    let mut patient = open(false).await.unwrap();
    assert_eq!(patient.message().await.unwrap().unwrap().ttl, 60);
    cluster.members[1].kill();
    cluster.members[2].kill();
    let ended = tokio::time::timeout(PATIENCE, wants.message()).await.expect("it ends");
    let ended = ended.unwrap_err();
    assert_eq!((ended.code(), ended.message()), (Code::Unavailable, "etcdserver: no leader"));
    let refused = open(true).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unavailable, "etcdserver: no leader"));
    let silent = tokio::time::timeout(Duration::from_millis(100), patient.message()).await;
    assert!(silent.is_err(), "who did not ask stays: {silent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_ends_renewals_that_want_a_leader_when_their_client_has_said_all() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let id = client.lease().grant(pb::LeaseGrantRequest { ttl: 60, id: 0 }).await.unwrap().id;
    let mut request =
        tonic::Request::new(tokio_stream::iter([pb::LeaseKeepAliveRequest { id }; 3]));
    request.metadata_mut().insert("hasleader", "true".parse().unwrap());
    let renewed = LeaseClient::new(client.channel()).lease_keep_alive(request).await.unwrap();
    let answers = tokio::time::timeout(PATIENCE, renewed.into_inner().collect::<Vec<_>>());
    let answers = answers.await.expect("it ends");
    assert_eq!(answers.into_iter().map(|answer| answer.unwrap().ttl).collect::<Vec<_>>(), [60; 3]);
}
