//! The core loop: one task that owns the replica.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use slab::Slab;
use tenure_api::{Alarm, AlarmKind, ClusterId, Failure, MemberId, Principal};
use tenure_replica::election::listeners::ListenerInput;
use tenure_replica::{
    Answer, Effects, Fatal, Input, LogIndex, Moment, Notice, Replica, SnapshotMark, Status,
};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info, warn};

use super::{
    files,
    handle::{NodeHandle, Submission},
    meter::{Alarms, Meter},
    notices::{self, LeaderLog},
    peers::Peers,
    streams::{StreamNews, Streams},
    subscriptions::Subscriptions,
    wake::WakeTimer,
};
use crate::{
    auth::SimpleTokens,
    called::called,
    disk::{DiskError, SavedSnapshot, Writer, WriterEvent, kill_point, snapshot::ReceivedSnapshot},
    metrics::Metrics,
    peer::{Grumble, PeerEvent, Transport},
};

/// Inputs taken in one round.
const ROUND_INPUTS_MAX: usize = 4096;
/// A batch of the log that takes longer to be written and flushed is worth a line.
const SLOW_DISK: Duration = Duration::from_secs(1);
/// How old the published status may be.
const STATUS_AGE_MAX: Duration = Duration::from_millis(10);

/// Something that happened beside the loop.
#[derive(Debug)]
pub enum CoreEvent {
    /// The log thread speaks.
    Log(WriterEvent),
    /// A snapshot is durable.
    SnapshotSaved(SavedSnapshot),
    /// A snapshot could not be written.
    SnapshotFailed(DiskError),
    /// A member says that the cluster knows us with another data directory.
    Disowned(MemberId),
    /// The state's checksum at an entry of the log.
    Audited(LogIndex, u64),
    /// It could not be reckoned.
    AuditFailed(std::io::Error),
}

/// Why the loop ended.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A write or flush failed. What is on the disk is unknown, so nothing may follow from it.
    #[error("the log could not be written, and a failed flush is never retried: {0}")]
    Log(DiskError),
    /// This member came back without what it had promised.
    #[error(
        "member {0} says that the cluster knows this member with another data directory. Its votes are \
         forgotten, so it must not take part: start it with its old --data-dir, or remove it and add it \
         anew (tenure member remove, tenure member add)"
    )]
    Disowned(MemberId),
    /// The cluster goes on without this member.
    #[error(
        "this member was removed from the cluster{}; to join again, remove its --data-dir and add it as a \
         new member (tenure member add)",
        .0.map(|by| format!(", says member {by}")).unwrap_or_default()
    )]
    Removed(Option<MemberId>),
    /// The replica cannot go on.
    #[error(transparent)]
    Replica(Fatal),
}

/// Everything the loop owns.
pub struct Core {
    replica: Replica,
    clock: Instant,
    writer: Writer,
    transport: Transport,
    snapshots: PathBuf,
    submissions: mpsc::UnboundedReceiver<Submission>,
    peers: mpsc::UnboundedReceiver<PeerEvent>,
    events: mpsc::UnboundedReceiver<CoreEvent>,
    events_sender: mpsc::UnboundedSender<CoreEvent>,
    waiting: Slab<oneshot::Sender<Answer>>,
    streams: Streams,
    subscriptions: Subscriptions,
    status: watch::Sender<Arc<Status>>,
    status_at: Moment,
    /// Something was applied since.
    status_is_behind: bool,
    me: MemberId,
    tokens: SimpleTokens,
    meter: Meter,
    leader_log: LeaderLog,
    refused: Grumble,
    others: Peers,
    /// The member that said that this one was removed.
    removed_by: Option<MemberId>,
    /// Files of snapshots that raft judges in this round.
    received: Vec<ReceivedSnapshot>,
}

/// What the loop is built from.
pub struct Parts {
    /// The member.
    pub replica: Replica,
    /// When its clock started.
    pub clock: Instant,
    /// The log thread.
    pub writer: Writer,
    /// The way to other members, if there are any.
    pub transport: Transport,
    /// The members to call before the list of members is known.
    pub others: Vec<(MemberId, String)>,
    /// What comes from them.
    pub peers: mpsc::UnboundedReceiver<PeerEvent>,
    /// What comes from threads beside the loop.
    pub events: (mpsc::UnboundedSender<CoreEvent>, mpsc::UnboundedReceiver<CoreEvent>),
    /// Where snapshots are kept.
    pub snapshots: PathBuf,
    /// Where the loop counts.
    pub(crate) metrics: Arc<Metrics>,
    /// What it warns about.
    pub alarms: Alarms,
    /// How long simple tokens live that are not used.
    pub token_ttl: Duration,
}

