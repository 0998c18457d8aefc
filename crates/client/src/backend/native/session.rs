//! A session over `tenure.v1`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pb::session_request::Request as SessionCall;
use tenure_api::LeaseId;
use tenure_api::wire::tenure::v1 as pb;

use super::candidate::NativeCandidate;
use super::convert;
use super::link::{self, NotAttached, Shared, Stream, unanswered};
use super::wire::Wire;
use crate::backend::{
    BackendCandidate, BackendSession, Boxed, JoinSpec, Link, Mode, Opened, Opening, RenewError,
};
use crate::chance::Backoff;
use crate::grpc::ClientError;
use crate::host::Leash;
use crate::{AcquireError, ElectionName, EngineError, Loss, SessionSecret};

/// Pauses between rounds of asking all members for a new session.
const PAUSE_FIRST: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// A new stream that says nothing for this part of the time to live is tried elsewhere.
const ATTACHES_PER_TTL: u32 = 6;

/// A session, and the task that keeps its stream.
#[derive(Debug)]
pub(super) struct NativeSession {
    id: LeaseId,
    ttl: Duration,
    shared: Arc<Shared>,
    keeping: Leash,
    /// What was told of the connection last.
    link_told: Mutex<Link>,
}

/// Opens a session on the first member that grants one. All are asked again until `limit` is over, unless no member is
/// there at all: that is told at once.
pub(super) async fn open(
    members: Vec<Arc<dyn Wire>>,
    opening: Opening,
    limit: Duration,
) -> Result<Opened, EngineError> {
    let host = Arc::clone(&opening.host);
    let give_up = host.now() + limit;
    let patience = opening.ttl / ATTACHES_PER_TTL;
    let shared = Arc::new(Shared::new(members, opening, patience));
    let mut backoff = Backoff::new(host.chance(), PAUSE_FIRST, PAUSE_MAX);
    let first = host.chance().below(shared.members());
    loop {
        let mut failures = Vec::new();
        for turn in first..first + shared.members() {
            let sent = host.now();
            match shared.attach(turn).await {
                Ok(stream) => return Ok(Opened { session: opened(shared, stream), sent }),
                Err(NotAttached::Failed(error)) if error.is_refused() => return Err(error.into()),
                Err(NotAttached::Failed(error)) => failures.push(error),
                Err(NotAttached::Over(loss)) => failures.push(link::broken(&loss.to_string())),
            }
        }
        let is_away = |error: &ClientError| matches!(error, ClientError::Unreachable { .. });
        if failures.iter().all(is_away) || host.now() >= give_up {
            return Err(shared.no_session(failures).await);
        }
        host.pause(backoff.pause()).await;
    }
}

fn opened(shared: Arc<Shared>, stream: Stream) -> Arc<dyn BackendSession> {
    let id = LeaseId(stream.opened.session);
    let ttl = Duration::from_millis(stream.opened.ttl_ms);
    let keeping = shared.host().spawn(Box::pin(link::keep(Arc::clone(&shared), stream)));
    let link_told = Mutex::new(Link::Attached);
    Arc::new(NativeSession { id, ttl, shared, keeping, link_told })
}

/// Gives up the stream that a renewal was sent on, unless it was acknowledged.
struct Patience<'a> {
    shared: &'a Shared,
    stream: u64,
}

impl Drop for Patience<'_> {
    fn drop(&mut self) {
        self.shared.abandon(self.stream);
    }
}

impl BackendSession for NativeSession {
    fn id(&self) -> LeaseId {
        self.id
    }

    fn secret(&self) -> SessionSecret {
        self.shared.talk().exchange.secret()
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn renew(&self) -> Boxed<'_, Result<(), RenewError>> {
        Box::pin(async move {
            let asked = self.shared.now();
            let mut streams = self.shared.stream.subscribe();
            let waited = streams.borrow().is_none();
            let stream = match streams.wait_for(Option::is_some).await {
                Ok(stream) => stream.expect("it was waited for"),
                Err(_) => return Err(RenewError::Missed(unanswered())),
            };
            // Coming back renews, too.
            if stream.sent >= asked {
                return Ok(());
            }
            // A stream that has only just come about is not given up for what is left of our patience.
            let stream = if waited { 0 } else { stream.number };
            let patience = Patience { shared: &self.shared, stream };
            let acknowledged = self.shared.talk().renew();
            match acknowledged.await {
                Ok(()) => {
                    std::mem::forget(patience);
                    Ok(())
                }
                Err(_) => Err(RenewError::Missed(unanswered())),
            }
        })
    }

    fn ended(&self) -> Boxed<'_, Loss> {
        Box::pin(async move {
            let mut ended = self.shared.ended.subscribe();
            let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| *ended);
            match ended {
                Some(loss) => loss,
                None => std::future::pending().await,
            }
        })
    }

    fn link(&self) -> Boxed<'_, Link> {
        Box::pin(async move {
            let mut links = self.shared.link.subscribe();
            loop {
                let now = *links.borrow_and_update();
                {
                    let mut told = self.link_told.lock().unwrap_or_else(PoisonError::into_inner);
                    if *told != now {
                        *told = now;
                        return now;
                    }
                }
                if links.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        })
    }

    fn candidate(&self, join: JoinSpec) -> Result<Arc<dyn BackendCandidate>, AcquireError> {
        let name = join.first_name();
        if join.names.len() > 1 && join.mode != Mode::Exclusive {
            let rule = "several names can only be held exclusively";
            return Err(AcquireError::BadRequest { name, rule });
        }
        let mut talk = self.shared.talk();
        if !talk.exchange.has_room() {
            let rule = "too much is asked for and not answered yet";
            return Err(AcquireError::BadRequest { name, rule });
        }
        talk.exchange.take(&join.names).map_err(|name| AcquireError::AlreadyCandidate { name })?;
        drop(talk);
        Ok(Arc::new(NativeCandidate::new(Arc::clone(&self.shared), join)))
    }

    fn report_health(
        &self,
        name: &ElectionName,
        healthy: bool,
    ) -> Boxed<'_, Result<(), EngineError>> {
        let health = pb::ReportHealth { name: name.to_string(), unhealthy: !healthy };
        Box::pin(async move {
            let answer = self.shared.ask(SessionCall::Health(health)).await;
            match answer.map_err(|_| unanswered())?.refusal {
                Some(refusal) => Err(convert::engine(refusal)),
                None => Ok(()),
            }
        })
    }

    fn close(&self, stopped: bool) -> Boxed<'_, Result<(), EngineError>> {
        Box::pin(async move {
            if self.shared.ended.borrow().is_none() {
                let answer = self.shared.ask(SessionCall::Close(pb::CloseSession { stopped }));
                tokio::select! {
                    // An answer says more than the end that it may have brought about.
                    biased;
                    answer = answer => return match answer.map_err(|_| unanswered())?.refusal {
                        Some(refusal) if !convert::is_not_ours(&refusal) => Err(convert::engine(refusal)),
                        _ => Ok(()),
                    },
                    _ = self.ended() => {}
                }
            }
            // It was ended from outside: revoked, say. Candidates that wait until our work has surely stopped still
            // want to know.
            match stopped {
                true => self.shared.confirm_stopped(self.id.0).await,
                false => Ok(()),
            }
        })
    }
}

impl Drop for NativeSession {
    fn drop(&mut self) {
        self.keeping.abort();
        // Callers that still wait for an answer, on a host that outlives the session, stop waiting.
        self.shared.talk().exchange.end();
    }
}

#[cfg(test)]
mod tests;
