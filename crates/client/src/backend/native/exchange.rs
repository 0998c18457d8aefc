//! The conversation with the server, as a value.
//!
//! Requests get growing numbers and are remembered until they are answered; on a new stream all of them
//! are sent again, in order. Since the server does each number once, and in order, a place that is
//! left and taken again is never confused with itself: the leave has the lower number.
//!
//! What is heard changes the *spots*: this process's places, one per name. Whoever waits for one holds
//! the other end of its watch channel.

use std::collections::{BTreeMap, BTreeSet};

use pb::session_request::Does;
use pb::session_response::Says;
use tenure_api::wire::tenure::v1 as pb;
use tokio::sync::{oneshot, watch};

use super::words;
use crate::backend::Drain;
use crate::{LineName, Loss};

/// How much may be asked for and not yet answered. Leaving is always possible.
const REQUESTS_MAX: usize = 4096;

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
    attachment: u64,
    /// The number of the last request.
    last_request: u64,
    /// Requests without an answer. Some of them nobody waits for.
    pending: BTreeMap<u64, (Does, Option<Reply>)>,
    last_renewal: u64,
    renewals: BTreeMap<u64, oneshot::Sender<()>>,
    spots: BTreeMap<String, watch::Sender<Spot>>,
    /// In which lines this session stands and is not leaving.
    taken: BTreeSet<LineName>,
    /// Nothing will be answered any more.
    over: bool,
}

/// What hearing something leads to.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// To be sent.
    pub(super) send: Vec<pb::SessionRequest>,
    /// The stream is over, and with it the session if there is a reason.
    pub(super) over: Option<Option<Loss>>,
}

impl Exchange {
    pub(super) fn session(&self) -> i64 {
        self.session
    }

