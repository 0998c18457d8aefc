//! Stories about whole clusters. After a change that is meant: `UPDATE_GOLDENFILES=1 cargo nextest run`,
//! then read the difference.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, dead_code)]

#[path = "scripted/script.rs"]
mod script;

use script::Script;

#[test]
fn clusters_behave_as_told() {
    run("tests/scripts/replica");
}

#[test]
fn leases_behave_as_told() {
    run("tests/scripts/lease");
}

#[test]
fn watches_behave_as_told() {
    run("tests/scripts/watch");
}

fn run(folder: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        goldenscript::run(&mut Script::new(), &file).unwrap();
    }
}
