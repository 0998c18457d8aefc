//! Streams of the JSON gateway: objects in, lines out.
#![allow(clippy::unwrap_used)]

use serde_json::json;
use tenure_e2e::{Cluster, Ctl, Gateway, eventually};

const CREATE: &str = r#"{"create_request":{"key":"Zm9v","prev_kv":true}}"#;

async fn put(gateway: &Gateway, value: &str) {
    let put = gateway.post("/v3/kv/put", format!(r#"{{"key":"Zm9v","value":"{value}"}}"#)).await;
    assert_eq!(put.status, 200, "{put:?}");
}

/// One watch from its creation over two events, at a server of either kind.
async fn watch_story(gateway: &Gateway) -> Vec<serde_json::Value> {
    let mut lines = gateway.lines("/v3/watch", &[], CREATE).await;
    assert_eq!(lines.status, 200);
    let mut told = vec![lines.next().await.unwrap()];
    put(gateway, "YQ==").await;
    told.push(lines.next().await.unwrap());
    put(gateway, "Yg==").await;
    told.push(lines.next().await.unwrap());
    gateway.post("/v3/kv/deleterange", r#"{"key":"Zm9v"}"#).await;
    told.push(lines.next().await.unwrap());
    for line in &mut told {
        let header = line["result"]["header"].as_object_mut().unwrap();
        header.retain(|name, _| name == "revision");
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn it_tells_a_watch_what_etcd_tells() {
    let etcd = Ctl::with_real_etcd().await;
    let cluster = Cluster::start(1).await;
    let wanted = watch_story(&Gateway::at(etcd.endpoints())).await;
    let told = watch_story(&Gateway::at(cluster.members[0].client)).await;
    assert_eq!(told, wanted);
    assert_eq!(told[3]["result"]["events"][0]["type"], json!("DELETE"));
}

/// etcd reads the whole body before it answers over HTTP/1; we listen while we talk.
#[tokio::test(flavor = "multi_thread")]
async fn it_takes_requests_while_a_watch_runs() {
    let cluster = Cluster::start(1).await;
    let gateway = Gateway::at(cluster.members[0].client);
    let (say, mut lines) = gateway.open("/v3/watch", CREATE).await;
    assert_eq!(lines.next().await.unwrap()["result"]["created"], json!(true));
    // In two pieces, to show that objects need not come whole.
    say.send(r#"{"create_request":{"key":"YmFy","#.to_owned()).unwrap();
    say.send(r#""watch_id":"7"}} {"progress_request":{}}"#.to_owned()).unwrap();
    let second = lines.next().await.unwrap();
    assert_eq!(
        (&second["result"]["created"], &second["result"]["watch_id"]),
        (&json!(true), &json!("7"))
    );
    assert_eq!(lines.next().await.unwrap()["result"]["watch_id"], json!("-1"));
    put(&gateway, "YQ==").await;
    let event = lines.next().await.unwrap();
    assert_eq!(event["result"]["events"][0]["kv"]["value"], json!("YQ=="));
    say.send(r#"{"cancel_request":{"watch_id":7}}"#.to_owned()).unwrap();
    let cancelled = lines.next().await.unwrap();
    assert_eq!(cancelled["result"]["canceled"], json!(true), "{cancelled}");
    // What cannot be read ends the stream with a word.
    say.send(r#"{"create_request":7}"#.to_owned()).unwrap();
    let last = lines.next().await.unwrap();
    assert_eq!(last["error"]["grpc_code"], json!(3), "{last}");
    assert_eq!(last["error"]["http_status"], json!("Bad Request"), "{last}");
    assert_eq!(lines.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_renews_leases_one_after_the_other() {
    let cluster = Cluster::start(1).await;
    let gateway = Gateway::at(cluster.members[0].client);
    gateway.post("/v3/lease/grant", r#"{"ID":7,"TTL":60}"#).await;
    let (say, mut lines) = gateway.open("/v3/lease/keepalive", r#"{"ID":7}"#).await;
    for _ in 0..3 {
        let renewed = lines.next().await.unwrap();
        assert_eq!(renewed["result"]["TTL"], json!("60"), "{renewed}");
        say.send(r#"{"ID":7}"#.to_owned()).unwrap();
    }
    drop(say);
    assert_eq!(lines.rest().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_a_stream_when_the_client_stops_waiting() {
    let cluster = Cluster::start(1).await;
    let gateway = Gateway::at(cluster.members[0].client);
    let patience = [("Grpc-Timeout", "300m")];
    let lines = gateway.lines("/v3/watch", &patience, CREATE).await;
    assert_eq!(lines.status, 200);
    let lines = lines.rest().await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[1]["error"]["http_code"], json!(504), "{lines:?}");
    // A stream that was never answered says so with its status.
    let silent = gateway.request("POST", "/v3/watch", &patience, "{}").await;
    assert_eq!((silent.status, silent.json()["code"].as_i64()), (504, Some(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_forgets_a_watch_whose_client_went_away() {
    const WATCHES: usize = 50;
    let cluster = Cluster::start(1).await;
    let member = &cluster.members[0];
    let gateway = Gateway::at(member.client);
    let sockets = || std::fs::read_dir(format!("/proc/{}/fd", member.pid())).unwrap().count();
    let before = sockets();
    let mut streams = Vec::new();
    for _ in 0..WATCHES {
        let mut stream = gateway.open("/v3/watch", CREATE).await;
        stream.1.next().await.unwrap();
        streams.push(stream);
    }
    assert!(sockets() >= WATCHES);
    drop(streams);
    eventually("their connections are closed", async || match sockets() {
        now if now <= before => Ok(()),
        now => Err(format!("{before} before, {now} now")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_streams_when_the_member_stops() {
    let mut cluster = Cluster::start(1).await;
    let gateway = Gateway::at(cluster.members[0].client);
    let mut lines = gateway.lines("/v3/watch", &[], CREATE).await;
    lines.next().await.unwrap();
    let stopped = cluster.members[0].stop().await;
    assert!(stopped.success(), "{stopped}");
}
