//! Users in a cluster that works: switched on under load, taken away under a running command, with `run`, `elect` and
//! `sidecar`.

use std::{
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tenure::{Election, Engine, Session, SessionState, grpc::Endpoint};
use tenure_api::wire::authpb::permission::Type;
use tenure_e2e::{Program, Side, Sidecar, Supervised, eventually, pb, tools};

use crate::stage::{self, password};

fn put(key: &str) -> pb::PutRequest {
    pb::PutRequest { key: key.to_owned().into(), value: "v".into(), ..Default::default() }
}

fn read(key: &str) -> pb::RangeRequest {
    pb::RangeRequest { key: key.to_owned().into(), ..Default::default() }
}

/// Clients that have a login notice nothing while users are switched on and off and on.
#[tokio::test(flavor = "multi_thread")]
async fn auth_enable_under_load_fails_no_request_of_a_client_with_a_login() {
    // Nine clients log in at the same time: a build without optimisation would take seconds for each password.
    let side = stage::tenure(3, &["--bcrypt-cost=4"]).await;
    let Side::Tenure(cluster) = &side else { unreachable!() };
    let stranger = cluster.client();
    stage::add_users(&stranger).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for n in 0..8 {
        let client = stage::client(&side, "alice");
        let over = over.clone();
        workers.push(tokio::spawn(async move {
            let key = format!("foo/{n}");
            let mut done = 0_u64;
            while !over.load(Ordering::Relaxed) {
                client.kv().put(put(&key)).await.unwrap_or_else(|e| panic!("put {done}: {e}"));
                client.kv().range(read(&key)).await.unwrap_or_else(|e| panic!("get {done}: {e}"));
                done += 1;
            }
            done
        }));
    }
    let engine =
        Engine::tenure_at(Endpoint::list(&side.endpoints()).unwrap(), stage::options("alice"));
    let session = Session::open(&engine, Duration::from_secs(5)).await.unwrap();
    let election = Election::new(&session, "foo/job").unwrap();
    let lead = election.candidate("me").campaign().await.unwrap();

    stage::enable(&stranger).await;
    let root = stage::client(&side, "root");
    for round in 0..10 {
        // So much that everything is used between two switches.
        for _ in 0..20 {
            root.kv().put(put("pace")).await.unwrap();
        }
        assert_eq!(session.state(), SessionState::Held, "round {round}");
        root.auth().disable(pb::AuthDisableRequest {}).await.unwrap();
        root.auth().enable(pb::AuthEnableRequest {}).await.unwrap();
    }
    lead.may_act(Duration::ZERO).expect("the leader of before is still the leader");
    lead.proclaim("still").await.unwrap();
    over.store(true, Ordering::Relaxed);
    for worker in workers {
        assert!(worker.await.unwrap() > 0);
    }
}

/// `tenure observe` ends within a second of the revocation, and says why.
#[tokio::test(flavor = "multi_thread")]
async fn revoked_permission_stops_a_running_observe() {
    let side = stage::with_users(stage::tenure(3, &[]).await).await;
    let root = stage::client(&side, "root");
    let flags = ["--user", "alice", "--password", &password("alice")];
    let mut observe = Command::new("sh");
    observe.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(tools::tenure());
    observe.args(["--endpoints", &side.endpoints()]).args(flags).args(["observe", "foo/job"]);
    let mut observe = Program::start("observe", &mut observe);
    observe.says("nobody leads").await;
    let revoke = pb::AuthRoleRevokePermissionRequest {
        role: "alice".into(),
        key: "foo/".into(),
        range_end: "foo0".into(),
    };
    root.auth().role_revoke(revoke).await.unwrap();
    let revoked = Instant::now();
    let status = observe.ends().await;
    let took = revoked.elapsed();
    let said = observe.lines().join("\n");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("permission denied"), "{said}");
    assert!(took < Duration::from_secs(1), "it took {took:?}");
}

/// The same for a watch of keys.
#[tokio::test(flavor = "multi_thread")]
async fn revoked_permission_ends_a_watch() {
    let side = stage::with_users(stage::tenure(1, &[]).await).await;
    let root = stage::client(&side, "root");
    let alice = stage::client(&side, "alice");
    let create = pb::WatchCreateRequest { key: "foo/a".into(), ..Default::default() };
    let mut watch = alice.watch().resumed(create).await.unwrap();
    assert!(watch.next().await.unwrap().created);
    let revoke = pb::AuthUserRevokeRoleRequest { name: "alice".into(), role: "alice".into() };
    root.auth().user_revoke_role(revoke).await.unwrap();
    let error = watch.next().await.unwrap_err();
    assert!(error.to_string().contains("user \"alice\" may not read \"foo/a\""), "{error}");
}

