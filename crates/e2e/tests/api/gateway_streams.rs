//! Streams of the JSON gateway: objects in, lines out.

use serde_json::json;
use tenure_e2e::{Caller, Cluster, Ctl, Gateway, eventually};

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
async fn gateway_tells_a_watch_what_etcd_tells() {
    let etcd = Ctl::with_real_etcd().await;
    let cluster = Cluster::start(1).await;
    let wanted = watch_story(&Gateway::at(etcd.endpoints())).await;
    let told = watch_story(&Gateway::at(cluster.members[0].client)).await;
    assert_eq!(told, wanted);
    assert_eq!(told[3]["result"]["events"][0]["type"], json!("DELETE"));
}

/// etcd reads the whole body before it answers over HTTP/1; we listen while we talk.
#[tokio::test(flavor = "multi_thread")]
async fn gateway_takes_requests_while_a_watch_runs() {
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
async fn gateway_renews_leases_one_after_the_other() {
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

/// An election from its first leader over a proclamation to a second one, at a server of either kind. `office` is
/// b2ZmaWNl.
async fn election_story(gateway: &Gateway) -> Vec<serde_json::Value> {
    let mut leaders = Vec::new();
    for lease in [7, 8] {
        gateway.post("/v3/lease/grant", json!({ "ID": lease, "TTL": 600 }).to_string()).await;
    }
    let campaign = async |lease: i64, value: &str| {
        let body = json!({ "name": "b2ZmaWNl", "lease": lease, "value": value });
        gateway.post("/v3/election/campaign", body.to_string()).await.json()
    };
    let first = campaign(7, "YQ==").await;
    let observe = r#"{"name":"b2ZmaWNl"}"#;
    let mut lines = gateway.lines("/v3/election/observe", &[], observe).await;
    leaders.push(lines.next().await.unwrap());
    let proclaim = json!({ "leader": first["leader"], "value": "Yg==" });
    gateway.post("/v3/election/proclaim", proclaim.to_string()).await;
    leaders.push(lines.next().await.unwrap());
    let (second, resigned) = tokio::join!(campaign(8, "Yw=="), async {
        eventually("the second waits", async || {
            let line = r#"{"key":"b2ZmaWNlLw==","range_end":"b2ZmaWNlMA=="}"#;
            let found = gateway.post("/v3/kv/range", line).await.json();
            if found["count"] == "2" { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
        let resign = json!({ "leader": first["leader"] });
        gateway.post("/v3/election/resign", resign.to_string()).await
    });
    assert_eq!(resigned.status, 200, "{resigned:?}");
    leaders.push(lines.next().await.unwrap());
    leaders.push(gateway.post("/v3/election/leader", observe).await.json());
    leaders.extend([first, second]);
    for told in &mut leaders {
        strip(told);
    }
    leaders
}

/// Leaves out what no two servers share, and what only we say.
fn strip(value: &mut serde_json::Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| name != "header" && name != "fencing_token");
        fields.values_mut().for_each(strip);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_tells_an_observer_what_etcd_tells() {
    let etcd = Ctl::with_real_etcd().await;
    let cluster = Cluster::start(1).await;
    let wanted = election_story(&Gateway::at(etcd.endpoints())).await;
    let told = election_story(&Gateway::at(cluster.members[0].client)).await;
    assert_eq!(told, wanted);
}

/// A client that waits for a lock over HTTP/1 and closes the connection gives up its candidacy.
#[tokio::test(flavor = "multi_thread")]
async fn gateway_lets_go_of_a_lock_whose_client_went_away() {
    let cluster = Cluster::start(3).await;
    let caller = Caller::new(cluster.members[0].client());
    let held = caller.locked("door", caller.lease(600).await).await;
    let lease = caller.lease(600).await;
    let gateway = Gateway::at(cluster.members[1].client);
    let body = json!({ "name": "ZG9vcg==", "lease": lease }).to_string();
    let waiting = tokio::spawn(async move { gateway.post("/v3/lock/lock", body).await });
    caller.has_candidates("door", 2).await;
    waiting.abort();
    let line = caller.has_candidates("door", 1).await;
    assert_eq!(line[0].key, held.key);
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_ends_a_stream_when_the_client_stops_waiting() {
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
async fn gateway_forgets_a_watch_whose_client_went_away() {
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
async fn gateway_ends_streams_when_the_member_stops() {
    let mut cluster = Cluster::start(1).await;
    let gateway = Gateway::at(cluster.members[0].client);
    let mut lines = gateway.lines("/v3/watch", &[], CREATE).await;
    lines.next().await.unwrap();
    let stopped = cluster.members[0].stop().await;
    assert!(stopped.success(), "{stopped}");
}
