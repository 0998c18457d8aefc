//! The members: list, add, promote, update, remove.

use std::hash::{BuildHasher, RandomState};

use tenure_api::{Failure, Member, MemberId, wire::etcdserverpb as pb};
use tenure_replica::{
    Consistency, Operation, Outcome, Read, Reply,
    command::{Command, MemberChange},
};
use tonic::{Response, Status};

use super::{
    reply::{refuse, unexpected},
    stubs,
};
use crate::{admission::Admitted, config::address, node::NodeHandle};

pub(super) struct Cluster {
    node: NodeHandle,
}

type Changed = (Option<pb::ResponseHeader>, Vec<Member>);

impl Cluster {
    pub(super) fn new(node: NodeHandle) -> Cluster {
        Cluster { node }
    }

    /// Asks for a change; answers the members after it.
    async fn change(&self, by: &Admitted, change: MemberChange) -> Result<Changed, Status> {
        let request = Operation::Write(Command::Members(change));
        match self.node.open(self.node.ask(by, request).await)? {
            (header, Reply::Wrote(Outcome::Members(members))) => Ok((header, members)),
            (_, other) => Err(unexpected(&other)),
        }
    }
}

/// Members reach each other by one URL each. A slash at its end makes no other address.
fn checked(urls: Vec<String>) -> Result<Vec<String>, Status> {
    match &urls[..] {
        [url] if address(url).is_ok() => Ok(vec![url.trim_end_matches('/').to_owned()]),
        _ => Err(refuse(Failure::BadMemberUrls)),
    }
}

/// An id that no member has or ever had; should chance have it otherwise, the change is refused.
fn fresh_id(urls: &[String]) -> MemberId {
    MemberId(RandomState::new().hash_one((urls, std::time::SystemTime::now())).max(1))
}

fn on_the_wire(members: Vec<Member>) -> Vec<pb::Member> {
    members.into_iter().map(Into::into).collect()
}

#[tonic::async_trait]
impl stubs::cluster_server::Cluster for Cluster {
    async fn member_list(
        &self,
        request: tonic::Request<pb::MemberListRequest>,
    ) -> Result<Response<pb::MemberListResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let consistency = match request.linearizable {
            true => Consistency::Linearizable,
            false => Consistency::Serializable,
        };
        let read = Operation::Read(Read::Members, consistency);
        match self.node.open(self.node.ask(&by, read).await)? {
            (header, Reply::Members(members)) => {
                let members = on_the_wire(members);
                Ok(Response::new(pb::MemberListResponse { header, members }))
            }
            (_, other) => Err(unexpected(&other)),
        }
    }

    async fn member_add(
        &self,
        request: tonic::Request<pb::MemberAddRequest>,
    ) -> Result<Response<pb::MemberAddResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let peer_urls = checked(request.peer_ur_ls)?;
        let id = fresh_id(&peer_urls);
        let is_learner = request.is_learner;
        let (header, members) =
            self.change(&by, MemberChange::Add { id, peer_urls, is_learner }).await?;
        let member = members.iter().find(|member| member.id == id).cloned().map(Into::into);
        let members = on_the_wire(members);
        Ok(Response::new(pb::MemberAddResponse { header, member, members }))
    }

    async fn member_remove(
        &self,
        request: tonic::Request<pb::MemberRemoveRequest>,
    ) -> Result<Response<pb::MemberRemoveResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let id = MemberId(request.id);
        let (header, members) = self.change(&by, MemberChange::Remove(id)).await?;
        let members = on_the_wire(members);
        Ok(Response::new(pb::MemberRemoveResponse { header, members }))
    }

    async fn member_update(
        &self,
        request: tonic::Request<pb::MemberUpdateRequest>,
    ) -> Result<Response<pb::MemberUpdateResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let peer_urls = checked(request.peer_ur_ls)?;
        let id = MemberId(request.id);
        let (header, members) = self.change(&by, MemberChange::Update { id, peer_urls }).await?;
        let members = on_the_wire(members);
        Ok(Response::new(pb::MemberUpdateResponse { header, members }))
    }

    async fn member_promote(
        &self,
        request: tonic::Request<pb::MemberPromoteRequest>,
    ) -> Result<Response<pb::MemberPromoteResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let id = MemberId(request.id);
        let promoted = self.change(&by, MemberChange::Promote(id)).await;
        self.node.metrics.server.promoted(&promoted);
        let (header, members) = promoted?;
        let members = on_the_wire(members);
        Ok(Response::new(pb::MemberPromoteResponse { header, members }))
    }
}
