//! Sessions, elections and locks of tenure.v1 on real clusters, word by word.

use std::time::{Duration, Instant};

use tenure::{
    RefusalKind,
    api::wire::{REFUSAL_TRAILER, tenure::v1 as pb},
    grpc::{ClientError, Code},
};
use tenure_e2e::{
    Caller, Cluster, eventually,
    pb::{PutRequest, RequestOp, TxnRequest, request_op::Request},
    session::{SessionStream, connect, elections},
};

const TTL_MS: u64 = 20_000;
/// How long something may take that is not to take long.
const PATIENCE: Duration = Duration::from_secs(20);

async fn session(cluster: &Cluster, at: usize, identity: &str) -> SessionStream {
    SessionStream::open(connect(cluster.members[at].client).await, identity, TTL_MS, false).await
}

fn name(name: &str) -> pb::Join {
    pb::Join { names: vec![name.to_owned()], ..Default::default() }
}

fn refused(answer: &pb::RequestResult) -> pb::RefusalKind {
    answer.refusal.as_ref().expect("a refusal").kind()
}

fn token(answer: &pb::RequestResult) -> i64 {
    answer.candidacies[0].token
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_on_all_members_lead_in_the_order_they_came() {
    let cluster = Cluster::start(3).await;
    let mut sessions = vec![];
    for at in 0..3 {
        let mut session = session(&cluster, at, &format!("s{at}")).await;
        let candidacy = session.join("jobs").await.candidacies[0].clone();
        assert_eq!((candidacy.ahead, candidacy.held), (at as u32, at == 0));
        sessions.push(session);
    }
    let mut last = 0;
    for session in &mut sessions {
        let granted = session.granted("jobs").await;
        let token = granted.candidacy.unwrap().token;
        assert!(token > last);
        last = token;
        assert_eq!(session.leave("jobs", token).await.refusal, None);
    }
    let mut elections = elections(cluster.members[1].client).await;
    let history = elections.history(pb::HistoryRequest { name: "jobs".into() }).await.unwrap();
    let tenures = history.into_inner().tenures;
    let told: Vec<_> = tenures.iter().map(|t| (t.identity.as_str(), t.reason())).collect();
    let resigned = pb::EndReason::Resigned;
    assert_eq!(told, [("s0", resigned), ("s1", resigned), ("s2", resigned)]);
    assert!(tenures.iter().all(|tenure| tenure.from_unix_ms > 1_600_000_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_is_answered_again_and_not_done_again() {
    let cluster = Cluster::start(1).await;
    let mut session = session(&cluster, 0, "a").await;
    let first = session.join("jobs").await;
    let request = pb::session_request::Request::Join(name("jobs"));
    session.send(1, request.clone()).await;
    let again = session
        .hear(|response| match response {
            pb::session_response::Response::Result(answer) => Some(answer.clone()),
            _ => None,
        })
        .await;
    assert_eq!(again.refusal, None);
    assert_eq!(token(&again), token(&first));
    let other = session.ask(request).await;
    assert_eq!(refused(&other), pb::RefusalKind::AlreadyCandidate);
}

/// The process dies: its runtime goes away with all its sockets, without a word to the server.
#[tokio::test(flavor = "multi_thread")]
async fn session_with_fast_release_frees_everything_when_the_connection_breaks() {
    let cluster = Cluster::start(3).await;
    let address = cluster.members[0].client;
    let doomed = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (mut holder, _) = doomed
        .spawn(async move {
            let channel = connect(address).await;
            let mut holder = SessionStream::open(channel, "holder", 3_600_000, true).await;
            let answer = holder.join("jobs").await;
            (holder, token(&answer))
        })
        .await
        .unwrap();
    holder.granted("jobs").await;
    let mut next = session(&cluster, 1, "next").await;
    assert!(!next.join("jobs").await.candidacies[0].held);
    let died = Instant::now();
    doomed.shutdown_background();
    drop(holder);
    let granted = next.granted("jobs").await;
    assert_eq!(granted.predecessor, "holder");
    assert!(died.elapsed() < Duration::from_secs(10), "long before its hour was over");
    let mut elections = elections(address).await;
    let history = elections.history(pb::HistoryRequest { name: "jobs".into() }).await.unwrap();
    assert_eq!(history.into_inner().tenures[0].reason(), pb::EndReason::ConnectionLost);
}

/// The stream ends, the connection request not: no kernel has said that the process is gone.
#[tokio::test(flavor = "multi_thread")]
async fn stream_that_is_given_up_ends_no_session() {
    let cluster = Cluster::start(1).await;
    let channel = connect(cluster.members[0].client).await;
    let mut holder = SessionStream::open(channel.clone(), "holder", TTL_MS, true).await;
    let held = token(&holder.join("jobs").await);
    let (open, attachment) = (holder.comeback(), holder.opened.attachment);
    drop(holder);
    // For longer than a process may take to come back before its session would be ended.
    let (mut other, dropped) = (session(&cluster, 0, "other").await, Instant::now());
    while dropped.elapsed() < Duration::from_millis(500) {
        let tried = other.join_as(pb::Join { try_only: true, ..name("jobs") }).await;
        assert_eq!(refused(&tried), pb::RefusalKind::Taken);
    }
    let back = SessionStream::attach(channel, open).await.expect("the session lives");
    assert_eq!(back.opened.attachment, attachment + 1);
    assert_eq!(back.opened.candidacies[0].token, held);
    assert!(back.opened.candidacies[0].held);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_survives_the_member_it_was_attached_to() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let mut holder = session(&cluster, leader, "holder").await;
    let held = token(&holder.join("jobs").await);
    let other = cluster.other_than(leader);
    let mut waiting = session(&cluster, other, "waiting").await;
    let waits = token(&waiting.join("jobs").await);
    cluster.members[leader].kill();
    let address = cluster.members[other].client;
    let open = holder.comeback();
    let mut back = eventually("somebody leads the log", async || {
        let channel = connect(address).await;
        let (requests, outgoing) = tokio::sync::mpsc::channel(1);
        let request = Some(pb::session_request::Request::Open(open.clone()));
        requests.send(pb::SessionRequest { request_id: 0, request }).await.unwrap();
        let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
        let mut sessions = tenure::grpc::stubs::SessionsClient::new(channel.clone());
        let mut responses =
            sessions.session(outgoing).await.map_err(|e| e.to_string())?.into_inner();
        responses.message().await.map_err(|e| e.to_string())?;
        drop(responses);
        Ok(SessionStream::attach(channel, open.clone()).await.expect("the session lives"))
    })
    .await;
    assert_eq!((back.opened.candidacies[0].token, back.opened.candidacies[0].held), (held, true));
    back.renew(1).await;
    // The end of the wait is reported to the waiting session, and once.
    assert_eq!(
        waiting.join("jobs").await.refusal.unwrap().kind(),
        pb::RefusalKind::AlreadyCandidate
    );
    let leave = pb::Leave { name: "jobs".into(), token: held, stopped: true };
    back.send(1_000, pb::session_request::Request::Leave(leave)).await;
    assert_eq!(waiting.granted("jobs").await.candidacy.unwrap().token, waits);
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_drains_the_leader_and_passes_over_others() {
    let cluster = Cluster::start(3).await;
    let mut sessions = vec![];
    for at in 0..3 {
        let mut session = session(&cluster, at, &format!("s{at}")).await;
        session.join("jobs").await;
        sessions.push(session);
    }
    let held = sessions[0].granted("jobs").await.candidacy.unwrap().token;
    let mut elections = elections(cluster.members[0].client).await;
    let transfer = pb::TransferRequest {
        name: "jobs".into(),
        identity: "s2".into(),
        within_ms: 60_000,
        ..Default::default()
    };
    let will_be = elections.transfer(transfer.clone()).await.unwrap().into_inner().token;
    let drain = sessions[0]
        .hear(|response| match response {
            pb::session_response::Response::Drain(drain) => Some(drain.clone()),
            _ => None,
        })
        .await;
    assert_eq!((drain.token, drain.successor.as_str()), (held, "s2"));
    let given = pb::Yield { name: "jobs".into(), token: held, stay: true };
    let answer = sessions[0].ask(pb::session_request::Request::Yield(given)).await;
    assert!(token(&answer) > will_be, "it stands at the end again");
    assert_eq!(sessions[2].granted("jobs").await.candidacy.unwrap().token, will_be);
    let listed = elections.candidates(pb::CandidatesRequest { name: "jobs".into() }).await.unwrap();
    let order: Vec<_> =
        listed.into_inner().candidates.into_iter().map(|c| (c.identity, c.holds)).collect();
    assert_eq!(order, [("s2".into(), true), ("s1".into(), false), ("s0".into(), false)]);
    let nobody = pb::TransferRequest { identity: "s9".into(), ..transfer };
    assert_eq!(elections.transfer(nobody).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_that_does_not_drain_in_time_loses_its_place() {
    let cluster = Cluster::start(1).await;
    let mut slow = session(&cluster, 0, "slow").await;
    let mut next = session(&cluster, 0, "next").await;
    slow.join("jobs").await;
    next.join("jobs").await;
    let transfer = pb::TransferRequest {
        name: "jobs".into(),
        session: next.id(),
        within_ms: 50,
        ..Default::default()
    };
    elections(cluster.members[0].client).await.transfer(transfer).await.unwrap();
    next.granted("jobs").await;
    let lost = slow
        .hear(|response| match response {
            pb::session_response::Response::Lost(lost) => Some(lost.clone()),
            _ => None,
        })
        .await;
    assert_eq!(lost.reason(), pb::EndReason::Transferred);
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_without_overlap_waits_for_the_stop_of_an_evicted_leader() {
    let cluster = Cluster::start(1).await;
    let mut old = session(&cluster, 0, "old").await;
    let held = token(&old.join("jobs").await);
    let mut careful = session(&cluster, 0, "careful").await;
    careful.join_as(pb::Join { no_overlap: true, ..name("jobs") }).await;
    let mut elections = elections(cluster.members[0].client).await;
    let evicted =
        elections.evict(pb::EvictRequest { name: "jobs".into(), token: 0 }).await.unwrap();
    assert_eq!(evicted.into_inner().evicted.unwrap().identity, "old");
    careful.renew(1).await;
    let granted = |response: &pb::session_response::Response| {
        matches!(response, pb::session_response::Response::Granted(_))
    };
    assert!(!careful.has_heard(granted), "the old leader may still act");
    assert_eq!(old.leave("jobs", held).await.refusal, None, "its stop is confirmed");
    careful.granted("jobs").await;
}

/// An observer at a member that is cut off would believe in an old leader for ever.
#[tokio::test(flavor = "multi_thread")]
async fn observer_is_let_go_by_a_member_that_is_cut_off() {
    let cluster = Cluster::start(3).await;
    let mut leader = session(&cluster, 1, "leader").await;
    leader.join("jobs").await;
    let observe = pb::ObserveRequest { name: "jobs".into(), after_revision: 0 };
    let mut elections = elections(cluster.members[0].client).await;
    let mut seen = elections.observe(observe).await.unwrap().into_inner();
    assert!(seen.message().await.unwrap().is_some());
    cluster.members[1].pause();
    cluster.members[2].pause();
    let told = tokio::time::timeout(PATIENCE, seen.message()).await.expect("it is let go");
    assert_eq!(told.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_name_has_no_leader_until_it_is_resumed() {
    let cluster = Cluster::start(1).await;
    let mut leader = session(&cluster, 0, "leader").await;
    let mut next = session(&cluster, 0, "next").await;
    let held = token(&leader.join("jobs").await);
    next.join("jobs").await;
    let mut elections = elections(cluster.members[0].client).await;
    let observe = pb::ObserveRequest { name: "jobs".into(), after_revision: 0 };
    let mut seen = elections.observe(observe).await.unwrap().into_inner();
    elections.freeze(pb::FreezeRequest { name: "jobs".into() }).await.unwrap();
    let lost = leader
        .hear(|response| match response {
            pb::session_response::Response::Lost(lost) => Some(lost.clone()),
            _ => None,
        })
        .await;
    assert_eq!(lost.reason(), pb::EndReason::Frozen);
    let mut words = vec![];
    while words.len() < 3 {
        words.push(seen.message().await.unwrap().unwrap().event.unwrap());
    }
    use pb::observe_response::Event;
    assert!(matches!(&words[0], Event::Began(tenure) if tenure.identity == "leader"));
    assert!(matches!(&words[1], Event::Ended(tenure) if tenure.reason() == pb::EndReason::Frozen));
    assert!(matches!(&words[2], Event::NoLeader(pb::NoLeader { frozen: true })));
    elections.resume(pb::ResumeRequest { name: "jobs".into() }).await.unwrap();
    assert!(next.granted("jobs").await.candidacy.unwrap().token > held);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_share_permits_are_counted_and_several_are_taken_at_once() {
    let cluster = Cluster::start(1).await;
    let mut one = session(&cluster, 0, "one").await;
    let mut two = session(&cluster, 0, "two").await;
    let mut three = session(&cluster, 0, "three").await;
    let shared = || pb::Join { mode: pb::Mode::Shared as i32, ..name("rw") };
    assert!(one.join_as(shared()).await.candidacies[0].held);
    assert!(two.join_as(shared()).await.candidacies[0].held);
    assert!(!three.join("rw").await.candidacies[0].held, "a writer waits for readers");
    one.leave("rw", 0).await;
    two.leave("rw", 0).await;
    three.granted("rw").await;

    let permit = |permits| pb::Join { mode: pb::Mode::Permit as i32, permits, ..name("pool") };
    assert_eq!(one.join_as(permit(2)).await.candidacies[0].slot, 0);
    assert_eq!(two.join_as(permit(2)).await.candidacies[0].slot, 1);
    assert!(!three.join_as(permit(2)).await.candidacies[0].held);
    assert_eq!(refused(&three.join_as(permit(3)).await), pb::RefusalKind::AlreadyCandidate);
    one.leave("pool", 0).await;
    let candidacy = three.granted("pool").await.candidacy.unwrap();
    assert_eq!(candidacy.slot, 0, "it has the slot that was given back");

    let both = pb::Join { names: vec!["left".into(), "right".into()], ..Default::default() };
    one.join("left").await;
    two.join("right").await;
    three.join_as(both).await;
    one.leave("left", 0).await;
    two.renew(1).await;
    three.renew(1).await;
    let granted = |response: &pb::session_response::Response| matches!(response, pb::session_response::Response::Granted(g) if g.candidacy.as_ref().unwrap().name == "left");
    assert!(!three.has_heard(granted), "nothing is held before all is");
    two.leave("right", 0).await;
    three.granted("left").await;
    three.granted("right").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_requests_that_are_bad_are_refused_by_their_kind() {
    let cluster = Cluster::start(1).await;
    let mut session = session(&cluster, 0, "a").await;
    assert_eq!(refused(&session.join("").await), pb::RefusalKind::BadName);
    assert_eq!(refused(&session.join("a//b").await), pb::RefusalKind::BadName);
    let high = pb::Join { priority: 1001, ..name("a") };
    assert_eq!(refused(&session.join_as(high).await), pb::RefusalKind::BadPriority);
    assert_eq!(refused(&session.leave("a", 0).await), pb::RefusalKind::NoSuchCandidacy);
    session.join("a").await;
    assert_eq!(refused(&session.join("a/b").await), pb::RefusalKind::NestedName);
    assert_eq!(refused(&session.leave("a", 1).await), pb::RefusalKind::NoSuchCandidacy);
    let proclaim = pb::Proclaim { name: "a".into(), token: 1, value: "v".into() };
    let answer = session.ask(pb::session_request::Request::Proclaim(proclaim)).await;
    assert_eq!(refused(&answer), pb::RefusalKind::NoSuchCandidacy);
    let channel = connect(cluster.members[0].client).await;
    let open = pb::OpenSession { session: 12345, ..Default::default() };
    let gone = SessionStream::attach(channel, open).await.err();
    assert_eq!(gone, Some(pb::SessionEndReason::SessionNotFound));
}

#[tokio::test(flavor = "multi_thread")]
async fn session_that_is_revoked_hears_why() {
    let cluster = Cluster::start(1).await;
    let mut session = session(&cluster, 0, "a").await;
    cluster.client().lease().revoke(session.id()).await.unwrap();
    assert_eq!(session.ended().await, pb::SessionEndReason::SessionRevoked);
}

fn kind<T: std::fmt::Debug>(refused: Result<T, ClientError>) -> (Option<RefusalKind>, Code) {
    let error = refused.unwrap_err();
    (error.refusal(), error.code().expect("a member answered"))
}

/// Two refusals under one code are told apart without reading their texts.
#[tokio::test(flavor = "multi_thread")]
async fn operators_are_refused_by_kind() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let mut sessions = vec![];
    for identity in ["leads", "next", "last"] {
        let mut session = session(&cluster, 0, identity).await;
        session.join("jobs").await;
        sessions.push(session);
    }
    let to = async |name: &str, identity: &str| {
        let (name, identity) = (name.to_owned(), identity.to_owned());
        let request = pb::TransferRequest { name, identity, within_ms: 60_000, session: 0 };
        client.elections().transfer(request).await
    };
    let precondition = Code::FailedPrecondition;
    let nobody = (Some(RefusalKind::NoSuchCandidate), Code::NotFound);
    assert_eq!(kind(to("jobs", "nobody").await), nobody);
    assert_eq!(kind(to("no/such/line", "next").await), nobody);

    to("jobs", "next").await.unwrap();
    let under_way = (Some(RefusalKind::TransferUnderWay), precondition);
    assert_eq!(kind(to("jobs", "last").await), under_way);

    let stock = Caller::new(client.clone());
    stock.locked("door", stock.lease(600).await).await;
    sessions[2].join("door").await;
    let ahead = (Some(RefusalKind::StockCandidateAhead), precondition);
    assert_eq!(kind(to("door", "last").await), ahead);

    let resume = client.elections().resume("jobs".to_owned()).await;
    assert_eq!(kind(resume), (Some(RefusalKind::NameNotFrozen), precondition));
    let nested = client.elections().freeze("jobs/nightly".to_owned()).await;
    assert_eq!(kind(nested), (Some(RefusalKind::NestedName), precondition));

    // As a client without our library reads it.
    let mut plain = elections(cluster.members[0].client).await;
    let resume = pb::ResumeRequest { name: "jobs".into() };
    let status = plain.resume(resume).await.unwrap_err();
    assert_eq!(status.metadata().get(REFUSAL_TRAILER).unwrap(), "NAME_NOT_FROZEN");
    // Event etcd would refuse, too, names no rule of ours.
    let lease = kind(client.lease().revoke(4711).await);
    assert_eq!(lease, (None, Code::NotFound));
}

#[tokio::test(flavor = "multi_thread")]
async fn election_name_that_is_empty_is_refused_by_every_call() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let elections = client.elections();
    let none = String::new;
    let refused = [
        kind(elections.candidates(none()).await),
        kind(elections.observe(pb::ObserveRequest::default()).await),
        kind(elections.history(none()).await),
        kind(elections.transfer(pb::TransferRequest::default()).await),
        kind(elections.evict(pb::EvictRequest::default()).await),
        kind(elections.freeze(none()).await),
        kind(elections.resume(none()).await),
    ];
    for refused in refused {
        assert_eq!(refused, (Some(RefusalKind::BadName), Code::InvalidArgument));
    }
    assert!(
        elections.list(none()).await.unwrap().elections.is_empty(),
        "every name begins with nothing"
    );
}

/// Of elections without candidates the last 1000 are remembered.
#[tokio::test(flavor = "multi_thread")]
async fn history_of_an_election_that_was_forgotten_altogether_says_so() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let mut session = session(&cluster, 0, "a").await;
    let held = token(&session.join("jobs").await);
    session.leave("jobs", held).await;
    let history = async || client.elections().history("jobs".to_owned()).await.unwrap();
    let known = history().await;
    assert_eq!((known.tenures.len(), known.forgotten), (1, 0));

    let caller = Caller::new(client.clone());
    let lease = caller.lease(600).await;
    for batch in 0..10 {
        let candidacy = |line: usize| {
            let key = format!("other/{batch}-{line}/{lease:x}").into();
            let put = PutRequest { key, lease, ..Default::default() };
            RequestOp { request: Some(Request::RequestPut(put)) }
        };
        let success = (0..100).map(candidacy).collect();
        client.kv().txn(TxnRequest { success, ..Default::default() }).await.unwrap();
    }
    caller.revoke(lease).await;
    let gone = history().await;
    assert_eq!(gone.tenures, []);
    assert!(gone.forgotten >= known.tenures[0].until_revision, "{gone:?}");

    session.join("jobs").await;
    let anew = history().await;
    assert_eq!((anew.tenures.len(), anew.forgotten), (1, gone.forgotten), "{anew:?}");
}
