//! Sessions and lines without gRPC, for a simulator: the same services behind another wire.

use std::{
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
};

use futures_util::{Stream, future::BoxFuture};
use tenure_api::wire::tenure::v1 as pb;
use tokio::sync::mpsc;
use tonic::{Request, Status};

use super::{
    attachment::{Attachment, Requests},
    lines::Lines,
    means::Means,
    sessions::{RESPONSES_MAX, Sessions},
    stubs::{lines_server::Lines as _, sessions_server::Sessions as _},
};
use crate::{node::Door, server::Link};

/// The services of `tenure.v1` of one member.
#[derive(Clone, Debug)]
pub struct Bare {
    door: Door,
    means: Means,
}

/// What a session is told, in order.
pub type Responses = mpsc::Receiver<Result<pb::SessionResponse, Status>>;
/// What an observer is told, in order.
pub type Observed = Pin<Box<dyn Stream<Item = Result<pb::ObserveResponse, Status>> + Send>>;

impl Bare {
    /// Those of the member behind this door.
    pub fn new(door: Door, means: Means) -> Bare {
        Bare { door, means }
    }

    /// Serves a session's stream: the work to be done, and what comes of it. `gone` is set when the
    /// other side has closed the connection.
    pub fn session(
        &self,
        gone: Arc<AtomicBool>,
        requests: impl Stream<Item = Result<pb::SessionRequest, Status>> + Send + Unpin + 'static,
    ) -> (BoxFuture<'static, ()>, Responses) {
        let (sender, responses) = mpsc::channel(RESPONSES_MAX);
        let (door, means) = (self.door.clone(), self.means.clone());
        let attachment = Attachment::new(door, Link::of(gone), means, sender);
        (Box::pin(run(attachment, requests)), responses)
    }

    /// Ends a session from outside.
    ///
    /// # Errors
    /// As the service.
    pub async fn end(&self, request: pb::EndSessionRequest) -> Result<(), Status> {
        let sessions = Sessions::new(self.door.clone());
        sessions.end(Request::new(request)).await.map(|_| ())
    }

    /// Who holds and who waits.
    ///
    /// # Errors
    /// As the service.
    pub async fn candidates(
        &self,
        request: pb::CandidatesRequest,
    ) -> Result<pb::CandidatesResponse, Status> {
        let lines = Lines::new(self.door.clone(), None);
        lines.candidates(Request::new(request)).await.map(tonic::Response::into_inner)
    }

    /// Tells what happens in a line.
    ///
    /// # Errors
    /// As the service.
    pub async fn observe(&self, request: pb::ObserveRequest) -> Result<Observed, Status> {
        let lines = Lines::new(self.door.clone(), None);
        lines.observe(Request::new(request)).await.map(tonic::Response::into_inner)
    }
}

async fn run(attachment: Attachment, requests: impl Requests) {
    attachment.run(requests).await;
}
