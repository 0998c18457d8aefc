//! Leaders and holders of locks, by the shipped library, that write under their tokens.
//!
//! What they protect is a key that the store guards, and a resource in this process behind a gate. Some of their
//! writes are sent late, when the hold may be over: a write under a token that comes after one under a newer
//! token is stale, and must not have been accepted. Nor may two have believed at the same time that they hold.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tenure::{
    AcquireError, Election, Engine, FencingToken, Lock, Loss, Session, SessionState,
    fence::{Gate, GateLimits, GuardedError, HolderKey, Pass, guarded_put},
    grpc::{Client, Endpoint},
};
use tokio::task::{JoinHandle, JoinSet};

use super::{Check, Stop, watchers::Everything};
use crate::{
    pb,
    torture::{Chance, Ground},
};

/// The prefix of what is guarded.
pub(super) const GUARDED: &str = "guarded";
/// How many candidates contend for each name.
const CONTENDERS: usize = 3;
const TTL: Duration = Duration::from_secs(2);
/// How long one waits before it looks whether it is to stop.
const WAIT: Duration = Duration::from_secs(3);
/// What one write is thought to take.
const TAKES: Duration = Duration::from_millis(50);
const BETWEEN_WRITES: Duration = Duration::from_millis(15);
const FAILED_PAUSE: Duration = Duration::from_millis(50);
/// How late a late write is.
const LATE_MAX: Duration = Duration::from_secs(4);

/// An election that contenders are candidates in.
#[derive(Clone, Copy, Debug)]
struct Line {
    name: &'static str,
    native: bool,
    lock: bool,
}

const LINES: [Line; 3] = [
    Line { name: "torture-lock", native: true, lock: true },
    Line { name: "torture-election", native: true, lock: false },
    Line { name: "torture-etcd", native: false, lock: false },
];

/// Contenders at work.
pub(super) struct Holders {
    shared: Arc<Shared>,
    contenders: Vec<JoinHandle<()>>,
}

struct Shared {
    gate: Gate,
    seen: Mutex<Held>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub(super) sessions: usize,
    /// Sessions that were lost, by why.
    pub(super) lost: BTreeMap<String, usize>,
    /// Sessions that the server ended while their holder was sure of them.
    pub(super) early: Vec<String>,
    tenures: Vec<Tenure>,
    /// Tokens in the order in which the resource behind the gate was written.
    passed: BTreeMap<&'static str, Vec<FencingToken>>,
    /// Guarded writes that were acknowledged, by revision, with their token; those refused, and unknown.
    written: BTreeMap<i64, FencingToken>,
    refused: usize,
    unknown: usize,
    stale: Vec<String>,
}

/// One tenure, as its holder believed.
#[derive(Clone, Copy, Debug)]
struct Tenure {
    line: &'static str,
    token: FencingToken,
    /// It believed no later than this, and at least until that.
    from: Instant,
    until: Instant,
}

/// What is held.
enum Seat {
    Lock(tenure::Held),
    Lead(tenure::Leadership),
}

impl Deref for Seat {
    type Target = tenure::Held;

    fn deref(&self) -> &tenure::Held {
        match self {
            Seat::Lock(held) => held,
            Seat::Lead(leadership) => leadership,
        }
    }
}

impl Seat {
    /// Whether the server has confirmed it.
    async fn release(self) -> bool {
        match self {
            Seat::Lock(held) => held.release().await.is_ok(),
            Seat::Lead(leadership) => leadership.resign().await.is_ok(),
        }
    }
}

impl Holders {
    pub(super) fn start(ground: &Ground, chance: &mut Chance, stop: &Stop) -> Holders {
        let gate = Gate::in_memory(GateLimits::default());
        let shared = Arc::new(Shared { gate, seen: Mutex::default() });
        let endpoints = Endpoint::list(&ground.cluster.endpoints()).expect("addresses");
        let mut contenders = Vec::new();
        for line in LINES {
            for number in 0..CONTENDERS {
                let make = if line.native { Engine::tenure_at } else { Engine::etcd_at };
                let contender = Contender {
                    line,
                    number,
                    engine: make(endpoints.clone(), ground.options()),
                    client: ground.any(),
                    shared: Arc::clone(&shared),
                    chance: chance.branch(),
                    late: JoinSet::new(),
                };
                contenders.push(tokio::spawn(contender.run(stop.clone())));
            }
        }
        Holders { shared, contenders }
    }

    pub(super) async fn stop(self) -> Held {
        for contender in self.contenders {
            contender.await.expect("a contender does not panic");
        }
        self.shared.seen().clone()
    }
}

impl Shared {
    fn seen(&self) -> std::sync::MutexGuard<'_, Held> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Contender {
    line: Line,
    number: usize,
    engine: Engine,
    client: Client,
    shared: Arc<Shared>,
    chance: Chance,
    late: JoinSet<()>,
}

