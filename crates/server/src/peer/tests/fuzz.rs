//! What a stranger on the peer port can say.

use bytes::BytesMut;
use proptest::{collection::vec, prelude::*};
use tenure_api::Member;
use tenure_damage::{damaged, frugally, hold};
use tenure_replica::RaftMessage;

use super::*;
use crate::peer::{
    frame::{FRAME_HEADER_BYTES, put_frame, take_frame},
    handshake::Ask,
    roster::Roster,
};

const KINDS: [FrameKind; 9] = [
    FrameKind::Hello,
    FrameKind::Refusal,
    FrameKind::Message,
    FrameKind::SnapshotHead,
    FrameKind::SnapshotPiece,
    FrameKind::SnapshotEnd,
    FrameKind::SnapshotStored,
    FrameKind::Ask,
    FrameKind::Roster,
];

fn hello() -> impl Strategy<Value = Vec<u8>> {
    let purposes = prop_oneof![Just(Purpose::Messages), Just(Purpose::Snapshot)];
    let protocols = prop_oneof![8 => Just(PROTOCOL_VERSION), 1 => any::<u32>()];
    (purposes, protocols, any::<[u64; 5]>(), any::<u32>()).prop_map(
        |(purpose, protocol, [cluster, from, to, boot, directory], command_version)| {
            Hello {
                protocol,
                purpose,
                cluster_id: ClusterId(cluster),
                from: MemberId(from),
                to: MemberId(to),
                boot,
                directory,
                command_version,
            }
            .to_bytes()
        },
    )
}

fn roster() -> impl Strategy<Value = Vec<u8>> {
    let texts = || vec(".{0,12}", 0..3);
    let member = (any::<u64>(), ".{0,5}", texts(), texts(), any::<bool>()).prop_map(
        |(id, name, peer_urls, client_urls, is_learner)| Member {
            id: MemberId(id),
            name,
            peer_urls,
            client_urls,
            is_learner,
        },
    );
    (any::<u64>(), any::<u32>(), vec(member, 0..4)).prop_map(
        |(cluster, cluster_version, members)| {
            Roster { cluster_id: ClusterId(cluster), cluster_version, members }.to_bytes()
        },
    )
}

fn refusal() -> impl Strategy<Value = Vec<u8>> {
    (1..=9u8, any::<u64>()).prop_map(|(tag, detail)| {
        let mut out = vec![tag];
        tenure_replica::codec::put_u64(&mut out, detail);
        out
    })
}

/// Reads a payload as a frame of its kind would be read; and what can be read, comes back.
fn read(kind: FrameKind, payload: &[u8]) -> Result<(), TestCaseError> {
    fn comes_back<T: Codec + PartialEq + std::fmt::Debug>(
        bytes: &[u8],
    ) -> Result<(), TestCaseError> {
        let Ok(value) = T::from_bytes(bytes) else { return Ok(()) };
        let again = T::from_bytes(&value.to_bytes());
        prop_assert_eq!(again.as_ref(), Ok(&value));
        Ok(())
    }
    match kind {
        FrameKind::Hello => comes_back::<Hello>(payload),
        FrameKind::Refusal => comes_back::<Refusal>(payload),
        FrameKind::Message => comes_back::<Message>(payload),
        FrameKind::SnapshotHead => comes_back::<RaftMessage>(payload),
        FrameKind::Ask => comes_back::<Ask>(payload),
        FrameKind::Roster => comes_back::<Roster>(payload),
        FrameKind::SnapshotPiece | FrameKind::SnapshotEnd | FrameKind::SnapshotStored => Ok(()),
        FrameKind::Challenge | FrameKind::Proof => Ok(()),
    }
}

/// The frame's own checksum is right: its content has to be judged.
#[test]
fn frames_that_are_sealed_and_wrong() {
    let payload = damaged(prop_oneof![hello(), roster(), refusal()]);
    hold(1000, (prop::sample::select(&KINDS[..]), payload), |(kind, payload)| {
        let mut frame = Vec::new();
        put_frame(&mut frame, kind, |out| out.extend_from_slice(&payload)).unwrap();
        let mut buffer = BytesMut::from(&frame[..]);
        let taken = frugally(frame.len(), || {
            take_frame(&mut buffer, 1 << 20, |kind, payload| Ok(read(kind, payload)))
        });
        taken.unwrap().expect("the frame is whole")?;
        prop_assert!(buffer.is_empty());
        Ok(())
    });
}

/// Frames as they come from a socket, in pieces, after anything has happened to them.
#[test]
fn streams_of_frames() {
    let frames =
        vec((prop::sample::select(&KINDS[..]), vec(any::<u8>(), 0..40)), 1..5).prop_map(|all| {
            let mut out = Vec::new();
            for (kind, payload) in all {
                put_frame(&mut out, kind, |out| out.extend_from_slice(&payload)).unwrap();
            }
            out
        });
    hold(500, (damaged(frames), 1..50usize, 10..200usize), |(bytes, piece, max)| {
        frugally(bytes.len(), || {
            let mut buffer = BytesMut::new();
            for piece in bytes.chunks(piece) {
                buffer.extend_from_slice(piece);
                loop {
                    match take_frame(&mut buffer, max, |_, payload| Ok(payload.len())) {
                        Ok(Some(length)) => prop_assert!(length <= max),
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
                // What is not yet a frame can become one.
                prop_assert!(buffer.len() < FRAME_HEADER_BYTES + max);
            }
            Ok(())
        })
    });
}

/// A whole connection: whatever a stranger says, this side goes on listening.
#[tokio::test]
async fn a_stranger_is_heard_out_and_the_next_is_served() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let _side = Side::start(ONE, listener, 1, (TWO, nobody));
    for (kind, payload) in [
        (FrameKind::Hello, &b"tenure-peer"[..]),
        (FrameKind::Roster, &[0xff; 600]),
        (FrameKind::Ask, b"tenure-peer\xff\xff\xff\xff and more"),
        (FrameKind::Message, b""),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        write_frame(&mut stream, kind, payload).await.unwrap();
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    let ask = Ask { protocol: PROTOCOL_VERSION };
    write_frame(&mut stream, FrameKind::Ask, &ask.to_bytes()).await.unwrap();
    let mut buffer = BytesMut::new();
    let answer = read_frame(&mut stream, &mut buffer, 1 << 20, |kind, _| Ok(kind));
    let answer = timeout(LIMIT, answer).await.unwrap().unwrap();
    assert!(matches!(answer, FrameKind::Roster | FrameKind::Refusal), "{answer:?}");
}
