use super::*;

#[test]
fn what_was_appended_is_recovered() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, recovered) = open(home.path());
    assert_eq!(recovered.hard_state, HardState::default());
    assert!(recovered.entries.is_empty() && recovered.snapshot.is_none());
    data.wal.append(&[voting(vote(1, 2, 0)), appending(1..=3, 1)]).unwrap();
    data.wal.append(&[appending(4..=4, 1), voting(vote(1, 2, 3))]).unwrap();
    drop(data);
    let (_data, recovered) = open(home.path());
    assert_eq!(recovered.entries, entries(1..=4, 1));
    assert_eq!(recovered.hard_state, vote(1, 2, 3));
    assert_eq!(recovered.torn, None);
}

#[test]
fn a_conflicting_entry_replaces_all_that_follow() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    data.wal.append(&[appending(1..=5, 1)]).unwrap();
    data.wal.append(&[appending(3..=3, 2)]).unwrap();
    drop(data);
    let (_data, recovered) = open(home.path());
    assert_eq!(recovered.entries, [entries(1..=2, 1), entries(3..=3, 2)].concat());
}

#[test]
fn a_commit_index_alone_is_not_flushed_but_survives_the_process() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    let (_, flushed_in) = data.wal.append(&[voting(vote(1, 1, 0)), appending(1..=2, 1)]).unwrap();
    assert!(flushed_in.is_some());
    let (_, flushed_in) = data.wal.append(&[voting(vote(1, 1, 2))]).unwrap();
    assert!(flushed_in.is_none());
    let (_, flushed_in) = data.wal.append(&[voting(vote(2, 1, 2))]).unwrap();
    assert!(flushed_in.is_some());
    drop(data);
    assert_eq!(open(home.path()).1.hard_state, vote(2, 1, 2));
}

#[test]
fn the_log_goes_on_in_the_next_segment() {
    let home = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let (mut data, recovered) = open(home.path());
        assert_eq!(recovered.boot, round + 1);
        assert_eq!(recovered.entries, entries(1..=round * 10, 1));
        for index in round * 10 + 1..=round * 10 + 10 {
            data.wal.append(&[appending(index..=index, 1)]).unwrap();
        }
    }
    assert!(segments(home.path()) > 3);
}

#[test]
fn a_batch_larger_than_a_segment_gets_a_segment_of_its_size() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    let large = Entry { data: Bytes::from(vec![7; 10_000]), ..entry(2, 1) };
    data.wal.append(&[appending(1..=1, 1)]).unwrap();
    data.wal.append(&[Persist { entries: vec![large.clone()], ..Persist::default() }]).unwrap();
    data.wal.append(&[appending(3..=3, 1)]).unwrap();
    drop(data);
    let (_data, recovered) = open(home.path());
    assert_eq!(recovered.entries, [entry(1, 1), large, entry(3, 1)]);
}

#[test]
fn released_segments_are_deleted_and_the_vote_stays() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    data.wal.append(&[voting(vote(4, 2, 0))]).unwrap();
    for index in 1..=200 {
        data.wal.append(&[appending(index..=index, 4)]).unwrap();
    }
    let before = segments(home.path());
    save(home.path(), mark(180, 4));
    data.wal.release(180).unwrap();
    drop(data);
    assert!(segments(home.path()) < before / 2);
    let (mut data, recovered) = open(home.path());
    assert_eq!(recovered.hard_state, vote(4, 2, 180));
    assert_eq!(recovered.entries, entries(181..=200, 4));
    assert_eq!(recovered.snapshot.unwrap().mark, mark(180, 4));
    data.wal.append(&[appending(201..=201, 4)]).unwrap();
    drop(data);
    assert_eq!(open(home.path()).1.entries, entries(181..=201, 4));
}

#[test]
fn an_installed_snapshot_starts_the_log_anew() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    data.wal.append(&[appending(1..=5, 1)]).unwrap();
    save(home.path(), mark(100, 3));
    let installed = Persist { snapshot: Some(mark(100, 3)), ..appending(101..=102, 3) };
    data.wal.append(&[installed]).unwrap();
    drop(data);
    let (_data, recovered) = open(home.path());
    assert_eq!(recovered.entries, entries(101..=102, 3));
    assert_eq!(recovered.snapshot.unwrap().mark, mark(100, 3));
    assert_eq!((recovered.hard_state.term, recovered.hard_state.commit), (Term(3), 100));
}

/// The crash came after the snapshot's file was renamed and before the log heard of it.
#[test]
fn a_snapshot_ahead_of_the_log_is_taken_and_the_log_goes_on_after_it() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    data.wal.append(&[voting(vote(2, 1, 4)), appending(1..=5, 2)]).unwrap();
    save(home.path(), mark(100, 3));
    drop(data);
    let (mut data, recovered) = open(home.path());
    assert_eq!(recovered.entries, []);
    assert_eq!(recovered.hard_state, HardState { term: Term(3), vote: None, commit: 100 });
    data.wal.append(&[appending(101..=101, 3)]).unwrap();
    drop(data);
    assert_eq!(open(home.path()).1.entries, entries(101..=101, 3));
}

#[test]
fn a_snapshot_that_contradicts_uncommitted_entries_wins() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    data.wal.append(&[voting(vote(2, 1, 4)), appending(1..=9, 2)]).unwrap();
    save(home.path(), mark(7, 3));
    drop(data);
    assert_eq!(open(home.path()).1.entries, []);
}

#[test]
fn entries_that_a_snapshot_covers_are_left_out() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    data.wal.append(&[voting(vote(2, 1, 7)), appending(1..=9, 2)]).unwrap();
    save(home.path(), mark(7, 2));
    drop(data);
    assert_eq!(open(home.path()).1.entries, entries(8..=9, 2));
}

#[test]
fn a_log_without_the_snapshot_it_builds_on_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    let saved = save(home.path(), mark(100, 3));
    let installed = Persist { snapshot: Some(mark(100, 3)), ..appending(101..=102, 3) };
    data.wal.append(&[installed]).unwrap();
    drop(data);
    std::fs::remove_file(saved.path).unwrap();
    let error = try_open(home.path()).unwrap_err();
    assert!(error.to_string().contains("begins after index 100"), "{error}");
}

pub(super) fn segments(home: &Path) -> usize {
    let names = std::fs::read_dir(home.join("wal")).unwrap();
    names.filter(|name| name.as_ref().unwrap().path().extension().unwrap() == "wal").count()
}
