use super::*;

fn name(name: &str) -> ElectionName {
    name.parse().unwrap()
}

fn join(name: &str) -> SessionCall {
    SessionCall::Join(pb::Join { names: vec![name.to_owned()], ..Default::default() })
}

fn candidacy(name: &str, token: i64, held: bool) -> pb::Candidacy {
    pb::Candidacy { name: name.to_owned(), token, held, ..Default::default() }
}

fn opened(candidacies: Vec<pb::Candidacy>) -> pb::SessionOpened {
    pb::SessionOpened { session: 7, attachment: 2, ttl_ms: 1000, candidacies, ..Default::default() }
}

/// Hears something at revision 100.
trait Hear {
    fn hears(&mut self, response: SessionReply) -> Option<Option<Loss>>;
}

impl Hear for Exchange {
    fn hears(&mut self, response: SessionReply) -> Option<Option<Loss>> {
        self.hear(response, 100)
    }
}

fn answer(request: u64, candidacies: Vec<pb::Candidacy>) -> SessionReply {
    SessionReply::Result(pb::RequestResult { request_id: request, refusal: None, candidacies })
}

/// A session that holds `job` with token 5.
fn holder() -> (Exchange, watch::Receiver<CandidacyState>) {
    let mut exchange = Exchange::default();
    let state = exchange.begin(&name("job"));
    let (sent, _answer) = exchange.request(join("job"));
    exchange.hears(answer(sent, vec![candidacy("job", 5, true)]));
    assert!(state.borrow().held);
    (exchange, state)
}

#[test]
fn exchange_sends_again_in_order_what_was_not_answered() {
    let mut exchange = Exchange::default();
    let _a = exchange.request(join("a"));
    let (b, _b) = exchange.request(join("b"));
    let _c = exchange.request(leave_election("a", 0, true));
    exchange.due();
    exchange.hears(answer(b, vec![]));
    assert_eq!(exchange.due(), [], "sent already");
    exchange.opened(&opened(vec![]), 100);
    let again = exchange.due();
    let numbers: Vec<_> = again.iter().map(|request| request.request_id).collect();
    assert_eq!(numbers, [1, 3]);
    assert_eq!(exchange.session(), 7);
}

#[test]
fn exchange_ignores_a_second_copy_of_an_answer() {
    let mut exchange = Exchange::default();
    let state = exchange.begin(&name("job"));
    let (sent, mut got) = exchange.request(join("job"));
    exchange.hears(answer(sent, vec![candidacy("job", 5, false)]));
    assert_eq!(got.try_recv().unwrap().candidacies.len(), 1);
    exchange.hears(answer(sent, vec![candidacy("job", 9, true)]));
    assert_eq!((state.borrow().token, state.borrow().held), (Some(5), false));
}

#[test]
fn exchange_acknowledges_a_renewal_by_its_number() {
    let mut exchange = Exchange::default();
    let (_, mut first) = exchange.renewal();
    let (_, mut second) = exchange.renewal();
    exchange.hears(SessionReply::Renewed(pb::SessionRenewed { number: 2 }));
    assert!(second.try_recv().is_ok());
    assert!(first.try_recv().is_err());
    exchange.opened(&opened(vec![]), 100);
    assert_eq!(exchange.due(), []);
    assert!(first.try_recv().is_err(), "lost with its stream");
}

#[test]
fn exchange_grants_a_passed_over_waiter_with_its_new_token() {
    let mut exchange = Exchange::default();
    let state = exchange.begin(&name("job"));
    let (sent, _answer) = exchange.request(join("job"));
    exchange.hears(answer(sent, vec![candidacy("job", 5, false)]));
    let moved = pb::Moved { name: "job".into(), token: 8, old_token: 5, ..Default::default() };
    exchange.hears(SessionReply::Moved(moved));
    assert_eq!(exchange.due(), []);
    let granted = pb::Granted { candidacy: Some(candidacy("job", 8, true)), ..Default::default() };
    exchange.hears(SessionReply::Granted(granted));
    assert_eq!((state.borrow().token, state.borrow().held), (Some(8), true));
}

