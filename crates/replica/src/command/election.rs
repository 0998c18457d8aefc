//! Commands about sessions and elections.

use bytes::Bytes;
use tenure_api::{JoinSpec, LeaseId, Revision, Term};

use crate::{
    codec::{Codec, DecodeError, Reader, put_bool, put_bytes, put_i64, put_option, put_u64},
    election::{Mode, SecretDigest},
    lease::{LEASE_BYTES, SESSION_BYTES},
    mvcc::VERSION_OVERHEAD,
};

/// Stands before the tag of a command that carries the digest of a session's secret.
const WITH_SECRET: u8 = 7;

/// A change of sessions or elections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionCommand {
    /// Open a session: a lease with an identity and a memory.
    Open {
        /// Its number, chosen before proposing.
        id: LeaseId,
        /// How long it lives without a sign of life.
        ttl_ms: u64,
        /// The identity, for people.
        identity: String,
        /// It ends when its connection breaks.
        fast_release: bool,
        /// A mark that tells this attachment from all others.
        by: u64,
        /// What must be shown to speak for it later.
        secret: Option<SecretDigest>,
    },
    /// A stream attaches to a session again; also a sign of life.
    Attach {
        /// Which.
        id: LeaseId,
        /// A mark that tells this attachment from all others.
        by: u64,
        /// What the client has shown.
        secret: Option<SecretDigest>,
    },
    /// A session ends.
    End {
        /// Which.
        id: LeaseId,
        /// How.
        how: SessionEnding,
        /// What the client has shown.
        secret: Option<SecretDigest>,
    },
    /// A request of a session.
    Request {
        /// Which.
        session: LeaseId,
        /// Its number, by which a repetition is known.
        number: u64,
        /// What.
        request: SessionRequest,
    },
    /// An order of an operator.
    Admin(AdminCommand),
    /// Time is over, on the clock of this term's raft leader; void in another term.
    Overdue(Term, Vec<Overdue>),
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnding {
    /// Closed by its client.
    Closed {
        /// All work has ended.
        stopped: bool,
    },
    /// Its connection broke, and no stream has attached since.
    ConnectionLost {
        /// The attachment that broke.
        attachment: u64,
    },
    /// Revoked by another client.
    Revoked {
        /// All work has ended.
        stopped: bool,
    },
    /// Ended by the guardian of its process, which could not, after all work had ended.
    Guarded(StopCause),
}

/// Why a guardian ended the work of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// The process was killed.
    ProcessKilled = 1,
    /// Renewals were missing: the process stood still, or was cut off.
    RenewalsMissing = 2,
}

/// A request of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionRequest {
    /// Join an election, or several at once.
    Join(JoinSpec),
    /// Give up a candidacy, held or not.
    Leave {
        /// Where.
        name: Bytes,
        /// Only the candidacy with this token; none for whichever it has.
        token: Option<Revision>,
        /// The work has ended.
        stopped: bool,
    },
    /// Show another value.
    Proclaim {
        /// Where.
        name: Bytes,
        /// As the holder with this token.
        token: Revision,
        /// What.
        value: Bytes,
    },
    /// Report the candidate's health.
    Health {
        /// Where.
        name: Bytes,
        /// Whether it would rather not lead.
        unhealthy: bool,
    },
    /// Make room for the successor that was announced.
    Yield {
        /// Where.
        name: Bytes,
        /// As the leader with this token.
        token: Revision,
        /// Join again behind the others.
        stay: bool,
    },
}

/// An order of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminCommand {
    /// Transfer the leadership.
    Transfer {
        /// Where.
        name: Bytes,
        /// The successor.
        to: Successor,
        /// How long the leader may take to make room.
        within_ms: u64,
    },
    /// Take a candidacy away.
    Evict {
        /// Where.
        name: Bytes,
        /// The candidate's token; none for the leader's.
        token: Option<Revision>,
    },
    /// Let no candidate lead.
    Freeze(Bytes),
    /// Let candidates lead again.
    Resume(Bytes),
}

