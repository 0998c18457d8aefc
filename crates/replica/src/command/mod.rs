//! Commands: the only things that change replicated state.
//!
//! A command is data. What it does is decided by [`State::apply`](crate::state::State::apply), the
//! same on every member. Each kind belongs to a *command version*; a raft leader proposes a kind
//! only once every member has said that it knows that version (the cluster version), so that no
//! member ever meets a command it cannot read.

mod auth;
mod batch;
mod bytes;
mod election;
#[cfg(test)]
mod golden;
mod members;
mod ops;
mod space;

pub use tenure_api::JoinSpec;
use tenure_api::{Alarm, DeleteRange, LeaseId, MemberId, Put, Revision, Term, Txn};

pub use self::{
    auth::AuthCommand,
    batch::{Attributed, Batch},
    election::{
        AdminCommand, ElectionCommand, Overdue, SessionEnding, SessionRequest, StopCause, Successor,
    },
    members::{ChangeRefusal, MemberChange},
    space::Lane,
};
pub(crate) use self::{
    batch::{
        BatchNumber, COMMANDS_MAX, EntryClock, decode_entry, encode_attributed, encode_batch_head,
        encode_entry,
    },
    election::{pairs, put_pairs},
};
use crate::log::LogIndex;

/// The newest command version that this build can apply.
pub const COMMAND_VERSION: u32 = 9;
/// The version that brought elections and locks. Lines are kept from it on.
pub const ELECTIONS_SINCE: u32 = 3;
/// The version from which on the raft leader vouches for its own disk. It brings no command: every member must know that a
/// read may have to wait for more than what the raft leader knows to be committed.
pub(crate) const VOUCHES_SINCE: u32 = 4;
/// The version from which on members can be invited.
pub(crate) const INVITES_SINCE: u32 = 5;
/// The version from which on entries tell how much time was lost.
pub(crate) const LOST_TIME_SINCE: u32 = 6;
/// The version from which on commands carry their principal.
pub(crate) const PRINCIPALS_SINCE: u32 = 7;
/// The version from which on a lease can be ended on condition that it is unused.
pub const UNUSED_LEASES_SINCE: u32 = 7;
/// The version from which on a guardian may say why it has ended a session.
pub const STOP_CAUSES_SINCE: u32 = 8;
/// The version from which on there can be users and roles.
pub const USERS_SINCE: u32 = 9;
/// The version from which on sessions have secrets.
pub const SESSION_SECRETS_SINCE: u32 = 9;
/// The version from which on apply refuses what costs too much: a transaction whose answer could be too large, a lease too many.
pub const COST_LIMITS_SINCE: u32 = 9;

/// A change to replicated state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Write a key.
    Put(Put),
    /// Delete keys.
    DeleteRange(DeleteRange),
    /// A transaction that may write.
    Txn(Txn),
    /// Forget what was overwritten or deleted before a revision.
    Compact(Revision),
    /// Create a lease.
    LeaseGrant {
        /// Its id, chosen before proposing so that apply stays a pure function.
        id: LeaseId,
        /// How long it lives without renewal.
        ttl_secs: i64,
    },
    /// End a lease because its owner says so. Unconditional.
    LeaseRevoke(LeaseId),
    /// End a lease with this TTL if no key is on it; otherwise there is no such lease.
    LeaseEndUnused {
        /// Which.
        id: LeaseId,
        /// A lease that was granted with another TTL is not the one that is meant.
        ttl_secs: i64,
    },
    /// A sign of life from a lease's owner. Takes no revision.
    LeaseRenew(LeaseId),
    /// End leases that ran out on the clock of this term's raft leader. In another term the verdict is
    /// void: the next raft leader gives back the time in which no lease could be renewed.
    LeaseExpire(Term, Vec<Expiry>),
    /// A member publishes its name, addresses and abilities.
    Publish {
        /// Which member.
        member: MemberId,
        /// Its human name.
        name: String,
        /// Where clients reach it.
        client_urls: Vec<String>,
        /// The newest command version it can apply.
        command_version: u32,
        /// The number of its data directory. A member that comes back with another one has forgotten
        /// its votes, and no member may talk to it.
        directory: u64,
    },
    /// Every member can apply commands of this version.
    ClusterVersion(u32),
    /// The list of members becomes another. What concerns raft stands alone in its batch, and the
    /// batch alone in an entry of the kind [`Membership`](crate::log::EntryKind::Membership).
    Members(MemberChange),
    /// A change of members that the raft leader did not take up, in place of that change.
    MembersRefused(ChangeRefusal),
    /// A member that was removed is not needed any more. Proposed when the removal is committed: a member that
    /// has this entry on its disk also has there that the removal is committed.
    LetGo(MemberId),
    /// An alarm goes off.
    RaiseAlarm(Alarm),
    /// An alarm is over.
    LowerAlarm(Alarm),
    /// Every member reckons a checksum of its whole state as it is here; see
    /// [`audit`](crate::replica).
    Audit,
    /// Something about sessions, elections and locks.
    Election(ElectionCommand),
    /// Something about users and roles.
    Auth(AuthCommand),
}

/// A lease found dead, and what its judge knew.
///
/// Apply refuses the expiry if the lease was renewed since: a raft leader that stood still must not
/// revoke leases on the strength of an old view (etcd once lost every lease of a cluster that way).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The lease.
    pub id: LeaseId,
    /// The log index of the last renewal (or the grant) that the judge had applied.
    pub renewed_at: LogIndex,
}

impl Command {
    /// The command version that brought this kind.
    pub fn since_version(&self) -> u32 {
        match self {
            Command::Put(_)
            | Command::DeleteRange(_)
            | Command::Txn(_)
            | Command::Compact(_)
            | Command::LeaseGrant { .. }
            | Command::LeaseRevoke(_)
            | Command::LeaseRenew(_)
            | Command::LeaseExpire(..)
            | Command::Publish { .. }
            | Command::ClusterVersion(_) => 1,
            Command::LeaseEndUnused { .. } => UNUSED_LEASES_SINCE,
            Command::Members(MemberChange::Invite { .. }) => INVITES_SINCE,
            Command::Members(_)
            | Command::MembersRefused(_)
            | Command::LetGo(_)
            | Command::RaiseAlarm(_)
            | Command::LowerAlarm(_)
            | Command::Audit => 2,
            Command::Election(command) if command.secret().is_some() => SESSION_SECRETS_SINCE,
            Command::Election(ElectionCommand::End { how: SessionEnding::Guarded(_), .. }) => {
                STOP_CAUSES_SINCE
            }
            Command::Election(_) => ELECTIONS_SINCE,
            Command::Auth(_) => USERS_SINCE,
        }
    }

    /// Whether this is a change of members that raft must know of.
    pub fn concerns_raft(&self) -> bool {
        matches!(self, Command::Members(change) if change.concerns_raft())
    }
}
