//! Backups that are sound, and all the ways in which they are not.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use sha2::{Digest, Sha256};
pub(super) use tempfile::TempDir;
use tenure_api::{
    ClusterId, LeaseId, Member, MemberId, Principal, Put, Revision, Term, op::PutLease,
};
use tenure_replica::{
    EntryContext, Snapshot, SnapshotMark, State, command::Command, new_cluster::REVISION_JUMP_MIN,
    state::ApplyEffects,
};

use super::*;
use crate::{
    Config,
    disk::{
        DataDir, DiskError, Identity,
        snapshot::{self, Frame},
    },
};

const CLUSTER: ClusterId = ClusterId(0xc1);

fn put(key: String, lease: Option<LeaseId>) -> Command {
    let (value, lease) = (Some("value".into()), PutLease::Set(lease));
    Command::Put(Put { key: key.into(), value, lease, prev_kv: false })
}

/// A cluster of one with so many keys, and one more on a lease.
pub(super) fn state(keys: usize) -> State {
    let member = Member {
        id: MemberId(7),
        name: "old".into(),
        peer_urls: vec!["http://old:1".into()],
        client_urls: vec![],
        is_learner: false,
    };
    let mut state = State::new([member]);
    let lease = LeaseId(5);
    let mut commands: Vec<_> = (0..keys).map(|n| put(format!("key{n:04}"), None)).collect();
    commands.push(Command::LeaseGrant { id: lease, ttl_secs: 60 });
    commands.push(put("session".into(), Some(lease)));
    for (command, index) in commands.iter().zip(1..) {
        state
            .apply(
                EntryContext { index, term: Term(3), ms: 0 },
                &Principal::System,
                command,
                &mut ApplyEffects::default(),
            )
            .unwrap();
    }
    state
}

pub(super) fn mark() -> SnapshotMark {
    SnapshotMark { index: 40, term: Term(3), voters: vec![MemberId(7)], ..Default::default() }
}

fn pieces(state: State) -> Vec<stream::Piece> {
    let note = Note { cluster_id: CLUSTER, member_id: MemberId(7), taken_at: 1_700_000_000 };
    let mut pieces = stream(Box::new(Snapshot { mark: mark(), state }), note, IDLE_MAX, ());
    std::iter::from_fn(|| next(&mut pieces)).map(Result::unwrap).collect()
}

fn next(pieces: &mut stream::Pieces) -> Option<Result<stream::Piece, Stalled>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(pieces.next())
}

pub(super) fn bytes(state: State) -> Vec<u8> {
    pieces(state).iter().flat_map(|piece| piece.blob.to_vec()).collect()
}

pub(super) fn write(home: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = home.path().join("backup.db");
    fs::write(&path, bytes).unwrap();
    path
}

pub(super) fn open(path: &Path, check: HashCheck) -> Result<Backup, BackupError> {
    Backup::open(path, check, &mut |_, _| {})
}

pub(super) fn plan(home: &TempDir, name: &str, members: usize) -> Plan {
    let all: Vec<_> =
        (1..=members).map(|n| (format!("n{n}"), format!("http://127.0.0.1:{n}"))).collect();
    let url = all.iter().find(|(known, _)| known == name).unwrap().1.clone();
    let cluster: Vec<_> = all.iter().map(|(name, url)| format!("{name}={url}")).collect();
    let config = Config {
        name: name.into(),
        data_dir: home.path().join(name),
        initial_cluster: cluster.join(","),
        initial_advertise_peer_urls: vec![url],
        ..Config::default()
    };
    Plan { config, bump_revision: 0 }
}

#[test]
fn what_is_streamed_can_be_read() {
    let home = TempDir::new().unwrap();
    let pieces = pieces(state(6000));
    let (last, before) = pieces.split_last().unwrap();
    assert!(pieces.len() > 2, "it comes in pieces");
    assert_eq!((last.blob.len(), last.remaining), (HASH_BYTES, 0));
    assert!(before.iter().all(|piece| piece.remaining > 0));
    let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.blob.to_vec()).collect();
    assert_eq!(bytes.len() % 512, 32, "as etcdctl wants it");
    let backup = open(&write(&home, &bytes), HashCheck::Required).unwrap();
    let summary = backup.summary();
    assert_eq!((summary.keys, summary.leases, summary.leased_keys), (6001, 1, 1));
    assert_eq!(summary.note.map(|note| note.cluster_id), Some(CLUSTER));
    assert_eq!(summary.revision, Revision(6002));
}

