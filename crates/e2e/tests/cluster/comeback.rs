//! Sessions that come back to their cluster by another member.

use std::time::Duration;

use tenure::{Engine, Loss, Session, SessionState};
use tenure_e2e::Cluster;
use tokio::time::Instant;

/// Short, so that sessions lose patience with a member while there is no raft leader.
const TTL: Duration = Duration::from_secs(2);
const SESSIONS: usize = 16;
const RAFT_LEADERS: usize = 5;

/// While nobody leads, a session asks one member after the other to be taken back, and none can. The next raft
/// leader does all of that at once, in any order: a session must not take an attempt of its own, that comes last,
/// for somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_not_replaced_by_its_own_attempts_to_come_back() {
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
            // On a busy machine one may be lost because nobody could renew it.
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
