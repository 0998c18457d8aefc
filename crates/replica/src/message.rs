//! What members say to each other, in our own words and our own bytes.
//!
//! raft-rs has message types of its own; they are translated at the edge of `raft/` and never
//! parsed from the network (its protobuf does not guard against hostile bytes).

use std::time::Duration;

use bytes::Bytes;
use tenure_api::{MemberId, Term};

use crate::{
    codec::{Codec, DecodeError, Reader, put_bool, put_bytes, put_u64},
    log::{Entry, LogIndex, SnapshotMark},
};

/// One message between members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Raft's own.
    Raft(RaftMessage),
    /// A batch of commands for the raft leader to propose.
    Forward(Bytes),
    /// The checksum of the sender's whole state at an entry of the log.
    Audited(LogIndex, u64),
}

/// A raft message. Which fields mean something depends on the kind, as in the paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftMessage {
    /// What it asks or tells.
    pub kind: RaftKind,
    /// The sender.
    pub from: MemberId,
    /// The recipient.
    pub to: MemberId,
    /// The sender's term; 0 for local kinds.
    pub term: Term,
    /// The term of the entry at `index`.
    pub log_term: Term,
    /// A log index. In a heartbeat: for how many milliseconds no quorum has answered the sender.
    pub index: LogIndex,
    /// The sender's commit index.
    pub commit: LogIndex,
    /// The term of the entry at `commit`.
    pub commit_term: Term,
    /// Whether an append or vote was refused.
    pub reject: bool,
    /// Where the refusing log ends.
    pub reject_hint: LogIndex,
    /// The snapshot the sender asks for.
    pub request_snapshot: LogIndex,
    /// An election's priority.
    pub priority: i64,
    /// Entries to append.
    pub entries: Vec<Entry>,
    /// Marks a read round.
    pub context: Bytes,
    /// The snapshot to install; its content travels outside this message.
    pub snapshot: Option<SnapshotMark>,
}

/// What marks a notice.
const NOTICE: &[u8] = b"notice";
/// What marks a word of the raft leader about its own disk.
const VOUCH: &[u8] = b"vouch";

impl Message {
    /// Which life of its origin made the batch that this forwards. None for other messages, and for what is no batch.
    pub fn life(&self) -> Option<u64> {
        let Message::Forward(batch) = self else { return None };
        let mut head = Reader::new(batch);
        let _origin = head.u64().ok()?;
        head.u64().ok()
    }
}

impl RaftMessage {
    /// An append of nothing, which only tells how far the log is committed.
    ///
    /// Its index is that of the committed entry itself, so a follower that has that entry knows that the whole log up to
    /// it is the same. It is not answered: the raft leader learns nothing from the answer, and would be woken for it. A member
    /// that does not know the mark takes it for an ordinary append, and answers.
    pub(crate) fn notice(from: MemberId, to: MemberId, term: Term, at: (LogIndex, Term)) -> Self {
        RaftMessage::empty_append(from, to, term, at, at.0, NOTICE)
    }

    /// An append of nothing, which tells that the sender's own disk has its log up to `index`, an entry of its term.
    /// It is not answered either.
    pub(crate) fn vouch(
        from: MemberId,
        to: MemberId,
        term: Term,
        index: LogIndex,
        commit: LogIndex,
    ) -> Self {
        RaftMessage::empty_append(from, to, term, (index, term), commit, VOUCH)
    }

    fn empty_append(
        from: MemberId,
        to: MemberId,
        term: Term,
        at: (LogIndex, Term),
        commit: LogIndex,
        mark: &'static [u8],
    ) -> Self {
        RaftMessage {
            kind: RaftKind::Append,
            from,
            to,
            term,
            log_term: at.1,
            index: at.0,
            commit,
            commit_term: Term(0),
            reject: false,
            reject_hint: 0,
            request_snapshot: 0,
            priority: 0,
            entries: vec![],
            context: Bytes::from_static(mark),
            snapshot: None,
        }
    }

