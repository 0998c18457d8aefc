//! Between raft-rs's types and ours. Nothing outside `raft/` sees the former.

use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
    Entry as RaftEntry, EntryType, HardState as RaftHardState, Message as RsMessage, MessageType,
    Snapshot, SnapshotMetadata,
};
use tenure_api::{MemberId, Term};

use crate::{
    command::MemberChange,
    log::{Entry, EntryKind, HardState, LogIndex, SnapshotMark},
    message::{RaftKind, RaftMessage},
};

/// A change of members is our batch in the entry's context. raft-rs wants its own description of it
/// as the entry's data, but reads that only when the change is proposed; so it is never logged or sent,
/// and never parsed from a disk or a network.
pub(super) fn entry_out(entry: &RaftEntry) -> Entry {
    let (kind, data) = match entry.entry_type {
        EntryType::EntryNormal => (EntryKind::Commands, &entry.data),
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
            (EntryKind::Membership, &entry.context)
        }
    };
    Entry { term: Term(entry.term), index: entry.index, kind, data: data.clone() }
}

pub(super) fn entry_in(entry: Entry) -> RaftEntry {
    let translated = RaftEntry { term: entry.term.0, index: entry.index, ..RaftEntry::default() };
    match entry.kind {
        EntryKind::Commands => RaftEntry { data: entry.data, ..translated },
        EntryKind::Membership => RaftEntry {
            entry_type: EntryType::EntryConfChangeV2,
            context: entry.data,
            ..translated
        },
    }
}

/// The first half of a change: both majorities count from here on, until told otherwise.
pub(super) fn joint_change(change: &MemberChange) -> ConfChangeV2 {
    let kind = match change {
        MemberChange::Add { is_learner: true, .. } | MemberChange::Invite { .. } => {
            ConfChangeType::AddLearnerNode
        }
        MemberChange::Add { .. } | MemberChange::Promote(_) => ConfChangeType::AddNode,
        MemberChange::Remove(_) => ConfChangeType::RemoveNode,
        MemberChange::Update { .. } => unreachable!("a new address does not concern raft"),
    };
    let mut single = ConfChangeSingle { node_id: change.member().0, ..Default::default() };
    single.set_change_type(kind);
    let mut joint = ConfChangeV2::default();
    joint.set_transition(ConfChangeTransition::Explicit);
    joint.set_changes(vec![single].into());
    joint
}

/// The second half, which raft-rs knows by its being empty.
pub(super) fn end_of_change() -> ConfChangeV2 {
    ConfChangeV2::default()
}

pub(super) fn hard_state_out(state: &RaftHardState) -> HardState {
    HardState {
        term: Term(state.term),
        vote: (state.vote != raft::INVALID_ID).then_some(MemberId(state.vote)),
        commit: state.commit,
    }
}

pub(super) fn hard_state_in(state: HardState) -> RaftHardState {
    RaftHardState {
        term: state.term.0,
        vote: state.vote.map_or(raft::INVALID_ID, |member| member.0),
        commit: state.commit,
        ..RaftHardState::default()
    }
}

pub(super) fn conf_state(mark: &SnapshotMark) -> ConfState {
    ConfState {
        voters: mark.voters.iter().map(|member| member.0).collect(),
        learners: mark.learners.iter().map(|member| member.0).collect(),
        voters_outgoing: mark.outgoing.iter().map(|member| member.0).collect(),
        ..ConfState::default()
    }
}

pub(super) fn snapshot_of(mark: &SnapshotMark) -> Snapshot {
    let mut metadata =
        SnapshotMetadata { index: mark.index, term: mark.term.0, ..SnapshotMetadata::default() };
    metadata.set_conf_state(conf_state(mark));
    let mut snapshot = Snapshot::default();
    snapshot.set_metadata(metadata);
    snapshot
}

pub(super) fn mark_of(snapshot: &Snapshot) -> SnapshotMark {
    let metadata = snapshot.get_metadata();
    mark_at(metadata.index, Term(metadata.term), metadata.get_conf_state())
}

