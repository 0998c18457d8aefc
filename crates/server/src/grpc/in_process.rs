//! Sessions and elections without gRPC, for a simulator: the same services behind another wire.

use std::{
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
};

use futures_util::{Stream, future::BoxFuture};
use tenure_api::{Principal, wire::tenure::v1 as pb};
use tokio::sync::mpsc;
use tonic::Status;

use super::{
    attachment::{Attachment, Requests},
    elections::Elections,
    env::Env,
    sessions::{RESPONSES_MAX, Sessions},
    stubs::{elections_server::Elections as _, sessions_server::Sessions as _},
};
use crate::{
    admission::{Admitted, Link, marked},
    node::NodeHandle,
};

/// The services of `tenure.v1` of one member.
#[derive(Clone, Debug)]
pub struct InProcessService {
    node: NodeHandle,
    env: Env,
}

/// What a session is told, in order.
pub type Responses = mpsc::Receiver<Result<pb::SessionResponse, Status>>;
/// What an observer is told, in order.
pub type Observed = Pin<Box<dyn Stream<Item = Result<pb::ObserveResponse, Status>> + Send>>;

impl InProcessService {
    /// The services of the member behind this handle.
    pub fn new(node: NodeHandle, env: Env) -> InProcessService {
        InProcessService { node, env }
    }

    /// Serves a session's stream: the work to be done, and what comes of it. `gone` is set when the
    /// other side has closed the connection.
    pub fn session(
        &self,
        gone: Arc<AtomicBool>,
        requests: impl Stream<Item = Result<pb::SessionRequest, Status>> + Send + Unpin + 'static,
    ) -> (BoxFuture<'static, ()>, Responses) {
        let (sender, responses) = mpsc::channel(RESPONSES_MAX);
        let (node, env) = (self.node.clone(), self.env.clone());
        let by = Admitted::in_process(Principal::Anonymous).over(Link::of(gone));
        let attachment = Attachment::new(node, by, env, sender);
        (Box::pin(run(attachment, requests)), responses)
    }

    /// Ends a session from outside.
    ///
    /// # Errors
    /// As the service.
    pub async fn end(&self, request: pb::EndSessionRequest) -> Result<(), Status> {
        let sessions = Sessions::new(self.node.clone());
        sessions.end(marked(request)).await.map(|_| ())
    }

    /// Lists the candidates that hold and those that wait.
    ///
    /// # Errors
    /// As the service.
    pub async fn candidates(
        &self,
        request: pb::CandidatesRequest,
    ) -> Result<pb::CandidatesResponse, Status> {
        let elections = Elections::new(self.node.clone(), None);
        elections.candidates(marked(request)).await.map(tonic::Response::into_inner)
    }

    /// Streams the events of an election.
    ///
    /// # Errors
    /// As the service.
    pub async fn observe(&self, request: pb::ObserveRequest) -> Result<Observed, Status> {
        let elections = Elections::new(self.node.clone(), None);
        elections.observe(marked(request)).await.map(tonic::Response::into_inner)
    }
}

async fn run(attachment: Attachment, requests: impl Requests) {
    attachment.run(requests).await;
}
