//! Standing in a line: what elections and locks share.
//!
//! A place in a line is a key `<name>/<lease in hex>` on the caller's lease, as etcd's recipes make it, so that
//! their clients and ours stand in one line. Whose turn it is the state machine knows; here is what happens around
//! it: coming in, waiting, and cleaning up after somebody who did not wait.
//!
//! A call that goes away before its turn came takes back what it did, and nothing else:
//!
//! - The key, if this call made it. A repeated call of the same lease finds the key there and *takes it over*, by
//!   a write that leaves everything as it is but the version; from then on the call that made it leaves it alone.
//!   Otherwise the late clean-up of a first try would take the hold away that a second try was just given.
//! - The lease, if this call had none and the server granted it.
//!
//! When the member itself stops nothing is taken back: its clients will call another member with the same lease,
//! and find their places as they were.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, Failure, KeyValue, LeaseId, Op, OpResult,
    Put, Range, Revision, Span, Txn, TxnResult, op::PutLease, wire::etcdserverpb::ResponseHeader,
};
use tenure_replica::{
    Answer, Consistency, Outcome, Read, Reply, Request,
    command::{Command, Expiry},
    queue::key_of,
};
use tokio::sync::Semaphore;
use tonic::{Status, metadata::MetadataMap};

use super::{
    Limits,
    lease::unowned,
    reply::{refuse, unexpected, wants_leader},
    turn::{self, Turn},
    watch::leader_gone,
};
use crate::node::{Door, Stamp};

/// How often a lease is renewed that nobody else renews.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(10);
/// How long it is tried to take something back. Whatever is left then ends with its lease.
const UNDO_PATIENCE: Duration = Duration::from_secs(60);
/// A pause between two tries.
const UNDO_PAUSE: Duration = Duration::from_millis(200);
/// How often another id is tried for a lease if the first one is taken.
const LEASE_IDS_MAX: usize = 8;
/// Calls that may wait for their turn at a member; more are refused with "too many requests".
const WAITING_MAX: usize = 100_000;

/// The places in all lines, for those who come through etcd's services.
#[derive(Clone)]
pub(super) struct Places {
    door: Door,
    limits: Limits,
    waiting: Arc<Semaphore>,
}

/// Somebody who wants to stand in a line.
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

/// A place whose turn has come.
pub(super) struct Held {
    pub(super) header: Option<ResponseHeader>,
    pub(super) key: Bytes,
    /// The create revision of the key.
    pub(super) token: Revision,
    pub(super) lease: LeaseId,
    /// Whether the server granted the lease; nobody renews it from now on.
    pub(super) is_unowned: bool,
}

impl Places {
    pub(super) fn new(door: Door, limits: Limits) -> Places {
        Places::with_room(door, limits, WAITING_MAX)
    }

    fn with_room(door: Door, limits: Limits, waiting_max: usize) -> Places {
        Places { door, limits, waiting: Arc::new(Semaphore::new(waiting_max)) }
    }

    /// Takes a place and waits for its turn.
    pub(super) async fn hold(
        &self,
        newcomer: Newcomer,
        metadata: &MetadataMap,
    ) -> Result<Held, Status> {
        let has_leader = wants_leader(metadata);
        let _waits = self.waiting.try_acquire().map_err(|_| refuse(Failure::TooManyRequests))?;
        self.door.lines_ready().await.map_err(refuse)?;
        let mut stood = false;
        loop {
            // In a task of its own: a call that goes away in the middle must not leave half of it behind.
            let entering = tokio::spawn(enter(self.door.clone(), newcomer.clone()));
            let place = match entering.await.map_err(|_| refuse(Failure::Stopped))? {
                // It had a place, and lost it with its lease: whoever made the key is told the same.
                Err(status) if stood && is(&status, Failure::LeaseNotFound) => {
                    return Err(refuse(newcomer.expired));
                }
                entered => entered?,
            };
            stood = true;
            let turn = tokio::select! {
                turn = turn::wait(&self.door, &newcomer.name, &place.key, place.created) => {
                    turn.map_err(refuse)?
                }
                failure = renew(&self.door, place.lease), if place.is_unowned => {
                    return Err(refuse(failure));
                }
                () = leader_gone(self.door.clone(), self.limits), if has_leader => {
                    return Err(refuse(Failure::NoLeader));
                }
                () = self.door.closed() => return Err(refuse(Failure::Stopped)),
            };
            match turn {
                Turn::Held(stamp) => return self.keep(place, stamp, newcomer.expired).await,
                Turn::Gone if place.is_fresh => return Err(refuse(newcomer.expired)),
                // The call that made it took it back before this one had taken it over, or somebody deleted
                // it: if the lease lives there is a place at the end of the line.
                Turn::Gone => {}
            }
        }
    }

