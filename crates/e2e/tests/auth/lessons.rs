//! What went wrong in etcd once, as tests. Those about TLS are in the rooms `api` and `cluster`.

use std::{fs, path::Path, time::Duration};

use tenure_api::wire::authpb::{UserAddOptions, permission::Type};
use tenure_e2e::{Cluster, Plan, Side, eventually, pb};

use crate::stage::{self, password, permission, token};

/// Whether any file below a directory has these bytes.
fn holds(dir: &Path, needle: &str) -> Option<String> {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = holds(&path, needle) {
                return Some(found);
            }
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        if bytes.windows(needle.len()).any(|part| part == needle.as_bytes()) {
            return Some(path.display().to_string());
        }
    }
    None
}

fn put(key: &str) -> pb::PutRequest {
    pb::PutRequest { key: key.to_owned().into(), value: "v".into(), ..Default::default() }
}

/// CVE-2021-28235 and TOB-012: a password or token is in no log, trace or file.
#[tokio::test(flavor = "multi_thread")]
async fn lesson_passwords_and_tokens_are_nowhere_on_disk_or_in_logs() {
    let cluster = Cluster::with(1, Plan::flags(&["--log-level", "trace"])).await;
    let side = stage::with_users(Side::Tenure(cluster)).await;
    let anybody = stage::asker(&side, 0).await;
    let root = anybody.token(&token(&anybody, "root", &password("root")).await.unwrap());
    let secrets = ["first-s3cret", "second-s3cret", "third-s3cret", "wrong-s3cret"];
    let add = |name: &str, password: &str, no_password| pb::AuthUserAddRequest {
        name: name.to_owned(),
        password: password.to_owned(),
        options: Some(UserAddOptions { no_password }),
        ..Default::default()
    };
    assert_eq!(root.user_add(add("ann", secrets[0], false)).await, "OK");
    assert_eq!(root.user_add(add("zoe", secrets[1], true)).await, "OK");
    let change = pb::AuthUserChangePasswordRequest {
        name: "ann".into(),
        password: secrets[2].into(),
        ..Default::default()
    };
    assert_eq!(root.change_password(change).await, "OK");
    let given = token(&anybody, "ann", secrets[2]).await.unwrap();
    token(&anybody, "ann", secrets[3]).await.unwrap_err();
    // It may read nothing, and the refusal is no reason to write the token down either.
    assert_eq!(anybody.token(&given).get("k1").await, "PD");
    assert_eq!(anybody.token("forged-s3cret").get("k1").await, "IT");
    let Side::Tenure(mut cluster) = side else { unreachable!() };
    cluster.members[0].stop().await;
    for secret in secrets.iter().copied().chain([given.as_str(), "forged-s3cret"]) {
        // The letters of a token without the index.
        let secret = secret.split('.').next().unwrap();
        assert_eq!(holds(cluster.home(), secret), None, "{secret}");
    }
}

/// CVE-2020-15115: an empty password is no login, also where one was set.
#[tokio::test(flavor = "multi_thread")]
async fn lesson_an_empty_password_never_logs_in() {
    let side = stage::with_users(stage::tenure(1, &[]).await).await;
    let anybody = stage::asker(&side, 0).await;
    let root = anybody.token(&token(&anybody, "root", &password("root")).await.unwrap());
    let add = pb::AuthUserAddRequest { name: "ann".into(), ..Default::default() };
    root.user_add(add).await;
    let refused = token(&anybody, "ann", "").await.unwrap_err();
    assert!(refused.message().contains("authentication failed"), "{refused:?}");
    let long = pb::AuthUserAddRequest {
        name: "long".into(),
        password: "x".repeat(73),
        ..Default::default()
    };
    assert_eq!(root.user_add(long).await, "2 bcrypt: password length exceeds 72 bytes");
}

/// CVE-2023-32082, CVE-2026-33343, CVE-2026-44283, GHSA-xg4h-6gfc-h4m8: ways around a right.
#[tokio::test(flavor = "multi_thread")]
async fn lesson_rights_have_no_way_around_them() {
    let side = stage::with_users(stage::tenure(1, &[]).await).await;
    let anybody = stage::asker(&side, 0).await;
    let root = anybody.token(&token(&anybody, "root", &password("root")).await.unwrap());
    let bob = anybody.token(&token(&anybody, "bob", &password("bob")).await.unwrap());
    let carol = anybody.token(&token(&anybody, "carol", &password("carol")).await.unwrap());
    assert_eq!(root.grant(pb::LeaseGrantRequest { ttl: 600, id: 9 }).await, "OK");
    assert_eq!(root.put(pb::PutRequest { lease: 9, ..put("z") }).await, "OK");
    let left = pb::LeaseTimeToLiveRequest { id: 9, keys: true };
    assert_eq!(carol.time_to_live(left).await, "PD");
    let op = |request| pb::RequestOp { request: Some(request) };
    use pb::request_op::Request::{RequestPut, RequestRange, RequestTxn};
    let mut inner =
        pb::TxnRequest { success: vec![op(RequestPut(put("k2")))], ..Default::default() };
    for _ in 0..3 {
        let nested = op(RequestTxn(inner));
        inner = pb::TxnRequest { failure: vec![nested], ..Default::default() };
    }
    assert_eq!(bob.txn(inner).await, "PD");
    let foreign = pb::PutRequest { lease: 9, ..put("w1") };
    let txn = pb::TxnRequest { success: vec![op(RequestPut(foreign))], ..Default::default() };
    assert_eq!(bob.txn(txn).await, "PD");
    let read = pb::RangeRequest { key: "z".into(), ..Default::default() };
    let txn = pb::TxnRequest { failure: vec![op(RequestRange(read))], ..Default::default() };
    assert_eq!(bob.txn(txn).await, "PD");
    assert_eq!(bob.watch("k1", "\0", 0).await, "-1 PD");
    assert_eq!(carol.leases(Default::default()).await, "PD");
}