#[test]
fn a_client_that_goes_away_ends_the_work() {
    let note = Note { cluster_id: CLUSTER, member_id: MemberId(7), taken_at: 0 };
    let (alive, ended) = std::sync::mpsc::channel::<()>();
    let snapshot = Snapshot { mark: mark(), state: state(30_000) };
    let mut pieces = stream(Box::new(snapshot), note, IDLE_MAX, alive);
    assert!(next(&mut pieces).is_some());
    drop(pieces);
    assert!(ended.recv().is_err(), "the permit is given back");
}

/// Four of them would otherwise keep all other clients from a backup for as long as they like.
#[test]
fn a_client_that_stops_reading_ends_the_work_and_is_told() {
    let note = Note { cluster_id: CLUSTER, member_id: MemberId(7), taken_at: 0 };
    let (alive, ended) = std::sync::mpsc::channel::<()>();
    let snapshot = Snapshot { mark: mark(), state: state(30_000) };
    let mut pieces = stream(Box::new(snapshot), note, Duration::from_millis(10), alive);
    assert!(next(&mut pieces).is_some());
    assert!(ended.recv().is_err(), "the permit is given back while the stream is open");
    let rest: Vec<_> = std::iter::from_fn(|| next(&mut pieces)).collect();
    let (last, before) = rest.split_last().unwrap();
    assert_eq!(last.as_ref().err(), Some(&Stalled));
    assert!(before.iter().all(Result::is_ok), "what was on its way is not lost");
}

/// As builds before this format saved it.
pub(super) fn first_format(state: State, rest: &[u8]) -> Vec<u8> {
    let snapshot = Snapshot { mark: mark(), state };
    let (mut frame, mut file) = Frame::begin(&snapshot.mark);
    for chunk in snapshot.chunks() {
        file.extend_from_slice(&frame.chunk(&chunk));
        file.extend_from_slice(&chunk);
    }
    file.extend_from_slice(&frame.end());
    wrapped(file, rest)
}

/// A snapshot with its note, padding, and its SHA-256.
pub(super) fn wrapped(mut snapshot: Vec<u8>, rest: &[u8]) -> Vec<u8> {
    snapshot.extend_from_slice(rest);
    snapshot.resize(snapshot.len().next_multiple_of(SECTOR_BYTES as usize), 0);
    let hash = Sha256::digest(&snapshot);
    snapshot.extend_from_slice(&hash);
    snapshot
}

fn chunks(backup: Backup) -> Vec<Vec<u8>> {
    Snapshot { mark: backup.mark, state: backup.state }.chunks().collect()
}

#[test]
fn backup_is_the_state_that_was_saved() {
    let home = TempDir::new().unwrap();
    let mut state = state(3000);
    state.store.compact(Revision(1000)).unwrap();
    let expected = Snapshot { mark: mark(), state: state.clone() };
    let read = open(&write(&home, &bytes(state)), HashCheck::Required).unwrap();
    assert_eq!(read.mark, expected.mark);
    assert!(chunks(read).into_iter().eq(expected.chunks()));
}

#[test]
fn no_byte_can_be_changed_and_none_be_missing() {
    let home = TempDir::new().unwrap();
    let sound = bytes(state(20));
    for at in (0..sound.len()).step_by(37) {
        let mut changed = sound.clone();
        changed[at] ^= 0x10;
        let path = write(&home, &changed);
        assert!(open(&path, HashCheck::Required).is_err(), "byte {at} was changed");
        let path = write(&home, &sound[..at]);
        assert!(open(&path, HashCheck::Required).is_err(), "cut off at {at}");
    }
}

