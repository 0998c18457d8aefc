//! A state of any shape is written in small chunks: writers and readers hold one at a time,
//! and refuse one that is too large. A record that could grow without bound would one day keep a
//! cluster from ever writing a snapshot again.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use tenure_api::{LeaseId, Principal, Put, Term, op::PutLease};
use tenure_replica::{
    EntryContext, Snapshot, SnapshotMark, SnapshotReader, State,
    command::{COMMAND_VERSION, Command},
    state::ApplyEffects,
};

/// What a chunk is meant to hold, and once more for the record that takes it beyond.
const CHUNK_BYTES_MAX: usize = 512 << 10;

fn apply(state: &mut State, index: u64, command: Command) {
    let at = EntryContext { index, term: Term(1), ms: 0 };
    state.apply(at, &Principal::System, &command, &mut ApplyEffects::default()).unwrap();
}

fn put(key: String, lease: LeaseId) -> Command {
    let (key, value) = (Bytes::from(key), Some(Bytes::from_static(b"v")));
    Command::Put(Put { key, value, lease: PutLease::Set(Some(lease)), prev_kv: false })
}

/// Freezes and thaws it. Answers what came back, and the largest chunk.
fn through_chunks(state: &State) -> (State, usize) {
    let mark = SnapshotMark::default();
    let chunks: Vec<_> = Snapshot { mark, state: state.clone() }.chunks().collect();
    let largest = chunks.iter().map(Vec::len).max().unwrap();
    let mut thaw = SnapshotReader::new();
    chunks.iter().for_each(|chunk| thaw.chunk(chunk).unwrap());
    (thaw.finish().unwrap(), largest)
}

fn of_version(cluster_version: u32) -> State {
    State { cluster_version, ..State::new([]) }
}

#[test]
fn snapshot_writes_a_lease_with_many_keys_in_small_chunks() {
    let mut state = of_version(COMMAND_VERSION);
    let lease = LeaseId(7);
    apply(&mut state, 1, Command::LeaseGrant { id: lease, ttl_secs: 60 });
    for key in 0..20_000 {
        apply(&mut state, 2, put(format!("{key:064}"), lease));
    }
    let (back, largest) = through_chunks(&state);
    assert!(largest <= CHUNK_BYTES_MAX, "{largest}");
    assert_eq!(back.leases, state.leases);
    assert_eq!(back.digest(), state.digest());
}

#[test]
fn snapshot_writes_a_long_election_in_small_chunks() {
    let mut state = of_version(COMMAND_VERSION);
    for lease in 1..3_000 {
        apply(&mut state, 1, Command::LeaseGrant { id: LeaseId(lease), ttl_secs: 60 });
        apply(&mut state, 2, put(format!("{:0300}/{lease:x}", 1), LeaseId(lease)));
    }
    let (back, largest) = through_chunks(&state);
    assert!(largest <= CHUNK_BYTES_MAX, "{largest}");
    assert_eq!(back.elections, state.elections);
    assert_eq!(back.digest(), state.digest());
}

/// A member of an older release looks for a lease's keys beside the lease and nowhere else.
#[test]
fn snapshot_keeps_keys_beside_leases_for_older_releases() {
    for (version, is_listed) in [(1, true), (2, true), (3, false)] {
        let mut state = of_version(version);
        apply(&mut state, 1, Command::LeaseGrant { id: LeaseId(7), ttl_secs: 60 });
        apply(&mut state, 2, put("of-the-lease".to_owned(), LeaseId(7)));
        let mark = SnapshotMark::default();
        let chunks: Vec<_> = Snapshot { mark, state: state.clone() }.chunks().collect();
        let leases = chunks.iter().find(|chunk| chunk[0] == 2).unwrap();
        let listed = leases.windows(12).any(|window| window == b"of-the-lease");
        assert_eq!(listed, is_listed, "version {version}");
        assert_eq!(through_chunks(&state).0.leases, state.leases, "version {version}");
    }
}
