//! The store's process.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Condition, StoreEntry, StoreMessage, StoreRequest, StoreResponse};
use crate::{
    engine::ms,
    stage::{Actor, Context, ProcessId, ProcessRole, ProcessView},
};

/// How often a server sends its entries to its replica.
const COPY: Duration = ms(1000);

/// How a store differs from the ideal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreOptions {
    /// The revision before the first change.
    pub(crate) revision: u64,
    /// Whether it counts time by its wall clock, which may be set.
    pub(crate) by_wall: bool,
    /// Whether it is on disk; if not, a restart loses everything.
    pub(crate) durable: bool,
    /// Whether a restart gives all sessions their whole TTL again.
    pub(crate) sessions_anew: bool,
    /// The replica to which it sends its entries.
    pub(crate) copied_to: Option<&'static str>,
    /// A key that names the leader, and a promise that only the leader's work is taken.
    pub(crate) checks: Option<(&'static str, &'static str)>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            revision: 0,
            by_wall: false,
            durable: true,
            sessions_anew: false,
            copied_to: None,
            checks: None,
        }
    }
}

#[derive(Debug)]
struct Session {
    ttl: Duration,
    due: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct SimStore {
    rules: StoreOptions,
    revision: u64,
    /// With the end of each, by the server's clock.
    entries: BTreeMap<String, (StoreEntry, Option<Duration>)>,
    sessions: BTreeMap<u64, Session>,
    sessions_opened: u64,
    /// The clients to notify once of a change of a key, or under a name that ends with a slash.
    watchers: BTreeSet<(String, ProcessId)>,
    /// Whether it was a replica and was promoted.
    promoted: bool,
}

impl SimStore {
    pub(crate) fn new(rules: StoreOptions) -> SimStore {
        SimStore { rules, revision: rules.revision, ..SimStore::default() }
    }

    fn clock(&self, context: &Context<'_, StoreMessage>) -> Duration {
        if self.rules.by_wall { context.wall() } else { context.now().since_start() }
    }

    fn entry(&self, key: &str) -> Option<StoreEntry> {
        self.entries.get(key).map(|(entry, _)| entry.clone())
    }

    /// Drops what has expired.
    fn expire(&mut self, context: &mut Context<'_, StoreMessage>) {
        let now = self.clock(context);
        self.sessions.retain(|_, session| session.due > now);
        let is_due = |entry: &StoreEntry, due: &Option<Duration>| {
            due.is_some_and(|due| due <= now)
                || entry.session.is_some_and(|session| !self.sessions.contains_key(&session))
        };
        let gone: Vec<String> = self
            .entries
            .iter()
            .filter(|(_, (entry, due))| is_due(entry, due))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.entries.remove(&key);
            context.say(format!("forgets {key}: its time is up"));
            self.tell(&key, context);
        }
    }

    /// Sets the alarm for the next expiry.
    fn wake(&self, context: &mut Context<'_, StoreMessage>) {
        let keys = self.entries.values().filter_map(|(_, due)| *due);
        let next = keys.chain(self.sessions.values().map(|session| session.due)).min();
        match next {
            Some(next) => context.alarm("due", next.saturating_sub(self.clock(context))),
            None => context.cancel("due"),
        }
    }

    fn tell(&mut self, key: &str, context: &mut Context<'_, StoreMessage>) {
        let watches =
            |watched: &str| watched == key || watched.ends_with('/') && key.starts_with(watched);
        self.watchers.retain(|(watched, who)| {
            if watches(watched) {
                context.send(*who, StoreMessage::Changed { key: key.to_owned() });
            }
            !watches(watched)
        });
    }

    fn write(
        &mut self,
        entry: StoreEntry,
        due: Option<Duration>,
        context: &mut Context<'_, StoreMessage>,
    ) -> StoreEntry {
        self.revision += 1;
        let before = self.entry(&entry.key);
        let created = before.as_ref().map_or(self.revision, |before| before.created);
        let entry = StoreEntry { created, version: self.revision, ..entry };
        self.entries.insert(entry.key.clone(), (entry.clone(), due));
        // A renewal does not notify watchers.
        if before.is_none_or(|before| before.value != entry.value) {
            self.tell(&entry.key, context);
        }
        entry
    }

    fn look(&mut self, key: &str, watch: bool, from: ProcessId) -> StoreResponse {
        if watch {
            self.watchers.insert((key.to_owned(), from));
        }
        StoreResponse::Found(self.entry(key))
    }

    fn list(&mut self, under: &str, watch: bool, from: ProcessId) -> StoreResponse {
        if watch {
            self.watchers.insert((under.to_owned(), from));
        }
        let under = self.entries.values().filter(|(entry, _)| entry.key.starts_with(under));
        let mut entries: Vec<StoreEntry> = under.map(|(entry, _)| entry.clone()).collect();
        entries.sort_by_key(|entry| entry.created);
        StoreResponse::Listed(entries)
    }

    fn enter(
        &mut self,
        under: &str,
        session: u64,
        from: ProcessId,
        context: &mut Context<'_, StoreMessage>,
    ) -> StoreResponse {
        if !self.sessions.contains_key(&session) {
            return StoreResponse::Gone;
        }
        let key = format!("{under}{session:010}");
        let before = self.entry(&key);
        let entry = StoreEntry {
            key,
            value: context.name(from).to_owned(),
            stamp: None,
            created: 0,
            version: 0,
            session: Some(session),
            writer: from,
        };
        let now = before.clone().unwrap_or_else(|| self.write(entry, None, context));
        StoreResponse::Done { now: Some(now), before }
    }

