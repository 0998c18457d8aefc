//! The conversation with the server, as a value.
//!
//! Requests get growing numbers and are remembered until they are answered; on a new stream all of them
//! are sent again, in order. Since the server does each number once, and in order, a place that is
//! left and taken again is never confused with itself: the leave has the lower number.
//!
//! What is heard changes the *spots*: this process's places, one per name. Whoever waits for one holds
//! the other end of its watch channel. News may overtake the answer to the join that they follow from,
//! and news of an old place may come when the next one has been asked for; so nothing is believed of a
//! place before its join is answered, and everything after by its token.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pb::session_request::Does;
use pb::session_response::Says;
use tenure_api::wire::tenure::v1 as pb;
use tokio::sync::{oneshot, watch};

use super::words;
use crate::backend::Drain;
use crate::{LineName, Loss};

/// How much may be asked for and not yet answered. Leaving is always possible.
const REQUESTS_MAX: usize = 4096;
/// How many requests may be under way at once; the others wait here. The server remembers its last 64
/// answers of a session, so whatever is sent again is still known to it.
const UNDER_WAY_MAX: u64 = 32;
/// How much may be heard of a name before the answer to its join. There is never more than a few.
const EARLY_MAX: usize = 64;

/// One place of this process in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spot {
    /// The create revision of its key, once it has one.
    pub(super) token: Option<i64>,
    pub(super) held: bool,
    pub(super) slot: u32,
    pub(super) gone: Option<Loss>,
    pub(super) drain: Option<Drain>,
}

/// What became of a renewal or request.
type Reply = oneshot::Sender<pb::Answer>;

/// One session's conversation.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    session: i64,
    /// The number of the last request.
    last_request: u64,
    /// Requests without an answer. Some of them nobody waits for.
    pending: BTreeMap<u64, (Does, Option<Reply>)>,
    /// The last one that was sent on this stream.
    last_sent: u64,
    last_renewal: u64,
    renewals: BTreeMap<u64, oneshot::Sender<()>>,
    spots: BTreeMap<String, Tracked>,
    /// In which lines this session stands and is not leaving.
    taken: BTreeSet<LineName>,
    /// Nothing will be answered any more.
    over: bool,
}

/// A spot, and what was heard of its name before it was known which place it is.
#[derive(Debug)]
struct Tracked {
    tell: watch::Sender<Spot>,
    /// The number of the join that asked for it. An earlier one for the same name was given up.
    join: u64,
    early: Vec<News>,
}

/// Something that was said about a place.
#[derive(Clone, Debug)]
enum News {
    /// How it stands, by the newest account.
    Stands(pb::Place),
    /// By an account of this revision there is none.
    Absent(i64),
    Granted(pb::Place),
    Moved(pb::Moved),
    Lost(pb::Lost),
    Drain(pb::Drain),
    DrainCancelled(pb::DrainCancelled),
}

impl Exchange {
    pub(super) fn session(&self) -> i64 {
        self.session
    }

    /// Takes these lines, or says which one is taken.
    pub(super) fn take(&mut self, names: &[LineName]) -> Result<(), LineName> {
        if let Some(name) = names.iter().find(|name| self.taken.contains(name)) {
            return Err(name.clone());
        }
        self.taken.extend(names.iter().cloned());
        Ok(())
    }

    pub(super) fn free(&mut self, names: &[LineName]) {
        names.iter().for_each(|name| {
            self.taken.remove(name);
        });
    }

    /// Whether another request fits.
    pub(super) fn has_room(&self) -> bool {
        self.pending.len() < REQUESTS_MAX
    }

    /// Numbers a request and remembers it.
    pub(super) fn request(&mut self, does: Does) -> (u64, oneshot::Receiver<pb::Answer>) {
        let (reply, answer) = oneshot::channel();
        self.note(does, Some(reply));
        (self.last_request, answer)
    }

    fn note(&mut self, does: Does, reply: Option<Reply>) {
        self.last_request += 1;
        if let Does::Join(join) = &does {
            for name in &join.names {
                if let Some(tracked) = self.spots.get_mut(name) {
                    tracked.join = self.last_request;
                }
            }
        }
        if !self.over {
            self.pending.insert(self.last_request, (does, reply));
        }
    }

