//! One line: its places in order, who of them holds, who led before.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use tenure_api::{LeaseId, Revision};

use super::{Mode, Place, Refusal, Tenure, TenureEnd, history::End, names::FROZEN};
use crate::canary::Canary;

/// How many ended tenures a line remembers.
pub(super) const HISTORY_MAX: usize = 32;

/// Everybody who stands under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// In order of their create revisions; keys that one transaction made, in order of the keys.
    pub(super) places: Vec<Arc<Place>>,
    /// A successor was chosen, and the leader is asked to make room.
    pub(super) transfer: Option<Transfer>,
    /// Whoever leads, if an operator chose it. Never while a transfer is under way: that is the later word.
    pub(super) chosen: Option<LeaseId>,
    /// Sessions that held, ended without a confirmed stop, and whose time is not over.
    pub(super) delays: Vec<LeaseId>,
    /// The time in office of whoever leads now.
    pub(super) tenure: Option<Tenure>,
    /// Those before, oldest first.
    pub(super) history: VecDeque<Tenure>,
    /// Tenures that ended at or before this revision may be missing from the history.
    pub(super) forgotten: Revision,
    /// Since which revision nobody has stood here.
    pub(super) idle_since: Option<Revision>,
    /// A tenure ended, and nobody was told yet what follows. Never so between two commands.
    pub(super) vacated: bool,
}

/// A hand-over that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The session that is to lead.
    pub to: LeaseId,
    /// The token of the leader that makes room.
    pub from: Revision,
    /// How long it may take.
    pub within_ms: u64,
    /// Whether an operator wanted it or a priority.
    pub why: TenureEnd,
}

impl Line {
    /// Everybody, in order.
    pub fn places(&self) -> &[Arc<Place>] {
        &self.places
    }

    /// The place of a session.
    pub fn place_of(&self, session: LeaseId) -> Option<&Arc<Place>> {
        self.places.iter().find(|place| place.session() == Some(session))
    }

    /// The place with this key and token.
    pub fn place(&self, created: Revision, key: &[u8]) -> Option<&Arc<Place>> {
        self.position(created, key).ok().map(|at| &self.places[at])
    }

    /// The place with this token. (Of several with one token, the first.)
    pub fn with_token(&self, token: Revision) -> Option<&Arc<Place>> {
        self.places.iter().find(|place| place.created == token)
    }

    /// Whoever is first and holds.
    pub fn leader(&self) -> Option<&Arc<Place>> {
        self.places.first().filter(|place| place.holds())
    }

    /// How many stand before a place.
    pub fn ahead(&self, place: &Place) -> usize {
        match self.position(place.created, &place.key) {
            Ok(at) | Err(at) => at,
        }
    }

    /// Whether the mark is there that keeps everybody behind it from leading.
    pub fn is_frozen(&self) -> bool {
        self.frost().is_some()
    }

    /// Where that mark stands.
    pub(crate) fn frost(&self) -> Option<usize> {
        self.places.iter().position(|place| is_frost(place))
    }

    /// The hand-over that is under way.
    pub fn transfer(&self) -> Option<&Transfer> {
        self.transfer.as_ref()
    }

    /// Whether somebody may still act who held before.
    pub fn is_delayed(&self) -> bool {
        !self.delays.is_empty()
    }

    /// The sessions that held before and may still act.
    pub fn delays(&self) -> impl Iterator<Item = &LeaseId> {
        self.delays.iter()
    }

    /// The tenures this line remembers, oldest first, and the one that lasts.
    pub fn tenures(&self) -> impl Iterator<Item = &Tenure> {
        self.history.iter().chain(&self.tenure)
    }

    /// Who led before; nobody if nobody is known.
    pub(super) fn predecessor(&self) -> String {
        self.history.back().map(|tenure| tenure.identity.clone()).unwrap_or_default()
    }

    /// Whether whoever leads was chosen by an operator, and nobody else since.
    pub fn leads_by_choice(&self) -> bool {
        self.chosen.is_some()
    }

    pub(crate) fn begin_transfer(&mut self, transfer: Transfer) {
        self.transfer = Some(transfer);
        self.chosen = None;
    }

    /// Who comes, or is well again, may pre-empt even whom an operator chose. Those who stood here then may not.
    pub(crate) fn overrule_choice(&mut self, newcomer: LeaseId) {
        let is_meant = |place: &Arc<Place>| place.session() == Some(newcomer) && place.preempts();
        let overrules = self.above_leader().any(is_meant);
        self.chosen = self.chosen.filter(|_| !overrules);
    }

