//! What a member keeps on disk, in our own words: log entries, the vote, where a snapshot stands.

use bytes::Bytes;
use tenure_api::{MemberId, Term};

use crate::codec::{Codec, DecodeError, Reader, put_bytes, put_option, put_u64};

/// A position in the raft log. The first entry has index 1.
pub type LogIndex = u64;

/// One entry of the raft log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The term in which it was proposed.
    pub term: Term,
    /// Its index.
    pub index: LogIndex,
    /// What is in it.
    pub kind: EntryKind,
    /// The bytes, which only the replica can read.
    pub data: Bytes,
}

/// What an entry carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A batch of commands, or nothing (a new raft leader's first entry).
    Commands = 0,
    /// A change of the membership.
    Membership = 1,
}

/// Raft's vote and commit state; term and vote must be durable before anything that follows from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The newest term seen.
    pub term: Term,
    /// The member that this one voted for in it.
    pub vote: Option<MemberId>,
    /// Up to where the log is known to be committed.
    pub commit: LogIndex,
}

/// A snapshot's position in the log and the members at that point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMark {
    /// The last entry the snapshot contains.
    pub index: LogIndex,
    /// That entry's term.
    pub term: Term,
    /// Members with a vote.
    pub voters: Vec<MemberId>,
    /// Members without.
    pub learners: Vec<MemberId>,
    /// While a change of the members is under way: those with a vote before it. Both majorities
    /// must agree then.
    pub outgoing: Vec<MemberId>,
}

/// One write to the log: everything in it becomes durable together, before
/// [`Input::Persisted`](crate::Input::Persisted) of its number is handed in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Persist {
    /// Numbers grow; they are acknowledged in order.
    pub number: u64,
    /// The vote state, if it changed.
    pub hard_state: Option<HardState>,
    /// A snapshot was installed and its file is durable: the log starts anew after it.
    pub snapshot: Option<SnapshotMark>,
    /// Entries to append. The first may lie at or before the log's end: it and what follows is replaced.
    pub entries: Vec<Entry>,
}

impl Codec for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.term.0);
        put_u64(out, self.index);
        out.push(self.kind as u8);
        put_bytes(out, &self.data);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Entry, DecodeError> {
        Ok(Entry {
            term: Term(input.u64()?),
            index: input.u64()?,
            kind: match input.u8()? {
                0 => EntryKind::Commands,
                1 => EntryKind::Membership,
                tag => return Err(DecodeError::UnknownTag { what: "log entry", tag }),
            },
            data: input.bytes()?,
        })
    }
}

impl Codec for HardState {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.term.0);
        put_option(out, self.vote, |out, member| put_u64(out, member.0));
        put_u64(out, self.commit);
    }

    fn decode(input: &mut Reader<'_>) -> Result<HardState, DecodeError> {
        Ok(HardState {
            term: Term(input.u64()?),
            vote: input.option(|input| input.u64().map(MemberId))?,
            commit: input.u64()?,
        })
    }
}

impl Codec for SnapshotMark {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.index);
        put_u64(out, self.term.0);
        let put = |out: &mut Vec<u8>, members: &[MemberId]| {
            put_u64(out, members.len() as u64);
            for member in members {
                put_u64(out, member.0);
            }
        };
        // There is always a voter: a count of 0 says that the longer form follows, which only
        // releases write that know changes of the members.
        let long = !self.outgoing.is_empty() || self.voters.is_empty();
        if long {
            put_u64(out, 0);
        }
        put(out, &self.voters);
        put(out, &self.learners);
        if long {
            put(out, &self.outgoing);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<SnapshotMark, DecodeError> {
        let members = |input: &mut Reader<'_>| -> Result<Vec<MemberId>, DecodeError> {
            (0..input.count()?).map(|_| input.u64().map(MemberId)).collect()
        };
        let (index, term) = (input.u64()?, Term(input.u64()?));
        let voters = members(input)?;
        if !voters.is_empty() {
            return Ok(SnapshotMark {
                index,
                term,
                voters,
                learners: members(input)?,
                outgoing: vec![],
            });
        }
        let (voters, learners, outgoing) = (members(input)?, members(input)?, members(input)?);
        Ok(SnapshotMark { index, term, voters, learners, outgoing })
    }
}
