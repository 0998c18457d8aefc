//! Bit rot and misdirected writes.
//!
//! Only damage that can be noticed is done: the last batch is not left with a sector of zeros, which would look like a
//! write that a crash had cut short (`docs/decisions/0034`).

use std::path::Path;

use super::{Device, DeviceState, FileId, SECTOR_BYTES, files::Sector};
use crate::engine::Dice;

/// A record's last bytes may be zeros.
const ZEROS_AT_END_MAX: usize = 64;
/// How many random sectors are tried.
const TRIES: usize = 100;

/// A sector as it was before it was damaged.
#[derive(Debug)]
pub(super) struct DeviceDamage {
    file: FileId,
    sector: usize,
    before: Sector,
}

impl Device {
    /// Changes some bits of a sector. Returns where; none if there is no suitable sector.
    pub fn rot(&self, dice: &mut Dice) -> Option<String> {
        let disk = &mut *self.disk();
        let (file, sector) = (0..TRIES).find_map(|_| {
            let last = disk.last_written().filter(|_| dice.chance(500));
            let place = last.or_else(|| disk.some_place(dice))?;
            let seen = disk.files[&place.0].sector(place.1) != [0; SECTOR_BYTES] || dice.chance(50);
            (seen && disk.may_rot(place)).then_some(place)
        })?;
        let mut bytes = disk.files[&file].sector(sector);
        let first = bytes.iter().position(|byte| *byte != 0).unwrap_or_default();
        let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(SECTOR_BYTES - 1);
        for _ in 0..dice.between(1, 3) {
            let byte = &mut bytes[dice.between(first as u64, last as u64) as usize];
            *byte ^= 1 << dice.below(8);
            // No byte becomes zero.
            *byte = if *byte == 0 { 0x55 } else { *byte };
        }
        Some(disk.damage(file, sector, &bytes))
    }

    /// Moves a written sector to another's place and leaves zeros in its own. Returns where.
    pub fn misdirect(&self, dice: &mut Dice) -> Option<String> {
        let disk = &mut *self.disk();
        let (from, to) = (0..TRIES).find_map(|_| {
            let (from, to) = (disk.some_place(dice)?, disk.some_place(dice)?);
            let written = disk.files[&from.0].sector(from.1) != [0; SECTOR_BYTES];
            let old = !disk.is_recent(from) && !disk.is_recent(to);
            (from != to && written && old).then_some((from, to))
        })?;
        let bytes = disk.files[&from.0].sector(from.1);
        disk.damage(from.0, from.1, &[0; SECTOR_BYTES]);
        Some(disk.damage(to.0, to.1, &bytes))
    }

    /// Whether there is damage that was not repaired or found harmless.
    pub fn is_damaged(&self) -> bool {
        !self.disk().damaged.is_empty()
    }

    /// The damage turned out to be harmless.
    pub fn got_over(&self) {
        self.disk().damaged.clear();
    }

    /// Restores everything that was damaged.
    pub fn repair(&self) {
        let disk = &mut *self.disk();
        for DeviceDamage { file, sector, before } in std::mem::take(&mut disk.damaged).iter().rev()
        {
            if let Some(file) = disk.files.get_mut(file) {
                file.put_sector(*sector, before);
            }
        }
    }
}

impl DeviceState {
    fn some_place(&self, dice: &mut Dice) -> Option<(FileId, usize)> {
        let files: Vec<FileId> = self.names.values().copied().collect();
        let file = *dice.pick(&files)?;
        let sectors = self.files[&file].sectors() as u64;
        (sectors > 0).then(|| (file, dice.below(sectors) as usize))
    }

    /// A sector of the log's last write.
    fn last_written(&self) -> Option<(FileId, usize)> {
        let (_, id) = self.names.iter().rfind(|(path, _)| is_log(path))?;
        let (first, _) = self.files[id].recent[1]?;
        Some((*id, first / SECTOR_BYTES))
    }

    fn damage(&mut self, id: FileId, sector: usize, bytes: &Sector) -> String {
        let file = self.files.get_mut(&id).expect("what has a name is there");
        self.damaged.push(DeviceDamage { file: id, sector, before: file.sector(sector) });
        file.put_sector(sector, bytes);
        let named = self.names.iter().find(|(_, named)| **named == id);
        let name = named.map_or_else(String::new, |(path, _)| path.display().to_string());
        format!("{name} at {}", sector * SECTOR_BYTES)
    }

    /// Whether the log's last writes are there. Everything else has checksums.
    fn is_recent(&self, (id, sector): (FileId, usize)) -> bool {
        if !self.names.iter().any(|(path, named)| *named == id && is_log(path)) {
            return false;
        }
        let (start, end) = (sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
        let recent = self.files[&id].recent;
        recent.iter().flatten().any(|(first, last)| *first < end && *last >= start)
    }

    /// Whether a change there can be told from a write that was cut short: every sector of the last writes has a byte that is
    /// not zero.
    fn may_rot(&self, place: (FileId, usize)) -> bool {
        let recent = self.files[&place.0].recent;
        !self.is_recent(place) || recent.iter().flatten().all(|range| self.is_full(place.0, *range))
    }

    fn is_full(&self, id: FileId, (first, last): (usize, usize)) -> bool {
        let file = &self.files[&id];
        if (last + ZEROS_AT_END_MAX) / SECTOR_BYTES != last / SECTOR_BYTES {
            return false;
        }
        let sectors = first / SECTOR_BYTES..=last / SECTOR_BYTES;
        sectors.into_iter().all(|sector| {
            let from = first.max(sector * SECTOR_BYTES);
            let to = (last + 1).min((sector + 1) * SECTOR_BYTES).min(file.bytes.len());
            file.bytes.get(from..to).is_some_and(|part| part.iter().any(|byte| *byte != 0))
        })
    }
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wal")
}
