//! Which candidate leads, and what each is told.

use std::time::Duration;

use tenure::{AcquireError, Doubt, Election, Loss, ProclaimError, SessionState};

use super::{Ground, at_once, bounded};
use crate::pb;

/// Candidates lead in the order in which they came, each with a greater token.
pub async fn candidates_lead_in_order_with_growing_tokens(ground: &Ground) {
    let mut waiting = Vec::new();
    for at in 0..4 {
        let election = Election::new(&ground.session().await, "job").unwrap();
        let candidate = election.candidate(format!("c{at}"));
        waiting.push(tokio::spawn(async move { (candidate.campaign().await, election) }));
        ground.has_candidates("job", at + 1).await;
    }
    let mut last = None;
    for (at, campaign) in waiting.into_iter().enumerate() {
        let (leadership, _election) = bounded("the next leads", campaign).await.unwrap();
        let leadership = leadership.unwrap();
        let keys = ground.keys("job").await;
        assert_eq!(keys[0].value, format!("c{at}"));
        assert_eq!(leadership.token().get(), keys[0].create_revision);
        assert!(Some(leadership.token()) > last);
        last = Some(leadership.token());
        leadership.resign().await.unwrap();
    }
    ground.has_candidates("job", 0).await;
}

/// etcd#11456, etcd#11007: a waiter whose session ends while it waits is told at once, and never leads.
pub async fn waiter_whose_session_is_revoked_is_told_at_once(ground: &Ground) {
    let (first, second) = (ground.session().await, ground.session().await);
    let leads = Election::new(&first, "job").unwrap().candidate("a").campaign().await.unwrap();
    let campaign = tokio::spawn(Election::new(&second, "job").unwrap().candidate("b").campaign());
    ground.has_candidates("job", 2).await;
    ground.revoke(&second).await;
    let error = at_once("told", campaign).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::SessionOver { .. }), "{error}");
    assert_eq!(ground.keys("job").await.len(), 1, "and the leader leads on");
    assert!(leads.may_act(Duration::ZERO).is_ok());
}

/// etcd#11777: a key that is deleted by hand in the queue does not win.
pub async fn waiter_whose_key_is_deleted_is_told_at_once(ground: &Ground) {
    let (first, second) = (ground.session().await, ground.session().await);
    let leads = Election::new(&first, "job").unwrap().candidate("a").campaign().await.unwrap();
    let campaign = tokio::spawn(Election::new(&second, "job").unwrap().candidate("b").campaign());
    let keys = ground.has_candidates("job", 2).await;
    delete(ground, &keys[1].key).await;
    let error = at_once("told", campaign).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::CandidacyLost { loss: Loss::KeyDeleted, .. }), "{error}");
    // Only the candidacy is gone: the session becomes a candidate again.
    assert_eq!(second.state(), SessionState::Held);
    let campaign = tokio::spawn(Election::new(&second, "job").unwrap().candidate("b").campaign());
    ground.has_candidates("job", 2).await;
    leads.resign().await.unwrap();
    let _kept = bounded("leads", campaign).await.unwrap().unwrap();
}

/// etcd#6127: a leader is told when it is none any more, and why.
pub async fn leader_whose_session_is_revoked_is_told(ground: &Ground) {
    let (first, second) = (ground.session().await, ground.session().await);
    let leads = Election::new(&first, "job").unwrap().candidate("a").campaign().await.unwrap();
    let campaign = tokio::spawn(Election::new(&second, "job").unwrap().candidate("b").campaign());
    ground.has_candidates("job", 2).await;
    ground.revoke(&first).await;
    let loss = at_once("told", leads.lost()).await;
    assert!(matches!(loss, Loss::NotFound | Loss::Revoked), "{loss}");
    assert_eq!(leads.may_act(Duration::ZERO), Err(Doubt::Lost));
    assert_eq!(leads.state(), SessionState::Lost(loss));
    let next = bounded("the next leads", campaign).await.unwrap().unwrap();
    assert!(next.token() > leads.token());
    let refused = leads.proclaim("still me").await.unwrap_err();
    assert!(matches!(refused, ProclaimError::Lost { .. }), "{refused}");
    assert_eq!(ground.keys("job").await[0].value, "b");
}

