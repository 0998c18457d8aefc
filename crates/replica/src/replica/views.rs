//! Lines and sessions as readers see them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_api::{KeyValue, LeaseId, Span};

use super::Replica;
use crate::{
    moment::Moment,
    queue::{Line, Place, Session, frozen_key},
    state::{PlaceInfo, State},
};

/// Somebody in line.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The place.
    pub place: Arc<Place>,
    /// Who has it, for people.
    pub identity: String,
    /// The key as it is.
    pub kv: Arc<KeyValue>,
}

/// A line with everybody in it.
#[derive(Clone, Debug, Default)]
pub struct LineView {
    /// The line itself: its history, its transfer.
    pub line: Arc<Line>,
    /// Everybody, in order, the mark of a frozen name left out.
    pub seats: Vec<Seat>,
    /// How much longer somebody who held before may act, as this member sees it.
    pub delay: Option<Duration>,
}

/// A line from afar.
#[derive(Clone, Debug)]
pub struct LineSummary {
    /// Its name.
    pub name: Bytes,
    /// How many hold.
    pub holders: usize,
    /// How many wait.
    pub waiting: usize,
    /// Nobody may lead.
    pub frozen: bool,
    /// The first of the holders.
    pub leader: Option<Seat>,
}

/// All sessions as they were at one moment. Putting it together is for whoever has the time, not for the
/// core loop.
#[derive(Clone, Debug)]
pub struct SessionsView {
    state: State,
    remaining: Vec<Duration>,
}

impl SessionsView {
    /// Each of them, in the order of their ids.
    pub fn sessions(&self) -> Vec<SessionView> {
        let mut places = self.state.all_places();
        let sessions = self.state.queues.sessions().zip(&self.remaining);
        sessions
            .map(|((id, session), remaining)| SessionView {
                id,
                session: session.clone(),
                remaining: *remaining,
                places: places.remove(&id).unwrap_or_default(),
            })
            .collect()
    }
}

/// A session and all it has.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// Its number.
    pub id: LeaseId,
    /// The session.
    pub session: Arc<Session>,
    /// How long it has left, as this member sees it.
    pub remaining: Duration,
    /// Where it stands.
    pub places: Vec<PlaceInfo>,
}

impl Replica {
    /// The leader of a name by etcd's rule, whether a line is kept for it or not: the key under it
    /// that was created first. The mark of a frozen name leads nobody.
    pub(super) fn leader_of(&self, name: &Bytes) -> Option<Arc<KeyValue>> {
        let first = match self.state.queues.line(name) {
            Some(line) => line.places().first().and_then(|p| self.state.store.get(&p.key)).cloned(),
            None => {
                let span = Span::prefix([name, &b"/"[..]].concat().into());
                let keys = self.state.store.live_in(&span);
                keys.min_by_key(|kv| kv.create_revision).cloned()
            }
        };
        first.filter(|kv| kv.key != frozen_key(name))
    }

    pub(super) fn line_view(&self, name: &Bytes, now: Moment) -> LineView {
        let line = self.state.queues.line(name).cloned().unwrap_or_default();
        let seats = line.places().iter().filter_map(|place| self.seat(name, place)).collect();
        let delay = line.delays().map(|session| self.lines.left_of(session, now)).max();
        LineView { line, seats, delay }
    }

    pub(super) fn line_summaries(&self, prefix: &Bytes, most: usize) -> Vec<LineSummary> {
        let lines = self.state.queues.lines_from(prefix);
        lines
            .take_while(|(name, _)| name.starts_with(prefix))
            .filter(|(_, line)| !line.places().is_empty())
            .take(most)
            .map(|(name, line)| {
                let holders = line.places().iter().filter(|place| place.holds()).count();
                let marks = usize::from(self.state.store.get(&frozen_key(name)).is_some());
                LineSummary {
                    name: name.clone(),
                    holders,
                    waiting: line.places().len() - holders - marks,
                    frozen: line.is_frozen(),
                    leader: line.leader().and_then(|place| self.seat(name, place)),
                }
            })
            .collect()
    }

    pub(super) fn sessions_view(&self, now: Moment) -> SessionsView {
        let left = |id| self.deadlines.remaining(&id, now).unwrap_or_default();
        let remaining = self.state.queues.sessions().map(|(id, _)| left(id)).collect();
        SessionsView { state: self.state.clone(), remaining }
    }

    fn seat(&self, name: &Bytes, place: &Arc<Place>) -> Option<Seat> {
        let kv = self.state.store.get(&place.key).filter(|kv| kv.key != frozen_key(name))?;
        let identity = self.state.queues.identity_of(place, kv);
        Some(Seat { place: place.clone(), identity, kv: kv.clone() })
    }
}
