//! State and upkeep of members.

use tenure_api::wire::etcdserverpb as pb;
use tonic::Streaming;

use super::need::NeededRight;
use super::retry::Kind;
use super::stubs::MaintenanceClient;
use super::{Client, ClientError};

/// The service for looking after members. Most of it is about one of them: see
/// [`Client::each_member`].
#[derive(Debug)]
pub struct Maintenance<'a> {
    client: &'a Client,
}

impl<'a> Maintenance<'a> {
    pub(super) fn new(client: &'a Client) -> Maintenance<'a> {
        Maintenance { client }
    }

    /// A member's status, and its raft leader.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn status(&self) -> Result<pb::StatusResponse, ClientError> {
        let send = async |channel, request| MaintenanceClient::new(channel).status(request).await;
        self.client.call(Kind::Repeatable, pb::StatusRequest {}, send).await
    }

    /// A checksum of a member's keys.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn hash_kv(
        &self,
        request: pb::HashKvRequest,
    ) -> Result<pb::HashKvResponse, ClientError> {
        let send = async |channel, request| MaintenanceClient::new(channel).hash_kv(request).await;
        self.client.call_for(NeededRight::Root, Kind::Repeatable, request, send).await
    }

    /// Makes another member the raft leader. Only the present one can do it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn move_leader(
        &self,
        request: pb::MoveLeaderRequest,
    ) -> Result<pb::MoveLeaderResponse, ClientError> {
        let send =
            async |channel, request| MaintenanceClient::new(channel).move_leader(request).await;
        self.client.call_for(NeededRight::Root, Kind::Repeatable, request, send).await
    }

    /// A member's state, in pieces; the last one is the SHA-256 of all before it. Only the opening is
    /// timed.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn snapshot(&self) -> Result<Streaming<pb::SnapshotResponse>, ClientError> {
        let send = async |channel, request| {
            let stub = MaintenanceClient::new(channel);
            // etcd sends larger pieces than most messages may be.
            stub.max_decoding_message_size(usize::MAX).snapshot(request).await
        };
        self.client
            .call_for(NeededRight::Root, Kind::Repeatable, pb::SnapshotRequest {}, send)
            .await
    }

    /// Lists, raises or lowers alarms. Lowering one that is not raised changes nothing, so it may be
    /// done twice.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn alarm(&self, request: pb::AlarmRequest) -> Result<pb::AlarmResponse, ClientError> {
        let send = async |channel, request| MaintenanceClient::new(channel).alarm(request).await;
        self.client.call(Kind::Repeatable, request, send).await
    }

    /// Gives space back that deleted keys took. An etcd stands still meanwhile; a tenure server has
    /// nothing to do.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn defragment(&self) -> Result<pb::DefragmentResponse, ClientError> {
        let send =
            async |channel, request| MaintenanceClient::new(channel).defragment(request).await;
        self.client
            .call_for(NeededRight::Root, Kind::Repeatable, pb::DefragmentRequest {}, send)
            .await
    }
}
