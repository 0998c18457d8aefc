//! `tenure debug wal`: the log of a member, of a sound one, a torn one and a damaged one.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    process::Command,
};

use serde_json::Value;
use tenure_e2e::{Cluster, Ctl, tools};

struct Dump {
    code: Option<i32>,
    out: String,
    err: String,
}

fn debug_wal(dir: &Path, args: &[&str]) -> Dump {
    let mut command = Command::new(tools::tenure());
    let said = command.args(["debug", "wal"]).arg(dir).args(args).output().unwrap();
    Dump {
        code: said.status.code(),
        out: String::from_utf8(said.stdout).unwrap(),
        err: String::from_utf8(said.stderr).unwrap(),
    }
}

fn json(dir: &Path, args: &[&str]) -> Vec<Value> {
    let said = debug_wal(dir, &[&["-w", "json"], args].concat());
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every file below a directory: its content and when it was changed.
fn contents(dir: &Path) -> BTreeMap<String, (Vec<u8>, i64, i64)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let (path, meta) = (entry.path(), entry.metadata().unwrap());
        if meta.is_dir() {
            found.extend(contents(&path));
        } else {
            let name = path.display().to_string();
            found.insert(name, (fs::read(&path).unwrap(), meta.mtime(), meta.mtime_nsec()));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_wal_shows_every_entry_and_changes_nothing() {
    let mut cluster = Cluster::start(1).await;
    let ctl = Ctl::ours(&cluster.members[0]);
    ctl.run(&["put", "color", "blue"]).ok();
    ctl.run(&["del", "color"]).ok();
    ctl.run(&["lease", "grant", "60"]).ok();
    let dir = cluster.members[0].data_dir.clone();

    let said = debug_wal(&dir, &["--summary"]);
    assert!(said.err.contains("is in use"), "{}", said.err);
    cluster.members[0].stop().await;

    let before = contents(&dir);
    let said = debug_wal(&dir, &[]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    for part in [
        "no snapshot",
        "segment starts before entry 1, term 0 vote none commit 0",
        " entry 1 term 1 empty",
        " put \"color\" \"blue\"",
        " delete \"color\"",
        " lease-grant ",
        "\nsound\n",
    ] {
        assert!(said.out.contains(part), "{part} is missing in\n{}", said.out);
    }
    assert_eq!(contents(&dir), before, "it only reads");

    let all = json(&dir, &[]);
    let entries: Vec<&Value> = all.iter().filter(|row| row["record"] == "entry").collect();
    let indices: Vec<u64> = entries.iter().map(|row| row["index"].as_u64().unwrap()).collect();
    assert_eq!(indices, (1..=indices.len() as u64).collect::<Vec<_>>());
    let put = entries.iter().flat_map(|row| row["batches"].as_array().unwrap());
    let mut put = put.flat_map(|batch| batch["commands"].as_array().unwrap());
    let put = put.find(|command| command["command"] == "put").unwrap();
    assert_eq!((put["key"].as_str(), put["value"].as_str()), (Some("Y29sb3I="), Some("Ymx1ZQ==")));

    let some = json(&dir, &["--from", "2", "--to", "3"]);
    let indices: Vec<_> = some.iter().filter_map(|row| row["index"].as_u64()).collect();
    assert_eq!(indices, [2, 3]);
    let summary = json(&dir, &["--summary"]);
    assert_eq!(summary.len(), 2);
    assert_eq!(summary[1]["entries"].as_u64(), Some(entries.len() as u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_wal_names_what_is_torn_and_what_is_damaged() {
    let mut cluster = Cluster::start(1).await;
    let ctl = Ctl::ours(&cluster.members[0]);
    for value in ["1", "2", &"x".repeat(4000)] {
        ctl.run(&["put", "k", value]).ok();
    }
    cluster.members[0].kill();
    let dir = cluster.members[0].data_dir.clone();
    let rows = json(&dir, &[]);
    let offsets: Vec<u64> = rows
        .iter()
        .filter(|row| row["record"] == "entry")
        .filter_map(|row| row["offset"].as_u64())
        .collect();
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let segment = cluster.members[0].files("wal").remove(0);
    let file = File::options().read(true).write(true).open(&segment).unwrap();
    let flip = |at: u64| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[!byte[0]], at).unwrap();
    };

    // Later batches were written after the first had been flushed.
    flip(first);
    let said = debug_wal(&dir, &[]);
    assert_eq!(said.code, Some(1), "{}", said.out);
    let damaged = said.out.lines().find(|line| line.starts_with("damaged: ")).unwrap();
    assert!(damaged.contains(".wal") && damaged.contains("flushed"), "{damaged}");
    flip(first);
    assert_eq!(debug_wal(&dir, &[]).code, Some(0));

    // A sector of the last batch never reached the disk: the write was not finished, and nothing followed from it.
    let sector = (last + 1024) / 512 * 512;
    file.write_all_at(&[0; 512], sector).unwrap();
    let said = debug_wal(&dir, &[]);
    assert_eq!(said.code, Some(0), "{}", said.out);
    assert!(said.out.contains("torn: "), "{}", said.out);
    assert!(!said.out.contains("(4000 bytes)"), "{}", said.out);
    let end = json(&dir, &["--summary"]).remove(1);
    assert!(end["torn"]["offset"].as_u64().unwrap() <= last, "{end}");

    let none = debug_wal(&dir.join("nothing"), &[]);
    assert_eq!(none.code, Some(1));
    assert!(none.err.contains("not the data directory of a member"), "{}", none.err);
}
