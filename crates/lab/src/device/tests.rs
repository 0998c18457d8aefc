#![allow(clippy::unwrap_used)]

use tenure_disk::Storage;

use super::*;

fn written(device: &Device, path: &str, bytes: &[u8]) -> Box<dyn tenure_disk::StorageFile> {
    let file = device.create(Path::new(path)).unwrap();
    file.write_all_to(bytes, 0).unwrap();
    file
}

#[test]
fn device_keeps_what_was_flushed() {
    for seed in 0..50 {
        let (device, mut dice) = (Device::new(1), Dice::new(seed));
        written(&device, "a/x", b"whole").sync_everything().unwrap();
        device.sync_directory(Path::new("a")).unwrap();
        device.crash(&mut dice);
        assert_eq!(device.read(Path::new("a/x")).unwrap(), b"whole");
    }
}

#[test]
fn device_tears_what_was_not_flushed_sector_by_sector() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let (device, mut dice) = (Device::new(1), Dice::new(seed));
        let file = written(&device, "a/x", &[1; 2 * SECTOR_BYTES]);
        file.sync_everything().unwrap();
        device.sync_directory(Path::new("a")).unwrap();
        file.write_all_to(&[2; 2 * SECTOR_BYTES], 0).unwrap();
        device.crash(&mut dice);
        let found = device.read(Path::new("a/x")).unwrap();
        let sectors: Vec<u8> = found.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect();
        assert!(found.chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|b| *b == sector[0])));
        seen.insert(sectors);
    }
    assert_eq!(seen.len(), 4, "every mixture of old and new is met: {seen:?}");
}

#[test]
fn device_loses_names_that_were_not_flushed() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let (device, mut dice) = (Device::new(1), Dice::new(seed));
        written(&device, "a/old", b"1").sync_everything().unwrap();
        device.sync_directory(Path::new("a")).unwrap();
        device.rename(Path::new("a/old"), Path::new("a/new")).unwrap();
        device.crash(&mut dice);
        seen.insert(device.list(Path::new("a")).unwrap());
    }
    assert_eq!(seen, BTreeSet::from([vec!["a/old".into()], vec!["a/new".into()]]));
}

#[test]
fn device_that_is_full_changes_what_is_there_and_takes_nothing_more() {
    let device = Device::new(1);
    let file = written(&device, "a/x", &[1; 100]);
    device.set_faults(DeviceFaults { full: true, ..DeviceFaults::default() });
    file.write_all_to(&[2; 100], 0).unwrap();
    assert_eq!(file.write_all_to(&[2; 101], 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
    let refused = device.create(Path::new("a/y")).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn device_can_be_repaired_after_damage() {
    for seed in 0..50 {
        let (device, mut dice) = (Device::new(1), Dice::new(seed));
        for name in ["a/x", "a/y"] {
            written(&device, name, &[7; 3 * SECTOR_BYTES]).sync_everything().unwrap();
        }
        device.disk().files.values_mut().for_each(|file| file.recent = [None; 2]);
        let all =
            |device: &Device| ["a/x", "a/y"].map(|name| device.read(Path::new(name)).unwrap());
        let before = all(&device);
        device.rot(&mut dice).unwrap();
        assert_ne!(all(&device), before);
        device.repair();
        assert_eq!(all(&device), before);
        device.misdirect(&mut dice).unwrap();
        assert!(device.is_damaged() && all(&device) != before);
        device.repair();
        assert!(!device.is_damaged() && all(&device) == before);
    }
}

/// A log that grows, rolls over and is released, on a disk whose power fails amid any operation of any of that.
#[test]
fn disk_keeps_what_was_flushed_when_the_power_fails_amid_an_operation() {
    use tenure_api::{MemberId, Term};
    use tenure_replica::{Entry, EntryKind, HardState, Persist, SnapshotMark, State};

    use crate::{cluster::disk::SimDisk, engine::RunCounts};

    let mut failures = 0;
    for seed in 0..300 {
        let (mut dice, mut disk) = (Dice::new(seed), SimDisk::new(seed));
        let mut counts = RunCounts::default();
        let chunks = crate::cluster::disk::to_chunks(&tenure_replica::Snapshot {
            mark: SnapshotMark::default(),
            state: State::default(),
        });
        for _ in 0..12 {
            disk.device.set_power(Some(dice.below(60) as u32));
            let found = match disk.recover(MemberId(1), &[]) {
                Ok(found) => found,
                Err(error) => {
                    assert!(disk.device.is_off(), "seed {seed}: only the power failed: {error}");
                    disk.crash(&mut dice, &mut counts);
                    failures += 1;
                    continue;
                }
            };
            let saved = found.snapshot.map_or(0, |(mark, _)| mark.index);
            let mut next = found.entries.last().map_or(saved, |entry| entry.index) + 1;
            loop {
                let data = vec![b'x'; dice.between(1, 700) as usize].into();
                let entry = Entry { term: Term(1), index: next, kind: EntryKind::Commands, data };
                let hard_state = Some(HardState { term: Term(1), vote: None, commit: next - 1 });
                let entries = vec![entry];
                disk.submit(Persist { number: next, hard_state, entries, snapshot: None });
                disk.begin();
                let mut done = disk.flushed().is_ok();
                next += 1;
                if done && dice.chance(100) {
                    let (index, voters) = (next - 1, vec![MemberId(1)]);
                    let mark = SnapshotMark { index, term: Term(1), voters, ..Default::default() };
                    done = disk.save(mark, &chunks).is_ok() && disk.release(index).is_ok();
                }
                if !done {
                    break;
                }
            }
            failures += 1;
            disk.crash(&mut dice, &mut counts);
        }
    }
    assert!(failures > 1000, "{failures}");
}
