//! The replicated state, and the one function that changes it.
//!
//! `apply` is a function of (state, log index, command): it reads no clock, draws no chance, and
//! does the same on every member. What a member must do beside it (watchers to tell, deadlines to
//! restart) is handed out as [`ApplyEffects`].

mod permit;
mod replay;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use imbl::{OrdMap, OrdSet};
use tenure_api::{
    Alarm, AlarmKind, DeleteRangeResult, Failure, GrantedLease, LeaseId, Member, MemberId,
    Principal, PutResult, Revision, Span, Term, TxnResult,
};

pub use self::replay::{Applied, EntryContent};
use crate::{
    auth::{Auth, AuthEvent},
    command::{
        AuthCommand, Batch, COST_LIMITS_SINCE, Command, ELECTIONS_SINCE, ElectionCommand,
        MemberChange, PRINCIPALS_SINCE,
    },
    election::{ElectionEvent, ElectionOp, ElectionOutcome, Elections, Refusal, Transition},
    lease::{LEASE_BYTES, LEASES_MAX, Lease, Leases, SESSION_BYTES},
    log::LogIndex,
    mvcc::{Change, Store, TXN_ANSWER_BYTES_MAX},
};

/// Everything that all members agree on. Cloning is O(1): a clone is a frozen picture that can be
/// written out elsewhere while the original goes on.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Keys and their history.
    pub store: Store,
    /// Leases and the keys on them.
    pub leases: Leases,
    /// Sessions, elections and locks.
    pub elections: Elections,
    /// The members. The voters and the learners follow from this list: raft's own configuration is
    /// changed by the same entries (`membership.rs`).
    pub members: OrdMap<MemberId, Member>,
    /// Learners that get a vote by themselves when they have caught up.
    pub invited: OrdSet<MemberId>,
    /// Those that were members once. None of them comes back, and no id is given twice.
    pub removed: OrdSet<MemberId>,
    /// Those of them that may still be needed, and must not be told yet.
    pub departing: OrdMap<MemberId, Member>,
    /// The change that is under way: both majorities, before and after it, must agree until it is
    /// done.
    pub change: Option<MemberChange>,
    /// What each member said it can apply.
    pub command_versions: OrdMap<MemberId, u32>,
    /// The number of each member's data directory.
    pub directories: OrdMap<MemberId, u64>,
    /// The command version every member can apply.
    pub cluster_version: u32,
    /// The last batch applied of each member's newest life.
    pub origins: OrdMap<MemberId, Origin>,
    /// What needs a person.
    pub alarms: OrdSet<Alarm>,
    /// Users and roles.
    pub auth: Auth,
}

/// Up to where a member's batches were applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The member's life.
    pub boot: u64,
    /// The last batch of it.
    pub sequence: u64,
}

/// What a command answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A put.
    Put(PutResult),
    /// A deletion.
    DeleteRange(DeleteRangeResult),
    /// A transaction.
    Txn(TxnResult),
    /// A lease granted or renewed.
    Lease(GrantedLease),
    /// The members, after a change of them.
    Members(Vec<Member>),
    /// What a session or an operator asked, or why not.
    Election(Result<ElectionOutcome, Refusal>),
    /// A user logged in; the entry of the log, which is part of its token.
    LoggedIn(LogIndex),
    /// Done, with nothing to tell.
    Done,
}

/// A command's position in the log.
#[derive(Clone, Copy, Debug)]
pub struct EntryContext {
    /// The entry.
    pub index: LogIndex,
    /// The term in which it was put there.
    pub term: Term,
    /// The clock of the raft leader that proposed it, in milliseconds since 1970. For people: nothing is decided
    /// by it but where a new cluster with old data begins.
    pub ms: u64,
}

