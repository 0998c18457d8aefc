//! Leaving, when it is refused or never answered.

use std::time::Duration;

use futures_util::FutureExt;

use super::*;
use crate::ElectionName;
use crate::backend::{Mode, Opening};
use crate::host::Virtual;

use pb::session_response::Response as SessionReply;

fn shared() -> Arc<Shared> {
    let opening = Opening {
        ttl: Duration::from_secs(2),
        identity: "test".to_owned(),
        fast_release: false,
        host: Arc::new(Virtual::start()),
    };
    Arc::new(Shared::new(vec![], opening, Duration::from_secs(1)))
}

/// A candidacy for `job`, held with token 5.
async fn holder(shared: &Arc<Shared>) -> NativeCandidate {
    let name: ElectionName = "job".parse().unwrap();
    let candidacy = NativeCandidate::new(Arc::clone(shared), JoinSpec::one(name, Mode::Exclusive));
    let mut entering = candidacy.enter();
    assert!((&mut entering).now_or_never().is_none());
    let held = pb::Candidacy { name: "job".to_owned(), token: 5, held: true, ..Default::default() };
    answer(shared, 1, None, vec![held]);
    assert!(entering.await.unwrap().is_some());
    candidacy
}

fn answer(
    shared: &Shared,
    request: u64,
    refusal: Option<pb::Refusal>,
    candidacies: Vec<pb::Candidacy>,
) {
    let response =
        SessionReply::Result(pb::RequestResult { request_id: request, refusal, candidacies });
    shared.talk().exchange.hear(response, 100);
}

fn timed_out() -> Option<pb::Refusal> {
    Some(pb::Refusal { kind: 0, text: "request timed out".to_owned() })
}

#[tokio::test]
async fn candidate_asks_again_for_what_was_refused_and_only_then_confirms() {
    let shared = shared();
    let candidacy = holder(&shared).await;
    candidacy.forsake(true);
    answer(&shared, 2, timed_out(), vec![]);
    candidacy.leave().await.unwrap_err();
    let due = shared.talk().exchange.due();
    let again = due.last().unwrap();
    assert_eq!(
        (again.request_id, again.request.clone()),
        (3, Some(leave_election("job", 5, true)))
    );
    let mut leaving = candidacy.leave();
    assert!((&mut leaving).now_or_never().is_none(), "nobody has confirmed it");
    answer(&shared, 3, None, vec![]);
    leaving.await.unwrap();
    candidacy.leave().await.unwrap();
}

#[tokio::test]
async fn candidate_never_confirms_what_is_never_answered() {
    let shared = shared();
    let candidacy = holder(&shared).await;
    candidacy.forsake(true);
    shared.talk().exchange.end();
    for _ in 0..3 {
        candidacy.leave().await.unwrap_err();
    }
}
