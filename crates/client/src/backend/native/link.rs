//! Keeps a stream to some member, whatever happens to streams and members.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use pb::session_request::Request as SessionCall;
use pb::session_response::Response as SessionReply;
use tenure_api::election::REATTACH_WINDOW;
use tenure_api::wire::tenure::v1 as pb;
use tokio::sync::{mpsc, oneshot, watch};

use super::exchange::Exchange;
use super::wire::{Attached, Heard, Wire};
use crate::backend::{Link, Opening};
use crate::chance::{Backoff, Chance};
use crate::clock::Moment;
use crate::grpc::{ClientError, Code, is_stale};
use crate::host::Host;
use crate::{EngineError, Loss, SessionSecret};

const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// Sessions that lose their member come back within this time, or this part of their time to live.
const SCATTER_MAX: Duration = Duration::from_millis(200);
const SCATTERS_PER_TTL: u32 = 20;

/// What the task that keeps the stream shares with the callers that send requests.
#[derive(Debug)]
pub(super) struct Shared {
    members: Vec<Arc<dyn Wire>>,
    opening: Opening,
    /// How long one attempt to attach may take.
    patience: Duration,
    talk: Mutex<Talk>,
    /// Why the session is over, once the server has said so.
    pub(super) ended: watch::Sender<Option<Loss>>,
    pub(super) link: watch::Sender<Link>,
    /// The stream that is spoken on, if there is one.
    pub(super) stream: watch::Sender<Option<Spoken>>,
    /// The stream to give up, and all before it.
    abandoned: watch::Sender<u64>,
}

/// A stream that is spoken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spoken {
    /// Streams are counted from 1 on.
    pub(super) number: u64,
    /// When it was asked for. Reattaching renews the session.
    pub(super) sent: Moment,
}

/// The conversation, and where it goes. One lock for both, so that requests leave in the order of
/// their numbers.
#[derive(Debug, Default)]
pub(super) struct Talk {
    pub(super) exchange: Exchange,
    out: Option<mpsc::UnboundedSender<pb::SessionRequest>>,
    comebacks: Comebacks,
}

/// Our attempts to reattach to the session, as far as they may still take effect.
///
/// An attempt without an answer may be done by the server later, after the next one: then our own late attempt replaces
/// the stream in use. A stream that is told "replaced" reattaches once more, if that may have been the cause. The
/// server counts attachments, so the next one tells how many of ours have taken effect meanwhile.
#[derive(Debug, Default)]
struct Comebacks {
    /// The number of our last attachment.
    attachment: u64,
    /// Attempts without an answer.
    open: u64,
}

impl Comebacks {
    fn opened(&mut self, attachment: u64) {
        let between = attachment.saturating_sub(self.attachment + 1);
        self.open = self.open.saturating_sub(between);
        self.attachment = attachment;
    }
}

impl Talk {
    /// Sends what is due, if there is a stream. What is lost on the way is sent again on the next one.
    pub(super) fn flush(&mut self) {
        if let Some(out) = &self.out {
            for request in self.exchange.due() {
                let _ = out.send(request);
            }
        }
    }

    /// A renewal, which is sent now or never.
    pub(super) fn renew(&mut self) -> oneshot::Receiver<()> {
        let (renewal, acknowledged) = self.exchange.renewal();
        if let Some(out) = &self.out {
            let _ = out.send(renewal);
        }
        acknowledged
    }
}

/// An open stream.
pub(super) struct Stream {
    turn: usize,
    out: mpsc::UnboundedSender<pb::SessionRequest>,
    answers: Heard<pb::SessionResponse>,
    pub(super) opened: pb::SessionOpened,
    /// When that was said.
    revision: i64,
    /// When it was asked for.
    sent: Moment,
}

/// Why there is no stream.
pub(super) enum NotAttached {
    /// The session is over.
    Over(Loss),
    /// This member did not help.
    Failed(ClientError),
}

impl Shared {
    pub(super) fn new(members: Vec<Arc<dyn Wire>>, opening: Opening, patience: Duration) -> Shared {
        Shared {
            members,
            opening,
            patience,
            talk: Mutex::default(),
            ended: watch::Sender::new(None),
            link: watch::Sender::new(Link::Attached),
            stream: watch::Sender::new(None),
            abandoned: watch::Sender::new(0),
        }
    }

    pub(super) fn host(&self) -> &Arc<dyn Host> {
        &self.opening.host
    }

    pub(super) fn now(&self) -> Moment {
        self.host().now()
    }

    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    pub(super) fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for something. It will be answered, unless the session ends.
    pub(super) fn ask(&self, request: SessionCall) -> oneshot::Receiver<pb::RequestResult> {
        let mut talk = self.talk();
        let (_, answer) = talk.exchange.request(request);
        talk.flush();
        answer
    }

