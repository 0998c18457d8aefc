//! Sessions that come back to their cluster by another member.

use std::time::Duration;

use tenure::{Engine, Lock, Loss, Session, SessionState};
use tenure_e2e::{Cluster, Relay, eventually, reserve};
use tokio::time::Instant;

/// Short, so that sessions lose patience with a member while there is no raft leader.
const TTL: Duration = Duration::from_secs(2);
const SESSIONS: usize = 16;
const RAFT_LEADERS: usize = 5;

/// While there is no raft leader, a session asks one member after the other to be reattached, and none can. The next
/// raft leader does all of that at once, in any order: a session must not take an attempt of its own, that comes last,
/// for another process's.
#[tokio::test(flavor = "multi_thread")]
async fn session_is_not_replaced_by_its_own_attempts_to_come_back() {
    let cluster = Cluster::start(3).await;
    let engine = Engine::tenure(&cluster.endpoints()).unwrap();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(Session::open(&engine, TTL).await.unwrap());
    }
    for _ in 0..RAFT_LEADERS {
        let leader = cluster.leader().await;
        cluster.members[leader].pause();
        let others: Vec<_> = (0..3).filter(|at| *at != leader).collect();
        cluster.leader_among(&others).await;
        cluster.members[leader].resume();
        for session in &mut sessions {
            let replaced = SessionState::Lost(Loss::Replaced);
            assert_ne!(session.state(), replaced, "nobody else knows its number");
            // On a busy machine one may be lost because it was not renewed in time.
            if matches!(session.state(), SessionState::Lost(_)) {
                *session = Session::open(&engine, TTL).await.unwrap();
            }
        }
    }
    let all_told = Instant::now() + TTL / 2;
    for session in sessions {
        let lost = tokio::time::timeout_at(all_told, session.lost()).await;
        assert_ne!(lost, Ok(Loss::Replaced), "nobody else knows its number");
    }
}

/// A member that does not answer is not waited for: the next renewal goes to another one, long before the session's
/// time is over. By whichever means, the holder never notices.
#[tokio::test(flavor = "multi_thread")]
async fn holder_whose_member_stands_still_holds_on_through_another() {
    /// With time for a busy machine between a renewal and the first doubt.
    const TTL: Duration = Duration::from_secs(4);
    let cluster = Cluster::start(3).await;
    // Only a follower: without its raft leader the whole cluster would stand still for a while.
    let follower = cluster.other_than(cluster.leader().await);
    let others: Vec<_> = (0..3).filter(|at| *at != follower).collect();
    // A session begins at a member of its choice. Nothing listens yet where the others will be, so it has none.
    let doors = reserve(2);
    let endpoints = format!("{},{},{}", cluster.members[follower].client, doors[0], doors[1]);
    let mut holds = Vec::new();
    for engine in [Engine::tenure(&endpoints).unwrap(), Engine::etcd(&endpoints).unwrap()] {
        let session = Session::open(&engine, TTL).await.unwrap();
        let name = format!("lock-{}", engine.name());
        let held = Lock::new(&session, name).unwrap().lock().await.unwrap();
        let known = session.deadline();
        holds.push((session, held, known));
    }
    let mut open = Vec::new();
    for (door, at) in doors.iter().zip(others) {
        open.push(Relay::at(*door, cluster.members[at].client).await);
    }
    cluster.members[follower].pause();
    let paused = Instant::now();
    // No belief is longer than the time to live: what holds after that was confirmed meanwhile.
    while paused.elapsed() < TTL * 3 / 2 {
        for (session, held, _) in &holds {
            assert_eq!(session.state(), SessionState::Held, "{}", held.name());
            assert_eq!(held.may_act(Duration::ZERO), Ok(held.token()), "{}", held.name());
        }
        tokio::time::sleep(TTL / 100).await;
    }
    cluster.members[follower].resume();
    for (session, held, known) in &holds {
        assert!(session.deadline() > *known);
        assert!(session.slow_renewals() > 0, "{} was not at that member", held.name());
        let listed = eventually("the member answers again", async || {
            let engine = Engine::tenure(&endpoints).unwrap();
            engine.candidates(held.name().clone()).await.map_err(|error| error.to_string())
        })
        .await;
        assert_eq!(listed[0].token, held.token(), "{}", held.name());
    }
}
