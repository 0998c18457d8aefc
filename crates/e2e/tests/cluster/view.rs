//! What a client sees of a cluster: to compare one with another.

use std::time::Duration;

use tenure::grpc::Client;
use tenure_e2e::{mvccpb, pb};

/// How long the next event may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a client sees of a cluster.
#[derive(Debug, PartialEq)]
pub(super) struct View {
    pub(super) revision: i64,
    /// All keys, at revisions that can be read.
    pub(super) keys: Vec<(i64, Vec<mvccpb::KeyValue>)>,
    /// All events since the compacted revision, each with its revision and what was there before.
    pub(super) events: Vec<mvccpb::Event>,
    /// Leases with their time to live and their keys.
    pub(super) leases: Vec<(i64, i64, Vec<Vec<u8>>)>,
}

impl View {
    /// At every revision.
    pub(super) async fn whole(client: &Client, compacted: i64) -> View {
        View::of(client, compacted, 1).await
    }

    /// At every so many revisions, the first and the last among them.
    pub(super) async fn of(client: &Client, compacted: i64, step: usize) -> View {
        let revision = range(client, 0).await.unwrap().header.unwrap().revision;
        let mut keys = Vec::new();
        for at in (compacted.max(1)..revision).step_by(step).chain([revision]) {
            keys.push((at, range(client, at).await.unwrap().kvs));
        }
        let events = events(client, compacted + 1, revision).await;
        View { revision, keys, events, leases: leases(client).await }
    }
}

pub(super) async fn range(client: &Client, revision: i64) -> Result<pb::RangeResponse, String> {
    let all = pb::RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        revision,
        ..Default::default()
    };
    client.kv().range(all).await.map_err(|error| error.to_string())
}

async fn events(client: &Client, from: i64, to: i64) -> Vec<mvccpb::Event> {
    let create = pb::WatchCreateRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        start_revision: from,
        prev_kv: true,
        ..Default::default()
    };
    let mut watch = client.watch().resumed(create).await.unwrap();
    let mut events: Vec<mvccpb::Event> = Vec::new();
    while events.last().is_none_or(|event| event.kv.as_ref().unwrap().mod_revision < to) {
        let answer = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
        assert!(!answer.canceled, "{answer:?}");
        events.extend(answer.events);
    }
    events
}

pub(super) async fn leases(client: &Client) -> Vec<(i64, i64, Vec<Vec<u8>>)> {
    let mut found = Vec::new();
    for lease in client.lease().leases().await.unwrap().leases {
        let asked = pb::LeaseTimeToLiveRequest { id: lease.id, keys: true };
        let lease = client.lease().time_to_live(asked).await.unwrap();
        assert!((1..=lease.granted_ttl).contains(&lease.ttl), "{lease:?}");
        let mut keys: Vec<_> = lease.keys.iter().map(|key| key.to_vec()).collect();
        keys.sort();
        found.push((lease.id, lease.granted_ttl, keys));
    }
    found.sort();
    found
}
