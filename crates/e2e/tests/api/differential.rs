//! The same random requests to a real etcd 3.5.1 and to us: the answers must be the same to the letter,
//! apart from ids and terms.
//!
//! A failure names its seed: `TENURE_SEED=7 cargo nextest run -p tenure-e2e --test api differential::`.

use std::fmt::Debug;

use pb::{RequestOp, request_op::Request};
use tenure::grpc::{Client, Endpoint, Options, stubs::KvClient};
use tenure_e2e::{Cluster, Ctl, pb};
use tonic::{Response, Status, transport::Channel};

const REQUESTS: usize = 600;
/// A lease that both have, and one that neither has.
const LEASE: i64 = 77;
const NO_LEASE: i64 = 78;
const KEYS: [&str; 8] = ["a", "b", "b/1", "b/2", "c", "d", "d\0", "e"];

/// Requests from a seed.
struct Dice {
    state: u64,
    /// The newest revision seen, around which revisions are chosen.
    revision: i64,
}

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        let state = self.state.wrapping_mul(6_364_136_223_846_793_005);
        self.state = state.wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % sides
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.roll(KEYS.len())]
    }

    fn range_end(&mut self) -> &'static str {
        ["", "", "", "\0", "b0", "c", "e", "a"][self.roll(8)]
    }

    /// Some revision of the recent past, or now, or one that is to come.
    fn revision(&mut self) -> i64 {
        (self.revision + 2 - self.roll(12) as i64).max(0)
    }

    fn seldom_revision(&mut self) -> i64 {
        if self.one_in(4) { self.revision() } else { 0 }
    }

    fn put(&mut self) -> pb::PutRequest {
        let (ignore_value, ignore_lease) = (self.one_in(8), self.one_in(8));
        pb::PutRequest {
            key: self.key().into(),
            value: if ignore_value && !self.one_in(4) {
                ""
            } else {
                ["x", "yy", "z"][self.roll(3)]
            }
            .into(),
            lease: [0, 0, 0, 0, LEASE, NO_LEASE][self.roll(6)],
            prev_kv: self.one_in(2),
            ignore_value,
            ignore_lease,
        }
    }

    fn delete(&mut self) -> pb::DeleteRangeRequest {
        let (key, range_end) = (self.key().into(), self.range_end().into());
        pb::DeleteRangeRequest { key, range_end, prev_kv: self.one_in(2) }
    }

    /// etcd 3.5.1 does not see that a put lies in an unbounded delete of the same transaction, and dies
    /// if that put wants to keep the lease or value that is just gone.
    fn bounded_delete(&mut self) -> pb::DeleteRangeRequest {
        let delete = self.delete();
        let unbounded = &delete.range_end[..] == b"\0";
        pb::DeleteRangeRequest {
            range_end: if unbounded { "e".into() } else { delete.range_end },
            ..delete
        }
    }

    fn range(&mut self) -> pb::RangeRequest {
        pb::RangeRequest {
            key: self.key().into(),
            range_end: self.range_end().into(),
            limit: [0, 0, 1, 2, 3][self.roll(5)],
            revision: self.seldom_revision(),
            sort_order: self.roll(3) as i32,
            sort_target: self.roll(5) as i32,
            serializable: self.one_in(4),
            keys_only: self.one_in(4),
            count_only: self.one_in(6),
            min_mod_revision: self.seldom_revision(),
            max_mod_revision: self.seldom_revision(),
            min_create_revision: self.seldom_revision(),
            max_create_revision: self.seldom_revision(),
        }
    }

    fn compare(&mut self) -> pb::Compare {
        use pb::compare::TargetUnion;
        let (target, target_union) = match self.roll(5) {
            0 => (0, TargetUnion::Version(self.roll(4) as i64)),
            1 => (1, TargetUnion::CreateRevision(self.revision())),
            2 => (2, TargetUnion::ModRevision(self.revision())),
            3 => (3, TargetUnion::Value(["x", "yy", "z"][self.roll(3)].into())),
            _ => (4, TargetUnion::Lease([0, LEASE][self.roll(2)])),
        };
        pb::Compare {
            result: self.roll(4) as i32,
            target,
            key: self.key().into(),
            range_end: self.range_end().into(),
            target_union: Some(target_union),
        }
    }

    fn txn(&mut self, depth: usize) -> pb::TxnRequest {
        let mut branch = || (0..self.roll(4)).map(|_| self.op(depth)).collect();
        let (success, failure) = (branch(), branch());
        let compare = (0..self.roll(3)).map(|_| self.compare()).collect();
        pb::TxnRequest { compare, success, failure }
    }

    fn op(&mut self, depth: usize) -> RequestOp {
        let request = match self.roll(if depth == 0 { 7 } else { 8 }) {
            0..3 => Request::RequestPut(self.put()),
            3 => Request::RequestDeleteRange(self.bounded_delete()),
            4..7 => Request::RequestRange(self.range()),
            _ => Request::RequestTxn(self.txn(depth - 1)),
        };
        RequestOp { request: Some(request) }
    }
}

