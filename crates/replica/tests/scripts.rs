//! Golden scripts of the store, and of elections and locks in the replicated state alone. After an intended change:
//! `UPDATE_GOLDENFILES=1 cargo nextest run`, then read the difference.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "election/script.rs"]
mod election;
#[path = "mvcc/script.rs"]
mod mvcc;

use goldenscript::Runner;

#[test]
fn store_scripts_pass() {
    run("tests/scripts/mvcc", mvcc::StoreScript::new);
}

#[test]
fn transaction_scripts_pass() {
    run("tests/scripts/txn", mvcc::StoreScript::new);
}

#[test]
fn election_scripts_pass() {
    run("tests/scripts/election", election::ElectionScript::new);
}

fn run<R: Runner>(folder: &str, new: impl Fn() -> R) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        goldenscript::run(&mut new(), &file).unwrap();
    }
}
