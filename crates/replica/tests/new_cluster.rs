//! A cluster made from another's data: whatever the other one did, no fencing token comes twice.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tenure_api::{
    Failure, LeaseId, Member, MemberId, Principal, Put, Range, Revision, Span, Term, op::PutLease,
};
use tenure_replica::{
    Answer, EntryContext, Input, Moment, Operation, Recovered, Replica, ReplicaConfig, Request,
    Snapshot, SnapshotMark, SnapshotReader, State,
    command::{COMMAND_VERSION, Command, MemberChange},
    new_cluster::{REVISION_JUMP_MIN, REVISION_MAX, by_clock, first_revision},
    state::ApplyEffects,
};

#[derive(Clone, Debug)]
enum Step {
    Put(u8, bool),
    Delete(u8),
    Revoke,
    Grant,
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u8, any::<bool>()).prop_map(|(key, leased)| Step::Put(key, leased)),
        2 => (0..6_u8).prop_map(Step::Delete),
        1 => Just(Step::Revoke),
        1 => Just(Step::Grant),
        1 => Just(Step::Compact),
    ]
}

const LEASE: LeaseId = LeaseId(9);

/// Does a step and answers the token it handed out: the create revision of a key that it made.
fn play(state: &mut State, index: u64, step: &Step) -> Option<Revision> {
    let name = |key: u8| Bytes::from(vec![b'k', key]);
    let command = match step {
        Step::Put(key, leased) => {
            let lease = leased.then_some(LEASE).filter(|lease| state.leases.contains(*lease));
            Command::Put(Put {
                key: name(*key),
                value: Some(Bytes::from_static(b"v")),
                lease: PutLease::Set(lease),
                prev_kv: false,
            })
        }
        Step::Delete(key) => Command::DeleteRange(tenure_api::DeleteRange {
            span: Span::One(name(*key)),
            prev_kv: false,
        }),
        Step::Revoke => Command::LeaseRevoke(LEASE),
        Step::Grant => Command::LeaseGrant { id: LEASE, ttl_secs: 5 },
        Step::Compact => Command::Compact(state.store.revision()),
    };
    let Step::Put(key, _) = step else {
        let _ = state.apply(
            EntryContext { index, term: Term(1), ms: 0 },
            &Principal::System,
            &command,
            &mut ApplyEffects::default(),
        );
        return None;
    };
    let is_new = state.store.get(&name(*key)).is_none();
    state
        .apply(
            EntryContext { index, term: Term(1), ms: 0 },
            &Principal::System,
            &command,
            &mut ApplyEffects::default(),
        )
        .unwrap();
    is_new.then(|| state.store.get(&name(*key)).unwrap().create_revision)
}

fn play_all(state: &mut State, steps: &[Step]) -> Vec<Revision> {
    steps.iter().zip(1..).filter_map(|(step, index)| play(state, index, step)).collect()
}

fn thawed(state: &State) -> State {
    let snapshot = Snapshot { mark: SnapshotMark::default(), state: state.clone() };
    let mut thaw = SnapshotReader::new();
    snapshot.chunks().for_each(|chunk| thaw.chunk(&chunk).unwrap());
    thaw.finish().unwrap()
}

/// Where a cluster of several begins whose first batch is logged at this time.
fn begins(backup: &State, ms: u64) -> State {
    let member = |id| Member {
        id: MemberId(id),
        name: format!("n{id}"),
        peer_urls: vec![],
        client_urls: vec![],
        is_learner: false,
    };
    let members = [1, 2, 3].map(member);
    let first = first_revision(backup.store.revision(), 0, None).unwrap();
    let mut state = backup.new_cluster(members, first);
    state.leap(ms);
    state
}