/// A key that is deleted by hand ends the tenure, and only that.
pub async fn leader_whose_key_is_deleted_is_told_and_its_session_lives(ground: &Ground) {
    let session = ground.session().await;
    let election = Election::new(&session, "job").unwrap();
    let leads = election.candidate("a").campaign().await.unwrap();
    let keys = ground.has_candidates("job", 1).await;
    delete(ground, &keys[0].key).await;
    assert_eq!(at_once("told", leads.lost()).await, Loss::KeyDeleted);
    assert_eq!(session.state(), SessionState::Held);
    let old = leads.token();
    drop(leads);
    let again = bounded("leads again", election.candidate("a").campaign()).await.unwrap();
    assert!(again.token() > old);
}

/// etcd#21128, stolon#659: a campaign that is not wanted any more leaves no key behind.
pub async fn campaign_that_is_dropped_leaves_no_key(ground: &Ground) {
    let (first, second) = (ground.session().await, ground.session().await);
    let leads = Election::new(&first, "job").unwrap().candidate("a").campaign().await.unwrap();
    let election = Election::new(&second, "job").unwrap();
    let campaign = tokio::spawn(election.candidate("b").campaign());
    ground.has_candidates("job", 2).await;
    campaign.abort();
    ground.has_candidates("job", 1).await;
    // And the same session can stand for it again, at once.
    let campaign = tokio::spawn(election.candidate("b").campaign());
    ground.has_candidates("job", 2).await;
    leads.resign().await.unwrap();
    let _kept = bounded("leads", campaign).await.unwrap().unwrap();
}

/// After a campaign is dropped, the same session can campaign again at once.
pub async fn candidate_that_walks_away_can_come_back_at_once(ground: &Ground) {
    let (first, second) = (ground.session().await, ground.session().await);
    let leads = Election::new(&first, "job").unwrap().candidate("a").campaign().await.unwrap();
    let election = Election::new(&second, "job").unwrap();
    for patience in 0..20 {
        let waits = election.candidate("b").campaign();
        let early = tokio::time::timeout(Duration::from_millis(patience), waits).await;
        assert!(early.is_err(), "the other one leads: {early:?}");
    }
    leads.resign().await.unwrap();
    let _kept = bounded("leads", election.candidate("b").campaign()).await.unwrap();
    ground.has_candidates("job", 1).await;
}

/// A leadership that is dropped is free for the next candidate, without waiting for a time to live.
pub async fn leadership_that_is_dropped_is_resigned(ground: &Ground) {
    let (first, second) = (ground.session().await, ground.session().await);
    let leads = Election::new(&first, "job").unwrap().candidate("a").campaign().await.unwrap();
    let campaign = tokio::spawn(Election::new(&second, "job").unwrap().candidate("b").campaign());
    ground.has_candidates("job", 2).await;
    drop(leads);
    let _kept = bounded("the next leads", campaign).await.unwrap().unwrap();
}

/// etcd#22123: a resignation that gets no answer is made again until it does.
pub async fn resignation_is_repeated_until_it_is_confirmed(ground: &Ground) {
    let session = ground.session().await;
    let leads = Election::new(&session, "job").unwrap().candidate("a").campaign().await.unwrap();
    ground.pause();
    let mut resign = Box::pin(leads.resign());
    let early = tokio::time::timeout(Duration::from_millis(500), &mut resign).await;
    ground.resume();
    assert!(early.is_err(), "nobody can have confirmed it");
    bounded("resigned", resign).await.unwrap();
    ground.has_candidates("job", 0).await;
    assert_eq!(session.state(), SessionState::Held);
}

