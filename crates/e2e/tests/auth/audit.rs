//! The audit log of a member: who did what, from where, and what came of it.

use std::{fs, time::Duration};

use serde_json::Value;
use tenure::{Election, Engine, Session, grpc::Endpoint};
use tenure_e2e::{Cluster, Plan, Side, eventually};

use crate::stage::{self, password};

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_log_tells_who_did_what_and_no_secret() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("audit.log");
    let flag = format!("--audit-log={}", file.display());
    let cluster = Cluster::with(1, Plan::flags(&[&flag])).await;
    let side = stage::with_users(Side::Tenure(cluster)).await;
    let root = stage::client(&side, "root");
    let engine =
        Engine::tenure_at(Endpoint::list(&side.endpoints()).unwrap(), stage::options("alice"));
    let session = Session::open(&engine, Duration::from_secs(10)).await.unwrap();
    let election = Election::new(&session, "foo/job").unwrap();
    let lead = election.candidate("s3cret value").campaign().await.unwrap();
    lead.proclaim("another s3cret value").await.unwrap();
    root.elections().freeze("foo/job".into()).await.unwrap();
    stage::client(&side, "alice").elections().freeze("bar".into()).await.unwrap_err();
    let anybody = stage::asker(&side, 0).await;
    stage::token(&anybody, "alice", "wrong-s3cret").await.unwrap_err();
    session.close().await;
    let wanted: [(&str, Option<&str>, &str, &str); 8] = [
        ("user.add", None, "target", "alice"),
        ("auth.enable", None, "outcome", "ok"),
        ("auth.login", None, "target", "alice"),
        ("session.open", Some("alice"), "outcome", "ok"),
        ("election.join", Some("alice"), "election", "foo/job"),
        ("election.proclaim", Some("alice"), "election", "foo/job"),
        ("election.freeze", Some("root"), "election", "foo/job"),
        ("session.end", Some("alice"), "outcome", "ok"),
    ];
    // They are written beside the answers.
    let text = eventually("all lines are there", async || {
        let text = fs::read_to_string(&file).unwrap();
        let lines = lines(&text);
        let is_there = |(action, user, field, value): &(&str, Option<&str>, &str, &str)| {
            lines.iter().any(|line| {
                line["action"] == *action
                    && line["user"].as_str() == *user
                    && line[field] == *value
                    && line["from"].as_str().is_some_and(|from| from.starts_with("127."))
                    && line["member"] == "n1"
            })
        };
        match wanted.iter().find(|wanted| !is_there(wanted)) {
            None => Ok(text),
            Some(missing) => Err(format!("{missing:?} is not in\n{text}")),
        }
    })
    .await;
    let all = lines(&text);
    let refused =
        all.iter().find(|line| line["action"] == "election.freeze" && line["user"] == "alice");
    let refused = refused.unwrap_or_else(|| panic!("no refusal in\n{text}"));
    assert_eq!(refused["outcome"], "refused");
    assert_eq!(refused["why"], "etcdserver: permission denied");
    let failed =
        all.iter().find(|line| line["action"] == "auth.login" && line["outcome"] == "refused");
    assert_eq!(failed.unwrap()["target"], "alice");
    for secret in ["s3cret", &password("alice"), &password("root"), "$2a$", "$2b$"] {
        assert!(!text.contains(secret), "{secret} is in\n{text}");
    }
}

/// A log that cannot be kept is said before the member serves.
#[tokio::test(flavor = "multi_thread")]
async fn audit_log_that_cannot_be_written_keeps_a_member_from_starting() {
    let home = tempfile::tempdir().unwrap();
    let flag = format!("--audit-log={}", home.path().display());
    let mut cluster = Cluster::prepare(1, Plan::flags(&[&flag]));
    cluster.members[0].start();
    let status = cluster.members[0].wait_for_end().await;
    assert!(!status.success());
    assert!(cluster.members[0].log().contains("--audit-log"), "{}", cluster.members[0].log());
}
