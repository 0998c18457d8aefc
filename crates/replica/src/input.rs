//! What a replica is told and what it asks its host to do.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{
    Alarm, Failure, KeyValue, LeaseId, LeaseStatus, Member, MemberId, Principal, Range,
    RangeResult, Revision, Term, Txn, TxnResult,
};

use crate::{
    Moment,
    auth::{AuthEvent, Need, Permission, Secret},
    command::{Command, MemberChange},
    election::listeners::{Listener, ListenerEvent, ListenerInput},
    log::{LogIndex, Persist, SnapshotMark},
    message::{Message, RaftMessage},
    mvcc::Store,
    raft::RefusedMessage,
    replica::{ElectionSummary, ElectionView, SessionsView},
    snapshot::Snapshot,
    state::{Outcome, State},
    watch::{WatchInput, WatchNews},
};

/// A request, numbered by the host. Every number gets exactly one answer.
pub type RequestId = u64;

/// Something that happened.
#[derive(Debug)]
pub enum Input {
    /// Nothing but time.
    Wake,
    /// A client asks.
    Request(RequestId, Request),
    /// A watch stream asks.
    Watch(WatchInput),
    /// A listener subscribes or unsubscribes.
    Election(Principal, ListenerInput),
    /// A member sends a message.
    Message {
        /// The sender.
        from: MemberId,
        /// The message.
        message: Message,
        /// When it reached this process. A slow member handles it later, and what the sender knew is as old as this.
        arrived: Moment,
    },
    /// The disk has every write up to this number.
    Persisted(u64),
    /// The snapshot asked for by [`Effects::take_snapshot`] is durable.
    SnapshotSaved(SnapshotMark),
    /// It could not be written; the log stays as it is.
    SnapshotFailed,
    /// A snapshot came from the raft leader, and its file is durable.
    SnapshotArrived(RaftMessage, Box<State>),
    /// A snapshot sent to a member has arrived, or not.
    SnapshotSent(MemberId, bool),
    /// A member is there: what is sent to it goes out. [`presence`](crate::presence) has the rules.
    Connected(MemberId),
    /// A member's connection ended by EOF or reset: its process is most likely gone. If it is not,
    /// [`Input::Connected`] follows when the connection stands again.
    Lost(MemberId),
    /// This member will stop soon: another member shall lead.
    HandOver,
    /// The checksum of the state frozen by [`Effects::audit`].
    Audited(LogIndex, u64),
    /// It could not be reckoned; this member stays out of that audit.
    AuditFailed,
    /// Another member says that this one was removed, and is not needed any more.
    Removed,
}

/// A request and its principal.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The principal that asks.
    pub by: Principal,
    /// What.
    pub op: Operation,
}

impl Request {
    /// By a client without an identity.
    pub fn anonymous(op: Operation) -> Request {
        Request { by: Principal::Anonymous, op }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Change the state.
    Write(Command),
    /// Compact, and answer only when the room is really free.
    CompactPhysically(Revision),
    /// Read the state: the newest that any member has acknowledged, or what this member has.
    Read(Read, Consistency),
    /// Make another member the raft leader.
    MoveLeader(MemberId),
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Not older than anything acknowledged before the read began.
    Linearizable,
    /// Whatever this member has.
    Serializable,
}

/// What to read.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// Keys.
    Range(Range),
    /// A transaction that cannot write.
    Txn(Txn),
    /// One lease, with its keys if asked for.
    Lease(LeaseId, bool),
    /// All leases.
    Leases,
    /// How long these leases live without a renewal, and how long they have left.
    LeaseTimes(Vec<LeaseId>),
    /// The members.
    Members,
    /// The alarms.
    Alarms,
    /// How far the raft leader, if this is it, knows the other members to be.
    Progress,
    /// The first key under a name.
    Leader(Bytes),
    /// All candidates under a name.
    Election(Bytes),
    /// The first elections whose names begin so, so many at the most, and how many sessions there are.
    Elections(Bytes, usize),
    /// All sessions.
    Sessions,
    /// Users and roles.
    Auth(AuthRead),
    /// Nothing: the answer only says that the principal has what is needed.
    Judged(Need),
    /// Nothing: the answer only proves that this member is up to date.
    Freshness,
    /// The whole store, frozen, for work that takes longer than the core loop may.
    Store,
    /// A snapshot of the whole state, with its position in the log.
    State,
}

