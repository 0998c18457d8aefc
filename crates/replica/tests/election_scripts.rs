//! Stories about elections and locks, told to the replicated state alone. After a change that is
//! meant: `UPDATE_GOLDENFILES=1 cargo nextest run`, then read the difference.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "election/script.rs"]
mod script;

use script::Script;

#[test]
fn elections_and_locks_behave_as_told() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/election");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        goldenscript::run(&mut Script::new(), &file).unwrap();
    }
}
