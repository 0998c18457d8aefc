//! Keys, transactions, watches, leases and status as the etcd-client crate asks for them.
#![allow(clippy::unwrap_used)]

use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, EventType, GetOptions, LeaseGrantOptions,
    PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse, WatchOptions,
};
use tenure_e2e::Cluster;

async fn connect(cluster: &Cluster) -> Client {
    let endpoints: Vec<_> =
        cluster.members.iter().map(|member| member.client.to_string()).collect();
    Client::connect(endpoints, None).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_client_serves_keys() {
    for count in [1, 3] {
        let cluster = Cluster::start(count).await;
        let mut client = connect(&cluster).await;
        client.put("k/a", "1", None).await.unwrap();
        let put = client.put("k/a", "2", Some(PutOptions::new().with_prev_key())).await.unwrap();
        assert_eq!(put.prev_key().unwrap().value_str().unwrap(), "1");
        client.put("k/b", "3", None).await.unwrap();
        let options =
            GetOptions::new().with_prefix().with_sort(SortTarget::Key, SortOrder::Descend);
        let found = client.get("k/", Some(options)).await.unwrap();
        let keys: Vec<_> = found.kvs().iter().map(|kv| kv.key_str().unwrap()).collect();
        assert_eq!((keys, found.count()), (vec!["k/b", "k/a"], 2));
        let options = DeleteOptions::new().with_prefix().with_prev_key();
        let gone = client.delete("k/", Some(options)).await.unwrap();
        assert_eq!((gone.deleted(), gone.prev_kvs().len()), (2, 2));
        let error = client.put("", "", None).await.unwrap_err().to_string();
        assert!(error.contains("etcdserver: key is not provided"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_client_serves_transactions_and_compactions() {
    let cluster = Cluster::start(3).await;
    let mut client = connect(&cluster).await;
    client.put("k", "1", None).await.unwrap();
    let swap = |from: &str, to: &str| {
        Txn::new()
            .when([Compare::value("k", CompareOp::Equal, from)])
            .and_then([TxnOp::put("k", to, None), TxnOp::get("k", None)])
            .or_else([TxnOp::get("k", None)])
    };
    let done = client.txn(swap("1", "2")).await.unwrap();
    assert!(done.succeeded());
    let responses = done.op_responses();
    let TxnOpResponse::Get(got) = &responses[1] else { panic!("{responses:?}") };
    assert_eq!(got.kvs()[0].value_str().unwrap(), "2");
    assert!(!client.txn(swap("1", "3")).await.unwrap().succeeded());
    let revision = done.header().unwrap().revision();
    client.compact(revision, None).await.unwrap();
    let old = client.get("k", Some(GetOptions::new().with_revision(revision - 1))).await;
    let error = old.unwrap_err().to_string();
    assert!(error.contains("required revision has been compacted"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_client_serves_watches() {
    let cluster = Cluster::start(3).await;
    let mut client = connect(&cluster).await;
    let first = client.put("w/1", "a", None).await.unwrap().header().unwrap().revision();
    let options = WatchOptions::new().with_prefix().with_start_revision(first).with_prev_key();
    let (mut watcher, mut stream) = client.watch("w/", Some(options)).await.unwrap();
    client.put("w/1", "b", None).await.unwrap();
    client.delete("w/1", None).await.unwrap();
    let mut events = Vec::new();
    while events.len() < 3 {
        let response = stream.message().await.unwrap().unwrap();
        events.extend(response.events().to_vec());
    }
    let kinds: Vec<_> = events.iter().map(etcd_client::Event::event_type).collect();
    assert_eq!(kinds, [EventType::Put, EventType::Put, EventType::Delete]);
    assert_eq!(events[2].prev_kv().unwrap().value_str().unwrap(), "b");
    watcher.request_progress().await.unwrap();
    let progress = stream.message().await.unwrap().unwrap();
    assert!(progress.events().is_empty());
    assert_eq!(progress.header().unwrap().revision(), first + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_client_serves_leases() {
    let cluster = Cluster::start(3).await;
    let mut client = connect(&cluster).await;
    let options = LeaseGrantOptions::new().with_id(123);
    assert_eq!(client.lease_grant(60, Some(options)).await.unwrap().id(), 123);
    client.put("l", "x", Some(PutOptions::new().with_lease(123))).await.unwrap();
    let (mut keeper, mut answers) = client.lease_keep_alive(123).await.unwrap();
    keeper.keep_alive().await.unwrap();
    assert_eq!(answers.message().await.unwrap().unwrap().ttl(), 60);
    let options = etcd_client::LeaseTimeToLiveOptions::new().with_keys();
    let left = client.lease_time_to_live(123, Some(options)).await.unwrap();
    assert_eq!((left.granted_ttl(), left.keys()), (60, &[b"l".to_vec()][..]));
    assert_eq!(client.leases().await.unwrap().leases().len(), 1);
    client.lease_revoke(123).await.unwrap();
    assert_eq!(client.get("l", None).await.unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_client_serves_status_and_members() {
    let cluster = Cluster::start(3).await;
    let mut client = connect(&cluster).await;
    let status = client.status().await.unwrap();
    assert!(status.version().starts_with("3."));
    assert_ne!(status.leader(), 0);
    assert_eq!(client.member_list().await.unwrap().members().len(), 3);
    assert!(
        client
            .alarm(etcd_client::AlarmAction::Get, etcd_client::AlarmType::None, None)
            .await
            .unwrap()
            .alarms()
            .is_empty()
    );
}