    /// What is to be sent now, in the order of its numbers.
    pub(super) fn due(&mut self) -> Vec<pb::SessionRequest> {
        let Some((first, _)) = self.pending.first_key_value() else { return vec![] };
        let due = self.pending.range(self.last_sent + 1..first + UNDER_WAY_MAX);
        let due: Vec<_> = due
            .map(|(request, (does, _))| pb::SessionRequest {
                request: *request,
                does: Some(does.clone()),
            })
            .collect();
        self.last_sent = due.last().map_or(self.last_sent, |last| last.request);
        due
    }

    /// A renewal. It is not sent again: one that was lost confirms nothing.
    pub(super) fn renewal(&mut self) -> (pb::SessionRequest, oneshot::Receiver<()>) {
        self.last_renewal += 1;
        let (acknowledge, acknowledged) = oneshot::channel();
        self.renewals.retain(|_, waiting| !waiting.is_closed());
        self.renewals.insert(self.last_renewal, acknowledge);
        let does = Does::Renew(pb::RenewSession { number: self.last_renewal });
        (pb::SessionRequest { request: 0, does: Some(does) }, acknowledged)
    }

    /// Begins a place in a line.
    pub(super) fn begin(&mut self, name: &LineName) -> watch::Receiver<Spot> {
        let (tell, spot) = watch::channel(Spot::default());
        self.spots.retain(|_, tracked| !tracked.tell.is_closed());
        self.spots.insert(name.to_string(), Tracked { tell, join: 0, early: vec![] });
        spot
    }

    /// A stream was opened: what it says of the session's places counts more than what we knew, and what
    /// was not answered is due again.
    pub(super) fn opened(&mut self, opened: &pb::SessionOpened, revision: i64) {
        self.session = opened.session;
        self.renewals.clear();
        self.last_sent = 0;
        let names: Vec<String> = self.spots.keys().cloned().collect();
        for name in names {
            let stands = opened.places.iter().find(|place| place.name == name).cloned();
            if let Some(place) = stands.as_ref().filter(|place| !place.draining) {
                // Whoever was to follow may have gone while nobody could tell us.
                let (name, token) = (name.clone(), place.token);
                self.news(&name.clone(), News::DrainCancelled(pb::DrainCancelled { name, token }));
            }
            self.news(&name, stands.map_or(News::Absent(revision), News::Stands));
        }
    }

    /// The session is over: whoever waits for an answer, now or later, learns that there is none.
    pub(super) fn end(&mut self) {
        self.over = true;
        self.pending.clear();
        self.renewals.clear();
    }

    /// Takes in one message, said at this revision. Answers whether the stream is over; and with it the
    /// session, if there is a reason.
    pub(super) fn hear(&mut self, says: Says, revision: i64) -> Option<Option<Loss>> {
        match says {
            Says::Opened(opened) => self.opened(&opened, revision),
            Says::Renewed(renewed) => {
                if let Some(acknowledge) = self.renewals.remove(&renewed.number) {
                    let _ = acknowledge.send(());
                }
            }
            Says::Ended(ended) => return Some(words::session_end(ended.reason)),
            Says::Answer(answer) => self.answered(answer),
            Says::Granted(granted) => {
                if let Some(place) = granted.place {
                    self.news(&place.name.clone(), News::Granted(place));
                }
            }
            Says::Moved(moved) => self.news(&moved.name.clone(), News::Moved(moved)),
            Says::Lost(lost) => self.news(&lost.name.clone(), News::Lost(lost)),
            Says::Drain(drain) => self.news(&drain.name.clone(), News::Drain(drain)),
            Says::DrainCancelled(cancelled) => {
                self.news(&cancelled.name.clone(), News::DrainCancelled(cancelled));
            }
        }
        None
    }

