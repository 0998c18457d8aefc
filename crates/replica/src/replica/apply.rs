//! Committed entries become state, answers and events.

use tenure_api::{Principal, Span};

use super::{Replica, budget::Budget};
use crate::{
    Moment,
    auth::AuthEvent,
    command::{Attributed, Batch, Command, EntryClock, MemberChange, decode_entry},
    input::{Fatal, Notice, Reply},
    lease::RenewalStamp,
    log::{Entry, EntryKind, SnapshotMark},
    state::{ApplyEffects, EntryContext, Outcome},
};

impl Replica {
    /// Applies entries in order.
    pub(super) fn apply(&mut self, now: Moment, entries: Vec<Entry>, budget: &mut Budget) {
        let Some(last) = entries.last().map(|entry| (entry.index, entry.term)) else { return };
        let mut apply_effects = ApplyEffects::default();
        // Which entry gave each lease in `apply_effects.restarted` its sign of life.
        let mut stamps = vec![];
        for entry in &entries {
            if entry.term == self.raft.term() {
                self.leases_are_renewable(now);
            }
            self.upkeep.applied(entry);
            let applied = self.apply_entry(now, entry, &mut apply_effects, budget);
            if let Ok(Some(clock)) = applied {
                let stamp = RenewalStamp::of(entry.term, clock);
                self.deadlines.applied(now, stamp);
                stamps.resize(apply_effects.restarted.len(), stamp);
            }
            self.applied = (entry.index, entry.term);
            if let Some(index) = apply_effects.audited_at.take() {
                self.begin_audit(index);
            }
            if let Err(fatal) = applied {
                self.effects.fatal = Some(fatal);
                return;
            }
        }
        self.effects.applied += entries.len();
        self.raft.applied(last.0);
        self.proposals.applied(now, last.0);
        self.follow(now, apply_effects, &stamps);
        self.look_at_ages();
        self.raise_if_full(now);
    }

    /// Answers the clock of the entry's raft leader; none if the entry is empty.
    fn apply_entry(
        &mut self,
        now: Moment,
        entry: &Entry,
        apply_effects: &mut ApplyEffects,
        budget: &mut Budget,
    ) -> Result<Option<EntryClock>, Fatal> {
        if entry.data.is_empty() {
            // A new raft leader's first entry, or the end of a change of the members.
            if entry.kind == EntryKind::Membership {
                self.finish_change();
            }
            return Ok(None);
        }
        let unreadable = |cause| Fatal::UnreadableEntry { index: entry.index, cause };
        let (clock, batches) = decode_entry(&entry.data).map_err(unreadable)?;
        for batch in batches {
            self.apply_batch((now, clock.ms), entry, batch, apply_effects, budget);
        }
        Ok(Some(clock))
    }

    fn apply_batch(
        &mut self,
        (now, ms): (Moment, u64),
        entry: &Entry,
        batch: Batch,
        apply_effects: &mut ApplyEffects,
        budget: &mut Budget,
    ) {
        let ms = if canary!(OwnClock) { self.clock_ms(now).unwrap_or(ms) } else { ms };
        let at = EntryContext { index: entry.index, term: entry.term, ms };
        self.state.leap(ms);
        self.proposals.settled(batch.number());
        if !self.state.admits(&batch) {
            return;
        }
        let ours = batch.origin == self.config.me;
        let waiters = ours
            .then(|| self.writes.applied(now, batch.boot, batch.sequence, batch.commands.len()))
            .flatten();
        let (waiters, since) = waiters.unwrap_or((vec![], now));
        let mut waiters = waiters.into_iter();
        for Attributed { by, command } in &batch.commands {
            let outcome = match (entry.kind, command) {
                (EntryKind::Membership, Command::Members(change)) if change.concerns_raft() => {
                    self.begin_change(change)
                }
                _ => self.state.apply(at, by, command, apply_effects),
            };
            if let Command::LetGo(member) = command {
                self.change_done(&MemberChange::Remove(*member));
            }
            self.count_applied(command, &outcome);
            budget.applied(command, &outcome, self.state.store.history_len());
            if let Some(id) = waiters.next().flatten() {
                if self.upkeep.wait_for_sweep(id, outcome.is_ok())
                    || self.wait_for_change(since, id, command, outcome.is_ok())
                {
                    continue;
                }
                let revision = match &outcome {
                    // etcd's recipes take it for the revision at which their key was made. Settling the elections may have
                    // made more of them: they would wait for themselves.
                    Ok(Outcome::Put(_) | Outcome::DeleteRange(_) | Outcome::Txn(_)) => {
                        apply_effects.done_at
                    }
                    _ => self.state.store.revision(),
                };
                self.answer_at(revision, id, outcome.map(Reply::Wrote));
            }
        }
    }

