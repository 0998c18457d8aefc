//! The machine itself: everything else in this crate, put together.
//!
//! [`Replica::handle`] is the whole interface. It takes what has happened since the last call and
//! answers what must be done now. Inside, one call goes through the same stages every time: take
//! the inputs in; let time pass (ticks, elections, leases that ran out, requests given up on); pump
//! raft until it rests, applying what is committed; serve reads and watchers; say when to be called
//! again.

mod apply;
mod audit;
mod budget;
mod config;
mod counts;
mod elections;
mod joining;
mod leadership;
mod members;
mod messages;
mod renewable;
mod requests;
mod retention;
mod space;
mod status;
mod upkeep;
mod views;

use std::{collections::BTreeSet, time::Duration};

use tenure_api::{MemberId, Revision, Term};

use self::budget::Budget;
pub use self::{
    config::{PipelineLimits, ReplicaConfig},
    counts::Counts,
    retention::Retention,
    status::{RaftTimer, Status},
    views::{CandidateView, ElectionSummary, ElectionView, SessionView, SessionsView},
};
use crate::{
    Moment,
    command::VOUCHES_SINCE,
    input::{Answer, Effects, Input, Notice, RequestId},
    lease::Deadlines,
    log::{Entry, HardState, LogIndex, SnapshotMark},
    message::{Message, RaftKind, RaftMessage},
    proposals::Proposals,
    raft::{Consensus, RaftRole, Setup},
    reads::Reads,
    state::State,
    watch::{WatchInput, WatchRefusal, Watchers},
    writes::Writes,
};

/// What a member finds on its disk when it starts.
#[derive(Debug, Default)]
pub struct Recovered {
    /// How many lives it had, this one included.
    pub boot: u64,
    /// The newest snapshot.
    pub snapshot: Option<(SnapshotMark, State)>,
    /// Term and vote.
    pub hard_state: HardState,
    /// The log after the snapshot.
    pub entries: Vec<Entry>,
}

/// One member of the cluster.
pub struct Replica {
    config: ReplicaConfig,
    raft: Consensus,
    state: State,
    applied: (LogIndex, Term),
    /// What the log had when this member came up. Tokens that were given out there are forgotten.
    replayed: LogIndex,
    deadlines: Deadlines,
    watchers: Watchers,
    elections: elections::Elections,
    writes: Writes,
    proposals: Proposals,
    reads: Reads,
    /// States that came with snapshots in this call, until raft says which to take. There may be an
    /// overdue one among them.
    arrived: Vec<(SnapshotMark, Box<State>)>,
    upkeep: upkeep::Upkeep,
    leadership: leadership::Leadership,
    contact: renewable::Contact,
    audit: audit::Audit,
    retention: retention::Samples,
    space: space::Space,
    /// The raft leader tells us to take over. Raft hears of it when everything that is committed is
    /// applied: it would ignore that, without a word, while a change of the members is not, and there
    /// would be no raft leader until the current one gives up on us.
    told_to_lead: Option<RaftMessage>,
    changes: members::Changes,
    joining: joining::Joining,
    connected: BTreeSet<MemberId>,
    last_call: Moment,
    /// The last pause of this process.
    last_pause: renewable::Pause,
    /// When the next call was asked for.
    wake_at: Moment,
    next_tick: Moment,
    counts: Counts,
    effects: Effects,
}

/// A call so much later than was asked for means that the process did not run.
const PAUSE_MIN: Duration = Duration::from_millis(100);

