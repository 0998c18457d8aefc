//! Anything that members log or send, made up by chance.

#![allow(dead_code, reason = "no test needs all of them")]

mod elections;
mod users;

use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*};
use tenure_api::{
    Alarm, AlarmKind, Compare, CompareResult, CompareTarget, DeleteRange, LeaseId, MemberId, Op,
    Principal, Proof, Put, Range, Revision, SortOrder, SortTarget, Span, Term, Txn,
    op::{PutLease, Window},
};
use tenure_replica::{
    Entry, EntryKind, HardState, Message, RaftKind, RaftMessage, SnapshotMark,
    command::{Attributed, Batch, ChangeRefusal, Command, Expiry, MemberChange},
};

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn span() -> impl Strategy<Value = Span> {
    (bytes(), bytes()).prop_map(|(key, end)| Span::from_wire(key, end))
}

fn lease() -> impl Strategy<Value = Option<LeaseId>> {
    any::<i64>().prop_map(LeaseId::from_wire)
}

fn revision() -> impl Strategy<Value = Revision> {
    any::<i64>().prop_map(Revision)
}

fn window() -> impl Strategy<Value = Window> {
    (option::of(revision()), option::of(revision())).prop_map(|(min, max)| Window { min, max })
}

fn put() -> impl Strategy<Value = Put> {
    let lease = prop_oneof![Just(PutLease::Keep), lease().prop_map(PutLease::Set)];
    (bytes(), option::of(bytes()), lease, any::<bool>())
        .prop_map(|(key, value, lease, prev_kv)| Put { key, value, lease, prev_kv })
}

fn delete() -> impl Strategy<Value = DeleteRange> {
    (span(), any::<bool>()).prop_map(|(span, prev_kv)| DeleteRange { span, prev_kv })
}

fn range() -> impl Strategy<Value = Range> {
    let orders =
        prop_oneof![Just(SortOrder::None), Just(SortOrder::Ascend), Just(SortOrder::Descend)];
    let targets = prop_oneof![
        Just(SortTarget::Key),
        Just(SortTarget::Version),
        Just(SortTarget::Create),
        Just(SortTarget::Mod),
        Just(SortTarget::Value)
    ];
    let flags = any::<(bool, bool)>();
    let limit = option::of(any::<u32>().prop_map(|limit| limit as usize));
    (span(), limit, option::of(revision()), orders, targets, flags, window(), window()).prop_map(
        |(
            span,
            limit,
            revision,
            sort_order,
            sort_target,
            (keys_only, count_only),
            modified,
            created,
        )| {
            Range {
                span,
                limit,
                revision,
                sort_order,
                sort_target,
                keys_only,
                count_only,
                mod_revision: modified,
                create_revision: created,
            }
        },
    )
}

fn compare() -> impl Strategy<Value = Compare> {
    let results = prop_oneof![
        Just(CompareResult::Equal),
        Just(CompareResult::Greater),
        Just(CompareResult::Less),
        Just(CompareResult::NotEqual)
    ];
    let targets = prop_oneof![
        any::<i64>().prop_map(CompareTarget::Version),
        revision().prop_map(CompareTarget::Create),
        revision().prop_map(CompareTarget::Mod),
        bytes().prop_map(CompareTarget::Value),
        lease().prop_map(CompareTarget::Lease)
    ];
    (span(), results, targets).prop_map(|(span, result, target)| Compare { span, result, target })
}

fn txn() -> impl Strategy<Value = Txn> {
    let leaf = prop_oneof![
        range().prop_map(Op::Range),
        put().prop_map(Op::Put),
        delete().prop_map(Op::DeleteRange)
    ];
    let op = leaf.prop_recursive(3, 12, 3, |inner| {
        (vec(compare(), 0..2), vec(inner.clone(), 0..3), vec(inner, 0..3))
            .prop_map(|(compare, success, failure)| Op::Txn(Txn { compare, success, failure }))
    });
    (vec(compare(), 0..3), vec(op.clone(), 0..3), vec(op, 0..3))
        .prop_map(|(compare, success, failure)| Txn { compare, success, failure })
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    let expiry = (any::<i64>(), any::<u64>())
        .prop_map(|(id, renewed_at)| Expiry { id: LeaseId(id), renewed_at });
    prop_oneof![
        put().prop_map(Command::Put),
        delete().prop_map(Command::DeleteRange),
        txn().prop_map(Command::Txn),
        revision().prop_map(Command::Compact),
        any::<(i64, i64)>()
            .prop_map(|(id, ttl_secs)| Command::LeaseGrant { id: LeaseId(id), ttl_secs }),
        any::<i64>().prop_map(|id| Command::LeaseRevoke(LeaseId(id))),
        any::<i64>().prop_map(|id| Command::LeaseRenew(LeaseId(id))),
        any::<(i64, i64)>()
            .prop_map(|(id, ttl_secs)| Command::LeaseEndUnused { id: LeaseId(id), ttl_secs }),
        (any::<u64>(), vec(expiry, 0..4))
            .prop_map(|(term, leases)| Command::LeaseExpire(Term(term), leases)),
        (any::<u64>(), ".{0,8}", vec(".{0,8}", 0..3), any::<u32>(), any::<u64>()).prop_map(
            |(member, name, client_urls, command_version, directory)| Command::Publish {
                member: MemberId(member),
                name,
                client_urls,
                command_version,
                directory,
            }
        ),
        any::<u32>().prop_map(Command::ClusterVersion),
        change().prop_map(Command::Members),
        any::<u64>().prop_map(|member| Command::LetGo(MemberId(member))),
        proptest::sample::select(ChangeRefusal::ALL).prop_map(Command::MembersRefused),
        alarm().prop_map(Command::RaiseAlarm),
        alarm().prop_map(Command::LowerAlarm),
        Just(Command::Audit),
        elections::command().prop_map(Command::Election),
        users::command().prop_map(Command::Auth),
    ]
}

