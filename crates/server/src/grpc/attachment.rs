//! One stream that speaks for a session.
//!
//! What the session is told and what it is answered go out in the order in which they came about. That
//! matters for safety: a holder counts its time from its last renewal that was taken, so it must hear
//! that a candidacy is gone before it hears of any renewal that came after.

use std::time::Duration;

use futures_util::{Stream, StreamExt, future::BoxFuture, stream::FuturesOrdered};
use tenure_api::{Failure, LeaseId, Principal, election::REATTACH_WINDOW, wire::tenure::v1 as pb};
use tenure_replica::{
    Answer, ElectionOutcome, Operation, Reply,
    command::{Command, ElectionCommand, SessionEnding, SessionRequest},
    election::{
        ElectionEvent, Refusal, SecretDigest, SessionEndReason,
        listeners::{ListenerEvent, ListenerInput},
    },
};
use tokio::sync::mpsc;
use tonic::Status;

use super::{
    convert::{candidacy, election_outcome, ended, is_no_quorum, refusal, says, token},
    env::{Env, digest_of},
    lease::positive_id,
    reply::refuse,
    sessions::is_not_capable,
};
use crate::{
    admission::Admitted,
    node::{NodeHandle, Stamp, Subscription},
};

/// How often ending a session whose client is gone is tried while it fails, in all some six seconds of pauses: many may
/// be gone at once. Then its time runs out by itself.
const RELEASE_TRIES: u32 = 10;
const RELEASE_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Requests of one stream that may be under way at once.
const UNDER_WAY_MAX: usize = 256;

type Responses = mpsc::Sender<Result<pb::SessionResponse, Status>>;
type SessionCall = pb::session_request::Request;
type SessionReply = pb::session_response::Response;

/// What a client asks, from its first word to its last.
pub(super) trait Requests:
    Stream<Item = Result<pb::SessionRequest, Status>> + Send + Unpin
{
}

impl<S: Stream<Item = Result<pb::SessionRequest, Status>> + Send + Unpin> Requests for S {}

pub(super) struct Attachment {
    node: NodeHandle,
    by: Admitted,
    env: Env,
    responses: Responses,
}

/// Whose stream this is, once it is known.
struct Attached {
    session: LeaseId,
    /// What this stream has shown, or the session was opened with.
    secret: Option<SecretDigest>,
    attachment: u64,
    fast_release: bool,
    subscription: Subscription,
}

/// What an answer under way is for.
enum For {
    Renewal(u64),
    Request(u64),
    Close,
}

/// Why a stream ends.
enum End {
    /// The client heard the reason.
    Told,
    /// The client is gone, or does not listen.
    Gone,
}

impl Attachment {
    pub(super) fn new(
        node: NodeHandle,
        by: Admitted,
        env: Env,
        responses: Responses,
    ) -> Attachment {
        Attachment { node, by, env, responses }
    }

    pub(super) async fn run(self, mut requests: impl Requests) {
        let open = match requests.next().await {
            Some(Ok(pb::SessionRequest { request: Some(SessionCall::Open(open)), .. })) => open,
            Some(Ok(_)) | None => {
                let first =
                    Status::invalid_argument("tenure: the first request must open a session");
                let _ = self.responses.send(Err(first)).await;
                return;
            }
            Some(Err(_)) => return,
        };
        let mut attached = match self.attach(open).await {
            Ok(Some(attached)) => attached,
            Ok(None) => return,
            Err(status) => {
                let _ = self.responses.send(Err(status)).await;
                return;
            }
        };
        if matches!(self.serve(&mut attached, &mut requests).await, End::Gone) {
            self.release(&attached).await;
        }
    }