#[test]
fn exchange_takes_a_leader_that_waits_again_as_lost() {
    let (mut exchange, state) = holder();
    let moved = pb::Moved {
        name: "job".into(),
        token: 8,
        old_token: 5,
        lost: true,
        reason: pb::EndReason::Preempted as i32,
    };
    exchange.hears(SessionReply::Moved(moved));
    assert_eq!(state.borrow().gone, Some(Loss::Preempted));
    assert!(
        matches!(&exchange.due()[0].request, Some(SessionCall::Leave(leave)) if leave.name == "job")
    );
    // Should it be granted again before it has left, no caller is told.
    let granted = pb::Granted { candidacy: Some(candidacy("job", 8, true)), ..Default::default() };
    exchange.hears(SessionReply::Granted(granted));
    assert_eq!(state.borrow().gone, Some(Loss::Preempted));
}

#[test]
fn exchange_keeps_news_of_an_old_hold_from_a_new_one() {
    let (mut exchange, _old) = holder();
    let state = exchange.begin(&name("job"));
    let (sent, _answer) = exchange.request(join("job"));
    exchange.hears(answer(sent, vec![candidacy("job", 9, true)]));
    let reason = pb::EndReason::Evicted as i32;
    exchange.hears(SessionReply::Lost(pb::Lost { name: "job".into(), token: 5, reason }));
    assert_eq!(state.borrow().gone, None);
    exchange.hears(SessionReply::Lost(pb::Lost { name: "job".into(), token: 9, reason }));
    assert_eq!(state.borrow().gone, Some(Loss::Evicted));
}

#[test]
fn exchange_learns_what_it_missed_when_it_attaches_again() {
    let (mut exchange, state) = holder();
    exchange.opened(&opened(vec![candidacy("job", 5, true)]), 100);
    assert_eq!(exchange.due(), []);
    assert_eq!(state.borrow().gone, None, "nothing happened");
    exchange.opened(&opened(vec![]), 100);
    assert_eq!(state.borrow().gone, Some(Loss::KeyDeleted), "it is gone");
}

#[test]
fn exchange_takes_another_token_after_attaching_again_as_a_loss() {
    let (mut exchange, state) = holder();
    exchange.opened(&opened(vec![candidacy("job", 8, true)]), 100);
    assert!(state.borrow().gone.is_some(), "somebody may have led in between");
    assert!(
        matches!(&exchange.due()[0].request, Some(SessionCall::Leave(_))),
        "and nobody wants the new place"
    );
}

#[test]
fn exchange_does_not_miss_a_join_without_an_answer() {
    let mut exchange = Exchange::default();
    let state = exchange.begin(&name("job"));
    let _join = exchange.request(join("job"));
    exchange.opened(&opened(vec![]), 100);
    assert_eq!(exchange.due().len(), 1);
    assert_eq!(state.borrow().gone, None);
}

#[test]
fn exchange_announces_a_successor_and_takes_it_back() {
    let (mut exchange, state) = holder();
    let drain = |token| {
        let (name, successor) = ("job".to_owned(), "b".to_owned());
        SessionReply::Drain(pb::Drain { name, token, successor, within_ms: 500 })
    };
    exchange.hears(drain(4));
    assert_eq!(state.borrow().drain, None, "of another hold");
    exchange.hears(drain(5));
    assert_eq!(state.borrow().drain.as_ref().unwrap().successor, "b");
    let cancelled = pb::DrainCancelled { name: "job".into(), token: 5 };
    exchange.hears(SessionReply::DrainCancelled(cancelled));
    assert_eq!(state.borrow().drain, None);
}

#[test]
fn exchange_learns_of_a_successor_when_it_attaches_again() {
    let (mut exchange, state) = holder();
    let stands = |draining| pb::Candidacy {
        name: "job".into(),
        token: 5,
        held: true,
        draining,
        successor: "b".into(),
        drain_ms: 500,
        ..Default::default()
    };
    exchange.opened(&opened(vec![stands(true)]), 100);
    assert_eq!(state.borrow().drain.as_ref().unwrap().successor, "b");
    // And so is that it has gone.
    exchange.opened(&opened(vec![stands(false)]), 110);
    assert_eq!(state.borrow().drain, None);
    assert!(state.borrow().held);
}