    /// This member's own bookkeeping after a change.
    fn follow(
        &mut self,
        now: Moment,
        apply_effects: ApplyEffects,
        stamps: &[Option<RenewalStamp>],
    ) {
        self.follow_elections(now, &apply_effects.elections, &apply_effects.restarted);
        self.counts.leases_ended += apply_effects.ended.len() as u64;
        for lease in &apply_effects.ended {
            self.deadlines.forget(lease);
            self.upkeep.expiry_settled(*lease);
        }
        // One that was granted again after it ended lives; one that ended after it was renewed does
        // not. The state knows which came last.
        for (lease, stamp) in apply_effects.restarted.iter().zip(stamps) {
            if let Some(ttl) = self.state.time_to_live(*lease) {
                self.deadlines.restart(*lease, ttl, now, *stamp);
            }
        }
        for lease in &apply_effects.refused_expiries {
            if self.upkeep.expiry_settled(*lease) {
                self.deadlines.put_back(*lease, now);
            }
        }
        self.follow_users(apply_effects.auth);
        self.watchers.observe(now, &apply_effects.changes, &self.state.store);
    }

    /// Before the watchers are told of changes that came after: those that may not see them any more are gone then.
    fn follow_users(&mut self, mut events: Vec<AuthEvent>) {
        let is_old = |event: &AuthEvent| matches!(event, AuthEvent::LoggedIn { index, .. } if *index <= self.replayed);
        events.retain(|event| !is_old(event));
        if events.iter().any(|event| !matches!(event, AuthEvent::LoggedIn { .. })) {
            self.judge_streams();
        }
        self.effects.auth.append(&mut events);
    }

    fn judge_streams(&mut self) {
        let state = &self.state;
        let permits = |by: &Principal, span: &Span| state.permit_watch(by, span);
        self.watchers.judge(permits, state.store.revision());
        self.elections.listeners.judge(&self.state);
    }

    /// A member that has just come up cannot know how old its leases are: each gets its whole TTL.
    pub(super) fn restart_deadlines(&mut self, now: Moment) {
        self.deadlines = Default::default();
        // Whatever was lost before is made up for by that.
        self.leadership.leases_restart(now);
        for (id, _) in self.state.leases.iter() {
            if let Some(ttl) = self.state.time_to_live(id) {
                self.deadlines.restart(id, ttl, now, None);
            }
        }
        self.restart_elections(now);
    }

    /// Takes over the state that came with a snapshot.
    pub(super) fn install(&mut self, now: Moment, mark: SnapshotMark) {
        let place = self
            .arrived
            .iter()
            .position(|(arrived, _)| *arrived == mark)
            .expect("raft installs only a snapshot that was just handed in");
        let (_, state) = self.arrived.swap_remove(place);
        let told_up_to = self.state.store.revision();
        let old = std::mem::replace(&mut self.state, *state);
        self.effects.discard = Some(Box::new(old));
        self.applied = (mark.index, mark.term);
        self.restart_deadlines(now);
        self.watchers.fall_behind(told_up_to);
        // Which tokens were given out meanwhile is not in it, nor which are void.
        self.effects.auth.push(AuthEvent::AllTokensEnded);
        self.judge_streams();
        self.upkeep.installed(mark.index);
        if let Some(origin) = self.state.origins.get(&self.config.me).copied() {
            let unseen = self.writes.applied_unseen(origin.boot, origin.sequence);
            self.fail_all(unseen, tenure_api::Failure::TimedOut);
        }
        self.change_lost_sight_of();
        self.notice(Notice::SnapshotInstalled(mark.index));
    }
}