/// A session is a candidate once: a second candidacy would be the same key.
pub async fn session_is_a_candidate_of_an_election_once(ground: &Ground) {
    let session = ground.session().await;
    let election = Election::new(&session, "job").unwrap();
    let leads = election.candidate("a").campaign().await.unwrap();
    let error = bounded("refused", election.candidate("b").campaign()).await.unwrap_err();
    assert!(matches!(error, AcquireError::AlreadyCandidate { .. }), "{error}");
    assert_eq!(ground.keys("job").await[0].value, "a");
    leads.resign().await.unwrap();
}

/// What is proclaimed is seen; what a former leader proclaims is refused.
pub async fn proclamation_is_seen_and_keeps_the_token(ground: &Ground) {
    let session = ground.session().await;
    let leads = Election::new(&session, "job").unwrap().candidate("a").campaign().await.unwrap();
    leads.proclaim("a2").await.unwrap();
    leads.proclaim("a3").await.unwrap();
    let keys = ground.keys("job").await;
    assert_eq!((&keys[0].value[..], keys[0].create_revision), (&b"a3"[..], leads.token().get()));
    assert_eq!(keys[0].lease, session.id().0, "it still goes with the session");
}

/// etcd#21128: history that is compacted away under a waiter is not missed by it.
pub async fn compaction_does_not_disturb_a_waiter(ground: &Ground) {
    let (first, second) = (ground.session().await, ground.session().await);
    let leads = Election::new(&first, "job").unwrap().candidate("a").campaign().await.unwrap();
    let campaign = tokio::spawn(Election::new(&second, "job").unwrap().candidate("b").campaign());
    ground.has_candidates("job", 2).await;
    let client = ground.client();
    for round in 0..3 {
        let put = pb::PutRequest { key: "else".into(), ..Default::default() };
        let at = client.kv().put(put).await.unwrap().header.unwrap().revision;
        let compact = pb::CompactionRequest { revision: at, physical: round == 1 };
        client.kv().compact(compact).await.unwrap();
    }
    leads.resign().await.unwrap();
    let _kept = bounded("leads", campaign).await.unwrap().unwrap();
}

/// Tried and timed campaigns end when they must, and leave nothing.
pub async fn campaign_that_may_not_wait_leaves_no_key(ground: &Ground) {
    let (first, second) = (ground.session().await, ground.session().await);
    let leads = Election::new(&first, "job").unwrap().candidate("a").try_campaign().await.unwrap();
    let election = Election::new(&second, "job").unwrap();
    let error = bounded("taken", election.candidate("b").try_campaign()).await.unwrap_err();
    assert!(matches!(error, AcquireError::Taken { .. }), "{error}");
    assert_eq!(ground.keys("job").await.len(), 1);
    let limit = Duration::from_millis(300);
    let error = bounded("timed out", election.candidate("b").campaign_within(limit)).await;
    assert!(matches!(error.unwrap_err(), AcquireError::TimedOut { .. }));
    ground.has_candidates("job", 1).await;
    drop(leads);
    let _kept = bounded("free", election.candidate("b").campaign()).await.unwrap();
}

/// The candidates are listed in order, with the holder marked.
pub async fn candidates_are_listed_in_order(ground: &Ground) {
    let (first, second) = (ground.session().await, ground.session().await);
    let election = Election::new(&first, "job").unwrap();
    assert_eq!(election.candidates().await.unwrap(), []);
    let leads = election.candidate("a").campaign().await.unwrap();
    let waits = tokio::spawn(Election::new(&second, "job").unwrap().candidate("b").campaign());
    ground.has_candidates("job", 2).await;
    let listed = election.candidates().await.unwrap();
    let seen: Vec<_> = listed.iter().map(|one| (&one.value[..], one.holds)).collect();
    assert_eq!(seen, [(&b"a"[..], true), (b"b", false)]);
    assert_eq!(listed[0].token, leads.token());
    assert_eq!(listed[1].session, Some(second.id()));
    waits.abort();
}

async fn delete(ground: &Ground, key: &[u8]) {
    let request = pb::DeleteRangeRequest { key: key.to_vec().into(), ..Default::default() };
    assert_eq!(ground.client().kv().delete_range(request).await.unwrap().deleted, 1);
}
