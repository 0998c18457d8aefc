//! What is refused, with etcd's code and etcd's text. A real etcd 3.5.1 is held against the same table.

use std::fmt::Debug;

use tenure::grpc::{Client, Endpoint, Options, stubs};
use tenure_e2e::{
    Cluster, Ctl, eventually,
    pb::{self, downgrade_request::DowngradeAction},
};
use tokio_stream::StreamExt;
use tonic::{Code, Request, Response, Status, transport::Channel};

/// What a row of the table did not do.
type Wrong = Vec<String>;

struct Table {
    kv: stubs::KvClient<Channel>,
    lease: stubs::LeaseClient<Channel>,
    maintenance: stubs::MaintenanceClient<Channel>,
    cluster: stubs::ClusterClient<Channel>,
    watch: stubs::WatchClient<Channel>,
    wrong: Wrong,
}

impl Table {
    fn new(client: &Client) -> Table {
        let channel = client.channel();
        let kv = stubs::KvClient::new(channel.clone());
        let lease = stubs::LeaseClient::new(channel.clone());
        let maintenance = stubs::MaintenanceClient::new(channel.clone());
        let cluster = stubs::ClusterClient::new(channel.clone());
        let watch = stubs::WatchClient::new(channel);
        Table { kv, lease, maintenance, cluster, watch, wrong: vec![] }
    }

    fn expect<T: Debug>(
        &mut self,
        what: &str,
        result: Result<Response<T>, Status>,
        code: Code,
        text: &str,
    ) {
        match result {
            Err(status) if status.code() == code && status.message() == text => {}
            Err(status) => {
                self.wrong.push(format!("{what}: {:?} {:?}", status.code(), status.message()))
            }
            Ok(response) => self.wrong.push(format!("{what}: answered {:?}", response.get_ref())),
        }
    }

    async fn range(&mut self, what: &str, range: pb::RangeRequest, code: Code, text: &str) {
        let result = self.kv.range(range).await;
        self.expect(what, result, code, text);
    }

    async fn put(&mut self, what: &str, put: pb::PutRequest, code: Code, text: &str) {
        let result = self.kv.put(put).await;
        self.expect(what, result, code, text);
    }

    async fn txn(&mut self, what: &str, ops: Vec<pb::RequestOp>, code: Code, text: &str) {
        let txn = pb::TxnRequest { success: ops.clone(), ..Default::default() };
        let result = self.kv.txn(txn).await;
        self.expect(what, result, code, text);
        let txn = pb::TxnRequest { failure: ops, compare: vec![never()], ..Default::default() };
        let result = self.kv.txn(txn).await;
        self.expect(&format!("{what}, in the other branch"), result, code, text);
    }
}

/// A comparison that fails.
fn never() -> pb::Compare {
    pb::Compare {
        key: "a".into(),
        result: pb::compare::CompareResult::Equal as i32,
        target: pb::compare::CompareTarget::Version as i32,
        target_union: Some(pb::compare::TargetUnion::Version(9999)),
        ..Default::default()
    }
}

fn get(key: &str) -> pb::RangeRequest {
    pb::RangeRequest { key: key.to_owned().into(), ..Default::default() }
}

fn set(key: &str) -> pb::PutRequest {
    pb::PutRequest { key: key.to_owned().into(), ..Default::default() }
}