/// The candidate that is to lead next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Successor {
    /// This session.
    Session(LeaseId),
    /// The candidate of this identity, if there is only one.
    Identity(String),
}

/// What has lasted long enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// The wait for the stop of this session, as it has been since this revision.
    Delay(LeaseId, Revision),
    /// The time that a leader may take to make room for the successor with this token.
    Drain(Bytes, Revision),
}

impl SessionRequest {
    /// The elections that it is about.
    pub(crate) fn names(&self) -> &[Bytes] {
        match self {
            SessionRequest::Join(join) => &join.names,
            SessionRequest::Leave { name, .. }
            | SessionRequest::Proclaim { name, .. }
            | SessionRequest::Health { name, .. }
            | SessionRequest::Yield { name, .. } => std::slice::from_ref(name),
        }
    }
}

impl ElectionCommand {
    /// The secret's digest that it carries.
    pub fn secret(&self) -> Option<SecretDigest> {
        match self {
            ElectionCommand::Open { secret, .. }
            | ElectionCommand::Attach { secret, .. }
            | ElectionCommand::End { secret, .. } => *secret,
            ElectionCommand::Request { .. }
            | ElectionCommand::Admin(_)
            | ElectionCommand::Overdue(..) => None,
        }
    }

    /// The same with this digest; none for a kind that carries none.
    fn with_secret(mut self, digest: SecretDigest) -> Option<ElectionCommand> {
        match &mut self {
            ElectionCommand::Open { secret, .. }
            | ElectionCommand::Attach { secret, .. }
            | ElectionCommand::End { secret, .. } => *secret = Some(digest),
            ElectionCommand::Request { .. }
            | ElectionCommand::Admin(_)
            | ElectionCommand::Overdue(..) => return None,
        }
        Some(self)
    }

    /// Bytes it may add to the store.
    pub(super) fn room_wanted(&self) -> usize {
        match self {
            ElectionCommand::Open { .. } => LEASE_BYTES + SESSION_BYTES,
            ElectionCommand::Request { request: SessionRequest::Join(join), .. } => {
                let each = join.value.len() + VERSION_OVERHEAD;
                let names: usize = join.names.iter().map(|name| name.len() + each).sum();
                names + join.metadata.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>()
            }
            ElectionCommand::Request {
                request: SessionRequest::Proclaim { name, value, .. },
                ..
            } => name.len() + value.len() + VERSION_OVERHEAD,
            _ => 0,
        }
    }
}

