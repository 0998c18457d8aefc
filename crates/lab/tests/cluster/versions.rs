//! Members of different versions.

use std::{
    ops::Range,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tenure_api::{
    Alarm, AlarmKind, ClusterId, Failure, LeaseId, Principal, Proof, Put, Revision, Term,
    op::PutLease, wire::tenure::v1 as pb,
};
use tenure_lab::{
    cluster::{
        World,
        clients::RegisterClient,
        member::{MemberNumber, id},
        scenario::Replay,
    },
    engine::ms,
};
use tenure_replica::{
    Answer, Operation,
    command::{
        AuthCommand, Command, ElectionCommand, JoinSpec, SESSION_SECRETS_SINCE, STOP_CAUSES_SINCE,
        SessionEnding, SessionRequest, StopCause, UNUSED_LEASES_SINCE,
    },
    election::{EndReason, Mode, Refusal, SecretDigest},
};
use tenure_server::{
    grpc::{Env, InProcessService},
    node::{NodeHandle, Submission},
};
use tokio::sync::watch;
use tonic::Status;

/// A cluster of three, of which one announces an older version than the others.
fn with_an_older_member(older: MemberNumber, version: u32, newer: u32) -> World {
    let mut world = World::with(1, 3, |config| {
        config.command_version = if config.me == id(older) { version } else { newer };
    });
    world.start_all();
    world.must_lead_within(ms(1500));
    let known = |world: &mut World| world.truth.state().cluster_version == version;
    world.run_until(ms(3000), known).expect("they agree on what all can do");
    world
}

/// The older member stops and restarts as a newer build.
fn upgrade(world: &mut World, older: MemberNumber, newer: u32) {
    world.crash(older);
    world.member_mut(older).config.command_version = newer;
    world.start(older);
    let known = |world: &mut World| world.truth.state().cluster_version == newer;
    world.run_until(ms(4000), known).expect("all members can follow");
    world.must_serve_within(ms(1000));
}

#[test]
fn cluster_version_waits_for_the_last_member() {
    let _replay = Replay::of_test(1);
    let mut world = World::with(1, 3, |config| {
        config.command_version = if config.me.0 == 2 { 1 } else { 2 };
    });
    world.start_all();
    world.must_lead_within(ms(1500));
    world.run(ms(3000));
    world.must_serve_within(ms(100));
    assert_eq!(world.truth.state().cluster_version, 1);

    world.crash(2);
    world.member_mut(2).config.command_version = 2;
    world.run(ms(2000));
    assert_eq!(world.truth.state().cluster_version, 1, "it has not spoken yet");
    world.start(2);
    world.run(ms(2000));
    assert_eq!(world.truth.state().cluster_version, 2);
    for member in world.members.values() {
        let status = member.process.as_ref().expect("every member runs").replica.status();
        assert_eq!(status.cluster_version, 2);
    }
}

#[test]
fn cluster_version_refuses_what_the_oldest_member_cannot_apply() {
    let _replay = Replay::of_test(1);
    let alarm = Command::RaiseAlarm(Alarm { member: id(1), kind: AlarmKind::Corrupt });
    let session = Command::Election(ElectionCommand::Open {
        id: LeaseId(7),
        ttl_ms: 60_000,
        identity: "program".into(),
        fast_release: false,
        by: 1,
        secret: None,
    });
    for (version, command) in [(1, alarm), (2, session)] {
        let mut world = with_an_older_member(2, version, version + 1);
        for member in world.numbers() {
            let request = Operation::Write(command.clone());
            let refused = world.probe(member, request).expect_err("one of them would not know it");
            assert_eq!(refused, Failure::NotCapable, "by member {member} at version {version}");
        }
        upgrade(&mut world, 2, version + 1);
        world.probe(3, Operation::Write(command)).expect("now all know it");
    }
}

#[test]
fn cluster_version_gates_the_end_of_unused_leases() {
    let _replay = Replay::of_test(1);
    let mut world = with_an_older_member(2, UNUSED_LEASES_SINCE - 1, UNUSED_LEASES_SINCE);
    let (unused, used, ttl_secs) = (LeaseId(7), LeaseId(8), 60);
    for id in [unused, used] {
        let grant = Command::LeaseGrant { id, ttl_secs };
        world.probe(1, Operation::Write(grant)).expect("the cluster serves");
    }
    let (key, value, lease) = ("key".into(), Some("value".into()), PutLease::Set(Some(used)));
    let put = Command::Put(Put { key, value, lease, prev_kv: false });
    world.probe(1, Operation::Write(put)).expect("the cluster serves");
    let end = |id, ttl_secs| Operation::Write(Command::LeaseEndUnused { id, ttl_secs });
    for member in world.numbers() {
        let refused = world.probe(member, end(unused, ttl_secs));
        assert_eq!(refused.err(), Some(Failure::NotCapable), "by member {member}");
    }
    upgrade(&mut world, 2, UNUSED_LEASES_SINCE);
    for other in [end(used, ttl_secs), end(unused, ttl_secs + 1), end(LeaseId(9), ttl_secs)] {
        assert_eq!(world.probe(2, other).err(), Some(Failure::LeaseNotFound));
    }
    world.probe(3, end(unused, ttl_secs)).expect("now all know it");
    let left: Vec<_> = world.truth.state().leases.iter().map(|(id, _)| id).collect();
    assert_eq!(left, [used]);
}

#[test]
fn cluster_version_gates_the_causes_of_guarded_ends() {
    let _replay = Replay::of_test(1);
    let mut world = with_an_older_member(2, STOP_CAUSES_SINCE - 1, STOP_CAUSES_SINCE);
    let id = LeaseId(7);
    let election = |command| Operation::Write(Command::Election(command));
    let open = ElectionCommand::Open {
        id,
        ttl_ms: 60_000,
        identity: "program".into(),
        fast_release: false,
        by: 1,
        secret: None,
    };
    world.probe(1, election(open)).expect("the cluster serves");
    let how = SessionEnding::Guarded(StopCause::ProcessKilled);
    for member in world.numbers() {
        let refused = world.probe(member, election(ElectionCommand::End { id, how, secret: None }));
        assert_eq!(refused.err(), Some(Failure::NotCapable), "by member {member}");
    }
    upgrade(&mut world, 2, STOP_CAUSES_SINCE);
    world
        .probe(3, election(ElectionCommand::End { id, how, secret: None }))
        .expect("now all know it");
    assert!(world.truth.state().elections.session(id).is_none());
}

/// Ends a session by the service of the first member.
fn end_by_service(world: &mut World, request: pb::EndSessionRequest) -> Result<(), Status> {
    let process = world.members[&1].process.as_ref().expect("it runs");
    let (_status, seen) = watch::channel(Arc::new(process.replica.status()));
    let (handle, mut submissions) = NodeHandle::alone(id(1), ClusterId(1), seen);
    let service = InProcessService::new(handle, Env::default());
    let mut end = pin!(service.end(request));
    loop {
        if let Poll::Ready(ended) = end.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return ended;
        }
        let Ok(Submission::Request(request, answer)) = submissions.try_recv() else {
            panic!("it waits for nothing");
        };
        let result = world.probe(1, request.op);
        let (revision, term) = (Revision(1), Term(1));
        answer.send(Answer { to: 0, result, revision, term }).expect("it waits for the answer");
    }
}

