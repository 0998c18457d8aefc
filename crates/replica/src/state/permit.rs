//! What each operation needs, and whether its principal has it.
//!
//! Asked in apply, where every member knows the same: a right that is withdrawn ends at one place in the log, and a request
//! that was on its way meanwhile is refused by all members alike. A change of the members that concerns raft is the exception:
//! its entry cannot be refused any more, so the raft leader asks before it proposes. Reads are judged on the state they
//! read, streams when they begin and whenever users or roles change.
//!
//! Everything that is not named here needs the role root.

use bytes::Bytes;
use tenure_api::{
    DeleteRange, Failure, LeaseId, Op, Principal, Put, Range, Span, Txn, op::PutLease,
};

use super::State;
use crate::{
    auth::{Caller, Need},
    command::{AdminCommand, AuthCommand, Command, ElectionCommand, SessionRequest},
    election::listeners::ListenerInput,
    input::{AuthRead, Read},
};

impl State {
    /// Whether this principal may do this.
    pub(crate) fn permit(&self, by: &Principal, command: &Command) -> Result<(), Failure> {
        if !self.auth.is_enabled() {
            return Ok(());
        }
        let gone = match command {
            Command::Compact(_)
            | Command::Members(_)
            | Command::RaiseAlarm(_)
            | Command::LowerAlarm(_)
            | Command::Auth(_) => Failure::UserNotFound,
            _ => Failure::PermissionDenied,
        };
        let caller = self.auth.caller(by, gone)?;
        match command {
            Command::Put(put) => self.permit_put(caller, put),
            Command::DeleteRange(delete) => permit_delete(caller, delete),
            Command::Txn(txn) => self.permit_txn(caller, txn),
            Command::LeaseGrant { .. } => Ok(()),
            Command::LeaseRevoke(lease) | Command::LeaseRenew(lease) => {
                self.permit_lease(caller, *lease)
            }
            Command::Election(command) => self.permit_election(caller, command),
            // Only the member itself may say so: it has checked the password, or was told to by an operator at its machine.
            Command::Auth(AuthCommand::LogIn { .. } | AuthCommand::Recover { .. })
            | Command::LeaseEndUnused { .. }
            | Command::LeaseExpire(..)
            | Command::Publish { .. }
            | Command::ClusterVersion(_)
            | Command::MembersRefused(_)
            | Command::LetGo(_)
            | Command::Audit => match caller {
                Caller::Free => Ok(()),
                Caller::User(..) => Err(Failure::PermissionDenied),
            },
            Command::Compact(_)
            | Command::Members(_)
            | Command::RaiseAlarm(_)
            | Command::LowerAlarm(_)
            | Command::Auth(_) => caller.root(),
        }
    }

    /// Whether this principal may read this.
    pub(crate) fn permit_read(&self, by: &Principal, read: &Read) -> Result<(), Failure> {
        if !self.auth.is_enabled() {
            return Ok(());
        }
        let need = match read {
            Read::Freshness => Need::Nothing,
            Read::Judged(need) => need.clone(),
            Read::Store | Read::State => Need::Root,
            Read::Members
            | Read::Alarms
            | Read::Progress
            | Read::LeaseTimes(_)
            // The answer has only what the principal may see.
            | Read::Sessions => Need::User,
            Read::Leader(name) | Read::Election(name) => Need::Observe(name.clone()),
            Read::Auth(read) => return self.permit_auth_read(by, read),
            Read::Range(_)
            | Read::Txn(_)
            | Read::Lease(..)
            | Read::Leases
            | Read::Elections(..) => {
                let caller = self.auth.caller(by, Failure::PermissionDenied)?;
                return match read {
                    Read::Range(range) => caller.read(&range.span),
                    Read::Txn(txn) => self.permit_txn(caller, txn),
                    Read::Elections(prefix, _) => caller.read(&Span::prefix(prefix.clone())),
                    Read::Lease(id, true) => match self.leases.get(*id) {
                        Some(lease) => caller.read_all(&lease.keys),
                        None => Ok(()),
                    },
                    Read::Leases if !caller.is_root() => {
                        self.leases.iter().try_for_each(|(_, lease)| caller.read_all(&lease.keys))
                    }
                    _ => Ok(()),
                };
            }
        };
        self.auth.may(by, &need)
    }

    fn permit_auth_read(&self, by: &Principal, read: &AuthRead) -> Result<(), Failure> {
        let caller = self.auth.caller(by, Failure::UserNotFound)?;
        let is_own = match read {
            AuthRead::User(name) => caller.is(name),
            AuthRead::Role(name) => match (&caller, by) {
                (Caller::User(..), Principal::User { name: user, .. }) => {
                    self.auth.user(user).is_some_and(|user| user.roles.contains(name))
                }
                _ => false,
            },
            AuthRead::Status | AuthRead::Users | AuthRead::Roles => false,
            // For the member itself, which checks a password.
            AuthRead::Password(_) => {
                return match caller {
                    Caller::Free => Ok(()),
                    Caller::User(..) => Err(Failure::PermissionDenied),
                };
            }
        };
        if is_own { Ok(()) } else { caller.root() }
    }