impl Codec for ElectionCommand {
    fn encode(&self, out: &mut Vec<u8>) {
        if let Some(secret) = self.secret() {
            out.push(WITH_SECRET);
            out.extend(secret.0);
        }
        match self {
            ElectionCommand::Open { id, ttl_ms, identity, fast_release, by, .. } => {
                out.push(1);
                put_i64(out, id.0);
                put_u64(out, *ttl_ms);
                put_bytes(out, identity.as_bytes());
                put_bool(out, *fast_release);
                put_u64(out, *by);
            }
            ElectionCommand::Attach { id, by, .. } => {
                out.push(2);
                put_i64(out, id.0);
                put_u64(out, *by);
            }
            ElectionCommand::End { id, how, .. } => {
                out.push(3);
                put_i64(out, id.0);
                how.encode(out);
            }
            ElectionCommand::Request { session, number: request, request: ask } => {
                out.push(4);
                put_i64(out, session.0);
                put_u64(out, *request);
                ask.encode(out);
            }
            ElectionCommand::Admin(rule) => {
                out.push(5);
                rule.encode(out);
            }
            ElectionCommand::Overdue(term, overdue) => {
                out.push(6);
                put_u64(out, term.0);
                put_u64(out, overdue.len() as u64);
                for overdue in overdue {
                    overdue.encode(out);
                }
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<ElectionCommand, DecodeError> {
        if input.skip_u8(WITH_SECRET) {
            let secret = SecretDigest(input.array()?);
            let unknown = |tag| DecodeError::UnknownTag { what: "command with a secret", tag };
            let tag = input.clone().u8()?;
            if !(1..=3).contains(&tag) {
                return Err(unknown(tag));
            }
            return ElectionCommand::decode(input)?.with_secret(secret).ok_or(unknown(tag));
        }
        Ok(match input.u8()? {
            1 => ElectionCommand::Open {
                id: LeaseId(input.i64()?),
                ttl_ms: input.u64()?,
                identity: input.text()?,
                fast_release: input.bool()?,
                by: input.u64()?,
                secret: None,
            },
            2 => ElectionCommand::Attach {
                id: LeaseId(input.i64()?),
                by: input.u64()?,
                secret: None,
            },
            3 => ElectionCommand::End {
                id: LeaseId(input.i64()?),
                how: SessionEnding::decode(input)?,
                secret: None,
            },
            4 => ElectionCommand::Request {
                session: LeaseId(input.i64()?),
                number: input.u64()?,
                request: SessionRequest::decode(input)?,
            },
            5 => ElectionCommand::Admin(AdminCommand::decode(input)?),
            6 => ElectionCommand::Overdue(
                Term(input.u64()?),
                (0..input.count()?).map(|_| Overdue::decode(input)).collect::<Result<_, _>>()?,
            ),
            tag => return Err(DecodeError::UnknownTag { what: "line command", tag }),
        })
    }
}

impl Codec for SessionEnding {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SessionEnding::Closed { stopped } => {
                out.push(1);
                put_bool(out, *stopped);
            }
            SessionEnding::ConnectionLost { attachment } => {
                out.push(2);
                put_u64(out, *attachment);
            }
            SessionEnding::Revoked { stopped } => {
                out.push(3);
                put_bool(out, *stopped);
            }
            SessionEnding::Guarded(cause) => out.extend([4, *cause as u8]),
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<SessionEnding, DecodeError> {
        Ok(match input.u8()? {
            1 => SessionEnding::Closed { stopped: input.bool()? },
            2 => SessionEnding::ConnectionLost { attachment: input.u64()? },
            3 => SessionEnding::Revoked { stopped: input.bool()? },
            4 => SessionEnding::Guarded(match input.u8()? {
                1 => StopCause::ProcessKilled,
                2 => StopCause::RenewalsMissing,
                tag => return Err(DecodeError::UnknownTag { what: "cause of a stop", tag }),
            }),
            tag => return Err(DecodeError::UnknownTag { what: "end of a session", tag }),
        })
    }
}

impl Codec for SessionRequest {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SessionRequest::Join(join) => {
                out.push(1);
                join.encode(out);
            }
            SessionRequest::Leave { name, token, stopped } => {
                out.push(2);
                put_bytes(out, name);
                put_option(out, token.map(|token| token.0), put_i64);
                put_bool(out, *stopped);
            }
            SessionRequest::Proclaim { name, token, value } => {
                out.push(3);
                put_bytes(out, name);
                put_i64(out, token.0);
                put_bytes(out, value);
            }
            SessionRequest::Health { name, unhealthy } => {
                out.push(4);
                put_bytes(out, name);
                put_bool(out, *unhealthy);
            }
            SessionRequest::Yield { name, token, stay } => {
                out.push(5);
                put_bytes(out, name);
                put_i64(out, token.0);
                put_bool(out, *stay);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<SessionRequest, DecodeError> {
        Ok(match input.u8()? {
            1 => SessionRequest::Join(JoinSpec::decode(input)?),
            2 => SessionRequest::Leave {
                name: input.bytes()?,
                token: input.option(Reader::i64)?.map(Revision),
                stopped: input.bool()?,
            },
            3 => SessionRequest::Proclaim {
                name: input.bytes()?,
                token: Revision(input.i64()?),
                value: input.bytes()?,
            },
            4 => SessionRequest::Health { name: input.bytes()?, unhealthy: input.bool()? },
            5 => SessionRequest::Yield {
                name: input.bytes()?,
                token: Revision(input.i64()?),
                stay: input.bool()?,
            },
            tag => return Err(DecodeError::UnknownTag { what: "session request", tag }),
        })
    }
}

impl Codec for JoinSpec {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.names.len() as u64);
        for name in &self.names {
            put_bytes(out, name);
        }
        put_bytes(out, &self.value);
        self.mode.encode(out);
        put_u64(out, u64::from(self.priority));
        for flag in [self.preempts, self.no_overlap, self.try_only, self.unhealthy] {
            put_bool(out, flag);
        }
        put_pairs(out, &self.metadata);
    }

    fn decode(input: &mut Reader<'_>) -> Result<JoinSpec, DecodeError> {
        Ok(JoinSpec {
            names: (0..input.count()?).map(|_| input.bytes()).collect::<Result<_, _>>()?,
            value: input.bytes()?,
            mode: Mode::decode(input)?,
            priority: u32::try_from(input.u64()?).map_err(|_| DecodeError::Overflow)?,
            preempts: input.bool()?,
            no_overlap: input.bool()?,
            try_only: input.bool()?,
            unhealthy: input.bool()?,
            metadata: pairs(input)?,
        })
    }
}

impl Codec for AdminCommand {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            AdminCommand::Transfer { name, to, within_ms } => {
                out.push(1);
                put_bytes(out, name);
                match to {
                    Successor::Session(id) => {
                        out.push(1);
                        put_i64(out, id.0);
                    }
                    Successor::Identity(identity) => {
                        out.push(2);
                        put_bytes(out, identity.as_bytes());
                    }
                }
                put_u64(out, *within_ms);
            }
            AdminCommand::Evict { name, token } => {
                out.push(2);
                put_bytes(out, name);
                put_option(out, token.map(|token| token.0), put_i64);
            }
            AdminCommand::Freeze(name) => {
                out.push(3);
                put_bytes(out, name);
            }
            AdminCommand::Resume(name) => {
                out.push(4);
                put_bytes(out, name);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<AdminCommand, DecodeError> {
        Ok(match input.u8()? {
            1 => AdminCommand::Transfer {
                name: input.bytes()?,
                to: match input.u8()? {
                    1 => Successor::Session(LeaseId(input.i64()?)),
                    2 => Successor::Identity(input.text()?),
                    tag => return Err(DecodeError::UnknownTag { what: "successor", tag }),
                },
                within_ms: input.u64()?,
            },
            2 => AdminCommand::Evict {
                name: input.bytes()?,
                token: input.option(Reader::i64)?.map(Revision),
            },
            3 => AdminCommand::Freeze(input.bytes()?),
            4 => AdminCommand::Resume(input.bytes()?),
            tag => return Err(DecodeError::UnknownTag { what: "rule", tag }),
        })
    }
}

impl Codec for Overdue {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Overdue::Delay(session, since) => {
                out.push(1);
                put_i64(out, session.0);
                put_i64(out, since.0);
            }
            Overdue::Drain(name, token) => {
                out.push(2);
                put_bytes(out, name);
                put_i64(out, token.0);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Overdue, DecodeError> {
        Ok(match input.u8()? {
            1 => Overdue::Delay(LeaseId(input.i64()?), Revision(input.i64()?)),
            2 => Overdue::Drain(input.bytes()?, Revision(input.i64()?)),
            tag => return Err(DecodeError::UnknownTag { what: "overdue", tag }),
        })
    }
}

pub(crate) fn put_pairs(out: &mut Vec<u8>, pairs: &[(String, String)]) {
    put_u64(out, pairs.len() as u64);
    for (key, value) in pairs {
        put_bytes(out, key.as_bytes());
        put_bytes(out, value.as_bytes());
    }
}

pub(crate) fn pairs(input: &mut Reader<'_>) -> Result<Vec<(String, String)>, DecodeError> {
    (0..input.count()?).map(|_| Ok((input.text()?, input.text()?))).collect()
}