    /// For whom the leader must make room because of priorities: for the first that is well, if it or somebody
    /// behind it has more than the leader and pre-empts.
    pub(crate) fn preemptor(&self) -> Option<&Arc<Place>> {
        let mut above = self.above_leader();
        let next = above.next()?;
        (next.preempts() || above.any(|place| place.preempts())).then_some(next)
    }

    /// Those who are well, have more than the leader, and would lead before it if nobody held. They stand by priority.
    fn above_leader(&self) -> impl Iterator<Item = &Arc<Place>> {
        let leader = self.leader().filter(|leader| leader.mode() == Mode::Exclusive);
        let leader = leader.filter(|leader| !leader.is_fixed());
        let waiting = self.places.iter().skip(1).take_while(|place| !place.is_fixed());
        let well = waiting.filter(|place| place.wants_to_lead());
        well.take_while(move |place| {
            leader.is_some_and(|leader| leader.priority() < place.priority())
        })
    }

    /// Whether nothing of this line matters to anybody any more but its history.
    pub(super) fn is_idle(&self) -> bool {
        self.places.is_empty() && self.delays.is_empty()
    }

    pub(super) fn insert(&mut self, place: Place) {
        if let Err(at) = self.position(place.created, &place.key) {
            self.places.insert(at, Arc::new(place));
        }
    }

    pub(super) fn remove(&mut self, created: Revision, key: &[u8]) -> Option<Arc<Place>> {
        let at = self.position(created, key).ok()?;
        Some(self.places.remove(at))
    }

    pub(crate) fn place_mut(&mut self, created: Revision, key: &[u8]) -> Option<&mut Place> {
        let at = self.position(created, key).ok()?;
        Some(Arc::make_mut(&mut self.places[at]))
    }

    fn position(&self, created: Revision, key: &[u8]) -> Result<usize, usize> {
        self.places.binary_search_by(|place| (place.created, &place.key[..]).cmp(&(created, key)))
    }

    /// How many of the first places may hold together, and in how many slots.
    fn due(&self) -> (usize, u32) {
        let Some(first) = self.places.first().filter(|first| !is_frost(first)) else {
            return (0, 0);
        };
        let alike = || self.places.iter().take_while(|place| place.mode() == first.mode()).count();
        match first.mode() {
            Mode::Exclusive => (usize::from(first.holds() || first.wants_to_lead()), 1),
            Mode::Shared => (alike(), u32::MAX),
            Mode::Permit(permits) => (alike().min(permits as usize), permits),
        }
    }

    /// Gives slots to those who may hold and do not yet.
    pub(crate) fn give_slots(&mut self) {
        let (due, slots) = self.due();
        let holders = self.places[..due].iter().take_while(|place| place.holds()).count();
        // Readers are too many to be counted out, and nobody asks for their slots.
        let taken: BTreeSet<u32> = match slots {
            u32::MAX => BTreeSet::new(),
            _ => self.places[..holders].iter().filter_map(|place| place.slot).collect(),
        };
        let mut free = (0..).filter(|slot| !taken.contains(slot));
        for place in &mut self.places[holders..due] {
            let slot = if slots == u32::MAX { 0 } else { free.next().unwrap_or_default() };
            Arc::make_mut(place).slot = Some(slot);
        }
    }

    /// Whether somebody who joined now would hold at once.
    pub(crate) fn would_hold(&self, mode: Mode, no_overlap: bool) -> bool {
        if no_overlap && self.is_delayed() {
            return false;
        }
        let all_hold = self.places.iter().all(|place| place.holds() && place.mode() == mode);
        match mode {
            Mode::Exclusive => self.places.is_empty(),
            Mode::Shared => all_hold,
            Mode::Permit(permits) => all_hold && self.places.len() < permits as usize,
        }
    }

    /// Whether a newcomer of this mode goes with those who stand here.
    pub(crate) fn check_mode(&self, mode: Mode) -> Result<(), Refusal> {
        let Mode::Permit(permits) = mode else { return Ok(()) };
        let other = |place: &Arc<Place>| matches!(place.mode(), Mode::Permit(n) if n != permits);
        if permits == 0 || self.places.iter().any(other) {
            return Err(Refusal::ModeMismatch);
        }
        Ok(())
    }

