//! One stream that speaks for a session.
//!
//! What the session is told and what it is answered go out in the order in which they came about. That
//! matters for safety: a holder counts its time from its last renewal that was taken, so it must hear
//! that a place is gone before it hears of any renewal that came after.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, future::BoxFuture, stream::FuturesOrdered};
use tenure_api::{Failure, LeaseId, wire::tenure::v1 as pb};
use tenure_replica::{
    Answer, LineDone, Reply, Request,
    command::{Ask, Command, Ended, Join, LineCommand},
    queue::{
        Event, Mode, Refusal, SessionEnd,
        listeners::{LineInput, LineNews},
    },
};
use tokio::sync::mpsc;
use tonic::Status;

use super::{
    lease::positive_id,
    means::Means,
    reply::refuse,
    words::{ended, is_no_quorum, line_done, place, refusal, says, token},
};
use crate::{
    node::{Door, LineOutlet, Stamp},
    server::Link,
};

/// A process whose connection broke may come back within this time before fast release ends its
/// session.
const REATTACH_WINDOW: Duration = Duration::from_millis(50);
/// How often a session whose client is gone is ended, while nobody can, in all some six seconds of pauses: many may
/// be gone at once. Then its time runs out by itself.
const RELEASE_TRIES: u32 = 10;
const RELEASE_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Requests of one stream that may be under way at once.
const UNDER_WAY_MAX: usize = 256;

type Responses = mpsc::Sender<Result<pb::SessionResponse, Status>>;
type Does = pb::session_request::Does;
type Says = pb::session_response::Says;

/// What a client asks, from its first word to its last.
pub(super) trait Requests:
    Stream<Item = Result<pb::SessionRequest, Status>> + Send + Unpin
{
}

impl<S: Stream<Item = Result<pb::SessionRequest, Status>> + Send + Unpin> Requests for S {}

pub(super) struct Attachment {
    door: Door,
    link: Link,
    means: Means,
    responses: Responses,
}

/// Whose stream this is, once it is known.
struct Seat {
    session: LeaseId,
    attachment: u64,
    fast_release: bool,
    outlet: LineOutlet,
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
    pub(super) fn new(door: Door, link: Link, means: Means, responses: Responses) -> Attachment {
        Attachment { door, link, means, responses }
    }

    pub(super) async fn run(self, mut requests: impl Requests) {
        let open = match requests.next().await {
            Some(Ok(pb::SessionRequest { does: Some(Does::Open(open)), .. })) => open,
            Some(Ok(_)) | None => {
                let first =
                    Status::invalid_argument("tenure: the first request must open a session");
                let _ = self.responses.send(Err(first)).await;
                return;
            }
            Some(Err(_)) => return,
        };
        let mut seat = match self.attach(open).await {
            Ok(Some(seat)) => seat,
            Ok(None) => return,
            Err(status) => {
                let _ = self.responses.send(Err(status)).await;
                return;
            }
        };
        if matches!(self.serve(&mut seat, &mut requests).await, End::Gone) {
            self.release(&seat).await;
        }
    }

    /// Opens a session or comes back to one. None if there is nothing to come back to.
    async fn attach(&self, open: pb::OpenSession) -> Result<Option<Seat>, Status> {
        let by = self.means.number();
        let known = LeaseId::from_wire(open.session);
        let session = known.unwrap_or_else(|| positive_id(|| self.means.number()));
        let mut outlet = self.door.listen(|listener| LineInput::Attach { listener, session, by });
        let command = match known {
            None => LineCommand::Open {
                id: session,
                ttl_ms: open.ttl_ms,
                identity: open.identity,
                fast_release: open.fast_release,
                by,
            },
            Some(id) => LineCommand::Attach { id, by },
        };
        let answer = self.door.ask(Request::Write(Command::Line(command))).await.map_err(refuse)?;
        let stamp = Stamp { revision: answer.revision, term: answer.term };
        let done = line_done(answer.result.map_err(refuse)?)?;
        let opened = match done {
            Ok(LineDone::Session { attachment, ttl_ms, places, .. }) => pb::SessionOpened {
                session: session.0,
                attachment,
                ttl_ms,
                places: places.iter().map(place).collect(),
            },
            Err(Refusal::SessionGone) if known.is_some() => {
                self.say(stamp, Says::Ended(ended(SessionEnd::NotFound))).await;
                return Ok(None);
            }
            Err(refusal) => return Err(super::words::refuse_rule(refusal)),
            Ok(_) => return Err(Status::internal("the node answered something else")),
        };
        // What came before the attachment is in the list of places already.
        let attachment = opened.attachment;
        let seat = |outlet| Seat { session, attachment, fast_release: open.fast_release, outlet };
        loop {
            let news = tokio::select! {
                biased;
                news = outlet.news.recv() => news,
                () = self.responses.closed() => {
                    self.release(&seat(outlet)).await;
                    return Ok(None);
                }
            };
            match news {
                Some((LineNews::Session(Event::Attached { by: other, .. }), _)) if other == by => {
                    break;
                }
                Some(_) => {}
                None => return Err(refuse(Failure::Stopped)),
            }
        }
        self.say(stamp, Says::Opened(opened)).await;
        Ok(Some(seat(outlet)))
    }