    async fn keep(&self, place: Place, stamp: Stamp, expired: Failure) -> Result<Held, Status> {
        if place.is_unowned {
            match renew_once(&self.door, place.lease).await {
                Err(Failure::LeaseNotFound) => return Err(refuse(expired)),
                renewed => renewed.map_err(refuse)?,
            }
        }
        let (key, token, lease) = (place.key.clone(), place.created, place.lease);
        let is_unowned = place.is_unowned;
        place.undo.forget();
        Ok(Held { header: Some(self.door.header(stamp)), key, token, lease, is_unowned })
    }

    /// Gives up a place, whether it holds or waits; with a token, only the one that has it.
    pub(super) async fn leave(
        &self,
        key: Bytes,
        token: Option<Revision>,
    ) -> Result<Option<ResponseHeader>, Status> {
        let command = Command::Txn(leaving(&key, token.map(|token| created(&key, token))));
        let (header, left) = done(&self.door, self.door.ask(Request::Write(command)).await)?;
        let lease = match left.responses.into_iter().next() {
            Some(OpResult::DeleteRange(gone)) => gone.prev.first().and_then(|kv| kv.lease),
            _ => None,
        };
        if let Some(lease) = lease.filter(|lease| unowned::is(*lease)) {
            self.end_unowned(lease).await;
        }
        Ok(header)
    }

    /// Ends a lease that the server granted, if nothing else hangs on it. If that fails it runs out.
    ///
    /// To look and to end are two steps, and between them a call at any member may take another place on the same
    /// lease, whose id its holder knows. So the lease is ended as if its time were over: only if nobody has renewed it
    /// since the look, and only in the same term. Whoever takes a place on such a lease renews it then, before anybody
    /// is told of the place (see `enter`). A plain write of a key on it at the same time is not guarded.
    async fn end_unowned(&self, lease: LeaseId) {
        let read = Request::Read(Read::State, Consistency::Linearizable);
        let Ok(Answer { result: Ok(Reply::State(frozen)), term, .. }) = self.door.ask(read).await
        else {
            return;
        };
        let Some(found) = frozen.state.leases.get(lease) else { return };
        if found.keys.is_empty() && found.ttl_secs == unowned::TTL_SECS {
            let unused = vec![Expiry { id: lease, renewed_at: found.renewed_at }];
            drop(frozen);
            let _ = self.door.ask(Request::Write(Command::LeaseExpire(term, unused))).await;
        }
    }

    /// Changes what a place shows, which must have this token.
    pub(super) async fn show(
        &self,
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
            let (header, answer) = done(&self.door, self.door.ask(Request::Write(txn)).await)?;
            if answer.succeeded {
                return Ok(header);
            }
        }
        // Whatever lease the caller names, the key stays on the one it has: etcd moves it, and if the caller
        // names none, to one that nobody renews.
        let txn = Command::Txn(shown(PutLease::Keep, vec![created(key, token)]));
        let (header, answer) = done(&self.door, self.door.ask(Request::Write(txn)).await)?;
        if answer.succeeded { Ok(header) } else { Err(refuse(Failure::ElectionNotLeader)) }
    }
}

/// A place in a line. Dropping it takes back what was done for it.
struct Place {
    key: Bytes,
    created: Revision,
    lease: LeaseId,
    /// This call made the key.
    is_fresh: bool,
    is_unowned: bool,
    undo: Undo,
}

/// Stands in the line, on the caller's lease or on a new one.
async fn enter(door: Door, newcomer: Newcomer) -> Result<Place, Status> {
    let (lease, unowned) = match newcomer.lease {
        Some(lease) => (lease, None),
        None => {
            let lease = grant(&door).await?;
            (lease, Some(Undo::new(door.clone(), Command::LeaseRevoke(lease))))
        }
    };
    let is_unowned = unowned.is_some();
    let key = key_of(&newcomer.name, lease);
    let command = Command::Txn(entering(&key, lease, newcomer.value));
    let (_, entered) = done(&door, door.ask(Request::Write(command)).await)?;
    let is_fresh = entered.succeeded;
    let found = found(entered).ok_or_else(|| Status::internal("a key is neither there nor not"))?;
    let created = found.create_revision;
    let undo = match unowned {
        // A new lease takes its key with it.
        Some(lease) => lease,
        None if is_fresh => Undo::new(door.clone(), Command::Txn(untouched(&key, created))),
        None => Undo::nothing(),
    };
    let place = Place { key, created, lease, is_fresh, is_unowned, undo };
    if newcomer.lease.is_some_and(unowned::is) {
        // Whoever found the lease unused before that must not end it now.
        renew_once(&door, lease).await.map_err(refuse)?;
    }
    Ok(place)
}