/// What to read of users and roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthRead {
    /// Whether requests are judged, and how many changes there were.
    Status,
    /// The roles of a user.
    User(Arc<str>),
    /// The names of all users.
    Users,
    /// The permissions of a role.
    Role(Arc<str>),
    /// The names of all roles.
    Roles,
    /// The password of a user, to check one by: for the member itself.
    Password(Arc<str>),
}

/// What was found of users and roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthReply {
    /// Whether requests are judged, and how many changes there were.
    Status(bool, u64),
    /// Names of users or roles, in order.
    Names(Vec<Arc<str>>),
    /// The permissions of a role.
    Permissions(Vec<Permission>),
    /// What a password is checked by.
    Password(PasswordCheck),
}

/// What a password is checked by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordCheck {
    /// There is no such user.
    NoUser,
    /// The user has no password.
    NoPassword,
    /// The user's password, and since which revision it has it.
    Password(Secret, u64),
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// Which request.
    pub to: RequestId,
    /// The result, or why there is none.
    pub result: Result<Reply, Failure>,
    /// The store's revision at that time.
    pub revision: Revision,
    /// The raft term at that time.
    pub term: Term,
}

/// How far another member is, as the raft leader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProgress {
    /// Which member.
    pub member: MemberId,
    /// Up to where it has the log.
    pub matched: LogIndex,
    /// What it is sent next.
    pub next: LogIndex,
    /// It has answered lately.
    pub is_active: bool,
}

/// What a request found or did.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A write's outcome.
    Wrote(Outcome),
    /// A range.
    Range(RangeResult),
    /// A range over so large a store that it should be read beside the core loop.
    LargeRange(Store, Range),
    /// A transaction that only read.
    Txn(TxnResult),
    /// One over so large a store that it should be read beside the core loop.
    LargeTxn(Store, Txn),
    /// A lease as it stands; none if there is no such lease.
    Lease(Option<LeaseStatus>),
    /// All leases.
    Leases(Vec<LeaseId>),
    /// Time to live and time left of each lease that was asked for; none if there is no such lease.
    LeaseTimes(Vec<Option<(std::time::Duration, std::time::Duration)>>),
    /// The members.
    Members(Vec<Member>),
    /// The alarms.
    Alarms(Vec<Alarm>),
    /// How far other members are; none if this is not the raft leader.
    Progress(Vec<PeerProgress>),
    /// The leader's key, if there is a leader.
    Leader(Option<Arc<KeyValue>>),
    /// An election with all its candidates.
    Election(Box<ElectionView>),
    /// Elections, and how many sessions there are.
    Elections(Vec<ElectionSummary>, usize),
    /// Sessions.
    Sessions(Box<SessionsView>),
    /// Of users and roles.
    Auth(AuthReply),
    /// Done, or up to date, with nothing to tell.
    Done,
    /// The whole store, frozen.
    Store(Store),
    /// The whole state, frozen.
    State(Box<Snapshot>),
}