    /// What the answer to a join says counts, then what was heard before it.
    fn answered(&mut self, answer: pb::Answer) {
        let Some((does, reply)) = self.pending.remove(&answer.request) else { return };
        if let Does::Join(join) = does {
            // It was taken, and is gone again: so it was answered before, and lost meanwhile.
            let there = |name: &String| answer.places.iter().any(|place| place.name == *name);
            let missing = join.names.iter().filter(|name| answer.refusal.is_none() && !there(name));
            for name in missing {
                if let Some(tracked) = self.spots.get_mut(name)
                    && tracked.join == answer.request
                {
                    tracked.tell.send_modify(|spot| spot.gone = Some(Loss::KeyDeleted));
                }
            }
            for place in &answer.places {
                let Some(tracked) = self.spots.get_mut(&place.name) else { continue };
                if tracked.join != answer.request {
                    continue;
                }
                let early = std::mem::take(&mut tracked.early);
                tracked.tell.send_modify(|spot| {
                    spot.token = Some(place.token);
                    spot.held = place.held;
                    spot.slot = place.slot;
                });
                for news in early {
                    self.news(&place.name, news);
                }
            }
        }
        if let Some(reply) = reply {
            let _ = reply.send(answer);
        }
    }

    /// Takes in news of a name. If the place is lost and stands in line again, it is left: nobody here
    /// wants it.
    fn news(&mut self, name: &str, news: News) {
        let Some(tracked) = self.spots.get_mut(name) else { return };
        if tracked.tell.borrow().token.is_none() {
            if tracked.early.len() < EARLY_MAX {
                tracked.early.push(news);
            }
            return;
        }
        let mut put_back = false;
        tracked.tell.send_if_modified(|spot| {
            let before = spot.clone();
            put_back = spot.take_in(news);
            *spot != before
        });
        if put_back {
            self.note(leave_line(name, 0, false), None);
        }
    }
}

impl Spot {
    /// Changes with the news, if they are about this place. Answers whether it was held, and now stands
    /// in line again.
    fn take_in(&mut self, news: News) -> bool {
        if self.gone.is_some() {
            return false;
        }
        let is = |token: i64| self.token == Some(token);
        match news {
            // Of the place that this session had before: told when it came back, and left meanwhile. Whoever took
            // it for ours would take its end for ours, too.
            News::Stands(place) if self.token.is_some_and(|token| place.token < token) => {}
            News::Stands(place) if !is(place.token) && self.held => {
                self.gone = Some(Loss::KeyDeleted);
                return true;
            }
            News::Stands(place) => {
                // One account may be older than another; who holds with a token holds with it to its end.
                self.held = place.held || (self.held && is(place.token));
                self.slot = place.slot;
                self.token = Some(place.token);
                if place.draining {
                    self.makes_room(place.successor, place.drain_ms);
                }
            }
            News::Absent(at) => {
                if self.token.is_some_and(|token| token <= at) {
                    self.gone = Some(Loss::KeyDeleted);
                }
            }
            News::Granted(place) if is(place.token) => {
                self.held = true;
                self.slot = place.slot;
            }
            News::Moved(moved) if is(moved.old_token) => {
                if moved.lost || self.held {
                    self.gone = Some(words::tenure_end(moved.reason));
                    return true;
                }
                self.token = Some(moved.token);
            }
            News::Lost(lost) if is(lost.token) => {
                self.gone = Some(words::tenure_end(lost.reason));
            }
            News::Drain(drain) if is(drain.token) => {
                self.makes_room(drain.successor, drain.within_ms);
            }
            News::DrainCancelled(cancelled) if is(cancelled.token) => self.drain = None,
            // Of a place that this session had before.
            News::Granted(_)
            | News::Moved(_)
            | News::Lost(_)
            | News::Drain(_)
            | News::DrainCancelled(_) => {}
        }
        false
    }

    fn makes_room(&mut self, successor: String, within_ms: u64) {
        self.drain = Some(Drain { successor, within: Duration::from_millis(within_ms) });
    }
}

/// Leaves whatever place this session has in that line. Named by no token: the number of the request
/// says which places it is about, namely those that were joined by lower ones, whatever token they
/// have been given meanwhile.
pub(super) fn leave_line(name: &str, token: i64, stopped: bool) -> Does {
    Does::Leave(pb::Leave { name: name.to_owned(), token, stopped })
}

#[cfg(test)]
mod tests;
