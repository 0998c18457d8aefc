//! One election: its candidates in order, which of them hold, and its past leaders.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use tenure_api::{LeaseId, Revision};

use super::{Candidate, EndReason, Mode, Refusal, Tenure, history::TenureEnd, names::FROZEN};

/// How many ended tenures an election remembers.
pub(super) const HISTORY_MAX: usize = 32;

/// All candidates under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Election {
    /// In order of their create revisions; keys that one transaction made, in order of the keys.
    pub(super) candidates: Vec<Arc<Candidate>>,
    /// A successor was chosen, and the leader is asked to make room.
    pub(super) transfer: Option<Transfer>,
    /// The leader's session, if an operator chose it. None while a transfer is under way: that is the later order.
    pub(super) chosen: Option<LeaseId>,
    /// Sessions that held, ended without a confirmed stop, and whose time is not over.
    pub(super) delays: Vec<LeaseId>,
    /// The tenure of the current leader.
    pub(super) tenure: Option<Tenure>,
    /// Those before, oldest first.
    pub(super) history: VecDeque<Tenure>,
    /// Tenures that ended at or before this revision may be missing from the history.
    pub(super) forgotten: Revision,
    /// Since which revision there has been no candidate.
    pub(super) idle_since: Option<Revision>,
    /// A tenure ended, and what follows was not announced yet. Never so between two commands.
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
    pub why: EndReason,
}

impl Election {
    /// All candidates, in order.
    pub fn candidates(&self) -> &[Arc<Candidate>] {
        &self.candidates
    }

    /// The candidate of a session.
    pub fn candidate_of(&self, session: LeaseId) -> Option<&Arc<Candidate>> {
        self.candidates.iter().find(|candidate| candidate.session() == Some(session))
    }

    /// The candidate with this key and token.
    pub fn candidate(&self, created: Revision, key: &[u8]) -> Option<&Arc<Candidate>> {
        self.position(created, key).ok().map(|at| &self.candidates[at])
    }

    /// The candidate with this token. (Of several with one token, the first.)
    pub fn with_token(&self, token: Revision) -> Option<&Arc<Candidate>> {
        self.candidates.iter().find(|candidate| candidate.created == token)
    }

    /// The first candidate, if it holds.
    pub fn leader(&self) -> Option<&Arc<Candidate>> {
        self.candidates.first().filter(|candidate| candidate.holds())
    }

    /// How many come before a candidate.
    pub fn ahead(&self, candidate: &Candidate) -> usize {
        match self.position(candidate.created, &candidate.key) {
            Ok(at) | Err(at) => at,
        }
    }

    /// Whether the mark is there that keeps all candidates behind it from leading.
    pub fn is_frozen(&self) -> bool {
        self.frost().is_some()
    }

    /// Where that mark stands.
    pub(crate) fn frost(&self) -> Option<usize> {
        self.candidates.iter().position(|candidate| is_frost(candidate))
    }

    /// The hand-over that is under way.
    pub fn transfer(&self) -> Option<&Transfer> {
        self.transfer.as_ref()
    }

    /// Whether a former holder may still act.
    pub fn is_delayed(&self) -> bool {
        !self.delays.is_empty()
    }

    /// The sessions that held before and may still act.
    pub fn delays(&self) -> impl Iterator<Item = &LeaseId> {
        self.delays.iter()
    }

    /// The tenures this election remembers, oldest first, and the one that lasts.
    pub fn tenures(&self) -> impl Iterator<Item = &Tenure> {
        self.history.iter().chain(&self.tenure)
    }

    /// Tenures that ended at or before this revision may be missing.
    pub fn forgotten(&self) -> Revision {
        self.forgotten
    }

    /// The tenure of a candidate, if it leads. Of those that hold together, the first has one.
    pub fn tenure_of(&self, candidate: &Candidate) -> Option<&Tenure> {
        let leads = self.leader().is_some_and(|leader| leader.key == candidate.key);
        self.tenure.as_ref().filter(|tenure| leads && tenure.token == candidate.created)
    }

    /// The previous leader's identity; empty if none is known.
    pub(super) fn predecessor(&self) -> String {
        self.history.back().map(|tenure| tenure.identity.clone()).unwrap_or_default()
    }

    /// Whether the leader was chosen by an operator, and the choice still counts.
    pub fn leads_by_choice(&self) -> bool {
        self.chosen.is_some()
    }

    pub(crate) fn begin_transfer(&mut self, transfer: Transfer) {
        self.transfer = Some(transfer);
        self.chosen = None;
    }

