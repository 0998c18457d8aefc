//! What goes wrong with others' leases and stores, on a real etcd 3.5.1 and on us.
//!
//! What is to be seen on each is in `tenure_e2e::faults`, by the name of the test.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tenure::{
    Election, Engine, FencingToken, Session,
    grpc::{Client, ClientError},
};
use tenure_e2e::{
    Caller, Cluster, Etcd, Plan, Side, eventually, eventually_within,
    faults::{on_both, on_both_with, on_so_many},
    pb,
};
use tokio::task::JoinSet;

const TTL: i64 = 600;
/// Long enough to outlive an election of etcd's.
const SHORT_TTL: i64 = 3;
const RENEWAL_INTERVAL: Duration = Duration::from_millis(500);
/// etcd looks for dead leases twice in a second.
const SLEEPER_PATIENCE: Duration = Duration::from_secs(2);
const SESSION_TTL: Duration = Duration::from_secs(60);
/// More than etcd ends in a second, by far: it ends a thousand.
const LEASES: usize = 5000;
/// How many of them are asked for at once.
const GRANTS_AT_ONCE: usize = 100;
/// When all of them shall end. They should have been granted by then.
const TOGETHER: Duration = Duration::from_secs(5);
/// The least that etcd grants.
const TTL_MIN: u64 = 2;
/// How long they may take to end after that.
const LEASES_PATIENCE: Duration = Duration::from_secs(60);
/// What is late beyond doubt. etcd needs twice as long at least.
const LATE_SECS: u64 = 2;
/// Full after some 40 values.
const QUOTA_BYTES: &str = "4194304";

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_not_started_anew_by_a_new_raft_leader() {
    on_so_many("leases_are_not_started_anew_by_a_new_raft_leader", 3, async |side: &mut Side| {
        let caller = side.caller();
        let lease = caller.lease(TTL).await;
        eventually("the lease is older", async || {
            let left = caller.seconds_left(lease).await;
            if left <= TTL - 3 { Ok(()) } else { Err(left.to_string()) }
        })
        .await;
        let from = side.raft_leader().await;
        let to = side.caller_at((from + 1) % 3);
        let status = to.client().maintenance().status().await.unwrap();
        let to = format!("{:x}", status.header.unwrap().member_id);
        side.ctl().run(&["move-leader", &to]).ok();
        let leads = side.raft_leader().await;
        assert_ne!(leads, from);
        match side.caller_at(leads).seconds_left(lease).await {
            left if left <= TTL - 3 => "the lease goes on where it was".to_owned(),
            _ => "the lease has its whole time again".to_owned(),
        }
    })
    .await;
}

/// A raft leader is stopped until every lease it knows must have run out in its eyes, and continued. Meanwhile another
/// leads, and there the session is renewed all the time.
#[tokio::test(flavor = "multi_thread")]
async fn raft_leader_that_slept_ends_no_live_session() {
    on_so_many("raft_leader_that_slept_ends_no_live_session", 3, async |side: &mut Side| {
        // Now and then etcd happens to spare them; how often depends on what else the machine does.
        let sleeps = if matches!(side, Side::Etcd(_)) { 3 } else { 2 };
        for _ in 0..sleeps {
            let sleeper = side.raft_leader().await;
            let awake = side.caller_at((sleeper + 1) % 3);
            let (live, dead) = (awake.lease(SHORT_TTL).await, awake.lease(SHORT_TTL).await);
            let renewing = tokio::spawn({
                let awake = awake.clone();
                async move {
                    loop {
                        // A renewal that was on its way to the sleeper must not hold up the next.
                        let _ = tokio::time::timeout(RENEWAL_INTERVAL, renew(&awake, live)).await;
                        tokio::time::sleep(RENEWAL_INTERVAL).await;
                    }
                }
            });
            side.pause(sleeper);
            eventually("a lease that nobody renews has ended", async || {
                let left = time_to_live(&awake, dead).await?;
                if left == -1 { Ok(()) } else { Err(left.to_string()) }
            })
            .await;
            let left = time_to_live(&awake, live).await.unwrap();
            assert!(left > 0, "it is renewed while the other sleeps: {left}");
            side.resume(sleeper);
            let leads = side.raft_leader().await;
            assert_ne!(leads, sleeper, "it slept through an election");
            // What it decided in its sleep would come to pass now.
            let ended = eventually("the session ended", async || {
                let left = time_to_live(&awake, live).await?;
                if left == -1 { Ok(()) } else { Err(left.to_string()) }
            });
            let ended = tokio::time::timeout(SLEEPER_PATIENCE, ended).await.is_ok();
            renewing.abort();
            if ended {
                return "a session that was renewed all the time ended".to_owned();
            }
        }
        "the session lives".to_owned()
    })
    .await;
}

