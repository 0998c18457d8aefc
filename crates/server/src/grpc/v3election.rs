//! Elections: Campaign, Proclaim, Leader, Observe, Resign.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, stream};
use prost::Message;
use tenure_api::{
    Failure, KeyValue, LeaseId, Revision,
    wire::{etcdserverpb::ResponseHeader, v3electionpb as pb},
};
use tenure_replica::{Consistency, Operation, Read, auth::Need};
use tonic::{Response, Status};

use super::{
    RequestLimits,
    candidates::{Candidates, Newcomer},
    lease::unowned,
    reply::{as_of_recipes, is_about_users, refuse},
    stubs,
    turn::{self, Leaders},
    watch::leader_gone,
};
use crate::{
    admission::{Admitted, sized},
    node::NodeHandle,
};

pub(super) struct Election {
    node: NodeHandle,
    candidates: Candidates,
    limits: RequestLimits,
}

type Answered<T> = Result<Response<T>, Status>;

impl Election {
    pub(super) fn new(node: NodeHandle, candidates: Candidates, limits: RequestLimits) -> Election {
        Election { node, candidates, limits }
    }

    /// A request's message, if it may come in at all.
    fn take<T: Message>(&self, request: tonic::Request<T>) -> Result<(Admitted, T), Status> {
        let (by, message) = self.node.admit(request)?;
        Ok((by, sized(message, self.limits.request_bytes_max)?))
    }
}

fn named(name: Bytes) -> Result<Bytes, Status> {
    if name.is_empty() { Err(refuse(Failure::EmptyKey)) } else { Ok(name) }
}

fn provided(leader: Option<pb::LeaderKey>) -> Result<pb::LeaderKey, Status> {
    leader.ok_or_else(|| refuse(Failure::LeaderNotProvided))
}

fn leads(header: Option<ResponseHeader>, kv: &KeyValue) -> pb::LeaderResponse {
    pb::LeaderResponse { header, fencing_token: kv.create_revision.0, kv: Some(kv.into()) }
}

#[tonic::async_trait]
impl stubs::election_server::Election for Election {
    async fn campaign(
        &self,
        request: tonic::Request<pb::CampaignRequest>,
    ) -> Answered<pb::CampaignResponse> {
        let (by, message) = self.take(request)?;
        let name = named(message.name)?;
        let candidate = Newcomer {
            name: name.clone(),
            lease: LeaseId::from_wire(message.lease),
            value: Some(message.value),
            expired: Failure::ElectionSessionExpired,
        };
        let held = self.candidates.hold(&by, candidate).await.map_err(as_of_recipes)?;
        let granted = held.is_unowned.then_some((held.lease.0, unowned::TTL_SECS));
        let (granted_lease, granted_ttl) = granted.unwrap_or_default();
        let leader = pb::LeaderKey { name, key: held.key, rev: held.token.0, lease: held.lease.0 };
        Ok(Response::new(pb::CampaignResponse {
            header: held.header,
            leader: Some(leader),
            fencing_token: held.token.0,
            granted_lease,
            granted_ttl,
        }))
    }

    async fn proclaim(
        &self,
        request: tonic::Request<pb::ProclaimRequest>,
    ) -> Answered<pb::ProclaimResponse> {
        let (by, message) = self.take(request)?;
        let leader = provided(message.leader)?;
        let key = named(leader.key)?;
        let lease = LeaseId::from_wire(leader.lease);
        let token = Revision(leader.rev);
        let shown = self.candidates.show(&by, &key, token, lease, message.value).await;
        let header = shown.map_err(as_of_recipes)?;
        Ok(Response::new(pb::ProclaimResponse { header }))
    }

    async fn leader(
        &self,
        request: tonic::Request<pb::LeaderRequest>,
    ) -> Answered<pb::LeaderResponse> {
        let (by, message) = self.take(request)?;
        let (header, leader) = {
            let found = turn::leader(&self.node, &by, named(message.name)?).await;
            found.map_err(as_of_recipes)?
        };
        let leader = leader.ok_or_else(|| refuse(Failure::ElectionNoLeader))?;
        Ok(Response::new(leads(header, &leader)))
    }

    type ObserveStream = Pin<Box<dyn Stream<Item = Result<pb::LeaderResponse, Status>> + Send>>;

    async fn observe(
        &self,
        request: tonic::Request<pb::LeaderRequest>,
    ) -> Answered<Self::ObserveStream> {
        let (by, message) = self.take(request)?;
        let (has_leader, name) = (by.wants_leader(), named(message.name)?);
        let (node, limits) = (self.node.clone(), self.limits);
        node.elections_ready().await.map_err(refuse)?;
        let read = Read::Judged(Need::Observe(name.clone()));
        let judged = node.ask(&by, Operation::Read(read, Consistency::Linearizable)).await;
        match judged.and_then(|answer| answer.result) {
            Ok(_) => {}
            // As in etcd, whose own client gives up on the refusal without a word.
            Err(failure) if is_about_users(failure) => {
                return Ok(Response::new(Box::pin(stream::empty())));
            }
            Err(failure) => return Err(refuse(failure)),
        }
        let leaders = Leaders::of(node.clone(), by, name).await.map_err(refuse)?;
        let heard = stream::try_unfold((leaders, node), move |(mut leaders, node)| async move {
            let (leader, stamp) = tokio::select! {
                next = leaders.next() => next.map_err(refuse).map_err(as_of_recipes)?,
                () = leader_gone(node.clone(), limits), if has_leader => {
                    return Err(refuse(Failure::NoLeader));
                }
                () = node.closed() => return Err(refuse(Failure::Stopped)),
            };
            Ok(Some((leads(Some(node.header(stamp)), &leader), (leaders, node))))
        });
        Ok(Response::new(Box::pin(heard)))
    }

    async fn resign(
        &self,
        request: tonic::Request<pb::ResignRequest>,
    ) -> Answered<pb::ResignResponse> {
        let (by, message) = self.take(request)?;
        let leader = provided(message.leader)?;
        let token = Some(Revision(leader.rev));
        let left = self.candidates.leave(&by, named(leader.key)?, token).await;
        let header = left.map_err(as_of_recipes)?;
        Ok(Response::new(pb::ResignResponse { header }))
    }
}
