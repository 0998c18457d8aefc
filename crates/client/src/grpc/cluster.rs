//! Members of the cluster.

use tenure_api::wire::{etcdserverpb as pb, tenure::v1};

use super::need::NeededRight;
use super::retry::Kind;
use super::stubs::{ClusterClient, MembersClient};
use super::{Client, ClientError};

/// The service for members.
#[derive(Debug)]
pub struct Cluster<'a> {
    client: &'a Client,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(client: &'a Client) -> Cluster<'a> {
        Cluster { client }
    }

    /// The members of the cluster.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn member_list(
        &self,
        request: pb::MemberListRequest,
    ) -> Result<pb::MemberListResponse, ClientError> {
        let send = async |channel, request| ClusterClient::new(channel).member_list(request).await;
        self.client.call(Kind::Repeatable, request, send).await
    }

    /// How the one member is that answers: a client of one endpoint asks that one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn health(&self) -> Result<v1::MemberHealthResponse, ClientError> {
        let send = async |channel, request| MembersClient::new(channel).health(request).await;
        self.client.call(Kind::Repeatable, v1::MemberHealthRequest {}, send).await
    }

    /// Adds a member, which is started afterwards.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn member_add(
        &self,
        request: pb::MemberAddRequest,
    ) -> Result<pb::MemberAddResponse, ClientError> {
        let send = async |channel, request| ClusterClient::new(channel).member_add(request).await;
        self.client.call_for(NeededRight::Root, Kind::Mutation, request, send).await
    }

    /// Removes a member, for ever.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn member_remove(
        &self,
        request: pb::MemberRemoveRequest,
    ) -> Result<pb::MemberRemoveResponse, ClientError> {
        let send =
            async |channel, request| ClusterClient::new(channel).member_remove(request).await;
        self.client.call_for(NeededRight::Root, Kind::Mutation, request, send).await
    }

    /// Says where a member is reached by the others.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn member_update(
        &self,
        request: pb::MemberUpdateRequest,
    ) -> Result<pb::MemberUpdateResponse, ClientError> {
        let send =
            async |channel, request| ClusterClient::new(channel).member_update(request).await;
        self.client.call_for(NeededRight::Root, Kind::Mutation, request, send).await
    }

    /// Gives a learner its vote.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn member_promote(
        &self,
        request: pb::MemberPromoteRequest,
    ) -> Result<pb::MemberPromoteResponse, ClientError> {
        let send =
            async |channel, request| ClusterClient::new(channel).member_promote(request).await;
        self.client.call_for(NeededRight::Root, Kind::Mutation, request, send).await
    }
}