/// The same question to both; what differs, or the revision that both are at.
macro_rules! ask {
    ($both:ident, $method:ident, $request:expr) => {{
        let request = $request;
        let etcd = $both.0.$method(request.clone()).await;
        let ours = $both.1.$method(request.clone()).await;
        compare(etcd, ours, |message| &mut message.header)
            .map_err(|what| format!("{request:?}\n{what}"))
    }};
}

fn compare<T: Debug + PartialEq>(
    etcd: Result<Response<T>, Status>,
    ours: Result<Response<T>, Status>,
    header: impl Fn(&mut T) -> &mut Option<pb::ResponseHeader>,
) -> Result<i64, String> {
    let mut revision = 0;
    let mut plain = |result: Result<Response<T>, Status>| match result {
        Ok(response) => {
            let mut message = response.into_inner();
            let header = header(&mut message).as_mut().unwrap();
            (header.cluster_id, header.member_id, header.raft_term) = (0, 0, 0);
            revision = header.revision;
            Ok(message)
        }
        Err(status) => Err((status.code(), status.message().to_owned())),
    };
    let (etcd, ours) = (plain(etcd), plain(ours));
    if etcd == ours { Ok(revision) } else { Err(format!("  etcd: {etcd:?}\n  ours: {ours:?}")) }
}

async fn connect(endpoints: &str) -> KvClient<Channel> {
    let client = Client::new(Endpoint::list(endpoints).unwrap(), Options::default());
    let grant = pb::LeaseGrantRequest { ttl: 600, id: LEASE };
    client.lease().grant(grant).await.unwrap();
    KvClient::new(client.channel())
}

#[tokio::test(flavor = "multi_thread")]
async fn kv_answers_as_etcd_does() {
    let seed = std::env::var("TENURE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut dice = Dice { state: seed, revision: 1 };
    let etcd = Ctl::with_real_etcd().await;
    let cluster = Cluster::start(1).await;
    let mut both = (connect(etcd.endpoints()).await, connect(&cluster.endpoints()).await);
    let nothing = pb::CompactionRequest { revision: 0, physical: true };
    if let Err(what) = ask!(both, compact, nothing) {
        panic!("compaction of nothing: {what}");
    }
    for step in 0..REQUESTS {
        let answered = match dice.roll(24) {
            0..6 => ask!(both, put, dice.put()),
            6..8 => ask!(both, delete_range, dice.delete()),
            8..14 => ask!(both, range, dice.range()),
            14..23 => ask!(both, txn, dice.txn(2)),
            _ => {
                // 0 was asked for at the start; etcd grants it once, we always.
                let revision = dice.revision().max(1);
                ask!(both, compact, pb::CompactionRequest { revision, physical: true })
            }
        };
        match answered {
            Ok(revision) => dice.revision = dice.revision.max(revision),
            Err(what) => panic!("seed {seed}, step {step}: {what}"),
        }
    }
    assert!(dice.revision > 50, "too little happened: revision {}", dice.revision);
}
