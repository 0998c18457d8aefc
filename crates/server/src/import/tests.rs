//! Against files that etcd wrote, whole and damaged.
//!
//! `testdata/etcd-3.5.1.db`, and `etcd-3.4.23.db` by the etcd and etcdctl of Debian 12, were saved with `etcdctl snapshot
//! save` after: 60 keys `key1` … `key60`; `large` with
//! 9,000 bytes; a transaction that puts `t/b`, then `t/a`, and deletes `key1`; `del key2 key3` (a range of 11);
//! a lease of 1000 s with `leased/1` and `leased/2`; a lease of 7 s; `compaction 40`; `put after compaction`.

use std::{fs, path::Path};

use proptest::prelude::*;
use tempfile::TempDir;
use tenure_api::Revision;

use super::{Doing, ImportError, ImportSummary, Source, content, import};
use crate::{
    Config,
    disk::{DataDir, DiskError, snapshot},
    etcd_db::DatabaseError,
};

pub(super) const SNAPSHOT: &[u8] = include_bytes!("testdata/etcd-3.5.1.db");
const SNAPSHOT_3_4: &[u8] = include_bytes!("testdata/etcd-3.4.23.db");
pub(super) const PAGE_BYTES: usize = 4096;

fn import_bytes(
    bytes: &[u8],
    skip_hash_check: bool,
) -> Result<(ImportSummary, TempDir), ImportError> {
    let home = TempDir::new().unwrap();
    let file = home.path().join("etcd.db");
    fs::write(&file, bytes).unwrap();
    let source = Source { file, skip_hash_check, without_auth: false, bump_revision: 0 };
    let summary = import(&source, &config(home.path()), &mut |_, _, _| {});
    if summary.is_err() {
        let left: Vec<_> = fs::read_dir(home.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "an import that failed must leave nothing behind: {left:?}");
    }
    Ok((summary?, home))
}

fn config(home: &Path) -> Config {
    Config { data_dir: home.join("new/member"), ..Config::default() }
}

/// Reads the file only as far as the state, which is what damage can reach.
pub(super) fn read(bytes: &[u8], skip_hash_check: bool) -> Result<Vec<Vec<u8>>, ImportError> {
    let home = TempDir::new().unwrap();
    let path = home.path().join("etcd.db");
    fs::write(&path, bytes).unwrap();
    let file = super::SnapshotFile::open(&path, skip_hash_check, &mut |_, _| {})?;
    let content = content::read(&file.db, &mut |_| {}).map_err(|stop| file.error(stop))?;
    let store = content.store().map_err(|damage| file.error(damage))?;
    let leases = content::leases(&file.db, &store, 1).map_err(|stop| file.error(stop))?;
    let state = tenure_replica::State { store, leases, ..Default::default() };
    Ok(tenure_replica::Snapshot { mark: Default::default(), state }.chunks().collect())
}

fn damaged_at(at: usize, mask: u8) -> Vec<u8> {
    let mut bytes = SNAPSHOT.to_vec();
    bytes[at] ^= mask;
    bytes
}

#[test]
fn a_snapshot_of_etcd_becomes_a_data_directory() {
    for snapshot in [SNAPSHOT, SNAPSHOT_3_4] {
        let (summary, home) = import_bytes(snapshot, false).unwrap();
        assert_eq!((summary.keys, summary.versions), (54, 78));
        assert_eq!((summary.revision, summary.compacted), (Revision(67), Revision(40)));
        assert_eq!((summary.leases, summary.leased_keys), (2, 2));

        let config = config(home.path());
        let (_, recovered) = DataDir::open(&config.data_dir, None).unwrap();
        assert_eq!(recovered.identity.unwrap().member_id, config.member_id());
        let (mark, state) = snapshot::load(&recovered.snapshot.unwrap().path).unwrap();
        assert_eq!(mark.voters, [config.member_id()]);
        assert_eq!(state.store.get(b"large").unwrap().value.len(), 9_000);
        let kv = state.store.get(b"leased/2").unwrap();
        let lease = state.leases.get(kv.lease.unwrap()).unwrap();
        assert_eq!((lease.ttl_secs, lease.keys.len()), (1_000, 2));
        let changes: Vec<_> = state.store.changes_since(Revision(63)).take(1).collect();
        let keys: Vec<_> = changes[0].events.iter().map(|event| &event.kv.key[..]).collect();
        assert_eq!(
            keys,
            [&b"t/b"[..], b"t/a", b"key1"],
            "events of a transaction keep their order"
        );
    }
}

fn import_with_jump(bump_revision: i64) -> Result<(ImportSummary, TempDir), ImportError> {
    let home = TempDir::new().unwrap();
    let file = home.path().join("etcd.db");
    fs::write(&file, SNAPSHOT).unwrap();
    let source = Source { file, skip_hash_check: false, without_auth: false, bump_revision };
    Ok((import(&source, &config(home.path()), &mut |_, _, _| {})?, home))
}

