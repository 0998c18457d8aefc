//! Stock clients and plain calls in one election of three real members: in their order, one at a time, whatever dies.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tenure::grpc::stubs::LockClient;
use tenure_e2e::{
    Caller, Cluster, Ctl, Gateway, Waiting, electionpb::LeaderKey, eventually, eventually_within,
    lockpb, mvccpb::KeyValue, pb,
};
use tokio::task::JoinSet;

const TTL: i64 = 600;
/// How long a whole crowd may take on a busy machine.
const CROWD_PATIENCE: Duration = Duration::from_secs(120);

fn caller(cluster: &Cluster, at: usize) -> Caller {
    Caller::new(cluster.members[at % cluster.members.len()].client())
}

/// A candidate, by whichever API.
enum Somebody {
    /// The recipe inside etcdctl.
    Etcdctl(Child),
    /// v3lock over gRPC.
    Plain(Waiting<lockpb::LockResponse>),
    /// v3lock as JSON.
    Json(tokio::task::JoinHandle<tenure_e2e::Posted>),
}

/// What the holder of a lock reports.
struct Holds {
    key: Vec<u8>,
    token: Option<i64>,
    /// With the rest of its output: a process that writes to a closed pipe dies.
    etcdctl: Option<(Child, BufReader<ChildStdout>)>,
}

