//! Every path of the JSON gateway, beside a real etcd 3.5.1: the same requests to both, the same
//! status and the same bodies, apart from ids and terms.

use std::collections::BTreeSet;

use serde_json::Value;
use tenure_e2e::{Cluster, Ctl, Gateway, Posted, eventually, reserve};

/// How alike the answers must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alike {
    /// To the letter.
    Same,
    /// The same status: what the body says is a member's own.
    Status,
    /// Only ours is asked; etcd 3.5.1 has no such path or would never answer.
    Ours(u16),
    /// This status and this message, which are etcd's; but etcd is not asked: of two changes of members in a row it
    /// may lose the second, and then never answers; or it would do what we cannot.
    Known(u16, &'static str),
}

use Alike::{Known, Ours, Same, Status};

const BAD_URLS: &str = "etcdserver: given member URLs are invalid";
const NO_MEMBER: &str = "etcdserver: member not found";
const NOT_CAPABLE: &str = "etcdserver: not capable";

/// Requests in the order in which they are made. `foo` is Zm9v, `fop` is Zm9w, `bar` is YmFy.
const REQUESTS: &[(&str, &str, Alike)] = &[
    // Keys.
    ("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#, Same),
    ("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy","prev_kv":true}"#, Same),
    ("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy","prevKv":true,"later":{"a":[1]}}"#, Same),
    ("/v3/kv/put", r#"{"key":"Zm9v","lease":"4711"}"#, Same),
    ("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy","ignore_value":true}"#, Same),
    ("/v3/kv/range", r#"{"key":"Zm9v"}"#, Same),
    (
        "/v3/kv/range",
        r#"{"key":"Zm9v","range_end":"Zm9w","sort_order":"DESCEND","limit":"5"}"#,
        Same,
    ),
    (
        "/v3/kv/range",
        r#"{"key":"Zm9v","rangeEnd":"Zm9w","sortOrder":2,"sort_target":"MOD","limit":5}"#,
        Same,
    ),
    ("/v3/kv/range", r#"{"key":"AA==","range_end":"AA==","count_only":true}"#, Same),
    ("/v3/kv/range", r#"{"key":"Zm9v","keys_only":true,"serializable":true,"limit":null}"#, Same),
    ("/v3/kv/range", r#"{"key":"Zm9v","revision":2}"#, Same),
    ("/v3/kv/range", r#"{"key":"Zm9v","revision":"99"}"#, Same),
    ("/v3/kv/range", "", Same),
    ("/v3/kv/range", "{}", Same),
    ("/v3/kv/range", "null", Same),
    (
        "/v3/kv/txn",
        r#"{"compare":[{"key":"Zm9v","target":"VERSION","result":"GREATER","version":"1"}],"success":[{"requestPut":{"key":"YQ==","value":"Yg=="}},{"request_range":{"key":"YQ=="}}],"failure":[{"request_range":{"key":"Zm9v"}}]}"#,
        Same,
    ),
    (
        "/v3/kv/txn",
        r#"{"compare":[{"key":"Zm9v","target":3,"value":"YQ=="}],"success":[],"failure":[{"request_delete_range":{"key":"YQ==","prev_kv":true}},{"request_txn":{"success":[{"request_range":{"key":"Zm9v"}}]}}]}"#,
        Same,
    ),
    ("/v3/kv/txn", r#"{"compare":[{"key":"Zm9v","target":"CREATE","createRevision":"0"}]}"#, Same),
    ("/v3/kv/txn", r#"{"success":[{}]}"#, Same),
    (
        "/v3/kv/txn",
        r#"{"success":[{"request_put":{"key":"YQ=="}},{"request_put":{"key":"YQ=="}}]}"#,
        Same,
    ),
    ("/v3/kv/txn", "{}", Same),
    ("/v3/kv/deleterange", r#"{"key":"Zm9v","prev_kv":true}"#, Same),
    ("/v3/kv/deleterange", r#"{"key":"Zm9v"}"#, Same),
    ("/v3/kv/compaction", r#"{"revision":"3","physical":true}"#, Same),
    ("/v3/kv/compaction", r#"{"revision":"3"}"#, Same),
    ("/v3/kv/range", r#"{"key":"Zm9v","revision":2}"#, Same),
    // Leases.
    ("/v3/lease/grant", r#"{"TTL":"600","ID":"77"}"#, Same),
    ("/v3/lease/grant", r#"{"TTL":600,"ID":77}"#, Same),
    ("/v3/lease/grant", r#"{"TTL":"9000000001"}"#, Same),
    ("/v3/kv/put", r#"{"key":"bGVhc2Vk","lease":"77"}"#, Same),
    ("/v3/kv/range", r#"{"key":"bGVhc2Vk"}"#, Same),
    ("/v3/lease/timetolive", r#"{"ID":"78","keys":true}"#, Same),
    ("/v3/lease/timetolive", r#"{"ID":"77","keys":true}"#, Status),
    ("/v3/kv/lease/timetolive", r#"{"ID":78}"#, Same),
    ("/v3/lease/leases", "{}", Same),
    ("/v3/kv/lease/leases", "", Same),
    ("/v3/lease/keepalive", r#"{"ID":77}"#, Same),
    ("/v3/lease/keepalive", "{\"ID\":77}{\"ID\":\"78\"}\n{\"ID\":77}\n", Same),
    ("/v3/lease/keepalive", "", Same),
    ("/v3/kv/lease/revoke", r#"{"ID":"77"}"#, Same),
    ("/v3/lease/revoke", r#"{"ID":"77"}"#, Same),
    ("/v3/kv/range", r#"{"key":"bGVhc2Vk"}"#, Same),
    // What never ends by itself: watches have tests of their own.
    ("/v3/watch", "nonsense", Ours(400)),
    ("/v3/election/observe", "nonsense", Ours(400)),
    // Members.
    ("/v3/cluster/member/list", "{}", Status),
    ("/v3/cluster/member/list", r#"{"linearizable":true}"#, Status),
    ("/v3/cluster/member/add", r#"{"peerURLs":["x"]}"#, Known(400, BAD_URLS)),
    ("/v3/cluster/member/remove", r#"{"ID":"7"}"#, Known(404, NO_MEMBER)),
    (
        "/v3/cluster/member/update",
        r#"{"ID":7,"peerURLs":["http://127.0.0.1:9"]}"#,
        Known(404, NO_MEMBER),
    ),
    ("/v3/cluster/member/promote", r#"{"ID":7}"#, Known(404, NO_MEMBER)),
    // Maintenance.
    ("/v3/maintenance/alarm", "{}", Same),
    ("/v3/maintenance/alarm", r#"{"action":"GET","alarm":"NOSPACE"}"#, Same),
    ("/v3/maintenance/status", "{}", Status),
    ("/v3/maintenance/status", "", Status),
    ("/v3/maintenance/defragment", "{}", Status),
    ("/v3/maintenance/hash", "{}", Status),
    ("/v3/maintenance/hashkv", "{}", Ours(200)),
    ("/v3/maintenance/snapshot", "{}", Status),
    ("/v3/maintenance/transfer-leadership", r#"{"targetID":"7"}"#, Same),
    ("/v3/maintenance/downgrade", r#"{"action":"VALIDATE","version":"3.3.0"}"#, Same),
    ("/v3/maintenance/downgrade", r#"{"action":"VALIDATE","version":"old"}"#, Same),
    ("/v3/maintenance/downgrade", r#"{"action":"ENABLE","version":"3.3.0"}"#, Same),
    ("/v3/maintenance/downgrade", r#"{"action":"CANCEL"}"#, Same),
    // etcd would do these.
    (
        "/v3/maintenance/downgrade",
        r#"{"action":"VALIDATE","version":"3.4.0"}"#,
        Known(400, NOT_CAPABLE),
    ),
    (
        "/v3/maintenance/downgrade",
        r#"{"action":"ENABLE","version":"3.4.0"}"#,
        Known(400, NOT_CAPABLE),
    ),
    // Users and roles.
    ("/v3/auth/status", "{}", Same),
    ("/v3/auth/authenticate", r#"{"name":"root","password":"x"}"#, Same),
    ("/v3/auth/enable", "{}", Same),
    ("/v3/auth/disable", "{}", Same),
    ("/v3/auth/user/add", "{}", Same),
    ("/v3/auth/user/get", r#"{"name":"x"}"#, Same),
    ("/v3/auth/user/list", "{}", Same),
    ("/v3/auth/user/delete", r#"{"name":"x"}"#, Same),
    ("/v3/auth/user/changepw", r#"{"name":"x","password":"y"}"#, Same),
    ("/v3/auth/user/grant", r#"{"user":"x","role":"y"}"#, Same),
    ("/v3/auth/user/revoke", r#"{"name":"x","role":"y"}"#, Same),
    ("/v3/auth/role/add", "{}", Same),
    ("/v3/auth/role/get", r#"{"role":"x"}"#, Same),
    ("/v3/auth/role/list", "{}", Same),
    ("/v3/auth/role/delete", r#"{"role":"x"}"#, Same),
    ("/v3/auth/role/grant", r#"{"name":"x"}"#, Same),
    ("/v3/auth/role/revoke", r#"{"role":"x"}"#, Same),
    // Elections and locks.
    ("/v3/election/leader", r#"{"name":"Zm9v"}"#, Same),
    ("/v3/election/proclaim", "{}", Same),
    ("/v3/election/resign", "{}", Same),
    ("/v3/lock/unlock", r#"{"key":"Zm9v"}"#, Same),
    // etcd has the text, but no code for it: 500.
    ("/v3/election/campaign", r#"{"name":"Zm9v","lease":"4711"}"#, Ours(404)),
    ("/v3/lock/lock", r#"{"name":"Zm9v","lease":"4711"}"#, Ours(404)),
    ("/v3/lock/unlock", "{}", Ours(400)),
    // etcd takes a name that is none.
    ("/v3/election/campaign", "{}", Ours(400)),
    ("/v3/lock/lock", "{}", Ours(400)),
];

#[test]
fn gateway_has_every_path_in_its_table() {
    let paths: BTreeSet<_> = REQUESTS.iter().map(|(path, ..)| path).collect();
    assert_eq!(paths.len(), 51);
}

/// Leaves out what no two servers share.
fn comparable(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["cluster_id", "member_id", "raft_term"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(comparable);
        }
        Value::Array(elements) => elements.iter_mut().for_each(comparable),
        _ => {}
    }
}

/// The lines of a body, comparable.
fn lines(posted: &Posted) -> Vec<String> {
    let line = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(mut value) => {
            comparable(&mut value);
            value.to_string()
        }
        Err(_) => line.to_owned(),
    };
    posted.body.lines().map(line).collect()
}

fn differs(etcd: &Posted, ours: &Posted, alike: Alike) -> bool {
    let status = etcd.status != ours.status || etcd.kind != ours.kind;
    match alike {
        Same => status || lines(etcd) != lines(ours),
        Status => status,
        Ours(wanted) => ours.status != wanted,
        Known(wanted, message) => ours.status != wanted || ours.json()["message"] != message,
    }
}

/// Members can be changed as soon as every member has said that it knows how.
async fn knows_changes(gateway: &Gateway) {
    eventually("members can be changed", async || {
        let said = gateway.post("/v3/cluster/member/remove", r#"{"ID":"7"}"#).await;
        if said.body.contains(NO_MEMBER) { Ok(()) } else { Err(said.body) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_answers_every_path_as_etcd_does() {
    let etcd = Ctl::with_real_etcd().await;
    let etcd = Gateway::at(etcd.endpoints());
    let cluster = Cluster::start(1).await;
    let ours = Gateway::at(cluster.members[0].client);
    knows_changes(&ours).await;
    let mut wrong = Vec::new();
    for (path, body, alike) in REQUESTS {
        let answer = ours.post(path, *body).await;
        if answer.status != 200 {
            let text = answer.json();
            assert!(text["code"].as_i64().unwrap() > 0, "{path} {body}: {text}");
            assert!(!text["message"].as_str().unwrap().is_empty(), "{path} {body}: {text}");
            assert_eq!(text["error"], text["message"], "{path} {body}");
        }
        let real = match alike {
            Ours(_) | Known(..) => answer.clone(),
            _ => etcd.post(path, *body).await,
        };
        if differs(&real, &answer, *alike) {
            wrong.push(format!("{path} {body}\n  etcd {real:?}\n  ours {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_adds_moves_and_removes_a_learner() {
    let cluster = Cluster::start(3).await;
    let gateway = Gateway::at(cluster.members[0].client);
    knows_changes(&gateway).await;
    let [there, elsewhere] = reserve(2)[..] else { unreachable!("two were asked for") };
    let add = format!(r#"{{"peerURLs":["{}"],"isLearner":true}}"#, there.url());
    let added = gateway.post("/v3/cluster/member/add", add).await;
    assert_eq!(added.status, 200, "{added:?}");
    let (member, members) = (&added.json()["member"], &added.json()["members"]);
    assert_eq!((&member["isLearner"], members.as_array().unwrap().len()), (&true.into(), 4));
    let id = member["ID"].as_str().expect("numbers of 64 bits are text");

    let listed = async || {
        let list = gateway.post("/v3/cluster/member/list", r#"{"linearizable":true}"#).await.json();
        let members = list["members"].as_array().unwrap().clone();
        members.into_iter().find(|member| member["ID"] == id)
    };
    assert_eq!(listed().await.unwrap()["peerURLs"][0], there.url());
    let update = format!(r#"{{"ID":"{id}","peerURLs":["{}"]}}"#, elsewhere.url());
    let updated = gateway.post("/v3/cluster/member/update", update).await;
    assert_eq!(updated.status, 200, "{updated:?}");
    assert_eq!(listed().await.unwrap()["peerURLs"][0], elsewhere.url());
    let one = format!(r#"{{"ID":"{id}"}}"#);
    let promoted = gateway.post("/v3/cluster/member/promote", one.clone()).await;
    assert_eq!(promoted.status, 400, "{promoted:?}");
    let lags = "etcdserver: can only promote a learner member which is in sync with leader";
    assert_eq!(promoted.json()["message"], lags);
    let removed = gateway.post("/v3/cluster/member/remove", one).await;
    assert_eq!(removed.status, 200, "{removed:?}");
    assert_eq!(removed.json()["members"].as_array().unwrap().len(), 3);
    assert_eq!(listed().await, None);
}

/// A follower passes on what only the raft leader can do; the gateway has nothing to do with it.
#[tokio::test(flavor = "multi_thread")]
async fn gateway_answers_at_a_follower() {
    let cluster = Cluster::start(3).await;
    let follower = cluster.other_than(cluster.leader().await);
    let gateway = Gateway::at(cluster.members[follower].client);
    let put = gateway.post("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#).await;
    assert_eq!(put.status, 200, "{put:?}");
    let got = gateway.post("/v3/kv/range", r#"{"key":"Zm9v"}"#).await.json();
    assert_eq!(got["kvs"][0]["value"], "YmFy", "{got}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_has_no_other_paths_and_methods() {
    let cluster = Cluster::start(1).await;
    let gateway = Gateway::at(cluster.members[0].client);
    for method in ["GET", "PUT", "DELETE", "HEAD"] {
        let said = gateway.request(method, "/v3/kv/range", &[], "{}").await;
        assert_eq!(said.status, 405, "{method}: {said:?}");
    }
    for path in ["/v3", "/v3/", "/v3/kv", "/v3/kv/range/", "/v3/nonsense", "/v2/keys"] {
        let said = gateway.post(path, "{}").await;
        assert_eq!(said.status, 404, "{path}: {said:?}");
    }
    // As docs/reference/json-gateway.md says: no WebSockets, and nothing of Go's.
    let upgrade = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for path in ["/v3/watch", "/v3/lease/keepalive", "/v3/election/observe"] {
        let said = gateway.request("GET", path, &upgrade, "").await;
        assert_eq!(said.status, 405, "{path}: {said:?}");
    }
    for path in ["/debug/vars", "/debug/pprof"] {
        let said = gateway.request("GET", path, &[], "").await;
        assert_eq!(said.status, 404, "{path}: {said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_reads_headers_as_metadata() {
    let mut cluster = Cluster::start(3).await;
    let gateway = Gateway::at(cluster.members[0].client);
    let range = async |headers: &[(&str, &str)]| {
        let body = r#"{"key":"Zm9v","serializable":true}"#;
        gateway.request("POST", "/v3/kv/range", headers, body).await
    };
    let leader = [("Grpc-Metadata-hasleader", "true")];
    assert_eq!(range(&leader).await.status, 200);
    assert_eq!(range(&[("Authorization", "token")]).await.status, 200);
    let wrong = range(&[("Grpc-Timeout", "soon")]).await;
    assert_eq!((wrong.status, wrong.json()["code"].as_i64()), (400, Some(3)));
    cluster.members[1].kill();
    cluster.members[2].kill();
    // Without the others there is no raft leader soon; reading what is here still works.
    eventually("no raft leader", async || match range(&leader).await.status {
        503 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
    assert_eq!(range(&[]).await.status, 200);
    let put = [("Grpc-Timeout", "300m")];
    let late = gateway.request("POST", "/v3/kv/put", &put, r#"{"key":"Zm9v"}"#).await;
    assert!(matches!(late.status, 503 | 504), "{late:?}");
}