/// What the host must do now.
#[derive(Debug, Default)]
pub struct Effects {
    /// Write these, in order, durably; then hand in [`Input::Persisted`].
    pub persist: Vec<Persist>,
    /// Send these.
    pub messages: Vec<(MemberId, Message)>,
    /// Send each state with its message, beside the core loop; then hand in [`Input::SnapshotSent`].
    pub send_snapshots: Vec<(RaftMessage, Snapshot)>,
    /// Give these answers.
    pub answers: Vec<Answer>,
    /// Tell the watchers.
    pub watch: Vec<WatchNews>,
    /// Events for listeners, to be sent before any answer of the same call is given: a session must
    /// hear that a candidacy is gone before it hears that its later renewal was taken.
    pub elections: Vec<(Listener, ListenerEvent)>,
    /// Write this as a snapshot, beside the core loop; then hand in [`Input::SnapshotSaved`].
    pub take_snapshot: Option<Snapshot>,
    /// Reckon this state's [`State::digest`] beside the core loop; then hand in [`Input::Audited`], or
    /// [`Input::AuditFailed`].
    pub audit: Option<(LogIndex, State)>,
    /// Drop this beside the core loop: it may be large.
    pub discard: Option<Box<State>>,
    /// How many entries were applied.
    pub applied: usize,
    /// What changed of users and roles.
    pub auth: Vec<AuthEvent>,
    /// The time to live of each lease that was granted, in seconds.
    pub granted_ttls: Vec<i64>,
    /// How many began to lead.
    pub tenures_begun: u64,
    /// How long each candidate that was granted something had waited, by the clock for people.
    pub waited_ms: Vec<u64>,
    /// How long names with candidates had no leader, when they got one again; all together, by the
    /// clock for people.
    pub vacant_ms: u64,
    /// How long each former leader had led, by the clock for people.
    pub held_ms: Vec<u64>,
    /// What an operator may want to read.
    pub notices: Vec<Notice>,
    /// This member must stop at once.
    pub fatal: Option<Fatal>,
    /// Call again at this moment at the latest.
    pub wake_at: Moment,
}

/// Something worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Another raft leader, or none.
    Leader {
        /// The raft leader.
        leader: Option<MemberId>,
        /// Since which term.
        term: Term,
    },
    /// The raft leader's connection broke; an election begins without waiting for the timeout.
    LeaderLost(MemberId),
    /// This member leads and its disk stands still: it hands over.
    DiskStalled,
    /// Leases ran out.
    LeasesExpired(usize),
    /// The process did not run for a while; no lease is cut for it.
    Paused(std::time::Duration),
    /// A snapshot from the raft leader replaced the state.
    SnapshotInstalled(LogIndex),
    /// Every member can apply commands of this version now.
    ClusterVersion(u32),
    /// The store fills up.
    SpaceLow {
        /// Bytes it holds.
        used: u64,
        /// Bytes it may hold.
        quota: u64,
    },
    /// Something needs a person.
    AlarmRaised(Alarm),
    /// It is over.
    AlarmLowered(Alarm),
    /// Members hold different states at the same entry of the log.
    Differs {
        /// The entry.
        index: LogIndex,
        /// The members that differ from the majority; if there is none, from the raft leader.
        members: Vec<MemberId>,
        /// Whether a majority agrees on something else.
        outvoted: bool,
    },
    /// A change of the members has begun; both majorities count until it is done.
    ChangeBegun(MemberChange),
    /// It is done.
    ChangeDone(MemberChange),
    /// A message of a member was refused: it is of no sound member, and changed nothing.
    MessageRefused(MemberId, RefusedMessage),
    /// This member has not caught up with the raft leader since it started.
    CatchingUp {
        /// Up to where it has applied the log.
        applied: LogIndex,
        /// Up to where the raft leader has committed it, as far as is known here.
        goal: LogIndex,
    },
    /// Now it has.
    CaughtUp(LogIndex),
}

/// Why a member cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// The log holds something that this build cannot read.
    #[error(
        "log entry {index} cannot be read ({cause}): the log is damaged or was written by a newer version"
    )]
    UnreadableEntry {
        /// Where.
        index: LogIndex,
        /// How.
        cause: crate::codec::DecodeError,
    },
    /// The cluster goes on without this member.
    #[error("this member was removed from the cluster")]
    Removed,
}