impl Somebody {
    async fn comes(cluster: &Cluster, place: usize) -> Somebody {
        match place % 3 {
            0 => {
                let mut command = Ctl::of(cluster).command(&["lock", "door"]);
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
                Somebody::Etcdctl(command.spawn().unwrap())
            }
            1 => {
                let caller = caller(cluster, place);
                let lease = caller.lease(TTL).await;
                Somebody::Plain(caller.lock("door", lease))
            }
            _ => {
                let caller = caller(cluster, place);
                let lease = caller.lease(TTL).await;
                let gateway = Gateway::at(cluster.members[place % 3].client);
                // `door` is ZG9vcg==.
                let body = format!(r#"{{"name":"ZG9vcg==","lease":"{lease}"}}"#);
                Somebody::Json(tokio::spawn(
                    async move { gateway.post("/v3/lock/lock", body).await },
                ))
            }
        }
    }

    /// Whether it was told that it holds. etcdctl says so on a pipe, which is read when it must be there.
    fn was_told(&self) -> bool {
        match self {
            Somebody::Etcdctl(_) => false,
            Somebody::Plain(call) => call.is_answered(),
            Somebody::Json(call) => call.is_finished(),
        }
    }

    async fn holds(self) -> Holds {
        match self {
            Somebody::Etcdctl(mut child) => {
                let mut out = BufReader::new(child.stdout.take().unwrap());
                let said = tokio::task::spawn_blocking(move || {
                    let mut line = String::new();
                    out.read_line(&mut line).unwrap();
                    (line, out)
                });
                let said = tokio::time::timeout(CROWD_PATIENCE, said).await;
                let (line, out) = said.unwrap().unwrap();
                let key = line.trim_end().as_bytes().to_vec();
                Holds { key, token: None, etcdctl: Some((child, out)) }
            }
            Somebody::Plain(call) => {
                let held = call.answer().await.unwrap();
                Holds { key: held.key.to_vec(), token: Some(held.fencing_token), etcdctl: None }
            }
            Somebody::Json(call) => {
                let said = tokio::time::timeout(CROWD_PATIENCE, call).await.unwrap().unwrap();
                let said = said.json();
                let token = said["fencing_token"].as_str().map(|token| token.parse().unwrap());
                Holds { key: vec![], token, etcdctl: None }
            }
        }
    }
}

/// Interrupted, etcdctl gives up its candidacy and ends.
fn end(child: &mut Child) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_is_held_by_all_kinds_of_clients_in_the_order_they_came() {
    const PLACES: usize = 12;
    let cluster = Cluster::start(3).await;
    let looker = caller(&cluster, 0);
    let mut everybody = std::collections::VecDeque::new();
    for place in 0..PLACES {
        everybody.push_back(Somebody::comes(&cluster, place).await);
        looker.has_candidates("door", place + 1).await;
    }
    let queue = looker.candidates("door").await;
    let mut last_token = 0;
    for (place, wanted) in queue.iter().enumerate() {
        let holds = everybody.pop_front().unwrap().holds().await;
        let first = &looker.candidates("door").await[0];
        assert_eq!((&first.key, first.create_revision), (&wanted.key, wanted.create_revision));
        assert!(holds.key.is_empty() || holds.key == wanted.key, "{place}: another's key");
        assert!(holds.token.is_none_or(|token| token == wanted.create_revision));
        assert!(wanted.create_revision > last_token, "tokens grow");
        last_token = wanted.create_revision;
        assert!(everybody.iter().all(|other| !other.was_told()), "{place}: two hold");
        match holds.etcdctl {
            Some((mut child, _out)) => end(&mut child),
            None => drop(looker.unlock(wanted.key.clone(), wanted.create_revision).await.unwrap()),
        }
    }
    looker.has_candidates("door", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_elects_in_one_queue_with_plain_calls() {
    let cluster = Cluster::start(3).await;
    let looker = caller(&cluster, 1);
    let elect = |value: &str| {
        let mut command = Ctl::of(&cluster).command(&["elect", "office", value]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut first = elect("etcdctl 1");
    looker.has_candidates("office", 1).await;
    let second = looker.campaign("office", looker.lease(TTL).await, "plain");
    looker.has_candidates("office", 2).await;
    let mut third = elect("etcdctl 2");
    looker.has_candidates("office", 3).await;
    let mut observer = caller(&cluster, 2).observe("office").await;
    assert_eq!(observer.next_value().await, "etcdctl 1");
    assert!(!second.is_answered());
    end(&mut first);
    let leader = second.answer().await.unwrap().leader.unwrap();
    assert_eq!(observer.next_value().await, "plain");
    looker.proclaim(leader.clone(), "plain, still").await.unwrap();
    assert_eq!(observer.next_value().await, "plain, still");
    looker.resign(leader).await.unwrap();
    assert_eq!(observer.next_value().await, "etcdctl 2");
    let said = BufReader::new(third.stdout.take().unwrap()).lines().take(2);
    let said: Vec<String> = said.map(Result::unwrap).collect();
    assert!(said[0].starts_with("office/") && said[1] == "etcdctl 2", "{said:?}");
    end(&mut third);
}

/// What a crowd of candidates did, in the order in which they did it.
#[derive(Default)]
struct Office {
    /// The token of the present holder.
    holder: Mutex<Option<i64>>,
    tenures: Mutex<Vec<i64>>,
    served: AtomicUsize,
}

impl Office {
    fn enter(&self, token: i64) {
        let before = self.holder.lock().unwrap().replace(token);
        assert_eq!(before, None, "two leaders at once");
        self.tenures.lock().unwrap().push(token);
    }

    fn leave(&self, token: i64) {
        assert_eq!(self.holder.lock().unwrap().take(), Some(token));
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    async fn has_served(&self, count: usize) {
        eventually_within(CROWD_PATIENCE, &format!("{count} tenures"), async || {
            let served = self.served.load(Ordering::Relaxed);
            if served >= count { Ok(()) } else { Err(served.to_string()) }
        })
        .await;
    }
}

/// A candidate that wants to lead once, and asks one member after the other until it did.
struct Candidate {
    callers: Vec<Caller>,
    at: usize,
    lease: i64,
}

impl Candidate {
    async fn elected(&mut self) -> LeaderKey {
        loop {
            let call = self.callers[self.at].campaign("office", self.lease, "me");
            match call.answer_within(CROWD_PATIENCE).await {
                Ok(elected) => return elected.leader.unwrap(),
                Err(status) if status.code() == tonic::Code::Unavailable => self.move_on().await,
                // The connection broke in the middle.
                Err(status) if is_transport(&status) => self.move_on().await,
                Err(status) => panic!("{status:?}"),
            }
        }
    }

    /// Writes as the leader, and only as the leader.
    async fn act(&mut self, leader: &LeaderKey) {
        use pb::{Compare, PutRequest, RequestOp, TxnRequest, compare, request_op::Request};
        let put = PutRequest {
            key: "done".into(),
            value: leader.rev.to_string().into(),
            ..Default::default()
        };
        let fenced = TxnRequest {
            compare: vec![Compare {
                result: compare::CompareResult::Equal as i32,
                target: compare::CompareTarget::Create as i32,
                key: leader.key.clone(),
                target_union: Some(compare::TargetUnion::CreateRevision(leader.rev)),
                ..Default::default()
            }],
            success: vec![RequestOp { request: Some(Request::RequestPut(put)) }],
            failure: vec![],
        };
        loop {
            match self.callers[self.at].client().kv().txn(fenced.clone()).await {
                Ok(done) => return assert!(done.succeeded, "it led, and its key was not there"),
                Err(_) => self.move_on().await,
            }
        }
    }

    async fn resign(&mut self, leader: LeaderKey) {
        while self.callers[self.at].resign(leader.clone()).await.is_err() {
            self.move_on().await;
        }
    }

    async fn move_on(&mut self) {
        self.at = (self.at + 1) % self.callers.len();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn is_transport(status: &tonic::Status) -> bool {
    matches!(status.code(), tonic::Code::Unknown | tonic::Code::Internal | tonic::Code::Cancelled)
        && !status.message().starts_with("election: ")
}

/// A crowd that waits behind a leader.
async fn crowd(cluster: &Cluster, count: usize, office: &Arc<Office>) -> (LeaderKey, JoinSet<()>) {
    let callers: Vec<Caller> = (0..3).map(|at| caller(cluster, at)).collect();
    let looker = callers[0].clone();
    let first = looker.elected("office", looker.lease(TTL).await, "first").await;
    let mut candidates = JoinSet::new();
    for at in 0..count {
        let lease = looker.lease(TTL).await;
        let mut candidate = Candidate { callers: callers.clone(), at: at % 3, lease };
        let office = office.clone();
        candidates.spawn(async move {
            let leader = candidate.elected().await;
            office.enter(leader.rev);
            candidate.act(&leader).await;
            office.leave(leader.rev);
            candidate.resign(leader).await;
        });
    }
    looker.has_candidates("office", count + 1).await;
    (first, candidates)
}

/// Every candidate led once, one after the other, in the order in which they came.
async fn judge(office: &Office, mut candidates: JoinSet<()>, queue: &[KeyValue]) {
    office.has_served(queue.len()).await;
    while let Some(ended) = candidates.join_next().await {
        ended.unwrap();
    }
    let tenures = office.tenures.lock().unwrap().clone();
    let places: Vec<i64> = queue.iter().map(|kv| kv.create_revision).collect();
    assert_eq!(tenures, places, "everybody once, in the order in which they came");
}

async fn resigned(cluster: &Cluster, leader: LeaderKey) {
    let callers = (0..3).map(|at| caller(cluster, at)).collect();
    Candidate { callers, at: 0, lease: 0 }.resign(leader).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_by_hundreds_survive_killed_raft_leaders() {
    let mut cluster = Cluster::start(3).await;
    let office = Arc::new(Office::default());
    let (first, candidates) = crowd(&cluster, 200, &office).await;
    let queue = caller(&cluster, 0).candidates("office").await[1..].to_vec();
    resigned(&cluster, first).await;
    for round in 1..=3 {
        office.has_served(round * 50).await;
        let leader = cluster.leader().await;
        cluster.members[leader].kill();
        office.has_served(round * 50 + 20).await;
        cluster.members[leader].start();
        cluster.ready().await;
    }
    judge(&office, candidates, &queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_by_hundreds_survive_all_members_killed() {
    let mut cluster = Cluster::start(3).await;
    let office = Arc::new(Office::default());
    let (first, candidates) = crowd(&cluster, 200, &office).await;
    let queue = caller(&cluster, 0).candidates("office").await[1..].to_vec();
    for member in &mut cluster.members {
        member.kill();
    }
    for member in &mut cluster.members {
        member.start();
    }
    cluster.ready().await;
    let leads = caller(&cluster, 1).leader("office").await.unwrap();
    assert_eq!(leads.fencing_token, first.rev, "the one leader is who it was");
    assert_eq!(office.served.load(Ordering::Relaxed), 0, "nobody was elected by the restart");
    resigned(&cluster, first).await;
    judge(&office, candidates, &queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_that_stops_leaves_all_candidates_their_places() {
    let mut cluster = Cluster::start(3).await;
    let office = Arc::new(Office::default());
    let (first, candidates) = crowd(&cluster, 30, &office).await;
    let queue = caller(&cluster, 0).candidates("office").await;
    for at in 0..3 {
        assert!(cluster.members[at].stop().await.success());
        cluster.members[at].start();
        cluster.ready().await;
        let now = caller(&cluster, at).candidates("office").await;
        let places = |queue: &[KeyValue]| {
            queue.iter().map(|kv| (kv.key.clone(), kv.create_revision)).collect::<Vec<_>>()
        };
        assert_eq!(places(&now), places(&queue));
    }
    resigned(&cluster, first).await;
    judge(&office, candidates, &queue[1..]).await;
}

/// What a call did that hung up is taken back also if nothing could be written at that time.
#[tokio::test(flavor = "multi_thread")]
async fn candidacy_given_up_without_a_majority_goes_when_there_is_one() {
    let mut cluster = Cluster::start(3).await;
    let looker = caller(&cluster, 0);
    let held = looker.locked("door", looker.lease(TTL).await).await;
    let waiting = looker.lock("door", looker.lease(TTL).await);
    let granted = looker.lock("door", 0);
    looker.has_candidates("door", 3).await;
    for at in [1, 2] {
        cluster.members[at].kill();
    }
    let member = Gateway::at(cluster.members[0].client);
    eventually("there is no raft leader", async || {
        let leader = [("Grpc-Metadata-hasleader", "true")];
        let range = r#"{"key":"Zm9v","serializable":true}"#;
        match member.request("POST", "/v3/kv/range", &leader, range).await.status {
            503 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
    waiting.hang_up();
    granted.hang_up();
    for at in [1, 2] {
        cluster.members[at].start();
    }
    cluster.ready().await;
    let queue = looker.has_candidates("door", 1).await;
    assert_eq!(queue[0].key, held.key);
    eventually("the lease that the server granted is gone", async || {
        let leases = looker.client().lease().leases().await.map_err(|error| error.to_string())?;
        if leases.leases.len() == 2 { Ok(()) } else { Err(format!("{leases:?}")) }
    })
    .await;
}

/// A client whose call broke off calls again, on another member, while the first member still cleans up after it, and
/// the lock comes free in the middle of it all. Whatever happens first: a client that is told that it holds, holds.
#[tokio::test(flavor = "multi_thread")]
async fn hold_is_not_taken_away_by_the_call_before_it() {
    const TRIALS: usize = 60;
    let cluster = Cluster::start(3).await;
    let (here, there, looker) = (caller(&cluster, 0), caller(&cluster, 1), caller(&cluster, 2));
    let mut at_its_old_place = 0;
    for trial in 0..TRIALS {
        let name = format!("door-{trial}");
        let holder = looker.locked(&name, looker.lease(TTL).await).await;
        let lease = looker.lease(TTL).await;
        let first = here.lock(&name, lease);
        let place = looker.has_candidates(&name, 2).await[1].create_revision;
        let unlocked = looker.unlock(holder.key, holder.fencing_token);
        let again = match trial % 3 {
            0 => {
                first.hang_up();
                there.lock(&name, lease)
            }
            1 => {
                let again = there.lock(&name, lease);
                first.hang_up();
                again
            }
            _ => {
                let again = there.lock(&name, lease);
                eventually("the place is taken over", async || {
                    let queue = looker.candidates(&name).await;
                    if queue[1].version == 2 { Ok(()) } else { Err(format!("{queue:?}")) }
                })
                .await;
                first.hang_up();
                again
            }
        };
        let (again, unlocked) = tokio::join!(again.answer(), unlocked);
        unlocked.unwrap();
        let token = again.unwrap().fencing_token;
        at_its_old_place += usize::from(token == place);
        // What the first member does for the first call comes before what it does now.
        here.put("afterwards", "").await;
        let queue = looker.candidates(&name).await;
        assert_eq!(queue.len(), 1, "trial {trial}: {queue:?}");
        assert_eq!(queue[0].create_revision, token, "trial {trial}");
    }
    assert!(at_its_old_place >= TRIALS / 3, "a place that was taken over is kept");
}

/// A waiting call that requires a raft leader is refused when its member has none.
#[tokio::test(flavor = "multi_thread")]
async fn call_that_wants_a_raft_leader_does_not_wait_without_one() {
    let mut cluster = Cluster::start(3).await;
    let looker = caller(&cluster, 0);
    looker.locked("door", looker.lease(TTL).await).await;
    let lease = looker.lease(TTL).await;
    let mut stub = LockClient::new(looker.client().channel());
    let mut request = tonic::Request::new(lockpb::LockRequest { name: "door".into(), lease });
    request.metadata_mut().insert("hasleader", "true".parse().unwrap());
    let waiting = tokio::spawn(async move { stub.lock(request).await });
    looker.has_candidates("door", 2).await;
    for at in [1, 2] {
        cluster.members[at].kill();
    }
    let refused = tokio::time::timeout(CROWD_PATIENCE, waiting).await.unwrap().unwrap();
    assert_eq!(refused.unwrap_err().message(), "etcdserver: no leader");
}

/// A member that holds something else than the others says nothing of elections either.
#[tokio::test(flavor = "multi_thread")]
async fn member_that_differs_lets_no_call_wait() {
    let cluster = Cluster::start(1).await;
    let looker = caller(&cluster, 0);
    let held = looker.locked("door", looker.lease(TTL).await).await;
    looker.elected("office", looker.lease(TTL).await, "me").await;
    let mut observer = looker.observe("office").await;
    assert_eq!(observer.next_value().await, "me");
    let waiting = looker.lock("door", looker.lease(TTL).await);
    looker.has_candidates("door", 2).await;
    let alarm = |action| pb::AlarmRequest {
        action: action as i32,
        member_id: 0,
        alarm: pb::AlarmType::Corrupt as i32,
    };
    let member_id = cluster.id(0).await;
    let raise = alarm(pb::alarm_request::AlarmAction::Activate);
    let raise = pb::AlarmRequest { member_id, ..raise };
    looker.client().maintenance().alarm(raise).await.unwrap();
    let refused = waiting.answer().await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: corrupt cluster");
    assert_eq!(observer.next().await.unwrap_err().message(), "etcdserver: corrupt cluster");
    // What the call did is taken back when that can be done again.
    let lower = alarm(pb::alarm_request::AlarmAction::Deactivate);
    looker.client().maintenance().alarm(lower).await.unwrap();
    assert_eq!(looker.has_candidates("door", 1).await[0].key, held.key);
}

#[tokio::test(flavor = "multi_thread")]
async fn observers_on_all_members_hear_of_every_leader_once() {
    const TENURES: usize = 60;
    let cluster = Cluster::start(3).await;
    let looker = caller(&cluster, 0);
    let lease = looker.lease(TTL).await;
    let mut leader = looker.elected("office", lease, "0").await;
    let mut observers = Vec::new();
    for at in 0..3 {
        let mut observer = caller(&cluster, at).observe("office").await;
        assert_eq!(observer.next_value().await, "0");
        observers.push(observer);
    }
    for tenure in 1..TENURES {
        let leaving = leader.clone();
        looker.resign(leaving).await.unwrap();
        leader = looker.elected("office", lease, &tenure.to_string()).await;
    }
    for mut observer in observers {
        let mut last = 0;
        for tenure in 1..TENURES {
            let heard = observer.next().await.unwrap();
            assert_eq!(heard.kv.unwrap().value, tenure.to_string());
            assert!(heard.fencing_token > last, "tokens grow");
            last = heard.fencing_token;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_make_no_sense_are_refused_by_name() {
    let cluster = Cluster::start(3).await;
    let caller = caller(&cluster, 0);
    let lease = caller.lease(TTL).await;
    let refusals = [
        (caller.lock("", lease).answer().await.unwrap_err(), "etcdserver: key is not provided"),
        (
            caller.campaign("", lease, "").answer().await.unwrap_err(),
            "etcdserver: key is not provided",
        ),
        (
            caller.lock("door", 4711).answer().await.unwrap_err(),
            "etcdserver: requested lease not found",
        ),
        (
            caller.lock("door", -1).answer().await.unwrap_err(),
            "etcdserver: requested lease not found",
        ),
        (caller.leader("nobody").await.unwrap_err(), "election: no leader"),
        (caller.leader("").await.unwrap_err(), "etcdserver: key is not provided"),
        (caller.unlock("", 0).await.unwrap_err(), "etcdserver: key is not provided"),
        (caller.resign(LeaderKey::default()).await.unwrap_err(), "etcdserver: key is not provided"),
        (
            caller
                .proclaim(LeaderKey { key: "no/body".into(), rev: 7, ..Default::default() }, "")
                .await
                .unwrap_err(),
            "election: not leader",
        ),
    ];
    for (status, text) in refusals {
        assert_eq!(status.message(), text);
    }
    caller.has_candidates("door", 0).await;
    // Nothing of that is left.
    let left = caller.client().lease().leases().await.unwrap().leases;
    assert_eq!(left.len(), 1, "{left:?}");
}

/// A repeated call takes the key over. When its lease ends it is told the same as the call that made the key.
#[tokio::test(flavor = "multi_thread")]
async fn call_repeated_whose_lease_ends_while_it_waits_hears_that_its_session_expired() {
    let cluster = Cluster::start(1).await;
    let caller = caller(&cluster, 0);
    caller.locked("door", caller.lease(TTL).await).await;
    caller.elected("office", caller.lease(TTL).await, "first").await;
    let lease = caller.lease(TTL).await;
    let taken_over = async |name: &str| {
        eventually(&format!("the key in {name} is taken over"), async || {
            let queue = caller.candidates(name).await;
            if queue[1].version == 2 { Ok(()) } else { Err(format!("{queue:?}")) }
        })
        .await;
    };
    let locks = caller.lock("door", lease);
    caller.has_candidates("door", 2).await;
    let locks = [locks, caller.lock("door", lease)];
    taken_over("door").await;
    let campaigns = caller.campaign("office", lease, "second");
    caller.has_candidates("office", 2).await;
    let campaigns = [campaigns, caller.campaign("office", lease, "second")];
    taken_over("office").await;
    caller.revoke(lease).await;
    for lock in locks {
        assert_eq!(lock.answer().await.unwrap_err().message(), "mutex: session is expired");
    }
    for campaign in campaigns {
        assert_eq!(campaign.answer().await.unwrap_err().message(), "election: session is expired");
    }
}
