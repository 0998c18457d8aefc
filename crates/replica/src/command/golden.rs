//! Every kind of command, and an entry of the log, as they lie on disks.

use bytes::Bytes;
use tenure_api::{
    Alarm, AlarmKind, Compare, CompareResult, CompareTarget, DeleteRange, LeaseId, MemberId, Op,
    Principal, Proof, Put, Range, Revision, SortOrder, SortTarget, Span, Term, Txn,
    op::{PutLease, Window},
};
use tenure_damage::Golden;

use super::{
    AdminCommand, Attributed, AuthCommand, Batch, ChangeRefusal, Command, ElectionCommand,
    EntryClock, Expiry, JoinSpec, MemberChange, Overdue, SessionEnding, SessionRequest, StopCause,
    Successor, decode_entry, encode_entry,
};
use crate::{
    auth::{Permission, PermissionKind, Secret},
    codec::{Codec, DecodeError},
    election::{Mode, SecretDigest},
};

const FILE: &str = include_str!("../../tests/golden/commands.txt");

/// Where a tag stands: the words with which the names of its samples begin, the bytes before it, and what
/// the reader calls it.
const DOORS: &[(&str, &[u8], &str)] = &[
    ("", &[], "command"),
    ("3 compare", &[3, 1, 0, 0], "comparison"),
    ("3 target", &[3, 1, 0, 0, 0], "compare target"),
    ("3 op", &[3, 0, 1], "operation"),
    ("24", &[24], "refused change"),
    ("30", &[30], "alarm"),
    ("40", &[40], "line command"),
    ("40 7", SECRET, "command with a secret"),
    ("40 3", &[40, 3, 0], "end of a session"),
    ("40 3 4", &[40, 3, 0, 4], "cause of a stop"),
    ("40 4", &[40, 4, 0, 0], "session request"),
    ("40 4 1 mode", &[40, 4, 0, 0, 1, 0, 0], "mode"),
    ("40 5", &[40, 5], "rule"),
    ("40 5 1", &[40, 5, 1, 0], "successor"),
    ("40 6", &[40, 6, 0, 1], "overdue"),
    ("60", &[60], "auth command"),
];

/// A command about sessions that carries a secret's digest, up to the tag of what it is.
const SECRET: &[u8] = &{
    let mut bytes = [9; 2 + SecretDigest::BYTES];
    (bytes[0], bytes[1]) = (40, 7);
    bytes
};

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn put(lease: PutLease) -> Put {
    Put { key: text("key"), value: Some(text("value")), lease, prev_kv: true }
}

fn range() -> Range {
    Range {
        span: Span::from_wire(text("a"), text("b")),
        limit: Some(300),
        revision: Some(Revision(5)),
        sort_order: SortOrder::Descend,
        sort_target: SortTarget::Value,
        keys_only: true,
        count_only: false,
        mod_revision: Window { min: Some(Revision(6)), max: None },
        create_revision: Window { min: None, max: Some(Revision(7)) },
    }
}

fn compare(result: CompareResult, target: CompareTarget) -> Command {
    let compare = vec![Compare { span: Span::One(text("key")), result, target }];
    Command::Txn(Txn { compare, success: vec![], failure: vec![] })
}

fn op(op: Op) -> Command {
    Command::Txn(Txn { compare: vec![], success: vec![op], failure: vec![] })
}

fn delete() -> DeleteRange {
    DeleteRange { span: Span::from_wire(text("a"), text("b")), prev_kv: true }
}

fn transactions() -> Vec<(&'static str, Command)> {
    use CompareResult::*;
    use CompareTarget::*;
    let inner = Txn {
        compare: vec![],
        success: vec![Op::Put(put(PutLease::Keep))],
        failure: vec![Op::DeleteRange(delete())],
    };
    vec![
        ("3 txn", op(Op::Range(range()))),
        ("3 compare 0 equal", compare(Equal, Version(2))),
        ("3 compare 1 greater", compare(Greater, Version(2))),
        ("3 compare 2 less", compare(Less, Version(2))),
        ("3 compare 3 not equal", compare(NotEqual, Version(2))),
        ("3 target 0 version", compare(Equal, Version(-2))),
        ("3 target 1 create", compare(Equal, Create(Revision(300)))),
        ("3 target 2 mod", compare(Equal, Mod(Revision(300)))),
        ("3 target 3 value", compare(Equal, Value(text("value")))),
        ("3 target 4 lease", compare(Equal, Lease(Some(LeaseId(7))))),
        ("3 op 1 range", op(Op::Range(range()))),
        ("3 op 2 put", op(Op::Put(put(PutLease::Set(None))))),
        ("3 op 3 delete range", op(Op::DeleteRange(delete()))),
        ("3 op 4 txn", op(Op::Txn(inner))),
    ]
}

