//! A checksum of the whole replicated state, to compare members by.

use crc32fast::Hasher;

use crate::{
    snapshot::{auth_chunks, queue_chunks, roll},
    state::State,
};

impl State {
    /// The checksum of everything that members agree on: equal on all of them at the same entry of the
    /// log. How far a member has come in freeing compacted versions does not show in it. It takes time
    /// in proportion to the state: call it on a clone.
    pub fn digest(&self) -> u64 {
        let mut hasher = Hasher::new();
        hasher.update(&roll(self));
        let mut record = Vec::new();
        for (id, lease) in self.leases.iter() {
            record.clear();
            lease.encode(id, false, &mut record);
            hasher.update(&record);
            // A snapshot leaves them to the store. Whether the lists are right is for this to find out.
            for key in &lease.keys {
                hasher.update(&(key.len() as u64).to_le_bytes());
                hasher.update(key);
            }
        }
        for chunk in queue_chunks(&self.elections).chain(auth_chunks(&self.auth)) {
            hasher.update(&chunk);
        }
        let revisions = [self.store.revision(), self.store.compacted()];
        for revision in revisions {
            hasher.update(&revision.0.to_le_bytes());
        }
        let store = self.store.hash(None).expect("the newest revision can always be read");
        u64::from(hasher.finalize()) << 32 | u64::from(store.hash)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tenure_api::{
        Alarm, AlarmKind, LeaseId, Member, MemberId, Principal, Put, Revision, Term, op::PutLease,
    };

    use super::*;
    use crate::{
        auth::{Permission, PermissionKind, Secret},
        command::{
            AdminCommand, AuthCommand, Batch, Command, ElectionCommand, JoinSpec, MemberChange,
            SessionEnding, SessionRequest, Successor,
        },
        election::Mode,
        state::{ApplyEffects, EntryContext},
    };

    const LEADER: LeaseId = LeaseId(1);
    const WAITER: LeaseId = LeaseId(2);
    const LEASE: LeaseId = LeaseId(3);
    const INDEX: u64 = 100;

    type Change = Box<dyn Fn(&mut State)>;

    fn member(id: u64) -> Member {
        Member {
            id: MemberId(id),
            name: format!("n{id}"),
            peer_urls: vec![format!("http://n{id}:2380")],
            client_urls: vec![format!("http://n{id}:2379")],
            is_learner: false,
        }
    }

    fn does(state: &mut State, index: u64, command: Command) {
        let at = EntryContext { index, term: Term(1), ms: 0 };
        state
            .apply(at, &Principal::System, &command, &mut ApplyEffects::default())
            .expect("it is done");
    }

    fn put(key: &'static str, value: &'static str, lease: Option<LeaseId>) -> Command {
        Command::Put(Put {
            key: key.into(),
            value: Some(value.into()),
            lease: PutLease::Set(lease),
            prev_kv: false,
        })
    }

    fn open(id: LeaseId, ttl_ms: u64, identity: &str) -> Command {
        let identity = identity.to_owned();
        Command::Election(ElectionCommand::Open {
            id,
            ttl_ms,
            identity,
            fast_release: false,
            by: 0,
            secret: None,
        })
    }

    fn ask(session: LeaseId, request: u64, ask: SessionRequest) -> Command {
        Command::Election(ElectionCommand::Request { session, number: request, request: ask })
    }

    fn rule(rule: AdminCommand) -> Command {
        Command::Election(ElectionCommand::Admin(rule))
    }

    fn user(command: AuthCommand) -> Command {
        Command::Auth(command)
    }

    fn granted(number: i32, end: &'static str) -> Command {
        let kind = PermissionKind::from_number(number);
        let permission = Some(Permission { kind, key: "a".into(), range_end: end.into() });
        user(AuthCommand::RoleGrant { role: "ops".into(), permission })
    }

    fn join(name: &'static str, priority: u32) -> SessionRequest {
        SessionRequest::Join(JoinSpec { priority, ..JoinSpec::one(name.into(), Mode::Exclusive) })
    }

    fn batch(boot: u64, sequence: u64) -> Batch {
        Batch { origin: MemberId(1), boot, sequence, commands: vec![] }
    }

    /// Something of everything.
    fn whole() -> State {
        let mut state = State::new([member(1), member(2), member(3)]);
        assert!(state.admits(&batch(1, 1)));
        let commands = [
            Command::ClusterVersion(5),
            put("key", "value", None),
            Command::LeaseGrant { id: LEASE, ttl_secs: 60 },
            put("leased", "value", Some(LEASE)),
            open(LEADER, 5000, "leader"),
            open(WAITER, 5000, "waiter"),
            ask(LEADER, 1, join("office", 0)),
            ask(WAITER, 1, join("office", 0)),
            user(AuthCommand::UserAdd { name: "ada".into(), password: None }),
            user(AuthCommand::RoleAdd("ops".into())),
        ];
        for (index, command) in (1..).zip(commands) {
            does(&mut state, index, command);
        }
        state
    }

    /// Changes of one thing each. Where two are alike they differ in one number, so that the number counts and not
    /// only that something happened.
    fn differences() -> Vec<(&'static str, Change)> {
        fn after(command: Command) -> Change {
            Box::new(move |state| does(state, INDEX, command.clone()))
        }
        fn when(index: u64, command: Command) -> Change {
            Box::new(move |state| does(state, index, command.clone()))
        }
        let alarm = |kind| Command::RaiseAlarm(Alarm { member: MemberId(2), kind });
        let publish = |command_version, directory| Command::Publish {
            member: MemberId(2),
            name: "n2".to_owned(),
            client_urls: vec!["http://n2:2379".to_owned()],
            command_version,
            directory,
        };
        let health = |unhealthy| SessionRequest::Health { name: "office".into(), unhealthy };
        let to = Successor::Session(WAITER);
        let transfer =
            |within_ms| AdminCommand::Transfer { name: "office".into(), to: to.clone(), within_ms };
        vec![
            ("nothing", Box::new(|_| {})),
            ("a key", after(put("another", "value", None))),
            ("a value", after(put("key", "other", None))),
            ("a value that differs", after(put("key", "others", None))),
            ("a key on a lease", after(put("key", "other", Some(LEASE)))),
            ("what is forgotten", after(Command::Compact(Revision(3)))),
            ("a lease", after(Command::LeaseGrant { id: LeaseId(9), ttl_secs: 60 })),
            ("a lease's number", after(Command::LeaseGrant { id: LeaseId(10), ttl_secs: 60 })),
            ("a lease's time", after(Command::LeaseGrant { id: LeaseId(9), ttl_secs: 61 })),
            ("a renewal", after(Command::LeaseRenew(LEASE))),
            ("a later renewal", when(INDEX + 1, Command::LeaseRenew(LEASE))),
            ("a session", after(open(LeaseId(9), 5000, "third"))),
            ("a session's time", after(open(LeaseId(9), 5001, "third"))),
            ("a session's name", after(open(LeaseId(9), 5000, "fourth"))),
            (
                "an attachment",
                after(Command::Election(ElectionCommand::Attach {
                    id: WAITER,
                    by: 1,
                    secret: None,
                })),
            ),
            ("a request that was answered", after(ask(WAITER, 2, health(false)))),
            ("its number", after(ask(WAITER, 3, health(false)))),
            ("the health of a place", after(ask(WAITER, 2, health(true)))),
            ("a place", after(ask(WAITER, 2, join("another office", 0)))),
            ("the line it is in", after(ask(WAITER, 2, join("the same office", 0)))),
            ("a place's priority", after(ask(WAITER, 2, join("another office", 1)))),
            ("whose it is", after(ask(LEADER, 2, join("another office", 0)))),
            ("a successor", after(rule(transfer(1000)))),
            ("a successor's time", after(rule(transfer(1001)))),
            ("a line that is frozen", after(rule(AdminCommand::Freeze("office".into())))),
            (
                "a tenure that ended, and who may still believe in it",
                after(Command::Election(ElectionCommand::End {
                    id: LEADER,
                    how: SessionEnding::Revoked { stopped: false },
                    secret: None,
                })),
            ),
            (
                "a tenure that ended for good",
                after(Command::Election(ElectionCommand::End {
                    id: LEADER,
                    how: SessionEnding::Revoked { stopped: true },
                    secret: None,
                })),
            ),
            ("a user", after(user(AuthCommand::UserAdd { name: "bob".into(), password: None }))),
            (
                "a user that has a password",
                after(user(AuthCommand::UserAdd {
                    name: "bob".into(),
                    password: Some(Secret::default()),
                })),
            ),
            ("a user that is gone", after(user(AuthCommand::UserDelete("ada".into())))),
            (
                "a role of a user",
                after(user(AuthCommand::UserGrant { user: "ada".into(), role: "ops".into() })),
            ),
            ("a role", after(user(AuthCommand::RoleAdd("dev".into())))),
            ("a permission", after(granted(0, ""))),
            ("a permission's kind", after(granted(1, ""))),
            ("a permission's end", after(granted(0, "b"))),
            ("an alarm", after(alarm(AlarmKind::NoSpace))),
            ("an alarm's kind", after(alarm(AlarmKind::Corrupt))),
            ("a member", Box::new(|state| drop(state.members.insert(MemberId(4), member(4))))),
            (
                "where a member is",
                after(Command::Members(MemberChange::Update {
                    id: MemberId(2),
                    peer_urls: vec!["http://elsewhere:2380".to_owned()],
                })),
            ),
            (
                "a vote",
                Box::new(|state| {
                    state.members.get_mut(&MemberId(3)).expect("it is there").is_learner = true;
                }),
            ),
            (
                "an invitation",
                Box::new(|state| assert_eq!(state.invited.insert(MemberId(3)), None)),
            ),
            ("a removal", Box::new(|state| assert_eq!(state.removed.insert(MemberId(4)), None))),
            (
                "one that departs",
                Box::new(|state| drop(state.departing.insert(MemberId(4), member(4)))),
            ),
            (
                "a change under way",
                Box::new(|state| state.change = Some(MemberChange::Remove(MemberId(3)))),
            ),
            ("what a member can apply", after(publish(3, 7))),
            ("another version of it", after(publish(2, 7))),
            ("a data directory", after(publish(3, 8))),
            ("the cluster version", after(Command::ClusterVersion(6))),
            ("the number of a batch", Box::new(|state| assert!(state.admits(&batch(1, 2))))),
            ("the life it came from", Box::new(|state| assert!(state.admits(&batch(2, 1))))),
        ]
    }

    /// Two members that differ in anything at all must not have the same checksum, or the difference would go unnoticed.
    #[test]
    fn digest_shows_every_difference() {
        // What is added here needs a difference below.
        let State {
            store: _,
            leases: _,
            elections: _,
            members: _,
            removed: _,
            departing: _,
            change: _,
            command_versions: _,
            directories: _,
            cluster_version: _,
            origins: _,
            alarms: _,
            invited: _,
            auth: _,
        } = whole();
        let mut seen = BTreeMap::new();
        for (what, change) in differences() {
            let mut state = whole();
            change(&mut state);
            let digest = state.digest();
            if let Some(alike) = seen.insert(digest, what) {
                panic!("{what} and {alike} look alike: {digest:x}");
            }
        }
    }

    #[test]
    fn digest_ignores_how_far_compaction_has_freed() {
        let mut state = whole();
        does(&mut state, INDEX, put("key", "other", None));
        let newest = state.store.revision();
        does(&mut state, INDEX + 1, Command::Compact(newest));
        let mut swept = state.clone();
        while swept.store.sweep(1) {}
        assert!(swept.store.is_swept() && !state.store.is_swept());
        assert_eq!(state.digest(), swept.digest());
    }
}