/// What happened beside the answers, for this member's own bookkeeping.
#[derive(Debug, Default)]
pub struct ApplyEffects {
    /// Changes of the store, in order, for the watchers.
    pub changes: Vec<Change>,
    /// Leases that were granted or renewed: their TTL starts anew, here and now.
    pub restarted: Vec<LeaseId>,
    /// Leases that are gone.
    pub ended: Vec<LeaseId>,
    /// Expiries that were refused because the lease was renewed since.
    pub refused_expiries: Vec<LeaseId>,
    /// What happened in elections and to sessions, in order.
    pub elections: Vec<ElectionEvent>,
    /// The state is to be compared with the other members' as it is after this entry.
    pub audited_at: Option<LogIndex>,
    /// What changed of users and roles, in order.
    pub auth: Vec<AuthEvent>,
    /// The store's revision when the last command had been done, before the elections were settled.
    pub done_at: Revision,
}

impl State {
    /// How long a lease lives without a sign of life.
    pub fn time_to_live(&self, lease: LeaseId) -> Option<Duration> {
        let secs = self.leases.get(lease)?.ttl_secs.max(1) as u64;
        Some(match self.elections.session(lease) {
            Some(session) => Duration::from_millis(session.ttl_ms),
            None => Duration::from_secs(secs),
        })
    }

    /// The state of a cluster that has done nothing yet.
    pub fn new(members: impl IntoIterator<Item = Member>) -> State {
        State {
            store: Store::new(),
            members: members.into_iter().map(|member| (member.id, member)).collect(),
            cluster_version: 1,
            ..State::default()
        }
    }

    /// Whether this batch is the next of its origin. Anything else was applied before, or overtook
    /// one that must come first and will be sent again.
    ///
    /// Batches of those that are no members (any more) are not: their numbers are forgotten.
    pub fn admits(&mut self, batch: &Batch) -> bool {
        if !self.members.contains_key(&batch.origin) {
            return false;
        }
        let next = match self.origins.get(&batch.origin) {
            Some(last) if last.boot == batch.boot => last.sequence + 1,
            Some(last) if last.boot > batch.boot => return false,
            _ => 1,
        };
        let again = canary!(BatchTwice) && batch.sequence + 1 == next;
        if batch.sequence != next && !again {
            return false;
        }
        let origin = Origin { boot: batch.boot, sequence: batch.sequence };
        self.origins.insert(batch.origin, origin);
        true
    }

