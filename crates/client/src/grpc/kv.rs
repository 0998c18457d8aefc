//! Keys.

use bytes::Bytes;
use tenure_api::wire::etcdserverpb as pb;
use tonic::transport::Channel;

use super::need::NeededRight;
use super::retry::Kind;
use super::stubs::KvClient;
use super::{Client, ClientError};

/// The service for keys.
#[derive(Debug)]
pub struct Kv<'a> {
    client: &'a Client,
}

impl<'a> Kv<'a> {
    pub(super) fn new(client: &'a Client) -> Kv<'a> {
        Kv { client }
    }

    /// Reads keys.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn range(&self, request: pb::RangeRequest) -> Result<pb::RangeResponse, ClientError> {
        let send = async |channel, request| stub(channel).range(request).await;
        self.client
            .call_for(
                NeededRight::Read(request.key.clone(), request.range_end.clone()),
                Kind::Repeatable,
                request,
                send,
            )
            .await
    }

    /// Writes a key.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn put(&self, request: pb::PutRequest) -> Result<pb::PutResponse, ClientError> {
        let send = async |channel, request| stub(channel).put(request).await;
        let plain = !request.prev_kv && request.lease == 0;
        let need = NeededRight::write(plain, request.key.clone(), Bytes::new());
        self.client.call_for(need, Kind::Mutation, request, send).await
    }

    /// Deletes keys.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete_range(
        &self,
        request: pb::DeleteRangeRequest,
    ) -> Result<pb::DeleteRangeResponse, ClientError> {
        let send = async |channel, request| stub(channel).delete_range(request).await;
        let need =
            NeededRight::write(!request.prev_kv, request.key.clone(), request.range_end.clone());
        self.client.call_for(need, Kind::Mutation, request, send).await
    }

    /// Compares, then does one or the other.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn txn(&self, request: pb::TxnRequest) -> Result<pb::TxnResponse, ClientError> {
        let kind = if is_read_only(&request) { Kind::Repeatable } else { Kind::Mutation };
        let send = async |channel, request| stub(channel).txn(request).await;
        self.client.call_for(NeededRight::Several, kind, request, send).await
    }

    /// Forgets history before a revision.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn compact(
        &self,
        request: pb::CompactionRequest,
    ) -> Result<pb::CompactionResponse, ClientError> {
        let send = async |channel, request| stub(channel).compact(request).await;
        self.client.call_for(NeededRight::Root, Kind::Mutation, request, send).await
    }
}

/// A range may answer with more than gRPC's usual 4 MiB.
fn stub(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(usize::MAX)
}

fn is_read_only(txn: &pb::TxnRequest) -> bool {
    use pb::request_op::Request;
    txn.success.iter().chain(&txn.failure).all(|op| match &op.request {
        Some(Request::RequestRange(_)) => true,
        Some(Request::RequestTxn(txn)) => is_read_only(txn),
        Some(Request::RequestPut(_) | Request::RequestDeleteRange(_)) | None => false,
    })
}
