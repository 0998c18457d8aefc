//! What a run measured.

use std::{collections::BTreeMap, time::Duration};

use tenure_replica::Moment;

use super::ProcessId;

/// One leader's time, from its own point of view.
#[derive(Clone, Debug)]
pub struct StageTenure {
    pub process: ProcessId,
    pub token: Option<u64>,
    pub from: Moment,
    pub until: Option<Moment>,
    /// How many messages in a row led to it, since the last alarm.
    pub rounds: u32,
    /// Whether a write of it was taken.
    pub wrote: bool,
}

/// All measurements since the start of the run, or since the last mark.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// When counting began.
    pub since: Moment,
    pub tenures: Vec<StageTenure>,
    /// Time without a process that acts as a leader, and the longest stretch of it.
    pub vacant: Duration,
    pub vacant_longest: Duration,
    /// Time with two or more leaders, and how often that began. A paused leader that resumes and looks at its clock at once
    /// is one of two for no time at all, and may have written.
    pub double: Duration,
    pub doubles: u64,
    /// When a process first noticed that the leader is gone.
    pub detected: Option<Moment>,
    pub writes_taken: u64,
    pub writes_refused: u64,
    /// Writes of an earlier leader, taken after one of a later leader.
    pub stale_writes_taken: u64,
    /// Messages by kind; routine messages are counted separately.
    pub messages: BTreeMap<&'static str, u64>,
    pub routine: BTreeMap<&'static str, u64>,
    /// Messages that never arrived.
    pub lost: u64,
    vacant_since: Option<Moment>,
    looked: Moment,
    believers: usize,
    newest_writer: Option<u64>,
}

impl Ledger {
    /// Starts to count anew. Tenures keep their numbers.
    pub(super) fn mark(&mut self, now: Moment) {
        self.pass(now);
        *self = Ledger {
            since: now,
            looked: now,
            tenures: std::mem::take(&mut self.tenures),
            believers: self.believers,
            newest_writer: self.newest_writer,
            vacant_since: (self.believers == 0).then_some(now),
            ..Ledger::default()
        };
    }

    /// Accounts for the time since the last call.
    pub(super) fn pass(&mut self, now: Moment) {
        let elapsed = now.since(self.looked);
        self.looked = now;
        match self.believers {
            0 => {
                self.vacant += elapsed;
                let since = *self.vacant_since.get_or_insert(now - elapsed);
                self.vacant_longest = self.vacant_longest.max(now.since(since));
            }
            1 => self.vacant_since = None,
            _ => {
                self.vacant_since = None;
                self.double += elapsed;
            }
        }
    }

    /// Sets how many processes act as leaders from now on.
    pub(super) fn believers(&mut self, now: Moment, count: usize) {
        self.pass(now);
        self.doubles += u64::from(count > 1 && self.believers <= 1);
        self.believers = count;
    }

    pub(super) fn begin(&mut self, tenure: StageTenure) -> u64 {
        self.tenures.push(tenure);
        self.tenures.len() as u64
    }

    pub(super) fn end(&mut self, tenure: u64, now: Moment) {
        if let Some(tenure) = self.tenures.get_mut(tenure as usize - 1) {
            tenure.until.get_or_insert(now);
        }
    }

    /// A write of that tenure was taken. Returns whether one of a later tenure was taken before.
    pub(super) fn take(&mut self, tenure: u64) -> bool {
        self.writes_taken += 1;
        if let Some(tenure) = self.tenures.get_mut((tenure as usize).saturating_sub(1)) {
            tenure.wrote = true;
        }
        let stale = self.newest_writer.is_some_and(|newest| {
            let who =
                |tenure: u64| self.tenures.get(tenure as usize - 1).map(|tenure| tenure.process);
            tenure < newest && who(tenure.max(1)) != who(newest)
        });
        self.newest_writer = self.newest_writer.max(Some(tenure));
        self.stale_writes_taken += u64::from(stale);
        stale
    }

    /// Tenures that began since counting began.
    pub fn recent(&self) -> impl Iterator<Item = &StageTenure> {
        self.tenures.iter().filter(|tenure| tenure.from >= self.since)
    }

    /// Messages that were not routine.
    pub fn sent(&self) -> u64 {
        self.messages.values().sum()
    }

    pub fn routine_sent(&self) -> u64 {
        self.routine.values().sum()
    }

    /// How often each process led.
    pub fn wins(&self) -> BTreeMap<ProcessId, u64> {
        let mut wins = BTreeMap::new();
        for tenure in self.recent() {
            *wins.entry(tenure.process).or_default() += 1;
        }
        wins
    }
}
