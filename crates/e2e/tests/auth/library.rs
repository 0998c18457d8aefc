//! The library with a user: logging in, again and again, and what it says when a user may not.

use std::time::Duration;

use tenure::grpc::{Client, ClientError, Credentials, Endpoint, Options};
use tenure::{AcquireError, Election, Engine, EngineError, Observer, Session, SessionState, Sight};
use tenure_e2e::{Scrape, Side, eventually, pb};

use crate::stage;

fn put(key: &str) -> pb::PutRequest {
    pb::PutRequest { key: key.to_owned().into(), value: "v".into(), ..Default::default() }
}

/// All tokens that were given out are refused from now on.
async fn forget_tokens(root: &Client) {
    root.auth().disable(pb::AuthDisableRequest {}).await.unwrap();
    root.auth().enable(pb::AuthEnableRequest {}).await.unwrap();
}

async fn logins(side: &Side) -> f64 {
    let scrape = Scrape::of(&side.address(0)).await.unwrap();
    let is_login = |name: &str| {
        name.starts_with("grpc_server_handled_total") && name.contains("\"Authenticate\"")
    };
    scrape.series.iter().filter(|(name, _)| is_login(name)).map(|(_, value)| value).sum()
}

/// A read, a write, a watch and a lease each notice a stale token by themselves.
async fn renews(side: Side) {
    let side = stage::with_users(side).await;
    let root = stage::client(&side, "root");
    let alice = stage::client(&side, "alice");
    alice.kv().put(put("foo/a")).await.unwrap();
    let create =
        || pb::WatchCreateRequest { key: "foo/a".into(), start_revision: 1, ..Default::default() };
    let mut watch = alice.watch().resumed(create()).await.unwrap();
    assert!(watch.next().await.unwrap().created);

    forget_tokens(&root).await;
    alice.kv().put(put("foo/a")).await.unwrap();
    forget_tokens(&root).await;
    let read = pb::RangeRequest { key: "foo/a".into(), ..Default::default() };
    assert_eq!(alice.kv().range(read).await.unwrap().kvs[0].version, 2);
    forget_tokens(&root).await;
    let granted = alice.lease().grant(pb::LeaseGrantRequest { ttl: 60, id: 0 }).await.unwrap();
    forget_tokens(&root).await;
    let mut renewals = alice.lease().renewals(granted.id).await.unwrap();
    // A member may judge the stream by its first message only.
    if renewals.answer().await.is_err() {
        renewals = alice.lease().renewals(granted.id).await.unwrap();
        renewals.answer().await.unwrap();
    }
    forget_tokens(&root).await;
    let mut again = alice.watch().resumed(create()).await.unwrap();
    let mut events = 0;
    while events < 2 {
        let answer = again.next().await.unwrap();
        assert!(!answer.canceled, "{answer:?}");
        events += answer.events.len();
    }
    let mut events = 0;
    while events < 2 {
        events += watch.next().await.unwrap().events.len();
    }
}

/// Requests that find the token stale together get one new token.
async fn logs_in_once(side: Side) {
    let side = stage::with_users(side).await;
    let root = stage::client(&side, "root");
    let alice = stage::client(&side, "alice");
    for round in 0..2 {
        let before = logins(&side).await;
        let many = (0..50).map(|n| {
            let alice = alice.clone();
            tokio::spawn(async move { alice.kv().put(put(&format!("foo/{n}"))).await.unwrap() })
        });
        for one in many.collect::<Vec<_>>() {
            one.await.unwrap();
        }
        assert_eq!(logins(&side).await - before, 1.0, "round {round}");
        root.auth().status(pb::AuthStatusRequest {}).await.unwrap();
        forget_tokens(&root).await;
    }
}

/// What is wrong is a kind of error, and says what to do.
async fn explains(side: Side) {
    let side = stage::with_users(side).await;
    let endpoints = Endpoint::list(&side.endpoints()).unwrap();
    let alice = stage::client(&side, "alice");
    let error = alice.kv().put(put("nightly/job")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "permission denied: user \"alice\" may not write \"nightly/job\"; grant it with: \
         tenure role grant-permission ROLE write \"nightly/job\""
    );
    let ClientError::Denied { text, .. } = error else { panic!("{error:?}") };
    assert_eq!(text, "etcdserver: permission denied");
    let error = alice.auth().user_list(pb::AuthUserListRequest {}).await.unwrap_err();
    assert!(error.to_string().contains("without role root"), "{error}");
    // A watch is refused on a stream that stays open.
    let create = pb::WatchCreateRequest { key: "bar".into(), ..Default::default() };
    let mut watch = alice.watch().resumed(create).await.unwrap();
    let error = watch.next().await.unwrap_err();
    assert!(error.to_string().contains("user \"alice\" may not read \"bar\""), "{error}");

    let with = |credentials: Option<Credentials>| {
        Client::new(endpoints.clone(), Options { credentials, ..Options::default() })
    };
    let wrong = with(Some(Credentials::user("alice", "wrong")));
    let error = wrong.kv().put(put("foo/a")).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::LoginFailed { user, .. } if user == "alice"),
        "{error:?}"
    );
    assert!(error.is_refused() && error.is_about_the_user() && !error.outcome_unknown());
    let stranger = with(None).kv().put(put("foo/a")).await.unwrap_err();
    assert_eq!(stranger.to_string(), "etcdserver: user name is empty");
    let forged = with(Some(Credentials::token("forged"))).kv().put(put("foo/a")).await.unwrap_err();
    assert_eq!(forged.to_string(), "etcdserver: invalid auth token");
    // A token that was got elsewhere is as good as a password, for as long as it lives.
    let token = alice.token().await.unwrap().unwrap();
    let borrowed = with(Some(Credentials::token(token.reveal())));
    borrowed.kv().put(put("foo/a")).await.unwrap();
}