fn members() -> Vec<(String, Command)> {
    let urls = || vec!["http://a:1".to_owned(), "http://b:2".to_owned()];
    let member = MemberId(0x1234_5678_9abc_def0);
    let mut samples = vec![
        ("20 add a member", MemberChange::Add { id: member, peer_urls: urls(), is_learner: true }),
        ("21 promote", MemberChange::Promote(member)),
        ("22 update", MemberChange::Update { id: member, peer_urls: urls() }),
        ("23 remove", MemberChange::Remove(member)),
        ("26 invite", MemberChange::Invite { id: member, peer_urls: urls() }),
    ]
    .into_iter()
    .map(|(name, change)| (name.to_owned(), Command::Members(change)))
    .collect::<Vec<_>>();
    for refusal in ChangeRefusal::ALL {
        let name = format!("24 {} refused: {refusal:?}", *refusal as u8);
        samples.push((name, Command::MembersRefused(*refusal)));
    }
    samples
}

fn join(mode: Mode) -> SessionRequest {
    SessionRequest::Join(JoinSpec {
        names: vec![text("a"), text("b")],
        value: text("value"),
        mode,
        priority: 500,
        preempts: true,
        no_overlap: false,
        try_only: true,
        unhealthy: false,
        metadata: vec![("zone".to_owned(), "west".to_owned())],
    })
}

fn asks() -> Vec<(&'static str, SessionRequest)> {
    let (name, token) = (text("a"), Revision(300));
    vec![
        ("40 4 1 join", join(Mode::Exclusive)),
        ("40 4 1 mode 0 exclusive", join(Mode::Exclusive)),
        ("40 4 1 mode 1 shared", join(Mode::Shared)),
        ("40 4 1 mode 2 permit", join(Mode::Permit(3))),
        (
            "40 4 2 leave",
            SessionRequest::Leave { name: name.clone(), token: Some(token), stopped: true },
        ),
        (
            "40 4 3 proclaim",
            SessionRequest::Proclaim { name: name.clone(), token, value: text("value") },
        ),
        ("40 4 4 health", SessionRequest::Health { name: name.clone(), unhealthy: true }),
        ("40 4 5 yield", SessionRequest::Yield { name, token, stay: true }),
    ]
}

fn rules() -> Vec<(&'static str, AdminCommand)> {
    let name = text("a");
    let transfer = |to| AdminCommand::Transfer { name: text("a"), to, within_ms: 5000 };
    vec![
        ("40 5 1 1 transfer to a session", transfer(Successor::Session(LeaseId(7)))),
        ("40 5 1 2 transfer to an identity", transfer(Successor::Identity("me".to_owned()))),
        ("40 5 2 evict", AdminCommand::Evict { name: name.clone(), token: Some(Revision(300)) }),
        ("40 5 3 freeze", AdminCommand::Freeze(name.clone())),
        ("40 5 4 resume", AdminCommand::Resume(name)),
    ]
}

