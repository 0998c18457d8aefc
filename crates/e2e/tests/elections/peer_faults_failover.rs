//! What others' candidates are told when the raft leader fails, on a real etcd 3.5.1 and on us.
//!
//! What is to be seen on each is in `tenure_e2e::faults`, by the name of the test.

use std::time::Duration;

use tenure_e2e::{
    Caller, Scrape, Side, Waiting, electionpb::CampaignResponse, eventually, faults::on_so_many, pb,
};
use tokio::task::JoinHandle;

const TTL: i64 = 600;
/// Long enough to be renewed in time on a busy machine, and to outlive an election of etcd's.
const SHORT_TTL: i64 = 4;
const RENEWAL_INTERVAL: Duration = Duration::from_millis(500);
/// Longer than an elected candidate waits for the news, many times over.
const SILENCE: Duration = Duration::from_secs(1);
/// How many wait behind the leader.
const CANDIDATES: usize = 3;

/// Renews leases for as long as their member lives.
fn renewed_at(member: Caller, leases: Vec<i64>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            for lease in &leases {
                let Ok(mut renewals) = member.client().lease().renewals(*lease).await else {
                    return;
                };
                if renewals.answer().await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(RENEWAL_INTERVAL).await;
        }
    })
}

/// A candidate that waits behind so many others.
async fn candidate(caller: &Caller, lease: i64, behind: usize) -> Waiting<CampaignResponse> {
    let waiting = caller.campaign("office", lease, &format!("candidate {behind}"));
    caller.has_candidates("office", behind + 1).await;
    waiting
}

/// Waits until so many campaigns wait at this member. One of etcd's reads the candidates again after its key is there,
/// fails if the raft leader does meanwhile, and waits by a watch. Ours wait as soon as they are candidates.
async fn all_wait(side: &Side, at: usize, count: usize) {
    if matches!(side, Side::Tenure(_)) {
        return;
    }
    eventually("all wait", async || {
        let seen = Scrape::of(&side.address(at)).await?.total("etcd_debugging_mvcc_watcher_total");
        if seen == Some(count as f64) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

/// Candidates have their sessions at the raft leader and their campaigns at another member, and one more comes after
/// them. The raft leader is killed, so that those sessions end; no client gives up its campaign, as none knows. Then
/// the leader, which knows nothing of it all, resigns.
#[tokio::test(flavor = "multi_thread")]
async fn election_has_one_leader_when_sessions_end_with_the_raft_leader() {
    let test = "election_has_one_leader_when_sessions_end_with_the_raft_leader";
    on_so_many(test, 3, async |side: &mut Side| {
        let raft_leader = side.raft_leader().await;
        let other = (raft_leader + 1) % 3;
        let (doomed, caller) = (side.caller_at(raft_leader), side.caller_at(other));
        let mut leases = vec![];
        for _ in 1..CANDIDATES {
            leases.push(doomed.lease(SHORT_TTL).await);
        }
        let renewing = renewed_at(doomed, leases.clone());
        leases.push(caller.lease(TTL).await);
        let leader = caller.elected("office", caller.lease(TTL).await, "leader").await;
        let mut candidates = vec![];
        for lease in &leases {
            candidates.push(candidate(&caller, *lease, candidates.len() + 1).await);
        }
        all_wait(side, other, CANDIDATES).await;
        side.kill(raft_leader);
        renewing.await.unwrap();
        let queue = caller.has_candidates("office", 2).await;
        assert_eq!([queue[0].lease, queue[1].lease], [leader.lease, leases[CANDIDATES - 1]]);
        caller.resign(leader).await.unwrap();
        let (mut elected, mut refusals) = (vec![], vec![]);
        for candidate in candidates {
            match candidate.answer().await {
                Ok(answer) => elected.push(answer.leader.unwrap().key),
                Err(status) => refusals.push(status.message().to_owned()),
            }
        }
        assert!(elected.contains(&queue[1].key), "who has a session is elected: {elected:?}");
        refusals.dedup();
        match (elected.len(), &refusals[..]) {
            (CANDIDATES, []) => "all were elected, all but one without a session".to_owned(),
            (1, [refusal]) => format!("one was elected, the others refused: {refusal}"),
            other => format!("{other:?}"),
        }
    })
    .await;
}

/// All sessions outlive the raft leader.
#[tokio::test(flavor = "multi_thread")]
async fn election_does_not_change_because_the_raft_leader_failed() {
    let test = "election_does_not_change_because_the_raft_leader_failed";
    on_so_many(test, 3, async |side: &mut Side| {
        let raft_leader = side.raft_leader().await;
        let others = [1, 2].map(|next| (raft_leader + next) % 3);
        let callers = others.map(|at| side.caller_at(at));
        let leader = callers[0].elected("office", callers[0].lease(TTL).await, "leader").await;
        let mut candidates = vec![];
        for behind in 1..=CANDIDATES {
            let caller = &callers[behind % 2];
            candidates.push(candidate(caller, caller.lease(TTL).await, behind).await);
        }
        all_wait(side, others[0], CANDIDATES / 2).await;
        all_wait(side, others[1], CANDIDATES.div_ceil(2)).await;
        side.kill(raft_leader);
        for caller in &callers {
            eventually("there is a raft leader again", async || {
                let put = pb::PutRequest { key: "k".into(), ..Default::default() };
                caller.client().kv().put(put).await.map_err(|error| error.to_string())
            })
            .await;
        }
        for candidate in &mut candidates {
            if let Some(answer) = candidate.within(SILENCE / CANDIDATES as u32).await {
                return format!("somebody while the leader led: {answer:?}");
            }
        }
        callers[1].resign(leader).await.unwrap();
        let next = candidates.remove(0).answer().await.unwrap().leader.unwrap();
        let queue = callers[0].candidates("office").await;
        assert_eq!((queue.len(), &queue[0].key), (CANDIDATES, &next.key), "the first candidate");
        match candidates[0].within(SILENCE).await {
            None if !candidates[1].is_answered() => {
                "nobody while the leader led, then the first candidate".to_owned()
            }
            _ => "nobody while the leader led, then several".to_owned(),
        }
    })
    .await;
}