/// The mark of a snapshot that is taken under this configuration.
pub(super) fn mark_at(index: LogIndex, term: Term, conf: &ConfState) -> SnapshotMark {
    let members = |ids: &[u64]| ids.iter().map(|id| MemberId(*id)).collect();
    SnapshotMark {
        index,
        term,
        voters: members(&conf.voters),
        learners: members(&conf.learners),
        outgoing: members(&conf.voters_outgoing),
    }
}

/// The pairs of message kinds that travel. Local kinds and forwarded proposals have none.
const KINDS: [(MessageType, RaftKind); 13] = [
    (MessageType::MsgAppend, RaftKind::Append),
    (MessageType::MsgAppendResponse, RaftKind::AppendResponse),
    (MessageType::MsgRequestVote, RaftKind::RequestVote),
    (MessageType::MsgRequestVoteResponse, RaftKind::RequestVoteResponse),
    (MessageType::MsgSnapshot, RaftKind::Snapshot),
    (MessageType::MsgHeartbeat, RaftKind::Heartbeat),
    (MessageType::MsgHeartbeatResponse, RaftKind::HeartbeatResponse),
    (MessageType::MsgTransferLeader, RaftKind::TransferLeader),
    (MessageType::MsgTimeoutNow, RaftKind::TimeoutNow),
    (MessageType::MsgReadIndex, RaftKind::ReadIndex),
    (MessageType::MsgReadIndexResp, RaftKind::ReadIndexResponse),
    (MessageType::MsgRequestPreVote, RaftKind::RequestPreVote),
    (MessageType::MsgRequestPreVoteResponse, RaftKind::RequestPreVoteResponse),
];

/// None for kinds that must not leave this member.
///
/// A read round's context travels in an entry inside raft-rs; here it is the message's context.
pub(super) fn message_out(mut message: RsMessage) -> Option<RaftMessage> {
    let (_, kind) = KINDS.iter().find(|(theirs, _)| *theirs == message.msg_type)?;
    let mut context = message.context;
    let mut entries: Vec<Entry> = message.entries.iter().map(entry_out).collect();
    if matches!(kind, RaftKind::ReadIndex | RaftKind::ReadIndexResponse) {
        context = entries.pop().map_or(context, |entry| entry.data);
    }
    Some(RaftMessage {
        kind: *kind,
        from: MemberId(message.from),
        to: MemberId(message.to),
        term: Term(message.term),
        log_term: Term(message.log_term),
        index: message.index,
        commit: message.commit,
        commit_term: Term(message.commit_term),
        reject: message.reject,
        reject_hint: message.reject_hint,
        request_snapshot: message.request_snapshot,
        priority: message.priority,
        entries,
        context,
        snapshot: message.snapshot.take().map(|snapshot| mark_of(&snapshot)),
    })
}

pub(super) fn message_in(message: RaftMessage) -> RsMessage {
    let (msg_type, _) = KINDS
        .iter()
        .find(|(_, ours)| *ours == message.kind)
        .expect("every kind of ours has its pair in the table");
    let mut translated = RsMessage {
        msg_type: *msg_type,
        from: message.from.0,
        to: message.to.0,
        term: message.term.0,
        log_term: message.log_term.0,
        index: message.index,
        commit: message.commit,
        commit_term: message.commit_term.0,
        reject: message.reject,
        reject_hint: message.reject_hint,
        request_snapshot: message.request_snapshot,
        priority: message.priority,
        ..RsMessage::default()
    };
    if matches!(message.kind, RaftKind::ReadIndex | RaftKind::ReadIndexResponse) {
        let entry = RaftEntry { data: message.context, ..RaftEntry::default() };
        translated.entries = vec![entry].into();
    } else {
        translated.context = message.context;
        translated.entries = message.entries.into_iter().map(entry_in).collect();
    }
    if let Some(mark) = &message.snapshot {
        translated.set_snapshot(snapshot_of(mark));
    }
    translated
}
