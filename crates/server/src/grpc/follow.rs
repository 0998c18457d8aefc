//! The live feed of all elections: how they stand, then what changes, for as many readers as there are.
//!
//! While anything follows, one task looks at the member's state a few times a second. Two states share all that is the
//! same in both, so what differs is found in proportion to the difference. Each change is made into a message once and
//! put into a log of bounded length, from which every reader takes what is new to it: the latest of each election, whatever
//! came between. A reader that is too slow for the log begins anew with a list, as one does whose revision is not known
//! here any more. So no reader is waited for, and none costs memory of its own.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::Stream;
use tenure_api::{Failure, Principal, wire::tenure::v1 as pb};
use tenure_replica::{Consistency, Operation, Read, Reply, State, auth::Need};
use tokio::{sync::watch, time::Instant};
use tonic::Status;

use super::{RequestLimits, convert::text, overview, reply::refuse, watch::leader_gone};
use crate::{
    admission::Admitted,
    node::{NodeHandle, Stamp},
};

/// Between two looks at the state: readers learn of a change so much later at the most.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Changes that are kept for readers that are behind or come back.
const CHANGES_MAX: usize = 10_000;
/// Elections in one message.
const PART_MAX: usize = 500;
/// How long changes are kept for readers that come back when there is none.
const LINGER: Duration = Duration::from_secs(60);

/// What all readers at one member share.
#[derive(Clone)]
pub(super) struct Feed {
    node: NodeHandle,
    shared: Arc<Shared>,
}

struct Shared {
    log: Mutex<Log>,
    /// The number of the next change. Readers wait for it to grow.
    next: watch::Sender<u64>,
}

#[derive(Default)]
struct Log {
    /// Whether a task looks at the state.
    runs: bool,
    /// The state that was looked at last, its revision, and when it was asked for.
    state: Option<(State, Stamp)>,
    /// Changes behind this revision are all here. Not those at it: not every change makes a new one.
    since: i64,
    first: u64,
    changes: VecDeque<Change>,
}

struct Change {
    /// The store's revision when it was seen: it happened then or before.
    revision: i64,
    name: Bytes,
    /// None if the election is gone.
    info: Option<Arc<pb::ElectionInfo>>,
}