/// Without the checksum at the end, a change is found by what is inside, or it changes nothing.
#[test]
fn backup_without_its_checksum_is_the_same_or_refused() {
    let home = TempDir::new().unwrap();
    let sound = bytes(state(20));
    let expected = chunks(open(&write(&home, &sound), HashCheck::Skipped).unwrap());
    let (mut refused, mut same) = (0, 0);
    for at in (0..sound.len() - HASH_BYTES).step_by(31) {
        let mut changed = sound.clone();
        changed[at] ^= 0x10;
        match open(&write(&home, &changed), HashCheck::Skipped) {
            Ok(backup) => {
                assert!(chunks(backup) == expected, "byte {at} was changed");
                same += 1;
            }
            Err(_) => refused += 1,
        }
        if at % 5 == 0 {
            let cut = open(&write(&home, &sound[..at]), HashCheck::Skipped);
            assert!(cut.is_err(), "cut off at {at}");
        }
    }
    assert!(refused > 30 && same > 300, "{refused} {same}");
}

/// Without the checksum at the end, those inside still cover everything that matters.
#[test]
fn first_format_without_its_checksum_is_covered_by_those_inside() {
    let home = TempDir::new().unwrap();
    let note = Note { cluster_id: CLUSTER, member_id: MemberId(7), taken_at: 1_700_000_000 };
    let sound = first_format(state(20), &note.to_bytes());
    let footer = sound.windows(8).position(|window| window == b"tenurebk").unwrap();
    for at in 0..footer {
        let mut changed = sound.clone();
        changed[at] ^= 0x10;
        let path = write(&home, &changed);
        assert!(open(&path, HashCheck::Skipped).is_err(), "byte {at} was changed");
        let path = write(&home, &sound[..at]);
        assert!(open(&path, HashCheck::Skipped).is_err(), "cut off at {at}");
    }
    // As it lies in a member's own directory.
    let raw = open(&write(&home, &sound[..footer]), HashCheck::Skipped).unwrap();
    assert_eq!((raw.note, raw.state.store.len()), (None, 21));
    let wrapped = open(&write(&home, &sound), HashCheck::Skipped).unwrap();
    assert_eq!(wrapped.checksum, raw.checksum, "however it is wrapped");
}

/// `testdata/first-format.db` was saved by a build that knew no other: ten keys, one of them twice, a lease with a key, a
/// compaction.
#[test]
fn first_format_of_an_earlier_build_is_restored() {
    let home = TempDir::new().unwrap();
    let path = write(&home, include_bytes!("testdata/first-format.db"));
    let backup = open(&path, HashCheck::Required).unwrap();
    let summary = backup.summary();
    assert_eq!((summary.keys, summary.leases, summary.leased_keys), (11, 1, 1));
    assert_eq!((summary.revision, summary.compacted), (Revision(13), Revision(5)));
    assert!(summary.note.is_some());
    let restored = restore(&backup, &plan(&home, "n1", 1), &mut |_| {}).unwrap();
    assert_eq!((restored.keys, restored.keys_dropped), (10, 1));
}

/// etcd keeps our bucket when it writes to a file of ours.
#[test]
fn backup_that_etcd_wrote_to_is_etcds() {
    let home = TempDir::new().unwrap();
    let sound = bytes(state(20));
    let mut changed = sound[..sound.len() - HASH_BYTES].to_vec();
    let value = changed.windows(7).position(|window| window == b"key0003").unwrap();
    changed[value + 6] = b'x';
    let refused = open(&write(&home, &wrapped(changed, &[])), HashCheck::Required).unwrap_err();
    assert!(refused.to_string().contains("tenure import"), "{refused}");
}

