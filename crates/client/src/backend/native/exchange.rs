//! The conversation with the server, as a value.
//!
//! Requests get growing numbers and are remembered until they are answered; on a new stream all of them are sent again,
//! in order. Since the server does each number once, and in order, a candidacy that is left and entered again is never
//! confused with itself: the leave has the lower number.
//!
//! Events change the candidacies of this process, one per name. A caller that waits for one holds the other end of its
//! watch channel. An event may overtake the answer to the join that it follows from, and an event of an old candidacy
//! may come when the next one has been asked for; so no event is believed of a candidacy before its join is answered,
//! and every one after by its token.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pb::session_request::Request as SessionCall;
use pb::session_response::Response as SessionReply;
use tenure_api::wire::tenure::v1 as pb;
use tokio::sync::{oneshot, watch};

use super::convert;
use crate::backend::Drain;
use crate::{ElectionName, Loss, SessionSecret};

/// How much may be asked for and not yet answered. Leaving is always possible.
const REQUESTS_MAX: usize = 4096;
/// How many requests may be under way at once; the others wait here. The server remembers its last 64
/// answers of a session, so whatever is sent again is still known to it.
const UNDER_WAY_MAX: u64 = 32;
/// How much may be heard of a name before the answer to its join. There is never more than a few.
const EARLY_MAX: usize = 64;

/// One candidacy of this process for one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CandidacyState {
    /// The create revision of its key, once it has one.
    pub(super) token: Option<i64>,
    pub(super) held: bool,
    pub(super) slot: u32,
    pub(super) gone: Option<Loss>,
    pub(super) drain: Option<Drain>,
}

/// What became of a renewal or request.
type Reply = oneshot::Sender<pb::RequestResult>;

/// One session's conversation.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    session: i64,
    secret: SessionSecret,
    /// The number of the last request.
    last_request: u64,
    /// Requests without an answer; for some of them no caller waits.
    pending: BTreeMap<u64, (SessionCall, Option<Reply>)>,
    /// The last one that was sent on this stream.
    last_sent: u64,
    last_renewal: u64,
    renewals: BTreeMap<u64, oneshot::Sender<()>>,
    candidacies: BTreeMap<String, Tracked>,
    /// The names that this session is a candidate for and is not leaving.
    taken: BTreeSet<ElectionName>,
    /// Nothing will be answered any more.
    over: bool,
}

/// A candidacy, and the events of its name from before its token was known.
#[derive(Debug)]
struct Tracked {
    tell: watch::Sender<CandidacyState>,
    /// The number of the join that asked for it. An earlier one for the same name was given up.
    join: u64,
    early: Vec<CandidacyEvent>,
}

/// An event of a candidacy.
#[derive(Clone, Debug)]
enum CandidacyEvent {
    /// How it stands, by the newest account.
    Stands(pb::Candidacy),
    /// By an account of this revision there is none.
    Absent(i64),
    Granted(pb::Candidacy),
    Moved(pb::Moved),
    Lost(pb::Lost),
    Drain(pb::Drain),
    DrainCancelled(pb::DrainCancelled),
}

impl Exchange {
    pub(super) fn session(&self) -> i64 {
        self.session
    }

    pub(super) fn secret(&self) -> SessionSecret {
        self.secret.clone()
    }

    /// Takes these names, or says which one is taken.
    pub(super) fn take(&mut self, names: &[ElectionName]) -> Result<(), ElectionName> {
        if let Some(name) = names.iter().find(|name| self.taken.contains(name)) {
            return Err(name.clone());
        }
        self.taken.extend(names.iter().cloned());
        Ok(())
    }

    pub(super) fn free(&mut self, names: &[ElectionName]) {
        names.iter().for_each(|name| {
            self.taken.remove(name);
        });
    }

    /// Whether another request fits.
    pub(super) fn has_room(&self) -> bool {
        self.pending.len() < REQUESTS_MAX
    }

    /// Numbers a request and remembers it.
    pub(super) fn request(
        &mut self,
        request: SessionCall,
    ) -> (u64, oneshot::Receiver<pb::RequestResult>) {
        let (reply, answer) = oneshot::channel();
        self.note(request, Some(reply));
        (self.last_request, answer)
    }

    fn note(&mut self, request: SessionCall, reply: Option<Reply>) {
        self.last_request += 1;
        if let SessionCall::Join(join) = &request {
            for name in &join.names {
                if let Some(tracked) = self.candidacies.get_mut(name) {
                    tracked.join = self.last_request;
                }
            }
        }
        if !self.over {
            self.pending.insert(self.last_request, (request, reply));
        }
    }