impl Log {
    fn next(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    fn revision(&self) -> i64 {
        self.state.as_ref().map_or(0, |(_, stamp)| stamp.revision.0)
    }

    /// Takes in a new state and notes what is different in it.
    fn look(&mut self, state: State, stamp: Stamp) {
        let Some((before, _)) = &self.state else {
            self.since = stamp.revision.0;
            self.state = Some((state, stamp));
            return;
        };
        let now = overview::unix_ms();
        for name in state.elections.differences(&before.elections) {
            let election = state.elections.election(&name);
            let info = election
                .map(|election| Arc::new(overview::info(&state, &name, election, now, true)));
            self.changes.push_back(Change { revision: stamp.revision.0, name, info });
        }
        while self.changes.len() > CHANGES_MAX {
            if let Some(dropped) = self.changes.pop_front() {
                self.first += 1;
                self.since = self.since.max(dropped.revision);
            }
        }
        self.state = Some((state, stamp));
    }

    /// The first change that a reader does not know which knows everything up to a revision. At that revision itself there
    /// may have been more. None if not all of them are here.
    fn after(&self, revision: i64) -> Option<u64> {
        if revision == 0 || revision <= self.since || revision > self.revision() {
            return None;
        }
        let known = self.changes.iter().take_while(|change| change.revision < revision).count();
        Some(self.first + known as u64)
    }

    /// The latest of every election that changed since, in the order of names.
    fn changed(&self, from: u64, prefix: &[u8]) -> BTreeMap<Bytes, Option<Arc<pb::ElectionInfo>>> {
        let skipped = from.saturating_sub(self.first) as usize;
        let news = self.changes.iter().skip(skipped);
        let news = news.filter(|change| change.name.starts_with(prefix));
        news.map(|change| (change.name.clone(), change.info.clone())).collect()
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed {
    pub(super) fn new(node: NodeHandle) -> Feed {
        let (log, next) = (Mutex::default(), watch::Sender::new(0));
        Feed { node, shared: Arc::new(Shared { log, next }) }
    }

    /// Messages for one reader, without end.
    pub(super) fn follow(
        &self,
        by: Principal,
        request: pb::FollowRequest,
        fresh: i64,
        limits: Option<RequestLimits>,
    ) -> impl Stream<Item = Result<pb::FollowResponse, Status>> + Send + use<> {
        let reader = Reader {
            by,
            feed: self.clone(),
            news: self.shared.next.subscribe(),
            prefix: request.prefix.into(),
            with_tenures: request.with_tenures,
            without_list: request.without_list,
            after: request.after_revision,
            fresh,
            place: Place::Start,
        };
        self.run();
        futures_util::stream::unfold(Some(reader), move |reader| async move {
            let mut reader = reader?;
            let node = reader.feed.node.clone();
            let cut_off = async move {
                match limits {
                    Some(limits) => leader_gone(node, limits).await,
                    None => std::future::pending().await,
                }
            };
            let next = tokio::select! {
                biased;
                next = reader.next() => Some(next),
                () = cut_off => None,
            };
            match next {
                Some(Ok(Some(next))) => Some((Ok(next), Some(reader))),
                Some(Err(failure)) => Some((Err(refuse(failure)), None)),
                Some(Ok(None)) => {
                    Some((Err(Status::unavailable("tenure: the member stops")), None))
                }
                None => Some((Err(refuse(Failure::NoLeader)), None)),
            }
        })
    }

    /// Starts the task that looks at the state, unless it runs.
    fn run(&self) {
        if std::mem::replace(&mut self.shared.log().runs, true) {
            return;
        }
        let feed = self.clone();
        tokio::spawn(async move {
            let mut applied = None;
            let mut wanted = Instant::now();
            loop {
                let now = feed.node.status().applied;
                if applied != Some(now) && feed.look().await {
                    applied = Some(now);
                }
                tokio::time::sleep(LOOK_EVERY).await;
                if feed.shared.next.receiver_count() > 0 {
                    wanted = Instant::now();
                }
                let mut log = feed.shared.log();
                if wanted.elapsed() > LINGER && feed.shared.next.receiver_count() == 0
                    || feed.node.is_closed()
                {
                    *log = Log::default();
                    return;
                }
            }
        });
    }

    async fn look(&self) -> bool {
        let by = Admitted::in_process(Principal::System);
        let read = Operation::Read(Read::State, Consistency::Serializable);
        let Ok(answer) = self.node.ask(&by, read).await else { return false };
        let stamp = Stamp { revision: answer.revision, term: answer.term };
        let Ok(Reply::State(snapshot)) = answer.result else { return false };
        let mut log = self.shared.log();
        log.look(snapshot.state, stamp);
        let next = log.next();
        drop(log);
        // Also if nothing changed: readers wait for a first state, and for a revision.
        self.shared.next.send_replace(next);
        true
    }
}

/// How far a reader is.
enum Place {
    Start,
    /// In the list: how things stood, the name behind which it goes on, the next change.
    List(Box<State>, Stamp, Option<Bytes>, u64),
    /// Behind it: the next change.
    Changes(u64),
}

struct Reader {
    /// It is told of the elections that it may see, by the latest state.
    by: Principal,
    feed: Feed,
    news: watch::Receiver<u64>,
    prefix: Bytes,
    with_tenures: bool,
    /// The reader asks for lists by itself, and wants to be told when to.
    without_list: bool,
    after: i64,
    /// What was known before this member answered must not be missing.
    fresh: i64,
    place: Place,
}

impl Reader {
    /// The next message; none if the member stops.
    async fn next(&mut self) -> Result<Option<pb::FollowResponse>, Failure> {
        loop {
            let message = match std::mem::replace(&mut self.place, Place::Start) {
                Place::Start => self.start(),
                Place::List(state, stamp, behind, next) => {
                    Some(self.part(*state, stamp, behind, next))
                }
                Place::Changes(from) => self.changes(from),
            };
            if message.is_some() {
                return Ok(message);
            }
            if self.news.changed().await.is_err() || self.feed.node.is_closed() {
                return Ok(None);
            }
            self.judge()?;
        }
    }

    /// Whether the principal is still a user.
    fn judge(&self) -> Result<(), Failure> {
        let log = self.feed.shared.log();
        log.state.as_ref().map_or(Ok(()), |(state, _)| state.may(&self.by, &Need::User))
    }

    /// Goes on behind the revision that the reader knows, or begins with a list.
    fn start(&mut self) -> Option<pb::FollowResponse> {
        let log = self.feed.shared.log();
        let (state, stamp) = log.state.as_ref()?;
        if stamp.revision.0 < self.fresh {
            return None;
        }
        if let Some(from) = log.after(self.after) {
            let stamp = *stamp;
            drop(log);
            // It is told at once that it goes on, whether there is news or not.
            let news = self.changes(from);
            return news.or_else(|| Some(self.message(stamp, vec![], vec![], false, true)));
        }
        let (stamp, next) = (*stamp, log.next());
        if self.without_list {
            drop(log);
            self.place = Place::Changes(next);
            return Some(self.message(stamp, vec![], vec![], true, true));
        }
        let state = state.clone();
        drop(log);
        Some(self.part(state, stamp, None, next))
    }

    fn part(
        &mut self,
        state: State,
        stamp: Stamp,
        behind: Option<Bytes>,
        next: u64,
    ) -> pb::FollowResponse {
        let now = overview::unix_ms();
        let from = behind.clone().unwrap_or_else(|| self.prefix.clone());
        let is_new = |name: &Bytes| behind.as_ref() != Some(name);
        let elections = state.elections.elections_from(&from);
        let elections = elections.take_while(|(name, _)| name.starts_with(&self.prefix));
        let (by, is_seen) = (self.by.clone(), overview::is_seen);
        let elections = elections.filter(|(name, _)| is_seen(&state, &by, name));
        let mut elections = elections.filter(|(name, _)| is_new(name)).peekable();
        let mut changed = Vec::new();
        let mut last = None;
        while changed.len() < PART_MAX
            && let Some((name, election)) = elections.next()
        {
            changed.push(overview::info(&state, name, election, now, self.with_tenures));
            last = Some(name.clone());
        }
        let complete = elections.peek().is_none();
        drop(elections);
        self.place = match complete {
            true => Place::Changes(next),
            false => Place::List(Box::new(state), stamp, last, next),
        };
        let begins = behind.is_none();
        self.message(stamp, changed, vec![], begins, complete)
    }

    fn changes(&mut self, from: u64) -> Option<pb::FollowResponse> {
        let log = self.feed.shared.log();
        if from < log.first {
            // Too slow: the list again.
            self.after = 0;
            drop(log);
            return self.start();
        }
        let (stamp, next) = (log.state.as_ref()?.1, log.next());
        let mut news = log.changed(from, &self.prefix);
        let state = log.state.as_ref()?.0.clone();
        drop(log);
        news.retain(|name, _| overview::is_seen(&state, &self.by, name));
        self.place = Place::Changes(next);
        if news.is_empty() {
            return None;
        }
        let mut gone = Vec::new();
        let mut changed = Vec::new();
        for (name, info) in news {
            match info {
                None => gone.push(text(&name)),
                Some(info) if self.with_tenures => changed.push((*info).clone()),
                Some(info) => {
                    changed.push(pb::ElectionInfo { tenures: vec![], ..(*info).clone() });
                }
            }
        }
        Some(self.message(stamp, changed, gone, false, true))
    }

    fn message(
        &self,
        stamp: Stamp,
        changed: Vec<pb::ElectionInfo>,
        gone: Vec<String>,
        begins: bool,
        complete: bool,
    ) -> pb::FollowResponse {
        let header = Some(self.feed.node.header(stamp));
        pb::FollowResponse { header, revision: stamp.revision.0, begins, complete, changed, gone }
    }
}

#[cfg(test)]
mod tests {
    use tenure_api::{Revision, Term};

    use super::*;

    fn log(revisions: &[i64]) -> Log {
        let mut log = Log::default();
        log.look(State::default(), Stamp { revision: Revision(10), term: Term(1) });
        for revision in revisions {
            let name = Bytes::from(format!("e{revision}"));
            log.changes.push_back(Change { revision: *revision, name, info: None });
            log.look(State::default(), Stamp { revision: Revision(*revision), term: Term(1) });
        }
        log
    }

    #[test]
    fn follow_resumes_with_what_happened_at_the_revision_and_behind_it() {
        let log = log(&[11, 12, 12, 15]);
        assert_eq!(log.after(11), Some(0));
        assert_eq!(log.after(12), Some(1), "there may have been more at that revision");
        assert_eq!(log.after(13), Some(3));
        assert_eq!(log.after(15), Some(3));
        assert_eq!(log.changed(1, b"e1").len(), 2, "the latest of each");
    }

    #[test]
    fn follow_begins_anew_where_changes_are_missing() {
        let log = log(&[11, 12]);
        assert_eq!(log.after(0), None, "nothing is known");
        assert_eq!(log.after(9), None, "the log began later");
        assert_eq!(log.after(10), None, "it began within that revision");
        assert_eq!(log.after(13), None, "this member is not so far");
    }

    #[test]
    fn follow_keeps_a_bounded_number_of_changes() {
        let revisions: Vec<i64> = (11..11 + CHANGES_MAX as i64 + 5).collect();
        let log = log(&revisions);
        assert_eq!((log.changes.len(), log.first), (CHANGES_MAX, 5));
        assert_eq!(log.after(15), None, "one of that revision is gone");
        assert_eq!(log.after(16), Some(5));
    }
}