#[test]
fn a_foreign_file_is_called_by_its_name() {
    let home = TempDir::new().unwrap();
    let mut bbolt = vec![0; 4096];
    bbolt[16..20].copy_from_slice(&0xED0C_DAED_u32.to_le_bytes());
    let bbolt = wrapped(bbolt, &[]);
    for (bytes, what) in [
        (&bbolt[..], "is damaged"),
        (include_bytes!("../import/testdata/etcd-3.5.1.db"), "a database of etcd"),
        (b"", "it is empty"),
        (b"tenurewl and more", "another file of a member's data directory"),
        (&[0xa7; 700], "begins with something else"),
    ] {
        for check in [HashCheck::Required, HashCheck::Skipped] {
            let error = open(&write(&home, bytes), check).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}

#[test]
fn every_member_makes_the_same_cluster_of_the_same_file() {
    let home = TempDir::new().unwrap();
    let backup = open(&write(&home, &bytes(state(50))), HashCheck::Required).unwrap();
    let mut seen = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for name in ["n1", "n2", "n3"] {
        let restored = restore(&backup, &plan(&home, name, 3), &mut |_| {}).unwrap();
        let (_, recovered) = DataDir::open(&home.path().join(name), None).unwrap();
        let identity = recovered.identity.unwrap();
        assert_eq!(identity.member_id, restored.member_id);
        let new_cluster = recovered.new_cluster.unwrap();
        assert_eq!(
            (new_cluster.before, new_cluster.cluster_id),
            (Some(CLUSTER), identity.cluster_id)
        );
        let snapshot = recovered.snapshot.unwrap();
        ids.insert(identity.member_id);
        seen.insert((identity.cluster_id.0, fs::read(snapshot.path).unwrap()));
    }
    assert_eq!((ids.len(), seen.len()), (3, 1), "three members, one beginning");
    let (cluster, _) = seen.pop_first().unwrap();
    assert_ne!(ClusterId(cluster), CLUSTER);
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().flatten().map(|e| e.path()).collect();
    assert_eq!(left.len(), 4, "nothing unfinished stays: {left:?}");
}

#[test]
fn what_is_restored_has_no_sessions_and_far_revisions() {
    let home = TempDir::new().unwrap();
    let backup = open(&write(&home, &bytes(state(50))), HashCheck::Required).unwrap();
    let restored = restore(&backup, &plan(&home, "n1", 3), &mut |_| {}).unwrap();
    assert_eq!((restored.keys, restored.keys_dropped, restored.leases_dropped), (50, 1, 1));
    let (_, recovered) = DataDir::open(&home.path().join("n1"), None).unwrap();
    let (mark, state) = snapshot::load(&recovered.snapshot.unwrap().path).unwrap();
    assert_eq!((mark.index, mark.term), (41, Term(4)));
    assert_eq!(mark.voters, state.members.keys().copied().collect::<Vec<_>>());
    assert_eq!(state.store.revision(), Revision(52 + REVISION_JUMP_MIN));
    assert_eq!(state.store.compacted(), state.store.revision());
    assert!(
        state.leases.is_empty()
            && state.origins.is_empty()
            && state.store.get(b"session").is_none()
    );
    assert_eq!(recovered.hard_state.commit, 41);
}

/// The first of the two clusters may have served meanwhile.
#[test]
fn a_file_that_is_restored_twice_does_not_begin_twice_at_the_same_revision() {
    let home = TempDir::new().unwrap();
    let backup = open(&write(&home, &bytes(state(5))), HashCheck::Required).unwrap();
    let alone = plan(&home, "n1", 1);
    let first = restore(&backup, &alone, &mut |_| {}).unwrap();
    fs::rename(home.path().join("n1"), home.path().join("away")).unwrap();
    let second = restore(&backup, &alone, &mut |_| {}).unwrap();
    assert!(second.revision > first.revision);
    assert_ne!(second.cluster_id, first.cluster_id);
    let further = Plan { bump_revision: 2 * REVISION_JUMP_MIN, ..plan(&home, "n2", 3) };
    let further = restore(&backup, &further, &mut |_| {}).unwrap();
    assert_eq!(further.revision, Revision(7 + 2 * REVISION_JUMP_MIN));
    let endless = Plan { bump_revision: 1 << 53, ..plan(&home, "n3", 3) };
    let refused = restore(&backup, &endless, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, BackupError::RevisionsEnd { .. }), "{refused}");
}

#[test]
fn nothing_is_restored_over_what_is_there() {
    let home = TempDir::new().unwrap();
    let backup = open(&write(&home, &bytes(state(5))), HashCheck::Required).unwrap();
    let mut plan = plan(&home, "n1", 1);
    plan.config.wal_dir = Some(home.path().join("log"));
    for taken in ["n1", "log"] {
        let dir = home.path().join(taken);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("precious"), "data").unwrap();
        let refused = restore(&backup, &plan, &mut |_| {}).unwrap_err();
        assert!(matches!(refused, BackupError::Disk(DiskError::NotEmpty { .. })), "{refused}");
        assert_eq!(fs::read_to_string(dir.join("precious")).unwrap(), "data");
        fs::remove_file(dir.join("precious")).unwrap();
    }
    // Empty directories, and what an earlier attempt left, are not in the way.
    fs::create_dir(home.path().join("n1.restoring")).unwrap();
    fs::write(home.path().join("n1.restoring/boot"), "half").unwrap();
    restore(&backup, &plan, &mut |_| {}).unwrap();
    let log = home.path().join("log");
    let (_, recovered) = DataDir::open(&home.path().join("n1"), Some(&log)).unwrap();
    assert!(recovered.identity.is_some() && recovered.snapshot.is_some());
}

