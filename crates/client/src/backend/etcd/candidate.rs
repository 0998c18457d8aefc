//! One candidacy: entering, waiting, holding, leaving.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tenure_api::wire::etcdserverpb as pb;

use super::keys::{self, Key};
use super::look::{self, Turn};
use super::names::KeyRight;
use super::session::{Shared, lease_is_gone};
use super::txn::{self, CandidateKey, found, revision};
use super::watch;
use crate::backend::{BackendCandidate, Boxed, Grant, HeldName, JoinSpec, Mode};
use crate::chance::Backoff;
use crate::grpc::ClientError;
use crate::{AcquireError, EngineError, FencingToken, Loss, ProclaimError};

/// Pauses between attempts that fail.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// How long a request with an unknown outcome may still take effect: longer than any member keeps one.
const LATE_FOR_MAX: Duration = Duration::from_secs(20);
const LATE_LOOK: Duration = Duration::from_secs(1);
/// How often a new value is offered before the caller hears of it.
const PROCLAIM_ATTEMPTS: usize = 4;

/// A candidacy on etcd.
#[derive(Debug)]
pub(super) struct EtcdCandidate {
    shared: Arc<Shared>,
    join: JoinSpec,
    keys: Vec<CandidateKey>,
    state: Mutex<State>,
    /// One proclamation at a time, each knowing the revision of the one before.
    proclaimed: tokio::sync::Mutex<Option<i64>>,
}

#[derive(Debug, Default)]
struct State {
    /// The right to have the keys, from entering until they are surely gone.
    rights: Vec<KeyRight>,
    /// The keys' create revisions, once they are known.
    tokens: Option<Vec<i64>>,
    /// The newest revision at which the keys were seen.
    seen: i64,
    /// The keys are from an attempt before, and say something else.
    stale_value: bool,
    /// A request to create the keys was sent, and what became of it is not known.
    in_doubt: bool,
    forsaken: bool,
}

/// What one look at the election found.
enum Look {
    Turn(Turn, usize, i64),
    Gone,
}

