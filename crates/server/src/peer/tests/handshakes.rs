use tenure_replica::command::Batch;
use tokio::io::AsyncReadExt;

use super::{calls::answer_with, *};

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
async fn an_earlier_life_is_refused_after_a_later_one_has_answered() {
    let (one_listener, at) = listener().await;
    let (two_listener, two_at) = listener().await;
    let mut one = Side::start(ONE, one_listener, 1, (TWO, two_at));
    let later = Hello { boot: 2, ..hello(Purpose::Messages) };
    let _outgoing = answer_with(&two_listener, &later).await;
    one.connected(TWO).await;
    assert_eq!(call(at, &hello(Purpose::Messages)).await.1, Err(Refusal::Outlived(2)));
}

/// A caller can claim any life. The largest one used to shut the member itself out until this one was restarted.
#[tokio::test]
async fn a_claimed_life_does_not_lock_the_member_out() {
    let (mut one, at) = alone().await;
    let claimed = Hello { boot: u64::MAX, ..hello(Purpose::Messages) };
    let (_stranger, answer) = call(at, &claimed).await;
    assert!(answer.is_ok());
    let (mut stream, answer) = call(at, &hello(Purpose::Messages)).await;
    assert!(answer.is_ok(), "{answer:?}");
    say(&mut stream, "it is me").await;
    one.hears("it is me").await;
}

/// A batch of a life that never was would make every batch of the member itself too old.
#[tokio::test]
async fn a_batch_of_a_life_that_has_not_answered_is_not_taken() {
    let (one_listener, at) = listener().await;
    let (two_listener, two_at) = listener().await;
    let mut one = Side::start(ONE, one_listener, 1, (TWO, two_at));
    let _outgoing = answer_with(&two_listener, &hello(Purpose::Messages)).await;
    one.connected(TWO).await;
    let batch = |boot| {
        let batch = Batch { origin: TWO, boot, sequence: 1, commands: vec![] };
        Message::Forward(batch.to_bytes().into()).to_bytes()
    };
    let (mut stream, _) = call(at, &hello(Purpose::Messages)).await;
    write_frame(&mut stream, FrameKind::Message, &batch(1)).await.unwrap();
    assert!(matches!(one.event().await, PeerEvent::Message { message: Message::Forward(_), .. }));
    write_frame(&mut stream, FrameKind::Message, &batch(u64::MAX)).await.unwrap();
    assert!(timeout(LIMIT, stream.read_u8()).await.unwrap().is_err(), "it goes on");
    one.lost(TWO).await;
}

/// The refusal used to say which directory it should be.
#[tokio::test]
async fn a_refusal_does_not_tell_what_a_caller_must_know() {
    let (one, at) = alone().await;
    one.transport.know(directories(TWO, 0x7777_7777));
    let mut stream = TcpStream::connect(at).await.unwrap();
    let hello = hello(Purpose::Messages).to_bytes();
    write_frame(&mut stream, FrameKind::Hello, &hello).await.unwrap();
    let mut answer = Vec::new();
    timeout(LIMIT, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let mut told = Vec::new();
    Refusal::ReplacedDirectory.encode(&mut told);
    assert_eq!(told, [5, 0]);
    assert!(answer.ends_with(&told), "{answer:?}");
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
    let roster = ask(&at.to_string(), &PeerSecurity::default()).await.unwrap();
    let expected = Roster { cluster_id: CLUSTER, cluster_version: 2, members: vec![member] };
    assert_eq!(roster, expected);
}

/// Three was added while one was away: one refuses it at first, and then asks the member that it knows.
#[tokio::test]
async fn a_member_that_is_not_known_yet_is_asked_for_at_one_that_is() {
    let (one_listener, at) = listener().await;
    let (two_listener, two_at) = listener().await;
    let (three_listener, three_at) = listener().await;
    let mut one = Side::start(ONE, one_listener, 1, (TWO, two_at));
    let two = Side::start(TWO, two_listener, 1, (ONE, at));
    let member = member(MemberId(3), three_at);
    two.transport.know(Known { members: vec![member.clone()], ..Known::default() });
    let mut three = Side::start(MemberId(3), three_listener, 1, (ONE, at));
    three.transport.know(Known { members: vec![member.clone()], ..Known::default() });
    let heard = loop {
        match one.event().await {
            PeerEvent::Heard(members) => break members,
            PeerEvent::Connected { member: TWO, .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(heard, [member]);
    let peers = vec![(TWO, two_at.to_string()), (MemberId(3), three_at.to_string())];
    one.transport.set_peers(peers, [MemberId(3)].into());
    three.connected(ONE).await;
}

/// Three frames used to end a member for ever: this one, and then the answer at an address of the stranger's choice.
#[tokio::test]
async fn a_stranger_neither_makes_itself_heard_of_nor_removes() {
    let (mut one, at) = alone().await;
    let (trap, trap_at) = listener().await;
    let members = vec![member(MemberId(3), trap_at)];
    let roster = Roster { cluster_id: CLUSTER, cluster_version: 5, members };
    let mut stream = TcpStream::connect(at).await.unwrap();
    write_frame(&mut stream, FrameKind::Roster, &roster.to_bytes()).await.unwrap();
    assert_eq!(timeout(LIMIT, stream.read(&mut [0])).await.unwrap().unwrap(), 0);
    // What a member off the list says at its address does not end this one, though it is called.
    one.transport.set_peers(vec![(MemberId(3), trap_at.to_string())], [MemberId(3)].into());
    for refusal in [Refusal::Removed(ONE), Refusal::ReplacedDirectory, Refusal::Busy] {
        let (mut called, _) = timeout(LIMIT, trap.accept()).await.unwrap().unwrap();
        super::super::handshake::listen(&mut called, &mut BytesMut::new()).await.unwrap();
        write_frame(&mut called, FrameKind::Refusal, &refusal.to_bytes()).await.unwrap();
    }
    let told = std::iter::from_fn(|| one.events.try_recv().ok()).collect::<Vec<_>>();
    assert!(told.is_empty(), "{told:?}");
}

fn member(id: MemberId, at: SocketAddr) -> tenure_api::Member {
    tenure_api::Member {
        id,
        name: "three".into(),
        peer_urls: vec![format!("http://{at}")],
        client_urls: vec![],
        is_learner: false,
    }
}
