//! Every kind of chunk, as they lie on disks. What is in a queue chunk has samples of its own.

use tenure_api::{
    AlarmKind, DeleteRange, LeaseId, Op, Principal, Put, Span, Term, Txn, op::PutLease,
};
use tenure_damage::Golden;

use super::*;
use crate::{
    auth::{Permission, PermissionKind, Secret},
    command::{AuthCommand, Command, ELECTIONS_SINCE, INVITES_SINCE, USERS_SINCE},
    state::{ApplyEffects, EntryContext},
};

const FILE: &str = include_str!("../../tests/golden/chunks.txt");
const LEASE: LeaseId = LeaseId(0x7000_0000_0000_0001);
const NAMES: [&str; 8] = [
    "1 roll",
    "2 leases",
    "4 queues",
    "3 1 header",
    "3 2 boundary",
    "3 3 versions",
    "3 4 order",
    "3 5 end",
];

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn put(key: &'static str, lease: Option<LeaseId>) -> Put {
    let lease = PutLease::Set(lease);
    Put { key: text(key), value: Some(text("value")), lease, prev_kv: false }
}

fn member(id: u64) -> Member {
    Member {
        id: MemberId(id),
        name: format!("n{id}"),
        peer_urls: vec![format!("http://peer{id}:1")],
        client_urls: vec![format!("http://client{id}:2")],
        is_learner: id == 2,
    }
}

/// Something of everything.
fn state(cluster_version: u32) -> State {
    let delete = |key| DeleteRange { span: Span::One(text(key)), prev_kv: false };
    // Not in key order.
    let txn = vec![Op::Put(put("z", None)), Op::Put(put("b", None)), Op::DeleteRange(delete("z"))];
    let commands = [
        Command::LeaseGrant { id: LEASE, ttl_secs: 60 },
        Command::Put(put("a", None)),
        Command::Put(put("election/7000000000000001", Some(LEASE))),
        Command::Compact(tenure_api::Revision(3)),
        Command::Put(put("a", Some(LEASE))),
        Command::DeleteRange(delete("a")),
        Command::Txn(Txn { compare: vec![], success: txn, failure: vec![] }),
    ];
    let mut state = State { cluster_version, ..State::new([1, 2].map(member)) };
    for (command, index) in commands.iter().zip(301..) {
        let at = EntryContext { index, term: Term(3), ms: 1_700_000_000_000 };
        state
            .apply(at, &Principal::System, command, &mut ApplyEffects::default())
            .expect("it can be done");
    }
    state.command_versions.insert(MemberId(1), 3);
    state.directories.insert(MemberId(1), 0xfedc_ba98_7654_3210);
    state.origins.insert(MemberId(1), Origin { boot: 2, sequence: 300 });
    if cluster_version >= 2 {
        state.removed.insert(MemberId(9));
        state.departing.insert(MemberId(9), member(9));
        state.change = Some(MemberChange::Promote(MemberId(2)));
        state.alarms.insert(Alarm { member: MemberId(1), kind: AlarmKind::NoSpace });
    }
    if cluster_version >= INVITES_SINCE {
        state.invited.insert(MemberId(2));
    }
    state
}

/// With users and roles.
fn with_users() -> State {
    let (ada, ops) = (|| "ada".into(), || "ops".into());
    let secret = || Secret::from(text("hash"));
    let grant = |key, range_end| {
        let permission = Permission {
            kind: PermissionKind::ReadWrite,
            key: text(key),
            range_end: text(range_end),
        };
        AuthCommand::RoleGrant { role: ops(), permission: Some(permission) }
    };
    let commands = [
        AuthCommand::UserAdd { name: "root".into(), password: Some(secret()) },
        AuthCommand::UserGrant { user: "root".into(), role: "root".into() },
        AuthCommand::UserAdd { name: ada(), password: None },
        AuthCommand::RoleAdd(ops()),
        grant("a", "b"),
        grant("c", ""),
        AuthCommand::UserGrant { user: ada(), role: ops() },
        AuthCommand::Enable,
    ];
    let mut state = state(USERS_SINCE);
    for (command, index) in commands.into_iter().zip(401..) {
        let at = EntryContext { index, term: Term(3), ms: 1_700_000_000_000 };
        state
            .apply(at, &Principal::System, &Command::Auth(command), &mut ApplyEffects::default())
            .expect("it can be done");
    }
    state
}