    /// Gives up a stream that does not answer.
    pub(super) fn abandon(&self, stream: u64) {
        self.abandoned.send_if_modified(|abandoned| {
            let later = stream > *abandoned;
            *abandoned = (*abandoned).max(stream);
            later
        });
    }

    /// Opens a stream on one member, for a new session or for this one.
    pub(super) async fn attach(&self, turn: usize) -> Result<Stream, NotAttached> {
        let open = {
            let talk = self.talk();
            pb::OpenSession {
                session: talk.exchange.session(),
                ttl_ms: u64::try_from(self.opening.ttl.as_millis()).unwrap_or(u64::MAX),
                identity: self.opening.identity.clone(),
                fast_release: self.opening.fast_release,
                secret: talk.exchange.secret().0,
            }
        };
        let member = &self.members[turn % self.members.len()];
        let comes_back = open.session != 0;
        if comes_back {
            self.talk().comebacks.open += 1;
        }
        let sent = self.now();
        let attached = async {
            let Attached { ask: out, mut answers } =
                member.attach(open).await.map_err(NotAttached::Failed)?;
            loop {
                let (revision, said) = match answers.next().await {
                    Some(Ok(said)) => {
                        (said.header.map_or(0, |header| header.revision), said.response)
                    }
                    None => return Err(NotAttached::Failed(broken("the stream has ended"))),
                    Some(Err(error)) => return Err(NotAttached::Failed(error)),
                };
                match said {
                    Some(SessionReply::Opened(opened)) => {
                        return Ok(Stream { turn, out, answers, opened, revision, sent });
                    }
                    Some(SessionReply::Ended(ended)) => {
                        return Err(match super::convert::session_end(ended.reason) {
                            Some(loss) => NotAttached::Over(loss),
                            None => NotAttached::Failed(broken("this member has no quorum")),
                        });
                    }
                    // Nothing else comes first; what a newer server might say is not for us.
                    _ => {}
                }
            }
        };
        let attached = match self.host().within(self.patience, attached).await {
            Some(attached) => attached,
            None => Err(NotAttached::Failed(broken("no answer in time"))),
        };
        // This one has come about, or it never will.
        let settled = match &attached {
            Ok(_) | Err(NotAttached::Over(_)) => true,
            Err(NotAttached::Failed(error)) => {
                error.is_refused() || matches!(error, ClientError::Unreachable { .. })
            }
        };
        let mut talk = self.talk();
        if comes_back && settled {
            talk.comebacks.open = talk.comebacks.open.saturating_sub(1);
        }
        if let Ok(stream) = &attached {
            talk.comebacks.opened(stream.opened.attachment);
        }
        attached
    }

    /// Whether a stream that was told so may have been replaced by one of ours.
    fn replaced_ourselves(&self, loss: Loss) -> bool {
        loss == Loss::Replaced && self.talk().comebacks.open > 0
    }

    /// Says that all work of a session has ended, which has itself ended before.
    pub(super) async fn confirm_stopped(&self, session: i64) -> Result<(), EngineError> {
        let mut failed = None;
        let SessionSecret(secret) = self.talk().exchange.secret();
        for member in &self.members {
            let request = pb::EndSessionRequest {
                session,
                stopped: true,
                secret: secret.clone(),
                ..Default::default()
            };
            match member.end(request).await {
                Ok(_) => return Ok(()),
                Err(error) => failed = Some(error.into()),
            }
        }
        Err(failed.expect("there are members"))
    }

    /// Why no member has granted a session: in one error what each of them had to say. A member that is there and has no
    /// raft leader explains more than others that are away.
    pub(super) async fn no_session(&self, failures: Vec<ClientError>) -> EngineError {
        let some_is_there =
            failures.iter().any(|error| !matches!(error, ClientError::Unreachable { .. }));
        for member in self.members.iter().filter(|_| some_is_there) {
            let asked = self.host().within(self.patience, member.without_raft_leader()).await;
            if let Some(member) = asked.flatten() {
                return ClientError::NoQuorum { member, outcome_unknown: false }.into();
            }
        }
        let mut away = Vec::new();
        let mut why = None;
        for failure in failures {
            match failure {
                ClientError::Unreachable { endpoints, cause } => {
                    away.push(endpoints);
                    why.get_or_insert(cause);
                }
                other => return other.into(),
            }
        }
        let cause = why.expect("there are members");
        ClientError::Unreachable { endpoints: away.join(", "), cause }.into()
    }

