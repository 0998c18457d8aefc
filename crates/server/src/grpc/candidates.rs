//! Being a candidate: what elections and locks share.
//!
//! A candidate is a key `<name>/<lease in hex>` on the caller's lease, as etcd's recipes make it, so that
//! their clients and ours are candidates in the same election. Whose turn it is the state machine knows; here is what
//! happens around it: joining, waiting, and cleaning up after a call that did not wait.
//!
//! A call that goes away before its turn came takes back what it did, and nothing else:
//!
//! - The key, if this call made it. A repeated call of the same lease finds the key there and *takes it over*, by
//!   a write that leaves everything as it is but the version; from then on the call that made it leaves it alone.
//!   Otherwise the late clean-up of a first try would take the hold away that a second try was just given.
//! - The lease, if this call had none and the server granted it.
//!
//! When the member itself stops nothing is taken back: its clients will call another member with the same lease,
//! and find their candidates as they were.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, Failure, KeyValue, LeaseId, Op, OpResult,
    Principal, Put, Range, Revision, Span, Txn, TxnResult, op::PutLease,
    wire::etcdserverpb::ResponseHeader,
};
use tenure_replica::{Answer, Operation, Outcome, Reply, command::Command, election::key_of};
use tokio::sync::Semaphore;
use tonic::Status;

use super::{
    RequestLimits,
    lease::unowned,
    reply::{refuse, unexpected},
    turn::{self, Turn},
    watch::leader_gone,
};
use crate::{
    admission::{Admitted, CANDIDATES_WAITING_MAX},
    node::{NodeHandle, Stamp},
};

/// How often a lease is renewed that no client renews.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(10);
/// How long it is tried to take something back. Whatever is left then ends with its lease.
const UNDO_PATIENCE: Duration = Duration::from_secs(60);
/// A pause between two tries.
const UNDO_PAUSE: Duration = Duration::from_millis(200);
/// How often another id is tried for a lease if the first one is taken.
const LEASE_IDS_MAX: usize = 8;

/// The candidates of etcd's own services.
#[derive(Clone)]
pub(super) struct Candidates {
    node: NodeHandle,
    limits: RequestLimits,
    waiting: Arc<Semaphore>,
}

/// What a call wants to join with.
#[derive(Clone)]
pub(super) struct Newcomer {
    pub(super) name: Bytes,
    /// None lets the server grant one.
    pub(super) lease: Option<LeaseId>,
    /// What a candidate shows. A lock has nothing to show.
    pub(super) value: Option<Bytes>,
    /// What to say if the key goes before its turn comes.
    pub(super) expired: Failure,
}

/// A candidate whose turn has come.
pub(super) struct Held {
    pub(super) header: Option<ResponseHeader>,
    pub(super) key: Bytes,
    /// The create revision of the key.
    pub(super) token: Revision,
    pub(super) lease: LeaseId,
    /// Whether the server granted the lease; it is not renewed from now on.
    pub(super) is_unowned: bool,
}

impl Candidates {
    pub(super) fn new(node: NodeHandle, limits: RequestLimits) -> Candidates {
        Candidates::with_room(node, limits, CANDIDATES_WAITING_MAX)
    }

    fn with_room(node: NodeHandle, limits: RequestLimits, waiting_max: usize) -> Candidates {
        Candidates { node, limits, waiting: Arc::new(Semaphore::new(waiting_max)) }
    }

    /// Joins an election and waits for its turn.
    pub(super) async fn hold(&self, by: &Admitted, newcomer: Newcomer) -> Result<Held, Status> {
        let _waits = self.waiting.try_acquire().map_err(|_| refuse(Failure::TooManyRequests))?;
        self.node.elections_ready().await.map_err(refuse)?;
        let mut stood = false;
        loop {
            // In a task of its own: a call that goes away in the middle must not leave half of it behind.
            let entering = tokio::spawn(enter(self.node.clone(), by.clone(), newcomer.clone()));
            let candidate = match entering.await.map_err(|_| refuse(Failure::Stopped))? {
                // It was a candidate, and lost that with its lease: the call that made the key is told the same.
                Err(status) if stood && is(&status, Failure::LeaseNotFound) => {
                    return Err(refuse(newcomer.expired));
                }
                entered => entered?,
            };
            stood = true;
            let turn = tokio::select! {
                turn = turn::wait(&self.node, by, &newcomer.name, &candidate.key, candidate.created) => {
                    turn.map_err(refuse)?
                }
                failure = renew(&self.node, by, candidate.lease), if candidate.is_unowned => {
                    return Err(refuse(failure));
                }
                () = leader_gone(self.node.clone(), self.limits), if by.wants_leader() => {
                    return Err(refuse(Failure::NoLeader));
                }
                () = self.node.closed() => return Err(refuse(Failure::Stopped)),
            };
            match turn {
                Turn::Held(stamp) => {
                    return self.keep(by, candidate, stamp, newcomer.expired).await;
                }
                Turn::Gone if candidate.is_fresh => return Err(refuse(newcomer.expired)),
                // The call that made it took it back before this one had taken it over, or the key was deleted:
                // if the lease lives, it can join again at the end.
                Turn::Gone => {}
            }
        }
    }

