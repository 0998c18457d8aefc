//! The whole replicated state as a stream of chunks, and back.
//!
//! A chunk begins with a byte that says what it holds; no record spans two chunks. The order is:
//! one *roll* chunk (members, versions, origins), any number of *lease* chunks, any number of *queue*
//! chunks, any number of *auth* chunks, the store's chunks.

#[cfg(test)]
mod golden;

use bytes::Bytes;
use tenure_api::{Alarm, Member, MemberId};

use crate::{
    auth::Auth,
    codec::{Codec, DecodeError, Reader, put_option, put_u64},
    command::{ELECTIONS_SINCE, INVITES_SINCE, MemberChange},
    election::Elections,
    log::SnapshotMark,
    mvcc,
    state::{Origin, State},
};

/// The state at one entry of the log.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The position in the log.
    pub mark: SnapshotMark,
    /// The state there.
    pub state: State,
}

const ROLL: u8 = 1;
const LEASES: u8 = 2;
const STORE: u8 = 3;
/// From cluster version 3 on, after the leases: sessions and elections.
const QUEUES: u8 = 4;
/// From cluster version 9 on, after the elections: users and roles.
const AUTH: u8 = 5;
/// The roll as the first release wrote it. It is still written while the cluster version is 1: a
/// member of that release may be the one to read it.
const ROLL_FORMAT_1: u64 = 1;
/// From cluster version 2 on: what follows tells of changes of the members, and the alarms.
const ROLL_FORMAT_2: u64 = 2;
/// From cluster version 5 on: and then the invited members.
const ROLL_FORMAT_3: u64 = 3;
const CHUNK_BYTES: usize = 256 << 10;
/// The longest list of a lease's keys that is written at all.
const LISTED_BYTES_MAX: usize = 16 << 20;

impl Snapshot {
    /// Everything that [`SnapshotReader`] needs. Takes time in proportion to the state: not for the core loop.
    pub fn chunks(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.chunks_beside_store().chain(self.state.store.chunks_after(&[STORE]))
    }

    /// The same without the store, for a file that has its keys in another form. [`SnapshotReader::finish_with`] takes them.
    pub fn chunks_beside_store(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        std::iter::once(roll(&self.state))
            .chain(lease_chunks(&self.state))
            .chain(queue_chunks(&self.state.elections))
            .chain(auth_chunks(&self.state.auth))
    }
}

/// Makes a state from the chunks of a frozen one.
#[derive(Debug, Default)]
pub struct SnapshotReader {
    state: Option<State>,
    store: mvcc::Restore,
}

impl SnapshotReader {
    /// Before the first chunk.
    pub fn new() -> SnapshotReader {
        SnapshotReader::default()
    }

    /// Takes the next chunk.
    pub fn chunk(&mut self, chunk: &[u8]) -> Result<(), DecodeError> {
        let mut input = Reader::new(chunk);
        match (input.u8()?, &mut self.state) {
            (ROLL, state @ None) => *state = Some(read_roll(&mut input)?),
            (LEASES, Some(state)) => {
                while input.remaining() > 0 {
                    state.leases.decode_one(&mut input)?;
                }
            }
            (QUEUES, Some(state)) => {
                while input.remaining() > 0 {
                    state.elections.decode_one(&mut input)?;
                }
            }
            (AUTH, Some(state)) => {
                while input.remaining() > 0 {
                    state.auth.decode_one(&mut input)?;
                }
            }
            (STORE, Some(_)) => return self.store.chunk(&chunk[1..]),
            (tag, _) => return Err(DecodeError::UnknownTag { what: "state chunk", tag }),
        }
        input.finish()
    }

    /// After the last chunk.
    pub fn finish(self) -> Result<State, DecodeError> {
        let mut state = self.state.ok_or(DecodeError::Truncated)?;
        state.store = self.store.finish()?;
        state.keys_onto_leases();
        Ok(state)
    }

    /// After the last chunk, if none of them was of the store.
    pub fn finish_with(self, store: mvcc::Store) -> Result<State, DecodeError> {
        let state = self.state.ok_or(DecodeError::Truncated)?;
        let mut state = State { store, ..state };
        state.keys_onto_leases();
        Ok(state)
    }
}