    /// What is to be sent now, in the order of its numbers.
    pub(super) fn due(&mut self) -> Vec<pb::SessionRequest> {
        let Some((first, _)) = self.pending.first_key_value() else { return vec![] };
        let due = self.pending.range(self.last_sent + 1..first + UNDER_WAY_MAX);
        let due: Vec<_> = due
            .map(|(id, (request, _))| pb::SessionRequest {
                request_id: *id,
                request: Some(request.clone()),
            })
            .collect();
        self.last_sent = due.last().map_or(self.last_sent, |last| last.request_id);
        due
    }

    /// A renewal. It is not sent again: one that was lost confirms nothing.
    pub(super) fn renewal(&mut self) -> (pb::SessionRequest, oneshot::Receiver<()>) {
        self.last_renewal += 1;
        let (acknowledge, acknowledged) = oneshot::channel();
        self.renewals.retain(|_, waiting| !waiting.is_closed());
        self.renewals.insert(self.last_renewal, acknowledge);
        let request = SessionCall::Renew(pb::RenewSession { number: self.last_renewal });
        (pb::SessionRequest { request_id: 0, request: Some(request) }, acknowledged)
    }

    /// Begins a candidacy.
    pub(super) fn begin(&mut self, name: &ElectionName) -> watch::Receiver<CandidacyState> {
        let (tell, candidacy) = watch::channel(CandidacyState::default());
        self.candidacies.retain(|_, tracked| !tracked.tell.is_closed());
        self.candidacies.insert(name.to_string(), Tracked { tell, join: 0, early: vec![] });
        candidacy
    }

    /// A stream was opened: what it says of the session's candidacies counts more than what we knew, and what was not
    /// answered is due again.
    pub(super) fn opened(&mut self, opened: &pb::SessionOpened, revision: i64) {
        self.session = opened.session;
        // It is told once, when the session is new.
        if !opened.secret.is_empty() {
            self.secret = SessionSecret(opened.secret.clone());
        }
        self.renewals.clear();
        self.last_sent = 0;
        let names: Vec<String> = self.candidacies.keys().cloned().collect();
        for name in names {
            let stands =
                opened.candidacies.iter().find(|candidacy| candidacy.name == name).cloned();
            if let Some(candidacy) = stands.as_ref().filter(|candidacy| !candidacy.draining) {
                // The successor may have gone while no stream was attached.
                let (name, token) = (name.clone(), candidacy.token);
                self.news(
                    &name.clone(),
                    CandidacyEvent::DrainCancelled(pb::DrainCancelled { name, token }),
                );
            }
            self.news(
                &name,
                stands.map_or(CandidacyEvent::Absent(revision), CandidacyEvent::Stands),
            );
        }
    }

    /// The session is over: callers that wait for an answer, now or later, learn that there is none.
    pub(super) fn end(&mut self) {
        self.over = true;
        self.pending.clear();
        self.renewals.clear();
    }

    /// Takes in one message, said at this revision. Answers whether the stream is over; and with it the
    /// session, if there is a reason.
    pub(super) fn hear(&mut self, response: SessionReply, revision: i64) -> Option<Option<Loss>> {
        match response {
            SessionReply::Opened(opened) => self.opened(&opened, revision),
            SessionReply::Renewed(renewed) => {
                if let Some(acknowledge) = self.renewals.remove(&renewed.number) {
                    let _ = acknowledge.send(());
                }
            }
            SessionReply::Ended(ended) => return Some(convert::session_end(ended.reason)),
            SessionReply::Result(answer) => self.answered(answer),
            SessionReply::Granted(granted) => {
                if let Some(candidacy) = granted.candidacy {
                    self.news(&candidacy.name.clone(), CandidacyEvent::Granted(candidacy));
                }
            }
            SessionReply::Moved(moved) => {
                self.news(&moved.name.clone(), CandidacyEvent::Moved(moved))
            }
            SessionReply::Lost(lost) => self.news(&lost.name.clone(), CandidacyEvent::Lost(lost)),
            SessionReply::Drain(drain) => {
                self.news(&drain.name.clone(), CandidacyEvent::Drain(drain))
            }
            SessionReply::DrainCancelled(cancelled) => {
                self.news(&cancelled.name.clone(), CandidacyEvent::DrainCancelled(cancelled));
            }
        }
        None
    }