    pub(super) fn attachment(&self) -> u64 {
        self.attachment
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
    pub(super) fn request(
        &mut self,
        does: Does,
    ) -> (pb::SessionRequest, oneshot::Receiver<pb::Answer>) {
        let (reply, answer) = oneshot::channel();
        (self.note(does, Some(reply)), answer)
    }

    fn note(&mut self, does: Does, reply: Option<Reply>) -> pb::SessionRequest {
        self.last_request += 1;
        if !self.over {
            self.pending.insert(self.last_request, (does.clone(), reply));
        }
        pb::SessionRequest { request: self.last_request, does: Some(does) }
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

    /// Begins a place in a line. What is heard of that name from now on is about it.
    pub(super) fn begin(&mut self, name: &LineName) -> watch::Receiver<Spot> {
        let (tell, spot) = watch::channel(Spot::default());
        self.spots.insert(name.to_string(), tell);
        spot
    }

    /// A stream was opened: what it says of the session's places counts more than what we knew. Answers
    /// what is to be sent on it.
    pub(super) fn opened(&mut self, opened: &pb::SessionOpened) -> Vec<pb::SessionRequest> {
        self.session = opened.session;
        self.attachment = opened.attachment;
        self.renewals.clear();
        let unanswered = |does: &Does, name: &String| matches!(does, Does::Join(join) if join.names.contains(name));
        let names: Vec<String> = self.spots.keys().cloned().collect();
        let mut leave = Vec::new();
        for name in names {
            // Whether it was done is told by its answer.
            if self.pending.values().any(|(does, _)| unanswered(does, &name)) {
                continue;
            }
            match opened.places.iter().find(|place| place.name == name) {
                Some(place) => leave.extend(self.seen(place).then(|| name.clone())),
                None => self.change(&name, |spot| {
                    spot.gone.get_or_insert(Loss::KeyDeleted);
                }),
            }
        }
        for name in leave {
            self.note(leave_line(&name, false), None);
        }
        let pending = self.pending.iter();
        pending
            .map(|(request, (does, _))| pb::SessionRequest {
                request: *request,
                does: Some(does.clone()),
            })
            .collect()
    }

    /// The session is over: whoever waits for an answer, now or later, learns that there is none.
    pub(super) fn end(&mut self) {
        self.over = true;
        self.pending.clear();
        self.renewals.clear();
    }

    /// Takes in one message.
    pub(super) fn hear(&mut self, says: Says) -> Heard {
        let mut heard = Heard::default();
        match says {
            Says::Opened(opened) => heard.send = self.opened(&opened),
            Says::Renewed(renewed) => {
                if let Some(acknowledge) = self.renewals.remove(&renewed.number) {
                    let _ = acknowledge.send(());
                }
            }
            Says::Answer(answer) => self.answered(answer),
            Says::Granted(granted) => {
                if let Some(place) = granted.place {
                    self.seen(&pb::Place { held: true, ..place });
                }
            }
            Says::Moved(moved) => {
                if self.moved(&moved) {
                    heard.send.push(self.note(leave_line(&moved.name, false), None));
                }
            }
            Says::Lost(lost) => self.change(&lost.name, |spot| {
                if spot.token == Some(lost.token) {
                    spot.gone.get_or_insert(words::tenure_end(lost.reason));
                }
            }),
            Says::Drain(drain) => self.change(&drain.name, |spot| {
                if spot.token == Some(drain.token) {
                    let within = std::time::Duration::from_millis(drain.within_ms);
                    spot.drain = Some(Drain { successor: drain.successor.clone(), within });
                }
            }),
            Says::DrainCancelled(cancelled) => self.change(&cancelled.name, |spot| {
                if spot.token == Some(cancelled.token) {
                    spot.drain = None;
                }
            }),
            Says::Ended(ended) => heard.over = Some(words::session_end(ended.reason)),
        }
        heard
    }

    fn answered(&mut self, answer: pb::Answer) {
        let Some((does, reply)) = self.pending.remove(&answer.request) else { return };
        if let Does::Join(_) = does {
            for place in &answer.places {
                self.seen(place);
            }
        }
        if let Some(reply) = reply {
            let _ = reply.send(answer);
        }
    }

    /// A place as the server has it. Answers whether what was held is held no more, and stands in line
    /// again: nobody here wants that.
    fn seen(&mut self, place: &pb::Place) -> bool {
        let mut fell_back = false;
        self.change(&place.name, |spot| {
            if spot.held && spot.token != Some(place.token) {
                fell_back = spot.gone.is_none();
                spot.gone.get_or_insert(Loss::KeyDeleted);
            }
            if spot.gone.is_none() {
                spot.token = Some(place.token);
                spot.held = place.held;
                spot.slot = place.slot;
            }
        });
        fell_back
    }

    /// A place has another token. Answers whether it is to be left: it was held, and whoever held it
    /// is told that it is lost.
    fn moved(&mut self, moved: &pb::Moved) -> bool {
        let mut lost = false;
        self.change(&moved.name, |spot| {
            if spot.token != Some(moved.old_token) || spot.gone.is_some() {
                return;
            }
            if moved.lost || spot.held {
                lost = true;
                spot.gone = Some(words::tenure_end(moved.reason));
            } else {
                spot.token = Some(moved.token);
            }
        });
        lost
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Spot)) {
        let Some(spot) = self.spots.get(name) else { return };
        if spot.is_closed() {
            self.spots.remove(name);
            return;
        }
        let mut changed = spot.borrow().clone();
        change(&mut changed);
        spot.send_if_modified(|spot| {
            let differs = *spot != changed;
            *spot = changed;
            differs
        });
    }
}

/// Leaves whatever place this session has in that line. Named by no token: the number of the request
/// says which places it is about, namely those that were joined by lower ones, whatever token they
/// have been given meanwhile.
pub(super) fn leave_line(name: &str, stopped: bool) -> Does {
    Does::Leave(pb::Leave { name: name.to_owned(), token: 0, stopped })
}

#[cfg(test)]
mod tests;
