//! Real files: whatever is wrong with one, it is refused with a reason.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use tempfile::TempDir;

use super::super::{Gate, GateLimits, OpenError, Pass};
use super::token;

fn limits() -> GateLimits {
    GateLimits::default()
}

/// A directory with a gate's file in it.
fn written() -> (TempDir, std::path::PathBuf) {
    let home = TempDir::new().unwrap();
    let path = home.path().join("gate");
    let gate = Gate::create(&path, limits()).unwrap();
    gate.raise_blocking(Pass::to("orders", token(41))).unwrap();
    gate.raise_blocking(Pass::to("crawlers", token(42)).permit(3)).unwrap();
    (home, path)
}

#[test]
fn gate_remembers_tokens_after_a_restart() {
    let (_home, path) = written();
    let gate = Gate::open(&path, limits()).unwrap();
    assert_eq!(gate.in_force("orders"), Some(token(41)));
    assert_eq!(gate.in_force_at("crawlers", 3), Some(token(42)));
    assert!(!gate.admits(Pass::to("orders", token(40))).is_admitted());
    assert!(gate.admits(Pass::to("orders", token(41))).is_admitted());
}

#[test]
fn gate_refuses_a_file_with_any_changed_byte_or_cut() {
    let (_home, path) = written();
    let good = fs::read(&path).unwrap();
    let opens = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Gate::open(&path, limits())
    };
    for at in 0..good.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            let error = opens(&bad).unwrap_err();
            assert!(
                matches!(error, OpenError::Damaged { .. } | OpenError::Newer { .. }),
                "byte {at}: {error}"
            );
        }
        let error = opens(&good[..at]).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{at} bytes: {error}");
        assert!(error.to_string().contains("move the file away"), "{error}");
    }
    let error = opens(&[&good[..], b"x"].concat()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    opens(&good).unwrap();
}

#[test]
fn gate_refuses_a_missing_file_unless_asked_for_a_new_one() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("gate");
    let error = Gate::open(&path, limits()).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    drop(Gate::open_or_create(&path, limits()).unwrap());
    let error = Gate::create(&path, limits()).unwrap_err();
    assert!(matches!(error, OpenError::Exists { .. }), "{error}");
    drop(Gate::open_or_create(&path, limits()).unwrap());
}

#[test]
fn gate_refuses_a_file_that_another_gate_has() {
    let (_home, path) = written();
    let first = Gate::open(&path, limits()).unwrap();
    let clone = first.clone();
    for _ in 0..2 {
        let error = Gate::open(&path, limits()).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    }
    drop(first);
    assert!(matches!(Gate::open(&path, limits()), Err(OpenError::InUse { .. })));
    drop(clone);
    Gate::open(&path, limits()).unwrap();
}

#[test]
fn gate_file_is_for_its_owner_only() {
    let (_home, path) = written();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// A link beside the file had a lock of its own, and the first write put a new file in its place: the
/// file that it led to remembered nothing of what was seen.
#[test]
fn gate_follows_a_link_to_its_file() {
    let (home, path) = written();
    let link = home.path().join("link");
    symlink(&path, &link).unwrap();
    let gate = Gate::open(&link, limits()).unwrap();
    for name in [&path, &link] {
        assert!(matches!(Gate::open(name, limits()), Err(OpenError::InUse { .. })));
    }
    gate.raise_blocking(Pass::to("orders", token(50))).unwrap();
    drop(gate);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(Gate::open(&path, limits()).unwrap().in_force("orders"), Some(token(50)));

    // So is a link to its directory, also before there is a file.
    let elsewhere = TempDir::new().unwrap();
    let directory = elsewhere.path().join("directory");
    symlink(home.path(), &directory).unwrap();
    let _gate = Gate::create(directory.join("new"), limits()).unwrap();
    let again = Gate::open(home.path().join("new"), limits());
    assert!(matches!(again, Err(OpenError::InUse { .. })));
}

#[test]
fn gate_refuses_a_link_that_leads_nowhere() {
    let home = TempDir::new().unwrap();
    let link = home.path().join("link");
    symlink(home.path().join("volume/gate"), &link).unwrap();
    for opened in [Gate::open_or_create(&link, limits()), Gate::create(&link, limits())] {
        assert!(opened.unwrap_err().to_string().contains("leads nowhere"));
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing was made beside it");
}
