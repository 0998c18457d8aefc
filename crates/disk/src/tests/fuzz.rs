//! A data directory in which anything may be wrong but the checksums.
//!
//! The other tests here show that a checksum notices every change. Here every checksum is made right
//! again afterwards, so that whatever stands behind it has to judge for itself.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use proptest::{prelude::*, sample::Index};
use tenure_api::ClusterId;
use tenure_damage::{Wounds, damaged, frugally, hold, spoilt};

use super::*;
use crate::{
    Identity,
    batch::{BATCH_HEADER_BYTES, BatchBuffer, BatchHeader},
    record::{self, put_persist, put_start},
    segment::SEGMENT_HEADER_BYTES,
};

/// The files of a directory, by their place in it.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A member's directory with two segments, a snapshot and an identity.
static SOUND: LazyLock<Files> = LazyLock::new(|| {
    let home = tempfile::tempdir().unwrap();
    let (mut data, _) = open(home.path());
    let identity = Identity { cluster_id: ClusterId(7), member_id: MemberId(1), joined: false };
    data.keep_founders(&founders()).unwrap();
    data.claim(identity).unwrap();
    data.wal.append(&[voting(vote(1, 1, 0)), appending(1..=8, 1)]).unwrap();
    save(home.path(), mark(3, 1));
    while data.wal.position().0.ends_with("0000000000000001.wal") {
        let next = data.wal.position().1;
        data.wal.append(&[appending(9..=20, 1 + next / 500)]).unwrap();
    }
    data.wal.append(&[voting(vote(9, 2, 10)), appending(15..=16, 9)]).unwrap();
    data.start_writer(|_| {}).close();
    files(home.path())
});

fn files(home: &Path) -> Files {
    let mut files = Files::new();
    for folder in ["", "wal", "snap"] {
        for file in fs::read_dir(home.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                let place = path.strip_prefix(home).unwrap().to_owned();
                files.insert(place, fs::read(path).unwrap());
            }
        }
    }
    files
}

