//! What goes wrong in others' elections, on a real etcd 3.5.1 and on us.
//!
//! What is to be seen on each is in `tenure_e2e::faults`, by the name of the test.

use std::time::Duration;

use tenure_e2e::{
    Caller, Side, Waiting,
    electionpb::{CampaignResponse, LeaderKey},
    eventually,
    faults::on_both,
};

/// Longer than the news that a session ended takes to arrive, many times over.
const SILENCE: Duration = Duration::from_secs(1);
const TTL: i64 = 600;
/// How often something is tried that a server may happen to survive.
const TRIALS: usize = 20;

/// What came of a campaign.
async fn outcome(caller: &Caller, campaign: Waiting<CampaignResponse>) -> String {
    match campaign.answer().await {
        Err(status) => format!("refused: {}", status.message()),
        Ok(elected) => {
            let leader = elected.leader.unwrap();
            let queue = caller.candidates(std::str::from_utf8(&leader.name).unwrap()).await;
            match queue.first() {
                Some(first) if first.key == leader.key && first.create_revision == leader.rev => {
                    "elected".to_owned()
                }
                _ if queue.iter().any(|kv| kv.key == leader.key) => {
                    "elected before others".to_owned()
                }
                _ => "elected, with a key that does not exist".to_owned(),
            }
        }
    }
}

