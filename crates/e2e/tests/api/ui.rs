//! The dashboard: its files and their headers from a real member, the list and the feed of elections behind it, and
//! `web/e2e`, which does in a real browser what people do.

use std::process::Command;

use serde_json::{Value, json};
use tenure_e2e::{Cluster, Gateway, Plan, tools};

const WEB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web");

/// In `web/e2e`, because a browser is driven from there: leaders and members are killed, buttons pressed. Every message on the
/// console fails it.
#[test]
fn ui_does_in_a_browser_what_its_pages_promise() {
    in_a_browser("e2e/dashboard.test.mjs");
}

/// Played to a breach, stepped back, forked, broken by a click, toured, exported.
#[test]
fn lab_ui_plays_breaks_and_forks_stories_in_a_browser() {
    in_a_browser("e2e/lab.test.mjs");
}

fn in_a_browser(tests: &str) {
    let modules = format!("{WEB}/node_modules/playwright-core");
    assert!(std::path::Path::new(&modules).exists(), "run scripts/check-web, or npm ci in web/");
    let mut node = Command::new(tools::system("node", "nodejs"));
    node.current_dir(WEB).args(["--test", "--test-reporter=spec", tests]);
    node.env("TENURE_BIN", tools::tenure()).env("CHROMIUM", tools::system("chromium", "chromium"));
    let done = node.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
}

async fn ask(at: &Gateway, path: &str, body: Value) -> Value {
    let posted = at.post(&format!("/v3/{path}"), body.to_string()).await;
    assert_eq!(posted.status, 200, "{path}: {posted:?}");
    posted.json()
}

/// A stock client that leads; the name is in base64. Answers what it needs to resign.
async fn campaign(at: &Gateway, name: &str) -> Value {
    let lease = ask(at, "lease/grant", json!({ "TTL": 60 })).await["ID"].clone();
    let request = json!({ "name": name, "lease": lease, "value": "YWxpY2U=" });
    ask(at, "election/campaign", request).await["leader"].clone()
}

fn names(news: &Value) -> Vec<&str> {
    let changed = news["result"]["changed"].as_array().map_or(&[][..], |list| list);
    changed.iter().map(|one| one["name"].as_str().unwrap()).collect()
}

/// `foo`, `fop` and `bar` in base64.
const FOO: &str = "Zm9v";
const FOP: &str = "Zm9w";
const BAR: &str = "YmFy";
const FOLLOW: &str = "/v3/tenure/elections/follow";

