//! Leases: grant, revoke, keep alive, time to live, list.

use std::{
    hash::{BuildHasher, RandomState},
    pin::Pin,
};

use futures_util::{FutureExt, Stream, StreamExt, future, stream};
use tenure_api::{Failure, GrantedLease, LeaseId, wire::etcdserverpb as pb};
use tenure_replica::{Consistency, Operation, Outcome, Read, Reply, command::Command};
use tonic::{Response, Status, Streaming};

use super::{
    RequestLimits,
    reply::{refuse, unexpected},
    stubs,
    watch::leader_gone,
};
use crate::{admission::Admitted, node::NodeHandle};

/// Renewals of one stream that may be under way at once.
const RENEWALS_MAX: usize = 1024;

pub(super) struct Lease {
    node: NodeHandle,
    limits: RequestLimits,
}

impl Lease {
    pub(super) fn new(node: NodeHandle, limits: RequestLimits) -> Lease {
        Lease { node, limits }
    }

    async fn grant(
        &self,
        by: &Admitted,
        id: LeaseId,
        ttl_secs: i64,
    ) -> Result<(Option<pb::ResponseHeader>, GrantedLease), Status> {
        let command = Command::LeaseGrant { id, ttl_secs };
        match self.node.open(self.node.ask(by, Operation::Write(command)).await)? {
            (header, Reply::Wrote(Outcome::Lease(lease))) => Ok((header, lease)),
            (_, other) => Err(unexpected(&other)),
        }
    }
}

/// A lease that is gone is an answer with TTL 0, not an error: clients wait for exactly that.
async fn renew(
    node: NodeHandle,
    by: Admitted,
    request: Result<pb::LeaseKeepAliveRequest, Status>,
) -> Result<pb::LeaseKeepAliveResponse, Status> {
    let id = LeaseId(request?.id);
    let answer = node.ask(&by, Operation::Write(Command::LeaseRenew(id))).await.map_err(refuse)?;
    let stamp = crate::node::Stamp { revision: answer.revision, term: answer.term };
    let ttl = match answer.result {
        Ok(Reply::Wrote(Outcome::Lease(lease))) => lease.ttl_secs,
        Err(Failure::LeaseNotFound) => 0,
        Err(failure) => return Err(refuse(failure)),
        Ok(other) => return Err(unexpected(&other)),
    };
    Ok(pb::LeaseKeepAliveResponse { header: Some(node.header(stamp)), id: id.0, ttl })
}

/// The answers, and as the last of them that the raft leader is gone, if that comes first.
fn until_no_leader<T>(
    answers: impl Stream<Item = Result<T, Status>>,
    gone: impl Future<Output = ()>,
) -> impl Stream<Item = Result<T, Status>> {
    let end = gone.map(|()| Some(Err(refuse(Failure::NoLeader))));
    let end = stream::once(end).chain(stream::iter([None]));
    // Whichever of the two is over first ends it.
    stream::select(answers.map(Some).chain(stream::iter([None])), end)
        .scan((), |(), answer| future::ready(answer))
}

/// A positive id that no other caller will choose.
fn random_id() -> LeaseId {
    positive_id(random)
}

/// The same, by numbers from elsewhere.
pub(super) fn positive_id(mut number: impl FnMut() -> u64) -> LeaseId {
    loop {
        let id = LeaseId(((number() >> 1) as i64).max(1));
        if !unowned::is(id) {
            return id;
        }
    }
}

pub(super) fn random() -> u64 {
    RandomState::new().hash_one(std::time::SystemTime::now())
}

/// Leases that the server granted because a client locked or campaigned without one.
///
/// They are known by their ids, so that any member can end one together with the hold it was made for.
pub(super) mod unowned {
    use super::{LeaseId, random};

    /// What such a lease has, from its grant and again from the moment its hold begins.
    pub(in crate::grpc) const TTL_SECS: i64 = 60;
    /// The first half of their ids.
    const MARK: i64 = 0x7465_6e75 << 32;

    /// An id of this kind that most likely no lease has.
    pub(in crate::grpc) fn id() -> LeaseId {
        LeaseId(MARK | i64::from(random() as u32))
    }

    /// Whether an id is of this kind.
    pub(in crate::grpc) fn is(id: LeaseId) -> bool {
        id.0 >> 32 == MARK >> 32
    }
}

#[tonic::async_trait]
impl stubs::lease_server::Lease for Lease {
    async fn lease_grant(
        &self,
        request: tonic::Request<pb::LeaseGrantRequest>,
    ) -> Result<Response<pb::LeaseGrantResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let id = LeaseId::from_wire(request.id).unwrap_or_else(random_id);
        let (header, lease) = self.grant(&by, id, request.ttl).await?;
        Ok(Response::new(pb::LeaseGrantResponse { header, ..lease.into() }))
    }

    async fn lease_revoke(
        &self,
        request: tonic::Request<pb::LeaseRevokeRequest>,
    ) -> Result<Response<pb::LeaseRevokeResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let command = Command::LeaseRevoke(LeaseId(request.id));
        let (header, _) = self.node.open(self.node.ask(&by, Operation::Write(command)).await)?;
        Ok(Response::new(pb::LeaseRevokeResponse { header }))
    }

    type LeaseKeepAliveStream =
        Pin<Box<dyn Stream<Item = Result<pb::LeaseKeepAliveResponse, Status>> + Send>>;

    async fn lease_keep_alive(
        &self,
        request: tonic::Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let (by, request) = self.node.admit(request)?;
        let has_leader = by.wants_leader();
        let node = self.node.clone();
        let answers = request
            .map(move |request| renew(node.clone(), by.clone(), request))
            .buffered(RENEWALS_MAX);
        if !has_leader {
            return Ok(Response::new(Box::pin(answers)));
        }
        let end = leader_gone(self.node.clone(), self.limits);
        Ok(Response::new(Box::pin(until_no_leader(answers, end))))
    }

    async fn lease_time_to_live(
        &self,
        request: tonic::Request<pb::LeaseTimeToLiveRequest>,
    ) -> Result<Response<pb::LeaseTimeToLiveResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let read = Read::Lease(LeaseId(request.id), request.keys);
        let read = Operation::Read(read, Consistency::Linearizable);
        let response = match self.node.open(self.node.ask(&by, read).await)? {
            (header, Reply::Lease(Some(lease))) => {
                pb::LeaseTimeToLiveResponse { header, ..lease.into() }
            }
            (header, Reply::Lease(None)) => pb::LeaseTimeToLiveResponse {
                header,
                id: request.id,
                ttl: -1,
                ..Default::default()
            },
            (_, other) => return Err(unexpected(&other)),
        };
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        request: tonic::Request<pb::LeaseLeasesRequest>,
    ) -> Result<Response<pb::LeaseLeasesResponse>, Status> {
        let (by, _) = self.node.admit(request)?;
        let read = Operation::Read(Read::Leases, Consistency::Linearizable);
        match self.node.open(self.node.ask(&by, read).await)? {
            (header, Reply::Leases(ids)) => {
                let leases = ids.into_iter().map(Into::into).collect();
                Ok(Response::new(pb::LeaseLeasesResponse { header, leases }))
            }
            (_, other) => Err(unexpected(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_the_server_granted_by_itself_is_known_by_its_id() {
        for _ in 0..1000 {
            assert!(unowned::is(unowned::id()) && unowned::id().0 > 0);
            assert!(!unowned::is(random_id()) && random_id().0 > 0);
        }
        assert!(!unowned::is(LeaseId(-1)) && !unowned::is(LeaseId(i64::MAX)));
    }
}