/// Members, versions, origins, alarms: all that is neither key nor lease.
pub(crate) fn roll(state: &State) -> Vec<u8> {
    let mut out = vec![ROLL];
    let format = match state.cluster_version {
        INVITES_SINCE.. => ROLL_FORMAT_3,
        2.. => ROLL_FORMAT_2,
        _ => ROLL_FORMAT_1,
    };
    put_u64(&mut out, format);
    put_u64(&mut out, u64::from(state.cluster_version));
    put_u64(&mut out, state.members.len() as u64);
    for member in state.members.values() {
        member.encode(&mut out);
    }
    put_u64(&mut out, state.command_versions.len() as u64);
    for (member, version) in &state.command_versions {
        put_u64(&mut out, member.0);
        put_u64(&mut out, u64::from(*version));
    }
    put_u64(&mut out, state.directories.len() as u64);
    for (member, directory) in &state.directories {
        put_u64(&mut out, member.0);
        put_u64(&mut out, *directory);
    }
    put_u64(&mut out, state.origins.len() as u64);
    for (member, origin) in &state.origins {
        put_u64(&mut out, member.0);
        put_u64(&mut out, origin.boot);
        put_u64(&mut out, origin.sequence);
    }
    if format >= ROLL_FORMAT_2 {
        put_changes(&mut out, state);
    }
    if format >= ROLL_FORMAT_3 {
        put_u64(&mut out, state.invited.len() as u64);
        for member in &state.invited {
            put_u64(&mut out, member.0);
        }
    }
    out
}

fn put_changes(out: &mut Vec<u8>, state: &State) {
    put_u64(out, state.removed.len() as u64);
    for member in &state.removed {
        put_u64(out, member.0);
    }
    put_u64(out, state.departing.len() as u64);
    for member in state.departing.values() {
        member.encode(out);
    }
    put_option(out, state.change.as_ref(), |out, change| Codec::encode(change, out));
    put_u64(out, state.alarms.len() as u64);
    for alarm in &state.alarms {
        alarm.encode(out);
    }
}

fn read_changes(input: &mut Reader<'_>, state: &mut State) -> Result<(), DecodeError> {
    for _ in 0..input.count()? {
        state.removed.insert(MemberId(input.u64()?));
    }
    for _ in 0..input.count()? {
        let member = Member::decode(input)?;
        state.departing.insert(member.id, member);
    }
    state.change = input.option(<MemberChange as Codec>::decode)?;
    for _ in 0..input.count()? {
        state.alarms.insert(Alarm::decode(input)?);
    }
    Ok(())
}

fn read_roll(input: &mut Reader<'_>) -> Result<State, DecodeError> {
    let format = input.u64()?;
    if !(ROLL_FORMAT_1..=ROLL_FORMAT_3).contains(&format) {
        return Err(DecodeError::UnknownTag { what: "snapshot format", tag: format as u8 });
    }
    let version =
        |input: &mut Reader<'_>| u32::try_from(input.u64()?).map_err(|_| DecodeError::Overflow);
    let mut state = State { cluster_version: version(input)?, ..State::default() };
    for _ in 0..input.count()? {
        let member = Member::decode(input)?;
        state.members.insert(member.id, member);
    }
    for _ in 0..input.count()? {
        state.command_versions.insert(MemberId(input.u64()?), version(input)?);
    }
    for _ in 0..input.count()? {
        state.directories.insert(MemberId(input.u64()?), input.u64()?);
    }
    for _ in 0..input.count()? {
        let member = MemberId(input.u64()?);
        state.origins.insert(member, Origin { boot: input.u64()?, sequence: input.u64()? });
    }
    if format >= ROLL_FORMAT_2 {
        read_changes(input, &mut state)?;
    }
    if format >= ROLL_FORMAT_3 {
        for _ in 0..input.count()? {
            state.invited.insert(MemberId(input.u64()?));
        }
    }
    Ok(state)
}

/// The leases. The keys on them are in the store, each with its lease, and are written here only
/// while a release may read it that looks for them nowhere else: a list has no bound, and a chunk has.
fn lease_chunks(state: &State) -> impl Iterator<Item = Vec<u8>> + '_ {
    let lists_keys = state.cluster_version < ELECTIONS_SINCE;
    let mut left = state.leases.iter().peekable();
    std::iter::from_fn(move || {
        left.peek()?;
        let mut out = vec![LEASES];
        while out.len() < CHUNK_BYTES {
            let Some((id, lease)) = left.next() else { break };
            // An import from etcd begins with the first version, and may bring any number.
            let fits =
                lists_keys && lease.keys.iter().map(Bytes::len).sum::<usize>() <= LISTED_BYTES_MAX;
            lease.encode(id, fits, &mut out);
        }
        Some(out)
    })
}

pub(crate) fn queue_chunks(elections: &Elections) -> impl Iterator<Item = Vec<u8>> + '_ {
    record_chunks(QUEUES, elections.records())
}

/// There are none below cluster version 9: nothing of it can have been changed then.
pub(crate) fn auth_chunks(auth: &Auth) -> impl Iterator<Item = Vec<u8>> + '_ {
    record_chunks(AUTH, auth.records())
}

fn record_chunks(tag: u8, records: impl Iterator<Item = Vec<u8>>) -> impl Iterator<Item = Vec<u8>> {
    let mut left = records.peekable();
    std::iter::from_fn(move || {
        left.peek()?;
        let mut out = vec![tag];
        while out.len() < CHUNK_BYTES {
            let Some(record) = left.next() else { break };
            out.extend_from_slice(&record);
        }
        Some(out)
    })
}