impl EtcdCandidate {
    pub(super) fn new(shared: Arc<Shared>, join: JoinSpec) -> EtcdCandidate {
        let key = |name: &crate::ElectionName| CandidateKey {
            name: name.clone(),
            key: Key::of(name, shared.lease, join.mode),
        };
        let keys = join.names.iter().map(key).collect();
        EtcdCandidate {
            shared,
            join,
            keys,
            state: Mutex::default(),
            proclaimed: tokio::sync::Mutex::default(),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.shared.host.chance(), PAUSE_FIRST, PAUSE_MAX)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the keys, however often that has to be tried. Answers whether they are the first.
    async fn create(&self) -> Result<bool, AcquireError> {
        let value = self.join.value.clone();
        let only_if_empty = self.join.try_only && self.join.mode == Mode::Exclusive;
        let enter = if only_if_empty { txn::enter_empty } else { txn::enter };
        let request = enter(&self.keys, self.shared.lease, &value);
        let mut backoff = self.backoff();
        loop {
            // Before it is sent: this future may be dropped while it is under way.
            let in_doubt = std::mem::replace(&mut self.state().in_doubt, true);
            match self.shared.client.kv().txn(request.clone()).await {
                Ok(answer) => {
                    self.state().in_doubt = in_doubt;
                    match self.created(&answer) {
                        Some(first) => return Ok(first),
                        None if only_if_empty => {
                            return Err(AcquireError::Taken { name: self.join.first_name() });
                        }
                        // Only some of several keys exist: an earlier attempt created them, and some were deleted
                        // since. Begin again.
                        None => self.delete_by_lease().await.unwrap_or_default(),
                    }
                }
                Err(error) if lease_is_gone(&error) => return Err(self.over(Loss::NotFound)),
                Err(error) if error.is_refused() => {
                    self.state().in_doubt = in_doubt;
                    let name = self.join.first_name();
                    return Err(AcquireError::Refused { name, source: error.into() });
                }
                Err(error) if error.outcome_unknown() => {}
                Err(_) => self.state().in_doubt = in_doubt,
            }
            self.shared.host.pause(backoff.pause()).await;
        }
    }

    /// Notes the keys that exist: just created, or by an attempt whose response was lost. `None` if some are missing.
    fn created(&self, answer: &pb::TxnResponse) -> Option<bool> {
        let at = revision(answer.header.as_ref());
        let count = self.keys.len();
        let mut state = self.state();
        if answer.succeeded {
            state.tokens = Some(vec![at; count]);
            state.seen = at;
            let first = |(n, key): (usize, &CandidateKey)| {
                found(answer, count + n).first().is_some_and(|kv| kv.key == key.key)
            };
            return Some(self.keys.iter().enumerate().all(first));
        }
        let ours = |n| found(answer, n).iter().find(|kv| kv.lease == self.shared.lease.0);
        let tokens: Option<Vec<i64>> =
            (0..count).map(|n| ours(n).map(|kv| kv.create_revision)).collect();
        state.tokens = Some(tokens?);
        state.seen = at;
        state.stale_value = (0..count).filter_map(ours).any(|kv| kv.value != self.join.value);
        Some(false)
    }

    /// Reads at one revision: do our keys exist, and which keys are older?
    async fn look(&self) -> Result<Look, ClientError> {
        let candidates = self.candidates();
        let newest_only = self.join.mode == Mode::Exclusive;
        // Runs to its end even if the caller stops waiting: etcd before 3.5.5 panics when a read-only transaction is
        // cancelled (etcd#14110).
        let (client, look) = (self.shared.client.clone(), txn::look(&candidates, newest_only));
        let asked = self.shared.host.start(async move { client.kv().txn(look).await });
        let over = || ClientError::Unavailable {
            code: tonic::Code::Cancelled,
            text: "this process is about to end".to_owned(),
        };
        let answer = asked.await.unwrap_or_else(|_| Err(over()))?;
        if !answer.succeeded {
            return Ok(Look::Gone);
        }
        let at = revision(answer.header.as_ref());
        self.state().seen = at;
        for (n, (key, _)) in candidates.iter().enumerate() {
            let prefix = keys::prefix(&key.name);
            let older = found(&answer, n).iter();
            let older: Vec<_> =
                older.map(|kv| (kv.key.clone(), Key::mode(&prefix, &kv.key))).collect();
            let turn = look::turn(self.join.mode, &older);
            if turn != Turn::Free {
                return Ok(Look::Turn(turn, n, at));
            }
        }
        Ok(Look::Turn(Turn::Free, 0, at))
    }

    fn candidates(&self) -> Vec<(CandidateKey, i64)> {
        let state = self.state();
        let tokens = state.tokens.as_ref().expect("only who has entered looks");
        self.keys.iter().cloned().zip(tokens.iter().copied()).collect()
    }

    fn own_keys(&self) -> Vec<watch::Span> {
        self.keys.iter().map(|key| (key.key.clone(), Bytes::new())).collect()
    }

    fn grant(&self) -> Grant {
        let held = self.candidates().into_iter().map(|(key, token)| HeldName {
            name: key.name,
            token: FencingToken::from_revision(token).expect("a key is created after revision 1"),
            slot: None,
        });
        Grant { held: held.collect() }
    }

    /// Why our key is gone: with its lease, or alone.
    async fn why(&self) -> Loss {
        let request = pb::LeaseTimeToLiveRequest { id: self.shared.lease.0, keys: false };
        match self.shared.client.lease().time_to_live(request).await {
            Ok(status) if status.ttl > 0 => Loss::KeyDeleted,
            Ok(_) => Loss::NotFound,
            Err(error) if lease_is_gone(&error) => Loss::NotFound,
            Err(_) => Loss::KeyDeleted,
        }
    }

    fn over(&self, loss: Loss) -> AcquireError {
        AcquireError::out_of_election(self.join.first_name(), loss)
    }

    async fn delete_by_lease(&self) -> Result<(), EngineError> {
        for key in &self.keys {
            let request = txn::leave_by_lease(&key.key, self.shared.lease);
            self.shared.client.kv().txn(request).await?;
        }
        Ok(())
    }
}

impl BackendCandidate for EtcdCandidate {
    fn enter(&self) -> Boxed<'_, Result<Option<Grant>, AcquireError>> {
        Box::pin(async move {
            // In one order, so that two candidates for the same names do not wait for each other.
            let mut names: Vec<_> = self.join.names.iter().collect();
            names.sort_unstable();
            let mut rights = Vec::with_capacity(names.len());
            for name in names {
                rights.push(self.shared.names.key_right(name).await);
            }
            self.state().rights = rights;
            let first = self.create().await?;
            // The keys were created in the same transaction that found them to be the first.
            if first {
                return Ok(Some(self.grant()));
            }
            if self.state().stale_value {
                // What is not told now is told by the next proclamation; losing the candidacy is found out below.
                let _ = self.proclaim(self.join.value.to_vec()).await;
            }
            loop {
                match self.look().await {
                    Ok(Look::Turn(Turn::Free, ..)) => return Ok(Some(self.grant())),
                    Ok(Look::Turn(..)) => return Ok(None),
                    Ok(Look::Gone) => return Err(self.over(self.why().await)),
                    Err(error) if error.is_refused() => {
                        let name = self.join.first_name();
                        return Err(AcquireError::Refused { name, source: error.into() });
                    }
                    Err(_) => self.shared.host.pause(PAUSE_FIRST).await,
                }
            }
        })
    }

