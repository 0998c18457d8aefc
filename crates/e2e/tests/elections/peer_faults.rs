//! The list of others' faults is whole: every story in it is told by a test, every such test is in it, and
//! `docs/PEER_FAULTS.md` shows it as it is.

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

use tenure_e2e::faults::{FAULTS, Shown};

const STORIES: [(&str, &str); 4] = [
    ("peer_faults_elections", include_str!("peer_faults_elections.rs")),
    ("peer_faults_locks", include_str!("peer_faults_locks.rs")),
    ("peer_faults_sessions", include_str!("peer_faults_sessions.rs")),
    ("peer_faults_observers", include_str!("peer_faults_observers.rs")),
];

/// The table stands between these.
const BEGIN: &str = "<!-- faults: begin -->\n";
const END: &str = "<!-- faults: end -->";

/// The tests of a file.
fn tests(source: &str) -> impl Iterator<Item = &str> {
    let after = source.split("#[tokio::test(flavor = \"multi_thread\")]\nasync fn ").skip(1);
    after.map(|rest| rest.split('(').next().unwrap())
}

#[test]
fn every_story_is_told_by_a_test_and_every_test_is_in_the_list() {
    let told: BTreeSet<&str> = STORIES.iter().flat_map(|(_, source)| tests(source)).collect();
    let listed: Vec<&str> = FAULTS
        .iter()
        .filter_map(|fault| match fault.shown {
            Shown::Both { test, .. } => Some(test),
            Shown::Elsewhere(_) => None,
        })
        .collect();
    assert_eq!(listed.len(), listed.iter().collect::<BTreeSet<_>>().len(), "one line for each");
    assert_eq!(told, listed.into_iter().collect());
}

/// Which file tells a story.
fn file(test: &str) -> &'static str {
    STORIES.iter().find(|(_, source)| tests(source).any(|name| name == test)).unwrap().0
}

fn table() -> String {
    let mut table =
        "| fault | seen in | etcd 3.5.1 | tenure | test |\n|---|---|---|---|---|\n".to_owned();
    for fault in FAULTS {
        let (what, source) = (fault.what, fault.source);
        match fault.shown {
            Shown::Both { test, etcd, tenure } => {
                let file = file(test);
                writeln!(table, "| {what} | {source} | {etcd} | {tenure} | `{file}::{test}` |")
            }
            Shown::Elsewhere(place) => writeln!(table, "| {what} | {source} | | | {place} |"),
        }
        .unwrap();
    }
    table
}

#[test]
fn the_page_shows_the_list() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/PEER_FAULTS.md");
    let found = fs::read_to_string(&page).unwrap();
    let from = found.find(BEGIN).expect("the page has a place for the table") + BEGIN.len();
    let to = found.find(END).expect("the place has an end");
    let fresh = format!("{}{}{}", &found[..from], table(), &found[to..]);
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::write(&page, fresh).unwrap();
    } else {
        let stale = "docs/PEER_FAULTS.md is stale: run this test with UPDATE_GOLDENFILES=1";
        assert!(found == fresh, "{stale}");
    }
}
