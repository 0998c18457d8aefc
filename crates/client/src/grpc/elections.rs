//! Sessions and elections: tenure's own services, which a real etcd does not have.

use tenure_api::wire::tenure::v1 as pb;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Streaming};

use super::login::StreamLogin;
use super::need::NeededRight;
use super::retry::Kind;
use super::stubs::{ElectionsClient, SessionsClient};
use super::{Client, ClientError};

/// The service for sessions.
#[derive(Debug)]
pub struct Sessions<'a> {
    client: &'a Client,
}

/// The two directions of a session's stream. The sender limits what is under way.
pub type SessionStream =
    (mpsc::UnboundedSender<pb::SessionRequest>, Streaming<pb::SessionResponse>);

impl<'a> Sessions<'a> {
    pub(super) fn new(client: &'a Client) -> Sessions<'a> {
        Sessions { client }
    }

    /// Opens a stream whose first message opens a session or reattaches to one. Opening is repeated like a read: a
    /// session that was opened in vain runs out. Reattaching is not: an attempt that was sent and not answered may be
    /// done later, and then replaces the stream that has reattached meanwhile.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn attach(&self, open: pb::OpenSession) -> Result<SessionStream, ClientError> {
        let attach = async |channel, request: Request<pb::OpenSession>| {
            let (metadata, extensions, open) = request.into_parts();
            let (ask, queue) = mpsc::unbounded_channel();
            let request = Some(pb::session_request::Request::Open(open));
            // Some servers answer the opening of a stream only with its first message.
            let _ = ask.send(pb::SessionRequest { request_id: 0, request });
            let stream =
                Request::from_parts(metadata, extensions, UnboundedReceiverStream::new(queue));
            let answers = SessionsClient::new(channel).session(stream).await?;
            Ok(answers.map(|answers| (ask, answers)))
        };
        let kind = if open.session == 0 { Kind::Repeatable } else { Kind::Mutation };
        self.client.call(kind, open, attach).await
    }

    /// All sessions.
    ///
    /// # Errors
    /// See [`ClientError`]. [`Code::Unimplemented`](super::Code) from a server that has none.
    pub async fn list(&self) -> Result<pb::ListSessionsResponse, ClientError> {
        let send = async |channel, request| SessionsClient::new(channel).list(request).await;
        self.client.call(Kind::Repeatable, pb::ListSessionsRequest {}, send).await
    }

    /// Revokes a session. Its process may not have noticed: candidates that want no overlap wait for as long as it may
    /// believe. May be repeated.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn revoke(&self, session: i64) -> Result<pb::EndSessionResponse, ClientError> {
        self.end(pb::EndSessionRequest { session, ..Default::default() }).await
    }

    /// Ends a session from outside; with `stopped` and the session's secret if all its work is known to have ended, so that no
    /// candidate needs to wait for it. May be repeated.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn end(
        &self,
        request: pb::EndSessionRequest,
    ) -> Result<pb::EndSessionResponse, ClientError> {
        let send = async |channel, request| SessionsClient::new(channel).end(request).await;
        self.client.call(Kind::Repeatable, request, send).await
    }
}

/// The service for elections and locks.
#[derive(Debug)]
pub struct Elections<'a> {
    client: &'a Client,
}

/// What is told of elections as it happens, by one member.
#[derive(Debug)]
pub struct ElectionFeed {
    news: Streaming<pb::FollowResponse>,
    login: StreamLogin,
}

impl ElectionFeed {
    /// The next message; none if the member ended the stream.
    ///
    /// # Errors
    /// See [`ClientError`]. Follow again, after the revision of the last complete message.
    pub async fn next(&mut self) -> Result<Option<pb::FollowResponse>, ClientError> {
        self.news.message().await.map_err(|status| ClientError::of_stream(&status, &self.login))
    }
}

