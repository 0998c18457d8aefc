//! Sessions: the stream of a process, and what others may ask about it.

use std::pin::Pin;

use futures_util::Stream;
use tenure_api::{LeaseId, wire::tenure::v1 as pb};
use tenure_replica::{
    Consistency, Operation, Read, Reply,
    command::{Command, ElectionCommand, SessionEnding},
    election::Refusal,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, Streaming};

use super::{
    attachment::Attachment,
    convert::{candidacy, election_outcome, refuse_rule},
    env::Env,
    reply::{refuse, unexpected},
    stubs::sessions_server,
};
use crate::node::NodeHandle;

/// What may wait to be sent on one stream.
pub(super) const RESPONSES_MAX: usize = 256;

pub(super) struct Sessions {
    node: NodeHandle,
}

impl Sessions {
    pub(super) fn new(node: NodeHandle) -> Sessions {
        Sessions { node }
    }
}

#[tonic::async_trait]
impl sessions_server::Sessions for Sessions {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<pb::SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: tonic::Request<Streaming<pb::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (by, request) = self.node.admit(request)?;
        self.node.elections_ready().await.map_err(refuse)?;
        let (sender, responses) = tokio::sync::mpsc::channel(RESPONSES_MAX);
        let attachment = Attachment::new(self.node.clone(), by, Env::default(), sender);
        tokio::spawn(attachment.run(request));
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }

    async fn end(
        &self,
        request: tonic::Request<pb::EndSessionRequest>,
    ) -> Result<Response<pb::EndSessionResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        // A request that says that all work has ended speaks for the session.
        let how = match request.stopped {
            true => SessionEnding::Closed { stopped: true },
            false => SessionEnding::Revoked { stopped: false },
        };
        let command = ElectionCommand::End { id: LeaseId(request.session), how };
        let request = Operation::Write(Command::Election(command));
        let (header, reply) = self.node.open(self.node.ask(&by, request).await)?;
        match election_outcome(reply)? {
            // A client that heard no answer asks again, and what it asked for is so.
            Ok(_) | Err(Refusal::SessionGone) => {}
            Err(refusal) => return Err(refuse_rule(refusal)),
        }
        Ok(Response::new(pb::EndSessionResponse { header }))
    }

    async fn list(
        &self,
        request: tonic::Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        let (by, _) = self.node.admit(request)?;
        let read = Operation::Read(Read::Sessions, Consistency::Linearizable);
        let (header, view) = match self.node.open(self.node.ask(&by, read).await)? {
            (header, Reply::Sessions(view)) => (header, view),
            (_, other) => return Err(unexpected(&other)),
        };
        let sessions = view
            .sessions()
            .iter()
            .map(|view| pb::SessionInfo {
                session: view.id.0,
                identity: view.session.identity.clone(),
                ttl_ms: view.session.ttl_ms,
                remaining_ms: view.remaining.as_millis() as u64,
                fast_release: view.session.fast_release,
                candidacies: view.candidacies.iter().map(candidacy).collect(),
            })
            .collect();
        Ok(Response::new(pb::ListSessionsResponse { header, sessions }))
    }
}
