//! Sessions: the stream of a process, and what others may ask about it.

use std::pin::Pin;

use futures_util::Stream;
use tenure_api::{LeaseId, wire::tenure::v1 as pb};
use tenure_replica::{
    Consistency, Read, Reply, Request,
    command::{Command, Ended, LineCommand},
    queue::Refusal,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, Streaming};

use super::{
    attachment::Attachment,
    means::Means,
    reply::{refuse, unexpected},
    stubs::sessions_server,
    words::{line_done, place, refuse_rule},
};
use crate::{node::Door, server::Link};

/// What may wait to be sent on one stream.
pub(super) const RESPONSES_MAX: usize = 256;

pub(super) struct Sessions {
    door: Door,
}

impl Sessions {
    pub(super) fn new(door: Door) -> Sessions {
        Sessions { door }
    }
}

#[tonic::async_trait]
impl sessions_server::Sessions for Sessions {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<pb::SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: tonic::Request<Streaming<pb::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        self.door.admit(request.metadata())?;
        self.door.lines_ready().await.map_err(refuse)?;
        let link = request.extensions().get::<Link>().cloned().unwrap_or_default();
        let (sender, responses) = tokio::sync::mpsc::channel(RESPONSES_MAX);
        let attachment = Attachment::new(self.door.clone(), link, Means::default(), sender);
        tokio::spawn(attachment.run(request.into_inner()));
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }

    async fn end(
        &self,
        request: tonic::Request<pb::EndSessionRequest>,
    ) -> Result<Response<pb::EndSessionResponse>, Status> {
        self.door.admit(request.metadata())?;
        let request = request.into_inner();
        // Who says that all work has ended speaks for the session.
        let how = match request.stopped {
            true => Ended::Closed { stopped: true },
            false => Ended::Revoked { stopped: false },
        };
        let command = LineCommand::End { id: LeaseId(request.session), how };
        let request = Request::Write(Command::Line(command));
        let (header, reply) = self.door.open(self.door.ask(request).await)?;
        match line_done(reply)? {
            // Whoever heard no answer asks again, and what it asked for is so.
            Ok(_) | Err(Refusal::SessionGone) => {}
            Err(refusal) => return Err(refuse_rule(refusal)),
        }
        Ok(Response::new(pb::EndSessionResponse { header }))
    }

    async fn list(
        &self,
        request: tonic::Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        self.door.admit(request.metadata())?;
        let read = Request::Read(Read::Sessions, Consistency::Linearizable);
        let (header, view) = match self.door.open(self.door.ask(read).await)? {
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
                places: view.places.iter().map(place).collect(),
            })
            .collect();
        Ok(Response::new(pb::ListSessionsResponse { header, sessions }))
    }
}
