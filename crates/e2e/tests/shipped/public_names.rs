//! One word stands for one thing: no two public types of the product have the same name.

use std::{collections::BTreeMap, fs, path::Path};

/// Names that two public types share, and why.
const SHARED: [(&str, &str); 7] = [
    ("Auth", "the client's half of the service, and all users and roles of the replica"),
    ("Candidate", "what the library shows of a candidate, and the replicated record of it"),
    ("Election", "the library's handle of an election, and the replicated record of it"),
    ("Elections", "the client's half of the service, and all elections of the replica"),
    ("Lease", "the client's half of the service, and the replicated record of a lease"),
    ("Session", "the library's handle of a session, and the replicated record of it"),
    ("Tenure", "what the library shows of a tenure, and the replicated record of it"),
];

/// Alternatives of which a build has one.
const ALTERNATIVES: [&str; 1] = ["Traces"];

#[test]
fn public_type_names_stand_for_one_thing() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // The tools of the tests are no part of the product.
        if name.starts_with("e2e") || name == "damage" {
            continue;
        }
        look(&path.join("src"), &mut places);
    }
    assert!(places.len() > 300, "the sources were not found: {}", places.len());
    let expected = |name: &str| {
        SHARED.iter().any(|(shared, _)| *shared == name) || ALTERNATIVES.contains(&name)
    };
    let twice: Vec<_> =
        places.iter().filter(|(name, at)| at.len() > 1 && !expected(name)).collect();
    assert!(twice.is_empty(), "give each its own name, or a reason in this file: {twice:#?}");
    let stale = SHARED.iter().filter(|(name, _)| places.get(*name).is_none_or(|at| at.len() < 2));
    assert_eq!(
        stale.collect::<Vec<_>>(),
        Vec::<&(&str, &str)>::new(),
        "these are not shared any more"
    );
}

/// Notes the public types of all files in a folder.
fn look(folder: &Path, places: &mut BTreeMap<String, Vec<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            look(&path, places);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            for line in fs::read_to_string(&path).unwrap().lines() {
                let kinds = ["pub struct ", "pub enum ", "pub trait "];
                let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) else {
                    continue;
                };
                let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
                places.entry(rest[..end].to_owned()).or_default().push(path.display().to_string());
            }
        }
    }
}