impl Core {
    /// A loop that is ready to run, and the handle to it.
    pub fn new(me: MemberId, cluster: ClusterId, parts: Parts) -> (Core, NodeHandle) {
        let (submit, submissions) = mpsc::unbounded_channel();
        let (status, status_seen) = watch::channel(Arc::new(parts.replica.status()));
        let state = parts.replica.state();
        let auth = (state.auth.is_enabled(), state.auth.revision());
        let tokens = SimpleTokens::new(parts.token_ttl, auth);
        let core = Core {
            tokens: tokens.clone(),
            replica: parts.replica,
            clock: parts.clock,
            writer: parts.writer,
            transport: parts.transport,
            snapshots: parts.snapshots,
            submissions,
            peers: parts.peers,
            events: parts.events.1,
            events_sender: parts.events.0,
            waiting: Slab::new(),
            streams: Streams::new(parts.metrics.clone()),
            subscriptions: Subscriptions::default(),
            status,
            status_at: Moment::ZERO,
            status_is_behind: false,
            me,
            meter: Meter::new(parts.metrics.clone(), parts.alarms),
            leader_log: LeaderLog::new(me, Moment::ZERO),
            refused: Grumble::default(),
            others: Peers::new(me, parts.others),
            removed_by: None,
            received: vec![],
        };
        (core, NodeHandle::new(me, cluster, (submit, status_seen), tokens, parts.metrics))
    }

    /// Runs until the last handle is gone, or until the member cannot go on.
    pub async fn run(mut self) -> Result<(), Stopped> {
        let mut inputs = vec![Input::Wake];
        let mut submissions = Vec::new();
        let mut peers = Vec::new();
        let mut events = Vec::new();
        let mut wake = WakeTimer::new();
        self.follow_members(Moment::ZERO);
        let mut woken = self.meter.woken();
        loop {
            let now = self.now();
            self.meter.round_begins(now, inputs.len(), self.me, self.status.borrow().voters < 2);
            let effects = self.replica.handle(now, inputs.drain(..));
            let (applied, wake_at) = (effects.applied, effects.wake_at);
            self.carry_out(now, effects)?;
            self.leader_log.remind(now);
            self.set_bell(&mut wake, wake_at, now);
            self.meter.round_ends(woken, applied);
            tokio::select! {
                biased;
                count = self.submissions.recv_many(&mut submissions, ROUND_INPUTS_MAX) => {
                    if count == 0 {
                        return Ok(());
                    }
                }
                // Without peers the channel is closed, and a closed channel is always ready.
                _ = self.peers.recv_many(&mut peers, ROUND_INPUTS_MAX) => {}
                _ = self.events.recv_many(&mut events, ROUND_INPUTS_MAX) => {}
                () = wake.rings() => inputs.push(Input::Wake),
            }
            woken = self.meter.woken();
            // What else is there joins this round.
            drain(&mut self.submissions, &mut submissions);
            drain(&mut self.peers, &mut peers);
            drain(&mut self.events, &mut events);
            for event in events.drain(..) {
                self.take_event(event, &mut inputs)?;
            }
            inputs.extend(peers.drain(..).filter_map(|event| self.take_peer(event)));
            inputs.extend(submissions.drain(..).filter_map(|given| self.take_submission(given)));
        }
    }

    fn now(&self) -> Moment {
        Moment::after_start(self.clock.elapsed())
    }

    /// Not later than the replica asks for, nor than the status or a line of the log is due.
    fn set_bell(&self, wake: &mut WakeTimer, at: Moment, now: Moment) {
        let status = self.status_is_behind.then_some(self.status_at + STATUS_AGE_MAX);
        let at = [status, self.leader_log.due()].into_iter().flatten().fold(at, Moment::min);
        wake.set(self.clock + at.max(now).since_start());
    }

