//! Locks: Lock, Unlock.

use tenure_api::{Failure, LeaseId, Revision, wire::v3lockpb as pb};
use tonic::{Response, Status};

use super::{
    RequestLimits,
    candidates::{Candidates, Newcomer},
    lease::unowned,
    reply::{as_of_recipes, refuse},
    stubs,
};
use crate::{admission::sized, node::NodeHandle};

pub(super) struct Lock {
    node: NodeHandle,
    candidates: Candidates,
    limits: RequestLimits,
}

impl Lock {
    pub(super) fn new(node: NodeHandle, candidates: Candidates, limits: RequestLimits) -> Lock {
        Lock { node, candidates, limits }
    }
}

#[tonic::async_trait]
impl stubs::lock_server::Lock for Lock {
    async fn lock(
        &self,
        request: tonic::Request<pb::LockRequest>,
    ) -> Result<Response<pb::LockResponse>, Status> {
        let (by, message) = self.node.admit(request)?;
        if message.name.is_empty() {
            return Err(refuse(Failure::EmptyKey));
        }
        let message = sized(message, self.limits.request_bytes_max)?;
        let waiter = Newcomer {
            name: message.name,
            lease: LeaseId::from_wire(message.lease),
            value: None,
            expired: Failure::MutexSessionExpired,
        };
        let held = self.candidates.hold(&by, waiter).await.map_err(as_of_recipes)?;
        let granted = held.is_unowned.then_some((held.lease.0, unowned::TTL_SECS));
        let (granted_lease, granted_ttl) = granted.unwrap_or_default();
        Ok(Response::new(pb::LockResponse {
            header: held.header,
            key: held.key,
            fencing_token: held.token.0,
            granted_lease,
            granted_ttl,
        }))
    }

    async fn unlock(
        &self,
        request: tonic::Request<pb::UnlockRequest>,
    ) -> Result<Response<pb::UnlockResponse>, Status> {
        let (by, message) = self.node.admit(request)?;
        if message.key.is_empty() {
            return Err(refuse(Failure::EmptyKey));
        }
        let token = Some(Revision(message.fencing_token)).filter(|token| token.0 != 0);
        let left = self.candidates.leave(&by, message.key, token).await;
        let header = left.map_err(as_of_recipes)?;
        Ok(Response::new(pb::UnlockResponse { header }))
    }
}