/// etcd may have gone on after an old file was saved: no token of that time may come again, and a watcher
/// must hear that there is a gap.
#[test]
fn revisions_jump_if_that_is_asked_for_and_what_was_before_counts_as_compacted() {
    let (summary, home) = import_with_jump(1_000_000).unwrap();
    let beyond = Revision(1_000_067);
    assert_eq!((summary.revision, summary.compacted, summary.keys), (beyond, beyond, 54));
    let config = config(home.path());
    let (_, recovered) = DataDir::open(&config.data_dir, None).unwrap();
    let (_, state) = snapshot::load(&recovered.snapshot.unwrap().path).unwrap();
    assert_eq!(state.store.revision(), beyond);
    assert!(
        state.store.get(b"large").unwrap().mod_revision < Revision(67),
        "keys are as they were"
    );
    assert_eq!(state.leases.len(), 2);
    let cluster_id = recovered.identity.unwrap().cluster_id;
    assert_ne!(cluster_id, config.cluster_id(), "members of another jump are strangers");
    assert_eq!(recovered.new_cluster.unwrap().cluster_id, cluster_id);
    assert_ne!(import_with_jump(1_000_001).unwrap().0.cluster_id, cluster_id);
}

/// They begin at the same entry of the log with the same members: nothing but the id tells them apart.
#[test]
fn members_are_strangers_unless_they_imported_the_same() {
    let (summary, home) = import_bytes(SNAPSHOT, false).unwrap();
    let config = config(home.path());
    let (_, recovered) = DataDir::open(&config.data_dir, None).unwrap();
    assert_eq!(recovered.identity.unwrap().cluster_id, summary.cluster_id);
    assert_eq!(recovered.new_cluster.unwrap().cluster_id, summary.cluster_id);
    assert_ne!(summary.cluster_id, config.cluster_id(), "one that imported nothing");
    let again = import_bytes(SNAPSHOT, false).unwrap().0;
    assert_eq!(again.cluster_id, summary.cluster_id);
    let raw = import_bytes(&SNAPSHOT[..SNAPSHOT.len() - 32], true).unwrap().0;
    assert_eq!(raw.cluster_id, summary.cluster_id, "it is the content that counts");
    let value = SNAPSHOT.windows(4).position(|window| window == b"zzzz").unwrap();
    let other = import_bytes(&damaged_at(value, 1), true).unwrap().0;
    assert_eq!(ImportSummary { cluster_id: summary.cluster_id, ..other }, summary);
    assert_ne!(other.cluster_id, summary.cluster_id, "one letter of one value differs");
}

#[test]
fn revisions_do_not_jump_to_where_they_cannot_be_told_apart() {
    for jump in [1 << 53, i64::MAX] {
        let refused = import_with_jump(jump).unwrap_err();
        assert!(matches!(refused, ImportError::RevisionsEnd { last: 67, .. }), "{refused}");
    }
}

#[test]
fn what_is_there_already_is_left_alone() {
    let (_, home) = import_bytes(SNAPSHOT, false).unwrap();
    let source = Source {
        file: home.path().join("etcd.db"),
        skip_hash_check: false,
        without_auth: false,
        bump_revision: 0,
    };
    let again = import(&source, &config(home.path()), &mut |_, _, _| {});
    assert!(matches!(again, Err(ImportError::Disk(DiskError::NotEmpty { .. }))), "{again:?}");
}

#[test]
fn a_raw_copy_is_taken_only_if_asked_for() {
    let raw = &SNAPSHOT[..SNAPSHOT.len() - 32];
    assert!(matches!(
        read(raw, false),
        Err(ImportError::Database(DatabaseError::NoChecksum { .. }))
    ));
    assert_eq!(read(raw, true).unwrap(), read(SNAPSHOT, false).unwrap());
}

#[test]
fn one_sound_meta_page_is_enough() {
    // bbolt writes them in turn; the older one leads to the same root here, as etcd writes a snapshot.
    for at in [20, PAGE_BYTES + 20] {
        assert_eq!(read(&damaged_at(at, 1), true).unwrap(), read(SNAPSHOT, false).unwrap());
    }
}

#[test]
fn damage_is_named_with_its_place() {
    let both_metas = {
        let mut bytes = damaged_at(70, 1);
        bytes[PAGE_BYTES + 70] ^= 1;
        bytes
    };
    let garbage = vec![7; 8192];
    let ours = [b"tenuresn".as_slice(), &[0; 504]].concat();
    for (bytes, skip, text) in [
        (&SNAPSHOT[..100], true, "at offset"),
        (&SNAPSHOT[..7], true, "it is too short"),
        (&SNAPSHOT[..20 * 512], true, "the file ends here"),
        (&both_metas, true, "at offset 16: a meta page whose checksum is wrong"),
        (&garbage, false, "is no etcd snapshot: bbolt's mark is missing at offset 16"),
        (&ours, false, "is no etcd snapshot: it is a snapshot of a tenure server"),
        (
            &damaged_at(SNAPSHOT.len() - 1, 1),
            false,
            "the checksum of its 53248 bytes is not the one",
        ),
    ] {
        let error = read(bytes, skip).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("etcd.db"), "{error}");
    }
}

