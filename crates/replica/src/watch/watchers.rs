//! All watchers of one member.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tenure_api::{Event, Failure, Principal, Revision, Span};

use super::{
    Interest, Told, WatchCreate, WatchId, WatchInput, WatchNews, WatchRefusal, WatchStream,
    index::Index,
};
use crate::{
    Moment,
    mvcc::{Change, Store},
};

/// Bounds on what watching may take.
#[derive(Clone, Copy, Debug)]
pub struct WatchLimits {
    /// How much told but not yet drained a stream may have before its watchers fall behind.
    pub stream_bytes_max: usize,
    /// How many revisions of history one round may read for those behind.
    pub catch_up_changes_max: usize,
    /// How many bytes of events one round may tell those behind. The round after it tells the rest:
    /// whatever is told is encoded before the loop goes on.
    pub catch_up_bytes_max: usize,
    /// How large an answer may become. Only a single revision, which is never split, may exceed it.
    pub answer_bytes_max: usize,
    /// How often a quiet watcher that asked for it is told the revision.
    pub progress_interval: Duration,
}

impl Default for WatchLimits {
    fn default() -> WatchLimits {
        WatchLimits {
            stream_bytes_max: 4 << 20,
            catch_up_changes_max: 4096,
            catch_up_bytes_max: 4 << 20,
            answer_bytes_max: 1 << 20,
            progress_interval: Duration::from_secs(600),
        }
    }
}

/// All watchers of one member.
#[derive(Debug, Default)]
pub struct Watchers {
    limits: WatchLimits,
    streams: BTreeMap<WatchStream, Stream>,
    in_step: Index,
    /// Those behind whose streams have room.
    behind: BTreeSet<Told>,
    /// Those behind whose streams must drain first. They are not looked at until then.
    parked: BTreeSet<Told>,
    future: BTreeSet<(Revision, Told)>,
    progress_due: BTreeSet<(Moment, Told)>,
    news: Vec<WatchNews>,
}

#[derive(Debug, Default)]
struct Stream {
    watchers: BTreeMap<WatchId, Watcher>,
    next_id: WatchId,
    undrained: usize,
    /// Requests for progress that are not answered yet. Each gets its own answer: the client counts them.
    progress_wanted: usize,
}

#[derive(Debug)]
struct Watcher {
    by: Principal,
    interest: Interest,
    place: Place,
    /// When it is next looked whether it was quiet, if it asked for that.
    progress_at: Option<Moment>,
    told_at: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    InStep,
    /// Told of everything below this revision.
    Behind(Revision),
    Future(Revision),
}

impl Watchers {
    /// No watchers yet.
    pub fn new(limits: WatchLimits) -> Watchers {
        Watchers { limits, ..Watchers::default() }
    }

    /// Does what a stream asks.
    pub fn handle(&mut self, now: Moment, input: WatchInput, store: &Store) {
        match input {
            WatchInput::Create(stream, create) => self.create(now, stream, create, store),
            WatchInput::Cancel(stream, id) => {
                let told = Told { stream, id };
                if self.remove(told).is_some() {
                    let revision = store.revision();
                    self.news.push(WatchNews::Cancelled {
                        to: told,
                        compacted: None,
                        denied: None,
                        revision,
                    });
                    self.answer_progress(stream, revision);
                }
            }
            WatchInput::Progress(stream) => {
                self.streams.entry(stream).or_default().progress_wanted += 1;
                self.answer_progress(stream, store.revision());
            }
            WatchInput::Drained(stream, bytes) => {
                let Some(known) = self.streams.get_mut(&stream) else { return };
                known.undrained = known.undrained.saturating_sub(bytes);
                if known.undrained < self.limits.stream_bytes_max {
                    self.unpark(stream);
                }
            }
            WatchInput::Closed(stream) => {
                let watchers = self.streams.get(&stream).map(|known| known.watchers.keys());
                let ids: Vec<WatchId> = watchers.into_iter().flatten().copied().collect();
                for id in ids {
                    self.remove(Told { stream, id });
                }
                self.streams.remove(&stream);
            }
        }
    }

    /// A watch that may not begin.
    pub fn refuse(&mut self, stream: WatchStream, why: WatchRefusal, revision: Revision) {
        self.news.push(WatchNews::Refused { stream, why, revision });
    }