async fn renew(caller: &Caller, lease: i64) -> Result<i64, ClientError> {
    caller.client().lease().renewals(lease).await?.answer().await.map(|answer| answer.ttl)
}

async fn time_to_live(caller: &Caller, lease: i64) -> Result<i64, String> {
    let ask = pb::LeaseTimeToLiveRequest { id: lease, keys: false };
    let answer = caller.client().lease().time_to_live(ask).await;
    answer.map(|answer| answer.ttl).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_of_a_second_is_one() {
    on_both("lease_of_a_second_is_one", async |side: &mut Side| {
        let grant = pb::LeaseGrantRequest { ttl: 1, id: 0 };
        format!("{} s", side.client().lease().grant(grant).await.unwrap().ttl)
    })
    .await;
}

/// Grants leases that end within a second of each other, if that does not take too long. Answers when the first may
/// end, and when all should have.
async fn leases_that_end_together(client: &Client) -> (Instant, Instant) {
    let end = Instant::now() + TOGETHER;
    let mut grants = JoinSet::new();
    for _ in 0..GRANTS_AT_ONCE {
        let client = client.clone();
        grants.spawn(async move {
            let mut ends = vec![];
            for _ in 0..LEASES / GRANTS_AT_ONCE {
                let sent = Instant::now();
                let ttl = TTL_MIN.max(end.saturating_duration_since(sent).as_secs() + 1);
                let grant = pb::LeaseGrantRequest { ttl: ttl as i64, id: 0 };
                assert_eq!(client.lease().grant(grant).await.unwrap().ttl, ttl as i64);
                let ttl = Duration::from_secs(ttl);
                ends.push((sent + ttl, Instant::now() + ttl));
            }
            ends
        });
    }
    let ends = grants.join_all().await.concat();
    let (first, last) = ends.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    (first.into_iter().min().unwrap(), last.into_iter().max().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_by_thousands_end_in_time() {
    on_both("leases_by_thousands_end_in_time", async |side: &mut Side| {
        let client = side.caller().client().clone();
        let (first, last) = leases_that_end_together(&client).await;
        eventually_within(LEASES_PATIENCE, "all have ended", async || {
            let left = client.lease().leases().await.map_err(|error| error.to_string())?;
            let left = left.leases.len();
            assert!(left == LEASES || Instant::now() > first, "ended early: {left} are left");
            if left == 0 { Ok(()) } else { Err(format!("{left} are left")) }
        })
        .await;
        match last.elapsed().as_secs() {
            0 => "all had ended within a second of their time".to_owned(),
            LATE_SECS.. => "the last ended more than 2 s late".to_owned(),
            _ => "the last ended more than a second late".to_owned(),
        }
    })
    .await;
}

/// Writes until there is no room.
async fn fill(caller: &Caller) {
    for key in 0..1000 {
        let put = pb::PutRequest {
            key: format!("fill/{key}").into(),
            value: vec![b'x'; 100_000].into(),
            ..Default::default()
        };
        if let Err(refusal) = caller.client().kv().put(put).await {
            let text = refusal.to_string();
            assert!(text.contains("mvcc: database space exceeded"), "{text}");
            return;
        }
    }
    panic!("the quota does not hold");
}

async fn is_full(caller: &Caller) {
    eventually("the alarm is raised", async || {
        let get = pb::AlarmRequest::default();
        let raised = caller.client().maintenance().alarm(get).await;
        let raised = raised.map_err(|error| error.to_string())?.alarms;
        let full = raised.iter().any(|alarm| alarm.alarm() == pb::AlarmType::Nospace);
        if full { Ok(()) } else { Err(format!("{raised:?}")) }
    })
    .await;
}

/// A client leads while the store is filled. Then others want to lead, one by etcd's API and, where there is such a
/// thing, one by a session of our own, and the leader ends.
#[tokio::test(flavor = "multi_thread")]
async fn store_that_is_full_still_elects() {
    let quota = ["--quota-backend-bytes", QUOTA_BYTES];
    on_both_with("store_that_is_full_still_elects", &quota, async |side: &mut Side| {
        let caller = side.caller();
        let (first, second) = (caller.lease(TTL).await, caller.lease(TTL).await);
        let mut token = caller.elected("office", first, "first").await.rev;
        fill(&caller).await;
        is_full(&caller).await;
        let stock = caller.campaign("office", second, "second");
        let native = match side {
            Side::Etcd(_) => None,
            Side::Tenure(cluster) => {
                caller.has_candidates("office", 2).await;
                let engine = Engine::tenure(&cluster.endpoints()).unwrap();
                let session = Session::open(&engine, SESSION_TTL).await.unwrap();
                let campaign = tokio::spawn({
                    let election = Election::new(&session, "office").unwrap();
                    async move { election.candidate("third").campaign().await }
                });
                caller.has_candidates("office", 3).await;
                Some((session, campaign))
            }
        };
        caller.revoke(first).await;
        let came = match stock.answer().await {
            Ok(elected) => {
                let leader = elected.leader.unwrap();
                assert!(leader.rev > token, "{leader:?} after {token}");
                token = leader.rev;
                "elected".to_owned()
            }
            Err(status) => format!("refused: {}", status.message()),
        };
        caller.revoke(second).await;
        if let Some((session, campaign)) = native {
            let leadership = campaign.await.unwrap().unwrap();
            let after = FencingToken::from_revision(token);
            assert!(Some(leadership.token()) > after, "{} after {token}", leadership.token());
            leadership.resign().await.unwrap();
            session.close().await;
        }
        is_full(&caller).await;
        format!("the old leader's lease ended; {came}")
    })
    .await;
}

/// What a side becomes when its backup is restored: another cluster of the same kind.
async fn restored(side: &Side, file: &str) -> Side {
    match side {
        Side::Etcd(_) => {
            let mut etcd = Etcd::prepare(1);
            etcd.restore(0, file);
            etcd.start_member(0);
            etcd.healthy().await;
            Side::Etcd(etcd)
        }
        Side::Tenure(_) => {
            let mut cluster = Cluster::prepare(1, Plan::default());
            let member = &mut cluster.members[0];
            let done = member.restore(Path::new(file));
            assert!(done.status.success(), "{done:?}");
            member.start();
            cluster.ready().await;
            Side::Tenure(cluster)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_cluster_repeats_no_token() {
    on_both("restored_cluster_repeats_no_token", async |side: &mut Side| {
        let home = TempDir::new().unwrap();
        let file = home.path().join("backup.db").to_str().unwrap().to_owned();
        let caller = side.caller();
        tenure_e2e::Ctl::to(&side.address(0)).run(&["snapshot", "save", &file]).ok();
        let lease = caller.lease(TTL).await;
        let mut given_out = 0;
        for _ in 0..5 {
            let leader = caller.elected("office", lease, "before").await;
            assert!(leader.rev > given_out);
            given_out = leader.rev;
            caller.resign(leader).await.unwrap();
        }
        let after = restored(side, &file).await;
        let caller = after.caller();
        let leader = caller.elected("office", caller.lease(TTL).await, "after").await;
        match leader.rev > given_out {
            true => "a token larger than all before".to_owned(),
            false => "a token that an earlier holder had".to_owned(),
        }
    })
    .await;
}