    /// Applies one command of this principal, which is in the log at this position.
    pub fn apply(
        &mut self,
        at: EntryContext,
        by: &Principal,
        command: &Command,
        effects: &mut ApplyEffects,
    ) -> Result<Outcome, Failure> {
        self.permit(by, command)?;
        // Members of different releases must decide alike.
        let limited = self.cluster_version >= COST_LIMITS_SINCE;
        let index = at.index;
        if self.is_full() && command.needs_room() {
            return Err(Failure::NoSpace);
        }
        let is_new = matches!(
            command,
            Command::LeaseGrant { .. } | Command::Election(ElectionCommand::Open { .. })
        );
        if is_new && limited && self.leases.len() >= LEASES_MAX {
            return Err(Failure::TooManyRequests);
        }
        match command {
            Command::Put(put) => {
                let leases = &self.leases;
                let (result, change) = self.store.put(put, &|lease| leases.contains(lease))?;
                self.keys_changed(at, change, effects);
                Ok(Outcome::Put(result))
            }
            Command::DeleteRange(delete) => {
                let (result, change) = self.store.delete_range(delete);
                self.keys_changed(at, change, effects);
                Ok(Outcome::DeleteRange(result))
            }
            Command::Txn(txn) => {
                let leases = &self.leases;
                let most = if limited { TXN_ANSWER_BYTES_MAX } else { usize::MAX };
                let lives = |lease| leases.contains(lease);
                let (result, change) = self.store.txn(txn, &lives, most)?;
                self.keys_changed(at, change, effects);
                Ok(Outcome::Txn(result))
            }
            Command::Compact(revision) => {
                self.store.compact(*revision)?;
                Ok(Outcome::Done)
            }
            Command::LeaseGrant { id, ttl_secs } => {
                let ttl_secs = self.leases.grant(*id, *ttl_secs, index)?;
                Ok(restart(GrantedLease { id: *id, ttl_secs }, effects))
            }
            Command::LeaseRenew(id) => {
                let ttl_secs = self.leases.renew(*id, index)?;
                Ok(restart(GrantedLease { id: *id, ttl_secs }, effects))
            }
            Command::LeaseRevoke(id) => {
                let keys = self.leases.revoke(*id)?;
                let _ = self.elect(at, ElectionOp::LeaseRevoked(*id, keys), effects);
                Ok(Outcome::Done)
            }
            Command::LeaseEndUnused { id, ttl_secs } => {
                let is_meant =
                    |lease: &&Lease| lease.keys.is_empty() && lease.ttl_secs == *ttl_secs;
                self.leases.get(*id).filter(is_meant).ok_or(Failure::LeaseNotFound)?;
                let keys = self.leases.revoke(*id)?;
                let _ = self.elect(at, ElectionOp::LeaseRevoked(*id, keys), effects);
                Ok(Outcome::Done)
            }
            Command::LeaseExpire(judged_in, expiries) => {
                let _ = self.elect(at, ElectionOp::LeasesExpired(*judged_in, expiries), effects);
                Ok(Outcome::Done)
            }
            Command::Publish { member, name, client_urls, command_version, directory } => {
                if let Some(known) = self.members.get_mut(member) {
                    known.name.clone_from(name);
                    known.client_urls.clone_from(client_urls);
                    self.command_versions.insert(*member, *command_version);
                    self.directories.insert(*member, *directory);
                }
                Ok(Outcome::Done)
            }
            Command::ClusterVersion(version) => {
                let before = self.cluster_version;
                self.cluster_version = before.max(*version);
                if before < ELECTIONS_SINCE && self.cluster_version >= ELECTIONS_SINCE {
                    let _ = self.elect(at, ElectionOp::Begin, effects);
                }
                Ok(Outcome::Done)
            }
            Command::RaiseAlarm(alarm) => {
                // An operator may name no member, as in etcd. Such an alarm stays until it is lowered.
                let is_nobodys =
                    alarm.member == MemberId(0) && self.cluster_version >= PRINCIPALS_SINCE;
                if !is_nobodys && !self.members.contains_key(&alarm.member) {
                    return Err(Failure::MemberNotFound);
                }
                self.alarms.insert(*alarm);
                Ok(Outcome::Done)
            }
            Command::LowerAlarm(alarm) => {
                self.alarms.remove(alarm);
                Ok(Outcome::Done)
            }
            Command::Audit => {
                effects.audited_at = Some(index);
                Ok(Outcome::Done)
            }
            Command::Members(MemberChange::Update { id, peer_urls }) => {
                self.update_member(*id, peer_urls)?;
                Ok(Outcome::Members(self.members()))
            }
            Command::Election(command) => {
                let owned = self.owned(by, command);
                let command = owned.as_ref().unwrap_or(command);
                let outcome = self.elect(at, ElectionOp::Command(command), effects);
                if outcome.is_ok() {
                    self.keep_owner(by, command);
                }
                Ok(Outcome::Election(outcome))
            }
            Command::Auth(command) => {
                effects.auth.extend(self.auth.change(command, index)?);
                Ok(match command {
                    AuthCommand::LogIn { .. } => Outcome::LoggedIn(index),
                    _ => Outcome::Done,
                })
            }
            // What concerns raft comes by `begin_change`; in an ordinary entry it was not taken up.
            Command::Members(_) => Err(Failure::ChangeUnderWay),
            Command::MembersRefused(refusal) => Err(refusal.failure()),
            Command::LetGo(member) => {
                self.departing.remove(member);
                Ok(Outcome::Done)
            }
        }
    }