    /// Ends the watches of principals that may not watch any more.
    pub fn judge(
        &mut self,
        permits: impl Fn(&Principal, &Span) -> Result<(), Failure>,
        revision: Revision,
    ) {
        let mut denied = Vec::new();
        for (stream, known) in &self.streams {
            for (id, watcher) in &known.watchers {
                if let Err(failure) = permits(&watcher.by, &watcher.interest.span) {
                    denied.push((Told { stream: *stream, id: *id }, failure));
                }
            }
        }
        for (to, failure) in denied {
            self.remove(to);
            let denied = Some(failure);
            self.news.push(WatchNews::Cancelled { to, compacted: None, denied, revision });
            self.answer_progress(to.stream, revision);
        }
    }

    /// Tells those in step of changes that were just applied.
    pub fn observe(&mut self, now: Moment, changes: &[Change], store: &Store) {
        if changes.is_empty() {
            return;
        }
        for event in changes.iter().flat_map(|change| change.events.iter()) {
            self.in_step.batch_window(event);
        }
        for group in self.in_step.take_touched() {
            self.tell_group(now, group, store.revision());
        }
        self.call_up_future(store.revision());
    }

    /// The store was replaced by a snapshot of a later state: no watcher is in step any more.
    pub fn fall_behind(&mut self, told_up_to: Revision) {
        let mut fallen = Vec::new();
        for (stream, known) in &mut self.streams {
            for (id, watcher) in &mut known.watchers {
                if watcher.place == Place::InStep {
                    watcher.place = Place::Behind(told_up_to.next());
                    fallen.push((Told { stream: *stream, id: *id }, watcher.interest.clone()));
                }
            }
        }
        for (told, interest) in fallen {
            self.in_step.remove(&interest, told);
            self.behind.insert(told);
        }
    }

    /// Serves those behind from history. True if there is more to do right away.
    pub fn catch_up(&mut self, now: Moment, store: &Store) -> bool {
        self.call_up_future(store.revision());
        let mut budget = Budget {
            changes: self.limits.catch_up_changes_max,
            bytes: self.limits.catch_up_bytes_max,
        };
        let waiting: Vec<Told> = self.behind.iter().copied().collect();
        let mut more = false;
        for told in waiting {
            if budget.is_spent() {
                more = true;
                break;
            }
            more |= self.catch_up_one(now, told, store, &mut budget);
        }
        more
    }

    /// Tells quiet watchers the revision, as they asked.
    pub fn progress(&mut self, now: Moment, store: &Store) {
        while let Some((at, told)) = self.progress_due.first().copied() {
            if at > now {
                break;
            }
            self.progress_due.pop_first();
            let interval = self.limits.progress_interval;
            let Some(watcher) = self.watcher_mut(told) else { continue };
            let quiet_since = watcher.told_at;
            let is_due = watcher.place == Place::InStep && now.since(quiet_since) >= interval;
            let next = match is_due {
                true => now + interval,
                false => (quiet_since + interval).max(now + Duration::from_millis(100)),
            };
            watcher.progress_at = Some(next);
            self.progress_due.insert((next, told));
            if is_due {
                let (id, revision) = (Some(told.id), store.revision());
                self.news.push(WatchNews::Progress { stream: told.stream, id, revision });
            }
        }
    }

    /// What is to be told, in order.
    pub fn take_news(&mut self) -> Vec<WatchNews> {
        std::mem::take(&mut self.news)
    }

    /// When [`Self::progress`] should be asked next.
    pub fn next_progress(&self) -> Option<Moment> {
        self.progress_due.first().map(|(at, _)| *at)
    }

    /// How many watchers there are, and how many of them are behind.
    pub fn counts(&self) -> (usize, usize) {
        let watchers = self.streams.values().map(|stream| stream.watchers.len()).sum();
        (watchers, self.behind.len() + self.parked.len())
    }

    fn unpark(&mut self, stream: WatchStream) {
        let all = Told { stream, id: WatchId::MIN }..=Told { stream, id: WatchId::MAX };
        let parked: Vec<Told> = self.parked.range(all).copied().collect();
        for told in parked {
            self.parked.remove(&told);
            self.behind.insert(told);
        }
    }

