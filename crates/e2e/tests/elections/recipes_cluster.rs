//! The library on clusters of three whose members are killed, stopped and told what to do.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tenure::api::wire::tenure::v1 as pb;
use tenure::elector::{Cancelled, ElectorConfig, LeaderElector, Scope};
use tenure::{
    AcquireError, Doubt, Election, Engine, Lock, Loss, RefusalKind, ReleaseError, Session,
    SessionOptions, SessionState, Sight,
};
use tenure_e2e::session::elections;
use tenure_e2e::{Caller, Cluster, Ctl, Member, Program, eventually, recipes::bounded};
use tokio::sync::{mpsc, oneshot};

const TTL: Duration = Duration::from_secs(4);

fn engines(cluster: &Cluster) -> [Engine; 2] {
    let endpoints = cluster.endpoints();
    [Engine::etcd(&endpoints).unwrap(), Engine::tenure(&endpoints).unwrap()]
}

async fn native(cluster: &Cluster, identity: &str) -> Session {
    let mut options = SessionOptions::new(TTL);
    options.identity = identity.to_owned();
    let engine = Engine::tenure(&cluster.endpoints()).unwrap();
    Session::open_with(&engine, options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn engine_is_detected() {
    let cluster = Cluster::start(1).await;
    assert_eq!(Engine::detect(&cluster.endpoints()).await.unwrap().name(), "tenure");
    let etcd = tenure_e2e::Ctl::with_real_etcd().await;
    assert_eq!(Engine::detect(etcd.endpoints()).await.unwrap().name(), "etcd");
}

/// On either engine: a holder and the waiting candidates stay in order when every member dies once.
#[tokio::test(flavor = "multi_thread")]
async fn holders_and_waiters_outlive_every_member() {
    let mut cluster = Cluster::start(3).await;
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for engine in engines(&cluster) {
        let session = Session::open(&engine, TTL).await.unwrap();
        let name = format!("lock-{}", engine.name());
        let hold = Lock::new(&session, name.clone()).unwrap().lock().await.unwrap();
        for _ in 0..3 {
            let session = Session::open(&engine, TTL).await.unwrap();
            let lock = Lock::new(&session, name.clone()).unwrap();
            waiting.push(tokio::spawn(async move { lock.lock().await }));
        }
        held.push((session, hold));
    }
    for at in 0..3 {
        cluster.members[at].kill();
        let others: Vec<_> = (0..3).filter(|other| *other != at).collect();
        cluster.leader_among(&others).await;
        for (session, hold) in &held {
            // A renewal that was sent after the kill is acknowledged.
            let known = session.deadline();
            eventually("renewed", async || {
                let left = session.remaining();
                if session.deadline() > known { Ok(()) } else { Err(format!("{left:?} left")) }
            })
            .await;
            assert!(hold.may_act(Duration::ZERO).is_ok(), "{:?}", hold.state());
        }
        cluster.members[at].start();
        cluster.ready().await;
    }
    assert!(waiting.iter().all(|waits| !waits.is_finished()));
    let tokens: Vec<_> = held.iter().map(|(_, hold)| hold.token()).collect();
    for (_, hold) in held {
        hold.release().await.unwrap();
    }
    for (at, waits) in waiting.into_iter().enumerate() {
        let hold = bounded("the next holds", waits).await.unwrap().unwrap();
        assert!(hold.token() > tokens[at / 3]);
        hold.release().await.unwrap();
    }
}

/// Hundreds of requests are under way when members die: each is done once.
#[tokio::test(flavor = "multi_thread")]
async fn session_outlives_every_member_under_many_requests() {
    const NAMES: usize = 200;
    let mut cluster = Cluster::start(3).await;
    for engine in engines(&cluster) {
        let session = Session::open(&engine, TTL).await.unwrap();
        let locks = (0..NAMES).map(|at| {
            let lock = Lock::new(&session, format!("{}-{at}", engine.name())).unwrap();
            tokio::spawn(async move { lock.lock().await })
        });
        let locks: Vec<_> = locks.collect();
        for at in 0..3 {
            cluster.members[at].kill();
            cluster.members[at].start();
            cluster.ready().await;
        }
        for lock in locks {
            let held = bounded("held", lock).await.unwrap().unwrap();
            let name = held.name().clone();
            assert_eq!(engine.candidates(name).await.unwrap()[0].token, held.token());
            held.release().await.unwrap();
        }
        let keys = tenure_e2e::pb::RangeRequest {
            key: format!("{}-", engine.name()).into(),
            range_end: format!("{}.", engine.name()).into(),
            ..Default::default()
        };
        assert_eq!(cluster.client().kv().range(keys).await.unwrap().count, 0, "nothing is left");
    }
}

/// Stock keys, the recipe over keys, and sessions of tenure.v1 are candidates in one election.
#[tokio::test(flavor = "multi_thread")]
async fn engines_share_one_election() {
    let cluster = Cluster::start(1).await;
    let [etcd, native] = engines(&cluster);
    let mut waiting = Vec::new();
    for (at, engine) in [&etcd, &native, &etcd, &native].into_iter().enumerate() {
        let session = Session::open(engine, TTL).await.unwrap();
        let lock = Lock::new(&session, "one").unwrap();
        waiting.push(tokio::spawn(async move { lock.lock().await }));
        eventually("it waits", async || {
            let listed = etcd.candidates("one").await.map_err(|error| error.to_string())?;
            if listed.len() == at + 1 { Ok(()) } else { Err(format!("{listed:?}")) }
        })
        .await;
    }
    let mut last = None;
    for waits in waiting {
        let hold = bounded("the next holds", waits).await.unwrap().unwrap();
        assert!(Some(hold.token()) > last);
        last = Some(hold.token());
        let listed = native.candidates("one").await.unwrap();
        assert_eq!(listed[0].token, hold.token());
        hold.release().await.unwrap();
    }
}

/// A chosen successor: the leader is asked to stop, resigns, and the successor leads.
#[tokio::test(flavor = "multi_thread")]
async fn leader_drains_for_a_chosen_successor() {
    let cluster = Cluster::start(1).await;
    let [old, other, chosen] = [
        native(&cluster, "old").await,
        native(&cluster, "other").await,
        native(&cluster, "new").await,
    ];
    let leads = Election::new(&old, "job").unwrap().candidate("old").campaign().await.unwrap();
    let passed = tokio::spawn(Election::new(&other, "job").unwrap().candidate("x").campaign());
    has_candidates(&old, 2).await;
    let next = tokio::spawn(Election::new(&chosen, "job").unwrap().candidate("new").campaign());
    has_candidates(&old, 3).await;
    let request = pb::TransferRequest {
        name: "job".into(),
        identity: "new".into(),
        within_ms: 10_000,
        ..Default::default()
    };
    elections(cluster.members[0].client).await.transfer(request).await.unwrap();
    let drain = bounded("asked to stop", leads.drain()).await;
    assert_eq!(drain.successor, "new");
    assert!(!next.is_finished(), "not before the old one has stopped");
    leads.resign().await.unwrap();
    let next = bounded("leads", next).await.unwrap().unwrap();
    assert!(next.may_act(Duration::ZERO).is_ok());
    assert!(!passed.is_finished(), "whoever was passed over waits on");
    next.resign().await.unwrap();
    let _passed = bounded("and leads after", passed).await.unwrap().unwrap();
}

/// An elector's work hears of the chosen successor, may end in peace, and the successor leads only then.
#[tokio::test(flavor = "multi_thread")]
async fn work_of_an_elector_drains_for_a_chosen_successor() {
    let cluster = Cluster::start(1).await;
    let mut config = ElectorConfig::new("job").unwrap();
    config.identity = "old".to_owned();
    let engine = Engine::tenure(&cluster.endpoints()).unwrap();
    let elector = LeaderElector::new(engine, config).unwrap();
    let (told, mut tells) = mpsc::unbounded_channel();
    let (finish, finished) = oneshot::channel::<()>();
    tokio::spawn({
        let (elector, mut finished) = (elector.clone(), Some(finished));
        async move {
            let work = |scope: Scope| {
                let (told, finished) = (told.clone(), finished.take());
                async move {
                    told.send(scope.cancelled().await).unwrap();
                    // Cleaning up takes as long as it takes.
                    let _ = finished.expect("it leads once").await;
                    ControlFlow::<()>::Break(())
                }
            };
            elector.run(work).await
        }
    });
    let chosen = native(&cluster, "new").await;
    has_candidates(&chosen, 1).await;
    let next = tokio::spawn(Election::new(&chosen, "job").unwrap().candidate("new").campaign());
    has_candidates(&chosen, 2).await;
    let request = pb::TransferRequest {
        name: "job".into(),
        identity: "new".into(),
        within_ms: 60_000,
        ..Default::default()
    };
    elections(cluster.members[0].client).await.transfer(request).await.unwrap();
    let why = bounded("asked to stop", tells.recv()).await.unwrap();
    let Cancelled::Drain(drain) = &why else { panic!("{why:?}") };
    assert_eq!(drain.successor, "new");
    assert!(elector.is_leader() && !next.is_finished(), "not before the work has ended");
    finish.send(()).unwrap();
    let _next = bounded("leads", next).await.unwrap().unwrap();
}

/// A leader that is overtaken has lost, and does not become a candidate again behind its own back.
#[tokio::test(flavor = "multi_thread")]
async fn leader_that_is_overtaken_has_lost_and_leaves_the_election() {
    let cluster = Cluster::start(1).await;
    let (low, high) = (native(&cluster, "low").await, native(&cluster, "high").await);
    let leads = Election::new(&low, "job").unwrap().candidate("low").campaign().await.unwrap();
    let election = Election::new(&high, "job").unwrap();
    let over = election.candidate("high").priority(10).preempting().campaign();
    let over = bounded("takes over", over).await.unwrap();
    assert_eq!(bounded("told", leads.lost()).await, Loss::Preempted);
    assert_eq!(leads.may_act(Duration::ZERO), Err(Doubt::Lost));
    assert!(over.token() > leads.token());
    has_candidates(&high, 1).await;
    assert_eq!(low.state(), SessionState::Held, "the session goes on");
}

/// A candidate that reports that it is not well is passed over, until it is well.
#[tokio::test(flavor = "multi_thread")]
async fn candidate_that_reports_ill_health_lets_others_pass() {
    let cluster = Cluster::start(1).await;
    let (first, ill, well) = (
        native(&cluster, "first").await,
        native(&cluster, "ill").await,
        native(&cluster, "well").await,
    );
    let leads = Election::new(&first, "job").unwrap().candidate("first").campaign().await.unwrap();
    let waits = Election::new(&ill, "job").unwrap().candidate("ill").unhealthy();
    let waits = waits.priority(7).metadata("zone", "a");
    let waits = tokio::spawn(waits.campaign());
    has_candidates(&first, 2).await;
    let next = tokio::spawn(Election::new(&well, "job").unwrap().candidate("well").campaign());
    has_candidates(&first, 3).await;
    let listed = Election::new(&first, "job").unwrap().candidates().await.unwrap();
    let shown = listed.iter().find(|one| one.identity == "ill").unwrap();
    assert!(shown.unhealthy && shown.priority == 7 && shown.metadata["zone"] == "a", "{shown:?}");
    assert!(shown.since.is_some_and(|since| since >= listed[0].since.unwrap()));
    leads.resign().await.unwrap();
    let next = bounded("passes", next).await.unwrap().unwrap();
    assert!(!waits.is_finished(), "whoever is not well waits");
    ill.report_health(next.name(), true).await.unwrap();
    next.resign().await.unwrap();
    let _leads = bounded("leads when it is well", waits).await.unwrap().unwrap();
}

/// The recipes inside etcdctl take the revision of their write's answer for the one at which their key was made. When
/// a candidate makes way for them in that very moment, more revisions follow: counting those, they waited for
/// themselves.
#[tokio::test(flavor = "multi_thread")]
async fn client_of_etcds_passes_a_candidate_that_is_not_well() {
    let cluster = Cluster::start(1).await;
    let ill = native(&cluster, "ill").await;
    let mut wins = Vec::new();
    for (name, verb) in [("office", "elect"), ("door", "lock")] {
        let waits = Election::new(&ill, name).unwrap().candidate("ill").unhealthy();
        let waits = tokio::spawn(waits.campaign());
        let looker = Caller::new(cluster.client());
        looker.has_candidates(name, 1).await;
        let words: &[&str] = if verb == "elect" { &[verb, name, "well"] } else { &[verb, name] };
        let program = Program::start(verb, &mut Ctl::of(&cluster).command(words));
        program.says(&format!("{name}/")).await;
        assert!(!waits.is_finished(), "{verb}: whoever is not well waits");
        wins.push((program, waits));
    }
}

/// Why it ended is told as it was: evicted, frozen, revoked.
#[tokio::test(flavor = "multi_thread")]
async fn tenure_end_has_its_reason() {
    let cluster = Cluster::start(1).await;
    let session = native(&cluster, "a").await;
    let election = Election::new(&session, "job").unwrap();
    let mut operator = elections(cluster.members[0].client).await;

    let leads = election.candidate("a").campaign().await.unwrap();
    operator.evict(pb::EvictRequest { name: "job".into(), token: 0 }).await.unwrap();
    assert_eq!(bounded("told", leads.lost()).await, Loss::Evicted);
    drop(leads);

    let leads = election.candidate("a").campaign().await.unwrap();
    operator.freeze(pb::FreezeRequest { name: "job".into() }).await.unwrap();
    assert_eq!(bounded("told", leads.lost()).await, Loss::Frozen);
    drop(leads);
    let error = election.candidate("a").try_campaign().await.unwrap_err();
    let refused = matches!(error, AcquireError::Frozen { .. } | AcquireError::Taken { .. });
    assert!(refused, "{error}");
    operator.resume(pb::ResumeRequest { name: "job".into() }).await.unwrap();

    let leads = election.candidate("a").campaign().await.unwrap();
    cluster.client().sessions().revoke(session.id().0).await.unwrap();
    assert_eq!(bounded("told", leads.lost()).await, Loss::Revoked);
    assert_eq!(bounded("told", session.lost()).await, Loss::Revoked);
}

/// A waiter whose candidacy is taken away is told why, and that its session lives: it campaigns again with it.
#[tokio::test(flavor = "multi_thread")]
async fn evicted_waiter_keeps_its_session() {
    let cluster = Cluster::start(1).await;
    let (first, second) = (native(&cluster, "first").await, native(&cluster, "second").await);
    let leads = Election::new(&first, "job").unwrap().candidate("a").campaign().await.unwrap();
    let election = Election::new(&second, "job").unwrap();
    let waits = tokio::spawn(election.candidate("b").campaign());
    has_candidates(&first, 2).await;
    let listed = election.candidates().await.unwrap();
    let token = listed[1].token.get();
    let mut operator = elections(cluster.members[0].client).await;
    operator.evict(pb::EvictRequest { name: "job".into(), token }).await.unwrap();
    let error = bounded("told", waits).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::CandidacyLost { loss: Loss::Evicted, .. }), "{error:?}");
    assert_eq!(second.state(), SessionState::Held);
    let again = tokio::spawn(election.candidate("b").campaign());
    has_candidates(&first, 2).await;
    leads.resign().await.unwrap();
    let _leads = bounded("leads", again).await.unwrap().unwrap();
}