#[test]
fn new_cluster_of_members_restored_twice_goes_on_from_the_clock() {
    const FIRST_TIME: u64 = 1_700_000_000_000;
    let mut old = State::new([]);
    play_all(&mut old, &[Step::Put(1, false)]);
    let backup = thawed(&old);
    let mut first = begins(&backup, FIRST_TIME);
    let given = play_all(&mut first, &[Step::Put(2, false), Step::Put(3, false)]);
    let mut second = begins(&backup, FIRST_TIME + 1);
    let given_again = play_all(&mut second, &[Step::Put(2, false)]);
    assert!(given_again[0] > given[1], "{given_again:?} after {given:?}");
    // A clock that is wrong: the jump counts.
    let jumped = first_revision(backup.store.revision(), 0, None).unwrap();
    assert_eq!(begins(&backup, 0).store.revision(), jumped);
    assert_eq!(begins(&backup, u64::MAX).store.revision(), REVISION_MAX);
    // What was compacted stays so, and what is kept is there.
    assert_eq!(second.store.compacted().0, by_clock(FIRST_TIME + 1).0);
    assert!(second.store.get(b"k\x01").is_some());
}

#[test]
fn new_cluster_leaps_only_if_restored_and_before_its_first_write() {
    let mut state = State::new([]);
    state.leap(1_700_000_000_000);
    assert_eq!(state.store.revision(), Revision(1));
    let mut new_cluster = begins(&state, 0);
    play_all(&mut new_cluster, &[Step::Put(1, false)]);
    let before = new_cluster.store.revision();
    new_cluster.leap(1_700_000_000_000);
    assert_eq!(new_cluster.store.revision(), before);
}

proptest! {
    #[test]
    fn new_cluster_tokens_only_grow(
        before in prop::collection::vec(step(), 0..30),
        lost in prop::collection::vec(step(), 0..30),
        after in prop::collection::vec(step(), 0..30),
        bump in 0..5_000_000_000_000_i64,
    ) {
        let mut old = State::new([]);
        let mut given = play_all(&mut old, &before);
        let backup = thawed(&old);
        // What the old cluster did after the backup, of which the new one knows nothing.
        given.extend(play_all(&mut old, &lost));
        let first = first_revision(backup.store.revision(), bump, None).unwrap();
        let mut new = thawed(&backup.new_cluster([], first));
        prop_assert!(new.store.revision().0 >= backup.store.revision().0 + REVISION_JUMP_MIN);
        let highest = given.iter().max().copied().unwrap_or_default();
        for token in play_all(&mut new, &after) {
            prop_assert!(token > highest && token > first, "{token:?} after {highest:?}");
        }
    }

    #[test]
    fn new_cluster_keeps_live_keys_and_compacts_the_past(
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut old = State::new([]);
        play_all(&mut old, &steps);
        let first = first_revision(old.store.revision(), 0, None).unwrap();
        let new = old.new_cluster([], first);
        let all = |revision| Range {
            revision,
            ..Range::all(Span::From(Bytes::from_static(b"\0")))
        };
        let kept: Vec<_> = old.store.range(&all(None)).unwrap().kvs;
        let kept: Vec<_> = kept.into_iter().filter(|kv| kv.lease.is_none()).collect();
        prop_assert_eq!(&new.store.range(&all(None)).unwrap().kvs, &kept);
        prop_assert_eq!(new.store.len(), kept.len());
        for past in [Revision(1), old.store.revision(), Revision(first.0 - 1)] {
            prop_assert_eq!(new.store.range(&all(Some(past))).err(), Some(Failure::Compacted));
        }
        prop_assert_eq!(new.store.range(&all(Some(first))).unwrap().kvs, kept);
        prop_assert!(new.leases.is_empty());
        // A watch may begin at the compacted revision, and finds nothing there.
        prop_assert_eq!(new.store.changes_since(first).count(), 0);
        let (again, same) = (thawed(&new), new.store.hash(None).unwrap());
        prop_assert_eq!(again.store.hash(None).unwrap(), same);
        prop_assert_eq!(again.store.size_bytes(), new.store.size_bytes());
    }
}

