//! The raft leader dies in the middle of what a session or an operator request: it is done all the same, once.

use std::time::{Duration, Instant};

use tenure::api::wire::tenure::v1 as pb;
use tenure_e2e::{
    Cluster, eventually,
    session::{SessionStream, connect, elections},
};

type Operator = tenure::grpc::stubs::ElectionsClient<tonic::transport::Channel>;

const NAME: &str = "jobs";
/// Longer than any of these stories.
const TTL_MS: u64 = 30_000;
const HOUR_MS: u64 = 3_600_000;

/// Three members; all clients talk to one that is not the raft leader.
struct Stage {
    cluster: Cluster,
    at: usize,
}

impl Stage {
    async fn new() -> Stage {
        let cluster = Cluster::start(3).await;
        let at = (cluster.leader().await + 1) % 3;
        Stage { cluster, at }
    }

    async fn session(&self, identity: &str) -> SessionStream {
        let channel = connect(self.cluster.members[self.at].client).await;
        SessionStream::open(channel, identity, TTL_MS, false).await
    }

    /// A holder, and a candidate that waits behind it.
    async fn two(&self, join: &pb::Join) -> ((SessionStream, i64), SessionStream) {
        let (mut holder, mut next) = (self.session("holder").await, self.session("next").await);
        let token = holder.join_as(one()).await.candidacies[0].token;
        assert_eq!(next.join_as(join.clone()).await.refusal, None);
        ((holder, token), next)
    }

    async fn kill_the_raft_leader(&mut self) {
        let leader = self.cluster.leader().await;
        assert_ne!(leader, self.at, "it was chosen not to lead, and nothing has happened since");
        self.cluster.members[leader].kill();
    }

    async fn transfer(&self, to: &SessionStream, within_ms: u64) {
        let (name, session) = (NAME.into(), to.id());
        let transfer = pb::TransferRequest { name, session, within_ms, ..Default::default() };
        self.operator().await.transfer(transfer).await.unwrap();
    }

    async fn operator(&self) -> Operator {
        elections(self.cluster.members[self.at].client).await
    }

    /// The holders, as all remaining members agree.
    async fn holders(&self) -> Vec<String> {
        let holders = self.candidates().await.into_iter().filter(|candidate| candidate.holds);
        holders.map(|candidate| candidate.identity).collect()
    }

    /// The holder and all waiting candidates.
    async fn has_candidates(&self) -> Vec<String> {
        self.candidates().await.into_iter().map(|candidate| candidate.identity).collect()
    }

    async fn candidates(&self) -> Vec<pb::Candidate> {
        let ask = async |mut operator: Operator| {
            operator.candidates(pb::CandidatesRequest { name: NAME.into() }).await
        };
        self.rules("the line is known", ask).await.candidates
    }

    /// The past and present leaders, oldest first.
    async fn tenures(&self) -> Vec<pb::Tenure> {
        let ask = async |mut operator: Operator| {
            operator.history(pb::HistoryRequest { name: NAME.into() }).await
        };
        self.rules("who led is known", ask).await.tenures
    }

    /// Asks as an operator would, again if there is no raft leader yet.
    async fn rules<T>(
        &self,
        what: &str,
        ask: impl AsyncFn(Operator) -> Result<tonic::Response<T>, tonic::Status>,
    ) -> T {
        let operator = self.operator().await;
        eventually(what, async || {
            let done = ask(operator.clone()).await.map_err(|status| status.to_string())?;
            Ok(done.into_inner())
        })
        .await
    }
}

fn one() -> pb::Join {
    pb::Join { names: vec![NAME.to_owned()], ..Default::default() }
}

async fn is_asked_to_drain(holder: &mut SessionStream) -> pb::Drain {
    holder
        .hear(|response| match response {
            pb::session_response::Response::Drain(drain) => Some(drain.clone()),
            _ => None,
        })
        .await
}

async fn yields(holder: &mut SessionStream, token: i64) {
    let request = pb::Yield { name: NAME.into(), token, stay: false };
    let answer = holder.ask(pb::session_request::Request::Yield(request)).await;
    assert_eq!(answer.refusal, None);
}

