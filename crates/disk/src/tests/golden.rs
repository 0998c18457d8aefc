//! What lies on a disk around the replica's own bytes: records and batches of the log, labels, snapshot files.

use std::fs;

use tenure_api::ClusterId;
use tenure_damage::Golden;
use tenure_replica::codec::DecodeError;

use super::*;
use crate::{
    Identity, NewCluster,
    batch::{BatchBuffer, BatchHeader},
    founders::{read_founders, write_founders},
    label::Boot,
    record::{Record, put_persist, put_snapshot, put_start, records},
    segment::{SEGMENT_HEADER_BYTES, prepare_segment},
};

const FILE: &str = include_str!("samples/golden.txt");
const DIRECTORY: u64 = 0xfedc_ba98_7654_3210;

fn while_members_change() -> SnapshotMark {
    SnapshotMark { outgoing: vec![MemberId(1)], ..mark(300, 3) }
}

fn change() -> Entry {
    Entry { kind: EntryKind::Membership, ..entry(301, 3) }
}

fn log_records() -> Vec<(&'static str, Record, Vec<u8>)> {
    let hard_state = vote(3, 2, 300);
    let made = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut out = vec![];
        put(&mut out);
        out
    };
    let persist = |persist: Persist| made(&|out| put_persist(out, &persist));
    let one = |entry| Persist { entries: vec![entry], ..Persist::default() };
    vec![
        (
            "record 1 start",
            Record::Start { next_index: 301, hard_state },
            made(&|out| put_start(out, 301, &hard_state)),
        ),
        ("record 2 hard state", Record::HardState(hard_state), persist(voting(hard_state))),
        (
            "record 3 snapshot",
            Record::Snapshot(mark(300, 3)),
            made(&|out| put_snapshot(out, &mark(300, 3))),
        ),
        (
            "record 3 snapshot while the members change",
            Record::Snapshot(while_members_change()),
            made(&|out| put_snapshot(out, &while_members_change())),
        ),
        ("record 4 entry", Record::Entry(entry(301, 3)), persist(one(entry(301, 3)))),
        ("record 4 entry of the members", Record::Entry(change()), persist(one(change()))),
    ]
}

fn batch() -> (Vec<u8>, u32) {
    let mut buffer = BatchBuffer::default();
    put_persist(buffer.start(), &appending(301..=302, 3));
    let (bytes, crc) = buffer.seal(DIRECTORY as u32, 7, 6, 0x1122_3344);
    (bytes.to_vec(), crc)
}

fn segment(home: &Path) -> Vec<u8> {
    prepare_segment(&Files, home, DIRECTORY, 5, 1024, &false.into()).unwrap();
    let file = fs::read_dir(home).unwrap().next().unwrap().unwrap().path();
    fs::read(file).unwrap()[..SEGMENT_HEADER_BYTES as usize].to_vec()
}

fn identity(joined: bool) -> Identity {
    Identity { cluster_id: ClusterId(0x1122_3344_5566_7788), member_id: MemberId(9), joined }
}

fn new_cluster() -> NewCluster {
    NewCluster { before: Some(ClusterId(5)), cluster_id: ClusterId(6) }
}

/// A function that writes a label, and one that reads it and says whether it is the same.
type Label = (&'static str, fn(&Path), fn(&Path) -> bool);

const LABELS: &[Label] = &[
    (
        "label boot",
        |path| Boot { directory: DIRECTORY, count: 300 }.write(&Files, path).unwrap(),
        |path| Boot::read(&Files, path).unwrap() == Some(Boot { directory: DIRECTORY, count: 300 }),
    ),
    (
        "label identity of a founder",
        |path| identity(false).write(&Files, path).unwrap(),
        |path| Identity::read(&Files, path).unwrap() == Some(identity(false)),
    ),
    (
        "label identity of one that joined",
        |path| identity(true).write(&Files, path).unwrap(),
        |path| Identity::read(&Files, path).unwrap() == Some(identity(true)),
    ),
    (
        "label removed",
        |path| identity(false).write_removed(&Files, path).unwrap(),
        |path| Identity::was_removed(&Files, path).unwrap(),
    ),
    (
        "label refounded",
        |path| new_cluster().write(&Files, path).unwrap(),
        |path| NewCluster::read(&Files, path).unwrap() == Some(new_cluster()),
    ),
    (
        "label founders",
        |path| write_founders(&Files, path, &founders()).unwrap(),
        |path| read_founders(&Files, path).unwrap() == Some(founders()),
    ),
];

fn label(home: &Path, write: fn(&Path)) -> Vec<u8> {
    write(&home.join("label"));
    fs::read(home.join("label")).unwrap()
}

#[test]
fn what_lies_on_a_disk_is_the_bytes_that_it_always_was() {
    let home = tempfile::tempdir().unwrap();
    let made = |name: &str, bytes| (name.to_owned(), bytes);
    let mut all: Vec<_> =
        log_records().into_iter().map(|(name, _, bytes)| made(name, bytes)).collect();
    all.push(made("batch", batch().0));
    all.push(made("segment header", segment(home.path())));
    all.extend(LABELS.iter().map(|(name, write, _)| made(name, label(home.path(), *write))));
    fs::create_dir(home.path().join("snap")).unwrap();
    let snapshot = save(home.path(), mark(300, 3)).path;
    all.push(made("snapshot file", fs::read(&snapshot).unwrap()));

    let golden = Golden::read(FILE);
    golden.is_what_is_made(&all);
    for (name, record, _) in log_records() {
        let read: Vec<_> = records(golden.bytes(name)).collect();
        assert_eq!(read, [(0, Ok(record))], "{name}");
    }
    let header = BatchHeader::parse(golden.bytes("batch"), DIRECTORY as u32).unwrap();
    let numbers = (header.number, header.durable, header.previous, header.crc);
    assert_eq!(numbers, (7, 6, 0x1122_3344, batch().1));
    for (name, _, is_same) in LABELS {
        let path = home.path().join("label");
        fs::write(&path, golden.bytes(name)).unwrap();
        assert!(is_same(&path), "{name}");
    }
}

#[test]
fn a_record_that_can_be_read_has_a_sample() {
    let golden = Golden::read(FILE);
    for tag in 0..=u8::MAX {
        let record = [0, 0, 0, 0, tag];
        let read = records(&record).next().unwrap().1;
        if read != Err(DecodeError::UnknownTag { what: "log record", tag }) {
            assert!(golden.has(&format!("record {tag}")), "record {tag} has no sample");
        }
    }
}