    fn create(&mut self, now: Moment, stream: WatchStream, create: WatchCreate, store: &Store) {
        let revision = store.revision();
        if let Err(why) = self.check(stream, &create) {
            return self.refuse(stream, why, revision);
        }
        let room = self.streams.entry(stream).or_default();
        let id = create.id.unwrap_or_else(|| {
            while room.watchers.contains_key(&room.next_id) {
                room.next_id += 1;
            }
            // Never given again: what is still on its way for a watch that was cancelled would be
            // taken for the next one's.
            room.next_id += 1;
            room.next_id - 1
        });
        let to = Told { stream, id };
        self.news.push(WatchNews::Created { to, revision });
        let place = match create.start {
            Some(start) if start <= revision => Place::Behind(start),
            Some(start) if start > revision.next() => Place::Future(start),
            _ => Place::InStep,
        };
        match place {
            Place::InStep => self.in_step.insert(&create.interest, to),
            Place::Behind(_) => {
                self.behind.insert(to);
            }
            Place::Future(start) => {
                self.future.insert((start, to));
            }
        }
        let progress_at = create.progress_notify.then_some(now + self.limits.progress_interval);
        self.progress_due.extend(progress_at.map(|at| (at, to)));
        let WatchCreate { by, interest, .. } = create;
        let watcher = Watcher { by, interest, place, progress_at, told_at: now };
        self.streams.entry(stream).or_default().watchers.insert(id, watcher);
    }

    fn check(&self, stream: WatchStream, create: &WatchCreate) -> Result<(), WatchRefusal> {
        if create.interest.span.is_empty() {
            return Err(WatchRefusal::EmptyRange);
        }
        if create.start.is_some_and(|start| start < Revision(0)) {
            return Err(WatchRefusal::Compacted);
        }
        let taken = |id| self.streams.get(&stream).is_some_and(|s| s.watchers.contains_key(&id));
        if create.id.is_some_and(taken) {
            return Err(WatchRefusal::DuplicateId);
        }
        Ok(())
    }

    fn remove(&mut self, told: Told) -> Option<Watcher> {
        let watcher = self.streams.get_mut(&told.stream)?.watchers.remove(&told.id)?;
        match watcher.place {
            Place::InStep => self.in_step.remove(&watcher.interest, told),
            Place::Behind(_) => {
                self.behind.remove(&told);
                self.parked.remove(&told);
            }
            Place::Future(start) => {
                self.future.remove(&(start, told));
            }
        }
        if let Some(at) = watcher.progress_at {
            self.progress_due.remove(&(at, told));
        }
        Some(watcher)
    }

    fn tell_group(&mut self, now: Moment, group: usize, revision: Revision) {
        let group = self.in_step.group_mut(group);
        let gathered = std::mem::take(&mut group.gathered);
        let interest = group.interest.clone();
        let mut to: Vec<Told> = group.watchers.iter().copied().collect();
        let mut fallen = Vec::new();
        for (events, cost) in answers(&gathered, interest.prev_kv, self.limits.answer_bytes_max) {
            to.retain(|told| {
                let Some(stream) = self.streams.get_mut(&told.stream) else { return false };
                let Some(watcher) = stream.watchers.get_mut(&told.id) else { return false };
                if stream.undrained >= self.limits.stream_bytes_max {
                    watcher.place = Place::Behind(events[0].kv.mod_revision);
                    fallen.push(*told);
                    return false;
                }
                stream.undrained += cost;
                watcher.told_at = now;
                true
            });
            if to.is_empty() {
                break;
            }
            let (to, prev_kv, events) = (to.clone(), interest.prev_kv, Arc::from(events));
            self.news.push(WatchNews::Events { to, events, prev_kv, revision, cost });
        }
        for told in fallen {
            self.in_step.remove(&interest, told);
            self.behind.insert(told);
        }
    }

    /// True if this watcher has more to read and room to be told.
    fn catch_up_one(&mut self, now: Moment, to: Told, store: &Store, budget: &mut Budget) -> bool {
        let room = self.limits.stream_bytes_max;
        let answer_max = self.limits.answer_bytes_max;
        let Some(stream) = self.streams.get_mut(&to.stream) else { return false };
        if stream.undrained >= room {
            self.behind.remove(&to);
            self.parked.insert(to);
            return false;
        }
        let Some(watcher) = stream.watchers.get_mut(&to.id) else { return false };
        let Place::Behind(next) = watcher.place else { return false };
        let revision = store.revision();
        if next < store.compacted() {
            let compacted = Some(store.compacted());
            self.remove(to);
            self.news.push(WatchNews::Cancelled { to, compacted, denied: None, revision });
            self.answer_progress(to.stream, revision);
            return false;
        }
        let from = if canary!(WatchGap) { next.next() } else { next };
        let (events, cost, read_up_to) =
            gather_history(store, &watcher.interest, from, answer_max, budget);
        let in_step = read_up_to >= revision;
        watcher.place = if in_step { Place::InStep } else { Place::Behind(read_up_to.next()) };
        if !events.is_empty() {
            let prev_kv = watcher.interest.prev_kv;
            stream.undrained += cost;
            watcher.told_at = now;
            let events = events.into();
            self.news.push(WatchNews::Events { to: vec![to], events, prev_kv, revision, cost });
        }
        if in_step {
            let interest = watcher.interest.clone();
            self.behind.remove(&to);
            self.in_step.insert(&interest, to);
            self.answer_progress(to.stream, revision);
        }
        !in_step
    }

