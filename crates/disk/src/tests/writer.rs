use std::{fs::File, sync::mpsc};

use super::*;
use crate::WriterEvent;

fn numbered(number: u64) -> Persist {
    Persist { number, ..appending(number..=number, 1) }
}

#[test]
fn everything_submitted_is_persisted_in_order_and_survives_a_close() {
    let home = tempfile::tempdir().unwrap();
    let (data, _) = open(home.path());
    let (events, heard) = mpsc::channel();
    let writer = data.start_writer(move |event| events.send(event).unwrap());
    for number in 1..=1000 {
        writer.submit(numbered(number));
    }
    let mut persisted = 0;
    while persisted < 1000 {
        let WriterEvent::Persisted { number, flushed_in, bytes, .. } = heard.recv().unwrap() else {
            panic!("the disk failed");
        };
        assert!(number > persisted && flushed_in.is_some() && bytes > 0);
        persisted = number;
    }
    assert_eq!(writer.queued_bytes(), 0);
    assert!(writer.bytes_since_release() > 1000);
    writer.submit(numbered(1001));
    writer.close();
    let (_data, recovered) = open(home.path());
    assert_eq!(recovered.entries, entries(1..=1001, 1));
    assert_eq!(recovered.torn, None);
}

#[test]
fn a_release_deletes_old_segments() {
    let home = tempfile::tempdir().unwrap();
    let (data, _) = open(home.path());
    let (events, heard) = mpsc::channel();
    let writer = data.start_writer(move |event| events.send(event).unwrap());
    for number in 1..=300 {
        writer.submit(numbered(number));
        heard.recv().unwrap();
    }
    let before = super::log::segments(home.path());
    save(home.path(), mark(300, 1));
    writer.release(300);
    assert_eq!(writer.bytes_since_release(), 0);
    writer.close();
    assert!(before > 5 && super::log::segments(home.path()) == 1);
    assert_eq!(open(home.path()).1.snapshot.unwrap().mark.index, 300);
}

#[test]
fn a_failed_write_ends_the_thread_and_nothing_more_is_acknowledged() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    let (path, _) = data.wal.position();
    data.wal.replace_file(File::open(path).unwrap());
    let (events, heard) = mpsc::channel();
    let writer = data.start_writer(move |event| events.send(event).unwrap());
    writer.submit(numbered(1));
    let WriterEvent::Failed(error) = heard.recv().unwrap() else { panic!("it cannot have worked") };
    assert!(error.to_string().starts_with("cannot write"), "{error}");
    writer.submit(numbered(2));
    writer.close();
    assert!(heard.recv().is_err());
}

#[test]
fn a_segment_that_cannot_be_made_is_a_failure_only_when_it_is_needed() {
    let home = tempfile::tempdir().unwrap();
    let (data, _) = open(home.path());
    std::fs::remove_dir_all(home.path().join("wal")).unwrap();
    let (events, heard) = mpsc::channel();
    let writer = data.start_writer(move |event| events.send(event).unwrap());
    let mut persisted = 0;
    let error = (1..).find_map(|number| {
        writer.submit(numbered(number));
        match heard.recv().unwrap() {
            WriterEvent::Persisted { number, .. } => {
                persisted = number;
                None
            }
            WriterEvent::Failed(error) => Some(error),
        }
    });
    assert!(persisted > 3);
    let error = error.unwrap().to_string();
    assert!(error.contains(".wal.tmp"), "{error}");
}
