//! Random logs, damaged at random, against a naive model.
//!
//! The rule to hold: what is recovered is the state after some whole batch; nothing that a later
//! batch calls flushed is ever missing; and a refusal names the file.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use proptest::{prelude::*, sample::Index};

use super::*;
use crate::batch::{BATCH_HEADER_BYTES, BatchHeader};

/// One batch: a vote or a commit, then entries that go back a bit and on a bit.
#[derive(Clone, Debug)]
struct Step {
    hard_state: Option<(u64, u64)>,
    back: u64,
    count: u64,
    bytes: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (prop::option::of((0..2u64, 1..4u64)), 0..3u64, 0..4u64, 0..200usize)
        .prop_map(|(hard_state, back, count, bytes)| Step { hard_state, back, count, bytes });
    prop::collection::vec(step, 1..40)
}

#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    hard_state: HardState,
    entries: Vec<Entry>,
}

impl State {
    fn of(recovered: &RecoveredLog) -> State {
        State { hard_state: recovered.hard_state, entries: recovered.entries.clone() }
    }

    /// Turns a step into a write, and does the same to itself.
    fn follow(&mut self, number: usize, step: &Step) -> Persist {
        let hard_state = step.hard_state.map(|(terms, vote)| HardState {
            term: Term(self.hard_state.term.0 + terms),
            vote: Some(MemberId(if terms == 0 { 9 } else { vote })),
            commit: self.hard_state.commit,
        });
        self.hard_state = hard_state.unwrap_or(self.hard_state);
        let kept = self.entries.len().saturating_sub(step.back as usize);
        let entries: Vec<Entry> = (0..step.count)
            .map(|at| Entry {
                term: Term(number as u64),
                index: kept as u64 + at + 1,
                kind: EntryKind::Membership,
                data: vec![number as u8; step.bytes].into(),
            })
            .collect();
        if !entries.is_empty() {
            self.entries.truncate(kept);
            self.entries.extend(entries.iter().cloned());
        }
        Persist { number: number as u64, hard_state, entries, ..Persist::default() }
    }
}

/// A log that was written, batch by batch.
struct Written {
    home: tempfile::TempDir,
    /// The state after each batch; the first is that of an empty log.
    states: Vec<State>,
    /// Where each batch ends.
    ends: Vec<(PathBuf, u64)>,
    /// The newest batch that the last one vouches for.
    vouched: usize,
}

fn write(steps: &[Step]) -> Written {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    let mut state = State::default();
    let mut written =
        Written { states: vec![state.clone()], ends: vec![data.wal.position()], vouched: 0, home };
    for (number, step) in steps.iter().enumerate() {
        let persist = state.follow(number + 1, step);
        written.vouched = data.wal.durable() as usize;
        let segment = data.wal.position().0;
        data.wal.append(&[persist]).unwrap();
        written.states.push(state.clone());
        written.ends.push(data.wal.position());
        if segment != data.wal.position().0 {
            // Whatever lies in an earlier segment was flushed before this one was begun.
            written.vouched = number;
        }
    }
    written
}

impl Written {
    fn last_segment(&self) -> (&PathBuf, u64) {
        let (path, end) = self.ends.last().unwrap();
        (path, *end)
    }

    /// What may be recovered if the last segment is sound up to there.
    fn before(&self, cut: u64) -> &[State] {
        let (path, _) = self.last_segment();
        let whole = self.ends.iter().rposition(|(of, end)| of != path || *end <= cut).unwrap();
        // Zeros at a batch's end may be the same zeros that were cut.
        &self.states[whole..self.states.len().min(whole + 2)]
    }