#[test]
fn exchange_ends_the_stream_and_not_the_session_without_a_quorum() {
    let mut exchange = Exchange::default();
    let mut end = |reason: pb::SessionEndReason| {
        exchange.hears(SessionReply::Ended(pb::SessionEnded { reason: reason as i32 }))
    };
    assert_eq!(end(pb::SessionEndReason::SessionNoQuorum), Some(None));
    assert_eq!(end(pb::SessionEndReason::SessionRevoked), Some(Some(Loss::Revoked)));
    assert_eq!(end(pb::SessionEndReason::SessionReplaced), Some(Some(Loss::Replaced)));
}

#[test]
fn exchange_takes_a_name_once() {
    let mut exchange = Exchange::default();
    exchange.take(&[name("a"), name("b")]).unwrap();
    assert_eq!(exchange.take(&[name("c"), name("b")]), Err(name("b")));
    exchange.free(&[name("b")]);
    exchange.take(&[name("c"), name("b")]).unwrap();
}

#[test]
fn exchange_ends_all_waiting_with_the_session() {
    let mut exchange = Exchange::default();
    let (_, mut before) = exchange.request(join("a"));
    exchange.end();
    let (_, mut after) = exchange.request(join("b"));
    for answer in [&mut before, &mut after] {
        assert_eq!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}

#[test]
fn exchange_keeps_news_that_overtake_the_answer() {
    for (early, held, gone) in [
        (
            SessionReply::Granted(pb::Granted {
                candidacy: Some(candidacy("job", 5, true)),
                ..Default::default()
            }),
            true,
            None,
        ),
        (
            SessionReply::Lost(pb::Lost {
                name: "job".into(),
                token: 5,
                reason: pb::EndReason::Evicted as i32,
            }),
            false,
            Some(Loss::Evicted),
        ),
    ] {
        let mut exchange = Exchange::default();
        let state = exchange.begin(&name("job"));
        let (sent, _answer) = exchange.request(join("job"));
        exchange.hears(early);
        assert_eq!(*state.borrow(), CandidacyState::default(), "not before the answer");
        exchange.hears(answer(sent, vec![candidacy("job", 5, false)]));
        assert_eq!((state.borrow().held, state.borrow().gone), (held, gone));
    }
}

#[test]
fn exchange_keeps_a_grant_of_the_candidacy_before_apart() {
    let mut exchange = Exchange::default();
    let _old = exchange.begin(&name("job"));
    let (sent, _answer) = exchange.request(join("job"));
    exchange.hears(answer(sent, vec![candidacy("job", 5, false)]));
    let _leave = exchange.request(leave_election("job", 0, false));
    let state = exchange.begin(&name("job"));
    let (sent, _answer) = exchange.request(join("job"));
    let granted = pb::Granted { candidacy: Some(candidacy("job", 5, true)), ..Default::default() };
    exchange.hears(SessionReply::Granted(granted));
    exchange.hears(answer(sent, vec![candidacy("job", 9, false)]));
    assert_eq!((state.borrow().token, state.borrow().held), (Some(9), false));
    assert_eq!(state.borrow().gone, None);
}

/// A session that left a candidacy and joined anew while detached is told of the old candidacy first, then of its end,
/// then of the new one.
#[test]
fn exchange_keeps_an_account_of_the_candidacy_before_apart() {
    for held in [false, true] {
        let mut exchange = Exchange::default();
        let _old = exchange.begin(&name("job"));
        let (sent, _answer) = exchange.request(join("job"));
        exchange.hears(answer(sent, vec![candidacy("job", 30, false)]));
        let (left, _answer) = exchange.request(leave_election("job", 0, true));
        let state = exchange.begin(&name("job"));
        let (sent, _answer) = exchange.request(join("job"));
        exchange.opened(&opened(vec![candidacy("job", 30, false)]), 58);
        let reason = pb::EndReason::Resigned as i32;
        exchange.hears(SessionReply::Lost(pb::Lost { name: "job".into(), token: 30, reason }));
        exchange.hears(answer(left, vec![]));
        exchange.hears(answer(sent, vec![candidacy("job", 68, held)]));
        let seen = state.borrow().clone();
        assert_eq!((seen.token, seen.held, seen.gone), (Some(68), held, None));
        let due: Vec<_> = exchange.due();
        assert_eq!(due, [], "nobody leaves it");
    }
}

#[test]
fn exchange_answer_told_again_does_not_hide_what_happened_since() {
    let mut exchange = Exchange::default();
    let state = exchange.begin(&name("job"));
    let (sent, _answer) = exchange.request(join("job"));
    // Joined, moved and granted while detached; then the old answer is told again.
    exchange.opened(&opened(vec![candidacy("job", 8, true)]), 100);
    exchange.hears(answer(sent, vec![candidacy("job", 5, false)]));
    assert_eq!((state.borrow().token, state.borrow().held), (Some(8), true));

    let mut exchange = Exchange::default();
    let state = exchange.begin(&name("job"));
    let (sent, _answer) = exchange.request(join("job"));
    // Joined and evicted while detached.
    exchange.opened(&opened(vec![]), 100);
    exchange.hears(answer(sent, vec![candidacy("job", 5, false)]));
    assert_eq!(state.borrow().gone, Some(Loss::KeyDeleted));

    let mut exchange = Exchange::default();
    let state = exchange.begin(&name("job"));
    let (sent, _answer) = exchange.request(join("job"));
    // Not joined before the stream broke, but after it was opened again.
    exchange.opened(&opened(vec![]), 100);
    exchange.hears(answer(sent, vec![candidacy("job", 101, false)]));
    assert_eq!(state.borrow().gone, None);
}

#[test]
fn exchange_has_no_more_under_way_than_the_server_remembers() {
    let mut exchange = Exchange::default();
    let _answers: Vec<_> =
        (0..100).map(|_| exchange.request(leave_election("a", 0, true))).collect();
    let numbers = |due: Vec<pb::SessionRequest>| {
        due.iter().map(|request| request.request_id).collect::<Vec<_>>()
    };
    assert_eq!(numbers(exchange.due()), (1..=32).collect::<Vec<_>>());
    assert_eq!(exchange.due(), []);
    exchange.hears(answer(2, vec![]));
    assert_eq!(exchange.due(), [], "the first one is not answered");
    exchange.hears(answer(1, vec![]));
    assert_eq!(numbers(exchange.due()), [33, 34]);
    exchange.opened(&opened(vec![]), 100);
    assert_eq!(numbers(exchange.due()), (3..=34).collect::<Vec<_>>());
}

#[test]
fn exchange_keeps_the_answer_to_an_abandoned_join_from_the_next() {
    let mut exchange = Exchange::default();
    let _old = exchange.begin(&name("job"));
    let (given_up, _answer) = exchange.request(join("job"));
    let _leave = exchange.request(leave_election("job", 0, false));
    let state = exchange.begin(&name("job"));
    let (sent, _answer) = exchange.request(join("job"));
    exchange.hears(answer(given_up, vec![candidacy("job", 5, false)]));
    let reason = pb::EndReason::Resigned as i32;
    exchange.hears(SessionReply::Lost(pb::Lost { name: "job".into(), token: 5, reason }));
    exchange.hears(answer(sent, vec![candidacy("job", 9, true)]));
    assert_eq!((state.borrow().token, state.borrow().held), (Some(9), true));
    assert_eq!(state.borrow().gone, None);
}

#[test]
fn exchange_join_answered_again_after_its_eviction_does_not_wait_for_ever() {
    let mut exchange = Exchange::default();
    let state = exchange.begin(&name("job"));
    let (sent, _answer) = exchange.request(join("job"));
    exchange.hears(answer(sent, vec![]));
    assert_eq!(state.borrow().gone, Some(Loss::KeyDeleted));
}
