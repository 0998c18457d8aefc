//! Golden scripts of small clusters. After an intended change: `UPDATE_GOLDENFILES=1 cargo nextest run`, then read the
//! difference.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, dead_code)]

#[path = "scripted/script.rs"]
mod script;

use script::ScriptedCluster;

#[test]
fn replica_scripts_pass() {
    run("tests/scripts/replica");
}

#[test]
fn lease_scripts_pass() {
    run("tests/scripts/lease");
}

#[test]
fn watch_scripts_pass() {
    run("tests/scripts/watch");
}

fn run(folder: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        goldenscript::run(&mut ScriptedCluster::new(), &file).unwrap();
    }
}
