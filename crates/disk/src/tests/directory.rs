use std::{fs, os::unix::fs::PermissionsExt};

use tenure_api::ClusterId;

use super::*;
use crate::Identity;

const IDENTITY: Identity =
    Identity { cluster_id: ClusterId(7), member_id: MemberId(1), joined: false };

#[test]
fn a_new_directory_is_for_its_owner_only() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("a/b");
    let (_data, recovered) = open(&path);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!((recovered.identity, recovered.boot), (None, 1));
}

#[test]
fn a_second_process_is_turned_away() {
    let home = tempfile::tempdir().unwrap();
    let (data, _) = open(home.path());
    let error = try_open(home.path()).unwrap_err();
    assert!(matches!(error, DiskError::InUse { .. }));
    assert!(error.to_string().contains("another process uses this data directory"));
    let writer = data.start_writer(|_| {});
    assert!(matches!(try_open(home.path()), Err(DiskError::InUse { .. })));
    drop(writer);
    assert_eq!(open(home.path()).1.boot, 2);
}

#[test]
fn a_log_elsewhere_is_locked_too() {
    let home = tempfile::tempdir().unwrap();
    let (one, other, log) =
        (home.path().join("one"), home.path().join("other"), home.path().join("log"));
    let (_data, _) = DataDir::open_in(Files::shared(), &one, Some(&log), SMALL).unwrap();
    let error = DataDir::open_in(Files::shared(), &other, Some(&log), SMALL).unwrap_err();
    assert!(matches!(error, DiskError::InUse { file } if file == log.join("lock")));
}

#[test]
fn a_claim_is_kept_and_cannot_be_changed() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    data.claim(IDENTITY).unwrap();
    data.claim(IDENTITY).unwrap();
    drop(data);
    let (mut data, recovered) = open(home.path());
    assert_eq!(recovered.identity, Some(IDENTITY));
    let other = Identity { member_id: MemberId(2), ..IDENTITY };
    assert!(matches!(data.claim(other), Err(DiskError::Claimed { .. })));
}

#[test]
fn the_founders_are_kept_from_the_claim_on() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, recovered) = open(home.path());
    assert_eq!(recovered.founders, None);
    // It died before the claim, and came back with other settings: nothing has followed from the first ones.
    data.keep_founders(&founders()[..1]).unwrap();
    drop(data);
    (data, _) = open(home.path());
    data.keep_founders(&founders()).unwrap();
    data.claim(IDENTITY).unwrap();
    data.keep_founders(&founders()[..1]).unwrap();
    drop(data);
    assert_eq!(open(home.path()).1.founders, Some(founders()));

    let file = home.path().join("founders");
    let sound = fs::read(&file).unwrap();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        fs::write(&file, bytes).unwrap();
        let error = try_open(home.path()).unwrap_err();
        assert!(
            matches!(&error, DiskError::Corrupt { file: named, .. } if *named == file),
            "{error}"
        );
        fs::write(&file, &sound[..at]).unwrap();
        assert!(matches!(try_open(home.path()), Err(DiskError::Corrupt { .. })), "cut at {at}");
    }
    // A directory of before there was such a file gets it at the next start with the settings of then.
    fs::remove_file(&file).unwrap();
    let (data, recovered) = open(home.path());
    assert_eq!(recovered.founders, None);
    data.keep_founders(&founders()).unwrap();
    drop(data);
    assert_eq!(open(home.path()).1.founders, Some(founders()));
}

#[test]
fn a_member_without_its_log_does_not_start() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    data.claim(IDENTITY).unwrap();
    drop(data);
    fs::remove_dir_all(home.path().join("wal")).unwrap();
    let error = try_open(home.path()).unwrap_err();
    assert!(matches!(error, DiskError::Missing { .. }), "{error}");
}

#[test]
fn another_members_log_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let (one, other) = (home.path().join("one"), home.path().join("other"));
    drop((open(&one), open(&other)));
    fs::remove_dir_all(one.join("wal")).unwrap();
    fs::rename(other.join("wal"), one.join("wal")).unwrap();
    assert!(matches!(try_open(&one), Err(DiskError::Foreign { .. })));
}

#[test]
fn a_lost_boot_count_is_noticed() {
    let home = tempfile::tempdir().unwrap();
    drop(open(home.path()));
    fs::remove_file(home.path().join("boot")).unwrap();
    assert!(matches!(try_open(home.path()), Err(DiskError::Missing { .. })));
}

#[test]
fn a_damaged_label_is_named() {
    let home = tempfile::tempdir().unwrap();
    drop(open(home.path()));
    let path = home.path().join("boot");
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = try_open(home.path()).unwrap_err();
    assert!(matches!(&error, DiskError::Corrupt { file, .. } if *file == path), "{error}");
}

#[test]
fn a_path_that_cannot_be_a_directory_is_explained() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    fs::write(&path, "").unwrap();
    let error = try_open(&path.join("data")).unwrap_err();
    assert!(error.to_string().contains("choose a path that is a directory"), "{error}");
}