    /// Whether this principal may watch these keys.
    pub(crate) fn permit_watch(&self, by: &Principal, span: &Span) -> Result<(), Failure> {
        if !self.auth.is_enabled() {
            return Ok(());
        }
        self.auth.caller(by, Failure::PermissionDenied)?.read(span)
    }

    /// Whether this principal may listen to this.
    pub(crate) fn permit_listen(&self, by: &Principal, to: &ListenerInput) -> Result<(), Failure> {
        match to {
            ListenerInput::Await { name, .. } | ListenerInput::Observe { name, .. } => {
                self.may(by, &Need::Observe(name.clone()))
            }
            ListenerInput::Attach { session, .. } => self.permit_attached(by, *session),
            ListenerInput::Close(_) => Ok(()),
        }
    }

    /// Whether this principal may hear of a session. Before it is opened there is none.
    pub(crate) fn permit_attached(&self, by: &Principal, id: LeaseId) -> Result<(), Failure> {
        if !self.auth.is_enabled() {
            return Ok(());
        }
        let caller = self.auth.caller(by, Failure::PermissionDenied)?;
        match self.elections.session(id).and_then(|session| session.owner.as_deref()) {
            Some(owner) if !caller.is(owner) => caller.root(),
            _ => Ok(()),
        }
    }

    /// Whether this principal has what is needed.
    pub fn may(&self, by: &Principal, need: &Need) -> Result<(), Failure> {
        self.auth.may(by, need)
    }

    fn permit_put(&self, caller: Caller<'_>, put: &Put) -> Result<(), Failure> {
        let key = Span::One(put.key.clone());
        caller.write(&key)?;
        if let PutLease::Set(Some(lease)) = put.lease {
            self.permit_lease(caller, lease)?;
        }
        if put.prev_kv { caller.read(&key) } else { Ok(()) }
    }

    /// The keys of both branches, whichever will be taken, and those of the transactions inside.
    fn permit_txn(&self, caller: Caller<'_>, txn: &Txn) -> Result<(), Failure> {
        for compare in &txn.compare {
            caller.read(&compare.span)?;
        }
        for op in txn.success.iter().chain(&txn.failure) {
            match op {
                Op::Range(Range { span, .. }) => caller.read(span)?,
                Op::Put(put) => self.permit_put(caller, put)?,
                Op::DeleteRange(delete) => permit_delete(caller, delete)?,
                Op::Txn(inner) => self.permit_txn(caller, inner)?,
            }
        }
        Ok(())
    }

    /// To touch a lease is to decide about all keys on it. That of a session is its owner's.
    fn permit_lease(&self, caller: Caller<'_>, id: LeaseId) -> Result<(), Failure> {
        let Some(lease) = self.leases.get(id) else { return Ok(()) };
        match self.elections.session(id).and_then(|session| session.owner.as_deref()) {
            Some(owner) if !caller.is(owner) => caller.root(),
            _ => caller.write_all(&lease.keys),
        }
    }

    /// A session that was opened when there were no users has no owner: its lease decides.
    fn permit_session(&self, caller: Caller<'_>, id: LeaseId) -> Result<(), Failure> {
        match self.elections.session(id).and_then(|session| session.owner.as_deref()) {
            Some(owner) if caller.is(owner) => Ok(()),
            Some(_) => caller.root(),
            None => self.permit_lease(caller, id),
        }
    }

    fn permit_election(
        &self,
        caller: Caller<'_>,
        command: &ElectionCommand,
    ) -> Result<(), Failure> {
        match command {
            ElectionCommand::Open { .. } => Ok(()),
            ElectionCommand::Attach { id, .. } | ElectionCommand::End { id, .. } => {
                self.permit_session(caller, *id)
            }
            ElectionCommand::Request { session, request, .. } => {
                self.permit_session(caller, *session)?;
                match request {
                    SessionRequest::Join(join) => {
                        join.names.iter().try_for_each(|name| permit_campaign(caller, name))
                    }
                    SessionRequest::Proclaim { name, .. } => permit_campaign(caller, name),
                    // To go, and to say how one is, is always allowed.
                    SessionRequest::Leave { .. }
                    | SessionRequest::Health { .. }
                    | SessionRequest::Yield { .. } => Ok(()),
                }
            }
            ElectionCommand::Admin(command) => match command {
                AdminCommand::Transfer { name, .. }
                | AdminCommand::Evict { name, .. }
                | AdminCommand::Freeze(name)
                | AdminCommand::Resume(name) => caller.rule(name),
            },
            ElectionCommand::Overdue(..) => match caller {
                Caller::Free => Ok(()),
                Caller::User(..) => Err(Failure::PermissionDenied),
            },
        }
    }
}

fn permit_delete(caller: Caller<'_>, delete: &DeleteRange) -> Result<(), Failure> {
    caller.write(&delete.span)?;
    if delete.prev_kv { caller.read(&delete.span) } else { Ok(()) }
}

fn permit_campaign(caller: Caller<'_>, name: &Bytes) -> Result<(), Failure> {
    let keys = crate::auth::keys_of(name);
    caller.read(&keys)?;
    caller.write(&keys)
}