    async fn serve(&self, seat: &mut Seat, requests: &mut impl Requests) -> End {
        let mut under_way = FuturesOrdered::<BoxFuture<'_, (For, Result<Answer, Failure>)>>::new();
        loop {
            tokio::select! {
                biased;
                news = seat.outlet.news.recv() => {
                    let Some((news, stamp)) = news else {
                        let _ = self.responses.send(Err(refuse(Failure::Stopped))).await;
                        return End::Told;
                    };
                    if let Some(end) = self.tell(seat, news, stamp).await {
                        return end;
                    }
                }
                Some((what, answer)) = under_way.next(), if !under_way.is_empty() => {
                    while let Ok((news, stamp)) = seat.outlet.news.try_recv() {
                        if let Some(end) = self.tell(seat, news, stamp).await {
                            return end;
                        }
                    }
                    if let Some(end) = self.answer(what, answer).await {
                        return end;
                    }
                }
                request = requests.next(), if under_way.len() < UNDER_WAY_MAX => {
                    match request {
                        Some(Ok(request)) => match self.ask(seat, request) {
                            Ok((what, request)) => {
                                let asked = self.door.ask(request);
                                under_way.push_back(Box::pin(async move { (what, asked.await) }));
                            }
                            Err(status) => {
                                let _ = self.responses.send(Err(status)).await;
                                return End::Told;
                            }
                        },
                        // A client that says nothing more may still listen, but who does not renew
                        // has no use for it.
                        None | Some(Err(_)) => return End::Gone,
                    }
                }
                () = self.responses.closed() => return End::Gone,
            }
        }
    }

    async fn tell(&self, seat: &Seat, news: LineNews, stamp: Stamp) -> Option<End> {
        let says = match news {
            LineNews::Session(event) => says(&event)?,
            LineNews::Places(places) => Says::Opened(pb::SessionOpened {
                session: seat.session.0,
                attachment: seat.attachment,
                ttl_ms: 0,
                places: places.iter().map(place).collect(),
            }),
            LineNews::Held | LineNews::Gone(_) | LineNews::Observed(_) => return None,
        };
        let ends = matches!(says, Says::Ended(_));
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
                let reason = pb::SessionEnd::SessionNoQuorum as i32;
                self.say(stamp, Says::Ended(pb::SessionEnded { reason })).await;
                return Some(End::Told);
            }
            (For::Renewal(number), Ok(_)) => Says::Renewed(pb::SessionRenewed { number }),
            (For::Renewal(_), Err(Failure::LeaseNotFound)) => {
                self.say(stamp, Says::Ended(ended(SessionEnd::NotFound))).await;
                return Some(End::Told);
            }
            (For::Request(request), Ok(reply)) => Says::Answer(answered(request, reply)?),
            // Only this request is refused. To end the stream for it would end the session, if the client
            // asks the same again and again.
            (For::Request(request), Err(failure)) => {
                let refusal = pb::Refusal { kind: 0, text: failure.to_string() };
                Says::Answer(pb::Answer { request, refusal: Some(refusal), places: vec![] })
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
        let status = self.door.status();
        Stamp { revision: status.revision, term: status.term }
    }