/// That all work has ended must not be lost because the reason cannot be told yet.
#[test]
fn guarded_end_of_a_session_is_a_plain_one_below_its_version() {
    let _replay = Replay::of_test(1);
    let mut world = with_an_older_member(2, STOP_CAUSES_SINCE - 1, STOP_CAUSES_SINCE);
    for (number, upgraded) in [(7, false), (8, true)] {
        if upgraded {
            upgrade(&mut world, 2, STOP_CAUSES_SINCE);
        }
        let id = LeaseId(number);
        let open = ElectionCommand::Open {
            id,
            ttl_ms: 60_000,
            identity: "program".into(),
            fast_release: false,
            by: 1,
            secret: None,
        };
        let join = JoinSpec::one("jobs".into(), Mode::Exclusive);
        let join = ElectionCommand::Request {
            session: id,
            number: 1,
            request: SessionRequest::Join(join),
        };
        for command in [open, join] {
            world.probe(1, Operation::Write(Command::Election(command))).expect("it serves");
        }
        let reason = pb::EndReason::Expired as i32;
        let request =
            pb::EndSessionRequest { session: number, stopped: true, reason, ..Default::default() };
        end_by_service(&mut world, request).expect("it has ended");
        let election =
            world.truth.state().elections.election(b"jobs").expect("its history").clone();
        let end = election.tenures().last().and_then(|tenure| tenure.end).expect("it ended");
        let why = if upgraded { EndReason::Expired } else { EndReason::Closed };
        assert_eq!((end.why, end.stopped), (why, true));
    }
}