#[tokio::test(flavor = "multi_thread")]
async fn follow_lists_tells_changes_and_resumes_at_another_member() {
    let cluster = Cluster::start(3).await;
    let [first, other] = [0, 2].map(|at| Gateway::at(cluster.members[at].client));
    let leader = campaign(&first, FOO).await;

    let mut lines = first.lines(FOLLOW, &[], r#"{"prefix":"fo"}"#).await;
    let mut others = other.lines(FOLLOW, &[], r#"{"without_list":true}"#).await;
    let list = lines.next().await.unwrap();
    assert_eq!((&list["result"]["begins"], names(&list)), (&json!(true), vec!["foo"]), "{list}");
    let foo = &list["result"]["changed"][0];
    assert_eq!(
        (&foo["leader"]["identity"], &foo["state"]),
        (&json!("alice"), &json!("STATE_STEADY"))
    );
    let told = others.next().await.unwrap();
    assert_eq!((&told["result"]["begins"], names(&told)), (&json!(true), vec![]), "{told}");

    campaign(&first, BAR).await;
    campaign(&first, FOP).await;
    let news = lines.next().await.unwrap();
    assert_eq!((&news["result"]["complete"], names(&news)), (&json!(true), vec!["fop"]), "{news}");
    let revision = news["result"]["revision"].clone();
    drop(lines);
    ask(&first, "election/resign", json!({ "leader": leader })).await;

    let request = json!({ "prefix": "fo", "after_revision": revision });
    let mut resumed = other.lines(FOLLOW, &[], &request.to_string()).await;
    // What happened at the last revision may come again.
    let mut changed = Vec::new();
    let last = loop {
        let news = resumed.next().await.unwrap();
        assert_eq!(news["result"]["begins"], Value::Null, "it goes on: {news}");
        changed.extend(names(&news).into_iter().map(str::to_owned));
        if changed.iter().any(|name| name == "foo") {
            break news;
        }
    };
    let foo = last["result"]["changed"].as_array().unwrap().iter().find(|one| one["name"] == "foo");
    assert_eq!(foo.unwrap()["state"], json!("STATE_IDLE"), "{last}");

    let mut anew = other.lines(FOLLOW, &[], r#"{"after_revision":"1"}"#).await;
    let list = anew.next().await.unwrap();
    assert_eq!(list["result"]["begins"], json!(true), "that is not remembered: {list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn elections_are_listed_by_page_state_and_order() {
    let cluster = Cluster::start(1).await;
    let gateway = Gateway::at(cluster.members[0].client);
    campaign(&gateway, FOO).await;
    let fop = campaign(&gateway, FOP).await;
    campaign(&gateway, BAR).await;
    ask(&gateway, "election/resign", json!({ "leader": fop })).await;
    ask(&gateway, "tenure/elections/freeze", json!({ "name": "bar" })).await;
    let list = async |request: Value| {
        let listed = ask(&gateway, "tenure/elections/list", request).await;
        let elections = listed["elections"].as_array().cloned().unwrap_or_default();
        let names: Vec<String> =
            elections.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
        (names, listed)
    };
    let (names, _) = list(json!({})).await;
    assert_eq!(names, ["bar", "foo"], "with candidates, or frozen");
    let (names, listed) = list(json!({ "with_idle": true, "with_tenures": true })).await;
    assert_eq!(names, ["bar", "foo", "fop"]);
    let counts = json!([
        { "state": "STATE_STEADY", "count": 1 },
        { "state": "STATE_FROZEN", "count": 1 },
        { "state": "STATE_IDLE", "count": 1 },
    ]);
    assert_eq!((&listed["counts"], &listed["matching"]), (&counts, &json!(3)));
    let foo = &listed["elections"][1];
    assert_eq!((&foo["ttl_ms"], foo["tenures"].as_array().unwrap().len()), (&json!("60000"), 1));
    let left: u64 = foo["remaining_ms"].as_str().unwrap().parse().unwrap();
    assert!((1..=60_000).contains(&left), "{left}");
    let (names, listed) = list(json!({ "with_idle": true, "offset": 1, "limit": 1 })).await;
    assert_eq!((names, &listed["matching"]), (vec!["foo".to_owned()], &json!(3)));
    let (names, _) = list(json!({ "with_idle": true, "order": "BY_BEGINNING" })).await;
    assert_eq!(names, ["bar", "fop", "foo"]);
    let (names, listed) = list(json!({ "states": ["STATE_FROZEN"] })).await;
    assert_eq!((names, &listed["matching"]), (vec!["bar".to_owned()], &json!(1)));
    let (names, _) = list(json!({ "contains": "o", "prefix": "f" })).await;
    assert_eq!(names, ["foo"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lab_is_offered_by_members_that_were_told_to() {
    let with = Cluster::with(1, Plan::flags(&["--lab"])).await;
    let without = Cluster::start(1).await;
    let [with, without] = [&with, &without].map(|cluster| Gateway::at(cluster.members[0].client));
    let body = json!({ "story": "redlock-pause" }).to_string();
    let run = with.post("/lab/run", body.clone()).await;
    assert_eq!(run.status, 200);
    assert_eq!(without.post("/lab/run", body).await.status, 404);
    let wrong = with
        .post("/lab/run", json!({ "story": "redlock-pause", "faults": "at 1s x" }).to_string())
        .await;
    assert_eq!((wrong.status, &wrong.json()["column"]), (400, &json!(7)));
}