#[test]
fn a_place_is_named_beside_a_wrong_checksum() {
    let places = (2 * PAGE_BYTES..SNAPSHOT.len() - 32).step_by(64).filter(|at| {
        let error = read(&damaged_at(*at, 0x80), false).unwrap_err();
        matches!(error, ImportError::Database(DatabaseError::Checksum { place: Some(_), .. }))
    });
    assert!(places.count() > 10);
}

/// The parts that say where everything else is: page header, meta page, first elements.
#[test]
fn no_damage_to_a_page_header_is_fatal() {
    for page in 0..SNAPSHOT.len() / PAGE_BYTES {
        for at in 0..80 {
            for mask in [1, 0xff] {
                let _ = read(&damaged_at(page * PAGE_BYTES + at, mask), true);
            }
        }
    }
}

#[test]
fn a_branch_that_leads_back_to_itself_is_noticed() {
    let circles = (2..SNAPSHOT.len() / PAGE_BYTES).filter(|page| {
        let start = page * PAGE_BYTES;
        let is_branch = SNAPSHOT[start + 8..start + 10] == [1, 0];
        let mut bytes = SNAPSHOT.to_vec();
        bytes[start + 24..start + 32].copy_from_slice(&(*page as u64).to_le_bytes());
        // A branch that is no longer in use does no harm.
        let error = is_branch.then(|| read(&bytes, true).err()).flatten();
        error.is_some_and(|error| error.to_string().contains("go round in a circle"))
    });
    assert!(circles.count() > 0);
}

#[test]
fn what_an_interrupted_import_left_is_in_nobodys_way() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("etcd.db");
    fs::write(&file, SNAPSHOT).unwrap();
    let left = home.path().join("new/member.importing");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("boot"), "half").unwrap();
    let source = Source { file, skip_hash_check: false, without_auth: false, bump_revision: 0 };
    import(&source, &config(home.path()), &mut |_, _, _| {}).unwrap();
    assert!(!left.exists());
    DataDir::open(&home.path().join("new/member"), None).unwrap();
}

#[test]
fn the_log_goes_where_it_is_told_to() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("etcd.db");
    fs::write(&file, SNAPSHOT).unwrap();
    let source = Source { file, skip_hash_check: false, without_auth: false, bump_revision: 0 };
    let log = home.path().join("log");
    let config = Config { wal_dir: Some(log.clone()), ..config(home.path()) };
    import(&source, &config, &mut |_, _, _| {}).unwrap();
    assert!(!config.data_dir.join("wal").exists());
    let (_, recovered) = DataDir::open(&config.data_dir, Some(&log)).unwrap();
    assert!(recovered.identity.is_some() && recovered.snapshot.is_some());
}

#[test]
fn progress_is_told_of_reading_and_writing_to_their_ends() {
    for skip_hash_check in [false, true] {
        let home = TempDir::new().unwrap();
        let file = home.path().join("etcd.db");
        fs::write(&file, SNAPSHOT).unwrap();
        let source = Source { file, skip_hash_check, without_auth: false, bump_revision: 0 };
        let mut told = Vec::new();
        let progress = &mut |doing, done, of| told.push((doing, done, of));
        import(&source, &config(home.path()), progress).unwrap();
        for what in [Doing::Reading, Doing::Writing] {
            let told: Vec<_> = told.iter().filter(|(doing, ..)| *doing == what).collect();
            let (_, last, of) = told[told.len() - 1];
            assert!(last == of && *of > 0, "{what:?}: {last} of {of}");
            assert!(told.is_sorted_by_key(|(_, done, _)| done), "{what:?}: it never goes back");
            assert!(told.iter().all(|(_, done, all)| done <= all && all == of), "{what:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_flipped_byte_is_an_error(at in 0..SNAPSHOT.len(), mask in 1u8..) {
        prop_assert!(read(&damaged_at(at, mask), false).is_err());
    }

    #[test]
    fn many_flipped_bytes_are_never_fatal(
        flips in prop::collection::vec((0..SNAPSHOT.len(), 1u8..), 1..20),
    ) {
        let mut bytes = SNAPSHOT.to_vec();
        for (at, mask) in flips {
            bytes[at] ^= mask;
        }
        let _ = read(&bytes, true);
    }

    #[test]
    fn a_file_that_was_cut_off_is_an_error(length in 0..SNAPSHOT.len()) {
        prop_assert!(read(&SNAPSHOT[..length], false).is_err());
    }
}