    /// Makes a stream the one that is spoken on: first everything that was not answered yet.
    fn begin(&self, stream: &Stream, number: u64) {
        let mut talk = self.talk();
        talk.exchange.opened(&stream.opened, stream.revision);
        talk.out = Some(stream.out.clone());
        talk.flush();
        drop(talk);
        self.link.send_replace(Link::Attached);
        self.stream.send_replace(Some(Spoken { number, sent: stream.sent }));
    }

    /// How long to wait before reattaching. Zero if waiting could lose the session.
    fn scatter(&self, chance: &mut Chance) -> Duration {
        let most = SCATTER_MAX.min(self.opening.ttl / SCATTERS_PER_TTL);
        if self.opening.fast_release { Duration::ZERO } else { chance.part_of(most) }
    }

    /// The server says that the session is over.
    fn end(&self, loss: Loss) {
        self.ended.send_replace(Some(loss));
        self.talk().exchange.end();
    }

    fn break_off(&self) {
        self.talk().out = None;
        self.stream.send_replace(None);
        if self.opening.fast_release {
            let until = self.now() + REATTACH_WINDOW / 2;
            self.link.send_replace(Link::Detached(until));
        }
    }
}

/// Keeps the stream until the session is over. To be aborted when it is not needed any more.
pub(super) async fn keep(shared: Arc<Shared>, first: Stream) {
    let host = Arc::clone(shared.host());
    let mut backoff = Backoff::new(host.chance(), PAUSE_FIRST, PAUSE_MAX);
    let mut chance = host.chance();
    let mut number = 1;
    let mut next = Some(first);
    let mut turn = 0;
    loop {
        if let Some(stream) = next.take() {
            turn = stream.turn;
            shared.begin(&stream, number);
            let over = pump(&shared, stream, number).await;
            shared.break_off();
            number += 1;
            if let Some(loss) = over
                && !shared.replaced_ourselves(loss)
            {
                return shared.end(loss);
            }
            // A member that dies leaves all its sessions at once; they do not all go to the same one, nor at
            // the same moment.
            turn = turn.wrapping_add(chance.below(shared.members.len() - 1));
            host.pause(shared.scatter(&mut chance)).await;
        }
        turn = turn.wrapping_add(1);
        match shared.attach(turn).await {
            Ok(stream) => {
                backoff.reset();
                next = Some(stream);
            }
            Err(NotAttached::Over(loss)) if !shared.replaced_ourselves(loss) => {
                return shared.end(loss);
            }
            Err(NotAttached::Over(_)) => host.pause(backoff.pause()).await,
            Err(NotAttached::Failed(error)) if error.is_about_the_user() => {
                return shared.end(Loss::AuthLost);
            }
            Err(NotAttached::Failed(error)) => {
                tracing::debug!(%error, "cannot attach the session");
                host.pause(backoff.pause()).await;
            }
        }
    }
}

/// Hears what comes until the stream is over. Answers why the session is, if it is too.
async fn pump(shared: &Shared, mut stream: Stream, number: u64) -> Option<Loss> {
    let mut abandoned = shared.abandoned.subscribe();
    loop {
        let said = tokio::select! {
            // What was said is heard, also on a stream that is given up: it may be an end.
            biased;
            said = stream.answers.next() => said,
            _ = abandoned.wait_for(|abandoned| *abandoned >= number) => return None,
        };
        match said {
            Some(Ok(said)) => {
                let Some(response) = said.response else { continue };
                if is_refused_for_login(&response) {
                    // It stays open, and is asked again on the next stream, with another token.
                    return None;
                }
                let revision = said.header.map_or(0, |header| header.revision);
                let mut talk = shared.talk();
                let over = talk.exchange.hear(response, revision);
                talk.flush();
                drop(talk);
                if let Some(over) = over {
                    return over;
                }
            }
            None => return None,
            Some(Err(error)) => return error.is_about_the_user().then_some(Loss::AuthLost),
        }
    }
}

/// Whether a request was refused because the login of the stream is not good any more: the stream is about to end.
fn is_refused_for_login(response: &SessionReply) -> bool {
    let SessionReply::Result(pb::RequestResult { refusal: Some(refusal), .. }) = response else {
        return false;
    };
    refusal.kind == 0 && is_stale(&refusal.text)
}

pub(super) fn broken(text: &str) -> ClientError {
    ClientError::Unavailable { code: Code::Unavailable, text: text.to_owned() }
}

/// What to say when a request will never be answered.
pub(super) fn unanswered() -> EngineError {
    EngineError::Unknown { text: "the session ended before the answer came".to_owned() }
}

#[cfg(test)]
mod tests;