impl Contender {
    async fn run(mut self, stop: Stop) {
        while !stop.told() {
            let Ok(session) = Session::open(&self.engine, TTL).await else {
                tokio::time::sleep(FAILED_PAUSE).await;
                continue;
            };
            self.shared.seen().sessions += 1;
            while !stop.told() && !matches!(session.state(), SessionState::Lost(_)) {
                match self.acquire(&session).await {
                    Ok(seat) => self.hold(seat, &stop).await,
                    Err(AcquireError::TimedOut { .. }) => {}
                    Err(_) => tokio::time::sleep(FAILED_PAUSE).await,
                }
            }
            if let SessionState::Lost(loss) = session.state() {
                self.lost(&session, loss);
            }
            session.close().await;
        }
        while self.late.join_next().await.is_some() {}
    }

    async fn acquire(&self, session: &Session) -> Result<Seat, AcquireError> {
        if self.line.lock {
            let lock = Lock::new(session, self.line.name)?;
            lock.lock_within(WAIT).await.map(Seat::Lock)
        } else {
            let election = Election::new(session, self.line.name)?;
            let candidacy = election.candidate(self.number.to_string());
            candidacy.campaign_within(WAIT).await.map(Seat::Lead)
        }
    }

    /// Writes for a while, and lets go.
    async fn hold(&mut self, seat: Seat, stop: &Stop) {
        let from = Instant::now();
        let token = seat.token();
        let holder = seat.holder_key();
        let enough =
            from + self.chance.between(Duration::from_millis(30), Duration::from_millis(600));
        let mut until = None;
        while !stop.told() && Instant::now() < enough {
            let asked = Instant::now();
            if seat.may_act(TAKES).is_err() {
                break;
            }
            until = Some(asked);
            self.write(&holder).await;
            self.pass(token).await;
            tokio::time::sleep(BETWEEN_WRITES).await;
        }
        if let Some(until) = until {
            let tenure = Tenure { line: self.line.name, token, from, until };
            self.shared.seen().tenures.push(tenure);
        }
        if self.chance.percent(30) {
            let after = self.chance.between(Duration::ZERO, LATE_MAX);
            self.write_late(holder.clone(), after);
        }
        if seat.release().await {
            self.write_after_release(&holder).await;
        }
    }

    fn guarded(&self, token: FencingToken) -> pb::PutRequest {
        pb::PutRequest {
            key: format!("{GUARDED}/{}", self.line.name).into(),
            value: token.to_string().into(),
            ..Default::default()
        }
    }

    async fn write(&self, holder: &HolderKey) {
        let written = guarded_put(&self.client, holder, self.guarded(holder.token())).await;
        let mut seen = self.shared.seen();
        match written {
            Ok(done) => drop(seen.written.insert(revision(&done), holder.token())),
            Err(GuardedError::Client(error)) if error.outcome_unknown() => seen.unknown += 1,
            Err(GuardedError::Strange(what)) => seen.stale.push(format!("strange answer: {what}")),
            Err(_) => seen.refused += 1,
        }
    }

    /// A request that sat in some queue while its sender lost the hold.
    fn write_late(&mut self, holder: HolderKey, after: Duration) {
        let (client, shared) = (self.client.clone(), Arc::clone(&self.shared));
        let (put, line) = (self.guarded(holder.token()), self.line.name);
        self.late.spawn(async move {
            tokio::time::sleep(after).await;
            match guarded_put(&client, &holder, put).await {
                Ok(done) => drop(shared.seen().written.insert(revision(&done), holder.token())),
                Err(_) => shared.seen().refused += 1,
            }
            // The gate, too, is shown the old token.
            let token = holder.token();
            let newest = shared.seen().passed.get(line).and_then(|passed| passed.last().copied());
            let admitted = shared.gate.admits(Pass::to(line, token)).is_admitted();
            if admitted && newest.is_some_and(|newest| newest > token) {
                shared
                    .seen()
                    .stale
                    .push(format!("{line}: the gate let {token} in after {newest:?}"));
            }
        });
    }

    /// The server has said that it is free.
    async fn write_after_release(&self, holder: &HolderKey) {
        match guarded_put(&self.client, holder, self.guarded(holder.token())).await {
            Ok(_) => {
                let what =
                    format!("{}: {} wrote after its release", self.line.name, holder.token());
                self.shared.seen().stale.push(what);
            }
            Err(_) => self.shared.seen().refused += 1,
        }
    }

    /// Writes to the resource in this process.
    async fn pass(&self, token: FencingToken) {
        let Ok(passage) = self.shared.gate.enter(Pass::to(self.line.name, token)).await else {
            return;
        };
        self.shared.seen().passed.entry(self.line.name).or_default().push(token);
        drop(passage);
    }

    /// A session that is over, though it was not closed.
    fn lost(&self, session: &Session, loss: Loss) {
        let sure_for = session.remaining();
        let by_server = matches!(
            loss,
            Loss::Expired | Loss::Revoked | Loss::NotFound | Loss::Replaced | Loss::KeyDeleted
        );
        let mut seen = self.shared.seen();
        let why = format!("{loss} ({})", self.engine.name());
        *seen.lost.entry(why).or_default() += 1;
        if by_server && !sure_for.is_zero() {
            let (line, id) = (self.line.name, session.id());
            seen.early.push(format!("{line}: session {id}: {loss}, and was sure for {sure_for:?}"));
        }
    }
}