/// A leader, and a candidate that waits behind it with a lease of its own.
async fn leader_and_candidate(caller: &Caller) -> (LeaderKey, Waiting<CampaignResponse>, i64) {
    let leader = caller.elected("office", caller.lease(TTL).await, "leader").await;
    let lease = caller.lease(TTL).await;
    let candidate = caller.campaign("office", lease, "candidate");
    caller.has_candidates("office", 2).await;
    (leader, candidate, lease)
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_whose_session_ended_is_not_elected() {
    on_both("candidate_whose_session_ended_is_not_elected", async |side: &mut Side| {
        let caller = side.caller();
        let (leader, candidate, lease) = leader_and_candidate(&caller).await;
        caller.revoke(lease).await;
        caller.resign(leader).await.unwrap();
        outcome(&caller, candidate).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_is_told_at_once_that_its_session_ended() {
    on_both("candidate_is_told_at_once_that_its_session_ended", async |side: &mut Side| {
        let caller = side.caller();
        let (_leader, mut candidate, lease) = leader_and_candidate(&caller).await;
        caller.revoke(lease).await;
        match candidate.within(SILENCE).await {
            None => "still waiting".to_owned(),
            Some(Err(status)) => format!("refused: {}", status.message()),
            Some(Ok(elected)) => format!("{elected:?}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_whose_key_was_deleted_is_not_elected() {
    on_both("candidate_whose_key_was_deleted_is_not_elected", async |side: &mut Side| {
        let caller = side.caller();
        let (leader, candidate, _) = leader_and_candidate(&caller).await;
        let queue = caller.candidates("office").await;
        caller.delete(queue[1].key.clone()).await;
        caller.resign(leader).await.unwrap();
        outcome(&caller, candidate).await
    })
    .await;
}

/// etcd looks at the history for up to 100 ms after a candidate has begun to wait. What is compacted meanwhile
/// breaks its campaign, and its key stays.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_does_not_break_a_campaign() {
    on_both("compaction_does_not_break_a_campaign", async |side: &mut Side| {
        let caller = side.caller();
        for trial in 0..TRIALS {
            let name = format!("office-{trial}");
            let leader = caller.elected(&name, caller.lease(TTL).await, "leader").await;
            let lease = caller.lease(TTL).await;
            let candidate = caller.campaign(&name, lease, "candidate");
            caller.has_candidates(&name, 2).await;
            caller.compact().await;
            caller.compact().await;
            caller.resign(leader).await.unwrap();
            if let Err(status) = candidate.answer().await {
                let stayed = caller.candidates(&name).await.iter().any(|kv| kv.lease == lease);
                let key = if stayed { "its key stayed" } else { "its key is gone" };
                return format!("failed: {}; {key}", status.message());
            }
        }
        "all were elected in their turn".to_owned()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_that_hangs_up_leaves_the_election() {
    on_both("candidate_that_hangs_up_leaves_the_election", async |side: &mut Side| {
        let caller = side.caller();
        let (leader, candidate, lease) = leader_and_candidate(&caller).await;
        let next = caller.campaign("office", caller.lease(TTL).await, "next");
        caller.has_candidates("office", 3).await;
        candidate.hang_up();
        let queue = caller.has_candidates("office", 2).await;
        assert!(queue.iter().all(|kv| kv.lease != lease), "it was another's key: {queue:?}");
        assert!(caller.seconds_left(lease).await > 0, "the lease is its owner's");
        caller.resign(leader).await.unwrap();
        format!("its key is gone, and the next was {}", outcome(&caller, next).await)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_campaign_that_hangs_up_leaves_the_first_its_place() {
    let test = "repeated_campaign_that_hangs_up_leaves_the_first_its_place";
    on_both(test, async |side: &mut Side| {
        let caller = side.caller();
        let (leader, first, lease) = leader_and_candidate(&caller).await;
        // It waits where the first waits: proclaiming its value is all that can be seen of it.
        let again = caller.campaign("office", lease, "again");
        eventually("the second call has arrived", async || {
            let queue = caller.candidates("office").await;
            if &queue[1].value[..] == b"again" { Ok(()) } else { Err(format!("{queue:?}")) }
        })
        .await;
        again.hang_up();
        // Whether it takes a key away can be seen only if it does: give it the time.
        let _ = tokio::time::timeout(SILENCE, caller.has_candidates("office", 1)).await;
        caller.resign(leader).await.unwrap();
        outcome(&caller, first).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_is_elected_only_when_all_before_it_are_gone() {
    let test = "candidate_is_elected_only_when_all_before_it_are_gone";
    on_both(test, async |side: &mut Side| {
        let caller = side.caller();
        let (leader, second, lease) = leader_and_candidate(&caller).await;
        let mut third = caller.campaign("office", caller.lease(TTL).await, "third");
        caller.has_candidates("office", 3).await;
        caller.revoke(lease).await;
        if third.within(SILENCE).await.is_some() {
            return "elected while the leader led".to_owned();
        }
        caller.resign(leader).await.unwrap();
        drop(second);
        format!("{} after the leader had gone", outcome(&caller, third).await)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resign_twice_is_resign_once() {
    on_both("resign_twice_is_resign_once", async |side: &mut Side| {
        let caller = side.caller();
        let leader = caller.elected("office", caller.lease(TTL).await, "leader").await;
        caller.resign(leader.clone()).await.unwrap();
        caller.resign(leader).await.unwrap();
        match caller.leader("office").await {
            Err(status) if status.message() == "election: no leader" => {
                "both were answered, nobody leads".to_owned()
            }
            other => format!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resign_that_is_late_does_not_end_a_newer_tenure() {
    on_both("resign_that_is_late_does_not_end_a_newer_tenure", async |side: &mut Side| {
        let caller = side.caller();
        let lease = caller.lease(TTL).await;
        let first = caller.elected("office", lease, "first").await;
        caller.resign(first.clone()).await.unwrap();
        let second = caller.elected("office", lease, "second").await;
        assert_eq!(second.key, first.key, "the key is named after the lease");
        assert!(second.rev > first.rev, "tokens grow");
        caller.resign(first).await.unwrap();
        match caller.leader("office").await {
            Ok(found) if found.kv.as_ref().unwrap().create_revision == second.rev => {
                "the newer tenure stands".to_owned()
            }
            other => format!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resign_of_a_stranger_changes_nothing() {
    on_both("resign_of_a_stranger_changes_nothing", async |side: &mut Side| {
        let caller = side.caller();
        let leader = caller.elected("office", caller.lease(TTL).await, "leader").await;
        let stranger = caller.lease(TTL).await;
        let forged = LeaderKey { rev: leader.rev - 1, lease: stranger, ..leader.clone() };
        caller.resign(forged).await.unwrap();
        match caller.leader("office").await {
            Ok(found) if found.kv.as_ref().unwrap().key == leader.key => {
                "the leader leads".to_owned()
            }
            other => format!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deposed_leader_cannot_proclaim() {
    on_both("deposed_leader_cannot_proclaim", async |side: &mut Side| {
        let caller = side.caller();
        let (deposed, candidate, _) = leader_and_candidate(&caller).await;
        caller.revoke(deposed.lease).await;
        candidate.answer().await.unwrap();
        // With a lease that lives, so that it is the candidacy that is refused and not the lease.
        let deposed = LeaderKey { lease: caller.lease(TTL).await, ..deposed };
        match caller.proclaim(deposed, "still me").await {
            Err(status) => format!("refused: {}", status.message()),
            Ok(done) => format!("{done:?}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn proclamation_leaves_the_leader_its_lease() {
    on_both("proclamation_leaves_the_leader_its_lease", async |side: &mut Side| {
        let caller = side.caller();
        let lease = caller.lease(TTL).await;
        let leader = caller.elected("office", lease, "before").await;
        caller.proclaim(LeaderKey { lease: 0, ..leader }, "after").await.unwrap();
        let queue = caller.candidates("office").await;
        assert_eq!((queue.len(), &queue[0].value[..]), (1, &b"after"[..]));
        match queue[0].lease {
            found if found == lease => "the key hangs on the leader's lease".to_owned(),
            _ => "the key hangs on another lease".to_owned(),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn campaign_again_is_the_same_candidacy() {
    on_both("campaign_again_is_the_same_candidacy", async |side: &mut Side| {
        let caller = side.caller();
        let lease = caller.lease(TTL).await;
        let first = caller.elected("office", lease, "first").await;
        let again = caller.elected("office", lease, "again").await;
        let queue = caller.candidates("office").await;
        let keys = if queue.len() == 1 { "one key" } else { "several keys" };
        let token = if first.rev == again.rev { "the same token" } else { "another token" };
        let value = if &queue[0].value[..] == b"again" { "the new value" } else { "the old value" };
        format!("{keys}, {token}, {value}")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elections_whose_names_begin_alike_are_apart() {
    on_both("elections_whose_names_begin_alike_are_apart", async |side: &mut Side| {
        let caller = side.caller();
        for name in ["office", "off"] {
            let lease = caller.lease(TTL).await;
            let mut campaign = caller.campaign(name, lease, name);
            if campaign.within(SILENCE).await.is_none() {
                return format!("{name} waits");
            }
        }
        for name in ["office", "off"] {
            let leader = caller.leader(name).await.unwrap().kv.unwrap();
            assert_eq!(leader.value, name);
        }
        "both have a leader".to_owned()
    })
    .await;
}
