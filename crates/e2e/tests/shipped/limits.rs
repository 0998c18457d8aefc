//! The table of limits in docs/explanation/architecture.md: each names something that exists, and a test names it, too.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const PAGE: &str = include_str!("../../../../docs/explanation/architecture.md");
const TABLE: &str = "| what | limit | name |\n";

/// Limits that no test names yet. A test of one at its limit and one past it takes it off this list; none may be added.
const UNTESTED: [&str; 25] = [
    "BATCH_BYTES_GOAL",
    "BATCH_BYTES_MAX",
    "CALL_MAX",
    "COMMITTED_BYTES_MAX",
    "ENTRY_BYTES_MAX",
    "FRAMES_WAITING_MAX",
    "HANDSHAKE_TIMEOUT",
    "HEARSAY_MAX",
    "IDLE_CONNECTIONS_MAX",
    "INDEX_MAX",
    "LEARNERS_MAX",
    "OUTGOING_BYTES_MAX",
    "RENEWALS_MAX",
    "RESOURCE_BYTES_MAX",
    "SESSION_BYTES",
    "STUCK_MAX",
    "TERMS_AHEAD_MAX",
    "UNCOMMITTED_BYTES_MAX",
    "UNDO_PATIENCE",
    "ANSWERS_OWED_MAX",
    "catch_up_changes_max",
    "entries_max",
    "entry_weight_max",
    "leaderless_patience",
    "--max-request-bytes",
];

/// The names in the last column.
fn names() -> BTreeSet<String> {
    let table = PAGE.split(TABLE).nth(1).expect("there is a table").split("\n\n").next().unwrap();
    let column = |row: &str| row.trim_end_matches([' ', '|']).rsplit('|').next().map(str::to_owned);
    let cells = table.lines().skip(1).filter_map(column);
    let quoted = |cell: String| {
        let parts: Vec<_> = cell.split('`').map(str::to_owned).collect();
        parts.into_iter().skip(1).step_by(2).collect::<Vec<_>>()
    };
    // A file says where; `Type::field` names the field.
    let names = cells.flat_map(quoted).filter(|name| !name.contains('/'));
    names.map(|name| name.rsplit("::").next().unwrap().to_owned()).collect()
}

fn sources(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            into.push((path, text));
        }
    }
}

/// What of a file is test.
fn tests<'a>(path: &Path, text: &'a str) -> &'a str {
    let is_test = |part: &Path| part.ends_with("tests") || part.ends_with("tests.rs");
    if path.ancestors().any(is_test) {
        return text;
    }
    text.find("#[cfg(test)]\nmod tests {").map_or("", |at| &text[at..])
}

fn has_word(text: &str, word: &str) -> bool {
    let part_of_a_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(part_of_a_word);
        let after = text[at + word.len()..].chars().next().is_some_and(part_of_a_word);
        !before && !after
    })
}

#[test]
fn limits_of_the_table_exist_and_are_tested() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all = Vec::new();
    sources(crates, &mut all);
    all.retain(|(path, _)| !path.ends_with("shipped/limits.rs"));
    let names = names();
    assert!(names.len() > 50, "{names:?}");
    let mut untested = BTreeSet::new();
    for name in &names {
        let flag = name.trim_start_matches('-').replace('-', "_");
        let exists = all.iter().any(|(_, text)| has_word(text, name) || has_word(text, &flag));
        assert!(exists, "{name} is in the table of limits and nowhere in the code");
        if !all.iter().any(|(path, text)| has_word(tests(path, text), name)) {
            untested.insert(name.as_str());
        }
    }
    assert_eq!(untested, BTreeSet::from(UNTESTED), "limits that no test names");
}