    /// Those who must be put behind a place of this priority, which was just added at the end: they have
    /// less, do not hold, and stand behind everybody who cannot be overtaken.
    pub(crate) fn outranked_by(&self, newcomer: &Place) -> Vec<Bytes> {
        let behind_fixed =
            self.places.iter().rposition(|place| place.is_fixed()).map_or(0, |at| at + 1);
        let lower = |place: &&Arc<Place>| {
            let (theirs, ours) = (place.priority(), newcomer.priority());
            let outranked = theirs < ours || theirs == ours && Canary::JumpsTheLine.sings();
            !place.holds() && !self.is_chosen(place) && outranked
        };
        let before = self.places.iter().take_while(|place| place.key != newcomer.key);
        before.skip(behind_fixed).filter(lower).map(|place| place.key.clone()).collect()
    }

    /// Those who must be put behind, in this order, for those who wait to stand by priority and then as they came,
    /// behind everybody who cannot be overtaken. Who is not well has no rank before it is.
    pub(crate) fn misplaced(&self) -> Vec<Bytes> {
        let behind_fixed =
            self.places.iter().rposition(|place| place.is_fixed()).map_or(0, |at| at + 1);
        let waiting = self.places[behind_fixed..].iter();
        let has_rank =
            |place: &&Arc<Place>| !place.holds() && !place.unhealthy && !self.is_chosen(place);
        let mut ranked: Vec<_> = waiting.filter(has_rank).collect();
        ranked.sort_by_key(|place| std::cmp::Reverse(place.priority()));
        // Whoever stands right among those who rank before it can stay.
        let stays = ranked.windows(2).take_while(|pair| pair[0].created < pair[1].created).count();
        ranked.iter().skip(stays + 1).map(|place| place.key.clone()).collect()
    }

    /// Whether an operator wants this one to lead next. No priority counts against that, and the token that
    /// was announced stays true.
    pub fn is_chosen(&self, place: &Place) -> bool {
        self.transfer.is_some_and(|transfer| {
            transfer.why != TenureEnd::Preempted && Some(transfer.to) == place.session()
        })
    }

    /// Those between the leader and a chosen successor.
    pub(crate) fn between(&self, leader: Option<Revision>, successor: LeaseId) -> Vec<Arc<Place>> {
        let before = |place: &&Arc<Place>| place.session() != Some(successor);
        let others = self.places.iter().take_while(before);
        others.filter(|place| Some(place.created) != leader).cloned().collect()
    }

    /// The first, if it must let others pass: it is not well, does not hold, and somebody else would.
    pub(super) fn passed_over(&self) -> Option<Bytes> {
        let first = self.places.first()?;
        let exclusive = |place: &Place| place.mode() == Mode::Exclusive;
        if first.holds() || first.wants_to_lead() || first.is_fixed() || !exclusive(first) {
            return None;
        }
        let willing = |place: &Arc<Place>| place.wants_to_lead() && !is_frost(place);
        self.places.iter().skip(1).any(willing).then(|| first.key.clone())
    }

    /// The tenure of whoever led ends.
    pub(super) fn end_tenure(
        &mut self,
        at: Revision,
        at_ms: u64,
        (why, stopped): (TenureEnd, bool),
    ) -> Option<Tenure> {
        let mut tenure = self.tenure.take()?;
        self.chosen = None;
        tenure.end = Some(End { at, at_ms, why, stopped });
        self.vacated = true;
        self.history.push_back(tenure.clone());
        if self.history.len() > HISTORY_MAX
            && let Some(end) = self.history.pop_front().and_then(|oldest| oldest.end)
        {
            self.forgotten = self.forgotten.max(end.at);
        }
        Some(tenure)
    }

    /// Whoever led with this token has stopped, as is known now.
    pub(super) fn mark_stopped(&mut self, token: Revision) {
        let ended = self.history.iter_mut().rev().find(|tenure| tenure.token == token);
        if let Some(end) = ended.and_then(|tenure| tenure.end.as_mut()) {
            end.stopped = true;
        }
    }
}

/// Whether a place is the mark of a frozen name.
pub(super) fn is_frost(place: &Place) -> bool {
    place.candidate.is_none()
        && place.key.ends_with(FROZEN)
        && place.key[..place.key.len() - FROZEN.len()].ends_with(b"/")
}