    fn put(
        &mut self,
        from: ProcessId,
        what: StoreRequest,
        context: &mut Context<'_, StoreMessage>,
    ) -> StoreResponse {
        let StoreRequest::Put { key, value, when, ttl, stamp } = what else {
            unreachable!("called for puts only")
        };
        let before = self.entry(key);
        if !when.holds(before.as_ref()) {
            return StoreResponse::Refused(before);
        }
        let due = ttl.map(|ttl| self.clock(context) + ttl);
        let entry = StoreEntry {
            key: key.to_owned(),
            value,
            stamp,
            created: 0,
            version: 0,
            session: None,
            writer: from,
        };
        let now = self.write(entry, due, context);
        StoreResponse::Done { now: Some(now), before }
    }

    fn delete(
        &mut self,
        key: &str,
        when: &Condition,
        context: &mut Context<'_, StoreMessage>,
    ) -> StoreResponse {
        let before = self.entry(key);
        if before.is_none() || !when.holds(before.as_ref()) {
            return StoreResponse::Refused(before);
        }
        self.revision += 1;
        self.entries.remove(key);
        self.tell(key, context);
        StoreResponse::Done { now: None, before }
    }

    fn work(
        &mut self,
        from: ProcessId,
        what: &StoreRequest,
        context: &mut Context<'_, StoreMessage>,
    ) -> StoreResponse {
        let StoreRequest::Work { key, seen, guard, tenure } = what else {
            unreachable!("called for work only")
        };
        let before = self.entry(key);
        let guarded = guard.is_none_or(|(key, created)| {
            self.entry(key).is_some_and(|entry| entry.created == created)
        });
        if before.as_ref().map(|entry| entry.version) != *seen || !guarded {
            context.refuse();
            return StoreResponse::Refused(before);
        }
        context.take(from, *tenure);
        if let Some((leader, promise)) = self.rules.checks {
            match self.entry(leader).is_some_and(|entry| entry.writer == from) {
                true => context.kept(promise),
                false => {
                    let how = format!("{} has changed {key} without the lease", context.name(from));
                    context.broke(promise, how);
                }
            }
        }
        let value = format!("work of {}", context.name(from));
        let put = StoreRequest::Put { key, value, when: Condition::Always, ttl: None, stamp: None };
        self.put(from, put, context)
    }

    fn answer(
        &mut self,
        from: ProcessId,
        what: StoreRequest,
        context: &mut Context<'_, StoreMessage>,
    ) -> StoreResponse {
        match what {
            StoreRequest::Get { key, watch } => self.look(key, watch, from),
            StoreRequest::Look { key, watch } => self.look(&key, watch, from),
            StoreRequest::List { under, watch } => self.list(under, watch, from),
            StoreRequest::Put { .. } => self.put(from, what, context),
            StoreRequest::Delete { key, when } => self.delete(key, &when, context),
            StoreRequest::OpenSession { ttl } => {
                self.sessions_opened += 1;
                let id = self.sessions_opened;
                self.sessions.insert(id, Session { ttl, due: self.clock(context) + ttl });
                StoreResponse::Session { id, revision: self.revision }
            }
            StoreRequest::KeepAlive { session } => {
                let now = self.clock(context);
                match self.sessions.get_mut(&session) {
                    Some(session) => {
                        session.due = now + session.ttl;
                        StoreResponse::Kept
                    }
                    None => StoreResponse::Gone,
                }
            }
            StoreRequest::Enter { under, session } => self.enter(under, session, from, context),
            StoreRequest::Work { .. } => self.work(from, &what, context),
        }
    }
}

impl Actor<StoreMessage> for SimStore {
    fn start(&mut self, context: &mut Context<'_, StoreMessage>) {
        self.watchers.clear();
        if !self.rules.durable {
            *self = SimStore::new(self.rules);
        }
        if self.rules.sessions_anew {
            let now = self.clock(context);
            self.sessions.values_mut().for_each(|session| session.due = now + session.ttl);
        }
        if self.rules.copied_to.is_some() {
            context.alarm("copy", COPY);
        }
        self.wake(context);
    }

    fn receive(
        &mut self,
        from: ProcessId,
        message: StoreMessage,
        context: &mut Context<'_, StoreMessage>,
    ) {
        match message {
            StoreMessage::Request { number, purpose, what } => {
                self.expire(context);
                let answer = self.answer(from, what, context);
                context.send(from, StoreMessage::Response { number, purpose, answer });
                self.wake(context);
            }
            StoreMessage::Ping => context.send(from, StoreMessage::Pong),
            StoreMessage::Copy(entries) if !self.promoted => {
                let keyed = |(entry, due): (StoreEntry, Option<Duration>)| {
                    (entry.key.clone(), (entry, due))
                };
                self.entries = entries.into_iter().map(keyed).collect();
                self.wake(context);
            }
            StoreMessage::Promoted(_) => self.promoted = true,
            StoreMessage::Copy(_)
            | StoreMessage::Response { .. }
            | StoreMessage::Changed { .. }
            | StoreMessage::Pong => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, StoreMessage>) {
        match (alarm, self.rules.copied_to) {
            ("copy", Some(copy)) => {
                let to = context.named(copy);
                context.send(to, StoreMessage::Copy(self.entries.values().cloned().collect()));
                context.alarm("copy", COPY);
            }
            _ => {
                self.expire(context);
                self.wake(context);
            }
        }
    }

    fn view(&self) -> ProcessView {
        let keys = self.entries.values();
        let keys = keys.map(|(entry, _)| format!("{} = {}", entry.key, entry.value));
        let keys: Vec<String> = keys.collect();
        ProcessView::new(ProcessRole::Server).fact("revision", self.revision).fact("keys", keys)
    }
}
