//! The list of others' faults is whole: every story in it is told by a test, every such test is in it, whatever
//! else it names is there, and `docs/records/peer-faults.md` shows it as it is.

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use tenure_e2e::faults::{Shown, faults};

const STORIES: [(&str, &str); 6] = [
    ("peer_faults_elections", include_str!("peer_faults_elections.rs")),
    ("peer_faults_failover", include_str!("peer_faults_failover.rs")),
    ("peer_faults_locks", include_str!("peer_faults_locks.rs")),
    ("peer_faults_sessions", include_str!("peer_faults_sessions.rs")),
    ("peer_faults_observers", include_str!("peer_faults_observers.rs")),
    ("peer_faults_watches", include_str!("peer_faults_watches.rs")),
];

/// The cases that run on every engine are listed here.
const CASES: &str = include_str!("recipes.rs");

/// The table stands between these.
const BEGIN: &str = "<!-- faults: begin -->\n";
const END: &str = "<!-- faults: end -->";

/// The tests of a file.
fn tests(source: &str) -> impl Iterator<Item = &str> {
    let after = source.split("#[tokio::test(flavor = \"multi_thread\")]\nasync fn ").skip(1);
    after.map(|rest| rest.split('(').next().unwrap())
}

#[test]
fn peer_faults_all_have_tests_and_all_tests_are_in_the_list() {
    let told: BTreeSet<&str> = STORIES.iter().flat_map(|(_, source)| tests(source)).collect();
    let listed: Vec<&str> = faults()
        .filter_map(|fault| match fault.shown {
            Shown::Both { test, .. } => Some(test),
            Shown::Ours { .. } => None,
        })
        .collect();
    assert_eq!(listed.len(), listed.iter().collect::<BTreeSet<_>>().len(), "one line for each");
    assert_eq!(told, listed.into_iter().collect());
}

/// The checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether this file has a test of this name, or a case that is listed.
fn is_run(path: &str, test: &str) -> bool {
    let source = fs::read_to_string(root().join("crates").join(path)).unwrap_or_default();
    let Some(at) = source.find(&format!("fn {test}(")) else { return false };
    if path.starts_with("e2e/src/recipes/") {
        let mut words = CASES.split(|c: char| !c.is_alphanumeric() && c != '_');
        return words.any(|word| word == test);
    }
    // What stands above it, up to an empty line.
    let above = source[..at].rsplit("\n\n").next().unwrap_or_default();
    above.contains("#[test]") || above.contains("#[tokio::test")
}

#[test]
fn peer_faults_name_tests_that_exist() {
    let mut missing = vec![];
    for fault in faults() {
        let Shown::Ours { tests, .. } = fault.shown else { continue };
        assert!(tests.iter().any(|(_, names)| !names.is_empty()), "no test: {}", fault.what);
        for (path, names) in tests {
            let gone = names.iter().filter(|name| !is_run(path, name));
            missing.extend(gone.map(|name| format!("{path}::{name}")));
        }
    }
    assert!(missing.is_empty(), "not there: {missing:#?}");
}

/// The files that a text names: with their whole path between backticks, or as links of a page in `docs/records`.
fn files(text: &str) -> Vec<PathBuf> {
    let quoted = text.split('`').skip(1).step_by(2).filter(|quoted| quoted.starts_with("crates/"));
    let linked = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let linked = linked.map(|page| root().join("docs/records").join(page));
    quoted.map(|path| root().join(path)).chain(linked).collect()
}

#[test]
fn peer_faults_name_files_that_exist() {
    for fault in faults() {
        let Shown::Ours { says: text, .. } = fault.shown else { continue };
        for file in files(text) {
            assert!(file.exists(), "{}: there is no {}", fault.what, file.display());
        }
    }
}

/// Which file tells a story.
fn file(test: &str) -> String {
    let tells = STORIES.iter().find(|(_, source)| tests(source).any(|name| name == test));
    format!("e2e/tests/elections/{}.rs", tells.unwrap().0)
}

/// A test, as a page in `docs/records` shows it.
fn link(path: &str, test: &str) -> String {
    format!("[`{test}`](../../crates/{path})")
}

fn table() -> String {
    let mut table =
        "| fault | seen in | etcd 3.5.1 | tenure | test |\n|---|---|---|---|---|\n".to_owned();
    for fault in faults() {
        let (what, source) = (fault.what, fault.source);
        match fault.shown {
            Shown::Both { test, etcd, tenure } => {
                let shown = link(&file(test), test);
                writeln!(table, "| {what} | {source} | {etcd} | {tenure} | {shown} |")
            }
            Shown::Ours { tests, says } => {
                let links = tests
                    .iter()
                    .flat_map(|(path, names)| names.iter().map(move |name| link(path, name)));
                let shown = links.collect::<Vec<_>>().join(", ");
                writeln!(table, "| {what} | {source} | | {says} | {shown} |")
            }
        }
        .unwrap();
    }
    table
}

#[test]
fn peer_faults_page_shows_the_list() {
    let page = root().join("docs/records/peer-faults.md");
    let found = fs::read_to_string(&page).unwrap();
    let from = found.find(BEGIN).expect("the page has a place for the table") + BEGIN.len();
    let to = found.find(END).expect("the place has an end");
    let fresh = format!("{}{}{}", &found[..from], table(), &found[to..]);
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::write(&page, fresh).unwrap();
    } else {
        let stale = "docs/records/peer-faults.md is stale: run this test with UPDATE_GOLDENFILES=1";
        assert!(found == fresh, "{stale}");
    }
}
