//! How a stream of tenure.v1 ends: each reason is told by its name.

use std::time::{Duration, Instant};

use tenure::{
    RefusalKind,
    api::wire::tenure::v1 as pb,
    grpc::{ClientError, Code},
};
use tenure_e2e::{
    Cluster, eventually,
    session::{SessionStream, connect, elections},
};
use tenure_replica::election::SESSION_TTL_MS_MIN;

/// Longer than anything here takes.
const LONG_MS: u64 = 60_000;

async fn session(cluster: &Cluster, at: usize, identity: &str, ttl_ms: u64) -> SessionStream {
    SessionStream::open(connect(cluster.members[at].client).await, identity, ttl_ms, false).await
}

async fn attach(cluster: &Cluster, at: usize, session: &SessionStream) -> SessionStream {
    let channel = connect(cluster.members[at].client).await;
    let attached = SessionStream::attach(channel, session.comeback()).await;
    attached.expect("the session lives")
}

/// Why the first tenure of this election ended.
async fn first_end(cluster: &Cluster, name: &str) -> pb::EndReason {
    let mut elections = elections(cluster.members[0].client).await;
    let history = elections.history(pb::HistoryRequest { name: name.into() }).await.unwrap();
    history.into_inner().tenures[0].reason()
}

/// The stream is open and its connection is well: only signs of life count.
#[tokio::test(flavor = "multi_thread")]
async fn holder_that_stops_renewing_hears_that_its_session_expired() {
    const TTL: Duration = Duration::from_secs(2);
    let cluster = Cluster::start(3).await;
    let mut holder = session(&cluster, 0, "holder", TTL.as_millis() as u64).await;
    assert!(holder.join("jobs").await.candidacies[0].held);
    let mut next = session(&cluster, 1, "next", LONG_MS).await;
    next.join("jobs").await;
    let renewed = Instant::now();
    holder.renew(1).await;
    assert_eq!(holder.ended().await, pb::SessionEndReason::SessionExpired);
    assert!(renewed.elapsed() >= TTL, "{:?} after its last sign of life", renewed.elapsed());
    assert_eq!(next.granted("jobs").await.predecessor, "holder");
    assert_eq!(first_end(&cluster, "jobs").await, pb::EndReason::Expired);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_closes_its_session_hears_that_it_is_closed() {
    let cluster = Cluster::start(1).await;
    let mut holder = session(&cluster, 0, "holder", LONG_MS).await;
    holder.join("jobs").await;
    let mut next = session(&cluster, 0, "next", LONG_MS).await;
    next.join("jobs").await;
    let close = pb::session_request::Request::Close(pb::CloseSession { stopped: true });
    holder.send(0, close).await;
    assert_eq!(holder.ended().await, pb::SessionEndReason::SessionClosed);
    next.granted("jobs").await;
    assert_eq!(first_end(&cluster, "jobs").await, pb::EndReason::Closed);
}

/// A process that comes back elsewhere must not go on speaking through the stream that it left.
#[tokio::test(flavor = "multi_thread")]
async fn session_stream_hears_that_it_was_replaced() {
    let cluster = Cluster::start(3).await;
    let mut first = session(&cluster, 0, "holder", LONG_MS).await;
    let held = first.join("jobs").await.candidacies[0].token;
    let mut second = attach(&cluster, 0, &first).await;
    assert_eq!(first.ended().await, pb::SessionEndReason::SessionReplaced);
    // At another member just so.
    let mut third = attach(&cluster, 1, &second).await;
    assert_eq!(second.ended().await, pb::SessionEndReason::SessionReplaced);
    let candidacy = &third.opened.candidacies[0];
    assert_eq!((candidacy.token, candidacy.held), (held, true), "what it holds stays its own");
    third.renew(1).await;
}

/// Its session is not over: it may live on at a member that reaches a majority.
#[tokio::test(flavor = "multi_thread")]
async fn stream_at_a_member_without_a_majority_is_sent_elsewhere() {
    let cluster = Cluster::start(3).await;
    let mut holder = session(&cluster, 0, "holder", LONG_MS).await;
    let held = holder.join("jobs").await.candidacies[0].token;
    cluster.members[1].pause();
    cluster.members[2].pause();
    let renew = pb::session_request::Request::Renew(pb::RenewSession { number: 1 });
    holder.send(0, renew).await;
    assert_eq!(holder.ended().await, pb::SessionEndReason::SessionNoQuorum);
    cluster.members[1].resume();
    cluster.members[2].resume();
    cluster.leader().await;
    let back = attach(&cluster, 1, &holder).await;
    assert_eq!((back.opened.candidacies[0].token, back.opened.candidacies[0].held), (held, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn session_ttl_below_the_floor_is_raised_to_it() {
    let cluster = Cluster::start(1).await;
    for asked in [0, 1, SESSION_TTL_MS_MIN - 1, SESSION_TTL_MS_MIN] {
        let session = session(&cluster, 0, "brief", asked).await;
        assert_eq!(session.opened.ttl_ms, SESSION_TTL_MS_MIN, "{asked} ms were asked for");
    }
    let above = session(&cluster, 0, "brief", SESSION_TTL_MS_MIN + 1).await;
    assert_eq!(above.opened.ttl_ms, SESSION_TTL_MS_MIN + 1);
}

/// What a client finds in lists is enough to revoke a session, and for nothing else: the next leader never starts beside one
/// that has not stopped.
#[tokio::test(flavor = "multi_thread")]
async fn session_is_not_taken_over_by_what_lists_tell() {
    let cluster = Cluster::start(3).await;
    // A new cluster learns in its first moments what all its members can do.
    let mut holder = eventually("sessions have secrets", async || {
        let opened = session(&cluster, 0, "holder", LONG_MS).await;
        (!opened.opened.secret.is_empty()).then_some(opened).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    let held = holder.join("jobs").await.candidacies[0].token;
    let mut next = session(&cluster, 1, "next", LONG_MS).await;
    next.join_as(pb::Join { names: vec!["jobs".into()], no_overlap: true, ..Default::default() })
        .await;
    let client = cluster.members[2].client();
    let listed = client.sessions().list().await.unwrap().sessions;
    let listed = listed.into_iter().find(|listed| listed.session == holder.id()).unwrap().session;
    for secret in ["", "guessed"].map(bytes::Bytes::from) {
        let stop = pb::EndSessionRequest {
            session: listed,
            stopped: true,
            secret: secret.clone(),
            ..Default::default()
        };
        let refused = client.sessions().end(stop).await.unwrap_err();
        assert!(
            matches!(refused, ClientError::ElectionRefused { kind, .. } if kind == RefusalKind::WrongSecret),
            "{refused:?}"
        );
        let open = pb::OpenSession { session: listed, secret, ..Default::default() };
        let (_stream, mut answers) = client.sessions().attach(open).await.unwrap();
        let refused = answers.message().await.unwrap_err();
        assert_eq!(refused.message(), "tenure: this is not the secret of the session");
    }
    // It was not replaced, and holds on.
    holder.renew(1).await;
    let mut back = attach(&cluster, 2, &holder).await;
    assert_eq!((back.opened.candidacies[0].token, back.opened.candidacies[0].held), (held, true));
    // An operator may revoke it. The next one leads when its process must have stopped, or says so.
    client.sessions().revoke(listed).await.unwrap();
    assert_eq!(back.ended().await, pb::SessionEndReason::SessionRevoked);
    let stranger = pb::EndSessionRequest { stopped: true, ..back.end_request(false) };
    assert!(client.sessions().end(stranger).await.is_err(), "not after its end either");
    let candidates = client.elections().candidates("jobs".to_owned()).await.unwrap();
    assert!(candidates.delay_ms.is_some(), "the next one waits: {candidates:?}");
    client.sessions().end(back.end_request(true)).await.unwrap();
    assert_eq!(next.granted("jobs").await.predecessor, "holder");
}

/// An identity is shown on terminals, written to logs and handed to fence agents.
#[tokio::test(flavor = "multi_thread")]
async fn session_identity_has_no_control_characters() {
    let cluster = Cluster::start(1).await;
    for identity in ["a\nplug=victim", "\0", "\x1b[2J", "\u{9b}1A"] {
        let open = pb::OpenSession {
            identity: identity.to_owned(),
            ttl_ms: LONG_MS,
            ..Default::default()
        };
        let client = cluster.client();
        let (_stream, mut answers) = client.sessions().attach(open).await.unwrap();
        let refused = answers.message().await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{identity:?}: {refused}");
    }
    assert!(cluster.client().sessions().list().await.unwrap().sessions.is_empty());
}

/// A client that heard no answer asks again, and so does the library's own retry.
#[tokio::test(flavor = "multi_thread")]
async fn session_can_be_ended_from_outside_more_than_once() {
    let cluster = Cluster::start(3).await;
    let mut holder = session(&cluster, 0, "holder", 60_000).await;
    for (at, stopped) in [(1, false), (1, false), (2, false), (2, true), (0, false)] {
        let sessions = cluster.members[at].client();
        sessions.sessions().end(holder.end_request(stopped)).await.unwrap();
    }
    assert_eq!(holder.ended().await, pb::SessionEndReason::SessionRevoked);
    assert!(cluster.client().sessions().list().await.unwrap().sessions.is_empty());
}

/// A guardian knows why it ended its process's session; what the members know themselves, it may not claim.
#[tokio::test(flavor = "multi_thread")]
async fn session_end_takes_the_two_reasons_that_only_a_guardian_knows() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    for (why, session_end) in [
        (pb::EndReason::ConnectionLost, pb::SessionEndReason::SessionConnectionLost),
        (pb::EndReason::Expired, pb::SessionEndReason::SessionExpired),
    ] {
        let name = format!("jobs of {why:?}");
        let mut holder = session(&cluster, 0, "holder", 60_000).await;
        holder.join(&name).await;
        for claimed in [pb::EndReason::Evicted, pb::EndReason::Resigned, pb::EndReason::Closed] {
            let refused = client.sessions().end(holder.guarded_end(claimed)).await.unwrap_err();
            assert_eq!(refused.code(), Some(Code::InvalidArgument), "{refused}");
        }
        client.sessions().end(holder.guarded_end(why)).await.unwrap();
        assert_eq!(holder.ended().await, session_end);
        let history = client.elections().history(name).await.unwrap();
        assert_eq!((history.tenures[0].reason(), history.tenures[0].stopped), (why, true));
        client.sessions().end(holder.guarded_end(why)).await.expect("it may be repeated");
    }
}