    /// What a client changed, and what follows from it for leases and elections.
    fn keys_changed(
        &mut self,
        at: EntryContext,
        change: impl Into<Option<Change>>,
        effects: &mut ApplyEffects,
    ) {
        effects.done_at = self.store.revision();
        let _ = self.elect(at, ElectionOp::KeysChanged(change.into()), effects);
    }

    /// The command as this user may give it: the identity that its session shows begins with its name, so that no leader
    /// shows another's.
    fn owned(&self, by: &Principal, command: &ElectionCommand) -> Option<ElectionCommand> {
        let ElectionCommand::Open { id, ttl_ms, identity, fast_release, by: mark, secret } =
            command
        else {
            return None;
        };
        let name = self.owner(by)?;
        let begins = format!("{name}/");
        (!identity.starts_with(&begins)).then(|| ElectionCommand::Open {
            id: *id,
            ttl_ms: *ttl_ms,
            identity: begins + identity,
            fast_release: *fast_release,
            by: *mark,
            secret: *secret,
        })
    }

    /// A session belongs to the user that opened it, or that was the first to come back to it once there were users.
    fn keep_owner(&mut self, by: &Principal, command: &ElectionCommand) {
        if let (ElectionCommand::Open { id, .. } | ElectionCommand::Attach { id, .. }, Some(name)) =
            (command, self.owner(by))
        {
            self.elections.keep_owner(*id, name);
        }
    }

    fn owner<'a>(&self, by: &'a Principal) -> Option<&'a Arc<str>> {
        match by {
            Principal::User { name, .. } if self.auth.is_enabled() => Some(name),
            _ => None,
        }
    }

    fn elect(
        &mut self,
        at: EntryContext,
        op: ElectionOp<'_>,
        effects: &mut ApplyEffects,
    ) -> Result<ElectionOutcome, Refusal> {
        let keeps_elections = self.cluster_version >= ELECTIONS_SINCE;
        let keys = (&mut self.store, &mut self.leases);
        Transition::new(&mut self.elections, keys, keeps_elections, at, effects).apply(op)
    }

    /// Elections as they follow from the keys alone, for a state that was put together by other means
    /// than commands.
    pub fn elections_from_keys(&mut self) {
        if self.cluster_version >= ELECTIONS_SINCE {
            // Past leaders are not among the keys.
            self.elections.forget_until(self.store.revision());
            let at = EntryContext { index: 0, term: Term(0), ms: 0 };
            let _ = self.elect(at, ElectionOp::Begin, &mut ApplyEffects::default());
        }
    }

    /// What counts against the quota: keys with their history, leases and sessions.
    pub fn size_bytes(&self) -> u64 {
        let sessions = self.elections.session_count() * SESSION_BYTES;
        self.store.size_bytes() + (self.leases.len() * LEASE_BYTES + sessions) as u64
    }

    /// Whether some member has no room for more.
    pub fn is_full(&self) -> bool {
        self.alarms.iter().any(|alarm| alarm.kind == AlarmKind::NoSpace)
    }

    /// Whether this member was found to differ from the others.
    pub fn is_corrupt(&self, member: MemberId) -> bool {
        self.alarms.contains(&Alarm { member, kind: AlarmKind::Corrupt })
    }

    /// The command version that every member has said it can apply; none while one has not spoken.
    pub fn common_version(&self) -> Option<u32> {
        let versions: Option<Vec<u32>> =
            self.members.keys().map(|member| self.command_versions.get(member).copied()).collect();
        versions?.into_iter().min()
    }

    /// Ties the keys of a store that was just read to their leases.
    pub(crate) fn keys_onto_leases(&mut self) {
        for kv in self.store.live_in(&Span::From(Bytes::new())) {
            if let Some(lease) = kv.lease {
                self.leases.attach(lease, kv.key.clone());
            }
        }
    }
}

fn restart(lease: GrantedLease, effects: &mut ApplyEffects) -> Outcome {
    effects.restarted.push(lease.id);
    Outcome::Lease(lease)
}
