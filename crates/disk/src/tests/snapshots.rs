use std::fs;

use proptest::prelude::*;

use super::*;
use crate::SnapshotFileReader;

#[test]
fn chunks_come_back_as_they_were() {
    let home = tempfile::tempdir().unwrap();
    let mut writer = SnapshotWriter::create(home.path(), mark(9, 2)).unwrap();
    let chunks = [b"one".to_vec(), Vec::new(), vec![3; 300_000]];
    for chunk in &chunks {
        writer.chunk(chunk).unwrap();
    }
    let saved = writer.finish().unwrap();
    let reader = SnapshotFileReader::open(&saved.path).unwrap();
    assert_eq!(*reader.mark(), mark(9, 2));
    assert_eq!(reader.map(Result::unwrap).collect::<Vec<_>>(), chunks);
}

#[test]
fn an_unfinished_snapshot_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut writer = SnapshotWriter::create(home.path(), mark(9, 2)).unwrap();
    writer.chunk(b"half").unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn the_newest_two_are_kept_and_leftovers_removed() {
    let home = tempfile::tempdir().unwrap();
    drop(open(home.path()));
    for index in [5, 30, 0x100] {
        save(home.path(), mark(index, 2));
    }
    fs::write(home.path().join("snap/incoming-3.tmp"), "half").unwrap();
    let (data, recovered) = open(home.path());
    assert_eq!(recovered.snapshot.unwrap().mark, mark(0x100, 2));
    assert_eq!(fs::read_dir(data.snapshots()).unwrap().count(), 2);
}

#[test]
fn a_damaged_newest_snapshot_is_refused_though_an_older_one_is_sound() {
    let home = tempfile::tempdir().unwrap();
    drop(open(home.path()));
    save(home.path(), mark(5, 2));
    let saved = save(home.path(), mark(6, 2));
    let mut bytes = fs::read(&saved.path).unwrap();
    let at = bytes.len() - 30;
    bytes[at] ^= 0x40;
    fs::write(&saved.path, bytes).unwrap();
    let error = try_open(home.path()).unwrap_err();
    assert!(matches!(error, DiskError::Corrupt { file, .. } if file == saved.path));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_flipped_bit_and_any_cut_is_noticed(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..5),
        at: prop::sample::Index,
        bit in 0..8u8,
    ) {
        let home = tempfile::tempdir().unwrap();
        let mut writer = SnapshotWriter::create(home.path(), mark(9, 2)).unwrap();
        for chunk in &chunks {
            writer.chunk(chunk).unwrap();
        }
        let path = writer.finish().unwrap().path;
        let sound = fs::read(&path).unwrap();
        let at = at.index(sound.len());

        let mut flipped = sound.clone();
        flipped[at] ^= 1 << bit;
        fs::write(&path, &flipped).unwrap();
        prop_assert!(SnapshotFileReader::open(&path).and_then(SnapshotFileReader::verify).is_err());

        fs::write(&path, &sound[..at]).unwrap();
        let error = SnapshotFileReader::open(&path).and_then(SnapshotFileReader::verify).unwrap_err();
        let is_located = matches!(error, DiskError::Corrupt { offset, .. } if offset <= at as u64);
        prop_assert!(is_located);

        fs::write(&path, [&sound[..], &[0]].concat()).unwrap();
        prop_assert!(SnapshotFileReader::open(&path).and_then(SnapshotFileReader::verify).is_err());
    }
}

/// A snapshot as the first release wrote it: one member, a lease, keys written, deleted and leased.
#[test]
fn a_snapshot_of_the_first_release_can_be_read() {
    let sample = include_bytes!("samples/release-1.snap");
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("release-1.snap");
    fs::write(&path, sample).unwrap();
    let (mark, state) = crate::snapshot::load(&path).unwrap();
    assert_eq!((mark.index, mark.voters.len(), mark.outgoing.len()), (8, 1, 0));
    assert_eq!(state.cluster_version, 1);
    assert_eq!(state.members.values().map(|member| &member.name[..]).collect::<Vec<_>>(), ["g"]);
    assert_eq!((state.store.len(), state.leases.len()), (2, 1));
    assert!(state.removed.is_empty() && state.departing.is_empty() && state.change.is_none());

    // While a member of that release may be there, nothing else is written.
    let snapshot = tenure_replica::Snapshot { mark, state };
    let mut writer = SnapshotWriter::create(home.path(), snapshot.mark.clone()).unwrap();
    for chunk in snapshot.chunks() {
        writer.chunk(&chunk).unwrap();
    }
    assert_eq!(fs::read(writer.finish().unwrap().path).unwrap(), sample);
}
