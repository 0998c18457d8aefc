//! Commands about sessions and lines.

use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*};
use tenure_api::{LeaseId, Revision, Term};
use tenure_replica::{
    command::{
        AdminCommand, ElectionCommand, JoinSpec, Overdue, SessionEnding, SessionRequest, StopCause,
        Successor,
    },
    election::{Mode, SecretDigest},
};

/// Few, so that commands meet.
fn name() -> impl Strategy<Value = Bytes> {
    prop_oneof![4 => "[ab]", 1 => "[a-c]/[a-c]", 1 => ".{0,6}"].prop_map(Bytes::from)
}

fn session() -> impl Strategy<Value = LeaseId> {
    prop_oneof![4 => 1..4i64, 1 => any::<i64>()].prop_map(LeaseId)
}

fn token() -> impl Strategy<Value = Revision> {
    prop_oneof![4 => 1..12i64, 1 => any::<i64>()].prop_map(Revision)
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1_000..20_000u64, 1 => any::<u64>()]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        2 => Just(Mode::Exclusive),
        1 => Just(Mode::Shared),
        1 => (1..4u32).prop_map(Mode::Permit),
        1 => any::<u32>().prop_map(Mode::Permit),
    ]
}

fn join() -> impl Strategy<Value = JoinSpec> {
    let priority = prop_oneof![4 => 0..3u32, 1 => any::<u32>()];
    let metadata = vec((".{0,4}", ".{0,4}"), 0..2);
    (vec(name(), 0..3), ".{0,6}", mode(), priority, any::<[bool; 4]>(), metadata).prop_map(
        |(names, value, mode, priority, [preempts, no_overlap, try_only, unhealthy], metadata)| {
            let value = value.into();
            JoinSpec {
                names,
                value,
                mode,
                priority,
                preempts,
                no_overlap,
                try_only,
                unhealthy,
                metadata,
            }
        },
    )
}

fn ask() -> impl Strategy<Value = SessionRequest> {
    prop_oneof![
        4 => join().prop_map(SessionRequest::Join),
        1 => (name(), option::of(token()), any::<bool>())
            .prop_map(|(name, token, stopped)| SessionRequest::Leave { name, token, stopped }),
        1 => (name(), token(), ".{0,4}")
            .prop_map(|(name, token, value)| SessionRequest::Proclaim { name, token, value: value.into() }),
        1 => (name(), any::<bool>()).prop_map(|(name, unhealthy)| SessionRequest::Health { name, unhealthy }),
        1 => (name(), token(), any::<bool>())
            .prop_map(|(name, token, stay)| SessionRequest::Yield { name, token, stay }),
    ]
}

fn rule() -> impl Strategy<Value = AdminCommand> {
    let successor = prop_oneof![
        session().prop_map(Successor::Session),
        ".{0,3}".prop_map(Successor::Identity),
    ];
    prop_oneof![
        (name(), successor, time()).prop_map(|(name, to, within_ms)| AdminCommand::Transfer {
            name,
            to,
            within_ms
        }),
        (name(), option::of(token())).prop_map(|(name, token)| AdminCommand::Evict { name, token }),
        name().prop_map(AdminCommand::Freeze),
        name().prop_map(AdminCommand::Resume),
    ]
}

/// Often the one that the session has.
fn secret() -> impl Strategy<Value = Option<SecretDigest>> {
    option::of((0..3u8).prop_map(|byte| SecretDigest([byte; SecretDigest::BYTES])))
}

pub(crate) fn command() -> impl Strategy<Value = ElectionCommand> {
    let ended = prop_oneof![
        any::<bool>().prop_map(|stopped| SessionEnding::Closed { stopped }),
        any::<u64>().prop_map(|attachment| SessionEnding::ConnectionLost { attachment }),
        any::<bool>().prop_map(|stopped| SessionEnding::Revoked { stopped }),
        Just(SessionEnding::Guarded(StopCause::ProcessKilled)),
        Just(SessionEnding::Guarded(StopCause::RenewalsMissing)),
    ];
    let overdue = prop_oneof![
        (session(), token()).prop_map(|(session, since)| Overdue::Delay(session, since)),
        (name(), token()).prop_map(|(name, token)| Overdue::Drain(name, token)),
    ];
    prop_oneof![
        3 => (session(), time(), ".{0,3}", any::<bool>(), any::<u64>()).prop_map(
            |(id, ttl_ms, identity, fast_release, by)| ElectionCommand::Open {
                id, ttl_ms, identity, fast_release, by,
                secret: (by % 3 > 0).then_some(SecretDigest([(by % 3) as u8; SecretDigest::BYTES])),
            }
        ),
        1 => (session(), any::<u64>(), secret()).prop_map(|(id, by, secret)| ElectionCommand::Attach { id, by, secret }),
        1 => (session(), ended, secret()).prop_map(|(id, how, secret)| ElectionCommand::End { id, how, secret }),
        6 => (session(), 1..9u64, ask())
            .prop_map(|(session, request, ask)| ElectionCommand::Request { session, number: request, request: ask }),
        2 => rule().prop_map(ElectionCommand::Admin),
        1 => (0..3u64, vec(overdue, 0..3))
            .prop_map(|(term, overdue)| ElectionCommand::Overdue(Term(term), overdue)),
    ]
}