fn op(request: pb::request_op::Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

fn op_get(range: pb::RangeRequest) -> pb::RequestOp {
    op(pb::request_op::Request::RequestRange(range))
}

fn op_set(put: pb::PutRequest) -> pb::RequestOp {
    op(pb::request_op::Request::RequestPut(put))
}

fn op_delete(key: &str, range_end: &str) -> pb::RequestOp {
    op(pb::request_op::Request::RequestDeleteRange(pb::DeleteRangeRequest {
        key: key.to_owned().into(),
        range_end: range_end.to_owned().into(),
        ..Default::default()
    }))
}

fn op_txn(ops: Vec<pb::RequestOp>) -> pb::RequestOp {
    op(pb::request_op::Request::RequestTxn(pb::TxnRequest { success: ops, ..Default::default() }))
}

const NO_KEY: &str = "etcdserver: key is not provided";
const NOT_FOUND: &str = "etcdserver: key not found";
const TWICE: &str = "etcdserver: duplicate key given in txn request";
const TOO_MANY: &str = "etcdserver: too many operations in txn request";
const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
const FUTURE: &str = "etcdserver: mvcc: required revision is a future revision";
const NO_LEASE: &str = "etcdserver: requested lease not found";

async fn keys(table: &mut Table) {
    use Code::{InvalidArgument, NotFound, OutOfRange, ResourceExhausted};
    table.range("range of no key", get(""), InvalidArgument, NO_KEY).await;
    let at = |revision| pb::RangeRequest { revision, ..get("a") };
    table.range("a future revision", at(99_999), OutOfRange, FUTURE).await;

    table.put("put of no key", set(""), InvalidArgument, NO_KEY).await;
    let put = pb::PutRequest { ignore_value: true, value: "v".into(), ..set("a") };
    table.put("ignored value", put, InvalidArgument, "etcdserver: value is provided").await;
    let put = pb::PutRequest { ignore_lease: true, lease: 7, ..set("a") };
    table.put("ignored lease", put, InvalidArgument, "etcdserver: lease is provided").await;
    let put = pb::PutRequest { ignore_value: true, ..set("nobody") };
    table.put("value of nothing", put, InvalidArgument, NOT_FOUND).await;
    let put = pb::PutRequest { ignore_lease: true, ..set("nobody") };
    table.put("lease of nothing", put, InvalidArgument, NOT_FOUND).await;
    table.put("unknown lease", pb::PutRequest { lease: 77, ..set("a") }, NotFound, NO_LEASE).await;
    let put = pb::PutRequest { value: vec![0; 1_600_000].into(), ..set("a") };
    table.put("too large", put, InvalidArgument, "etcdserver: request is too large").await;
    // gRPC's own limit lies above etcd's, and is the same for all services.
    let put = pb::PutRequest { value: vec![0; 3 << 20].into(), ..set("a") };
    let text = "grpc: received message larger than max (3145736 vs. 2097152)";
    table.put("far too large", put, ResourceExhausted, text).await;
    let add = pb::MemberAddRequest { peer_ur_ls: vec!["u".repeat(3 << 20)], is_learner: false };
    let result = table.cluster.member_add(add).await;
    let text = "grpc: received message larger than max (3145733 vs. 2097152)";
    table.expect("a member far too large", result, ResourceExhausted, text);
    let watch = pb::WatchCreateRequest { key: vec![0; 3 << 20].into(), ..Default::default() };
    let watch = pb::watch_request::RequestUnion::CreateRequest(watch);
    let watch = pb::WatchRequest { request_union: Some(watch) };
    let requests = tokio_stream::once(watch).chain(tokio_stream::pending());
    let result = match table.watch.watch(requests).await {
        Ok(mut answers) => answers.get_mut().message().await.map(Response::new),
        Err(status) => Err(status),
    };
    let text = "grpc: received message larger than max (3145738 vs. 2097152)";
    table.expect("a watch far too large", result, ResourceExhausted, text);

    let result = table.kv.delete_range(pb::DeleteRangeRequest::default()).await;
    table.expect("delete of no key", result, InvalidArgument, NO_KEY);
}

async fn transactions(table: &mut Table) {
    use Code::{InvalidArgument, NotFound, OutOfRange};
    let many = |count: usize| (0..count).map(|n| op_set(set(&format!("m{n}")))).collect::<Vec<_>>();
    table.txn("129 operations", many(129), InvalidArgument, TOO_MANY).await;
    let compares = pb::TxnRequest { compare: vec![never(); 129], ..Default::default() };
    let result = table.kv.txn(compares).await;
    table.expect("129 comparisons", result, InvalidArgument, TOO_MANY);
    let nameless = pb::TxnRequest {
        compare: vec![pb::Compare { key: "".into(), ..never() }],
        ..Default::default()
    };
    let result = table.kv.txn(nameless).await;
    table.expect("comparison of no key", result, InvalidArgument, NO_KEY);
    table.txn("no operation", vec![pb::RequestOp::default()], InvalidArgument, NOT_FOUND).await;
    table.txn("get of no key", vec![op_get(get(""))], InvalidArgument, NO_KEY).await;
    table.txn("put of no key", vec![op_set(set(""))], InvalidArgument, NO_KEY).await;
    table.txn("delete of no key", vec![op_delete("", "")], InvalidArgument, NO_KEY).await;
    table.txn("put twice", vec![op_set(set("a")), op_set(set("a"))], InvalidArgument, TWICE).await;
    let ops = vec![op_set(set("b")), op_delete("a", "c")];
    table.txn("put and deleted", ops, InvalidArgument, TWICE).await;
    let ops = vec![op_delete("a", "c"), op_set(set("b"))];
    table.txn("deleted and put", ops, InvalidArgument, TWICE).await;
    let ops = vec![op_set(set("a")), op_txn(vec![op_set(set("a"))])];
    table.txn("put again inside", ops, InvalidArgument, TWICE).await;
    let ops = vec![op_txn(vec![op_set(set(""))])];
    table.txn("no key inside", ops, InvalidArgument, NO_KEY).await;
    let put = pb::PutRequest { ignore_value: true, value: "v".into(), ..set("a") };
    table
        .txn("ignored value", vec![op_set(put)], InvalidArgument, "etcdserver: value is provided")
        .await;
    let put = pb::PutRequest { ignore_value: true, ..set("nobody") };
    table.txn("value of nothing", vec![op_set(put)], InvalidArgument, NOT_FOUND).await;
    let put = pb::PutRequest { lease: 77, ..set("a") };
    table.txn("unknown lease", vec![op_set(put)], NotFound, NO_LEASE).await;
    let future = pb::RangeRequest { revision: 99_999, ..get("a") };
    table.txn("a future revision", vec![op_get(future.clone())], OutOfRange, FUTURE).await;
    // Nothing of a refused transaction happens.
    let ops = vec![op_set(set("never")), op_get(future)];
    table.txn("written before a future revision", ops, OutOfRange, FUTURE).await;
    let found = table.kv.range(get("never")).await;
    if found.is_ok_and(|found| found.get_ref().count != 0) {
        table.wrong.push("a refused transaction wrote".to_owned());
    }
}

async fn compactions(table: &mut Table) {
    use Code::OutOfRange;
    for _ in 0..5 {
        let _ = table.kv.put(set("a")).await;
    }
    let compact = |revision| pb::CompactionRequest { revision, physical: false };
    let result = table.kv.compact(compact(99_999)).await;
    table.expect("compaction of the future", result, OutOfRange, FUTURE);
    let _ = table.kv.compact(compact(4)).await;
    let result = table.kv.compact(compact(4)).await;
    table.expect("compaction of the same", result, OutOfRange, COMPACTED);
    let result = table.kv.compact(compact(3)).await;
    table.expect("compaction of less", result, OutOfRange, COMPACTED);
    let old = pb::RangeRequest { revision: 3, ..get("a") };
    table.range("a compacted revision", old.clone(), OutOfRange, COMPACTED).await;
    table.txn("a compacted revision", vec![op_get(old)], OutOfRange, COMPACTED).await;
    let hash = |revision| pb::HashKvRequest { revision };
    let result = table.maintenance.hash_kv(hash(3)).await;
    table.expect("hash of a compacted revision", result, OutOfRange, COMPACTED);
    let result = table.maintenance.hash_kv(hash(99_999)).await;
    table.expect("hash of the future", result, OutOfRange, FUTURE);
}

async fn leases(table: &mut Table) {
    use Code::{FailedPrecondition, NotFound, OutOfRange};
    let grant = |ttl, id| pb::LeaseGrantRequest { ttl, id };
    let _ = table.lease.lease_grant(grant(60, 4711)).await;
    let result = table.lease.lease_grant(grant(60, 4711)).await;
    table.expect("a lease twice", result, FailedPrecondition, "etcdserver: lease already exists");
    let result = table.lease.lease_grant(grant(9_000_000_001, 0)).await;
    table.expect("for ever", result, OutOfRange, "etcdserver: too large lease TTL");
    let revoke = |id| pb::LeaseRevokeRequest { id };
    let result = table.lease.lease_revoke(revoke(77)).await;
    table.expect("revocation of nothing", result, NotFound, NO_LEASE);
    let _ = table.lease.lease_revoke(revoke(4711)).await;
    let result = table.lease.lease_revoke(revoke(4711)).await;
    table.expect("revocation again", result, NotFound, NO_LEASE);
}

const BAD_TARGET: &str = "etcdserver: invalid downgrade target version";
const BAD_FORMAT: &str = "etcdserver: wrong downgrade target version format";
const NO_DOWNGRADE: &str = "etcdserver: no inflight downgrade job";

fn downgrade(action: DowngradeAction, version: &str) -> pb::DowngradeRequest {
    pb::DowngradeRequest { action: action as i32, version: version.to_owned() }
}

/// etcd asks the same of a version whether it is only looked at or gone down to.
async fn downgrades(table: &mut Table) {
    use Code::{FailedPrecondition, InvalidArgument};
    use DowngradeAction::{Cancel, Enable, Validate};
    let rows = [
        (Validate, "3.3.0", InvalidArgument, BAD_TARGET),
        (Validate, "3.5.0", InvalidArgument, BAD_TARGET),
        (Validate, "4.0.0", InvalidArgument, BAD_TARGET),
        (Validate, "old", InvalidArgument, BAD_FORMAT),
        (Validate, "", InvalidArgument, BAD_FORMAT),
        (Enable, "3.3.0", InvalidArgument, BAD_TARGET),
        (Enable, "old", InvalidArgument, BAD_FORMAT),
        (Cancel, "", FailedPrecondition, NO_DOWNGRADE),
    ];
    for (action, version, code, text) in rows {
        let result = table.maintenance.downgrade(downgrade(action, version)).await;
        table.expect(&format!("{action:?} {version:?}"), result, code, text);
    }
}

/// What is stored here has no older form: etcd would go down to 3.4, and we cannot.
async fn no_way_down(table: &mut Table) {
    for action in [DowngradeAction::Validate, DowngradeAction::Enable] {
        let result = table.maintenance.downgrade(downgrade(action, "3.4.0")).await;
        let what = format!("{action:?} 3.4.0");
        table.expect(&what, result, Code::FailedPrecondition, "etcdserver: not capable");
    }
    // And nothing has begun by it.
    downgrades(table).await;
}

/// What newer etcds refuse and etcd 3.5.1 dies of.
async fn newer(table: &mut Table) {
    use Code::InvalidArgument;
    let sort =
        |order, target| pb::RangeRequest { sort_order: order, sort_target: target, ..get("a") };
    let unsorted = "etcdserver: invalid sort option";
    table.range("sort order 9", sort(9, 0), InvalidArgument, unsorted).await;
    table.range("sort target 9", sort(1, 9), InvalidArgument, unsorted).await;
    let op = op_get(sort(9, 0));
    table.txn("sort order 9", vec![op], InvalidArgument, unsorted).await;
    let mut request = Request::new(get("a"));
    let unreadable = tonic::metadata::MetadataValue::try_from(&b"3.\xff5"[..]).unwrap();
    request.metadata_mut().insert("client-api-version", unreadable);
    let result = table.kv.range(request).await;
    table.expect(
        "unreadable version",
        result,
        InvalidArgument,
        "etcdserver: invalid client api version",
    );
}

async fn play(client: &Client) -> Wrong {
    let mut table = Table::new(client);
    table.kv.put(set("a")).await.unwrap();
    keys(&mut table).await;
    transactions(&mut table).await;
    compactions(&mut table).await;
    leases(&mut table).await;
    downgrades(&mut table).await;
    table.wrong
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_refuses_with_etcds_codes_and_texts() {
    let one = Cluster::start(1).await;
    assert_eq!(play(&one.client()).await, Wrong::new());
    let mut table = Table::new(&one.client());
    newer(&mut table).await;
    no_way_down(&mut table).await;
    assert_eq!(table.wrong, Wrong::new());
    let three = Cluster::start(3).await;
    let follower = three.other_than(three.leader().await);
    assert_eq!(play(&three.members[follower].client()).await, Wrong::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_has_a_table_that_a_real_etcd_passes() {
    let etcd = Ctl::with_real_etcd().await;
    let endpoints = Endpoint::list(etcd.endpoints()).unwrap();
    assert_eq!(play(&Client::new(endpoints, Options::default())).await, Wrong::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_moves_the_raft_leader_only_where_that_makes_sense() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let follower = cluster.other_than(leader);
    let mut table = Table::new(&cluster.client());
    let at = |at: usize| stubs::MaintenanceClient::new(cluster.members[at].client().channel());
    let to = |target_id| pb::MoveLeaderRequest { target_id };
    let leader_id = cluster.id(leader).await;
    let result = at(follower).move_leader(to(leader_id)).await;
    table.expect("asked of a follower", result, Code::FailedPrecondition, "etcdserver: not leader");
    let bad = "etcdserver: bad leader transferee";
    let result = at(leader).move_leader(to(77)).await;
    table.expect("to nobody", result, Code::FailedPrecondition, bad);
    let result = at(leader).move_leader(to(0)).await;
    table.expect("to member 0", result, Code::FailedPrecondition, bad);
    at(leader).move_leader(to(leader_id)).await.unwrap();
    assert_eq!(table.wrong, Wrong::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_lists_members_linearizably_or_locally() {
    let mut cluster = Cluster::start(3).await;
    for linearizable in [true, false] {
        for member in &cluster.members {
            let request = pb::MemberListRequest { linearizable };
            let list = member.client().cluster().member_list(request).await.unwrap();
            let mut names: Vec<_> = list.members.iter().map(|one| &one.name[..]).collect();
            names.sort_unstable();
            assert_eq!(names, ["n1", "n2", "n3"]);
        }
    }
    // Addresses are published a moment after a member found its raft leader.
    eventually("addresses of all members", async || {
        let request = pb::MemberListRequest { linearizable: true };
        let list = cluster.client().cluster().member_list(request).await;
        let members = list.map_err(|error| error.to_string())?.members;
        let known = members.iter().all(|one| !one.client_ur_ls.is_empty());
        if known { Ok(()) } else { Err(format!("{members:?}")) }
    })
    .await;
    cluster.members[1].kill();
    cluster.members[2].kill();
    let mut alone = stubs::ClusterClient::new(cluster.members[0].client().channel());
    let local = alone.member_list(pb::MemberListRequest { linearizable: false }).await.unwrap();
    assert_eq!(local.into_inner().members.len(), 3);
    let refused =
        alone.member_list(pb::MemberListRequest { linearizable: true }).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
}
