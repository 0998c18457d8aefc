//! What other members say, and which of it is taken.
//!
//! A member is believed in what it says of itself and of the log, as Raft has it; no message of one member may end
//! another, or leave behind what no later message can put right. What no sound member says is refused before anything
//! changes. The rules of raft's own messages are in `raft/refused.rs`; here are those of batches and of whole states.

use bytes::Bytes;
use tenure_api::MemberId;

use super::Replica;
use crate::{
    Moment,
    codec::Codec,
    command::{Attributed, Batch, Command},
    input::Notice,
    log::SnapshotMark,
    message::{Message, RaftKind, RaftMessage},
    raft::RefusedMessage,
    state::State,
    writes::Sealed,
};

impl Replica {
    pub(super) fn message(
        &mut self,
        arrived: Moment,
        from: MemberId,
        message: Message,
    ) -> Result<(), RefusedMessage> {
        self.check_sender(from)?;
        match message {
            // A member may speak for itself only.
            Message::Raft(message) if message.from != from => Err(RefusedMessage::OtherMember),
            Message::Raft(message) => self.raft_message(arrived, message),
            Message::Forward(batch) => self.forwarded(from, batch),
            Message::Audited(index, digest) => {
                self.check_member(from)?;
                self.audit_finding(from, index, digest);
                Ok(())
            }
        }
    }

    fn raft_message(
        &mut self,
        arrived: Moment,
        message: RaftMessage,
    ) -> Result<(), RefusedMessage> {
        let (from, kind) = (message.from, message.kind);
        let (term, committed) = (message.term, message.commit);
        match kind {
            // It comes with its state, or not at all.
            RaftKind::Snapshot if !canary!(UncheckedMessages) => {
                return Err(RefusedMessage::OutOfPlace);
            }
            RaftKind::TimeoutNow => {
                self.told_to_lead = Some(message);
                return Ok(());
            }
            _ => {}
        }
        let alone = message.leader_alone();
        self.raft.step(message)?;
        self.answered_by(arrived, from, kind, term);
        if self.raft.leader() == Some(from) {
            self.heard_leader(arrived, alone);
            if matches!(kind, RaftKind::Append | RaftKind::Heartbeat) {
                self.joining.hear_of(committed);
            }
        }
        Ok(())
    }

    /// A state came with a snapshot. Raft decides whether to take it.
    pub(super) fn snapshot_arrived(
        &mut self,
        now: Moment,
        message: RaftMessage,
        state: Box<State>,
    ) -> Result<(), RefusedMessage> {
        let from = message.from;
        self.check_sender(from)?;
        let mark = message.snapshot.clone().ok_or(RefusedMessage::OutOfPlace)?;
        // One that is overdue is for raft to answer.
        let is_later = mark.index > self.applied.0;
        let knows_less = is_later && state.store.revision() < self.state.store.revision();
        if (knows_less || !fits(&mark, &state)) && !canary!(UncheckedMessages) {
            self.effects.discard.get_or_insert(state);
            return Err(RefusedMessage::Snapshot);
        }
        self.raft.step(message)?;
        self.joining.hear_of(mark.index);
        self.arrived.push((mark, state));
        if self.raft.leader() == Some(from) {
            self.heard_leader(now, None);
        }
        Ok(())
    }

    /// A member sent a batch because it believes that we lead. What does not decode must never reach
    /// the log: every member would stop at it.
    fn forwarded(&mut self, from: MemberId, bytes: Bytes) -> Result<(), RefusedMessage> {
        self.check_member(from)?;
        if !self.is_leader() {
            return Ok(());
        }
        let batch = Batch::from_bytes(&bytes).map_err(|_| RefusedMessage::Batch)?;
        if !canary!(UncheckedMessages) {
            self.check_batch(from, &batch)?;
        }
        let (batch, bytes) = self.with_possible_version(batch, bytes);
        let (is_change, commands) = (batch.change().is_some(), batch.commands.len());
        let weight = batch.commands.iter().map(|one| one.command.weight()).sum();
        let number = batch.number();
        self.proposals.push(Sealed { number, bytes, is_change, commands, weight });
        Ok(())
    }

    fn check_batch(&self, from: MemberId, batch: &Batch) -> Result<(), RefusedMessage> {
        let may_forward = |one: &Attributed| self.may_forward(from, &one.command);
        let is_sound =
            batch.origin == from && !batch.is_mixed() && batch.commands.iter().all(may_forward);
        if is_sound { Ok(()) } else { Err(RefusedMessage::Batch) }
    }

    /// Whether a member that is not the raft leader can have this command to forward. A raft leader's own commands come here
    /// when it was deposed before they were in the log.
    fn may_forward(&self, from: MemberId, command: &Command) -> bool {
        let state = &self.state;
        command.since_version() <= state.cluster_version
            && match command {
                Command::Publish { member, .. } => *member == from,
                // Only the raft leader of the term judges.
                Command::LeaseExpire(judged_in, _) => *judged_in < self.raft.term(),
                Command::LetGo(member) => {
                    state.departing.contains_key(member) || state.removed.contains(member)
                }
                _ => true,
            }
    }

    /// A version that some member has not said it can apply is not brought into force: that member could not go on. The
    /// batch stays, for those that follow it.
    fn with_possible_version(&self, mut batch: Batch, bytes: Bytes) -> (Batch, Bytes) {
        let now = self.state.cluster_version;
        let possible = self.state.common_version().map_or(now, |common| common.max(now));
        let mut changed = false;
        for one in &mut batch.commands {
            if let Command::ClusterVersion(version) = &mut one.command
                && *version > possible
            {
                (*version, changed) = (now, true);
            }
        }
        let bytes = if changed { batch.to_bytes().into() } else { bytes };
        (batch, bytes)
    }

    /// A member that was removed is not heard any more, unless the others may still need it.
    fn check_sender(&self, from: MemberId) -> Result<(), RefusedMessage> {
        let state = &self.state;
        let is_gone = state.removed.contains(&from) && !state.departing.contains_key(&from);
        if is_gone { Err(RefusedMessage::NotMember) } else { Ok(()) }
    }

    fn check_member(&self, from: MemberId) -> Result<(), RefusedMessage> {
        let is_member = self.state.members.contains_key(&from);
        if is_member { Ok(()) } else { Err(RefusedMessage::NotMember) }
    }

    pub(super) fn note_refused(&mut self, from: MemberId, taken: Result<(), RefusedMessage>) {
        // A member that was removed speaks until it knows.
        if let Err(why) = taken
            && !self.state.removed.contains(&from)
        {
            self.notice(Notice::MessageRefused(from, why));
        }
    }
}

/// Whether a state can be that of a snapshot with this mark: raft's members are on its list, and a change is under way in
/// both or in neither.
fn fits(mark: &SnapshotMark, state: &State) -> bool {
    let all = [&mark.voters, &mark.learners, &mark.outgoing];
    all.into_iter().flatten().all(|member| state.members.contains_key(member))
        && state.change.is_some() != mark.outgoing.is_empty()
}
