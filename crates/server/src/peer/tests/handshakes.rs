use super::*;

#[tokio::test]
async fn strangers_are_told_why_they_are_refused() {
    let (_one, at) = alone().await;
    let right = hello(Purpose::Messages);
    for (wrong, refusal) in [
        (Hello { cluster_id: ClusterId(5), ..right.clone() }, Refusal::OtherCluster(CLUSTER)),
        (Hello { to: MemberId(3), ..right.clone() }, Refusal::OtherMember(ONE)),
        (Hello { from: MemberId(3), ..right.clone() }, Refusal::UnknownMember(MemberId(3))),
        (Hello { protocol: 9, ..right.clone() }, Refusal::Protocol(PROTOCOL_VERSION)),
    ] {
        assert_eq!(call(at, &wrong).await.1, Err(refusal));
    }
    let (_stream, answer) = call(at, &right).await;
    assert_eq!(answer.unwrap().directory, 100);
}

#[tokio::test]
async fn an_earlier_life_is_refused_after_a_later_one() {
    let (_one, at) = alone().await;
    let later = Hello { boot: 2, ..hello(Purpose::Messages) };
    let (_stream, answer) = call(at, &later).await;
    assert!(answer.is_ok());
    assert_eq!(call(at, &hello(Purpose::Messages)).await.1, Err(Refusal::Outlived(2)));
}

#[tokio::test]
async fn a_member_with_a_new_directory_learns_that_it_is_disowned() {
    let (one_listener, one_at) = listener().await;
    let (two_listener, two_at) = listener().await;
    let one = Side::start(ONE, one_listener, 1, (TWO, two_at));
    one.transport.know(&directories(TWO, 4711));
    let mut two = Side::start(TWO, two_listener, 1, (ONE, one_at));
    let event = two.event().await;
    assert!(matches!(event, PeerEvent::Disowned { by: ONE }), "{event:?}");
}

#[tokio::test]
async fn a_connection_ends_when_its_directory_turns_out_to_be_another() {
    let (one, mut two, _) = pair().await;
    one.transport.know(&directories(TWO, 200));
    assert!(two.transport.send(ONE, &text("welcome")));
    one.transport.know(&directories(TWO, 4711));
    loop {
        match two.event().await {
            PeerEvent::Disowned { by: ONE } => break,
            PeerEvent::Lost(ONE) => {}
            other => panic!("{other:?}"),
        }
    }
}