#[test]
fn a_member_that_was_removed_does_not_become_a_cluster() {
    let home = TempDir::new().unwrap();
    let backup = open(&write(&home, &bytes(state(5))), HashCheck::Required).unwrap();
    let plan = plan(&home, "n1", 3);
    restore(&backup, &plan, &mut |_| {}).unwrap();
    let read = || DataDir::open(&plan.config.data_dir, None).unwrap().1;
    let before = read();
    DataDir::mark_removed(&plan.config.data_dir, before.identity.unwrap()).unwrap();
    force_new_cluster(&plan.config).unwrap();
    let after = read();
    assert!(after.removed, "the start that follows says so");
    assert_eq!(after.identity, before.identity);
    assert_eq!(after.snapshot.unwrap().mark, before.snapshot.unwrap().mark);
}

/// The process died when the directory was the new cluster's already, and nothing else was.
#[test]
fn a_cluster_that_was_forced_half_way_is_forced_again() {
    let home = TempDir::new().unwrap();
    let config = plan(&home, "n1", 3).config;
    let (mut disk, _) = DataDir::open(&config.data_dir, None).unwrap();
    disk.keep_founders(&config.members()).unwrap();
    let (cluster_id, member_id) = (config.cluster_id(), config.member_id());
    disk.claim(Identity { cluster_id, member_id, joined: false }).unwrap();
    disk.move_to(ClusterId(5)).unwrap();
    drop(disk);
    // The settings may have been rewritten meanwhile, too.
    force_new_cluster(&plan(&home, "n1", 4).config).unwrap();
    let (_, recovered) = DataDir::open(&config.data_dir, None).unwrap();
    assert_eq!(recovered.snapshot.unwrap().mark.voters, [member_id]);
    assert_eq!(recovered.new_cluster.unwrap().before, Some(ClusterId(5)));
}

/// What the first release wrote: a roll of format 1, which knew no alarms.
#[test]
fn a_snapshot_of_the_first_release_can_be_restored() {
    let roll = b"\x01\x01\x01\x01\x07\x03old\x01\x0chttp://old:1\x00\x00\x00\x00\x00";
    let chunks: [&[u8]; 4] =
        [roll, b"\x03\x01\x01\x04\x00", b"\x03\x03\x01k\x04\x04\x02\x00\x01v", b"\x03\x05\x02"];
    let (mut frame, mut file) = Frame::begin(&mark());
    for chunk in chunks {
        file.extend_from_slice(&frame.chunk(chunk));
        file.extend_from_slice(chunk);
    }
    file.extend_from_slice(&frame.end());
    let home = TempDir::new().unwrap();
    let backup = open(&write(&home, &file), HashCheck::Skipped).unwrap();
    assert_eq!(&backup.state.store.get(b"k").unwrap().value[..], b"v");
    let restored = restore(&backup, &plan(&home, "n1", 1), &mut |_| {}).unwrap();
    assert_eq!(restored.keys, 1);
}
