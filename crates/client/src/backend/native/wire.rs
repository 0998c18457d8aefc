//! What carries `tenure.v1` to the members. gRPC does; a simulator brings its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tenure_api::wire::tenure::v1 as pb;
use tokio::sync::mpsc;
use tonic::Streaming;

use crate::backend::Boxed;
use crate::grpc::{Client, ClientError, Code, Endpoint, Options, StreamLogin};

/// The members of a cluster, and how to reach them.
pub trait Reach: fmt::Debug + Send + Sync + 'static {
    /// Any of them, for attempts that take no longer than this.
    fn any(&self, attempt_max: Duration) -> Arc<dyn Wire>;

    /// Each of them; never none.
    fn each(&self, attempt_max: Duration) -> Vec<Arc<dyn Wire>>;

    /// A client of the members' keys, if they are reached by gRPC.
    fn client(&self) -> Option<Client> {
        None
    }
}

/// What is heard on a stream, up to its end.
pub type Heard<T> = BoxStream<'static, Result<T, ClientError>>;

/// The two directions of a session's stream. The sender limits what is under way.
pub struct Attached {
    /// What is asked.
    pub ask: mpsc::UnboundedSender<pb::SessionRequest>,
    /// What is answered and told.
    pub answers: Heard<pb::SessionResponse>,
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attached")
    }
}

/// The way to one member, or to any.
pub trait Wire: fmt::Debug + Send + Sync + 'static {
    /// Opens a stream with this as its first message.
    fn attach(&self, open: pb::OpenSession) -> Boxed<'_, Result<Attached, ClientError>>;

    /// Ends a session.
    fn end(&self, request: pb::EndSessionRequest) -> Boxed<'_, Result<(), ClientError>>;

    /// The candidates of an election.
    fn candidates(&self, name: String) -> Boxed<'_, Result<pb::CandidatesResponse, ClientError>>;

    /// Streams the events of an election, from one member.
    fn observe(
        &self,
        request: pb::ObserveRequest,
    ) -> Boxed<'_, Result<Heard<pb::ObserveResponse>, ClientError>>;

    /// The address of this member, if it answers that it follows no raft leader. Nothing where that cannot be asked.
    fn without_raft_leader(&self) -> Boxed<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Which member is asked now, where there are several.
    fn turn(&self) -> usize {
        0
    }

    /// That one failed: another one is to be asked, unless it is so already.
    fn leave(&self, _turn: usize) {}
}

/// Members that are reached by gRPC.
#[derive(Clone, Debug)]
pub(super) struct ByGrpc {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) options: Options,
}

impl ByGrpc {
    fn within(&self, attempt_max: Duration) -> Client {
        Client::new(self.endpoints.clone(), self.options.within(attempt_max))
    }
}

impl Reach for ByGrpc {
    fn any(&self, attempt_max: Duration) -> Arc<dyn Wire> {
        Arc::new(self.within(attempt_max))
    }

    fn each(&self, attempt_max: Duration) -> Vec<Arc<dyn Wire>> {
        let client = self.within(attempt_max);
        client.each_member().map(|(_, member)| Arc::new(member) as Arc<dyn Wire>).collect()
    }

    fn client(&self) -> Option<Client> {
        Some(self.within(self.options.request_timeout))
    }
}

impl Wire for Client {
    fn attach(&self, open: pb::OpenSession) -> Boxed<'_, Result<Attached, ClientError>> {
        Box::pin(async move {
            let (ask, answers) = self.sessions().attach(open).await?;
            Ok(Attached { ask, answers: heard(answers, self.stream_login()) })
        })
    }

    fn end(&self, request: pb::EndSessionRequest) -> Boxed<'_, Result<(), ClientError>> {
        Box::pin(async move { self.sessions().end(request).await.map(|_| ()) })
    }

    fn candidates(&self, name: String) -> Boxed<'_, Result<pb::CandidatesResponse, ClientError>> {
        Box::pin(async move { self.elections().candidates(name).await })
    }

    fn observe(
        &self,
        request: pb::ObserveRequest,
    ) -> Boxed<'_, Result<Heard<pb::ObserveResponse>, ClientError>> {
        Box::pin(async move {
            let answers = self.elections().observe(request).await?;
            Ok(heard(answers, self.stream_login()))
        })
    }

    fn without_raft_leader(&self) -> Boxed<'_, Option<String>> {
        Box::pin(async move {
            let status = self.maintenance().status().await.ok()?;
            (status.leader == 0).then(|| self.endpoint().to_string())
        })
    }

    fn turn(&self) -> usize {
        Client::turn(self)
    }

    fn leave(&self, turn: usize) {
        Client::leave(self, turn);
    }
}

fn heard<T: Send + 'static>(stream: Streaming<T>, login: StreamLogin) -> Heard<T> {
    let error = move |status: tonic::Status| match login.is_renewed_after(status.message()) {
        // Opened again, it has another token.
        true => {
            let (code, text) = (status.code(), status.message().to_owned());
            ClientError::Unavailable { code, text }
        }
        false => stream_error(&status),
    };
    stream.map(move |said| said.map_err(&error)).boxed()
}

/// Why a stream ended, as sessions and observers see it.
pub fn stream_error(status: &tonic::Status) -> ClientError {
    match status.code() {
        code @ (Code::Unimplemented
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::InvalidArgument) => {
            ClientError::answered(status, code, status.message().to_owned())
        }
        code => ClientError::Unavailable { code, text: status.message().to_owned() },
    }
}
