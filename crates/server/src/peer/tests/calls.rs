use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[tokio::test]
async fn messages_arrive_in_order_both_ways() {
    let (mut one, mut two, _) = pair().await;
    for number in 0..10_000 {
        assert!(one.transport.send(TWO, &text(&format!("to two {number}"))));
        assert!(two.transport.send(ONE, &text(&format!("to one {number}"))));
    }
    for number in 0..10_000 {
        two.hears(&format!("to two {number}")).await;
        one.hears(&format!("to one {number}")).await;
    }
}

#[tokio::test]
async fn a_large_message_arrives_and_one_too_large_is_dropped() {
    let (one, mut two, _) = pair().await;
    let large = "x".repeat(20 << 20);
    assert!(one.transport.send(TWO, &text(&large)));
    two.hears(&large).await;
    assert!(!one.transport.send(TWO, &text(&"x".repeat(FRAME_BYTES_MAX))));
    assert_eq!(one.transport.dropped(TWO), 1);
    assert!(one.transport.send(TWO, &text("small")));
    two.hears("small").await;
}

#[tokio::test]
async fn a_stopped_member_is_lost_once_and_found_again() {
    let (mut one, two, two_at) = pair().await;
    assert!(two.transport.send(ONE, &text("last words")));
    // The words must be on the wire before the member goes.
    one.hears("last words").await;
    drop(two);
    one.lost(TWO).await;
    let again = TcpListener::bind(two_at).await.unwrap();
    let one_at = SocketAddr::from(([127, 0, 0, 1], 1));
    let _two = Side::start(TWO, again, 2, (ONE, one_at));
    // Not lost a second time, though both directions had ended, and refused calls were no loss.
    one.connected(TWO).await;
}

#[tokio::test]
async fn what_was_said_comes_before_the_loss() {
    let (mut one, at) = alone().await;
    let (mut stream, answer) = call(at, &hello(Purpose::Messages)).await;
    assert_eq!(answer.unwrap().from, ONE);
    for _ in 0..1000 {
        say(&mut stream, "words").await;
    }
    drop(stream);
    for _ in 0..1000 {
        one.hears("words").await;
    }
    one.lost(TWO).await;
}

#[tokio::test]
async fn the_end_of_a_replaced_connection_is_no_loss() {
    let (mut one, at) = alone().await;
    let (mut old, _) = call(at, &hello(Purpose::Messages)).await;
    let (mut new, _) = call(at, &hello(Purpose::Messages)).await;
    // The old one is closed by the other side.
    assert!(timeout(LIMIT, old.read_u8()).await.unwrap().is_err());
    drop(old);
    say(&mut new, "still here").await;
    one.hears("still here").await;
    drop(new);
    one.lost(TWO).await;
}

#[tokio::test]
async fn a_dead_outgoing_connection_is_a_loss_if_there_is_no_other() {
    let (one_listener, _) = listener().await;
    let (two_listener, two_at) = listener().await;
    let mut one = Side::start(ONE, one_listener, 1, (TWO, two_at));
    let stream = answer_by_hand(&two_listener).await;
    one.connected(TWO).await;
    drop((stream, two_listener));
    one.lost(TWO).await;
}

/// A reset of one direction ends the incoming connection of a member that lives. Membership changes need
/// every voter to be there, so its next call must bring it back: its own connection never broke.
#[tokio::test]
async fn presence_returns_when_only_the_incoming_connection_broke() {
    let (one_listener, one_at) = listener().await;
    let (two_listener, two_at) = listener().await;
    let mut one = Side::start(ONE, one_listener, 1, (TWO, two_at));
    let mut outgoing = answer_by_hand(&two_listener).await;
    one.connected(TWO).await;
    let (incoming, _) = call(one_at, &hello(Purpose::Messages)).await;
    drop(incoming);
    one.lost(TWO).await;
    let (mut incoming, _) = call(one_at, &hello(Purpose::Messages)).await;
    say(&mut incoming, "again").await;
    one.connected(TWO).await;
    one.hears("again").await;
    // A call that takes the place of another one says nothing new.
    let (mut newer, _) = call(one_at, &hello(Purpose::Messages)).await;
    assert!(timeout(LIMIT, incoming.read_u8()).await.unwrap().is_err());
    say(&mut newer, "newer").await;
    one.hears("newer").await;
    drop(newer);
    one.lost(TWO).await;
    let (_incoming, _) = call(one_at, &hello(Purpose::Messages)).await;
    one.connected(TWO).await;
    // All that time messages went out on the one connection that stood.
    assert!(one.transport.send(TWO, &text("still ours")));
    assert!(timeout(LIMIT, outgoing.read_u8()).await.unwrap().is_ok());
}