/// A cluster without users is not bothered with them, and one that gets them is logged in to.
async fn meets_users_late(side: Side) {
    let alice = stage::client(&side, "alice");
    alice.kv().put(put("foo/a")).await.unwrap();
    assert!(alice.token().await.unwrap().is_none());
    let side = stage::with_users(side).await;
    alice.kv().put(put("foo/a")).await.unwrap();
    assert!(alice.token().await.unwrap().is_some());
    drop(side);
}

/// A leader stays the leader while tokens are taken from it.
async fn leads(side: Side, engine: impl Fn(Vec<Endpoint>, Options) -> Engine) {
    let side = stage::with_users(side).await;
    let endpoints = Endpoint::list(&side.endpoints()).unwrap();
    let root = stage::client(&side, "root");
    let engine = engine(endpoints, stage::options("alice"));
    let ttl = Duration::from_secs(5);
    let session = Session::open(&engine, ttl).await.unwrap();
    let election = Election::new(&session, "foo/job").unwrap();
    let lead = election.candidate("me").campaign().await.unwrap();
    let mut seen = Observer::open(&engine, "foo/job").unwrap();
    let Ok((_, Sight::Leads(leader))) = seen.next().await else { panic!("no leader") };
    assert_eq!(leader.token, lead.token());
    let until = tokio::time::Instant::now() + 2 * ttl;
    while tokio::time::Instant::now() < until {
        forget_tokens(&root).await;
        lead.proclaim("still me").await.unwrap();
        assert_eq!(session.state(), SessionState::Held, "while tokens are taken away");
        tokio::time::sleep(ttl / 5).await;
    }
    loop {
        match seen.next().await.unwrap().1 {
            Sight::Proclaims(leader) if leader.value == b"still me" => break,
            _ => {}
        }
    }
    // Where it may not, it is told so at once.
    let error = Election::new(&session, "bar").unwrap().candidate("me").campaign().await;
    let AcquireError::Refused { source, .. } = error.unwrap_err() else { panic!("not refused") };
    let EngineError::Refused { text, .. } = &source else { panic!("{source:?}") };
    assert!(text.contains("permission denied"), "{text}");
    let mut blind = Observer::open(&engine, "bar").unwrap();
    let error = blind.next().await.unwrap_err();
    assert!(format!("{error:?}").contains("permission denied"), "{error:?}");
    lead.resign().await.unwrap();

    if matches!(side, Side::Etcd(_)) {
        // 3.5.1 renews leases without asking for a user.
        return;
    }
    // A user that is no more loses what it holds: it may not renew it.
    let lead = election.candidate("me").campaign().await.unwrap();
    root.auth().user_delete(pb::AuthUserDeleteRequest { name: "alice".into() }).await.unwrap();
    eventually("the session of a deleted user is lost", async || match session.state() {
        SessionState::Lost(_) => Ok(()),
        state => Err(format!("{state:?}")),
    })
    .await;
    assert!(lead.may_act(Duration::ZERO).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn client_renews_its_login_on_a_real_etcd() {
    renews(stage::etcd(1, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_renews_its_login_on_tenure() {
    renews(stage::tenure(3, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_logs_in_once_for_many_requests_on_a_real_etcd() {
    logs_in_once(stage::etcd(1, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_logs_in_once_for_many_requests_on_tenure() {
    logs_in_once(stage::tenure(1, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_explains_refusals_of_a_real_etcd() {
    explains(stage::etcd(1, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_explains_refusals_of_tenure() {
    explains(stage::tenure(1, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_meets_users_that_come_late_on_a_real_etcd() {
    meets_users_late(stage::etcd(1, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_meets_users_that_come_late_on_tenure() {
    meets_users_late(stage::tenure(1, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_with_a_user_outlives_its_tokens_on_a_real_etcd() {
    leads(stage::etcd(1, &[]).await, Engine::etcd_at).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_with_a_user_outlives_its_tokens_by_etcds_api() {
    leads(stage::tenure(3, &[]).await, Engine::etcd_at).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_with_a_user_outlives_its_tokens_on_tenure() {
    leads(stage::tenure(3, &[]).await, Engine::tenure_at).await;
}