    /// What the answer to a join says counts, then what was heard before it.
    fn answered(&mut self, answer: pb::RequestResult) {
        let Some((request, reply)) = self.pending.remove(&answer.request_id) else { return };
        if let SessionCall::Join(join) = request {
            // It was taken, and is gone again: so it was answered before, and lost meanwhile.
            let there =
                |name: &String| answer.candidacies.iter().any(|candidacy| candidacy.name == *name);
            let missing = join.names.iter().filter(|name| answer.refusal.is_none() && !there(name));
            for name in missing {
                if let Some(tracked) = self.candidacies.get_mut(name)
                    && tracked.join == answer.request_id
                {
                    tracked.tell.send_modify(|candidacy| candidacy.gone = Some(Loss::KeyDeleted));
                }
            }
            for candidacy in &answer.candidacies {
                let Some(tracked) = self.candidacies.get_mut(&candidacy.name) else { continue };
                if tracked.join != answer.request_id {
                    continue;
                }
                let early = std::mem::take(&mut tracked.early);
                tracked.tell.send_modify(|state| {
                    state.token = Some(candidacy.token);
                    state.held = candidacy.held;
                    state.slot = candidacy.slot;
                });
                for news in early {
                    self.news(&candidacy.name, news);
                }
            }
        }
        if let Some(reply) = reply {
            let _ = reply.send(answer);
        }
    }

    /// Takes in an event of a name. A candidacy that was lost and became a candidate again is left: no caller wants it.
    fn news(&mut self, name: &str, news: CandidacyEvent) {
        let Some(tracked) = self.candidacies.get_mut(name) else { return };
        if tracked.tell.borrow().token.is_none() {
            if tracked.early.len() < EARLY_MAX {
                tracked.early.push(news);
            }
            return;
        }
        let mut put_back = false;
        tracked.tell.send_if_modified(|candidacy| {
            let before = candidacy.clone();
            put_back = candidacy.take_in(news);
            *candidacy != before
        });
        if put_back {
            self.note(leave_election(name, 0, false), None);
        }
    }
}

impl CandidacyState {
    /// Changes with the event, if it is about this candidacy. Returns whether it was held and is now only a candidate
    /// again.
    fn take_in(&mut self, news: CandidacyEvent) -> bool {
        if self.gone.is_some() {
            return false;
        }
        let is = |token: i64| self.token == Some(token);
        match news {
            // About the candidacy that this session had before: told on reattaching, and left meanwhile. If it were
            // taken for ours, its end would be taken for ours, too.
            CandidacyEvent::Stands(candidacy)
                if self.token.is_some_and(|token| candidacy.token < token) => {}
            CandidacyEvent::Stands(candidacy) if !is(candidacy.token) && self.held => {
                self.gone = Some(Loss::KeyDeleted);
                return true;
            }
            CandidacyEvent::Stands(candidacy) => {
                // One account may be older than another; a candidacy that holds with a token holds with it to its end.
                self.held = candidacy.held || (self.held && is(candidacy.token));
                self.slot = candidacy.slot;
                self.token = Some(candidacy.token);
                if candidacy.draining {
                    self.makes_room(candidacy.successor, candidacy.drain_ms);
                }
            }
            CandidacyEvent::Absent(at) => {
                if self.token.is_some_and(|token| token <= at) {
                    self.gone = Some(Loss::KeyDeleted);
                }
            }
            CandidacyEvent::Granted(candidacy) if is(candidacy.token) => {
                self.held = true;
                self.slot = candidacy.slot;
            }
            CandidacyEvent::Moved(moved) if is(moved.old_token) => {
                if moved.lost || self.held {
                    self.gone = Some(convert::tenure_end(moved.reason));
                    return true;
                }
                self.token = Some(moved.token);
            }
            CandidacyEvent::Lost(lost) if is(lost.token) => {
                self.gone = Some(convert::tenure_end(lost.reason));
            }
            CandidacyEvent::Drain(drain) if is(drain.token) => {
                self.makes_room(drain.successor, drain.within_ms);
            }
            CandidacyEvent::DrainCancelled(cancelled) if is(cancelled.token) => self.drain = None,
            // Of a candidacy that this session had before.
            CandidacyEvent::Granted(_)
            | CandidacyEvent::Moved(_)
            | CandidacyEvent::Lost(_)
            | CandidacyEvent::Drain(_)
            | CandidacyEvent::DrainCancelled(_) => {}
        }
        false
    }

    fn makes_room(&mut self, successor: String, within_ms: u64) {
        self.drain = Some(Drain { successor, within: Duration::from_millis(within_ms) });
    }
}

/// Leaves whatever candidacy this session has for that name. Named by no token: the number of the request says which
/// candidacies it is about, namely those that were joined by lower ones, whatever token they have been given meanwhile.
pub(super) fn leave_election(name: &str, token: i64, stopped: bool) -> SessionCall {
    SessionCall::Leave(pb::Leave { name: name.to_owned(), token, stopped })
}

#[cfg(test)]
mod tests;
