//! The server.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Answer, Ask, Entry, Say, When};
use crate::{
    engine::ms,
    stage::{NodeId, Part, Program, Scene, View},
};

/// A server that is copied sends what it has to its copy so often.
const COPY: Duration = ms(1000);

/// In what it differs from the ideal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The first change has the number after this one.
    pub(crate) revision: u64,
    /// It counts time by its wall clock, which somebody may set.
    pub(crate) by_wall: bool,
    /// It has everything on disk; or it forgets everything when it starts anew.
    pub(crate) durable: bool,
    /// When it starts anew all sessions have their whole time before them.
    pub(crate) sessions_anew: bool,
    /// It sends what it has to this one, now and then.
    pub(crate) copied_to: Option<&'static str>,
    /// It knows that this key names the leader, and a promise that nobody else's work is done.
    pub(crate) judges: Option<(&'static str, &'static str)>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            revision: 0,
            by_wall: false,
            durable: true,
            sessions_anew: false,
            copied_to: None,
            judges: None,
        }
    }
}

#[derive(Debug)]
struct Session {
    ttl: Duration,
    due: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    rules: Rules,
    revision: u64,
    /// With when each is due, by the server's clock.
    entries: BTreeMap<String, (Entry, Option<Duration>)>,
    sessions: BTreeMap<u64, Session>,
    sessions_opened: u64,
    /// Who is to be told once of a change of a key, or under a name that ends with a slash.
    watchers: BTreeSet<(String, NodeId)>,
    /// It was a copy and is none any more.
    promoted: bool,
}

impl Store {
    pub(crate) fn new(rules: Rules) -> Store {
        Store { rules, revision: rules.revision, ..Store::default() }
    }

    fn clock(&self, scene: &Scene<'_, Say>) -> Duration {
        if self.rules.by_wall { scene.wall() } else { scene.now().since_start() }
    }

    fn entry(&self, key: &str) -> Option<Entry> {
        self.entries.get(key).map(|(entry, _)| entry.clone())
    }

    /// Forgets what is due.
    fn expire(&mut self, scene: &mut Scene<'_, Say>) {
        let now = self.clock(scene);
        self.sessions.retain(|_, session| session.due > now);
        let is_due = |entry: &Entry, due: &Option<Duration>| {
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
            scene.say(format!("forgets {key}: its time is up"));
            self.tell(&key, scene);
        }
    }

    /// Wakes when the next thing is due.
    fn wake(&self, scene: &mut Scene<'_, Say>) {
        let keys = self.entries.values().filter_map(|(_, due)| *due);
        let next = keys.chain(self.sessions.values().map(|session| session.due)).min();
        match next {
            Some(next) => scene.alarm("due", next.saturating_sub(self.clock(scene))),
            None => scene.cancel("due"),
        }
    }

    fn tell(&mut self, key: &str, scene: &mut Scene<'_, Say>) {
        let watches =
            |watched: &str| watched == key || watched.ends_with('/') && key.starts_with(watched);
        self.watchers.retain(|(watched, who)| {
            if watches(watched) {
                scene.send(*who, Say::Changed { key: key.to_owned() });
            }
            !watches(watched)
        });
    }

    fn write(&mut self, entry: Entry, due: Option<Duration>, scene: &mut Scene<'_, Say>) -> Entry {
        self.revision += 1;
        let before = self.entry(&entry.key);
        let created = before.as_ref().map_or(self.revision, |before| before.created);
        let entry = Entry { created, version: self.revision, ..entry };
        self.entries.insert(entry.key.clone(), (entry.clone(), due));
        // Who only renews wakes nobody.
        if before.is_none_or(|before| before.value != entry.value) {
            self.tell(&entry.key, scene);
        }
        entry
    }

    fn look(&mut self, key: &str, watch: bool, from: NodeId) -> Answer {
        if watch {
            self.watchers.insert((key.to_owned(), from));
        }
        Answer::Found(self.entry(key))
    }

    fn list(&mut self, under: &str, watch: bool, from: NodeId) -> Answer {
        if watch {
            self.watchers.insert((under.to_owned(), from));
        }
        let under = self.entries.values().filter(|(entry, _)| entry.key.starts_with(under));
        let mut entries: Vec<Entry> = under.map(|(entry, _)| entry.clone()).collect();
        entries.sort_by_key(|entry| entry.created);
        Answer::Listed(entries)
    }

    fn enter(
        &mut self,
        under: &str,
        session: u64,
        from: NodeId,
        scene: &mut Scene<'_, Say>,
    ) -> Answer {
        if !self.sessions.contains_key(&session) {
            return Answer::Gone;
        }
        let key = format!("{under}{session:010}");
        let before = self.entry(&key);
        let entry = Entry {
            key,
            value: scene.name(from).to_owned(),
            stamp: None,
            created: 0,
            version: 0,
            session: Some(session),
            writer: from,
        };
        let now = before.clone().unwrap_or_else(|| self.write(entry, None, scene));
        Answer::Done { now: Some(now), before }
    }