/// Which rule it was is a value, not a text to be read.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_the_server_have_their_kind() {
    let cluster = Cluster::start(1).await;
    let session = native(&cluster, "a").await;
    let _leads = Election::new(&session, "job").unwrap().candidate("a").campaign().await.unwrap();
    let below = Lock::new(&session, "job/nightly").unwrap().lock().await.unwrap_err();
    assert_eq!(below.refusal(), Some(RefusalKind::NestedName), "{below:?}");
    let other = Election::new(&session, "other").unwrap();
    let high = other.candidate("a").priority(1001).campaign().await.unwrap_err();
    assert_eq!(high.refusal(), Some(RefusalKind::BadPriority), "{high:?}");
    let large =
        other.candidate("a").metadata("k", "v".repeat(1 << 20)).campaign().await.unwrap_err();
    assert_eq!(large.refusal(), Some(RefusalKind::TooLarge), "{large:?}");
    let ill = session.report_health(other.name(), false).await.unwrap_err();
    assert_eq!(ill.refusal(), Some(RefusalKind::NoSuchCandidacy), "{ill:?}");
}

/// An observer misses no tenure when the member it listens to is killed.
#[tokio::test(flavor = "multi_thread")]
async fn observer_outlives_its_member() {
    let mut cluster = Cluster::start(3).await;
    for engine in engines(&cluster) {
        let name = format!("job-{}", engine.name());
        let mut seen = tenure::Observer::open(&engine, name.as_str()).unwrap();
        assert_eq!(bounded("seen", seen.next()).await.unwrap().1, Sight::NoLeader);
        let session = Session::open(&engine, TTL).await.unwrap();
        let election = Election::new(&session, name.as_str()).unwrap();
        let mut told = Vec::new();
        for at in 0..3 {
            cluster.members[at].kill();
            let leads = bounded("leads", election.candidate("a").campaign()).await.unwrap();
            let token = leads.token();
            leads.resign().await.unwrap();
            cluster.members[at].start();
            cluster.ready().await;
            told.push(token);
        }
        let mut leaders = Vec::new();
        while leaders.len() < told.len() {
            match bounded("seen", seen.next()).await.unwrap().1 {
                Sight::Leads(tenure) => leaders.push(tenure.token),
                Sight::Gap => panic!("nothing was compacted"),
                Sight::Proclaims(_) | Sight::NoLeader => {}
            }
        }
        assert_eq!(leaders, told, "{name}");
    }
}