async fn grant(door: &Door) -> Result<LeaseId, Status> {
    door.metrics.lease.unowned.inc();
    let mut tried = 0;
    loop {
        let command = Command::LeaseGrant { id: unowned::id(), ttl_secs: unowned::TTL_SECS };
        match door.open(door.ask(Request::Write(command)).await) {
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
async fn renew(door: &Door, lease: LeaseId) -> Failure {
    loop {
        tokio::time::sleep(RENEWAL_INTERVAL).await;
        // What fails otherwise is tried again in time. If the lease ends the place does, and that is heard.
        if let Err(failure @ Failure::Stopped) = renew_once(door, lease).await {
            return failure;
        }
    }
}

async fn renew_once(door: &Door, lease: LeaseId) -> Result<(), Failure> {
    door.ask(Request::Write(Command::LeaseRenew(lease))).await?.result.map(|_| ())
}

/// What must be taken back unless it is kept.
struct Undo {
    what: Option<(Door, Command)>,
}

impl Undo {
    fn new(door: Door, command: Command) -> Undo {
        Undo { what: Some((door, command)) }
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
        let Some((door, command)) = self.what.take().filter(|(door, _)| !door.is_closed()) else {
            return;
        };
        // The first try is sent here and now, so that it comes before the next call of the same client.
        let first = door.begin(Request::Write(command.clone()));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let repeated = async move {
                let mut failed = has_failed(first.await);
                while failed && !door.is_closed() {
                    tokio::time::sleep(UNDO_PAUSE).await;
                    failed = has_failed(door.ask(Request::Write(command.clone())).await);
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
    door: &Door,
    answer: Result<Answer, Failure>,
) -> Result<(Option<ResponseHeader>, TxnResult), Status> {
    match door.open(answer)? {
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
    // Nothing is written if that would change nothing and somebody took the key over before: nobody takes it
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

fn leaving(key: &Bytes, only_if: impl IntoIterator<Item = Compare>) -> Txn {
    let delete = DeleteRange { span: Span::One(key.clone()), prev_kv: true };
    Txn {
        compare: only_if.into_iter().collect(),
        success: vec![Op::DeleteRange(delete)],
        failure: vec![],
    }
}

/// Deletes a key that nobody has touched since it was made.
fn untouched(key: &Bytes, made: Revision) -> Txn {
    leaving(key, [created(key, made), compare(key, CompareTarget::Mod(made))])
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use futures_util::poll;
    use tenure_replica::{HardState, Moment, Recovered, Replica};
    use tokio::sync::watch;
    use tonic::Code;

    use super::*;
    use crate::Config;

    /// A door behind which nobody answers.
    fn places(waiting_max: usize) -> Places {
        let config = Config::default();
        let members = config.members();
        let me = members[0].id;
        let nothing = Recovered {
            boot: 1,
            snapshot: None,
            hard_state: HardState::default(),
            entries: vec![],
        };
        let settings = tenure_replica::Config::new(me, members);
        let replica = Replica::new(Moment::ZERO, settings, nothing);
        let (_, status) = watch::channel(Arc::new(replica.status()));
        let (door, _) = Door::alone(me, config.cluster_id(), status);
        let limits = Limits {
            request_bytes_max: config.max_request_bytes,
            txn_ops_max: config.max_txn_ops,
            leaderless_max: Duration::from_secs(1),
            can_grow: true,
        };
        Places::with_room(door, limits, waiting_max)
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_may_wait_for_their_turn_are_refused_until_somebody_goes() {
        const MAX: usize = 3;
        let places = places(MAX);
        let metadata = MetadataMap::new();
        let newcomer = || Newcomer {
            name: "door".into(),
            lease: LeaseId::from_wire(7),
            value: None,
            expired: Failure::LeaseNotFound,
        };
        let mut waiting = VecDeque::new();
        for _ in 0..MAX {
            let mut call = Box::pin(places.hold(newcomer(), &metadata));
            assert!(poll!(&mut call).is_pending());
            waiting.push_back(call);
        }
        for _ in 0..2 {
            let refused = places.hold(newcomer(), &metadata).await.err().expect("no room");
            let said = (refused.code(), refused.message());
            assert_eq!(said, (Code::ResourceExhausted, "etcdserver: too many requests"));
            // Somebody hangs up, and there is room for one.
            waiting.pop_front();
            let mut call = Box::pin(places.hold(newcomer(), &metadata));
            assert!(poll!(&mut call).is_pending());
            waiting.push_back(call);
        }
    }
}