    fn take_submission(&mut self, submission: Submission) -> Option<Input> {
        match submission {
            Submission::Request(request, sender) => {
                Some(Input::Request(self.waiting.insert(sender) as u64, request))
            }
            Submission::Watch(input) => self.streams.take(input).map(Input::Watch),
            Submission::Open(stream, sender) => {
                if self.replica.state().is_corrupt(self.me) {
                    let _ = sender.send(StreamNews::Ended(Failure::Corrupt));
                } else {
                    self.streams.open(stream, sender);
                }
                None
            }
            Submission::Listen(by, input, sender) => {
                if !self.replica.state().is_corrupt(self.me) {
                    self.subscriptions.open(input.listener(), sender);
                }
                Some(Input::Election(by, input))
            }
            Submission::Unsubscribe(listener) => {
                self.subscriptions.close(listener);
                Some(Input::Election(Principal::System, ListenerInput::Close(listener)))
            }
            Submission::HandOver => Some(Input::HandOver),
        }
    }

    fn take_peer(&mut self, event: PeerEvent) -> Option<Input> {
        match event {
            PeerEvent::Message { from, message, arrived } => {
                self.meter.received(self.now(), from, &message);
                let arrived = Moment::after_start(arrived.saturating_duration_since(self.clock));
                Some(Input::Message { from, message, arrived })
            }
            PeerEvent::Connected { member, .. } => {
                info!(peer = self.called(member), "connected");
                self.meter.metrics.network.connected(member);
                Some(Input::Connected(member))
            }
            PeerEvent::Lost(member) => {
                warn!(peer = self.called(member), "connection lost");
                self.meter.metrics.network.lost(member);
                Some(Input::Lost(member))
            }
            PeerEvent::Disowned { by } => {
                let _ = self.events_sender.send(CoreEvent::Disowned(by));
                None
            }
            PeerEvent::Removed { by } => {
                self.removed_by = Some(by);
                Some(Input::Removed)
            }
            PeerEvent::Heard(members) => {
                self.others.hear(&members);
                self.follow_members(self.now());
                None
            }
            PeerEvent::SnapshotSent { to, ok } => {
                self.meter.metrics.network.snapshot_sent(to, ok);
                Some(Input::SnapshotSent(to, ok))
            }
            PeerEvent::SnapshotReceived { from, message, state, file } => {
                self.received.push(file);
                self.meter.metrics.network.snapshot_received(from);
                Some(Input::SnapshotArrived(message, state))
            }
        }
    }

    fn take_event(&mut self, event: CoreEvent, inputs: &mut Vec<Input>) -> Result<(), Stopped> {
        inputs.push(match event {
            CoreEvent::Log(WriterEvent::Persisted { number, flushed_in, took, bytes }) => {
                self.meter.metrics.disk.persisted(flushed_in, took, bytes);
                if took > SLOW_DISK {
                    warn!(?took, ?flushed_in, bytes, "the disk is slow");
                }
                Input::Persisted(number)
            }
            CoreEvent::Log(WriterEvent::Failed(cause)) => return Err(Stopped::Log(cause)),
            CoreEvent::SnapshotSaved(saved) => {
                let mark = saved.mark;
                info!(index = mark.index, term = %mark.term, "snapshot saved");
                self.writer.release(mark.index);
                Input::SnapshotSaved(mark)
            }
            CoreEvent::SnapshotFailed(cause) => {
                error!(%cause, "snapshot failed; the log keeps growing until one succeeds");
                Input::SnapshotFailed
            }
            CoreEvent::Disowned(by) => return Err(Stopped::Disowned(by)),
            CoreEvent::Audited(index, digest) => Input::Audited(index, digest),
            CoreEvent::AuditFailed(cause) => {
                error!(%cause, "no thread to compare with other members: left out this time");
                Input::AuditFailed
            }
        });
        Ok(())
    }