impl Replica {
    /// A member as it comes up.
    pub fn new(now: Moment, config: ReplicaConfig, recovered: Recovered) -> Replica {
        let (start, state) = match recovered.snapshot {
            Some((mark, state)) => (mark, state),
            None => (config.first_mark(), State::new(config.members.clone())),
        };
        let setup = Setup {
            me: config.me,
            seed: config.seed ^ recovered.boot,
            heartbeat_ticks: config.heartbeat_ticks(),
            election_ticks: config.election_ticks(),
            pre_vote: config.pre_vote,
            random_timeouts: config.random_timeouts,
        };
        let raft = Consensus::new(setup, &start, recovered.hard_state, recovered.entries);
        let mut replica = Replica {
            replayed: raft.last_index(),
            raft,
            applied: (start.index, start.term),
            deadlines: Deadlines::default(),
            watchers: Watchers::new(config.watch),
            elections: elections::Elections::default(),
            writes: Writes::new(config.me, recovered.boot, config.pipeline),
            proposals: Proposals::new(config.pipeline),
            reads: Reads::new(config.me.0, recovered.boot),
            arrived: vec![],
            upkeep: upkeep::Upkeep::new(start.index),
            leadership: leadership::Leadership::new(now),
            contact: renewable::Contact::new(now),
            audit: audit::Audit::default(),
            retention: retention::Samples::default(),
            space: space::Space::default(),
            told_to_lead: None,
            changes: members::Changes::default(),
            joining: joining::Joining::new(now, state.members.is_empty()),
            connected: BTreeSet::new(),
            last_call: now,
            last_pause: renewable::Pause::default(),
            wake_at: now,
            next_tick: now + config.tick,
            counts: Counts::default(),
            effects: Effects::default(),
            state,
            config,
        };
        replica.restart_deadlines(now);
        replica
    }

    /// Takes in what has happened and answers what to do.
    pub fn handle(&mut self, now: Moment, inputs: impl IntoIterator<Item = Input>) -> Effects {
        self.notice_pause(now);
        let slept = self.pass_quiet_ticks(now);
        for input in inputs {
            self.take(now, input);
        }
        self.pass_time(now, slept);
        let mut more = self.pump(now);
        if !more && let Some(message) = self.told_to_lead.take() {
            let from = message.from;
            let taken = self.raft.step(message);
            self.note_refused(from, taken);
            more = self.pump(now);
        }
        more |= self.answer_reads(now);
        more |= self.has_verdicts(now);
        more |= self.watchers.catch_up(now, &self.state.store);
        self.watchers.progress(now, &self.state.store);
        more |= self.do_upkeep(now);
        self.follow_catching_up(now);
        self.effects.watch = self.watchers.take_news();
        self.effects.elections = self.elections.listeners.take_news();
        let at_once = more || canary!(NeverSleeps);
        self.wake_at = if at_once { now } else { self.next_wake() };
        self.effects.wake_at = self.wake_at;
        std::mem::take(&mut self.effects)
    }

    fn take(&mut self, now: Moment, input: Input) {
        match input {
            Input::Wake => {}
            Input::Request(id, request) => self.request(now, id, request),
            Input::Watch(input) => self.watch(now, input),
            Input::Election(by, input) => {
                self.elections.listeners.handle(by, input, &self.state);
            }
            Input::Message { from, message, arrived } => {
                let arrived = self.last_pause.leave_out(arrived.min(now));
                let taken = self.message(arrived, from, message);
                self.note_refused(from, taken);
            }
            Input::Persisted(number) => {
                let messages = self.raft.persisted(number);
                self.send(messages);
                if self.state.cluster_version >= VOUCHES_SINCE {
                    let words = self.raft.vouch();
                    self.send(words);
                }
                self.disk_answered(now);
            }
            Input::SnapshotSaved(mark) => self.snapshot_saved(mark),
            Input::SnapshotFailed => self.snapshot_failed(),
            Input::SnapshotArrived(message, state) => {
                let from = message.from;
                let taken = self.snapshot_arrived(now, message, state);
                self.note_refused(from, taken);
            }
            Input::SnapshotSent(to, arrived) => {
                if !arrived {
                    self.upkeep.state_not_sent(to);
                }
                self.raft.report_snapshot(to, arrived);
            }
            Input::Connected(member) => {
                self.connected.insert(member);
                self.peer_connected(now, member);
            }
            Input::Lost(member) => {
                self.connected.remove(&member);
                self.upkeep.state_not_sent(member);
                self.peer_lost(now, member);
            }
            Input::HandOver => {
                self.leadership.hand_over();
                self.hand_over_if_needed(now);
            }
            Input::Audited(index, digest) => self.audited(index, digest),
            Input::AuditFailed => self.audit_failed(),
            Input::Removed => self.removed(),
        }
    }

