use std::fs;

use tenure_api::{Principal, Put, Term, op::PutLease};
use tenure_replica::{
    EntryContext, Snapshot, SnapshotMark, State, command::Command, state::ApplyEffects,
};
use tokio::io::AsyncReadExt;

use super::*;
use crate::disk::{Files, SnapshotWriter, snapshot};

fn mark() -> SnapshotMark {
    SnapshotMark { index: 9, term: Term(2), voters: vec![ONE, TWO], ..SnapshotMark::default() }
}

fn message(from: MemberId, to: MemberId) -> RaftMessage {
    RaftMessage { snapshot: Some(mark()), ..raft_message(from, to) }
}

/// More than one piece of it.
fn snapshot() -> Snapshot {
    let mut state = State::new([]);
    for index in 1..=10 {
        let (key, value) = (format!("key{index}").into(), Some(vec![index as u8; 100_000].into()));
        let put = Command::Put(Put { key, value, lease: PutLease::Set(None), prev_kv: false });
        let at = EntryContext { index, term: Term(1), ms: 0 };
        state.apply(at, &Principal::System, &put, &mut ApplyEffects::default()).unwrap();
    }
    Snapshot { mark: mark(), state }
}

/// As the file has them.
fn bytes() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = SnapshotWriter::create(folder.path(), mark()).unwrap();
    for chunk in snapshot().chunks() {
        writer.chunk(&chunk).unwrap();
    }
    fs::read(writer.finish().unwrap().path).unwrap()
}

fn files(side: &Side) -> usize {
    fs::read_dir(side.snapshots.path()).unwrap().count()
}

#[tokio::test]
async fn a_snapshot_arrives_as_it_was() {
    let (mut one, mut two, _) = pair().await;
    one.transport.send_snapshot(message(ONE, TWO), snapshot());
    let PeerEvent::SnapshotReceived { from: ONE, message: heard, state, file } = two.event().await
    else {
        panic!("something else happened");
    };
    assert_eq!(heard, message(ONE, TWO));
    assert_eq!(state.digest(), snapshot().state.digest());
    assert!(matches!(one.event().await, PeerEvent::SnapshotSent { to: TWO, ok: true }));
    assert_eq!((files(&one), files(&two)), (0, 1));
    // Raft has not taken it over: no start would take it for a snapshot.
    assert!(snapshot::newest_snapshot(&Files, two.snapshots.path()).unwrap().is_none());
    assert_eq!(file.mark(), &mark());
    let arrived = fs::read_dir(two.snapshots.path()).unwrap().next().unwrap().unwrap();
    assert_eq!(fs::read(arrived.path()).unwrap(), bytes());
    drop(file);
    assert_eq!(files(&two), 0, "it was not taken");
}

#[tokio::test]
async fn a_snapshot_to_nowhere_is_told() {
    let (mut one, _) = alone().await;
    one.transport.send_snapshot(message(ONE, TWO), snapshot());
    assert!(matches!(one.event().await, PeerEvent::SnapshotSent { to: TWO, ok: false }));
    one.transport.send_snapshot(message(ONE, MemberId(9)), snapshot());
    assert!(matches!(one.event().await, PeerEvent::SnapshotSent { ok: false, .. }));
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) {
    let head = message(TWO, ONE).to_bytes();
    write_frame(stream, FrameKind::SnapshotHead, &head).await.unwrap();
    for piece in bytes.chunks(100_000) {
        // A receiver that has seen enough hangs up.
        let _ = write_frame(stream, FrameKind::SnapshotPiece, piece).await;
    }
    let _ = write_frame(stream, FrameKind::SnapshotEnd, &[]).await;
}

#[tokio::test]
async fn a_damaged_or_shortened_snapshot_is_not_accepted() {
    let sound = bytes();
    let damaged = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        bytes
    };
    let middle = sound.len() / 2;
    let shortened = [sound[..middle].to_vec(), sound[..sound.len() - 1].to_vec()];
    let longer = [sound.clone(), vec![0]].concat();
    let (one, at) = alone().await;
    for bytes in [damaged(40), damaged(middle), longer].into_iter().chain(shortened) {
        let mut stream = accepted(at).await;
        send(&mut stream, &bytes).await;
        assert!(timeout(LIMIT, stream.read_u8()).await.unwrap().is_err(), "it was taken");
        assert_eq!(files(&one), 0);
    }
}

/// The previous connection may not have ended yet.
async fn accepted(at: SocketAddr) -> TcpStream {
    loop {
        match call(at, &hello(Purpose::Snapshot)).await {
            (stream, Ok(_)) => return stream,
            (_, Err(refusal)) => assert_eq!(refusal, Refusal::Busy),
        }
    }
}

#[tokio::test]
async fn a_broken_transfer_leaves_no_file_and_the_next_one_works() {
    let (mut one, at) = alone().await;
    let (mut stream, _) = call(at, &hello(Purpose::Snapshot)).await;
    let head = message(TWO, ONE).to_bytes();
    write_frame(&mut stream, FrameKind::SnapshotHead, &head).await.unwrap();
    write_frame(&mut stream, FrameKind::SnapshotPiece, b"half of").await.unwrap();
    assert_eq!(call(at, &hello(Purpose::Snapshot)).await.1, Err(Refusal::Busy));
    drop(stream);

    let mut stream = accepted(at).await;
    assert_eq!(files(&one), 0);
    send(&mut stream, &bytes()).await;
    let event = one.event().await;
    assert!(matches!(event, PeerEvent::SnapshotReceived { from: TWO, .. }), "{event:?}");
    assert!(timeout(LIMIT, stream.read_u8()).await.unwrap().is_ok());
    assert_eq!(files(&one), 1);
    drop(event);
    assert_eq!(files(&one), 0);
}

#[tokio::test]
async fn a_snapshot_of_another_mark_than_promised_is_refused() {
    let (mut one, two, _) = pair().await;
    let mut other = message(ONE, TWO);
    other.snapshot = Some(SnapshotMark { index: 10, ..mark() });
    one.transport.send_snapshot(other, snapshot());
    assert!(matches!(one.event().await, PeerEvent::SnapshotSent { to: TWO, ok: false }));
    assert_eq!(files(&two), 0);
}
