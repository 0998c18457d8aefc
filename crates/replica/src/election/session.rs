//! A session: a lease with an identity, a finer clock and a memory, whose process is a candidate in elections.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use tenure_api::{LeaseId, Revision};

use super::{
    ElectionEvent, ElectionOutcome, EndReason, IDENTITY_BYTES_MAX, Refusal, SESSION_TTL_MS_MAX,
    SESSION_TTL_MS_MIN, SecretDigest, apply::Transition, keys::Cause,
};
use crate::command::{SessionEnding, SessionRequest, StopCause};

/// How many of its latest requests a session remembers the answers of.
const ANSWERED_MAX: usize = 64;

/// What is known of a session beside its lease, which has the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The user that opened it; none if there were no users then.
    pub owner: Option<Arc<str>>,
    /// The identity, for people.
    pub identity: String,
    /// How long it lives without a sign of life.
    pub ttl_ms: u64,
    /// When its connection breaks it ends at once.
    pub fast_release: bool,
    /// What a client must show to attach to it, or to say that its work has ended. A session of an earlier release has none.
    pub secret: Option<SecretDigest>,
    /// How many attachments it has had. What is said for an earlier attachment does not count.
    pub attachment: u64,
    /// The names it is a candidate for.
    pub candidates: BTreeSet<Bytes>,
    /// Its latest requests, in order of their numbers.
    pub(super) answered: VecDeque<(u64, Answered)>,
    /// All requests up to this one are forgotten.
    pub(super) forgotten: u64,
}

/// What was answered to a request: the tokens of the candidates it was about, or why not.
pub type Answered = Result<Vec<Revision>, Refusal>;

/// How a session ended. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEndReason {
    /// No sign of life for its time to live.
    Expired = 1,
    /// It was revoked.
    Revoked = 2,
    /// Its client closed it.
    Closed = 3,
    /// Its connection broke.
    ConnectionLost = 4,
    /// There is no such session.
    NotFound = 5,
    /// Attached again elsewhere.
    Replaced = 6,
}

