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
    one.transport.know(directories(TWO, 4711));
    let mut two = Side::start(TWO, two_listener, 1, (ONE, one_at));
    let event = two.event().await;
    assert!(matches!(event, PeerEvent::Disowned { by: ONE }), "{event:?}");
}

#[tokio::test]
async fn a_connection_ends_when_its_directory_turns_out_to_be_another() {
    let (one, mut two, _) = pair().await;
    one.transport.know(directories(TWO, 200));
    assert!(two.transport.send(ONE, &text("welcome")));
    one.transport.know(directories(TWO, 4711));
    loop {
        match two.event().await {
            PeerEvent::Disowned { by: ONE } => break,
            PeerEvent::Lost(ONE) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_member_that_was_removed_is_told() {
    let (one_listener, one_at) = listener().await;
    let (two_listener, two_at) = listener().await;
    let one = Side::start(ONE, one_listener, 1, (TWO, two_at));
    one.transport.know(Known { removed: [TWO].into(), ..Known::default() });
    let mut two = Side::start(TWO, two_listener, 1, (ONE, one_at));
    let event = two.event().await;
    assert!(matches!(event, PeerEvent::Removed { by: ONE }), "{event:?}");
}

#[tokio::test]
async fn a_release_that_is_too_old_for_the_cluster_is_refused() {
    let (one, at) = alone().await;
    one.transport.know(Known { cluster_version: 6, ..Known::default() });
    assert_eq!(call(at, &hello(Purpose::Messages)).await.1, Err(Refusal::TooOld(6)));
}

#[tokio::test]
async fn whoever_asks_is_told_the_members() {
    let (one, at) = alone().await;
    let member = tenure_api::Member {
        id: TWO,
        name: "two".into(),
        peer_urls: vec!["http://two:2380".into()],
        client_urls: vec![],
        is_learner: true,
    };
    let known = Known { members: vec![member.clone()], cluster_version: 2, ..Known::default() };
    one.transport.know(known);
    let roster = ask(&at.to_string()).await.unwrap();
    let expected = Roster { cluster_id: CLUSTER, cluster_version: 2, members: vec![member] };
    assert_eq!(roster, expected);
}

/// Two was added while one was away: one refuses it at first, and is then told of it.
#[tokio::test]
async fn a_member_that_is_not_known_yet_tells_who_it_is() {
    let (mut one, at) = alone().await;
    let (three_listener, three_at) = listener().await;
    let mut three = Side::start(MemberId(3), three_listener, 1, (ONE, at));
    let member = tenure_api::Member {
        id: MemberId(3),
        name: "three".into(),
        peer_urls: vec![format!("http://{three_at}")],
        client_urls: vec![],
        is_learner: false,
    };
    three.transport.know(Known { members: vec![member.clone()], ..Known::default() });
    let heard = loop {
        match one.event().await {
            PeerEvent::Heard(members) if members.is_empty() => {}
            PeerEvent::Heard(members) => break members,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(heard, [member]);
    one.transport.set_peers(vec![(MemberId(3), three_at.to_string())]);
    three.connected(ONE).await;
}