    /// Opens a session or comes back to one. None if there is nothing to come back to.
    async fn attach(&self, open: pb::OpenSession) -> Result<Option<Attached>, Status> {
        // It is shown on terminals, written to logs and handed to fence agents.
        if open.identity.chars().any(char::is_control) {
            return Err(Status::invalid_argument(
                "tenure: a session's identity has no control characters",
            ));
        }
        let by = self.env.number();
        let known = LeaseId::from_wire(open.session);
        let session = known.unwrap_or_else(|| positive_id(|| self.env.number()));
        let mut subscription =
            self.node.listen(&self.by, |listener| ListenerInput::Attach { listener, session, by });
        let drawn = known.is_none().then(|| self.env.secret());
        let shown = Some(&open.secret[..]).filter(|secret| !secret.is_empty());
        let mut secret = drawn.as_ref().map(|secret| &secret[..]).or(shown).map(digest_of);
        let command = |secret| match known {
            None => ElectionCommand::Open {
                id: session,
                ttl_ms: open.ttl_ms,
                identity: open.identity.clone(),
                fast_release: open.fast_release,
                by,
                secret,
            },
            Some(id) => ElectionCommand::Attach { id, by, secret },
        };
        let ask =
            |secret| self.node.ask(&self.by, Operation::Write(Command::Election(command(secret))));
        let mut answer = ask(secret).await;
        if is_not_capable(&answer) && secret.is_some() {
            // A member of an earlier release is there: no session has a secret yet.
            secret = None;
            answer = ask(secret).await;
        }
        let answer = answer.map_err(refuse)?;
        let stamp = Stamp { revision: answer.revision, term: answer.term };
        let done = election_outcome(answer.result.map_err(refuse)?)?;
        let opened = match done {
            Ok(ElectionOutcome::Session { attachment, ttl_ms, candidacies, .. }) => {
                pb::SessionOpened {
                    session: session.0,
                    attachment,
                    ttl_ms,
                    candidacies: candidacies.iter().map(candidacy).collect(),
                    secret: drawn
                        .filter(|_| secret.is_some())
                        .map(Vec::from)
                        .unwrap_or_default()
                        .into(),
                }
            }
            Err(Refusal::SessionGone) if known.is_some() => {
                self.say(stamp, SessionReply::Ended(ended(SessionEndReason::NotFound))).await;
                return Ok(None);
            }
            Err(refusal) => return Err(super::convert::refuse_rule(refusal)),
            Ok(_) => return Err(Status::internal("the node answered something else")),
        };
        // What came before the attachment is in the list of candidacies already.
        let attachment = opened.attachment;
        let attached = |subscription| Attached {
            session,
            secret,
            attachment,
            fast_release: open.fast_release,
            subscription,
        };
        loop {
            let news = tokio::select! {
                biased;
                news = subscription.news.recv() => news,
                () = self.responses.closed() => {
                    self.release(&attached(subscription)).await;
                    return Ok(None);
                }
            };
            match news {
                Some((ListenerEvent::Session(ElectionEvent::Attached { by: other, .. }), _))
                    if other == by =>
                {
                    break;
                }
                Some((ListenerEvent::Denied(failure), _)) => return Err(refuse(failure)),
                Some(_) => {}
                None => return Err(refuse(Failure::Stopped)),
            }
        }
        self.say(stamp, SessionReply::Opened(opened)).await;
        Ok(Some(attached(subscription)))
    }

    async fn serve(&self, attached: &mut Attached, requests: &mut impl Requests) -> End {
        let mut under_way = FuturesOrdered::<BoxFuture<'_, (For, Result<Answer, Failure>)>>::new();
        loop {
            tokio::select! {
                biased;
                news = attached.subscription.news.recv() => {
                    let Some((news, stamp)) = news else {
                        let _ = self.responses.send(Err(refuse(Failure::Stopped))).await;
                        return End::Told;
                    };
                    if let Some(end) = self.tell(attached, news, stamp).await {
                        return end;
                    }
                }
                Some((what, answer)) = under_way.next(), if !under_way.is_empty() => {
                    while let Ok((news, stamp)) = attached.subscription.news.try_recv() {
                        if let Some(end) = self.tell(attached, news, stamp).await {
                            return end;
                        }
                    }
                    if let Some(end) = self.answer(what, answer).await {
                        return end;
                    }
                }
                request = requests.next(), if under_way.len() < UNDER_WAY_MAX => {
                    match request {
                        Some(Ok(request)) => match self.ask(attached, request) {
                            Ok((what, request)) => {
                                let asked = self.node.ask(&self.by, request);
                                under_way.push_back(Box::pin(async move { (what, asked.await) }));
                            }
                            Err(status) => {
                                let _ = self.responses.send(Err(status)).await;
                                return End::Told;
                            }
                        },
                        // A client that says nothing more may still listen, but one that does not renew
                        // has no use for it.
                        None | Some(Err(_)) => return End::Gone,
                    }
                }
                () = self.responses.closed() => return End::Gone,
            }
        }
    }

    async fn tell(&self, attached: &Attached, news: ListenerEvent, stamp: Stamp) -> Option<End> {
        let says = match news {
            ListenerEvent::Session(event) => says(&event)?,
            ListenerEvent::Candidacies(candidacies) => SessionReply::Opened(pb::SessionOpened {
                session: attached.session.0,
                attachment: attached.attachment,
                ttl_ms: 0,
                candidacies: candidacies.iter().map(candidacy).collect(),
                secret: bytes::Bytes::new(),
            }),
            ListenerEvent::Denied(failure) => {
                let _ = self.responses.send(Err(refuse(failure))).await;
                return Some(End::Told);
            }
            ListenerEvent::Held | ListenerEvent::Gone(_) | ListenerEvent::Observed(_) => {
                return None;
            }
        };
        let ends = matches!(says, SessionReply::Ended(_));
        self.say(stamp, says).await;
        ends.then_some(End::Told)
    }

