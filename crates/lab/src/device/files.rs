//! The bytes of one file, and what a crash leaves of them.

use super::{CrashReport, SECTOR_BYTES};
use crate::engine::Dice;

pub(super) type Sector = [u8; SECTOR_BYTES];

#[derive(Debug, Default)]
pub(super) struct Content {
    /// The content that is read.
    pub(super) bytes: Vec<u8>,
    durable_length: usize,
    /// The sectors that unflushed writes have replaced, oldest first.
    replaced: Vec<(usize, Sector)>,
    /// The first and the last byte that the last two writes changed.
    pub(super) recent: [Option<(usize, usize)>; 2],
}

impl Content {
    pub(super) fn write(&mut self, bytes: &[u8], at: usize) {
        let end = at + bytes.len();
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        let mut changed: Option<(usize, usize)> = None;
        let mut start = at;
        while start < end {
            let sector = start / SECTOR_BYTES;
            let stop = end.min((sector + 1) * SECTOR_BYTES);
            let new = &bytes[start - at..stop - at];
            let old = &self.bytes[start..stop];
            if old != new {
                let differs = |at: &usize| old[*at] != new[*at];
                let first = start + (0..new.len()).find(differs).unwrap_or_default();
                let last = start + (0..new.len()).rfind(differs).unwrap_or_default();
                changed = Some((changed.map_or(first, |(first, _)| first), last));
                self.replaced.push((sector, self.sector(sector)));
                self.bytes[start..stop].copy_from_slice(new);
            }
            start = stop;
        }
        if changed.is_some() {
            self.recent = [self.recent[1], changed];
        }
    }

    pub(super) fn resize(&mut self, bytes: usize) {
        let kept = bytes.div_ceil(SECTOR_BYTES);
        for sector in kept..self.durable_length.div_ceil(SECTOR_BYTES) {
            self.replaced.push((sector, self.sector(sector)));
        }
        if bytes < self.bytes.len() && !bytes.is_multiple_of(SECTOR_BYTES) {
            self.replaced.push((kept - 1, self.sector(kept - 1)));
        }
        self.bytes.resize(bytes, 0);
    }

    pub(super) fn sync(&mut self) {
        self.replaced.clear();
        self.durable_length = self.bytes.len();
    }

    /// Each sector is as one of the writes since the last flush left it, or as it was before.
    pub(super) fn crash(&mut self, dice: &mut Dice, crash: &mut CrashReport) {
        if self.replaced.is_empty() && self.durable_length == self.bytes.len() {
            return;
        }
        let length = if dice.chance(500) { self.durable_length } else { self.bytes.len() };
        let longest = self.durable_length.max(self.bytes.len());
        self.bytes.resize(longest.next_multiple_of(SECTOR_BYTES), 0);
        let mut replaced = std::mem::take(&mut self.replaced);
        replaced.sort_by_key(|(sector, _)| *sector);
        let through = [0, 500, 1000][dice.below(3) as usize];
        for versions in replaced.chunk_by(|one, next| one.0 == next.0) {
            if dice.chance(through) {
                crash.kept += 1;
                continue;
            }
            crash.lost += 1;
            // The oldest is the flushed one; a younger one is left if an earlier write got through and a later one did not.
            let version = if through == 0 { 0 } else { dice.below(versions.len() as u64) as usize };
            let (sector, old) = &versions[version];
            self.put_sector(*sector, old);
        }
        self.bytes.resize(length, 0);
        self.durable_length = length;
    }

    /// A sector, with zeros after the file's end.
    pub(super) fn sector(&self, sector: usize) -> Sector {
        let mut found = [0; SECTOR_BYTES];
        let start = (sector * SECTOR_BYTES).min(self.bytes.len());
        let stop = (start + SECTOR_BYTES).min(self.bytes.len());
        found[..stop - start].copy_from_slice(&self.bytes[start..stop]);
        found
    }

    /// Changes a sector, as far as the file reaches.
    pub(super) fn put_sector(&mut self, sector: usize, bytes: &Sector) {
        let start = (sector * SECTOR_BYTES).min(self.bytes.len());
        let stop = (start + SECTOR_BYTES).min(self.bytes.len());
        self.bytes[start..stop].copy_from_slice(&bytes[..stop - start]);
    }

    pub(super) fn sectors(&self) -> usize {
        self.bytes.len().div_ceil(SECTOR_BYTES)
    }
}