/// A cluster without a majority confirms nothing: its holders stop in time, by whichever means.
#[tokio::test(flavor = "multi_thread")]
async fn holders_stop_when_there_is_no_majority() {
    let cluster = Cluster::start(3).await;
    let mut held = Vec::new();
    for engine in engines(&cluster) {
        let session = Session::open(&engine, TTL).await.unwrap();
        let name = format!("lock-{}", engine.name());
        held.push(Lock::new(&session, name).unwrap().lock().await.unwrap());
    }
    let started = Instant::now();
    cluster.members[0].pause();
    cluster.members[1].pause();
    for hold in &held {
        assert_eq!(bounded("lost", hold.lost()).await, Loss::Unconfirmed);
        // A renewal may have been acknowledged just before the pause.
        assert!(started.elapsed() < TTL + Duration::from_millis(100), "{:?}", started.elapsed());
    }
    cluster.members[0].resume();
    cluster.members[1].resume();
}

/// On either engine: a waiter, and a holder that gives up, is told when its session must be over.
#[tokio::test(flavor = "multi_thread")]
async fn session_does_not_wait_for_members_that_do_not_come_back() {
    let mut cluster = Cluster::start(3).await;
    let looker = Caller::new(cluster.client());
    let mut parties = Vec::new();
    for engine in engines(&cluster) {
        let name = format!("lock-{}", engine.name());
        let lock = async || {
            let session = Session::open(&engine, TTL).await.unwrap();
            Lock::new(&session, name.clone()).unwrap()
        };
        let hold = lock().await.lock().await.unwrap();
        let next = lock().await;
        let waiting = tokio::spawn(async move { next.lock().await });
        looker.has_candidates(&name, 2).await;
        parties.push((hold, waiting));
    }
    cluster.members.iter_mut().for_each(Member::kill);
    for (hold, waiting) in parties {
        let gives_up = bounded("the holder is told", hold.release()).await;
        assert!(matches!(gives_up, Err(ReleaseError::SessionOver { .. })), "{gives_up:?}");
        let waited = bounded("the waiter is told", waiting).await.unwrap();
        assert!(matches!(waited, Err(AcquireError::SessionOver { .. })), "{waited:?}");
    }
}

async fn has_candidates(session: &Session, count: usize) {
    let election = Election::new(session, "job").unwrap();
    eventually(&format!("{count} candidates"), async || {
        let listed = election.candidates().await.map_err(|error| error.to_string())?;
        if listed.len() == count { Ok(()) } else { Err(format!("{listed:?}")) }
    })
    .await;
}