    async fn answer(&self, what: For, answer: Result<Answer, Failure>) -> Option<End> {
        let no_quorum = |failure: &Failure| is_no_quorum(*failure);
        let (stamp, result) = match answer {
            Ok(answer) => (Stamp { revision: answer.revision, term: answer.term }, answer.result),
            Err(failure) => (self.stamp(), Err(failure)),
        };
        let says = match (what, result) {
            (_, Err(failure)) if no_quorum(&failure) => {
                let reason = pb::SessionEndReason::SessionNoQuorum as i32;
                self.say(stamp, SessionReply::Ended(pb::SessionEnded { reason })).await;
                return Some(End::Told);
            }
            (For::Renewal(number), Ok(_)) => SessionReply::Renewed(pb::SessionRenewed { number }),
            (For::Renewal(_), Err(Failure::LeaseNotFound)) => {
                self.say(stamp, SessionReply::Ended(ended(SessionEndReason::NotFound))).await;
                return Some(End::Told);
            }
            (For::Request(request), Ok(reply)) => SessionReply::Result(answered(request, reply)?),
            // Only this request is refused. To end the stream for it would end the session, if the client
            // asks the same again and again.
            (For::Request(request), Err(failure)) => {
                let refusal = pb::Refusal { kind: 0, text: failure.to_string() };
                SessionReply::Result(pb::RequestResult {
                    request_id: request,
                    refusal: Some(refusal),
                    candidacies: vec![],
                })
            }
            (For::Close, Ok(_)) => return None,
            (_, Err(failure)) => {
                let _ = self.responses.send(Err(refuse(failure))).await;
                return Some(End::Told);
            }
        };
        self.say(stamp, says).await;
        None
    }

    fn stamp(&self) -> Stamp {
        let status = self.node.status();
        Stamp { revision: status.revision, term: status.durable_term }
    }

    async fn say(&self, stamp: Stamp, response: SessionReply) {
        let header = Some(self.node.header(stamp));
        let _ =
            self.responses.send(Ok(pb::SessionResponse { header, response: Some(response) })).await;
    }

    /// What a request asks of the node.
    fn ask(
        &self,
        attached: &Attached,
        request: pb::SessionRequest,
    ) -> Result<(For, Operation), Status> {
        let session = attached.session;
        let number = request.request_id;
        let ask = match request.request {
            Some(SessionCall::Renew(renew)) => {
                let renewal = Operation::Write(Command::LeaseRenew(session));
                return Ok((For::Renewal(renew.number), renewal));
            }
            Some(SessionCall::Close(close)) => {
                let how = SessionEnding::Closed { stopped: close.stopped };
                let command = Command::Election(ElectionCommand::End {
                    id: session,
                    how,
                    secret: attached.secret,
                });
                return Ok((For::Close, Operation::Write(command)));
            }
            Some(SessionCall::Join(join)) => SessionRequest::Join(join.into()),
            Some(SessionCall::Leave(leave)) => SessionRequest::Leave {
                name: leave.name.into(),
                token: token(leave.token),
                stopped: leave.stopped,
            },
            Some(SessionCall::Proclaim(proclaim)) => SessionRequest::Proclaim {
                name: proclaim.name.into(),
                token: tenure_api::Revision(proclaim.token),
                value: proclaim.value,
            },
            Some(SessionCall::Health(health)) => {
                SessionRequest::Health { name: health.name.into(), unhealthy: health.unhealthy }
            }
            Some(SessionCall::Yield(given)) => SessionRequest::Yield {
                name: given.name.into(),
                token: tenure_api::Revision(given.token),
                stay: given.stay,
            },
            Some(SessionCall::Open(_)) => {
                return Err(Status::invalid_argument("tenure: the session is open already"));
            }
            None => return Err(Status::invalid_argument("tenure: a request that asks nothing")),
        };
        if number == 0 {
            return Err(Status::invalid_argument("tenure: a request needs a number, from 1 on"));
        }
        let command = Command::Election(ElectionCommand::Request { session, number, request: ask });
        Ok((For::Request(number), Operation::Write(command)))
    }

    /// The client is gone. If its kernel said so, and it had asked for that, its session ends, unless
    /// another stream attaches to it in time.
    async fn release(&self, attached: &Attached) {
        if !attached.fast_release {
            return;
        }
        // A stream may end a moment before its connection does.
        self.env.pause(REATTACH_WINDOW).await;
        if !self.by.link().is_gone() {
            return;
        }
        let how = SessionEnding::ConnectionLost { attachment: attached.attachment };
        let command = ElectionCommand::End { id: attached.session, how, secret: None };
        let by = Admitted::in_process(Principal::System);
        // A new attachment meanwhile makes it void, so it can be said again where there is no raft leader yet.
        for tries in 0..RELEASE_TRIES {
            let ask =
                self.node.ask(&by, Operation::Write(Command::Election(command.clone()))).await;
            match ask.and_then(|answer| answer.result) {
                Ok(_) | Err(Failure::Stopped) => return,
                Err(_) => {
                    let pause = REATTACH_WINDOW * 2u32.pow(tries);
                    self.env.pause(pause.min(RELEASE_PAUSE_MAX)).await;
                }
            }
        }
    }
}

fn answered(request: u64, reply: Reply) -> Option<pb::RequestResult> {
    let (refused, candidacies) = match election_outcome(reply).ok()? {
        Ok(ElectionOutcome::Candidacies(candidacies)) => {
            (None, candidacies.iter().map(candidacy).collect())
        }
        Ok(_) => (None, vec![]),
        Err(why) => (Some(refusal(why)), vec![]),
    };
    Some(pb::RequestResult { request_id: request, refusal: refused, candidacies })
}
