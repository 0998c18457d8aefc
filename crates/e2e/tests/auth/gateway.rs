//! Users at the JSON gateway, as curl and Patroni meet them.

use serde_json::json;
use tenure_e2e::{Gateway, Side};

use crate::stage::{self, password};

/// `foo/a` and `k1` in base64.
const FOO_A: &str = "Zm9vL2E=";
const K1: &str = "azE=";

fn login(name: &str, password: &str) -> String {
    json!({ "name": name, "password": password }).to_string()
}

async fn play(side: Side) {
    let is_etcd = matches!(side, Side::Etcd(_));
    let gateway = Gateway::at(side.address(0));
    // Patroni asks for a token first, and takes this text for "there are no users".
    let early = gateway.post("/v3/auth/authenticate", login("root", "x")).await;
    assert_eq!(early.status, 400, "{early:?}");
    assert_eq!(early.json()["error"], "etcdserver: authentication is not enabled");
    assert_eq!(early.json()["code"], 9);
    let side = stage::with_users(side).await;

    let answer = gateway.post("/v3/auth/authenticate", login("alice", &password("alice"))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let token = answer.json()["token"].as_str().unwrap().to_owned();
    let range = async |headers: &[(&str, &str)], key: &str| {
        gateway.request("POST", "/v3/kv/range", headers, json!({ "key": key }).to_string()).await
    };
    for header in ["authorization", "grpc-metadata-token", "grpc-metadata-authorization"] {
        let found = range(&[(header, &token)], FOO_A).await;
        assert_eq!(found.status, 200, "{header}: {found:?}");
    }
    let refused = async |headers: &[(&str, &str)], key: &str| {
        let answer = range(headers, key).await;
        let body = answer.json();
        assert_eq!(body["error"], body["message"], "{body}");
        (answer.status, body["code"].as_u64().unwrap(), body["error"].as_str().unwrap().to_owned())
    };
    let said = |status, code, text: &str| (status, code, format!("etcdserver: {text}"));
    let bearer = format!("Bearer {token}");
    if !is_etcd {
        assert_eq!(range(&[("authorization", &bearer)], FOO_A).await.status, 200);
    }
    // Not a header that says who asks.
    assert_eq!(refused(&[("token", &token)], FOO_A).await, said(400, 3, "user name is empty"));
    assert_eq!(refused(&[], FOO_A).await, said(400, 3, "user name is empty"));
    assert_eq!(
        refused(&[("authorization", "abc")], FOO_A).await,
        said(401, 16, "invalid auth token")
    );
    assert_eq!(refused(&[("authorization", &token)], K1).await, said(403, 7, "permission denied"));
    let wrong = gateway.post("/v3/auth/authenticate", login("alice", "x")).await;
    assert_eq!(wrong.status, 400);
    assert_eq!(
        wrong.json()["error"],
        "etcdserver: authentication failed, invalid user ID or password"
    );
    let nopw = gateway.post("/v3/auth/authenticate", login("nopw", "x")).await;
    assert_eq!((nopw.status, nopw.json()["code"].as_u64()), (500, Some(2)), "{nopw:?}");

    // A watch that is refused is an answer like others.
    let create = json!({ "create_request": { "key": K1 } }).to_string();
    let mut lines = gateway.lines("/v3/watch", &[("authorization", &token)], &create).await;
    assert_eq!(lines.status, 200);
    let first = lines.next().await.unwrap();
    assert_eq!(first["result"]["canceled"], true, "{first}");
    let reason = first["result"]["cancel_reason"].as_str().unwrap_or_default();
    assert!(reason.ends_with("permission denied"), "{first}");

    // The whole service has paths.
    let root = gateway.post("/v3/auth/authenticate", login("root", &password("root"))).await;
    let root = root.json()["token"].as_str().unwrap().to_owned();
    let ask = async |path: &str, body: serde_json::Value| {
        let path = format!("/v3/auth/{path}");
        gateway.request("POST", &path, &[("authorization", &root)], body.to_string()).await
    };
    for (path, body, field) in [
        ("status", json!({}), "enabled"),
        ("user/list", json!({}), "users"),
        ("user/add", json!({ "name": "eve", "password": "x" }), "header"),
        ("user/get", json!({ "name": "alice" }), "roles"),
        ("user/changepw", json!({ "name": "eve", "password": "y" }), "header"),
        ("role/add", json!({ "name": "r" }), "header"),
        ("role/grant", json!({ "name": "r", "perm": { "permType": "READ", "key": K1 } }), "header"),
        ("role/get", json!({ "role": "r" }), "perm"),
        ("user/grant", json!({ "user": "eve", "role": "r" }), "header"),
        ("user/revoke", json!({ "name": "eve", "role": "r" }), "header"),
        ("role/revoke", json!({ "role": "r", "key": K1 }), "header"),
        ("role/list", json!({}), "roles"),
        ("role/delete", json!({ "role": "r" }), "header"),
        ("user/delete", json!({ "name": "eve" }), "header"),
        ("enable", json!({}), "header"),
        ("disable", json!({}), "header"),
    ] {
        let answer = ask(path, body).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(!answer.json()[field].is_null(), "{path}: {answer:?}");
    }
    drop(side);
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_logs_users_in_on_a_real_etcd() {
    play(stage::etcd(1, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_logs_users_in_on_tenure() {
    play(stage::tenure(1, &[]).await).await;
}
