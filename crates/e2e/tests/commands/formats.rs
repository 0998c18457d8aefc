//! Every verb that writes results, in every format: as docs/reference/command.md has it.

use serde_json::Value;
use tenure_e2e::{Cluster, Ctl, Said, eventually, tools};

const FORMATS: [&str; 3] = ["fields", "json", "table"];

/// The rows of the page: a verb, and whether it has each of the formats.
fn page() -> Vec<(String, [bool; 3])> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/command.md");
    let page = std::fs::read_to_string(path).unwrap();
    let table = page.split("| verb | `fields` | `json` | `table` |\n").nth(1).unwrap();
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].trim_matches('`').to_owned(), [1, 2, 3].map(|cell| cells[cell] == "yes"))
    });
    rows.collect()
}

/// What to type after a verb, and the exit code. None: it does not end by itself, or needs more than one member.
fn sample(verb: &str) -> Option<(Vec<&'static str>, i32)> {
    let (words, code) = match verb {
        "leader" => ("none", 3),
        "candidates" | "history" | "freeze" => ("none", 0),
        "resume" => ("none", 1),
        "evict" | "resign" => ("none", 3),
        "locks" | "sessions" | "status" | "version" | "doctor" => ("", 0),
        "once" => ("job --history", 0),
        "put" => ("k v", 0),
        "get" => ("k", 0),
        "del" => ("gone", 0),
        "lease grant" => ("60", 0),
        "lease list" | "member list" | "alarm list" | "alarm disarm" => ("", 0),
        "endpoint health" | "endpoint status" | "endpoint hashkv" => ("", 0),
        "compact" => ("1", 1),
        "defrag" => ("", 0),
        "lab list" => ("", 0),
        "lab run" => ("bully-crash", 0),
        _ => return None,
    };
    Some((words.split_whitespace().collect(), code))
}

/// What a verb that is not run is given, to be refused.
fn words_to_refuse(verb: &str) -> Option<Vec<&'static str>> {
    let words = match verb {
        "txn" | "snapshot save" | "snapshot status" => return None,
        "watch" => "k",
        "lease revoke" | "lease timetolive" | "lease keep-alive" => "1a",
        "member add" => "n9 --peer-urls http://127.0.0.1:9",
        "member promote" | "member remove" => "n9",
        "member update" => "n9 --peer-urls http://127.0.0.1:9",
        "snapshot restore" => "x --data-dir y",
        "debug wal" => "x",
        "lab compare" => "bully",
        "lab soak" => "",
        "bench" => "put",
        _ => return None,
    };
    Some(words.split_whitespace().collect())
}

fn written(verb: &str, format: &str, said: &Said) {
    match format {
        "json" => {
            for line in said.out.lines() {
                let value: Value = serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("{verb}: {error} in {line}"));
                let of_etcdctl = verb.starts_with("endpoint ");
                assert!(value.is_object() || of_etcdctl, "{verb}: {line}");
            }
        }
        "table" => {
            assert!(said.out.is_empty() || said.out.starts_with("+-"), "{verb}: {}", said.out)
        }
        _ => {
            let is_field = |line: &&str| line.starts_with('"') && line.contains("\" : ");
            let strange = said.out.lines().find(|line| !line.is_empty() && !is_field(line));
            assert_eq!(strange, None, "{verb}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn formats_of_every_verb_are_those_of_the_page() {
    let cluster = Cluster::start(1).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    eventually("the first write is taken", async || match ctl.run(&["put", "k", "0"]) {
        put if put.code == Some(0) => Ok(()),
        not_yet => Err(not_yet.err),
    })
    .await;
    let rows = page();
    assert!(rows.len() > 40, "{rows:?}");
    for (verb, has) in rows {
        let path: Vec<&str> = verb.split(' ').collect();
        for (format, has) in FORMATS.iter().zip(has) {
            let run =
                |words: &[&str]| ctl.run(&[&path[..], words, &["--write-out", format]].concat());
            match (sample(&verb), has) {
                (Some((words, code)), true) => {
                    let said = run(&words);
                    let codes = [Some(code), Some(0)];
                    assert!(codes.contains(&said.code), "{verb} {format}: {said:?}");
                    written(&verb, format, &said);
                }
                (sample, false) => {
                    let words = sample.map(|(words, _)| words).or_else(|| words_to_refuse(&verb));
                    let Some(words) = words else { continue };
                    let said = run(&words);
                    assert_eq!(said.code, Some(2), "{verb} {format}: {said:?}");
                    assert!(said.err.contains("there are simple"), "{verb} {format}: {said:?}");
                }
                (None, true) => {}
            }
        }
    }
    // What was refused was not done.
    assert_eq!(ctl.run(&["put", "untouched", "v", "-w", "table"]).code, Some(2));
    assert_eq!(ctl.run(&["get", "untouched"]).ok(), "");
    let none = ctl.run(&["leader", "none", "-w", "json"]);
    assert_eq!(none.out.trim(), r#"{"name":"none","leader":null,"frozen":false}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_named_by_name_or_id() {
    let cluster = Cluster::start(3).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    let status = ctl.run(&["status", "-w", "json"]).ok();
    let rows: Vec<Value> = status.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut names: Vec<&str> = rows.iter().map(|row| row["Name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let mut known: Vec<&str> = cluster.members.iter().map(|member| &member.name[..]).collect();
    known.sort_unstable();
    assert_eq!(names, known);
    assert!(rows.iter().all(|row| row["Tenure"].is_string()), "{status}");
    let table = ctl.run(&["status", "-w", "table"]).ok();
    assert!(table.contains("| NAME ") && table.contains(" TENURE "), "{table}");

    let follows = |row: &&Value| row["Status"]["leader"] != row["Status"]["header"]["member_id"];
    let follower = rows.iter().find(follows).unwrap();
    let (name, id) =
        (&follower["Name"], follower["Status"]["header"]["member_id"].as_u64().unwrap());
    let moved = ctl.run(&["move-leader", name.as_str().unwrap()]).ok();
    assert!(moved.trim_end().ends_with(&format!(" to {id:x}")), "{moved}");
    let unknown = ctl.run(&["member", "remove", "nemo"]);
    assert!(unknown.code == Some(2) && unknown.err.contains("member not found"), "{unknown:?}");
    ctl.run(&["member", "remove", name.as_str().unwrap()]).ok();
    let left = ctl.run(&["member", "list"]).ok();
    assert!(!left.contains(name.as_str().unwrap()), "{left}");
}