impl Session {
    /// A session without candidacies, attached to for the first time.
    pub fn new(identity: String, ttl_ms: u64, fast_release: bool) -> Session {
        Session {
            owner: None,
            identity,
            ttl_ms,
            fast_release,
            secret: None,
            attachment: 1,
            candidates: BTreeSet::new(),
            answered: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// What was answered to a request that comes again.
    pub fn answered(&self, request: u64) -> Option<Answered> {
        if request <= self.forgotten {
            return Some(Err(Refusal::RequestTooOld));
        }
        let at = self.answered.binary_search_by_key(&request, |(number, _)| *number).ok()?;
        Some(self.answered[at].1.clone())
    }

    /// Remembers an answer.
    pub fn remember(&mut self, request: u64, answer: Answered) {
        match self.answered.binary_search_by_key(&request, |(number, _)| *number) {
            Ok(at) => self.answered[at].1 = answer,
            Err(at) => self.answered.insert(at, (request, answer)),
        }
        while self.answered.len() > ANSWERED_MAX {
            if let Some((number, _)) = self.answered.pop_front() {
                self.forgotten = number;
            }
        }
    }
}

impl Transition<'_> {
    pub(super) fn open_session(
        &mut self,
        id: LeaseId,
        session: (u64, &str, bool),
        secret: Option<SecretDigest>,
        by: u64,
    ) -> Result<ElectionOutcome, Refusal> {
        let (ttl_ms, identity, fast_release) = session;
        if identity.len() > IDENTITY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let ttl_ms = ttl_ms.clamp(SESSION_TTL_MS_MIN, SESSION_TTL_MS_MAX);
        let ttl_secs = ttl_ms.div_ceil(1000) as i64;
        // Its number was drawn at random; an existing lease may have it all the same.
        self.leases.grant(id, ttl_secs, self.at.index).map_err(|_| Refusal::SessionGone)?;
        let mut session = Session::new(identity.to_owned(), ttl_ms, fast_release);
        session.secret = secret;
        self.elections.sessions.insert(id, Arc::new(session));
        self.effects.restarted.push(id);
        self.tell(ElectionEvent::Attached { session: id, attachment: 1, by });
        Ok(ElectionOutcome::Session { id, attachment: 1, ttl_ms, candidacies: vec![] })
    }

    pub(super) fn attach_session(
        &mut self,
        id: LeaseId,
        secret: Option<SecretDigest>,
        by: u64,
    ) -> Result<ElectionOutcome, Refusal> {
        let session = self.elections.session_mut(id).ok_or(Refusal::SessionGone)?;
        if !shown(session.secret, secret) {
            return Err(Refusal::WrongSecret);
        }
        session.attachment += 1;
        let (attachment, ttl_ms) = (session.attachment, session.ttl_ms);
        // A session lives as long as its lease does.
        self.leases.renew(id, self.at.index).map_err(|_| Refusal::SessionGone)?;
        self.effects.restarted.push(id);
        self.tell(ElectionEvent::Attached { session: id, attachment, by });
        Ok(ElectionOutcome::Session {
            id,
            attachment,
            ttl_ms,
            candidacies: self.elections.candidacies_of(id),
        })
    }

    pub(super) fn end_session(
        &mut self,
        id: LeaseId,
        how: SessionEnding,
        secret: Option<SecretDigest>,
    ) -> Result<ElectionOutcome, Refusal> {
        let session = self.elections.session(id).cloned();
        let stopped = match how {
            SessionEnding::Closed { stopped } | SessionEnding::Revoked { stopped } => stopped,
            SessionEnding::Guarded(_) => true,
            SessionEnding::ConnectionLost { attachment } => {
                let session = session.as_ref().ok_or(Refusal::SessionGone)?;
                if session.attachment != attachment || !session.fast_release {
                    return Err(Refusal::NoSuchCandidacy);
                }
                false
            }
        };
        if stopped {
            // Candidates that wait for the stop rely on it, so it must come from the session's own process. What waits
            // for a session that has ended remembers its secret.
            let delay = self.elections.delay(id).and_then(|delay| delay.secret);
            let known = session.as_ref().and_then(|session| session.secret).or(delay);
            if !shown(known, secret) {
                return Err(Refusal::WrongSecret);
            }
            // Whether it lives or ended before: there is no need to wait for it.
            self.end_delay(id, None, true);
        }
        if session.is_none() {
            return if stopped { Ok(ElectionOutcome::Done) } else { Err(Refusal::SessionGone) };
        }
        let (why, end) = match how {
            SessionEnding::Closed { .. } => (EndReason::Closed, SessionEndReason::Closed),
            SessionEnding::ConnectionLost { .. }
            | SessionEnding::Guarded(StopCause::ProcessKilled) => {
                (EndReason::ConnectionLost, SessionEndReason::ConnectionLost)
            }
            SessionEnding::Guarded(StopCause::RenewalsMissing) => {
                (EndReason::Expired, SessionEndReason::Expired)
            }
            SessionEnding::Revoked { .. } => (EndReason::Revoked, SessionEndReason::Revoked),
        };
        if let Ok(keys) = self.leases.revoke(id) {
            self.end_lease(id, keys, (why, end), stopped);
        }
        Ok(ElectionOutcome::Done)
    }

    /// A lease is gone: so are its keys, and if it was a session's, its candidates and itself.
    pub(super) fn end_lease(
        &mut self,
        id: LeaseId,
        keys: Vec<Bytes>,
        (why, end): (EndReason, SessionEndReason),
        stopped: bool,
    ) {
        // One of its keys may have been put under another lease, or none.
        let mut keys: BTreeSet<Bytes> = keys.into_iter().collect();
        if let Some(session) = self.elections.session(id) {
            keys.extend(session.candidates.iter().filter_map(|name| self.key_in(name, id)));
        }
        let keys: Vec<Bytes> = keys.into_iter().collect();
        self.delete(&keys, &Cause::ends(why, stopped));
        if self.elections.sessions.remove(&id).is_some() {
            self.tell(ElectionEvent::SessionEnded { session: id, why: end });
        }
        self.effects.ended.push(id);
    }

    /// Does what a session asks, once.
    pub(super) fn request(
        &mut self,
        id: LeaseId,
        number: u64,
        request: &SessionRequest,
    ) -> Answered {
        let session = self.elections.session(id).ok_or(Refusal::SessionGone)?;
        let answered = session.answered(number).filter(|_| !canary!(RequestTwice));
        if let Some(answer) = answered {
            return answer;
        }
        let answer = match request {
            SessionRequest::Join(join) => self.join(id, join),
            SessionRequest::Leave { name, token, stopped } => {
                self.leave(id, name, *token, *stopped)
            }
            SessionRequest::Proclaim { name, token, value } => {
                self.proclaim(id, name, *token, value)
            }
            SessionRequest::Health { name, unhealthy } => self.report_health(id, name, *unhealthy),
            SessionRequest::Yield { name, token, stay } => self.make_room(id, name, *token, *stay),
        };
        if let Some(session) = self.elections.session_mut(id) {
            session.remember(number, answer.clone());
        }
        answer
    }
}

/// Whether a client has shown what it must. Digests are compared, so the time that takes tells nothing of the secret.
fn shown(known: Option<SecretDigest>, secret: Option<SecretDigest>) -> bool {
    known.is_none() || known == secret
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_request_is_answered_again_until_it_is_forgotten() {
        let mut session = Session::new("a".into(), 1000, false);
        assert_eq!(session.answered(1), None);
        for request in 1..=ANSWERED_MAX as u64 + 1 {
            session.remember(request, Ok(vec![Revision(request as i64)]));
        }
        assert_eq!(session.answered(1), Some(Err(Refusal::RequestTooOld)));
        assert_eq!(session.answered(2), Some(Ok(vec![Revision(2)])));
        assert_eq!(session.answered(1000), None);
    }
}