    fn put(&mut self, from: NodeId, what: Ask, scene: &mut Scene<'_, Say>) -> Answer {
        let Ask::Put { key, value, when, ttl, stamp } = what else {
            unreachable!("asked for nothing else")
        };
        let before = self.entry(key);
        if !when.holds(before.as_ref()) {
            return Answer::Refused(before);
        }
        let due = ttl.map(|ttl| self.clock(scene) + ttl);
        let entry = Entry {
            key: key.to_owned(),
            value,
            stamp,
            created: 0,
            version: 0,
            session: None,
            writer: from,
        };
        let now = self.write(entry, due, scene);
        Answer::Done { now: Some(now), before }
    }

    fn delete(&mut self, key: &str, when: &When, scene: &mut Scene<'_, Say>) -> Answer {
        let before = self.entry(key);
        if before.is_none() || !when.holds(before.as_ref()) {
            return Answer::Refused(before);
        }
        self.revision += 1;
        self.entries.remove(key);
        self.tell(key, scene);
        Answer::Done { now: None, before }
    }

    fn work(&mut self, from: NodeId, what: &Ask, scene: &mut Scene<'_, Say>) -> Answer {
        let Ask::Work { key, seen, guard, tenure } = what else {
            unreachable!("asked for nothing else")
        };
        let before = self.entry(key);
        let guarded = guard.is_none_or(|(key, created)| {
            self.entry(key).is_some_and(|entry| entry.created == created)
        });
        if before.as_ref().map(|entry| entry.version) != *seen || !guarded {
            scene.refuse();
            return Answer::Refused(before);
        }
        scene.take(from, *tenure);
        if let Some((leader, promise)) = self.rules.judges {
            match self.entry(leader).is_some_and(|entry| entry.writer == from) {
                true => scene.kept(promise),
                false => {
                    let how = format!("{} has changed {key} without the lease", scene.name(from));
                    scene.broke(promise, how);
                }
            }
        }
        let value = format!("work of {}", scene.name(from));
        let put = Ask::Put { key, value, when: When::Always, ttl: None, stamp: None };
        self.put(from, put, scene)
    }

    fn answer(&mut self, from: NodeId, what: Ask, scene: &mut Scene<'_, Say>) -> Answer {
        match what {
            Ask::Get { key, watch } => self.look(key, watch, from),
            Ask::Look { key, watch } => self.look(&key, watch, from),
            Ask::List { under, watch } => self.list(under, watch, from),
            Ask::Put { .. } => self.put(from, what, scene),
            Ask::Delete { key, when } => self.delete(key, &when, scene),
            Ask::OpenSession { ttl } => {
                self.sessions_opened += 1;
                let id = self.sessions_opened;
                self.sessions.insert(id, Session { ttl, due: self.clock(scene) + ttl });
                Answer::Session { id, revision: self.revision }
            }
            Ask::KeepAlive { session } => {
                let now = self.clock(scene);
                match self.sessions.get_mut(&session) {
                    Some(session) => {
                        session.due = now + session.ttl;
                        Answer::Kept
                    }
                    None => Answer::Gone,
                }
            }
            Ask::Enter { under, session } => self.enter(under, session, from, scene),
            Ask::Work { .. } => self.work(from, &what, scene),
        }
    }
}

impl Program<Say> for Store {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        self.watchers.clear();
        if !self.rules.durable {
            *self = Store::new(self.rules);
        }
        if self.rules.sessions_anew {
            let now = self.clock(scene);
            self.sessions.values_mut().for_each(|session| session.due = now + session.ttl);
        }
        if self.rules.copied_to.is_some() {
            scene.alarm("copy", COPY);
        }
        self.wake(scene);
    }

    fn receive(&mut self, from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Ask { number, purpose, what } => {
                self.expire(scene);
                let answer = self.answer(from, what, scene);
                scene.send(from, Say::Answer { number, purpose, answer });
                self.wake(scene);
            }
            Say::Ping => scene.send(from, Say::Pong),
            Say::Copy(entries) if !self.promoted => {
                let keyed =
                    |(entry, due): (Entry, Option<Duration>)| (entry.key.clone(), (entry, due));
                self.entries = entries.into_iter().map(keyed).collect();
                self.wake(scene);
            }
            Say::Promoted(_) => self.promoted = true,
            Say::Copy(_) | Say::Answer { .. } | Say::Changed { .. } | Say::Pong => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match (alarm, self.rules.copied_to) {
            ("copy", Some(copy)) => {
                let to = scene.named(copy);
                scene.send(to, Say::Copy(self.entries.values().cloned().collect()));
                scene.alarm("copy", COPY);
            }
            _ => {
                self.expire(scene);
                self.wake(scene);
            }
        }
    }

    fn view(&self) -> View {
        let keys = self.entries.values();
        let keys = keys.map(|(entry, _)| format!("{} = {}", entry.key, entry.value));
        let keys: Vec<String> = keys.collect();
        View::new(Part::Server).fact("revision", self.revision).fact("keys", keys)
    }
}