    /// Watchers whose start has come are behind by as much as they have missed since.
    fn call_up_future(&mut self, revision: Revision) {
        while let Some((start, told)) = self.future.first().copied() {
            if start > revision.next() {
                break;
            }
            self.future.pop_first();
            if let Some(watcher) = self.watcher_mut(told) {
                watcher.place = Place::Behind(start);
                self.behind.insert(told);
            }
        }
    }

    /// Progress may be told only when every watcher of the stream is in step: it promises that
    /// nothing up to that revision is still to come.
    fn answer_progress(&mut self, id: WatchStream, revision: Revision) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let all = Told { stream: id, id: WatchId::MIN }..=Told { stream: id, id: WatchId::MAX };
        let is_behind = |those: &BTreeSet<Told>| those.range(all.clone()).next().is_some();
        if !is_behind(&self.behind) && !is_behind(&self.parked) {
            for _ in 0..std::mem::take(&mut stream.progress_wanted) {
                self.news.push(WatchNews::Progress { stream: id, id: None, revision });
            }
        }
    }

    fn watcher_mut(&mut self, told: Told) -> Option<&mut Watcher> {
        self.streams.get_mut(&told.stream)?.watchers.get_mut(&told.id)
    }
}

/// How many events one answer to a watcher behind may carry before it is sent off.
const CATCH_UP_EVENTS_MAX: usize = 1024;

/// What may still be done for those behind in one round.
struct Budget {
    changes: usize,
    bytes: usize,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.changes == 0 || self.bytes == 0
    }
}

/// Reads history from `next` on, as far as budget and answer size allow; answers what is of interest,
/// its cost, and up to which revision it read.
fn gather_history(
    store: &Store,
    interest: &Interest,
    next: Revision,
    bytes_max: usize,
    budget: &mut Budget,
) -> (Vec<Event>, usize, Revision) {
    let mut events = Vec::new();
    let mut bytes = 0;
    let mut read_up_to = Revision(next.0 - 1);
    for change in store.changes_since(next) {
        if budget.is_spent() || events.len() >= CATCH_UP_EVENTS_MAX {
            return (events, bytes, read_up_to);
        }
        let before = events.len();
        events.extend(change.events.iter().filter(|event| interest.admits(event)).cloned());
        let more = cost(&events[before..], interest.prev_kv);
        if before > 0 && bytes + more > bytes_max {
            // This revision begins the next answer.
            events.truncate(before);
            return (events, bytes, read_up_to);
        }
        bytes += more;
        budget.changes -= 1;
        budget.bytes = budget.bytes.saturating_sub(more);
        read_up_to = change.revision;
    }
    (events, bytes, read_up_to.max(store.revision()))
}

/// Events, in order, as answers of at most `bytes_max` or of one revision, each with its cost.
fn answers(
    events: &[Event],
    prev_kv: bool,
    bytes_max: usize,
) -> impl Iterator<Item = (&[Event], usize)> {
    let mut rest = events.chunk_by(|a, b| a.kv.mod_revision == b.kv.mod_revision).peekable();
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = rest.next()?;
        let (mut end, mut bytes) = (start + first.len(), cost(first, prev_kv));
        while let Some(next) = rest.peek() {
            let more = cost(next, prev_kv);
            if bytes + more > bytes_max {
                break;
            }
            bytes += more;
            end += next.len();
            rest.next();
        }
        let answer = &events[start..end];
        start = end;
        Some((answer, bytes))
    })
}

fn cost(events: &[Event], prev_kv: bool) -> usize {
    const PER_EVENT: usize = 32;
    events
        .iter()
        .map(|event| {
            let prev = event.prev.as_ref().filter(|_| prev_kv);
            let prev = prev.map_or(0, |kv| kv.key.len() + kv.value.len() + PER_EVENT);
            event.kv.key.len() + event.kv.value.len() + PER_EVENT + prev
        })
        .sum()
}