    /// Recovers twice: what the first repaired must look the same to the second, and go on.
    fn recover(&self) -> Result<(State, bool), DiskError> {
        let (mut data, first) = try_open(self.home.path())?;
        let state = State::of(&first);
        let next = state.entries.len() as u64 + 1;
        data.wal.append(&[appending(next..=next, 77)]).unwrap();
        drop(data);
        let (_data, second) = open(self.home.path());
        assert_eq!(second.torn, None);
        let mut expected = state.clone();
        expected.entries.push(entry(next, 77));
        assert_eq!(State::of(&second), expected);
        Ok((state, first.torn.is_some()))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_sound_log_is_read_back(steps in steps()) {
        let written = write(&steps);
        let (state, torn) = written.recover().unwrap();
        prop_assert!(!torn);
        prop_assert_eq!(&state, written.states.last().unwrap());
    }

    /// The file is zero from some sector on, as after a lost write.
    #[test]
    fn a_log_with_a_lost_end_gives_every_batch_before_it(steps in steps(), cut: Index) {
        let written = write(&steps);
        let (path, end) = written.last_segment();
        let cut = (64 + cut.index((end - 64) as usize) as u64).next_multiple_of(512).min(end);
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let size = file.metadata().unwrap().len();
        file.set_len(cut).unwrap();
        file.set_len(size).unwrap();
        let (state, _) = written.recover().unwrap();
        prop_assert!(written.before(cut).contains(&state));
    }

    /// A segment gets its length only from its maker: whatever a shorter one has lost may have been
    /// flushed, and the batches before it look like a clean end.
    #[test]
    fn a_file_that_was_cut_is_refused(steps in steps(), cut: Index) {
        let written = write(&steps);
        let (path, _) = written.last_segment();
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let cut = cut.index(file.metadata().unwrap().len() as usize) as u64;
        file.set_len(cut).unwrap();
        let error = written.recover().unwrap_err();
        let at = if cut < 64 { 0 } else { cut };
        prop_assert!(
            matches!(&error, DiskError::Corrupt { file, offset, .. } if file == path && *offset == at),
            "{}", error
        );
        prop_assert_eq!(file.metadata().unwrap().len(), cut, "nothing is changed");
    }

    /// Segments of earlier releases do not say how long they were made.
    #[test]
    fn a_file_of_unknown_length_that_was_cut_gives_every_batch_before_the_cut(
        steps in steps(), cut: Index,
    ) {
        let written = write(&steps);
        let (path, end) = written.last_segment();
        let cut = 64 + cut.index((end - 64) as usize) as u64;
        let mut bytes = fs::read(path).unwrap();
        bytes.truncate(cut as usize);
        bytes[32..40].fill(0);
        let crc = crc32fast::hash(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        fs::write(path, bytes).unwrap();
        let (state, _) = written.recover().unwrap();
        prop_assert!(written.before(cut).contains(&state));
    }

    /// A batch in flight left anything at all behind, but not its beginning.
    #[test]
    fn garbage_after_the_end_is_cut_off(
        steps in steps(), garbage in prop::collection::vec(any::<u8>(), 1..300), gap in 0..100u64,
    ) {
        let written = write(&steps);
        let (path, end) = written.last_segment();
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&garbage, (end + 40).next_multiple_of(512) + gap).unwrap();
        let (state, torn) = written.recover().unwrap();
        prop_assert_eq!(torn, garbage.iter().any(|byte| *byte != 0));
        prop_assert_eq!(&state, written.states.last().unwrap());
    }

    /// The last batch lacks some of its sectors.
    #[test]
    fn a_torn_last_batch_is_cut_off_and_never_refused(
        steps in steps(), bytes in 1..1500usize, lost in prop::collection::vec(any::<bool>(), 4),
    ) {
        let home = tempfile::tempdir().unwrap();
        let (mut data, _) = open(home.path());
        let mut before = State::default();
        for (number, step) in steps.iter().enumerate() {
            data.wal.append(&[before.follow(number + 1, step)]).unwrap();
        }
        let step = Step { hard_state: Some((1, 2)), back: 1, count: 1, bytes };
        let mut after = before.clone();
        let persist = after.follow(255, &step);
        data.wal.append(&[persist]).unwrap();
        let (path, end) = data.wal.position();
        drop(data);
        let mut file = fs::read(&path).unwrap();
        let mark = u32::from_le_bytes(file[24..28].try_into().unwrap());
        let start = last_batch(&file, mark);
        for (sector, lost) in (start / 512..end as usize / 512 + 1).zip(lost.iter().cycle()) {
            let to = file.len().min((sector + 1) * 512);
            if *lost {
                file[start.max(sector * 512)..to].fill(0);
            }
        }
        fs::write(&path, file).unwrap();
        let (_data, recovered) = open(home.path());
        let state = State::of(&recovered);
        let fresh_segment = start == 64;
        prop_assert!(state == before || state == after, "fresh segment: {fresh_segment}");
    }

    /// The last batch was written as a whole, and has changed since.
    #[test]
    fn a_damaged_last_batch_is_refused(steps in steps(), at: Index, bit in 0..8u8) {
        let written = write(&steps);
        let (path, end) = written.last_segment();
        prop_assume!(end > 64);
        let mut file = fs::read(path).unwrap();
        let mark = u32::from_le_bytes(file[24..28].try_into().unwrap());
        let start = last_batch(&file, mark);
        let header = BatchHeader::parse(&file[start..], mark).unwrap();
        let stop = start + BATCH_HEADER_BYTES + header.length as usize;
        let at = start + at.index(stop - start);
        file[at] ^= 1 << bit;
        let sector = |at: usize| at.next_multiple_of(512).max(start + 1);
        let whole = (start..stop).all(|at| {
            let from = start.max(at / 512 * 512);
            file[from..sector(at + 1).min(stop)].iter().any(|byte| *byte != 0)
        });
        fs::write(path, &file).unwrap();
        // A sector that holds nothing but zeros cannot be told from one that was not written.
        prop_assume!(whole);
        let error = written.recover().unwrap_err();
        prop_assert!(
            matches!(&error, DiskError::Corrupt { file, offset, .. } if file == path && *offset == start as u64),
            "{}", error
        );
        prop_assert_eq!(fs::read(path).unwrap(), file, "nothing is changed");
    }

    #[test]
    fn a_flipped_bit_is_refused_or_costs_nothing_that_a_later_batch_vouches_for(
        steps in steps(), segment: Index, at: Index, bit in 0..8u8,
    ) {
        let written = write(&steps);
        let mut segments: Vec<PathBuf> = fs::read_dir(written.home.path().join("wal"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().unwrap() == "wal")
            .collect();
        segments.sort();
        let path = &segments[segment.index(segments.len())];
        let mut bytes = fs::read(path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fs::write(path, &bytes).unwrap();
        match written.recover() {
            Err(DiskError::Corrupt { file, offset, .. }) => {
                prop_assert_eq!(&file, path);
                prop_assert!(offset <= at as u64);
            }
            Err(error) => prop_assert!(false, "{error}"),
            Ok((state, torn)) => {
                prop_assert!(torn && path == written.last_segment().0);
                let kept = &written.states[written.vouched..];
                prop_assert!(kept.contains(&state), "lost what was vouched for");
                if at as u64 >= written.last_segment().1 {
                    prop_assert_eq!(&state, written.states.last().unwrap());
                }
            }
        }
    }
}

/// Where the last batch of a segment begins.
fn last_batch(segment: &[u8], mark: u32) -> usize {
    let (mut last, mut next) = (64, 64);
    while let Some(header) = segment.get(next..).and_then(|rest| BatchHeader::parse(rest, mark)) {
        last = next;
        next += BATCH_HEADER_BYTES + header.padded();
    }
    last
}

/// A page of zeros in the middle: the disk lost a write that it had called flushed.
#[test]
fn a_hole_before_a_later_batch_is_corruption() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    data.wal.append(&[appending(1..=1, 1)]).unwrap();
    let (path, start) = data.wal.position();
    data.wal.append(&[appending(2..=2, 1)]).unwrap();
    let (_, end) = data.wal.position();
    data.wal.append(&[appending(3..=3, 1)]).unwrap();
    drop(data);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&vec![0; (end - start) as usize], start).unwrap();
    let error = try_open(home.path()).unwrap_err();
    assert!(
        matches!(&error, DiskError::Corrupt { file, offset, .. } if *file == path && *offset == start),
        "{error}"
    );
    assert!(error.to_string().contains("batch 2 is damaged"), "{error}");
}

/// A commit index is not flushed on its own, so a later batch does not vouch for it: the two may
/// reach the disk in any order.
#[test]
fn a_torn_commit_index_under_a_batch_in_flight_is_a_tear() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    data.wal.append(&[voting(vote(1, 1, 0)), appending(1..=2, 1)]).unwrap();
    let (path, start) = data.wal.position();
    data.wal.append(&[voting(vote(1, 1, 2))]).unwrap();
    data.wal.append(&[appending(3..=3, 1)]).unwrap();
    drop(data);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0; 40], start).unwrap();
    let (_data, recovered) = open(home.path());
    assert_eq!(recovered.torn.map(|torn| (torn.file, torn.offset)), Some((path, start)));
    assert_eq!(recovered.entries, entries(1..=2, 1));
    assert_eq!(recovered.hard_state, vote(1, 1, 0));
}

/// A clean stop writes an empty batch last, so that nothing real is the last batch.
#[test]
fn after_a_clean_stop_damage_to_the_last_write_is_noticed() {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    let (path, start) = data.wal.position();
    data.wal.append(&[appending(1..=1, 1)]).unwrap();
    data.start_writer(|_| {}).close();
    let mut bytes = fs::read(&path).unwrap();
    bytes[start as usize + 50] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(try_open(home.path()), Err(DiskError::Corrupt { .. })));
}