    fn carry_out(&mut self, now: Moment, effects: Effects) -> Result<(), Stopped> {
        let mut status_changed = false;
        self.meter.metrics.election.noted(&effects);
        for notice in effects.notices {
            status_changed |= matches!(
                notice,
                Notice::Leader { .. }
                    | Notice::ChangeBegun(_)
                    | Notice::ChangeDone(_)
                    | Notice::SnapshotInstalled(_)
                    | Notice::CaughtUp(_)
            );
            self.meter.noticed(now, &notice);
            self.log(now, &notice);
            let differs = Alarm { member: self.me, kind: AlarmKind::Corrupt };
            if notice == Notice::AlarmRaised(differs) {
                self.streams.end_all(Failure::Corrupt);
                self.subscriptions.close_all();
            }
        }
        for ttl in effects.granted_ttls {
            self.meter.metrics.lease.ttls.observe(ttl as f64);
        }
        if let Some(fatal) = effects.fatal {
            // The client that asked for the removal of this member is still answered.
            self.give(effects.answers);
            return Err(match fatal {
                Fatal::Removed => Stopped::Removed(self.removed_by),
                fatal => Stopped::Replica(fatal),
            });
        }
        self.status_is_behind |= effects.applied > 0;
        if status_changed || now.since(self.status_at) >= STATUS_AGE_MAX {
            self.status_at = now;
            self.status_is_behind = false;
            self.publish(now);
            self.follow_members(now);
        }
        if !effects.messages.is_empty() {
            kill_point("core.messages.before");
        }
        for (to, message) in &effects.messages {
            self.meter.sent(now, *to, message);
            self.transport.send(*to, message);
        }
        if !effects.messages.is_empty() {
            kill_point("core.messages.after");
        }
        for (message, frozen) in effects.send_snapshots {
            info!(to = self.called(message.to), index = frozen.mark.index, "sending a snapshot");
            self.transport.send_snapshot(message, frozen);
        }
        for persist in effects.persist {
            kill_point("core.persist.before");
            if let Some(mark) = &persist.snapshot {
                self.install(mark);
            }
            self.writer.submit(persist);
            kill_point("core.persist.after");
        }
        if !self.received.is_empty() {
            // Raft did not take them. A large file takes a while to remove.
            let refused = std::mem::take(&mut self.received);
            files::beside("snapshot-drop", move || drop(refused));
        }
        let term = self.replica.durable_term();
        if !effects.auth.is_empty() {
            let auth = &self.replica.state().auth;
            let known = (auth.is_enabled(), auth.revision());
            self.tokens.follow(effects.auth, known, Instant::now());
        }
        // Before the answers: a session must hear that a candidacy is gone before it hears that its
        // later renewal was taken.
        self.subscriptions.tell(effects.elections, self.replica.state().store.revision(), term);
        self.give(effects.answers);
        for news in effects.watch {
            self.streams.tell(news, term);
        }
        if let Some(frozen) = effects.take_snapshot {
            let (events, metrics) = (self.events_sender.clone(), self.meter.metrics.clone());
            files::save(self.snapshots.clone(), frozen, events, metrics);
        }
        if let Some((index, state)) = effects.audit {
            files::audit(index, state, self.events_sender.clone());
        }
        if let Some(state) = effects.discard {
            tokio::task::spawn_blocking(move || drop(state));
        }
        Ok(())
    }

    /// Raft has taken over a snapshot that came in this round.
    fn install(&mut self, mark: &SnapshotMark) {
        if let Some(at) = self.received.iter().position(|file| file.mark() == mark) {
            self.writer.install(self.received.swap_remove(at));
        }
    }

    fn publish(&mut self, now: Moment) {
        let status = self.replica.status();
        self.meter.published(now, &status);
        self.meter.metrics.disk.queued.set(self.writer.queued_bytes() as i64);
        self.meter.metrics.network.traffic(&self.transport.traffic());
        self.status.send_replace(Arc::new(status));
    }

    fn give(&mut self, answers: Vec<Answer>) {
        for answer in answers {
            kill_point("core.answers.before");
            // The client may have gone away meanwhile; then the answer is dropped.
            let _ = self.waiting.remove(answer.to as usize).send(answer);
            kill_point("core.answers.after");
        }
    }

    /// Calls go to the members on the replicated list, and are taken from those only.
    fn follow_members(&mut self, now: Moment) {
        self.others.follow(now, self.replica.state(), &self.transport);
    }

    fn called(&self, member: MemberId) -> String {
        called(member, self.replica.state().members.values())
    }

    fn log(&mut self, now: Moment, notice: &Notice) {
        let state = self.replica.state();
        match notice {
            Notice::Leader { leader, term } => {
                self.leader_log.changed(now, (*leader, *term), state);
            }
            Notice::MessageRefused(from, why) => {
                let from = self.called(*from);
                self.refused.about(format!("refused a message of member {from}: {why}"));
            }
            // What was done in an earlier life is not news.
            Notice::ChangeBegun(_) | Notice::ChangeDone(_)
                if !self.replica.status().has_caught_up => {}
            notice => notices::log(notice, state),
        }
    }
}

fn drain<T>(receiver: &mut mpsc::UnboundedReceiver<T>, into: &mut Vec<T>) {
    while into.len() < ROUND_INPUTS_MAX {
        match receiver.try_recv() {
            Ok(item) => into.push(item),
            Err(_) => break,
        }
    }
}
