//! Members of the cluster.

use tenure_api::wire::etcdserverpb as pb;

use super::retry::Kind;
use super::stubs::ClusterClient;
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

    /// Who belongs to the cluster.
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
}