/// A client that has a secret of a cluster that was upgraded once must be able to end what it opened before, too.
#[test]
fn cluster_version_gates_session_secrets() {
    let _replay = Replay::of_test(1);
    let mut world = with_an_older_member(2, SESSION_SECRETS_SINCE - 1, SESSION_SECRETS_SINCE);
    let open = |id, secret| {
        let (ttl_ms, identity) = (60_000, "program".to_owned());
        let open =
            ElectionCommand::Open { id, ttl_ms, identity, fast_release: false, by: 1, secret };
        Operation::Write(Command::Election(open))
    };
    let secret = Some(SecretDigest([1; SecretDigest::BYTES]));
    for member in world.numbers() {
        let refused = world.probe(member, open(LeaseId(7), secret));
        assert_eq!(refused.err(), Some(Failure::NotCapable), "by member {member}");
    }
    world.probe(1, open(LeaseId(7), None)).expect("the cluster serves");
    let request = pb::EndSessionRequest {
        session: 7,
        stopped: true,
        secret: b"a secret".to_vec().into(),
        ..Default::default()
    };
    end_by_service(&mut world, request.clone()).expect("no session has a secret yet");
    assert!(world.truth.state().elections.session(LeaseId(7)).is_none());
    upgrade(&mut world, 2, SESSION_SECRETS_SINCE);
    world.probe(3, open(LeaseId(7), secret)).expect("now all know it");
    let refused = end_by_service(&mut world, request).expect_err("that is another secret");
    assert!(refused.message().ends_with(&Refusal::WrongSecret.to_string()), "{refused}");
    let unconfirmed = pb::EndSessionRequest { session: 7, ..Default::default() };
    end_by_service(&mut world, unconfirmed).expect("any client may revoke it");
    assert!(world.truth.state().elections.session(LeaseId(7)).is_none());
}

#[test]
fn cluster_version_gates_vouching() {
    let _replay = Replay::of_test(1);
    let mut world = with_an_older_member(2, 3, 4);
    for _ in world.numbers() {
        world.add_client(RegisterClient::default());
    }
    world.run(ms(2000));
    assert_eq!(world.counts.of("vouched"), 0, "one of them would not wait for it in its reads");
    upgrade(&mut world, 2, 4);
    world.run(ms(2000));
    assert!(world.counts.of("vouched") > 0, "it is worth it as soon as it may be");
}

#[test]
fn cluster_version_gates_principals() {
    let _replay = Replay::of_test(1);
    let proof = Proof::Claims;
    let user = || Principal::User { name: "ada".into(), auth_revision: 1, proof };
    // By every member, so that at least two of three reach the raft leader in forwarded batches.
    let ask = |world: &mut World, ids: Range<i64>| {
        for (member, lease) in world.numbers().into_iter().zip(ids) {
            let command = Command::LeaseGrant { id: LeaseId(lease), ttl_secs: 60 };
            world.send_request_by(usize::MAX, member, user(), Operation::Write(command));
        }
        world.run(ms(1000));
    };
    let mut world = with_an_older_member(2, 6, 7);
    ask(&mut world, 1..4);
    assert_eq!(world.counts.of("by a user"), 0, "one of them could not read it");
    assert_eq!(world.counts.of("by the system"), 0, "one of them could not read it");
    upgrade(&mut world, 2, 7);
    ask(&mut world, 4..7);
    assert_eq!(world.counts.of("by a user"), 3, "each is known by its principal");
    assert!(world.counts.of("by the system") > 0, "so are the members' own");
    assert_eq!(world.truth.state().leases.iter().count(), 6, "and all of them were done");
}

#[test]
fn cluster_version_gates_users() {
    let _replay = Replay::of_test(1);
    let add = || {
        let command = AuthCommand::UserAdd { name: "ada".into(), password: None };
        Operation::Write(Command::Auth(command))
    };
    let held = || Principal::User { name: "ada".into(), auth_revision: 1, proof: Proof::Held };
    let ask = |world: &mut World, lease: i64| {
        let command = Command::LeaseGrant { id: LeaseId(lease), ttl_secs: 60 };
        world.send_request_by(usize::MAX, 1, held(), Operation::Write(command));
        world.run(ms(1000));
    };
    let mut world = with_an_older_member(2, 8, 9);
    assert_eq!(world.probe(1, add()).err(), Some(Failure::NotCapable));
    ask(&mut world, 1);
    assert_eq!(world.counts.of("by a user"), 0, "one of them could not read it");
    let digest = world.truth.state().digest();
    upgrade(&mut world, 2, 9);
    world.probe(1, add()).expect("all of them can do it");
    ask(&mut world, 2);
    assert_eq!(world.counts.of("by a user"), 1);
    assert_ne!(world.truth.state().digest(), digest);
}
