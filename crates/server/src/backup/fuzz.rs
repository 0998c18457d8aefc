//! Snapshot files and backups in which anything may be wrong but the checksums.

use proptest::{prelude::*, sample::Index};
use tenure_damage::{Wounds, frugally, hold, spoilt};
use tenure_replica::codec::Codec;

use super::{tests::*, *};
use crate::disk::{SnapshotWriter, snapshot};

/// What is hurt: the mark, or a chunk.
type Hurt = (Index, Wounds);

/// A snapshot with these parts hurt, and then sealed. The first part is the mark.
fn sealed(hurts: &[Hurt]) -> Vec<u8> {
    let snapshot = tenure_replica::Snapshot { mark: mark(), state: state(6) };
    let mut parts: Vec<Vec<u8>> =
        std::iter::once(mark().to_bytes()).chain(snapshot.chunks()).collect();
    for (which, wounds) in hurts {
        let part = &mut parts[which.index(snapshot.chunks().count() + 1)];
        *part = wounds.on(part);
    }
    let (mark, chunks) = parts.split_first().unwrap();
    let mut file = b"tenuresn\x01\0\0\0".to_vec();
    file.extend_from_slice(&(mark.len() as u32).to_le_bytes());
    file.extend_from_slice(mark);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&file);
    file.extend_from_slice(&crc.clone().finalize().to_le_bytes());
    for chunk in chunks {
        let length = (chunk.len() as u32).to_le_bytes();
        crc.update(&length);
        crc.update(chunk);
        file.extend_from_slice(&length);
        file.extend_from_slice(&crc.clone().finalize().to_le_bytes());
        file.extend_from_slice(chunk);
    }
    let bytes: usize = chunks.iter().map(Vec::len).sum();
    let mut footer = u32::MAX.to_le_bytes().to_vec();
    footer.extend_from_slice(&(chunks.len() as u64).to_le_bytes());
    footer.extend_from_slice(&(bytes as u64).to_le_bytes());
    crc.update(&footer);
    footer.extend_from_slice(&crc.finalize().to_le_bytes());
    file.extend_from_slice(&footer);
    file
}

fn hurts() -> impl Strategy<Value = Vec<Hurt>> {
    prop::collection::vec((any::<Index>(), spoilt()), 0..3)
}

#[test]
fn what_is_sealed_by_hand_is_sealed_right() {
    let home = TempDir::new().unwrap();
    let path = write(&home, &sealed(&[]));
    assert_eq!(snapshot::load(&path).unwrap().0, mark());
    let path = write(&home, &wrapped(sealed(&[]), &[]));
    open(&path, HashCheck::Required).unwrap();
}

#[test]
fn snapshots_that_are_sealed_and_wrong() {
    hold(150, hurts(), |hurts| {
        let home = TempDir::new().unwrap();
        let bytes = sealed(&hurts);
        let path = write(&home, &bytes);
        let Ok((mark, state)) = frugally(bytes.len(), || snapshot::load(&path)) else {
            return Ok(());
        };
        // What was read can be saved, and is the same then.
        let snapshot = tenure_replica::Snapshot { mark: mark.clone(), state };
        let mut writer = SnapshotWriter::create(home.path(), mark.clone()).unwrap();
        for chunk in snapshot.chunks() {
            writer.chunk(&chunk).unwrap();
        }
        let again = snapshot::load(&writer.finish().unwrap().path);
        prop_assert!(again.is_ok(), "{:?}", again.err());
        let (mark_again, state) = again.unwrap();
        prop_assert_eq!(&mark_again, &mark);
        let same = tenure_replica::Snapshot { mark, state }.chunks().eq(snapshot.chunks());
        prop_assert!(same, "it became another state");
        Ok(())
    });
}

#[test]
fn backups_that_are_sealed_and_wrong() {
    let note = prop::collection::vec(any::<u8>(), 0..700);
    hold(100, (hurts(), note, any::<bool>()), |(hurts, note, hashed)| {
        let home = TempDir::new().unwrap();
        let bytes = wrapped(sealed(&hurts), &note);
        let path = write(&home, &bytes);
        let check = if hashed { HashCheck::Required } else { HashCheck::Skipped };
        let Ok(backup) = frugally(bytes.len(), || open(&path, check)) else { return Ok(()) };
        // A new cluster can be made of it, or the file is refused.
        let _ = backup.summary();
        let _ = restore(&backup, &plan(&home, "n1", 1), &mut |_| {});
        Ok(())
    });
}

/// Files as they come, hurt anywhere.
#[test]
fn files_that_are_hurt_anywhere() {
    hold(150, spoilt(), |wounds| {
        let home = TempDir::new().unwrap();
        for sound in [sealed(&[]), wrapped(sealed(&[]), &[]), bytes(state(6))] {
            let bytes = wounds.on(&sound);
            let path = write(&home, &bytes);
            let _ = frugally(bytes.len(), || snapshot::load(&path).map(drop));
            for check in [HashCheck::Required, HashCheck::Skipped] {
                let _ = frugally(bytes.len(), || open(&path, check).map(drop));
            }
        }
        Ok(())
    });
}