    /// A candidate that joins, or is healthy again, may pre-empt even a leader that an operator chose. Those that were
    /// here at the time of the choice may not.
    pub(crate) fn overrule_choice(&mut self, newcomer: LeaseId) {
        let is_meant = |candidate: &Arc<Candidate>| {
            candidate.session() == Some(newcomer) && candidate.preempts()
        };
        let overrules = self.above_leader().any(is_meant);
        self.chosen = self.chosen.filter(|_| !overrules);
    }

    /// The candidate for which the leader must make room because of priorities: the first healthy one, if it or one
    /// behind it has a higher priority than the leader and pre-empts.
    pub(crate) fn preemptor(&self) -> Option<&Arc<Candidate>> {
        let mut above = self.above_leader();
        let next = above.next()?;
        (next.preempts() || above.any(|candidate| candidate.preempts())).then_some(next)
    }

    /// The healthy candidates of higher priority than the leader, which would lead before it if it did not hold. They
    /// are in order of priority.
    fn above_leader(&self) -> impl Iterator<Item = &Arc<Candidate>> {
        let leader = self.leader().filter(|leader| leader.mode() == Mode::Exclusive);
        let leader = leader.filter(|leader| !leader.is_fixed());
        let waiting = self.candidates.iter().skip(1).take_while(|candidate| !candidate.is_fixed());
        let well = waiting.filter(|candidate| candidate.wants_to_lead());
        well.take_while(move |candidate| {
            leader.is_some_and(|leader| leader.priority() < candidate.priority())
        })
    }

    /// Whether nothing of this election matters any more but its history.
    pub(super) fn is_idle(&self) -> bool {
        self.candidates.is_empty() && self.delays.is_empty()
    }

    pub(super) fn insert(&mut self, candidate: Candidate) {
        if let Err(at) = self.position(candidate.created, &candidate.key) {
            self.candidates.insert(at, Arc::new(candidate));
        }
    }

    pub(super) fn remove(&mut self, created: Revision, key: &[u8]) -> Option<Arc<Candidate>> {
        let at = self.position(created, key).ok()?;
        Some(self.candidates.remove(at))
    }

    pub(crate) fn candidate_mut(
        &mut self,
        created: Revision,
        key: &[u8],
    ) -> Option<&mut Candidate> {
        let at = self.position(created, key).ok()?;
        Some(Arc::make_mut(&mut self.candidates[at]))
    }

    fn position(&self, created: Revision, key: &[u8]) -> Result<usize, usize> {
        self.candidates.binary_search_by(|candidate| {
            (candidate.created, &candidate.key[..]).cmp(&(created, key))
        })
    }

    /// How many of the first candidates may hold together, and in how many slots.
    fn due(&self) -> (usize, u32) {
        let Some(first) = self.candidates.first().filter(|first| !is_frost(first)) else {
            return (0, 0);
        };
        let alike = || {
            self.candidates.iter().take_while(|candidate| candidate.mode() == first.mode()).count()
        };
        match first.mode() {
            Mode::Exclusive => (usize::from(first.holds() || first.wants_to_lead()), 1),
            Mode::Shared => (alike(), u32::MAX),
            Mode::Permit(permits) => (alike().min(permits as usize), permits),
        }
    }

    /// Gives slots to candidates that may hold and do not yet.
    pub(crate) fn give_slots(&mut self) {
        let (due, slots) = self.due();
        let holders =
            self.candidates[..due].iter().take_while(|candidate| candidate.holds()).count();
        // Readers are too many to be counted out, and their slots are of no use.
        let taken: BTreeSet<u32> = match slots {
            u32::MAX => BTreeSet::new(),
            _ => self.candidates[..holders].iter().filter_map(|candidate| candidate.slot).collect(),
        };
        let mut free = (0..).filter(|slot| !taken.contains(slot));
        for candidate in &mut self.candidates[holders..due] {
            let slot = if slots == u32::MAX { 0 } else { free.next().unwrap_or_default() };
            Arc::make_mut(candidate).slot = Some(slot);
        }
    }

    /// Whether a candidate that joined now would hold at once.
    pub(crate) fn would_hold(&self, mode: Mode, no_overlap: bool) -> bool {
        if no_overlap && self.is_delayed() {
            return false;
        }
        let all_hold =
            self.candidates.iter().all(|candidate| candidate.holds() && candidate.mode() == mode);
        match mode {
            Mode::Exclusive => self.candidates.is_empty(),
            Mode::Shared => all_hold,
            Mode::Permit(permits) => all_hold && self.candidates.len() < permits as usize,
        }
    }

    /// Whether a newcomer of this mode is compatible with the candidates that are here.
    pub(crate) fn check_mode(&self, mode: Mode) -> Result<(), Refusal> {
        let Mode::Permit(permits) = mode else { return Ok(()) };
        let other = |candidate: &Arc<Candidate>| matches!(candidate.mode(), Mode::Permit(n) if n != permits);
        if permits == 0 || self.candidates.iter().any(other) {
            return Err(Refusal::ModeMismatch);
        }
        Ok(())
    }