    async fn keep(
        &self,
        by: &Admitted,
        candidate: Candidate,
        stamp: Stamp,
        expired: Failure,
    ) -> Result<Held, Status> {
        if candidate.is_unowned {
            match renew_once(&self.node, by, candidate.lease).await {
                Err(Failure::LeaseNotFound) => return Err(refuse(expired)),
                renewed => renewed.map_err(refuse)?,
            }
        }
        let (key, token, lease) = (candidate.key.clone(), candidate.created, candidate.lease);
        let is_unowned = candidate.is_unowned;
        candidate.undo.forget();
        Ok(Held { header: Some(self.node.header(stamp)), key, token, lease, is_unowned })
    }

    /// Gives up a candidacy, whether it holds or waits; with a token, only the one that has it.
    pub(super) async fn leave(
        &self,
        by: &Admitted,
        key: Bytes,
        token: Option<Revision>,
    ) -> Result<Option<ResponseHeader>, Status> {
        let command = Command::Txn(leaving(&key, token.map(|token| created(&key, token))));
        let (header, left) = done(&self.node, self.node.ask(by, Operation::Write(command)).await)?;
        let is_gone = match left.responses.into_iter().next() {
            Some(OpResult::DeleteRange(gone)) => gone.deleted > 0,
            _ => false,
        };
        // The key names its lease. To have it from the store would need the right to read it.
        let lease = lease_of(&key).filter(|lease| is_gone && unowned::is(*lease));
        if let Some(lease) = lease {
            // If another candidate is on it, or a member cannot do this yet, it runs out by itself.
            let unused = Command::LeaseEndUnused { id: lease, ttl_secs: unowned::TTL_SECS };
            let _ = self.node.ask(&itself(), Operation::Write(unused)).await;
        }
        Ok(header)
    }

    /// Changes the value of a candidate, which must have this token.
    pub(super) async fn show(
        &self,
        by: &Admitted,
        key: &Bytes,
        token: Revision,
        lease: Option<LeaseId>,
        value: Bytes,
    ) -> Result<Option<ResponseHeader>, Status> {
        let shown = |lease, held: Vec<Compare>| {
            let put = Put { key: key.clone(), value: Some(value.clone()), lease, prev_kv: false };
            Txn { compare: held, success: vec![Op::Put(put)], failure: vec![] }
        };
        if let Some(lease) = lease {
            // A write that names its lease passes even if the store is full.
            let on_lease = compare(key, CompareTarget::Lease(Some(lease)));
            let held = vec![created(key, token), on_lease];
            let txn = Command::Txn(shown(PutLease::Set(Some(lease)), held));
            let (header, answer) =
                done(&self.node, self.node.ask(by, Operation::Write(txn)).await)?;
            if answer.succeeded {
                return Ok(header);
            }
        }
        // Whatever lease the caller names, the key stays on the one it has: etcd moves it, and if the caller
        // names none, to one that no client renews.
        let txn = Command::Txn(shown(PutLease::Keep, vec![created(key, token)]));
        let (header, answer) = done(&self.node, self.node.ask(by, Operation::Write(txn)).await)?;
        if answer.succeeded { Ok(header) } else { Err(refuse(Failure::ElectionNotLeader)) }
    }
}

/// A candidate in an election. Dropping it takes back what was done for it.
struct Candidate {
    key: Bytes,
    created: Revision,
    lease: LeaseId,
    /// This call made the key.
    is_fresh: bool,
    is_unowned: bool,
    undo: Undo,
}

