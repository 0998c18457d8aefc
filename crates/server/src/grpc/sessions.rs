//! Sessions: the stream of a process, and what others may ask about it.

use std::pin::Pin;

use futures_util::Stream;
use tenure_api::{Failure, LeaseId, wire::tenure::v1 as pb};
use tenure_replica::{
    Answer, Consistency, Operation, Read, Reply,
    command::{Command, ElectionCommand, SessionEnding, StopCause},
    election::Refusal,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, Streaming};

use super::{
    attachment::Attachment,
    convert::{candidacy, election_outcome, refuse_rule},
    env::{Env, digest_of},
    reply::{refuse, unexpected},
    stubs::sessions_server,
};
use crate::node::NodeHandle;

/// What may wait to be sent on one stream.
pub(super) const RESPONSES_MAX: usize = 256;

/// A request that says that all work has ended speaks for the session.
const CLOSED: SessionEnding = SessionEnding::Closed { stopped: true };

/// How a session is to end. Of all reasons a guardian may give two: the members know the others themselves.
fn ending(request: &pb::EndSessionRequest) -> Result<SessionEnding, Status> {
    use pb::EndReason;
    match (request.stopped, request.reason()) {
        (false, EndReason::Unknown) => Ok(SessionEnding::Revoked { stopped: false }),
        (true, EndReason::Unknown) => Ok(CLOSED),
        (true, EndReason::ConnectionLost) => Ok(SessionEnding::Guarded(StopCause::ProcessKilled)),
        (true, EndReason::Expired) => Ok(SessionEnding::Guarded(StopCause::RenewalsMissing)),
        _ => Err(Status::invalid_argument(
            "tenure: a session's end has a reason only with `stopped`: CONNECTION_LOST or EXPIRED",
        )),
    }
}

/// Whether the cluster version was too low for a command.
pub(super) fn is_not_capable(answer: &Result<Answer, Failure>) -> bool {
    answer.as_ref().is_ok_and(|answer| matches!(answer.result, Err(Failure::NotCapable)))
}

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
        let id = LeaseId(request.session);
        let how = ending(&request)?;
        let secret = (!request.secret.is_empty()).then(|| digest_of(&request.secret));
        // Where a member of an earlier release is there, no session has a secret yet; and that all has ended matters more
        // than why.
        let mut attempts = vec![(how, secret)];
        attempts.extend(secret.map(|_| (how, None)));
        attempts.extend(matches!(how, SessionEnding::Guarded(_)).then_some((CLOSED, None)));
        let mut attempts = attempts.into_iter();
        let ended = loop {
            let (how, secret) = attempts.next().expect("the last one needs no version");
            let end = Command::Election(ElectionCommand::End { id, how, secret });
            let ended = self.node.ask(&by, Operation::Write(end)).await;
            if attempts.len() == 0 || !is_not_capable(&ended) {
                break ended;
            }
        };
        let (header, reply) = self.node.open(ended)?;
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