    /// The candidates that must be put behind this one, which was just added at the end: they have a
    /// lower priority, do not hold, and come after every candidate that cannot be overtaken.
    pub(crate) fn outranked_by(&self, newcomer: &Candidate) -> Vec<Bytes> {
        let behind_fixed = self
            .candidates
            .iter()
            .rposition(|candidate| candidate.is_fixed())
            .map_or(0, |at| at + 1);
        let lower = |candidate: &&Arc<Candidate>| {
            let (theirs, ours) = (candidate.priority(), newcomer.priority());
            let outranked = theirs < ours || theirs == ours && canary!(OvertakesEqual);
            !candidate.holds() && !self.is_chosen(candidate) && outranked
        };
        let before = self.candidates.iter().take_while(|candidate| candidate.key != newcomer.key);
        before.skip(behind_fixed).filter(lower).map(|candidate| candidate.key.clone()).collect()
    }

    /// The candidates that must be put behind, in this order, so that those that wait are in order of priority and then of
    /// arrival, behind every candidate that cannot be overtaken. An unhealthy candidate has no rank.
    pub(crate) fn misplaced(&self) -> Vec<Bytes> {
        let behind_fixed = self
            .candidates
            .iter()
            .rposition(|candidate| candidate.is_fixed())
            .map_or(0, |at| at + 1);
        let waiting = self.candidates[behind_fixed..].iter();
        let has_rank = |candidate: &&Arc<Candidate>| {
            !candidate.holds() && !candidate.unhealthy && !self.is_chosen(candidate)
        };
        let mut ranked: Vec<_> = waiting.filter(has_rank).collect();
        ranked.sort_by_key(|candidate| std::cmp::Reverse(candidate.priority()));
        // A candidate that is already in order with those that rank before it can stay.
        let stays = ranked.windows(2).take_while(|pair| pair[0].created < pair[1].created).count();
        ranked.iter().skip(stays + 1).map(|candidate| candidate.key.clone()).collect()
    }

    /// Whether an operator wants this one to lead next. No priority counts against that, and the token that
    /// was announced stays true.
    pub fn is_chosen(&self, candidate: &Candidate) -> bool {
        self.transfer.is_some_and(|transfer| {
            transfer.why != EndReason::Preempted && Some(transfer.to) == candidate.session()
        })
    }

    /// Those between the leader and a chosen successor.
    pub(crate) fn between(
        &self,
        leader: Option<Revision>,
        successor: LeaseId,
    ) -> Vec<Arc<Candidate>> {
        let before = |candidate: &&Arc<Candidate>| candidate.session() != Some(successor);
        let others = self.candidates.iter().take_while(before);
        others.filter(|candidate| Some(candidate.created) != leader).cloned().collect()
    }

    /// The first, if it must let others pass: it is unhealthy, does not hold, and another candidate would.
    pub(super) fn passed_over(&self) -> Option<Bytes> {
        let first = self.candidates.first()?;
        let exclusive = |candidate: &Candidate| candidate.mode() == Mode::Exclusive;
        if first.holds() || first.wants_to_lead() || first.is_fixed() || !exclusive(first) {
            return None;
        }
        let willing =
            |candidate: &Arc<Candidate>| candidate.wants_to_lead() && !is_frost(candidate);
        self.candidates.iter().skip(1).any(willing).then(|| first.key.clone())
    }

    /// Ends the tenure of the former leader.
    pub(super) fn end_tenure(
        &mut self,
        at: Revision,
        at_ms: u64,
        (why, stopped): (EndReason, bool),
    ) -> Option<Tenure> {
        let mut tenure = self.tenure.take()?;
        self.chosen = None;
        tenure.end = Some(TenureEnd { at, at_ms, why, stopped });
        self.vacated = true;
        self.history.push_back(tenure.clone());
        if self.history.len() > HISTORY_MAX
            && let Some(end) = self.history.pop_front().and_then(|oldest| oldest.end)
        {
            self.forgotten = self.forgotten.max(end.at);
        }
        Some(tenure)
    }

    /// The leader with this token is now known to have stopped.
    pub(super) fn mark_stopped(&mut self, token: Revision) {
        let ended = self.history.iter_mut().rev().find(|tenure| tenure.token == token);
        if let Some(end) = ended.and_then(|tenure| tenure.end.as_mut()) {
            end.stopped = true;
        }
    }
}

/// Whether a candidate is the mark of a frozen name.
pub(super) fn is_frost(candidate: &Candidate) -> bool {
    candidate.spec.is_none()
        && candidate.key.ends_with(FROZEN)
        && candidate.key[..candidate.key.len() - FROZEN.len()].ends_with(b"/")
}