/// Joins the election, on the caller's lease or on a new one.
async fn enter(node: NodeHandle, by: Admitted, newcomer: Newcomer) -> Result<Candidate, Status> {
    let (lease, unowned) = match newcomer.lease {
        Some(lease) => (lease, None),
        None => {
            let lease = grant(&node, &by).await?;
            (lease, Some(Undo::new(node.clone(), Command::LeaseRevoke(lease))))
        }
    };
    let is_unowned = unowned.is_some();
    let key = key_of(&newcomer.name, lease);
    let command = Command::Txn(entering(&key, lease, newcomer.value));
    let (_, entered) = done(&node, node.ask(&by, Operation::Write(command)).await)?;
    let is_fresh = entered.succeeded;
    let found = found(entered).ok_or_else(|| Status::internal("a key is neither there nor not"))?;
    let created = found.create_revision;
    let undo = match unowned {
        // A new lease takes its key with it.
        Some(lease) => lease,
        None if is_fresh => Undo::new(node.clone(), Command::Txn(untouched(&key, created))),
        None => Undo::nothing(),
    };
    let candidate = Candidate { key, created, lease, is_fresh, is_unowned, undo };
    if newcomer.lease.is_some_and(unowned::is) {
        // A member before command version 7 looks first whether the lease is unused, and then ends it unless it was
        // renewed since.
        renew_once(&node, &by, lease).await.map_err(refuse)?;
    }
    Ok(candidate)
}

async fn grant(node: &NodeHandle, by: &Admitted) -> Result<LeaseId, Status> {
    node.metrics.lease.unowned.inc();
    let mut tried = 0;
    loop {
        let command = Command::LeaseGrant { id: unowned::id(), ttl_secs: unowned::TTL_SECS };
        match node.open(node.ask(by, Operation::Write(command)).await) {
            Ok((_, Reply::Wrote(Outcome::Lease(lease)))) => return Ok(lease.id),
            Ok((_, other)) => return Err(unexpected(&other)),
            Err(status) => {
                tried += 1;
                let taken = is(&status, Failure::LeaseExists);
                if !taken || tried == LEASE_IDS_MAX {
                    return Err(status);
                }
            }
        }
    }
}

fn is(status: &Status, failure: Failure) -> bool {
    status.message() == failure.text()
}

/// Renews a lease until it is gone.
async fn renew(node: &NodeHandle, by: &Admitted, lease: LeaseId) -> Failure {
    loop {
        tokio::time::sleep(RENEWAL_INTERVAL).await;
        // What fails otherwise is tried again in time. If the lease ends the candidacy does, and that is heard.
        if let Err(failure @ Failure::Stopped) = renew_once(node, by, lease).await {
            return failure;
        }
    }
}

async fn renew_once(node: &NodeHandle, by: &Admitted, lease: LeaseId) -> Result<(), Failure> {
    node.ask(by, Operation::Write(Command::LeaseRenew(lease))).await?.result.map(|_| ())
}

/// What the member does of its own accord, whatever the caller may do by then.
fn itself() -> Admitted {
    Admitted::in_process(Principal::System)
}

/// What must be taken back unless it is kept.
struct Undo {
    what: Option<(NodeHandle, Command)>,
}

impl Undo {
    fn new(node: NodeHandle, command: Command) -> Undo {
        Undo { what: Some((node, command)) }
    }

    fn nothing() -> Undo {
        Undo { what: None }
    }

    fn forget(mut self) {
        self.what = None;
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let Some((node, command)) = self.what.take().filter(|(node, _)| !node.is_closed()) else {
            return;
        };
        // The first try is sent here and now, so that it comes before the next call of the same client.
        let first = node.begin(&itself(), Operation::Write(command.clone()));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let repeated = async move {
                let mut failed = has_failed(first.await);
                while failed && !node.is_closed() {
                    tokio::time::sleep(UNDO_PAUSE).await;
                    failed =
                        has_failed(node.ask(&itself(), Operation::Write(command.clone())).await);
                }
            };
            runtime.spawn(tokio::time::timeout(UNDO_PATIENCE, repeated));
        }
    }
}

/// Whether it is to be tried again. Twice does no harm.
fn has_failed(answer: Result<Answer, Failure>) -> bool {
    match answer.and_then(|answer| answer.result) {
        Ok(_) | Err(Failure::LeaseNotFound | Failure::Stopped) => false,
        Err(_) => true,
    }
}

