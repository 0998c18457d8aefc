//! Maintenance and HTTP, where etcd's answers have a shape of their own: both servers are asked the same.

use serde_json::{Value, json};
use tenure_e2e::{Address, Cluster, Etcd, Gateway, Plan, eventually, fetch};

/// The answers to some requests: path, whether there is a header, and the rest.
async fn play(at: Address) -> Vec<(&'static str, bool, Value)> {
    let gateway = Gateway::at(at);
    let id = gateway.post("/v3/maintenance/status", "{}").await.json()["leader"].clone();
    let to_itself = json!({ "targetID": id }).to_string();
    let raise = r#"{"action": "ACTIVATE", "alarm": "NOSPACE"}"#;
    let lower = r#"{"action": "DEACTIVATE", "alarm": "NOSPACE"}"#;
    let mut answers = vec![];
    for (path, body) in [
        ("/v3/maintenance/defragment", "{}"),
        ("/v3/maintenance/transfer-leadership", &to_itself),
        ("/v3/maintenance/alarm", raise),
        ("/v3/maintenance/alarm", r#"{"action": "GET"}"#),
        ("/v3/kv/put", r#"{"key": "YQ==", "value": "YQ=="}"#),
        ("/v3/maintenance/alarm", lower),
        ("/v3/maintenance/alarm", r#"{"action": "GET"}"#),
        ("/v3/kv/put", r#"{"key": "YQ==", "value": "YQ=="}"#),
    ] {
        let mut answer = gateway.post(path, body).await.json();
        let header = answer.as_object_mut().unwrap().remove("header");
        answers.push((path, header.is_some(), answer));
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_answers_as_etcd() {
    // Smaller than anybody would want it, and room for a key.
    let quota = ["--quota-backend-bytes", "1000000"];
    let etcd = Etcd::with(1, &quota).await;
    let cluster = Cluster::with(1, Plan::flags(&quota)).await;
    let member = cluster.members[0].client;
    // A cluster of one raises its version in the first moments.
    eventually("the member is ready", async || {
        match fetch(&cluster.endpoints(), "/readyz").await {
            Ok((head, _)) if head.contains(" 200 ") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(play(member).await, play(etcd.client(0)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_of_a_fresh_store_has_a_size() {
    let cluster = Cluster::start(1).await;
    let status = cluster.status(0).await.unwrap();
    assert!(status.db_size > 0 && status.db_size_in_use > 0, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn version_has_the_fields_of_etcd() {
    let etcd = Etcd::start(1).await;
    let cluster = Cluster::start(1).await;
    let fields = async |endpoints: &str, path: &str| {
        let (_, page) = fetch(endpoints, path).await.unwrap();
        let page: Value = serde_json::from_str(&page).unwrap();
        page.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let ours = fields(&cluster.endpoints(), "/version").await;
    assert_eq!(ours, fields(&etcd.endpoints(), "/version").await);
    assert_eq!(fields(&cluster.endpoints(), "/tenure/version").await, ["tenure"]);
}