    async fn say(&self, stamp: Stamp, says: Says) {
        let header = Some(self.door.header(stamp));
        let _ = self.responses.send(Ok(pb::SessionResponse { header, says: Some(says) })).await;
    }

    /// What a request asks of the node.
    fn ask(&self, seat: &Seat, request: pb::SessionRequest) -> Result<(For, Request), Status> {
        let session = seat.session;
        let number = request.request;
        let ask = match request.does {
            Some(Does::Renew(renew)) => {
                let renewal = Request::Write(Command::LeaseRenew(session));
                return Ok((For::Renewal(renew.number), renewal));
            }
            Some(Does::Close(close)) => {
                let how = Ended::Closed { stopped: close.stopped };
                let command = Command::Line(LineCommand::End { id: session, how });
                return Ok((For::Close, Request::Write(command)));
            }
            Some(Does::Join(join)) => Ask::Join(joined(join)?),
            Some(Does::Leave(leave)) => Ask::Leave {
                name: leave.name.into(),
                token: token(leave.token),
                stopped: leave.stopped,
            },
            Some(Does::Proclaim(proclaim)) => Ask::Proclaim {
                name: proclaim.name.into(),
                token: tenure_api::Revision(proclaim.token),
                value: proclaim.value,
            },
            Some(Does::Health(health)) => {
                Ask::Health { name: health.name.into(), unhealthy: health.unhealthy }
            }
            Some(Does::Yield(given)) => Ask::Yield {
                name: given.name.into(),
                token: tenure_api::Revision(given.token),
                stay: given.stay,
            },
            Some(Does::Open(_)) => {
                return Err(Status::invalid_argument("tenure: the session is open already"));
            }
            None => return Err(Status::invalid_argument("tenure: a request that asks nothing")),
        };
        if number == 0 {
            return Err(Status::invalid_argument("tenure: a request needs a number, from 1 on"));
        }
        let command = Command::Line(LineCommand::Ask { session, request: number, ask });
        Ok((For::Request(number), Request::Write(command)))
    }

    /// The client is gone. If its kernel said so, and it had asked for that, its session ends, unless
    /// somebody attaches to it in time.
    async fn release(&self, seat: &Seat) {
        if !seat.fast_release {
            return;
        }
        // A stream may end a moment before its connection does.
        self.means.pause(REATTACH_WINDOW).await;
        if !self.link.is_gone() {
            return;
        }
        let how = Ended::ConnectionLost { attachment: seat.attachment };
        let command = LineCommand::End { id: seat.session, how };
        // Whoever attaches meanwhile makes it void, so it can be said again where there is no raft leader yet.
        for tries in 0..RELEASE_TRIES {
            let ask = self.door.ask(Request::Write(Command::Line(command.clone()))).await;
            match ask.and_then(|answer| answer.result) {
                Ok(_) | Err(Failure::Stopped) => return,
                Err(_) => {
                    let pause = REATTACH_WINDOW * 2u32.pow(tries);
                    self.means.pause(pause.min(RELEASE_PAUSE_MAX)).await;
                }
            }
        }
    }
}

fn joined(join: pb::Join) -> Result<Join, Status> {
    let mode = match join.mode() {
        pb::Mode::Exclusive => Mode::Exclusive,
        pb::Mode::Shared => Mode::Shared,
        pb::Mode::Permit => Mode::Permit(join.permits),
    };
    let mut metadata: Vec<(String, String)> = join.metadata.into_iter().collect();
    metadata.sort_unstable();
    Ok(Join {
        names: join.names.into_iter().map(Bytes::from).collect(),
        value: join.value,
        mode,
        priority: join.priority,
        preempts: join.preempts,
        no_overlap: join.no_overlap,
        try_only: join.try_only,
        unhealthy: join.unhealthy,
        metadata,
    })
}

fn answered(request: u64, reply: Reply) -> Option<pb::Answer> {
    let (refused, places) = match line_done(reply).ok()? {
        Ok(LineDone::Places(places)) => (None, places.iter().map(place).collect()),
        Ok(_) => (None, vec![]),
        Err(why) => (Some(refusal(why)), vec![]),
    };
    Some(pb::Answer { request, refusal: refused, places })
}
