use std::{fs, path::Path};

use tenure_api::Term;
use tenure_replica::{RaftKind, RaftMessage, SnapshotMark};
use tokio::io::AsyncReadExt;

use super::*;
use crate::disk::{SavedSnapshot, SnapshotReader, SnapshotWriter};

fn mark() -> SnapshotMark {
    SnapshotMark { index: 9, term: Term(2), voters: vec![ONE, TWO], ..SnapshotMark::default() }
}

fn message(from: MemberId, to: MemberId) -> RaftMessage {
    RaftMessage {
        kind: RaftKind::Snapshot,
        from,
        to,
        term: Term(3),
        log_term: Term(0),
        index: 0,
        commit: 0,
        commit_term: Term(0),
        reject: false,
        reject_hint: 0,
        request_snapshot: 0,
        priority: 0,
        entries: Vec::new(),
        context: Bytes::new(),
        snapshot: Some(mark()),
    }
}

fn save(folder: &Path) -> SavedSnapshot {
    let mut writer = SnapshotWriter::create(folder, mark()).unwrap();
    for chunk in 0..10 {
        writer.chunk(&vec![chunk; 300_000]).unwrap();
    }
    writer.finish().unwrap()
}

fn files(side: &Side) -> usize {
    fs::read_dir(side.snapshots.path()).unwrap().count()
}

#[tokio::test]
async fn a_snapshot_arrives_as_it_was() {
    let (mut one, mut two, _) = pair().await;
    let saved = save(one.snapshots.path());
    one.transport.send_snapshot(TWO, message(ONE, TWO), saved.path.clone());
    let PeerEvent::SnapshotReceived { from: ONE, message: heard, path } = two.event().await else {
        panic!("something else happened");
    };
    assert_eq!(heard, message(ONE, TWO));
    assert_eq!(fs::read(&path).unwrap(), fs::read(&saved.path).unwrap());
    assert_eq!(SnapshotReader::open(&path).unwrap().verify().unwrap(), mark());
    assert_eq!(path.file_name(), saved.path.file_name());
    assert!(matches!(one.event().await, PeerEvent::SnapshotSent { to: TWO, ok: true }));
    assert_eq!(files(&two), 1);
}

#[tokio::test]
async fn a_damaged_snapshot_is_not_accepted() {
    let (mut one, two, _) = pair().await;
    let saved = save(one.snapshots.path());
    let mut bytes = fs::read(&saved.path).unwrap();
    bytes[1_000_000] ^= 1;
    fs::write(&saved.path, bytes).unwrap();
    one.transport.send_snapshot(TWO, message(ONE, TWO), saved.path);
    assert!(matches!(one.event().await, PeerEvent::SnapshotSent { to: TWO, ok: false }));
    assert_eq!(files(&two), 0);
}

#[tokio::test]
async fn a_snapshot_to_nowhere_is_told() {
    let (mut one, _) = alone().await;
    let saved = save(one.snapshots.path());
    one.transport.send_snapshot(TWO, message(ONE, TWO), saved.path.clone());
    assert!(matches!(one.event().await, PeerEvent::SnapshotSent { to: TWO, ok: false }));
    one.transport.send_snapshot(MemberId(9), message(ONE, TWO), saved.path);
    assert!(matches!(one.event().await, PeerEvent::SnapshotSent { ok: false, .. }));
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

    let outside = tempfile::tempdir().unwrap();
    let bytes = fs::read(save(outside.path()).path).unwrap();
    let mut stream = loop {
        // The other side needs a moment to see the end of the first one.
        match call(at, &hello(Purpose::Snapshot)).await {
            (stream, Ok(_)) => break stream,
            (_, Err(refusal)) => assert_eq!(refusal, Refusal::Busy),
        }
    };
    assert_eq!(files(&one), 0);
    write_frame(&mut stream, FrameKind::SnapshotHead, &head).await.unwrap();
    for piece in bytes.chunks(100_000) {
        write_frame(&mut stream, FrameKind::SnapshotPiece, piece).await.unwrap();
    }
    write_frame(&mut stream, FrameKind::SnapshotEnd, &[]).await.unwrap();
    let event = one.event().await;
    assert!(matches!(event, PeerEvent::SnapshotReceived { from: TWO, .. }), "{event:?}");
    assert!(timeout(LIMIT, stream.read_u8()).await.unwrap().is_ok());
    assert_eq!(files(&one), 1);
}

#[tokio::test]
async fn a_snapshot_of_another_mark_than_promised_is_refused() {
    let (mut one, two, _) = pair().await;
    let saved = save(one.snapshots.path());
    let mut other = message(ONE, TWO);
    other.snapshot = Some(SnapshotMark { index: 10, ..mark() });
    one.transport.send_snapshot(TWO, other, saved.path);
    assert!(matches!(one.event().await, PeerEvent::SnapshotSent { to: TWO, ok: false }));
    assert_eq!(files(&two), 0);
}