/// What is there is opened or refused. What was opened can be written to, and opened again.
fn judge(files: &Files) -> Result<(), TestCaseError> {
    let home = tempfile::tempdir().unwrap();
    for (place, bytes) in files {
        let path = home.path().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let bytes = files.values().map(Vec::len).sum();
    let Ok((mut data, first)) = frugally(bytes, || try_open(home.path())) else { return Ok(()) };
    let covered = first.snapshot.as_ref().map_or(0, |saved| saved.mark.index);
    let next = first.entries.last().map_or(covered, |entry| entry.index) + 1;
    data.wal.append(&[appending(next..=next, u64::MAX)]).unwrap();
    drop(data);
    let (_data, second) = open(home.path());
    prop_assert_eq!(second.hard_state, first.hard_state);
    let mut expected = first.entries;
    expected.push(entry(next, u64::MAX));
    prop_assert_eq!(second.entries, expected);
    Ok(())
}

/// The batches of a segment, as long as they are sound.
fn batches(segment: &[u8], mark: u32) -> Vec<(BatchHeader, Vec<u8>)> {
    let mut rest = &segment[SEGMENT_HEADER_BYTES as usize..];
    let mut batches = Vec::new();
    while let Some(header) = BatchHeader::parse(rest, mark) {
        let body = &rest[BATCH_HEADER_BYTES..];
        batches.push((header, body[..header.length as usize].to_vec()));
        rest = &body[header.padded()..];
    }
    batches
}

/// What is changed in one batch.
#[derive(Clone, Debug)]
struct Change {
    segment: Index,
    batch: Index,
    body: Option<Wounds>,
    /// Numbers go on from here.
    number: Option<u64>,
    durable: Option<u64>,
}

fn change() -> impl Strategy<Value = Change> {
    let number = || prop_oneof![6 => Just(None), 1 => any::<u64>().prop_map(Some), 1 => Just(Some(u64::MAX))];
    (any::<(Index, Index)>(), prop::option::weighted(0.9, spoilt()), number(), number()).prop_map(
        |((segment, batch), body, number, durable)| Change {
            segment,
            batch,
            body,
            number,
            durable,
        },
    )
}

/// Changes a batch, and seals it and all that follow.
fn changed(sound: &Files, change: &Change) -> Files {
    let mut files = sound.clone();
    let boot = &files[Path::new("boot")];
    let mark = u32::from_le_bytes(*boot[12..].first_chunk().unwrap());
    let is_segment = |place: &&PathBuf| place.extension().is_some_and(|it| it == "wal");
    let segments: Vec<PathBuf> = files.keys().filter(is_segment).cloned().collect();
    let hurt = change.segment.index(segments.len());
    let (mut chain, mut shift) = (0, 0u64);
    for (at, place) in segments.iter().enumerate() {
        let segment = files.get_mut(place).unwrap();
        let mut sealed = segment[..SEGMENT_HEADER_BYTES as usize].to_vec();
        let all = batches(segment, mark);
        let which = change.batch.index(all.len());
        for (nth, (header, mut body)) in all.into_iter().enumerate() {
            let mut durable = header.durable;
            if (at, nth) == (hurt, which) {
                body = change.body.as_ref().map_or(body.clone(), |wounds| wounds.on(&body));
                shift = change.number.map_or(0, |number| number.wrapping_sub(header.number));
                durable = change.durable.unwrap_or(durable);
            }
            let mut buffer = BatchBuffer::default();
            buffer.start().extend_from_slice(&body);
            let number = header.number.wrapping_add(shift);
            let (bytes, crc) = buffer.seal(mark, number, durable, chain);
            sealed.extend_from_slice(bytes);
            chain = crc;
        }
        sealed.resize(sealed.len().max(segment.len()), 0);
        *segment = sealed;
    }
    files
}

#[test]
fn batches_that_are_sealed_and_wrong() {
    hold(150, change(), |change| judge(&changed(&SOUND, &change)));
}

#[test]
fn batches_whose_numbers_end() {
    hold(20, any::<(Index, Index)>(), |(segment, batch)| {
        let (number, durable) = (Some(u64::MAX), None);
        judge(&changed(&SOUND, &Change { segment, batch, body: None, number, durable }))
    });
}

/// Files that are hurt as they are, and stand under names that say something else.
#[test]
fn a_directory_in_which_anything_is_wrong() {
    let hurt = (any::<Index>(), spoilt(), prop::option::weighted(0.1, any::<Index>()));
    hold(100, prop::collection::vec(hurt, 1..4), |hurts| {
        let mut files = SOUND.clone();
        for (which, wounds, moved) in hurts {
            let places: Vec<PathBuf> = files.keys().cloned().collect();
            let place = &places[which.index(places.len())];
            let bytes = wounds.on(&files.remove(place).unwrap());
            let place = moved.map_or(place, |moved| &places[moved.index(places.len())]);
            files.insert(place.clone(), bytes);
        }
        judge(&files)
    });
}

/// The list of founders, whose checksum is right.
#[test]
fn founders_that_are_sealed_and_wrong() {
    hold(100, spoilt(), |wounds| {
        let mut files = SOUND.clone();
        let file = files.get_mut(Path::new("founders")).unwrap();
        let mut hurt = wounds.on(&file[..file.len() - 4]);
        hurt.extend_from_slice(&crc32fast::hash(&hurt).to_le_bytes());
        *file = hurt;
        judge(&files)
    });
}

/// The small files, whose checksum is right.
#[test]
fn labels_that_are_sealed_and_wrong() {
    let numbers = || prop_oneof![Just(u64::MAX), Just(0), any::<u64>()];
    let label = prop_oneof![
        Just("boot"),
        Just("identity"),
        Just("removed"),
        Just("refounded"),
        Just("forced")
    ];
    let magic = prop::sample::select(vec![*b"tenurebt", *b"tenureid", *b"tenurerm", *b"tenurerf"]);
    hold(
        100,
        (label, magic, 0..4u32, [numbers(), numbers()]),
        |(place, magic, version, numbers)| {
            let mut label = [&magic[..], &version.to_le_bytes()].concat();
            label.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            label.extend_from_slice(&crc32fast::hash(&label).to_le_bytes());
            let mut files = SOUND.clone();
            files.insert(place.into(), label);
            judge(&files)
        },
    );
}

/// A snapshot whose mark is sealed, and named after it, is all that a log has to fit to.
#[test]
fn marks_that_are_sealed_and_wrong() {
    let number = || prop_oneof![0..30u64, Just(u64::MAX), any::<u64>()];
    hold(60, (number(), number(), any::<bool>()), |(index, term, alone)| {
        let mut files = SOUND.clone();
        if alone {
            files.retain(|place, _| !place.starts_with("wal"));
            files.remove(Path::new("identity"));
        }
        let home = tempfile::tempdir().unwrap();
        let saved = {
            let mut writer = SnapshotWriter::create(home.path(), mark(index, term)).unwrap();
            writer.chunk(b"state").unwrap();
            writer.finish().unwrap()
        };
        let name = Path::new("snap").join(saved.path.file_name().unwrap());
        files.insert(name, fs::read(&saved.path).unwrap());
        judge(&files)
    });
}

#[test]
fn records() {
    let persist = (any::<(u64, u64, u64)>(), 0..4u64, any::<bool>()).prop_map(
        |((term, member, commit), count, snapshot)| Persist {
            hard_state: Some(vote(term, member, commit)),
            snapshot: snapshot.then(|| mark(commit, term)),
            entries: entries(1..=count, term),
            ..Persist::default()
        },
    );
    let body = persist.prop_map(|persist| {
        let mut out = Vec::new();
        put_start(&mut out, 1, &persist.hard_state.unwrap());
        put_persist(&mut out, &persist);
        out
    });
    hold(500, damaged(body), |body| {
        let read = frugally(body.len(), || record::records(&body).count());
        prop_assert!(read <= body.len(), "more records than bytes");
        Ok(())
    });
}
