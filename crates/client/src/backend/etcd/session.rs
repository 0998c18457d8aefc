//! A session on etcd is a lease.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_api::wire::etcdserverpb as pb;
use tenure_api::{Failure, LeaseId};

use super::candidate::EtcdCandidate;
use super::names::NamesInUse;
use crate::backend::{
    BackendCandidate, BackendSession, Boxed, JoinSpec, Mode, Opened, Opening, RenewError,
};
use crate::grpc::{Client, ClientError, Renewals};
use crate::host::Host;
use crate::{AcquireError, EngineError, Loss};

/// How many names one transaction can enter: etcd takes 128 operations, and each name needs two.
const NAMES_MAX: usize = 64;

/// What everything of one session shares.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) lease: LeaseId,
    pub(super) names: NamesInUse,
    pub(super) host: Arc<dyn Host>,
}

/// A lease and the streams that renew it.
#[derive(Debug)]
pub(super) struct EtcdSession {
    shared: Arc<Shared>,
    ttl: Duration,
    /// The same cluster, member by member.
    members: Vec<Client>,
    renewing: Mutex<Renewing>,
}

/// Where renewals go.
#[derive(Debug)]
struct Renewing {
    /// Counts up with every move to another member.
    turn: usize,
    stream: Option<Renewals>,
}

/// Asks for a lease, one member after the other, each with a moment of its own.
pub(super) async fn open(client: Client, opening: Opening) -> Result<Opened, EngineError> {
    let members: Vec<Client> = client.each_member().map(|(_, member)| member).collect();
    // Whole seconds, upwards: the server must not count less than we do.
    let ttl = i64::try_from(opening.ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX);
    let host = opening.host;
    let first = host.chance().below(members.len());
    let mut failed = None;
    for turn in first..first + members.len() {
        let sent = host.now();
        let request = pb::LeaseGrantRequest { ttl, id: 0 };
        match members[turn % members.len()].lease().grant(request).await {
            Ok(granted) => {
                let lease = LeaseId(granted.id);
                let shared = Arc::new(Shared { client, lease, names: NamesInUse::default(), host });
                let ttl = Duration::from_secs(u64::try_from(granted.ttl).unwrap_or(0));
                let renewing = Mutex::new(Renewing { turn, stream: None });
                let session = Arc::new(EtcdSession { shared, ttl, members, renewing });
                return Ok(Opened { session, sent });
            }
            Err(error) if error.is_refused() => return Err(error.into()),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.expect("a client has members").into())
}

impl EtcdSession {
    /// The stream in use, if there is one; and the member to ask otherwise. Until it is put back the
    /// next call goes to another member.
    fn take_stream(&self) -> (usize, Option<Renewals>) {
        let mut renewing = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = (renewing.turn, renewing.stream.take());
        renewing.turn = renewing.turn.wrapping_add(1);
        taken
    }

    fn put_back(&self, turn: usize, stream: Renewals) {
        let mut renewing = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        *renewing = Renewing { turn, stream: Some(stream) };
    }
}

impl BackendSession for EtcdSession {
    fn id(&self) -> LeaseId {
        self.shared.lease
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    /// One renewal and its answer. The stream is taken out meanwhile: if this future is dropped, the
    /// stream goes with it, and an answer that comes later cannot be taken for that of a later renewal.
    fn renew(&self) -> Boxed<'_, Result<(), RenewError>> {
        Box::pin(async move {
            let (turn, stream) = self.take_stream();
            let renewed = async {
                let mut stream = match stream {
                    Some(mut stream) => {
                        stream.renew().await?;
                        stream
                    }
                    None => {
                        let member = &self.members[turn % self.members.len()];
                        member.lease().renewals(self.shared.lease.0).await?
                    }
                };
                let answer = stream.answer().await?;
                Ok((stream, answer.ttl))
            };
            match renewed.await {
                Ok((stream, ttl)) if ttl > 0 => {
                    self.put_back(turn, stream);
                    Ok(())
                }
                Ok(_) => Err(RenewError::Over(Loss::NotFound)),
                Err(error) => Err(missed(error)),
            }
        })
    }

    /// etcd sends nothing unasked: holders and waiting candidates watch their own keys.
    fn ended(&self) -> Boxed<'_, Loss> {
        Box::pin(std::future::pending())
    }

    fn candidate(&self, join: JoinSpec) -> Result<Arc<dyn BackendCandidate>, AcquireError> {
        let name = join.first_name();
        let bad = |rule| Err(AcquireError::BadRequest { name: name.clone(), rule });
        if join.names.len() > NAMES_MAX {
            return bad("at most 64 names can be joined at once");
        }
        if join.names.len() > 1 && join.mode != Mode::Exclusive {
            return bad("several names can only be held exclusively");
        }
        let cannot =
            |what| Err(AcquireError::Unsupported { name: name.clone(), engine: "etcd", what });
        if join.priority > 0 || join.preempts {
            return cannot("prefer a candidate");
        }
        if join.unhealthy {
            return cannot("pass over a candidate");
        }
        if join.no_overlap {
            return cannot("tell when a predecessor has stopped");
        }
        self.shared
            .names
            .take(&join.names)
            .map_err(|name| AcquireError::AlreadyCandidate { name })?;
        Ok(Arc::new(EtcdCandidate::new(Arc::clone(&self.shared), join)))
    }

    fn close(&self, _stopped: bool) -> Boxed<'_, Result<(), EngineError>> {
        Box::pin(async move {
            match self.shared.client.lease().revoke(self.shared.lease.0).await {
                Ok(_) => Ok(()),
                Err(error) if lease_is_gone(&error) => Ok(()),
                Err(error) => Err(error.into()),
            }
        })
    }
}

fn missed(error: ClientError) -> RenewError {
    match &error {
        error if lease_is_gone(error) => RenewError::Over(Loss::NotFound),
        error if error.is_about_the_user() => RenewError::Over(Loss::AuthLost),
        _ => RenewError::Missed(error.into()),
    }
}

/// Whether the server says that there is no such lease.
pub(super) fn lease_is_gone(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { text, .. } if text == Failure::LeaseNotFound.text())
}
