//! The members. Changing them comes in a later version.

use tenure_api::wire::etcdserverpb as pb;
use tenure_replica::{Consistency, Read, Reply, Request};
use tonic::{Response, Status};

use super::{reply::unexpected, stubs};
use crate::node::Door;

pub(super) struct Cluster {
    door: Door,
}

impl Cluster {
    pub(super) fn new(door: Door) -> Cluster {
        Cluster { door }
    }
}

fn not_yet() -> Status {
    Status::unimplemented("tenure: members cannot be changed while the cluster runs yet")
}

#[tonic::async_trait]
impl stubs::cluster_server::Cluster for Cluster {
    async fn member_list(
        &self,
        request: tonic::Request<pb::MemberListRequest>,
    ) -> Result<Response<pb::MemberListResponse>, Status> {
        self.door.admit(request.metadata())?;
        let consistency = match request.into_inner().linearizable {
            true => Consistency::Linearizable,
            false => Consistency::Serializable,
        };
        let read = Request::Read(Read::Members, consistency);
        match self.door.open(self.door.ask(read).await)? {
            (header, Reply::Members(members)) => {
                let members = members.into_iter().map(Into::into).collect();
                Ok(Response::new(pb::MemberListResponse { header, members }))
            }
            (_, other) => Err(unexpected(&other)),
        }
    }

    async fn member_add(
        &self,
        _: tonic::Request<pb::MemberAddRequest>,
    ) -> Result<Response<pb::MemberAddResponse>, Status> {
        Err(not_yet())
    }

    async fn member_remove(
        &self,
        _: tonic::Request<pb::MemberRemoveRequest>,
    ) -> Result<Response<pb::MemberRemoveResponse>, Status> {
        Err(not_yet())
    }

    async fn member_update(
        &self,
        _: tonic::Request<pb::MemberUpdateRequest>,
    ) -> Result<Response<pb::MemberUpdateResponse>, Status> {
        Err(not_yet())
    }

    async fn member_promote(
        &self,
        _: tonic::Request<pb::MemberPromoteRequest>,
    ) -> Result<Response<pb::MemberPromoteResponse>, Status> {
        Err(not_yet())
    }
}