/// A call of the next life comes before the end of the outgoing connection to the last one is seen: nothing
/// that is sent now arrives, so the member is there only when it has answered.
#[tokio::test]
async fn presence_waits_for_an_answer_of_the_life_that_called() {
    let (one_listener, one_at) = listener().await;
    let (two_listener, two_at) = listener().await;
    let mut one = Side::start(ONE, one_listener, 1, (TWO, two_at));
    let old_outgoing = answer_by_hand(&two_listener).await;
    one.connected(TWO).await;
    let (old_incoming, _) = call(one_at, &hello(Purpose::Messages)).await;
    drop(old_incoming);
    one.lost(TWO).await;
    let next_life = Hello { boot: 2, ..hello(Purpose::Messages) };
    let (mut incoming, _) = call(one_at, &next_life).await;
    say(&mut incoming, "alive").await;
    one.hears("alive").await;
    drop(old_outgoing);
    let _outgoing = answer_with(&two_listener, &next_life).await;
    one.connected(TWO).await;
}

#[tokio::test]
async fn a_queue_that_nobody_empties_does_not_grow_for_ever() {
    let (one_listener, _) = listener().await;
    let (two_listener, two_at) = listener().await;
    let mut one = Side::start(ONE, one_listener, 1, (TWO, two_at));
    let _never_read = answer_by_hand(&two_listener).await;
    one.connected(TWO).await;
    let megabyte = text(&"x".repeat(1 << 20));
    let mut queued = 0;
    while one.transport.send(TWO, &megabyte) {
        queued += 1;
        tokio::task::yield_now().await;
        assert!(queued < 1000);
    }
    assert!(queued >= 64);
    assert_eq!(one.transport.dropped(TWO), 1);
}

#[tokio::test]
async fn nothing_is_queued_for_a_member_that_is_not_there() {
    let (one, _) = alone().await;
    assert!(!one.transport.send(TWO, &text("anybody?")));
    assert!(!one.transport.send(MemberId(9), &text("anybody?")));
    assert_eq!(one.transport.dropped(TWO), 1);
}

#[tokio::test]
async fn garbage_and_claims_of_giant_frames_close_the_connection_and_nothing_else() {
    let (mut one, at) = alone().await;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 5000], &[0; 64]] {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        assert!(timeout(LIMIT, stream.read_u8()).await.unwrap().is_err());
    }
    let giant = [&u32::MAX.to_le_bytes()[..], &[0, 0, 0, 0, 3]].concat();
    let flipped = [&1u32.to_le_bytes()[..], &[1, 2, 3, 4, 3, 9]].concat();
    for nonsense in [giant, flipped] {
        let (mut stream, _) = call(at, &hello(Purpose::Messages)).await;
        say(&mut stream, "sense").await;
        stream.write_all(&nonsense).await.unwrap();
        one.hears("sense").await;
        assert!(timeout(LIMIT, stream.read_u8()).await.unwrap().is_err());
        one.lost(TWO).await;
    }
    let (mut stream, _) = call(at, &hello(Purpose::Messages)).await;
    say(&mut stream, "alive").await;
    one.hears("alive").await;
}

#[tokio::test]
async fn a_removed_member_is_heard_no_more() {
    let (one, at) = alone().await;
    let (mut stream, _) = call(at, &hello(Purpose::Messages)).await;
    one.transport.set_peers(Vec::new(), BTreeSet::new());
    assert!(timeout(LIMIT, stream.read_u8()).await.unwrap().is_err());
    let (_, answer) = call(at, &hello(Purpose::Messages)).await;
    assert_eq!(answer, Err(Refusal::UnknownMember(TWO)));
}

/// Takes one call as member 2.
async fn answer_by_hand(listener: &TcpListener) -> TcpStream {
    answer_with(listener, &hello(Purpose::Messages)).await
}

pub(super) async fn answer_with(listener: &TcpListener, hello: &Hello) -> TcpStream {
    let (mut stream, _) = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
    super::super::handshake::listen(&mut stream, &mut BytesMut::new()).await.unwrap();
    write_frame(&mut stream, FrameKind::Hello, &hello.to_bytes()).await.unwrap();
    stream
}