/// A change that does not concern a user leaves its watches and logins alone.
#[tokio::test(flavor = "multi_thread")]
async fn unrelated_changes_of_users_disturb_no_client() {
    let side = stage::with_users(stage::tenure(1, &[]).await).await;
    let root = stage::client(&side, "root");
    let alice = stage::client(&side, "alice");
    let before = alice.token().await.unwrap();
    let create = pb::WatchCreateRequest { key: "foo/a".into(), ..Default::default() };
    let mut watch = alice.watch().resumed(create).await.unwrap();
    assert!(watch.next().await.unwrap().created);
    for n in 0..20 {
        stage::add_user(&root, &format!("other{n}")).await;
        stage::allow(&root, &format!("other{n}"), &[(Type::Read, "x", "")]).await;
        alice.kv().put(put("foo/b")).await.unwrap();
    }
    alice.kv().put(put("foo/a")).await.unwrap();
    assert_eq!(watch.next().await.unwrap().events.len(), 1);
    assert_eq!(alice.token().await.unwrap(), before, "the login of before is still good");
}

/// `run`, `elect` and the rest log in as their user, and their commands find the file and no password.
#[tokio::test(flavor = "multi_thread")]
async fn run_and_elect_lead_with_a_user() {
    let side = stage::with_users(stage::tenure(1, &[]).await).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    fs::write(&file, password("alice")).unwrap();
    let user = ["--user", "alice", "--password-file", file.to_str().unwrap()];
    // Its command uses the same login by itself.
    let work =
        ["run", "foo/job", "--", "sh", "-c", "\"$0\" get foo/none && echo ready; exec sleep 1000"];
    let tenure = tools::tenure().display().to_string();
    let words = [&user[..], &work, &[&tenure]].concat();
    let run = Supervised::start(&side.endpoints(), &words);
    run.program.says("ready").await;
    let elect = Supervised::start(&side.endpoints(), &[&user[..], &["elect", "foo/job"]].concat());
    elect.program.says("waiting for foo/job").await;
    run.program.ask_to_stop();
    elect.program.says("leading foo/job").await;
    let mut denied = Supervised::start(&side.endpoints(), &[&user[..], &["elect", "bar"]].concat());
    let status = denied.program.ends().await;
    let said = denied.program.lines().join("\n");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("permission denied"), "{said}");
    let mut stranger = Supervised::start(&side.endpoints(), &["elect", "foo/job"]);
    assert_ne!(stranger.program.ends().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_leads_with_a_user() {
    let side = stage::with_users(stage::tenure(3, &[]).await).await;
    let flags = ["--user", "alice", "--password", &password("alice")];
    let sidecar = Sidecar::start(&side.endpoints(), "foo/job", "a", &flags);
    sidecar.leads().await;
    // A user that loses its right loses its lead: the next candidate need not wait for ever.
    let root = stage::client(&side, "root");
    let gone = pb::AuthUserDeleteRequest { name: "alice".into() };
    root.auth().user_delete(gone).await.unwrap();
    eventually("the sidecar of a deleted user does not lead", async || {
        let answer = sidecar.ask("/leader").await;
        if answer.status == 200 && answer.body.contains("\"is_leader\":true") {
            return Err(answer.body);
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bench_measures_a_cluster_with_users() {
    let side = stage::with_users(stage::tenure(1, &[]).await).await;
    let ours = stage::ctl(&side, "root").with_program(tools::tenure());
    let ours = ours.with_flags(&["--user".to_owned(), format!("root:{}", password("root"))]);
    for workload in [
        &["bench", "put", "--total", "50"][..],
        &["bench", "put", "--gateway", "--total", "50"],
        &["bench", "get", "--total", "50"],
    ] {
        let report = ours.run(&[workload, &["-w", "json"]].concat()).json();
        assert_eq!(report[0]["operations"], 50, "{report:?}");
        assert_eq!(report[0]["errors"].as_u64().unwrap_or(0), 0, "{report:?}");
    }
}