async fn is_granted(next: &mut SessionStream, after: i64) {
    let granted = next.granted(NAME).await;
    assert!(granted.candidacy.unwrap().token > after);
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_goes_on() {
    let mut stage = Stage::new().await;
    let ((mut holder, token), mut next) = stage.two(&one()).await;
    stage.transfer(&next, 20_000).await;
    assert_eq!(is_asked_to_drain(&mut holder).await.successor, "next");
    stage.kill_the_raft_leader().await;
    yields(&mut holder, token).await;
    is_granted(&mut next, token).await;
    assert_eq!(stage.holders().await, ["next"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_that_nobody_answers_ends_under_the_next_raft_leader() {
    let mut stage = Stage::new().await;
    let ((mut holder, token), mut next) = stage.two(&one()).await;
    stage.transfer(&next, 1000).await;
    is_asked_to_drain(&mut holder).await;
    stage.kill_the_raft_leader().await;
    is_granted(&mut next, token).await;
    assert_eq!(stage.holders().await, ["next"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_that_preempts_takes_over() {
    let mut stage = Stage::new().await;
    let join = pb::Join { priority: 5, preempts: true, ..one() };
    let ((mut holder, token), mut next) = stage.two(&join).await;
    is_asked_to_drain(&mut holder).await;
    stage.kill_the_raft_leader().await;
    yields(&mut holder, token).await;
    is_granted(&mut next, token).await;
    assert_eq!(stage.holders().await, ["next"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn eviction_is_done_once() {
    let mut stage = Stage::new().await;
    let ((_holder, token), mut next) = stage.two(&one()).await;
    stage.kill_the_raft_leader().await;
    // The answer may be lost with the raft leader; by its token it can be asked for again.
    for _ in 0..2 {
        let evict = || pb::EvictRequest { name: NAME.into(), token };
        stage.rules("evicted", async |mut operator| operator.evict(evict()).await).await;
    }
    is_granted(&mut next, token).await;
    assert_eq!(stage.holders().await, ["next"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_name_stays_so_until_it_is_resumed() {
    let mut stage = Stage::new().await;
    let ((_holder, token), mut next) = stage.two(&one()).await;
    stage.operator().await.freeze(pb::FreezeRequest { name: NAME.into() }).await.unwrap();
    stage.kill_the_raft_leader().await;
    assert_eq!(stage.holders().await, [""; 0]);
    let resume = || pb::ResumeRequest { name: NAME.into() };
    stage.rules("resumed", async |mut operator| operator.resume(resume()).await).await;
    is_granted(&mut next, token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_without_overlap_is_told_after_the_delay() {
    let mut stage = Stage::new().await;
    let (ttl, begun) = (Duration::from_secs(2), Instant::now());
    let mut holder = {
        let channel = connect(stage.cluster.members[stage.at].client).await;
        SessionStream::open(channel, "holder", ttl.as_millis() as u64, false).await
    };
    let token = holder.join_as(one()).await.candidacies[0].token;
    let mut next = stage.session("next").await;
    next.join_as(pb::Join { no_overlap: true, ..one() }).await;
    let evict = pb::EvictRequest { name: NAME.into(), token };
    stage.operator().await.evict(evict).await.unwrap();
    stage.kill_the_raft_leader().await;
    is_granted(&mut next, token).await;
    assert!(begun.elapsed() >= ttl, "the holder may still believe");
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_that_is_not_well_makes_way() {
    let mut stage = Stage::new().await;
    let ((mut holder, token), mut next) = stage.two(&one()).await;
    stage.kill_the_raft_leader().await;
    let health = pb::ReportHealth { name: NAME.into(), unhealthy: true };
    let answer = holder.ask(pb::session_request::Request::Health(health)).await;
    assert_eq!(answer.refusal, None);
    is_granted(&mut next, token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_make_way_for_a_writer() {
    let mut stage = Stage::new().await;
    let shared = pb::Join { mode: pb::Mode::Shared as i32, ..one() };
    let (mut a, mut b, mut writer) =
        (stage.session("a").await, stage.session("b").await, stage.session("writer").await);
    let first = a.join_as(shared.clone()).await.candidacies[0].clone();
    let second = b.join_as(shared).await.candidacies[0].clone();
    assert!(first.held && second.held);
    writer.join_as(one()).await;
    assert_eq!(a.leave(NAME, first.token).await.refusal, None);
    stage.kill_the_raft_leader().await;
    assert_eq!(b.leave(NAME, second.token).await.refusal, None);
    is_granted(&mut writer, second.token).await;
    assert_eq!(stage.holders().await, ["writer"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn permit_goes_to_the_next() {
    let mut stage = Stage::new().await;
    let permit = pb::Join { mode: pb::Mode::Permit as i32, permits: 2, ..one() };
    let (mut a, mut b, mut next) =
        (stage.session("a").await, stage.session("b").await, stage.session("next").await);
    let first = a.join_as(permit.clone()).await.candidacies[0].clone();
    b.join_as(permit.clone()).await;
    next.join_as(permit).await;
    stage.kill_the_raft_leader().await;
    assert_eq!(a.leave(NAME, first.token).await.refusal, None);
    let granted = next.granted(NAME).await.candidacy.unwrap();
    assert_eq!(granted.slot, first.slot, "its slot is free");
    assert_eq!(stage.holders().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn multi_lock_is_held_together() {
    let mut stage = Stage::new().await;
    let (mut holder, mut both) = (stage.session("holder").await, stage.session("both").await);
    let token = holder.join(NAME).await.candidacies[0].token;
    let names = vec![NAME.to_owned(), "tools".to_owned()];
    both.join_as(pb::Join { names, ..Default::default() }).await;
    stage.kill_the_raft_leader().await;
    assert_eq!(holder.leave(NAME, token).await.refusal, None);
    is_granted(&mut both, token).await;
    both.granted("tools").await;
}

/// The process dies while there is no raft leader to end its session: the next raft leader does.
#[tokio::test(flavor = "multi_thread")]
async fn process_that_dies_is_followed_long_before_its_time_is_over() {
    let mut stage = Stage::new().await;
    let address = stage.cluster.members[stage.at].client;
    let doomed = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let holding = doomed.spawn(async move {
        let mut holder = SessionStream::open(connect(address).await, "holder", HOUR_MS, true).await;
        let token = holder.join(NAME).await.candidacies[0].token;
        (holder, token)
    });
    let (holder, token) = holding.await.unwrap();
    let mut next = stage.session("next").await;
    next.join_as(one()).await;
    stage.kill_the_raft_leader().await;
    doomed.shutdown_background();
    drop(holder);
    is_granted(&mut next, token).await;
    let [ended, lasts] = &stage.tenures().await[..] else { panic!("two have led") };
    assert_eq!((&*ended.identity, ended.reason()), ("holder", pb::EndReason::ConnectionLost));
    assert_eq!((&*lasts.identity, lasts.until_revision), ("next", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tenures_are_remembered_once() {
    let mut stage = Stage::new().await;
    let ((mut holder, token), mut next) = stage.two(&one()).await;
    stage.kill_the_raft_leader().await;
    assert_eq!(holder.leave(NAME, token).await.refusal, None);
    is_granted(&mut next, token).await;
    let [ended, lasts] = &stage.tenures().await[..] else { panic!("two have led") };
    assert_eq!(
        (&*ended.identity, ended.token, ended.reason()),
        ("holder", token, pb::EndReason::Resigned)
    );
    assert!(
        ended.until_revision > ended.from_revision && ended.until_revision <= lasts.from_revision
    );
    assert_eq!((&*lasts.identity, lasts.reason()), ("next", pb::EndReason::TenureLasts));
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_that_only_tries_is_told_and_does_not_wait() {
    let mut stage = Stage::new().await;
    let ((mut holder, token), mut next) = stage.two(&one()).await;
    stage.kill_the_raft_leader().await;
    let mut hasty = stage.session("hasty").await;
    let tried = hasty.join_as(pb::Join { try_only: true, ..one() }).await;
    assert_eq!(tried.refusal.unwrap().kind(), pb::RefusalKind::Taken);
    assert_eq!(holder.leave(NAME, token).await.refusal, None);
    is_granted(&mut next, token).await;
    assert_eq!(stage.has_candidates().await, ["next"]);
}

/// Event a lock with a time limit request when the time is over.
#[tokio::test(flavor = "multi_thread")]
async fn candidate_that_gives_up_waiting_is_not_elected_later() {
    let mut stage = Stage::new().await;
    let ((mut holder, token), mut impatient) = stage.two(&one()).await;
    let mut next = stage.session("next of all").await;
    next.join_as(one()).await;
    stage.kill_the_raft_leader().await;
    assert_eq!(impatient.leave(NAME, 0).await.refusal, None);
    assert_eq!(holder.leave(NAME, token).await.refusal, None);
    is_granted(&mut next, token).await;
    assert_eq!(stage.has_candidates().await, ["next of all"]);
    assert!(
        !impatient
            .has_heard(|response| matches!(response, pb::session_response::Response::Granted(_)))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_that_is_unhealthy_is_passed_over() {
    let mut stage = Stage::new().await;
    let ((mut holder, token), mut sick) = stage.two(&pb::Join { unhealthy: true, ..one() }).await;
    let mut well = stage.session("well").await;
    well.join_as(one()).await;
    stage.kill_the_raft_leader().await;
    assert_eq!(holder.leave(NAME, token).await.refusal, None);
    is_granted(&mut well, token).await;
    // It keeps its candidacy, and is next as soon as it is well.
    let health = pb::ReportHealth { name: NAME.into(), unhealthy: false };
    assert_eq!(sick.ask(pb::session_request::Request::Health(health)).await.refusal, None);
    assert_eq!(stage.holders().await, ["well"]);
    assert_eq!(stage.has_candidates().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_with_more_priority_waits_for_the_leader_only() {
    let mut stage = Stage::new().await;
    let ((mut holder, token), _next) = stage.two(&one()).await;
    let mut important = stage.session("important").await;
    important.join_as(pb::Join { priority: 5, ..one() }).await;
    stage.kill_the_raft_leader().await;
    assert_eq!(stage.holders().await, ["holder"], "it request not pre-empt");
    assert_eq!(holder.leave(NAME, token).await.refusal, None);
    is_granted(&mut important, token).await;
    assert_eq!(stage.holders().await, ["important"]);
}