/// Unknown kinds of permissions and reversed ranges: refused or without effect, and no member dies of them.
#[tokio::test(flavor = "multi_thread")]
async fn lesson_odd_permissions_grant_nothing_and_break_nothing() {
    let side = stage::with_users(stage::tenure(1, &[]).await).await;
    let anybody = stage::asker(&side, 0).await;
    let root = anybody.token(&token(&anybody, "root", &password("root")).await.unwrap());
    let carol = anybody.token(&token(&anybody, "carol", &password("carol")).await.unwrap());
    assert_eq!(root.role_add(pb::AuthRoleAddRequest { name: "odd".into() }).await, "OK");
    let grant = |perm| pb::AuthRoleGrantPermissionRequest { name: "odd".into(), perm };
    for (key, end) in [("z", "a"), ("a", "a"), ("", ""), ("", "b")] {
        let said = root.role_grant(grant(permission(Type::Read, key, end))).await;
        assert_eq!(said, "IM", "{key:?} {end:?}");
    }
    let mut unknown = permission(Type::Read, "k1", "").unwrap();
    unknown.perm_type = 77;
    assert_eq!(root.role_grant(grant(Some(unknown))).await, "OK");
    let role = pb::AuthUserGrantRoleRequest { user: "carol".into(), role: "odd".into() };
    assert_eq!(root.grant_role(role).await, "OK");
    assert_eq!(carol.get("k1").await, "PD");
    assert_eq!(carol.put(put("k1")).await, "PD");
    for (key, end) in [("z", "a"), ("m", "m")] {
        assert_eq!(carol.get_range(key, end).await, "PD");
        assert_eq!(carol.watch(key, end, 0).await, "-1 PD");
    }
    assert_eq!(root.get("k1").await, "OK");
}

/// 3.5.5, 3.5.6: a member that was restarted, or got its state as a snapshot, judges as the others do and still ends leases.
#[tokio::test(flavor = "multi_thread")]
async fn lesson_restarted_members_judge_alike_and_end_leases() {
    let plan = Plan::flags(&["--snapshot-count", "20"]);
    let side = stage::with_users(Side::Tenure(Cluster::with(3, plan).await)).await;
    let client = stage::client(&side, "root");
    let before = client.auth().status(pb::AuthStatusRequest {}).await.unwrap().auth_revision;
    let Side::Tenure(mut cluster) = side else { unreachable!() };
    cluster.members[2].kill();
    for n in 0..100 {
        client.kv().put(put(&format!("filler/{n}"))).await.unwrap();
    }
    cluster.members[2].start();
    cluster.members[0].kill();
    cluster.members[0].start();
    let side = Side::Tenure(cluster);
    for member in 0..3 {
        let address = side.address(member);
        let said = eventually(&format!("member {member} answers"), async || {
            tokio::net::TcpStream::connect(&address).await.map_err(|e| e.to_string())?;
            let anybody = stage::asker(&side, member).await;
            let given = token(&anybody, "bob", &password("bob")).await;
            let bob = anybody.token(&given.map_err(|e| e.to_string())?);
            Ok::<_, String>([bob.get("k1").await, bob.get("k2").await, bob.put(put("w1")).await])
        })
        .await;
        assert_eq!(said, ["OK", "PD", "OK"], "member {member}");
    }
    let client = stage::client(&side, "root");
    let after = client.auth().status(pb::AuthStatusRequest {}).await.unwrap().auth_revision;
    assert_eq!(before, after);
    client.lease().grant(pb::LeaseGrantRequest { ttl: 1, id: 5 }).await.unwrap();
    client.kv().put(pb::PutRequest { lease: 5, ..put("short") }).await.unwrap();
    eventually("the lease ends", async || {
        let read = pb::RangeRequest { key: "short".into(), ..Default::default() };
        match client.kv().range(read).await.unwrap().count {
            0 => Ok(()),
            _ => Err("it lives".to_owned()),
        }
    })
    .await;
}

/// As etcd's own peer port in the clear does not: no client API, with users or without.
#[tokio::test(flavor = "multi_thread")]
async fn lesson_peer_port_serves_no_client() {
    let side = stage::with_users(stage::tenure(1, &[]).await).await;
    let Side::Tenure(cluster) = &side else { unreachable!() };
    let peer = cluster.members[0].peer.to_string();
    let endpoint = tenure::grpc::Endpoint::list(&peer).unwrap();
    let options = stage::options("root");
    let client = tenure::grpc::Client::new(endpoint, options.within(Duration::from_secs(1)));
    client.kv().put(put("foo/a")).await.unwrap_err();
    let log = cluster.members[0].log();
    assert!(!log.contains("panicked"), "{log}");
}