    /// A heartbeat tells for how long its sender has been without a quorum. raft-rs does not look at a heartbeat's
    /// `index`, and members that do not know of this leave it zero.
    pub(crate) fn set_leader_alone(&mut self, alone: Duration) {
        if self.kind == RaftKind::Heartbeat {
            self.index = alone.as_millis() as LogIndex;
        }
    }

    /// For how long the raft leader that sends this has been without a quorum; none if it does not say.
    pub(crate) fn leader_alone(&self) -> Option<Duration> {
        (self.kind == RaftKind::Heartbeat).then(|| Duration::from_millis(self.index))
    }

    /// Whether it is a notice.
    pub(crate) fn is_notice(&self) -> bool {
        self.is_marked(NOTICE)
    }

    /// Whether the sender vouches for what it has.
    pub(crate) fn is_vouch(&self) -> bool {
        self.is_marked(VOUCH)
    }

    fn is_marked(&self, mark: &[u8]) -> bool {
        self.kind == RaftKind::Append && self.entries.is_empty() && self.context == mark
    }
}

macro_rules! kinds {
    ($($name:ident = $tag:literal),* $(,)?) => {
        /// The kinds of raft message that travel between members.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum RaftKind { $($name = $tag),* }

        impl RaftKind {
            fn from_tag(tag: u8) -> Option<RaftKind> {
                match tag { $($tag => Some(RaftKind::$name),)* _ => None }
            }
        }
    };
}

kinds! {
    Append = 1,
    AppendResponse = 2,
    RequestVote = 3,
    RequestVoteResponse = 4,
    Snapshot = 5,
    Heartbeat = 6,
    HeartbeatResponse = 7,
    TransferLeader = 8,
    TimeoutNow = 9,
    ReadIndex = 10,
    ReadIndexResponse = 11,
    RequestPreVote = 12,
    RequestPreVoteResponse = 13,
}

impl Codec for Message {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Message::Raft(message) => {
                out.push(1);
                message.encode(out);
            }
            Message::Forward(batch) => {
                out.push(2);
                put_bytes(out, batch);
            }
            Message::Audited(index, digest) => {
                out.push(3);
                put_u64(out, *index);
                put_u64(out, *digest);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Message, DecodeError> {
        match input.u8()? {
            1 => RaftMessage::decode(input).map(Message::Raft),
            2 => input.bytes().map(Message::Forward),
            3 => Ok(Message::Audited(input.u64()?, input.u64()?)),
            tag => Err(DecodeError::UnknownTag { what: "message", tag }),
        }
    }
}

impl Codec for RaftMessage {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        for number in [
            self.from.0,
            self.to.0,
            self.term.0,
            self.log_term.0,
            self.index,
            self.commit,
            self.commit_term.0,
        ] {
            put_u64(out, number);
        }
        put_bool(out, self.reject);
        put_u64(out, self.reject_hint);
        put_u64(out, self.request_snapshot);
        crate::codec::put_i64(out, self.priority);
        put_u64(out, self.entries.len() as u64);
        for entry in &self.entries {
            entry.encode(out);
        }
        put_bytes(out, &self.context);
        crate::codec::put_option(out, self.snapshot.as_ref(), |out, mark| mark.encode(out));
    }

    fn decode(input: &mut Reader<'_>) -> Result<RaftMessage, DecodeError> {
        let tag = input.u8()?;
        Ok(RaftMessage {
            kind: RaftKind::from_tag(tag)
                .ok_or(DecodeError::UnknownTag { what: "raft message", tag })?,
            from: MemberId(input.u64()?),
            to: MemberId(input.u64()?),
            term: Term(input.u64()?),
            log_term: Term(input.u64()?),
            index: input.u64()?,
            commit: input.u64()?,
            commit_term: Term(input.u64()?),
            reject: input.bool()?,
            reject_hint: input.u64()?,
            request_snapshot: input.u64()?,
            priority: input.i64()?,
            entries: (0..input.count()?).map(|_| Entry::decode(input)).collect::<Result<_, _>>()?,
            context: input.bytes()?,
            snapshot: input.option(SnapshotMark::decode)?,
        })
    }
}