/// The answer to a transaction.
fn done(
    node: &NodeHandle,
    answer: Result<Answer, Failure>,
) -> Result<(Option<ResponseHeader>, TxnResult), Status> {
    match node.open(answer)? {
        (header, Reply::Wrote(Outcome::Txn(done))) => Ok((header, done)),
        (_, other) => Err(unexpected(&other)),
    }
}

fn compare(key: &Bytes, target: CompareTarget) -> Compare {
    Compare { span: Span::One(key.clone()), result: CompareResult::Equal, target }
}

fn created(key: &Bytes, token: Revision) -> Compare {
    compare(key, CompareTarget::Create(token))
}

/// Makes the key, or takes it over.
fn entering(key: &Bytes, lease: LeaseId, value: Option<Bytes>) -> Txn {
    let put = |value| {
        let lease = PutLease::Set(Some(lease));
        Op::Put(Put { key: key.clone(), value, lease, prev_kv: false })
    };
    let get = Op::Range(Range::all(Span::One(key.clone())));
    // Nothing is written if that would change nothing and the key was taken over before: it is not taken
    // back any more.
    let mut settled = vec![Compare {
        span: Span::One(key.clone()),
        result: CompareResult::Greater,
        target: CompareTarget::Version(1),
    }];
    settled.extend(value.clone().map(|value| compare(key, CompareTarget::Value(value))));
    let take_over = Txn {
        compare: settled,
        success: vec![get.clone()],
        failure: vec![put(value.clone()), get.clone()],
    };
    Txn {
        compare: vec![created(key, Revision(0))],
        success: vec![put(Some(value.unwrap_or_default())), get],
        failure: vec![Op::Txn(take_over)],
    }
}

/// The key as it is after that.
fn found(entered: TxnResult) -> Option<Arc<KeyValue>> {
    match entered.responses.into_iter().next_back() {
        Some(OpResult::Range(range)) => range.kvs.into_iter().next(),
        Some(OpResult::Txn(inner)) => found(inner),
        _ => None,
    }
}

/// The lease that a candidate's key names.
fn lease_of(key: &Bytes) -> Option<LeaseId> {
    let at = key.iter().rposition(|byte| *byte == b'/')?;
    let text = std::str::from_utf8(&key[at + 1..]).ok()?;
    LeaseId::from_wire(i64::from_str_radix(text, 16).ok()?)
}

fn leaving(key: &Bytes, only_if: impl IntoIterator<Item = Compare>) -> Txn {
    let delete = DeleteRange { span: Span::One(key.clone()), prev_kv: false };
    Txn {
        compare: only_if.into_iter().collect(),
        success: vec![Op::DeleteRange(delete)],
        failure: vec![],
    }
}

/// Deletes a key that was not touched since it was made.
fn untouched(key: &Bytes, made: Revision) -> Txn {
    leaving(key, [created(key, made), compare(key, CompareTarget::Mod(made))])
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use futures_util::poll;
    use tonic::Code;

    use super::*;
    use crate::Config;

    /// A handle without a node to answer it.
    fn candidates(waiting_max: usize) -> Candidates {
        let (config, node) = (Config::default(), NodeHandle::unanswered());
        let limits = RequestLimits {
            request_bytes_max: config.max_request_bytes,
            txn_ops_max: config.max_txn_ops,
            leaderless_max: Duration::from_secs(1),
        };
        Candidates::with_room(node, limits, waiting_max)
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_may_wait_for_their_turn_are_refused_until_somebody_goes() {
        const MAX: usize = 3;
        let candidates = candidates(MAX);
        let by = Admitted::in_process(Principal::Anonymous);
        let newcomer = || Newcomer {
            name: "door".into(),
            lease: LeaseId::from_wire(7),
            value: None,
            expired: Failure::LeaseNotFound,
        };
        let mut waiting = VecDeque::new();
        for _ in 0..MAX {
            let mut call = Box::pin(candidates.hold(&by, newcomer()));
            assert!(poll!(&mut call).is_pending());
            waiting.push_back(call);
        }
        for _ in 0..2 {
            let refused = candidates.hold(&by, newcomer()).await.err().expect("no room");
            let said = (refused.code(), refused.message());
            assert_eq!(said, (Code::ResourceExhausted, "etcdserver: too many requests"));
            // One call hangs up, and there is room for another.
            waiting.pop_front();
            let mut call = Box::pin(candidates.hold(&by, newcomer()));
            assert!(poll!(&mut call).is_pending());
            waiting.push_back(call);
        }
    }
}