fn chunks(state: &State) -> Vec<Vec<u8>> {
    Snapshot { mark: SnapshotMark::default(), state: state.clone() }.chunks().collect()
}

fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<State, DecodeError> {
    let mut read = SnapshotReader::new();
    for chunk in chunks {
        read.chunk(chunk)?;
    }
    read.finish()
}

#[test]
fn snapshot_chunks_keep_their_bytes() {
    // The last version that changed any layout but the roll's.
    let state = state(ELECTIONS_SINCE);
    let made = chunks(&state);
    assert_eq!(made.len(), NAMES.len(), "something of everything");
    let mut made: Vec<_> = NAMES.map(str::to_owned).into_iter().zip(made).collect();
    let of_first = chunks(&self::state(1));
    made.push(("1 roll of cluster version 1".to_owned(), of_first[0].clone()));
    made.push(("2 leases of cluster version 1".to_owned(), of_first[1].clone()));
    let with_invited = self::state(INVITES_SINCE);
    made.push(("1 roll of cluster version 5".to_owned(), roll(&with_invited)));
    let with_users = with_users();
    let of_users: Vec<_> = auth_chunks(&with_users.auth).collect();
    made.push(("5 auth of cluster version 9".to_owned(), of_users[0].clone()));
    let golden = Golden::read(FILE);
    golden.is_what_is_made(&made);

    let back = read(NAMES.map(|name| golden.bytes(name))).expect("it can be read");
    assert_eq!(chunks(&back), chunks(&state));
    let mut newest = NAMES.map(|name| golden.bytes(name));
    newest[0] = golden.bytes("1 roll of cluster version 5");
    let newest = read(newest).expect("it can be read");
    assert_eq!((&newest.invited, newest.digest()), (&with_invited.invited, with_invited.digest()));
    assert_eq!(back.digest(), state.digest());
    let mut newest = NAMES.map(|name| golden.bytes(name)).to_vec();
    newest.insert(3, golden.bytes("5 auth of cluster version 9"));
    assert_eq!(read(newest).expect("it can be read").auth, with_users.auth);
    assert_eq!((&back.members, &back.removed), (&state.members, &state.removed));
    assert_eq!((&back.departing, &back.change), (&state.departing, &state.change));
    assert_eq!((&back.origins, &back.alarms), (&state.origins, &state.alarms));
    assert_eq!((&back.leases, &back.elections), (&state.leases, &state.elections));
    assert_eq!(back.directories, state.directories);
    assert_eq!(back.command_versions, state.command_versions);
    assert_eq!(back.store.get(b"b"), state.store.get(b"b"));
    let changes = |state: &State| {
        state.store.changes_since(tenure_api::Revision(3)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(changes(&back), changes(&state));
}

#[test]
fn snapshot_chunk_kinds_all_have_samples() {
    let golden = Golden::read(FILE);
    let (roll, header) = (golden.bytes("1 roll"), golden.bytes("3 1 header"));
    for tag in 0..=u8::MAX {
        // The roll is read when nothing else is, and the others after it.
        let known = [&[][..], &[roll]].iter().any(|before| {
            let read = read(before.iter().copied().chain([&[tag][..]]));
            !matches!(read, Err(DecodeError::UnknownTag { what: "state chunk", tag: t }) if t == tag)
        });
        assert!(!known || golden.has(&tag.to_string()), "chunk {tag} has no sample");
        let known = [&[roll][..], &[roll, header]].iter().any(|before| {
            let read = read(before.iter().copied().chain([&[STORE, tag][..]]));
            !matches!(read, Err(DecodeError::UnknownTag { what: "snapshot chunk", .. }))
        });
        assert!(!known || golden.has(&format!("3 {tag}")), "store chunk {tag} has no sample");
    }
}