fn alarm() -> impl Strategy<Value = Alarm> {
    let kinds = prop_oneof![Just(AlarmKind::NoSpace), Just(AlarmKind::Corrupt)];
    (any::<u64>(), kinds).prop_map(|(member, kind)| Alarm { member: MemberId(member), kind })
}

fn change() -> impl Strategy<Value = MemberChange> {
    let urls = || vec(".{0,8}", 0..3);
    let id = || any::<u64>().prop_map(MemberId);
    prop_oneof![
        (id(), urls(), any::<bool>()).prop_map(|(id, peer_urls, is_learner)| {
            MemberChange::Add { id, peer_urls, is_learner }
        }),
        id().prop_map(MemberChange::Promote),
        (id(), urls()).prop_map(|(id, peer_urls)| MemberChange::Update { id, peer_urls }),
        id().prop_map(MemberChange::Remove),
    ]
}

fn attributed() -> impl Strategy<Value = Attributed> {
    let user = (".{0,6}", any::<u64>(), any::<bool>()).prop_map(|(name, auth_revision, held)| {
        let proof = if held { Proof::Held } else { Proof::Claims };
        Principal::User { name: name.into(), auth_revision, proof }
    });
    let others = [Principal::Anonymous, Principal::Unproven, Principal::System];
    let by = prop_oneof![proptest::sample::select(others.to_vec()), user];
    (by, command()).prop_map(|(by, command)| Attributed { by, command })
}

pub(crate) fn batch() -> impl Strategy<Value = Batch> {
    (any::<(u64, u64, u64)>(), vec(attributed(), 0..4)).prop_map(
        |((origin, boot, sequence), commands)| Batch {
            origin: MemberId(origin),
            boot,
            sequence,
            commands,
        },
    )
}

pub(crate) fn entry() -> impl Strategy<Value = Entry> {
    (any::<(u64, u64, bool)>(), bytes()).prop_map(|((term, index, membership), data)| Entry {
        term: Term(term),
        index,
        kind: if membership { EntryKind::Membership } else { EntryKind::Commands },
        data,
    })
}

pub(crate) fn hard_state() -> impl Strategy<Value = HardState> {
    any::<(u64, Option<u64>, u64)>().prop_map(|(term, vote, commit)| HardState {
        term: Term(term),
        vote: vote.map(MemberId),
        commit,
    })
}

pub(crate) fn mark() -> impl Strategy<Value = SnapshotMark> {
    let members = || vec(any::<u64>().prop_map(MemberId), 0..4);
    (any::<(u64, u64)>(), members(), members(), members()).prop_map(
        |((index, term), voters, learners, outgoing)| SnapshotMark {
            index,
            term: Term(term),
            voters,
            learners,
            outgoing,
        },
    )
}

pub(crate) fn message() -> impl Strategy<Value = Message> {
    let kinds = prop_oneof![
        Just(RaftKind::Append),
        Just(RaftKind::AppendResponse),
        Just(RaftKind::RequestVote),
        Just(RaftKind::Snapshot),
        Just(RaftKind::Heartbeat),
        Just(RaftKind::ReadIndex),
        Just(RaftKind::RequestPreVoteResponse)
    ];
    let numbers = any::<([u64; 9], bool, i64)>();
    let raft = (kinds, numbers, vec(entry(), 0..3), bytes(), option::of(mark())).prop_map(
        |(kind, (n, reject, priority), entries, context, snapshot)| {
            Message::Raft(RaftMessage {
                kind,
                from: MemberId(n[0]),
                to: MemberId(n[1]),
                term: Term(n[2]),
                log_term: Term(n[3]),
                index: n[4],
                commit: n[5],
                commit_term: Term(n[6]),
                reject,
                reject_hint: n[7],
                request_snapshot: n[8],
                priority,
                entries,
                context,
                snapshot,
            })
        },
    );
    prop_oneof![
        raft,
        bytes().prop_map(Message::Forward),
        any::<(u64, u64)>().prop_map(|(index, digest)| Message::Audited(index, digest)),
    ]
}