    fn watch(&mut self, now: Moment, input: WatchInput) {
        let store = &self.state.store;
        if let WatchInput::Create(stream, create) = &input
            && let Err(failure) = self.state.permit_watch(&create.by, &create.interest.span)
        {
            self.watchers.refuse(*stream, WatchRefusal::Denied(failure), store.revision());
        } else {
            self.watchers.handle(now, input, store);
        }
    }

    /// Lets raft run until it rests, or until enough was applied for one call. True if there is more.
    fn pump(&mut self, now: Moment) -> bool {
        let mut budget = Budget::default();
        loop {
            self.follow_leader_changes(now);
            self.send_batches(now);
            self.end_change_if_led(now);
            if let Some(context) = self.reads_to_start(now) {
                self.raft.read_index(context);
            }
            let Some(progress) = self.raft.progress() else { return false };
            self.send(progress.messages);
            if let Some(mark) = progress.installed {
                self.install(now, mark);
            }
            if let Some(persist) = progress.persist {
                self.upkeep.disk_asked(now);
                self.effects.persist.push(persist);
            }
            for (context, index) in progress.reads {
                self.reads.confirm(&context, index);
            }
            self.apply(now, progress.committed, &mut budget);
            if self.effects.fatal.is_some() {
                return false;
            }
            if budget.is_enough() {
                return true;
            }
        }
    }

    /// Hands messages to the host. A snapshot is of the state as it is now, which may be further than when raft
    /// asked for one: the receiver has the less to catch up with.
    fn send(&mut self, messages: Vec<RaftMessage>) {
        for mut message in messages {
            if message.kind == RaftKind::Snapshot {
                let snapshot = self.snapshot();
                message.snapshot = Some(snapshot.mark.clone());
                self.upkeep.sending_state(message.to);
                self.effects.send_snapshots.push((message, snapshot));
            } else {
                message.set_leader_alone(self.alone_for());
                self.effects.messages.push((message.to, Message::Raft(message)));
            }
        }
    }

    fn answer(&mut self, to: RequestId, result: Result<crate::Reply, tenure_api::Failure>) {
        self.answer_at(self.state.store.revision(), to, result);
    }

    fn answer_at(
        &mut self,
        revision: Revision,
        to: RequestId,
        result: Result<crate::Reply, tenure_api::Failure>,
    ) {
        self.space.answered(to);
        let term = self.raft.durable_term();
        self.effects.answers.push(Answer { to, result, revision, term });
    }

    fn is_leader(&self) -> bool {
        self.raft.role() == RaftRole::Leader
    }

    fn notice(&mut self, notice: Notice) {
        self.effects.notices.push(notice);
    }

    /// If this process stood still, no lease could be renewed here, and what it knows may be old.
    fn notice_pause(&mut self, now: Moment) {
        let pause = now.since(self.last_call);
        let late = now.since(self.wake_at.max(self.last_call));
        self.last_call = now;
        // All of it, though some was sleep: it is not known when the pause began.
        if late > PAUSE_MIN && !canary!(PauseCounts) {
            self.hold_back(now, pause);
            self.last_pause = renewable::Pause { lasted: pause, until: now };
            self.leadership.paused(pause);
            self.contact.paused(pause);
            self.upkeep.paused(pause);
            self.notice(Notice::Paused(pause));
        }
    }

    /// Only what this member could really do then counts: a call that comes to nothing would ask for
    /// the next one at once, and so on.
    fn next_wake(&self) -> Moment {
        [
            self.writes.next_send().filter(|_| self.raft.leader().is_some()),
            self.proposals.next_propose().filter(|_| self.is_leader()),
            self.leadership.next_campaign(),
            // Those that are due wait for a round, or for something to be committed.
            self.deadlines.next_check().filter(|at| self.may_expire() && *at > self.last_call),
            self.elections.next_check().filter(|_| self.may_expire()),
            self.watchers.next_progress(),
        ]
        .into_iter()
        .flatten()
        .fold(self.next_busy_tick(), Moment::min)
    }
}