#[test]
fn new_cluster_follows_only_a_clock_ahead_of_its_revisions() {
    let last = Revision(10);
    let jumped = Revision(10 + REVISION_JUMP_MIN);
    assert_eq!(first_revision(last, 0, Some(Revision(5))), Some(jumped));
    let now = Revision(1_800_000_000_000_000);
    assert_eq!(first_revision(last, 0, Some(now)), Some(now));
    assert_eq!(first_revision(Revision(1 << 53), 0, None), None);
    assert_eq!(first_revision(last, i64::MAX, None), None);
}

/// A member alone, with a disk that is always done at once.
struct Alone {
    replica: Replica,
    now: Moment,
}

impl Alone {
    fn fresh() -> Alone {
        let recovered = Recovered { boot: 1, ..Recovered::default() };
        let config = ReplicaConfig::new(MemberId(1), vec![first_member()]);
        let replica = Replica::new(Moment::ZERO, config, recovered);
        Alone { replica, now: Moment::ZERO }
    }

    fn restored(clock_start_ms: u64) -> Alone {
        let mut old = State::new([]);
        play_all(&mut old, &[Step::Put(1, false)]);
        let member = first_member();
        let first = first_revision(old.store.revision(), 0, None).unwrap();
        let state = old.new_cluster([member.clone()], first);
        let mark = SnapshotMark {
            index: 1,
            term: Term(1),
            voters: vec![member.id],
            ..SnapshotMark::default()
        };
        let config =
            ReplicaConfig { clock_start_ms, ..ReplicaConfig::new(member.id, vec![member]) };
        let recovered =
            Recovered { boot: 1, snapshot: Some((mark, state)), ..Recovered::default() };
        let replica = Replica::new(Moment::ZERO, config, recovered);
        Alone { replica, now: Moment::ZERO }
    }

    fn settle(&mut self, mut inputs: Vec<Input>) -> Vec<Answer> {
        let mut answers = Vec::new();
        loop {
            let effects = self.replica.handle(self.now, std::mem::take(&mut inputs));
            inputs.extend(effects.persist.iter().map(|persist| Input::Persisted(persist.number)));
            answers.extend(effects.answers);
            if inputs.is_empty() && effects.wake_at > self.now {
                return answers;
            }
            self.now = self.now + Duration::from_micros(100);
        }
    }
}

#[test]
fn new_cluster_leaps_when_a_member_change_is_its_first_batch() {
    let clock = 1_700_000_000_000;
    let mut restored = Alone::restored(clock);
    restored.settle(vec![]);
    assert!(restored.replica.status().leader.is_some(), "a single voter leads at once");
    let learner = MemberChange::Add {
        id: MemberId(2),
        peer_urls: vec!["http://m2:2380".into()],
        is_learner: true,
    };
    assert!(restored.replica.state().origins.is_empty(), "it has published nothing yet");
    let change = Request::anonymous(Operation::Write(Command::Members(learner)));
    restored.settle(vec![Input::Request(1, change)]);
    assert!(restored.replica.state().members.contains_key(&MemberId(2)));
    let revision = restored.replica.state().store.revision();
    assert!(revision >= by_clock(clock), "it stays at {revision}");
}

#[test]
fn fresh_member_is_capable_only_when_the_cluster_version_is_raised() {
    let mut fresh = Alone::fresh();
    fresh.settle(vec![]);
    assert!(fresh.replica.status().leader.is_some(), "a single voter leads at once");
    assert!(!fresh.replica.status().is_capable, "its version is not known yet");
    for _ in 0..10 {
        fresh.now = fresh.now + Duration::from_millis(10);
        fresh.settle(vec![]);
        let status = fresh.replica.status();
        assert_eq!(status.is_capable, status.cluster_version == COMMAND_VERSION);
    }
    assert!(fresh.replica.status().is_capable);
}

fn first_member() -> Member {
    Member {
        id: MemberId(1),
        name: String::new(),
        peer_urls: vec!["http://m1:2380".into()],
        client_urls: vec![],
        is_learner: false,
    }
}