impl<'a> Elections<'a> {
    pub(super) fn new(client: &'a Client) -> Elections<'a> {
        Elections { client }
    }

    /// The holders and the waiting candidates.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn candidates(&self, name: String) -> Result<pb::CandidatesResponse, ClientError> {
        let send = async |channel, request| ElectionsClient::new(channel).candidates(request).await;
        self.client
            .call_for(
                NeededRight::Observe(name.clone()),
                Kind::Repeatable,
                pb::CandidatesRequest { name },
                send,
            )
            .await
    }

    /// Streams the events of an election, from one member.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn observe(
        &self,
        request: pb::ObserveRequest,
    ) -> Result<Streaming<pb::ObserveResponse>, ClientError> {
        let send = async |channel, request| ElectionsClient::new(channel).observe(request).await;
        self.client
            .call_for(NeededRight::Observe(request.name.clone()), Kind::Repeatable, request, send)
            .await
    }

    /// Past leaders.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn history(&self, name: String) -> Result<pb::HistoryResponse, ClientError> {
        let send = async |channel, request| ElectionsClient::new(channel).history(request).await;
        self.client
            .call_for(
                NeededRight::Observe(name.clone()),
                Kind::Repeatable,
                pb::HistoryRequest { name },
                send,
            )
            .await
    }

    /// All elections with this name prefix.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list(&self, prefix: String) -> Result<pb::ListElectionsResponse, ClientError> {
        let send = async |channel, request| ElectionsClient::new(channel).list(request).await;
        self.client
            .call(Kind::Repeatable, pb::ListElectionsRequest { prefix, ..Default::default() }, send)
            .await
    }

    /// The elections that a request asks for: by state, in an order, page by page.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn overview(
        &self,
        request: pb::ListElectionsRequest,
    ) -> Result<pb::ListElectionsResponse, ClientError> {
        let send = async |channel, request| ElectionsClient::new(channel).list(request).await;
        self.client.call(Kind::Repeatable, request, send).await
    }

    /// Streams how the elections under a prefix stand and every change, from one member.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn follow(&self, request: pb::FollowRequest) -> Result<ElectionFeed, ClientError> {
        let send = async |channel, request| ElectionsClient::new(channel).follow(request).await;
        let news = self.client.call(Kind::Repeatable, request, send).await?;
        Ok(ElectionFeed { news, login: self.client.stream_login() })
    }

    /// Makes a candidate the next leader. Asked for again, it changes nothing.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn transfer(
        &self,
        request: pb::TransferRequest,
    ) -> Result<pb::TransferResponse, ClientError> {
        let send = async |channel, request| ElectionsClient::new(channel).transfer(request).await;
        self.client
            .call_for(NeededRight::Rule(request.name.clone()), Kind::Repeatable, request, send)
            .await
    }

    /// Takes a candidacy away. Without a token it is not repeated: that would evict the next leader, too.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn evict(&self, request: pb::EvictRequest) -> Result<pb::EvictResponse, ClientError> {
        let kind = if request.token == 0 { Kind::Mutation } else { Kind::Repeatable };
        let send = async |channel, request| ElectionsClient::new(channel).evict(request).await;
        self.client.call_for(NeededRight::Rule(request.name.clone()), kind, request, send).await
    }

    /// Freezes a name: no candidate leads until it is resumed.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn freeze(&self, name: String) -> Result<pb::FreezeResponse, ClientError> {
        let send = async |channel, request| ElectionsClient::new(channel).freeze(request).await;
        self.client
            .call_for(
                NeededRight::Rule(name.clone()),
                Kind::Repeatable,
                pb::FreezeRequest { name },
                send,
            )
            .await
    }

    /// Resumes a frozen name: candidates may lead again.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn resume(&self, name: String) -> Result<pb::ResumeResponse, ClientError> {
        let send = async |channel, request| ElectionsClient::new(channel).resume(request).await;
        self.client
            .call_for(
                NeededRight::Rule(name.clone()),
                Kind::Mutation,
                pb::ResumeRequest { name },
                send,
            )
            .await
    }
}
