use bytes::Bytes;
use proptest::{collection::vec, prelude::*};
use tenure_api::{Failure, LeaseId, Principal, Proof, Put, Span, Term, op::PutLease};

use super::{rights::KeySet, *};
use crate::{
    command::{AdminCommand, AuthCommand, Command, ElectionCommand, JoinSpec, SessionRequest},
    election::Mode,
    state::{ApplyEffects, EntryContext, Outcome, State},
};

fn key(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn secret(text: &str) -> Secret {
    key(text).into()
}

/// A state, and what is asked of it.
struct Story {
    state: State,
    index: u64,
    events: Vec<AuthEvent>,
}

impl Story {
    /// Root is there, and the user bob with the role ops.
    fn new() -> Story {
        let state = State { cluster_version: 9, ..State::default() };
        let mut story = Story { state, index: 0, events: vec![] };
        story.auth(AuthCommand::UserAdd { name: "root".into(), password: Some(secret("r")) });
        story.auth(AuthCommand::UserGrant { user: "root".into(), role: "root".into() });
        story.auth(AuthCommand::UserAdd { name: "bob".into(), password: Some(secret("b")) });
        story.auth(AuthCommand::RoleAdd("ops".into()));
        story.auth(AuthCommand::UserGrant { user: "bob".into(), role: "ops".into() });
        story
    }

    /// With this permitted to bob, and requests judged.
    fn judging(permissions: &[(PermissionKind, &str, &str)]) -> Story {
        let mut story = Story::new();
        for (kind, from, to) in permissions {
            story.grant(*kind, from, to).unwrap();
        }
        story.auth(AuthCommand::Enable);
        story
    }

    fn apply(&mut self, by: &Principal, command: Command) -> Result<Outcome, Failure> {
        self.index += 1;
        let at = EntryContext { index: self.index, term: Term(1), ms: 0 };
        let mut effects = ApplyEffects::default();
        let outcome = self.state.apply(at, by, &command, &mut effects);
        self.events.append(&mut effects.auth);
        outcome
    }

    fn ask(&mut self, command: AuthCommand) -> Result<Outcome, Failure> {
        self.apply(&Principal::System, Command::Auth(command))
    }

    fn auth(&mut self, command: AuthCommand) {
        self.ask(command).expect("it can be done");
    }

    fn grant(&mut self, kind: PermissionKind, from: &str, to: &str) -> Result<Outcome, Failure> {
        let permission = Some(Permission { kind, key: key(from), range_end: key(to) });
        self.ask(AuthCommand::RoleGrant { role: "ops".into(), permission })
    }

    fn by(&self, name: &str) -> Principal {
        let (name, auth_revision) = (name.into(), self.state.auth.revision());
        Principal::User { name, auth_revision, proof: Proof::Held }
    }

    fn put(&mut self, by: &Principal, at: &str, lease: Option<i64>) -> Result<(), Failure> {
        let lease = PutLease::Set(lease.map(LeaseId));
        let put = Put { key: key(at), value: Some(key("v")), lease, prev_kv: false };
        self.apply(by, Command::Put(put)).map(|_| ())
    }
}

#[test]
fn auth_is_enabled_only_with_a_root_that_has_its_role() {
    let mut story = Story { state: State::default(), index: 0, events: vec![] };
    assert_eq!(story.ask(AuthCommand::Enable), Err(Failure::RootUserMissing));
    story.auth(AuthCommand::UserAdd { name: "root".into(), password: None });
    assert_eq!(story.ask(AuthCommand::Enable), Err(Failure::RootRoleMissing));
    let grant = AuthCommand::UserGrant { user: "root".into(), role: "root".into() };
    story.auth(grant.clone());
    let revision = story.state.auth.revision();
    story.auth(grant);
    assert_eq!(story.state.auth.revision(), revision, "it has the role already");
    story.auth(AuthCommand::Enable);
    assert_eq!(story.state.auth.revision(), revision, "as in etcd");
    story.auth(AuthCommand::Enable);
    for refused in [
        AuthCommand::UserDelete("root".into()),
        AuthCommand::RoleDelete("root".into()),
        AuthCommand::UserRevoke { user: "root".into(), role: "root".into() },
    ] {
        assert_eq!(story.ask(refused), Err(Failure::InvalidAuthManagement));
    }
    story.auth(AuthCommand::Disable);
    story.auth(AuthCommand::Disable);
    assert_eq!(story.state.auth.revision(), revision + 1, "once");
    story.auth(AuthCommand::UserDelete("root".into()));
}

#[test]
fn auth_changes_are_refused_as_in_etcd() {
    let mut story = Story::new();
    let role = || "ops".into();
    let user = || "bob".into();
    let revision = story.state.auth.revision();
    let add = |name: &str| AuthCommand::UserAdd { name: name.into(), password: None };
    let none = || "none".into();
    let range = |role: &str, from, to| AuthCommand::RoleGrant {
        role: role.into(),
        permission: Some(Permission {
            kind: PermissionKind::Read,
            key: key(from),
            range_end: key(to),
        }),
    };
    let revoke = |role: &str| AuthCommand::RoleRevoke {
        role: role.into(),
        key: key("a"),
        range_end: Bytes::new(),
    };
    let password =
        |name: &str| AuthCommand::UserPassword { name: name.into(), password: secret("n") };
    for (command, failure) in [
        (add(""), Failure::UserEmpty),
        (add("bob"), Failure::UserExists),
        (AuthCommand::UserDelete(none()), Failure::UserNotFound),
        (password("none"), Failure::UserNotFound),
        (AuthCommand::UserGrant { user: none(), role: role() }, Failure::UserNotFound),
        (AuthCommand::UserGrant { user: user(), role: none() }, Failure::RoleNotFound),
        (AuthCommand::UserRevoke { user: none(), role: role() }, Failure::UserNotFound),
        (AuthCommand::UserRevoke { user: user(), role: none() }, Failure::RoleNotGranted),
        (AuthCommand::RoleAdd("".into()), Failure::RoleEmpty),
        (AuthCommand::RoleAdd(role()), Failure::RoleExists),
        (AuthCommand::RoleDelete(none()), Failure::RoleNotFound),
        (AuthCommand::RoleGrant { role: none(), permission: None }, Failure::PermissionNotGiven),
        (range("none", "", ""), Failure::InvalidAuthManagement),
        (range("none", "z", "a"), Failure::InvalidAuthManagement),
        (range("none", "a", "a"), Failure::InvalidAuthManagement),
        (range("none", "a", ""), Failure::RoleNotFound),
        (revoke("none"), Failure::RoleNotFound),
        (revoke("ops"), Failure::PermissionNotGranted),
    ] {
        assert_eq!(story.ask(command.clone()), Err(failure), "{command:?}");
    }
    assert_eq!(story.state.auth.revision(), revision, "none of them changed anything");
}

#[test]
fn auth_judges_before_the_room_in_the_store() {
    let mut story = Story::judging(&[(PermissionKind::Write, "a", "")]);
    let full =
        tenure_api::Alarm { member: tenure_api::MemberId(0), kind: tenure_api::AlarmKind::NoSpace };
    story.state.alarms.insert(full);
    let bob = story.by("bob");
    assert_eq!(story.put(&bob, "a", None), Err(Failure::NoSpace));
    assert_eq!(story.put(&bob, "b", None), Err(Failure::PermissionDenied));
    assert_eq!(story.put(&Principal::Anonymous, "a", None), Err(Failure::UserEmpty));
    assert_eq!(story.put(&Principal::Unproven, "a", None), Err(Failure::InvalidAuthToken));
}

#[test]
fn auth_proof_counts_until_its_own_user_changes() {
    let mut story = Story::judging(&[(PermissionKind::Write, "a", "")]);
    let auth_revision = story.state.auth.revision();
    let claims =
        |auth_revision| Principal::User { name: "bob".into(), auth_revision, proof: Proof::Claims };
    let held = story.by("bob");
    // What concerns others.
    story.auth(AuthCommand::UserAdd { name: "eve".into(), password: None });
    story.auth(AuthCommand::RoleAdd("other".into()));
    assert_eq!(story.put(&claims(auth_revision), "a", None), Ok(()));
    // What is not yet.
    let ahead = claims(story.state.auth.revision() + 1);
    assert_eq!(story.put(&ahead, "a", None), Err(Failure::OldAuthRevision));
    // What concerns it.
    story.grant(PermissionKind::Read, "b", "").unwrap();
    assert_eq!(story.put(&claims(auth_revision), "a", None), Err(Failure::OldAuthRevision));
    assert_eq!(story.put(&claims(story.state.auth.revision()), "a", None), Ok(()));
    assert_eq!(story.put(&held, "a", None), Ok(()), "it follows what is so now");
    let password = AuthCommand::UserPassword { name: "bob".into(), password: secret("n") };
    story.auth(password);
    assert_eq!(story.put(&held, "a", None), Err(Failure::OldAuthRevision));
    let held = story.by("bob");
    story.auth(AuthCommand::UserDelete("bob".into()));
    assert_eq!(story.put(&held, "a", None), Err(Failure::PermissionDenied));
    story.auth(AuthCommand::UserAdd { name: "bob".into(), password: None });
    assert_eq!(story.put(&held, "a", None), Err(Failure::OldAuthRevision));
}

#[test]
fn auth_revoked_rights_end_at_once() {
    let mut story = Story::judging(&[(PermissionKind::Write, "a", "")]);
    let bob = story.by("bob");
    assert_eq!(story.put(&bob, "a", None), Ok(()));
    let revoke =
        AuthCommand::RoleRevoke { role: "ops".into(), key: key("a"), range_end: Bytes::new() };
    story.auth(revoke);
    assert_eq!(story.put(&bob, "a", None), Err(Failure::PermissionDenied));
    story.grant(PermissionKind::Write, "a", "").unwrap();
    assert_eq!(story.put(&bob, "a", None), Ok(()));
    story.auth(AuthCommand::RoleDelete("ops".into()));
    assert_eq!(story.put(&bob, "a", None), Err(Failure::PermissionDenied));
}

#[test]
fn auth_lease_is_touched_only_with_rights_to_all_its_keys() {
    let mut story = Story::judging(&[(PermissionKind::Write, "w", "x")]);
    let (root, bob) = (story.by("root"), story.by("bob"));
    let grant = Command::LeaseGrant { id: LeaseId(7), ttl_secs: 60 };
    let refused = story.apply(&Principal::Anonymous, grant.clone());
    assert_eq!(refused, Err(Failure::UserEmpty));
    story.apply(&bob, grant).unwrap();
    assert_eq!(story.put(&bob, "w1", Some(7)), Ok(()));
    assert!(story.apply(&bob, Command::LeaseRenew(LeaseId(7))).is_ok());
    assert_eq!(story.put(&root, "z", Some(7)), Ok(()));
    assert_eq!(story.put(&bob, "w2", Some(7)), Err(Failure::PermissionDenied));
    for command in [Command::LeaseRenew(LeaseId(7)), Command::LeaseRevoke(LeaseId(7))] {
        assert_eq!(story.apply(&bob, command), Err(Failure::PermissionDenied));
    }
    assert!(story.apply(&root, Command::LeaseRevoke(LeaseId(7))).is_ok());
}

fn open(id: i64) -> Command {
    Command::Election(ElectionCommand::Open {
        id: LeaseId(id),
        ttl_ms: 5000,
        identity: "host".into(),
        fast_release: false,
        by: 0,
        secret: None,
    })
}

fn join(id: i64, number: u64, name: &str) -> Command {
    let join = JoinSpec::one(key(name), Mode::Exclusive);
    let request = SessionRequest::Join(join);
    Command::Election(ElectionCommand::Request { session: LeaseId(id), number, request })
}

#[test]
fn auth_session_is_its_users_own() {
    let named = |name: &'static str| (PermissionKind::Campaign, name, "");
    let mut story = Story::judging(&[named("db")]);
    story.auth(AuthCommand::UserAdd { name: "eve".into(), password: None });
    story.auth(AuthCommand::UserGrant { user: "eve".into(), role: "ops".into() });
    let (root, bob, eve) = (story.by("root"), story.by("bob"), story.by("eve"));
    story.apply(&bob, open(1)).unwrap();
    let session = story.state.elections.session(LeaseId(1)).unwrap();
    assert_eq!((session.owner.as_deref(), &session.identity[..]), (Some("bob"), "bob/host"));
    story.apply(&bob, join(1, 1, "db")).unwrap();
    assert_eq!(story.apply(&bob, join(1, 2, "db2")), Err(Failure::PermissionDenied));
    let attach =
        || Command::Election(ElectionCommand::Attach { id: LeaseId(1), by: 1, secret: None });
    for command in [attach(), join(1, 3, "db"), Command::LeaseRenew(LeaseId(1))] {
        assert_eq!(story.apply(&eve, command), Err(Failure::PermissionDenied));
    }
    assert!(story.apply(&bob, attach()).is_ok());
    assert!(story.apply(&root, attach()).is_ok());
    let freeze = || Command::Election(ElectionCommand::Admin(AdminCommand::Freeze(key("db"))));
    assert_eq!(story.apply(&bob, freeze()), Err(Failure::PermissionDenied));
    story.grant(PermissionKind::Rule, "db", "").unwrap();
    assert!(story.apply(&bob, freeze()).is_ok());
}

#[test]
fn auth_session_from_before_there_were_users_gets_the_first_that_comes() {
    let mut story = Story::new();
    story.apply(&Principal::Anonymous, open(1)).unwrap();
    story.apply(&Principal::Anonymous, join(1, 1, "db")).unwrap();
    story.auth(AuthCommand::Enable);
    let bob = story.by("bob");
    let attach =
        || Command::Election(ElectionCommand::Attach { id: LeaseId(1), by: 1, secret: None });
    assert_eq!(story.apply(&bob, attach()), Err(Failure::PermissionDenied));
    story.grant(PermissionKind::Campaign, "db", "").unwrap();
    assert!(story.apply(&bob, attach()).is_ok());
    assert_eq!(story.state.elections.session(LeaseId(1)).unwrap().owner.as_deref(), Some("bob"));
}

#[test]
fn auth_login_is_void_if_the_password_changed_meanwhile() {
    let mut story = Story::judging(&[]);
    let since = story.state.auth.user("bob").unwrap().secret_since;
    let log_in = |since| AuthCommand::LogIn { user: "bob".into(), token: secret("t"), since };
    let outcome = story.ask(log_in(since));
    assert_eq!(outcome, Ok(Outcome::LoggedIn(story.index)));
    assert!(matches!(story.events.last(), Some(AuthEvent::LoggedIn { .. })));
    story.auth(AuthCommand::UserPassword { name: "bob".into(), password: secret("n") });
    assert_eq!(story.events.last(), Some(&AuthEvent::TokensEnded("bob".into())));
    assert_eq!(story.ask(log_in(since)), Err(Failure::OldAuthRevision));
    let (root, command) = (story.by("root"), Command::Auth(log_in(since)));
    assert_eq!(story.apply(&root, command), Err(Failure::PermissionDenied), "no client may");
}

#[test]
fn auth_recovery_brings_root_back() {
    let mut story = Story::judging(&[]);
    story.auth(AuthCommand::Disable);
    story.auth(AuthCommand::UserDelete("root".into()));
    story.auth(AuthCommand::Recover { password: secret("new") });
    let root = story.state.auth.user("root").unwrap();
    assert_eq!((root.password.clone(), root.roles.contains("root")), (Some(secret("new")), true));
    story.auth(AuthCommand::Enable);
}

#[test]
fn auth_permission_of_an_unknown_kind_is_kept_and_permits_nothing() {
    let mut story = Story::judging(&[(PermissionKind::Other(99), "a", "")]);
    let permissions: Vec<_> = story.state.auth.role("ops").unwrap().permissions().collect();
    assert_eq!(permissions[0].kind.number(), 99);
    let bob = story.by("bob");
    assert_eq!(story.put(&bob, "a", None), Err(Failure::PermissionDenied));
    assert_eq!(
        story.state.permit_watch(&bob, &Span::One(key("a"))),
        Err(Failure::PermissionDenied)
    );
}

#[test]
fn auth_state_comes_back_from_its_records() {
    let story =
        Story::judging(&[(PermissionKind::Read, "a", "b"), (PermissionKind::Rule, "c", "")]);
    let auth = &story.state.auth;
    let mut back = Auth::default();
    for record in auth.records() {
        let mut input = crate::codec::Reader::new(&record);
        back.decode_one(&mut input).unwrap();
        input.finish().unwrap();
    }
    assert_eq!(&back, auth);
    assert_eq!(Auth::default().records().count(), 0);
}

#[test]
fn auth_touching_ranges_allow_what_spans_both() {
    let span = |from: &str, to: &str| Span::from_wire(key(from), key(to));
    let set = KeySet::of(vec![span("n", "o"), span("m", "n"), span("k1", ""), span("x", "\0")]);
    for inside in [span("m", "o"), span("n", "o"), span("k1", ""), span("z", "\0"), span("x", "z")]
    {
        assert!(set.covers(&inside), "{inside:?}");
    }
    for outside in [
        span("m", "p"),
        span("n", "m"),
        span("k1", "k2"),
        span("k1", "\0"),
        span("l", ""),
        span("m", "\0"),
        span("m", "m"),
    ] {
        assert!(!set.covers(&outside), "{outside:?}");
    }
}

/// Keys of few letters, so that ranges meet.
fn letters() -> impl Strategy<Value = Bytes> {
    vec(prop_oneof![Just(0u8), Just(1), Just(2)], 0..3).prop_map(Bytes::from)
}

fn spans() -> impl Strategy<Value = Span> {
    (letters(), letters()).prop_map(|(from, to)| Span::from_wire(from, to))
}

proptest! {
    /// A span is allowed exactly if each of its keys is. In so small a space of keys, those of one letter more than the
    /// bounds have tell.
    #[test]
    fn auth_key_set_is_the_union_of_its_spans(granted in vec(spans(), 0..5), asked in spans()) {
        let mut keys = vec![vec![]];
        for _ in 0..4 {
            let longer = keys.iter().flat_map(|key: &Vec<u8>| {
                (0..4).map(move |letter| [&key[..], &[letter]].concat())
            });
            let longer: Vec<_> = longer.collect();
            keys.extend(longer);
            keys.sort();
            keys.dedup();
        }
        let set = KeySet::of(granted.clone());
        let is_granted = |key: &[u8]| granted.iter().any(|span| span.contains(key));
        let mut inside = keys.iter().filter(|key| asked.contains(key)).peekable();
        let some = inside.peek().is_some();
        let all = inside.all(|key| is_granted(key));
        let unbounded = matches!(asked, Span::From(_));
        let open = granted.iter().any(|span| matches!(span, Span::From(_)));
        prop_assert_eq!(set.covers(&asked), some && all && (!unbounded || open));
        let wanted: imbl::OrdSet<Bytes> = keys.iter().filter(|key| asked.contains(key)).cloned().map(Bytes::from).collect();
        prop_assert_eq!(set.holds_all(&wanted), wanted.iter().all(|key| is_granted(key)));
    }
}
