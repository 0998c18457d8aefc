//! Leases.

use tenure_api::wire::etcdserverpb as pb;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Streaming};

use super::login::StreamLogin;
use super::retry::Kind;
use super::stubs::LeaseClient;
use super::{Client, ClientError};

/// How many renewals may wait to be sent on one stream.
const RENEWALS_MAX: usize = 16;

/// The service for leases.
#[derive(Debug)]
pub struct Lease<'a> {
    client: &'a Client,
}

impl<'a> Lease<'a> {
    pub(super) fn new(client: &'a Client) -> Lease<'a> {
        Lease { client }
    }

    /// Asks for a lease. Repeated like a read if the server chooses the id: a lease granted twice
    /// does no harm and runs out.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn grant(
        &self,
        request: pb::LeaseGrantRequest,
    ) -> Result<pb::LeaseGrantResponse, ClientError> {
        let kind = if request.id == 0 { Kind::Repeatable } else { Kind::Mutation };
        let send = async |channel, request| LeaseClient::new(channel).lease_grant(request).await;
        self.client.call(kind, request, send).await
    }

    /// Ends a lease and deletes its keys. May be repeated: a lease that is gone stays gone.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn revoke(&self, id: i64) -> Result<pb::LeaseRevokeResponse, ClientError> {
        let send = async |channel, request| LeaseClient::new(channel).lease_revoke(request).await;
        self.client.call(Kind::Repeatable, pb::LeaseRevokeRequest { id }, send).await
    }

    /// How long a lease still has, and what hangs on it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn time_to_live(
        &self,
        request: pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, ClientError> {
        let send =
            async |channel, request| LeaseClient::new(channel).lease_time_to_live(request).await;
        self.client.call(Kind::Repeatable, request, send).await
    }

    /// All leases.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn leases(&self) -> Result<pb::LeaseLeasesResponse, ClientError> {
        let send = async |channel, request| LeaseClient::new(channel).lease_leases(request).await;
        self.client.call(Kind::Repeatable, pb::LeaseLeasesRequest {}, send).await
    }

    /// Opens a stream of renewals for one lease, and makes the first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn renewals(&self, id: i64) -> Result<Renewals, ClientError> {
        let open = async |channel, request: Request<i64>| {
            let (metadata, extensions, id) = request.into_parts();
            let (renew, queue) = mpsc::channel(RENEWALS_MAX);
            // Some servers answer the opening of a stream only with its first message.
            let _ = renew.try_send(pb::LeaseKeepAliveRequest { id });
            let stream = Request::from_parts(metadata, extensions, ReceiverStream::new(queue));
            let opened = LeaseClient::new(channel).lease_keep_alive(stream).await?;
            Ok(opened.map(|answers| (renew, answers)))
        };
        let (renew, answers) = self.client.call(Kind::Repeatable, id, open).await?;
        Ok(Renewals { id, renew, answers, login: self.client.stream_login() })
    }
}

/// A stream of renewals of one lease on one member. When it breaks, open another.
#[derive(Debug)]
pub struct Renewals {
    id: i64,
    renew: mpsc::Sender<pb::LeaseKeepAliveRequest>,
    answers: Streaming<pb::LeaseKeepAliveResponse>,
    login: StreamLogin,
}

impl Renewals {
    /// Sends one more renewal.
    ///
    /// # Errors
    /// If the stream is broken; [`Renewals::answer`] says why.
    pub async fn renew(&mut self) -> Result<(), ClientError> {
        let request = pb::LeaseKeepAliveRequest { id: self.id };
        self.renew.send(request).await.map_err(|_| ended())
    }

    /// The next answer. A TTL of 0 in it says that the lease is gone.
    ///
    /// # Errors
    /// If the stream is broken.
    pub async fn answer(&mut self) -> Result<pb::LeaseKeepAliveResponse, ClientError> {
        match self.answers.message().await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(ended()),
            Err(status) => Err(ClientError::of_stream(&status, &self.login)),
        }
    }
}

fn ended() -> ClientError {
    ClientError::Unavailable {
        code: tonic::Code::Unavailable,
        text: "the stream of renewals has ended".into(),
    }
}