fn elections() -> Vec<(&'static str, ElectionCommand)> {
    let id = LeaseId(0x7000_0000_0000_0001);
    let open = ElectionCommand::Open {
        id,
        ttl_ms: 2500,
        identity: "me".to_owned(),
        fast_release: true,
        by: 99,
        secret: None,
    };
    let secret = Some(SecretDigest([9; SecretDigest::BYTES]));
    let mut open_secret = open.clone();
    if let ElectionCommand::Open { secret: unset, .. } = &mut open_secret {
        *unset = secret;
    }
    let closed = SessionEnding::Closed { stopped: true };
    let end = |how| ElectionCommand::End { id, how, secret: None };
    let overdue = |overdue| ElectionCommand::Overdue(Term(3), vec![overdue]);
    let mut samples = vec![
        ("40 1 open a session", open),
        ("40 2 attach", ElectionCommand::Attach { id, by: 99, secret: None }),
        ("40 7 1 open a session with a secret", open_secret),
        ("40 7 2 attach with a secret", ElectionCommand::Attach { id, by: 99, secret }),
        ("40 7 3 closed with a secret", ElectionCommand::End { id, how: closed, secret }),
        ("40 3 1 closed", end(SessionEnding::Closed { stopped: true })),
        ("40 3 2 connection lost", end(SessionEnding::ConnectionLost { attachment: 2 })),
        ("40 3 3 revoked", end(SessionEnding::Revoked { stopped: true })),
        ("40 3 4 1 process killed", end(SessionEnding::Guarded(StopCause::ProcessKilled))),
        ("40 3 4 2 renewals missing", end(SessionEnding::Guarded(StopCause::RenewalsMissing))),
        ("40 6 1 a delay is over", overdue(Overdue::Delay(id, Revision(300)))),
        ("40 6 2 a drain is over", overdue(Overdue::Drain(text("a"), Revision(300)))),
    ];
    let asked =
        |(name, ask)| (name, ElectionCommand::Request { session: id, number: 12, request: ask });
    samples.extend(asks().into_iter().map(asked));
    samples.extend(rules().into_iter().map(|(name, rule)| (name, ElectionCommand::Admin(rule))));
    samples
}

fn users() -> Vec<(&'static str, AuthCommand)> {
    let (user, role) = (|| "ada".into(), || "ops".into());
    let secret = |bytes: &'static str| Secret::from(text(bytes));
    let permission = |number| Permission {
        kind: PermissionKind::from_number(number),
        key: text("a"),
        range_end: text("b"),
    };
    let grant = |permission| AuthCommand::RoleGrant { role: role(), permission };
    let add = |password| AuthCommand::UserAdd { name: user(), password };
    vec![
        ("60 1 enable", AuthCommand::Enable),
        ("60 2 disable", AuthCommand::Disable),
        ("60 3 add a user", add(Some(secret("hash")))),
        ("60 3 add a user without a password", add(None)),
        ("60 4 delete a user", AuthCommand::UserDelete(user())),
        (
            "60 5 change a password",
            AuthCommand::UserPassword { name: user(), password: secret("hash") },
        ),
        ("60 6 grant a role", AuthCommand::UserGrant { user: user(), role: role() }),
        ("60 7 revoke a role", AuthCommand::UserRevoke { user: user(), role: role() }),
        ("60 8 add a role", AuthCommand::RoleAdd(role())),
        ("60 9 delete a role", AuthCommand::RoleDelete(role())),
        ("60 10 grant a permission", grant(Some(permission(2)))),
        ("60 10 grant a permission of an unknown kind", grant(Some(permission(-7)))),
        ("60 10 grant none", grant(None)),
        (
            "60 11 revoke a permission",
            AuthCommand::RoleRevoke { role: role(), key: text("a"), range_end: text("b") },
        ),
        (
            "60 12 log in",
            AuthCommand::LogIn { user: user(), token: secret("checksum"), since: 300 },
        ),
        ("60 13 recover", AuthCommand::Recover { password: secret("hash") }),
    ]
}

fn commands() -> Vec<(String, Command)> {
    let id = LeaseId(0x7000_0000_0000_0001);
    let member = MemberId(0x1234_5678_9abc_def0);
    let expiry = Expiry { id, renewed_at: 300 };
    let publish = Command::Publish {
        member,
        name: "n1".to_owned(),
        client_urls: vec!["http://a:1".to_owned()],
        command_version: 3,
        directory: 0xfedc_ba98_7654_3210,
    };
    let no_space = Alarm { member, kind: AlarmKind::NoSpace };
    let corrupt = Alarm { member, kind: AlarmKind::Corrupt };
    let mut samples: Vec<(String, Command)> = [
        ("1 put on a lease", Command::Put(put(PutLease::Set(Some(id))))),
        ("1 put that keeps its lease", Command::Put(put(PutLease::Keep))),
        ("2 delete range", Command::DeleteRange(delete())),
        ("4 compact", Command::Compact(Revision(300))),
        ("5 lease grant", Command::LeaseGrant { id, ttl_secs: 60 }),
        ("6 lease revoke", Command::LeaseRevoke(id)),
        ("7 lease renew", Command::LeaseRenew(id)),
        ("8 lease expire", Command::LeaseExpire(Term(3), vec![expiry])),
        ("9 publish", publish),
        ("10 cluster version", Command::ClusterVersion(3)),
        ("11 lease end unused", Command::LeaseEndUnused { id, ttl_secs: 60 }),
        ("25 let go", Command::LetGo(member)),
        ("30 1 raise no space", Command::RaiseAlarm(no_space)),
        ("30 2 raise corrupt", Command::RaiseAlarm(corrupt)),
        ("31 lower no space", Command::LowerAlarm(no_space)),
        ("32 audit", Command::Audit),
    ]
    .into_iter()
    .chain(transactions())
    .map(|(name, command)| (name.to_owned(), command))
    .collect();
    samples.extend(members());
    samples.extend(
        users().into_iter().map(|(name, command)| (name.to_owned(), Command::Auth(command))),
    );
    let elections = elections().into_iter();
    samples.extend(elections.map(|(name, command)| (name.to_owned(), Command::Election(command))));
    samples
}

