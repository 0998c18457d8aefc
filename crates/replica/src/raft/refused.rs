//! Messages that no sound member sends, and that raft-rs must not see.
//!
//! raft-rs trusts its peers: a heartbeat that commits what is not in the log, an append with a gap or a number near the
//! largest one ends the process. Every message is checked here first; what is refused changes nothing. What a member
//! says that is possible but untrue (votes it did not write, entries it made up) cannot be told from the truth by any
//! check of one message: who may speak at all is decided by the transport.

use raft::StateRole;
use tenure_api::{MemberId, Term};

use super::Consensus;
use crate::{
    log::{LogIndex, SnapshotMark},
    message::{RaftKind, RaftMessage},
};

/// How far a term may be ahead of ours. A term takes an election timeout, so this is years of elections without us.
const TERMS_AHEAD_MAX: u64 = 1 << 32;
/// The highest index of a log. Numbers near the largest would overflow where raft-rs counts on.
const INDEX_MAX: LogIndex = 1 << 62;
/// The longest time that a raft leader may say to have been without a quorum, in milliseconds: a day.
const LEADER_ALONE_MS_MAX: LogIndex = 24 * 60 * 60 * 1000;

/// Why a message from a member was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedMessage {
    /// It is from or for another member than it was sent by or to.
    #[error("its sender or recipient is another one")]
    OtherMember,
    /// Its sender was removed, or is none of the members that may say this.
    #[error("its sender is no member that may say this")]
    NotMember,
    /// Only the raft leader says this, and another member leads in that term.
    #[error("another member leads in that term")]
    NotLeader,
    /// A kind that does not come this way.
    #[error("it does not come this way")]
    OutOfPlace,
    /// A term that no member can have.
    #[error("its term cannot be")]
    Term,
    /// An index that no log can have, or that this log does not.
    #[error("its index cannot be")]
    Index,
    /// Entries that do not follow one another.
    #[error("its entries do not follow one another")]
    Entries,
    /// A snapshot whose members cannot be.
    #[error("its snapshot has members that cannot be")]
    Snapshot,
    /// A batch that its sender cannot have made.
    #[error("its sender cannot have made this batch")]
    Batch,
}

impl Consensus {
    /// Whether raft may see this message. A message of an earlier term is let through: raft does nothing with it.
    pub(super) fn check(&self, message: &RaftMessage) -> Result<(), RefusedMessage> {
        let raft = &self.node.raft;
        if message.to != self.setup.me || message.from == self.setup.me {
            return Err(RefusedMessage::OtherMember);
        }
        check_numbers(message, self.term())?;
        let is_member = raft.prs().get(message.from.0).is_some();
        if !is_member && !may_come_from_others(message.kind) {
            return Err(RefusedMessage::NotMember);
        }
        if message.kind == RaftKind::Append {
            check_entries(message)?;
        }
        if message.kind == RaftKind::Snapshot {
            let mark = message.snapshot.as_ref().ok_or(RefusedMessage::OutOfPlace)?;
            if !is_sound(mark) || mark.term > message.term {
                return Err(RefusedMessage::Snapshot);
            }
        }
        if message.term < self.term() {
            return Ok(());
        }
        let is_same_term = message.term == self.term();
        let is_led_by_other = self.leader().is_some_and(|leader| leader != message.from);
        if is_of_leader(message.kind) && is_same_term && is_led_by_other {
            return Err(RefusedMessage::NotLeader);
        }
        let last = raft.raft_log.last_index();
        let claims_more = match message.kind {
            RaftKind::Heartbeat => message.commit > last,
            RaftKind::AppendResponse => {
                is_same_term
                    && raft.state == StateRole::Leader
                    && !message.reject
                    && message.index > last
            }
            _ => false,
        };
        if claims_more { Err(RefusedMessage::Index) } else { Ok(()) }
    }
}

/// A member that was away does not know one that was added since, which may lead now or stand for election.
fn may_come_from_others(kind: RaftKind) -> bool {
    is_of_leader(kind) || matches!(kind, RaftKind::RequestVote | RaftKind::RequestPreVote)
}

fn is_of_leader(kind: RaftKind) -> bool {
    use RaftKind::*;
    matches!(kind, Append | Heartbeat | Snapshot | TimeoutNow | ReadIndexResponse)
}

fn check_numbers(message: &RaftMessage, own: Term) -> Result<(), RefusedMessage> {
    // A member asks its own raft to transfer, and nothing here asks for priorities or for snapshots.
    if message.kind == RaftKind::TransferLeader
        || message.priority != 0
        || message.request_snapshot != 0
    {
        return Err(RefusedMessage::OutOfPlace);
    }
    // raft-rs takes a message without a term for one of this member's own. A question for the index has none.
    let has_term = message.kind != RaftKind::ReadIndex;
    let highest = Term(own.0.saturating_add(TERMS_AHEAD_MAX));
    let is_sound = if has_term { message.term.0 > 0 } else { message.term.0 == 0 };
    let within = if has_term { message.term } else { own };
    if !is_sound || message.term > highest || message.log_term.max(message.commit_term) > within {
        return Err(RefusedMessage::Term);
    }
    let index_max = match message.kind {
        RaftKind::Heartbeat => LEADER_ALONE_MS_MAX,
        _ => INDEX_MAX,
    };
    let others = message.commit.max(message.reject_hint);
    if message.index > index_max || others > INDEX_MAX {
        Err(RefusedMessage::Index)
    } else {
        Ok(())
    }
}

fn check_entries(message: &RaftMessage) -> Result<(), RefusedMessage> {
    // raft-rs says of an index beyond the log that its term is 0, and would take that for a match.
    if (message.index == 0) != (message.log_term.0 == 0) {
        return Err(RefusedMessage::Index);
    }
    let mut before = (message.index, message.log_term);
    for entry in &message.entries {
        if entry.index != before.0 + 1 || entry.term < before.1 || entry.term > message.term {
            return Err(RefusedMessage::Entries);
        }
        before = (entry.index, entry.term);
    }
    Ok(())
}

/// Whether these can be the members of a cluster: at least one votes, and none is named twice.
fn is_sound(mark: &SnapshotMark) -> bool {
    let distinct = |members: &[MemberId]| {
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.len() == members.len() && !members.contains(&MemberId(0))
    };
    let votes = |member| mark.voters.contains(member) || mark.outgoing.contains(member);
    !mark.voters.is_empty()
        && (1..=INDEX_MAX).contains(&mark.index)
        && mark.term.0 > 0
        && [&mark.voters, &mark.learners, &mark.outgoing].into_iter().all(|of| distinct(of))
        && !mark.learners.iter().any(votes)
}