fn revision(done: &pb::PutResponse) -> i64 {
    done.header.as_ref().map_or(0, |header| header.revision)
}

impl Held {
    /// No write passed under an old token, and no two holders believed at once.
    pub(super) fn judge(&self, told: &Everything) -> Vec<Check> {
        let mut stale = self.stale.clone();
        for (line, passed) in &self.passed {
            let back = passed.windows(2).filter(|pair| pair[1] < pair[0]);
            stale.extend(back.map(|pair| format!("{line}, gate: {} after {}", pair[1], pair[0])));
        }
        let mut newest: BTreeMap<&str, i64> = BTreeMap::new();
        for one in told.guarded() {
            let Some(Ok(token)) = one.value.as_ref().map(|value| value.parse::<i64>()) else {
                continue;
            };
            let before = newest.entry(&one.key).or_insert(token);
            if token < *before {
                stale.push(format!("{}: {token} after {before} at {}", one.key, one.revision));
            }
            *before = token.max(*before);
        }
        let there: BTreeMap<i64, Option<&str>> =
            told.guarded().iter().map(|one| (one.revision, one.value.as_deref())).collect();
        for (revision, token) in &self.written {
            let found = there.get(revision).copied().flatten();
            if found != Some(&token.to_string()) {
                stale.push(format!("{token} was acknowledged at {revision}, there is {found:?}"));
            }
        }
        let passed: usize = self.passed.values().map(Vec::len).sum();
        let against = [
            ("guarded writes", self.written.len()),
            ("refused", self.refused),
            ("unknown", self.unknown),
            ("through the gate", passed),
        ];
        let overlaps = self.overlaps();
        let times = [("tenures", self.tenures.len())];
        vec![
            Check::new("stale writes accepted: 0", &against, stale),
            Check::new("never two who believed to hold", &times, overlaps),
        ]
    }

    fn overlaps(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for line in LINES {
            let mut tenures: Vec<_> =
                self.tenures.iter().filter(|tenure| tenure.line == line.name).collect();
            tenures.sort_by_key(|tenure| tenure.from);
            let mut last: Option<&Tenure> = None;
            for tenure in tenures {
                if let Some(before) = last
                    && before.until > tenure.from
                {
                    let by = before.until - tenure.from;
                    wrong.push(format!(
                        "{}: {} believed for {by:?} beside {}",
                        line.name, before.token, tenure.token
                    ));
                }
                last = last.filter(|last| last.until > tenure.until).or(Some(tenure));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: i64) -> FencingToken {
        FencingToken::from_revision(number).unwrap()
    }

    fn tenure(from: Instant, times: [u64; 2], number: i64) -> Tenure {
        let [from, until] = times.map(|ms| from + Duration::from_millis(ms));
        Tenure { line: LINES[0].name, token: token(number), from, until }
    }

    fn told(writes: &[(i64, i64)]) -> Everything {
        let key = format!("{GUARDED}/{}", LINES[0].name);
        Everything::of_guarded(
            writes.iter().map(|(revision, token)| (*revision, key.clone(), *token)),
        )
    }

    #[test]
    fn two_who_believe_at_once_are_seen() {
        let start = Instant::now();
        let tenures = |all: &[([u64; 2], i64)]| Held {
            tenures: all.iter().map(|(times, token)| tenure(start, *times, *token)).collect(),
            ..Held::default()
        };
        assert_eq!(tenures(&[([0, 5], 1), ([5, 9], 2), ([10, 11], 3)]).overlaps().len(), 0);
        assert_eq!(tenures(&[([0, 6], 1), ([5, 9], 2)]).overlaps().len(), 1);
        // One that outlasts the next one overlaps with the one after it, too.
        assert_eq!(tenures(&[([0, 20], 1), ([5, 9], 2), ([10, 11], 3)]).overlaps().len(), 2);
    }

    #[test]
    fn a_write_under_an_old_token_is_seen() {
        let held = Held::default();
        let stale = |writes: &[(i64, i64)]| held.judge(&told(writes))[0].wrong.len();
        assert_eq!(stale(&[(10, 5), (11, 5), (12, 7)]), 0);
        assert_eq!(stale(&[(10, 5), (11, 7), (12, 5)]), 1);
        let mut behind_the_gate = Held::default();
        behind_the_gate.passed.insert(LINES[0].name, vec![token(5), token(7), token(5)]);
        assert_eq!(behind_the_gate.judge(&told(&[]))[0].wrong.len(), 1);
    }

    #[test]
    fn a_guarded_write_that_was_acknowledged_and_is_not_there_is_seen() {
        let held = Held { written: BTreeMap::from([(11, token(5))]), ..Held::default() };
        assert_eq!(held.judge(&told(&[(11, 5)]))[0].wrong.len(), 0);
        assert_eq!(held.judge(&told(&[(10, 5)]))[0].wrong.len(), 1);
        assert_eq!(held.judge(&told(&[(11, 7)]))[0].wrong.len(), 1);
    }
}