fn batch() -> Batch {
    batch_by([Principal::Anonymous, Principal::Anonymous])
}

fn batch_by(principals: [Principal; 2]) -> Batch {
    let commands = [Command::LeaseRenew(LeaseId(7)), Command::Audit].into_iter();
    let commands = principals.into_iter().zip(commands);
    let commands = commands.map(|(by, command)| Attributed { by, command }).collect();
    Batch { origin: MemberId(1), boot: 2, sequence: 300, commands }
}

fn user(proof: Proof) -> Principal {
    Principal::User { name: "ada".into(), auth_revision: 300, proof }
}

fn later_principals() -> [Principal; 2] {
    [user(Proof::Held), Principal::Unproven]
}

fn principals() -> [Principal; 2] {
    [user(Proof::Claims), Principal::System]
}

fn clock(lost_ms: Option<u64>) -> EntryClock {
    EntryClock { ms: 1_700_000_000_000, lost_ms }
}

fn entries() -> Vec<(String, Vec<u8>)> {
    let batches = [Bytes::from(batch().to_bytes())];
    vec![
        ("entry 1".to_owned(), encode_entry(EntryClock::default(), &batches)),
        ("entry 2 with a clock".to_owned(), encode_entry(clock(None), &batches)),
        (
            "entry 3 with the time that was lost".to_owned(),
            encode_entry(clock(Some(700)), &batches),
        ),
        (
            "entry 3 with principals".to_owned(),
            encode_entry(clock(Some(700)), &[batch_by(principals()).to_bytes().into()]),
        ),
        (
            "entry 3 with principals of version 9".to_owned(),
            encode_entry(clock(Some(700)), &[batch_by(later_principals()).to_bytes().into()]),
        ),
    ]
}

#[test]
fn command_bytes_never_change() {
    let mut made: Vec<_> =
        commands().iter().map(|(name, command)| (name.clone(), command.to_bytes())).collect();
    made.extend(entries());
    let golden = Golden::read(FILE);
    golden.is_what_is_made(&made);
    for (name, command) in commands() {
        assert_eq!(Command::from_bytes(golden.bytes(&name)), Ok(command), "{name}");
    }
    let entry = decode_entry(golden.bytes("entry 2 with a clock"));
    assert_eq!(entry, Ok((clock(None), vec![batch()])));
    let entry = decode_entry(golden.bytes("entry 3 with the time that was lost"));
    assert_eq!(entry, Ok((clock(Some(700)), vec![batch()])));
    let entry = decode_entry(golden.bytes("entry 3 with principals"));
    assert_eq!(entry, Ok((clock(Some(700)), vec![batch_by(principals())])));
    let entry = decode_entry(golden.bytes("entry 3 with principals of version 9"));
    assert_eq!(entry, Ok((clock(Some(700)), vec![batch_by(later_principals())])));
    let entry = decode_entry(golden.bytes("entry 1"));
    assert_eq!(entry, Ok((EntryClock::default(), vec![batch()])));
}

#[test]
fn command_kinds_all_have_samples() {
    let golden = Golden::read(FILE);
    for (words, before, what) in DOORS {
        for tag in 0..=u8::MAX {
            let read = Command::from_bytes(&[before, &[tag][..]].concat());
            if read == Err(DecodeError::UnknownTag { what, tag }) {
                continue;
            }
            let wanted = format!("{words} {tag}").trim_start().to_owned();
            assert!(
                golden.has(&wanted),
                "{what} {tag} has no sample: no name begins with {wanted}"
            );
        }
    }
}