    fn turn(&self) -> Boxed<'_, Result<Grant, AcquireError>> {
        Box::pin(async move {
            let mut backoff = self.backoff();
            loop {
                let name = self.join.first_name();
                match self.look().await {
                    Ok(Look::Turn(Turn::Free, ..)) => return Ok(self.grant()),
                    Ok(Look::Gone) => return Err(self.over(self.why().await)),
                    Ok(Look::Turn(Turn::Mismatch(other), ..)) => {
                        let text = format!("{other:?}");
                        return Err(AcquireError::ModeMismatch { name, text });
                    }
                    Ok(Look::Turn(turn, n, at)) => {
                        let mut spans = self.own_keys();
                        spans.push(match turn {
                            Turn::Behind(key) => (key, Bytes::new()),
                            _ => keys::span(&self.keys[n].name),
                        });
                        if watch::deletion(&self.shared.client, spans, at + 1).await {
                            backoff.reset();
                        } else {
                            self.shared.host.pause(backoff.pause()).await;
                        }
                    }
                    Err(error) if error.is_refused() => {
                        return Err(AcquireError::Refused { name, source: error.into() });
                    }
                    Err(_) => self.shared.host.pause(backoff.pause()).await,
                }
            }
        })
    }

    fn gone(&self) -> Boxed<'_, Loss> {
        Box::pin(async move {
            let mut backoff = self.backoff();
            loop {
                let seen = self.state().seen;
                watch::deletion(&self.shared.client, self.own_keys(), seen + 1).await;
                if matches!(self.look().await, Ok(Look::Gone)) {
                    return self.why().await;
                }
                self.shared.host.pause(backoff.pause()).await;
            }
        })
    }

    fn proclaim(&self, value: Vec<u8>) -> Boxed<'_, Result<(), ProclaimError>> {
        Box::pin(async move {
            let value = Bytes::from(value);
            let mut modified = self.proclaimed.lock().await;
            let mut backoff = self.backoff();
            let mut failed = None;
            let (key, token) = self.candidates().swap_remove(0);
            for _ in 0..PROCLAIM_ATTEMPTS {
                let name = key.name.clone();
                // Guarded by the revision of the last one: a late copy of an old proclamation then
                // changes nothing.
                let known = modified.unwrap_or(token);
                let request = txn::proclaim(&key.key, token, known, &value);
                match self.shared.client.kv().txn(request).await {
                    Ok(answer) if answer.succeeded => {
                        *modified = Some(revision(answer.header.as_ref()));
                        return Ok(());
                    }
                    Ok(answer) => match found(&answer, 0).first() {
                        Some(kv) if kv.create_revision == token => {
                            *modified = Some(kv.mod_revision);
                            if kv.value == value {
                                return Ok(());
                            }
                        }
                        _ => return Err(ProclaimError::Lost { name, loss: self.why().await }),
                    },
                    Err(error) if error.is_refused() => {
                        return Err(ProclaimError::Refused { name, source: error.into() });
                    }
                    Err(error) => {
                        failed = Some(error.into());
                        self.shared.host.pause(backoff.pause()).await;
                    }
                }
            }
            let text = "others change the value at the same time".to_owned();
            let source = failed.unwrap_or(EngineError::Unavailable { text });
            Err(ProclaimError::Unknown { name: key.name, source })
        })
    }

    fn forsake(&self, _stopped: bool) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.forsaken, true) {
            self.shared.names.free(&self.join.names);
        }
    }

    fn leave(&self) -> Boxed<'_, Result<(), EngineError>> {
        self.forsake(false);
        Box::pin(async move {
            let (tokens, in_doubt, entered) = {
                let state = self.state();
                (state.tokens.clone(), state.in_doubt, !state.rights.is_empty())
            };
            match tokens {
                // Only these: a newer hold of the same session has the same key.
                Some(tokens) => {
                    for (key, token) in self.keys.iter().zip(tokens) {
                        self.shared.client.kv().txn(txn::leave(&key.key, token)).await?;
                    }
                }
                // We have the right to the keys, so whatever hangs on our lease there is ours.
                None if entered => self.delete_by_lease().await?,
                None => {}
            }
            let rights = std::mem::take(&mut self.state().rights);
            drop(rights);
            if in_doubt {
                let sweep = sweep_late(Arc::clone(&self.shared), self.keys.clone());
                self.shared.host.spawn(Box::pin(sweep));
            }
            Ok(())
        })
    }
}

impl Drop for EtcdCandidate {
    fn drop(&mut self) {
        self.forsake(false);
    }
}

/// A request to create our keys whose outcome is unknown may take effect after they were deleted. Such a key would be a
/// candidate without a process for as long as the session lives. So this looks for it while that is possible, unless
/// the session is a candidate again, which then takes the key over.
async fn sweep_late(shared: Arc<Shared>, keys: Vec<CandidateKey>) {
    let host = &shared.host;
    let until = host.now() + LATE_FOR_MAX;
    while host.now() < until {
        host.pause(LATE_LOOK).await;
        for key in &keys {
            let Some(_right) = shared.names.key_right_if_idle(&key.name) else { continue };
            let request = txn::leave_by_lease(&key.key, shared.lease);
            // Tried again in a moment.
            let _ = shared.client.kv().txn(request).await;
        }
    }
}
