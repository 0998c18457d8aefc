//! A session: a lease with an identity, a finer clock and a memory, whose process is a candidate in elections.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use tenure_api::Revision;

use super::Refusal;

/// How many of its latest requests a session remembers the answers of.
const ANSWERED_MAX: usize = 64;

/// What is known of a session beside its lease, which has the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The identity, for people.
    pub identity: String,
    /// How long it lives without a sign of life.
    pub ttl_ms: u64,
    /// When its connection breaks it ends at once.
    pub fast_release: bool,
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
            identity,
            ttl_ms,
            fast_release,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_again_until_it_is_forgotten() {
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
