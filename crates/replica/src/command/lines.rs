//! Commands about sessions and lines.

use bytes::Bytes;
use tenure_api::{LeaseId, Revision, Term};

use crate::{
    codec::{Codec, DecodeError, Reader, put_bool, put_bytes, put_i64, put_option, put_u64},
    mvcc::VERSION_OVERHEAD,
    queue::Mode,
};

/// A change of sessions or lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineCommand {
    /// A process opens a session: a lease with more to it.
    Open {
        /// Its number, chosen before proposing.
        id: LeaseId,
        /// How long it lives without a sign of life.
        ttl_ms: u64,
        /// Who it is, for people.
        identity: String,
        /// It ends when its connection breaks.
        fast_release: bool,
        /// A mark by which whoever asks knows this attachment from all others.
        by: u64,
    },
    /// Somebody comes back to a session; also a sign of life.
    Attach {
        /// Which.
        id: LeaseId,
        /// A mark by which whoever asks knows this attachment from all others.
        by: u64,
    },
    /// A session ends.
    End {
        /// Which.
        id: LeaseId,
        /// How.
        how: Ended,
    },
    /// A session asks for something.
    Ask {
        /// Which.
        session: LeaseId,
        /// The request's number, by which a repetition is known.
        request: u64,
        /// What.
        ask: Ask,
    },
    /// An operator decides something.
    Rule(Rule),
    /// Time is over, on the clock of this term's raft leader; void in another term.
    Overdue(Term, Vec<Overdue>),
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its client says so.
    Closed {
        /// All work has ended.
        stopped: bool,
    },
    /// Its connection broke, and nobody has attached since.
    ConnectionLost {
        /// The attachment that broke.
        attachment: u64,
    },
    /// Somebody else says so.
    Revoked {
        /// All work has ended.
        stopped: bool,
    },
}

/// What a session asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Stand in line.
    Join(Join),
    /// Give up a place, held or not.
    Leave {
        /// Where.
        name: Bytes,
        /// Only this one; none for whatever place it has.
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
    /// Say how it is.
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
        /// Stand in line again.
        stay: bool,
    },
}

/// How to stand in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Where: in several lines at once, if there is more than one.
    pub names: Vec<Bytes>,
    /// What to show.
    pub value: Bytes,
    /// Beside whom it may hold.
    pub mode: Mode,
    /// Who has more goes first.
    pub priority: u32,
    /// Even before whoever leads.
    pub preempts: bool,
    /// To be told only when the one who held last has surely stopped.
    pub no_overlap: bool,
    /// Hold at once or do not stand in line.
    pub try_only: bool,
    /// It would rather not lead now.
    pub unhealthy: bool,
    /// For people and programs that list candidates.
    pub metadata: Vec<(String, String)>,
}

/// What an operator decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Another shall lead.
    Transfer {
        /// Where.
        name: Bytes,
        /// Who.
        to: Successor,
        /// How long the leader may take to make room.
        within_ms: u64,
    },
    /// Somebody shall not stand here any more.
    Evict {
        /// Where.
        name: Bytes,
        /// Whose place; none for the leader's.
        token: Option<Revision>,
    },
    /// Nobody shall lead.
    Freeze(Bytes),
    /// They may again.
    Resume(Bytes),
}

/// Who is to lead next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Successor {
    /// This session.
    Session(LeaseId),
    /// Whoever is called so, if it is one alone.
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

impl LineCommand {
    /// Bytes it may add to the store.
    pub(super) fn room_wanted(&self) -> usize {
        match self {
            LineCommand::Ask { ask: Ask::Join(join), .. } => {
                let each = join.value.len() + VERSION_OVERHEAD;
                let names: usize = join.names.iter().map(|name| name.len() + each).sum();
                names + join.metadata.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>()
            }
            LineCommand::Ask { ask: Ask::Proclaim { name, value, .. }, .. } => {
                name.len() + value.len() + VERSION_OVERHEAD
            }
            _ => 0,
        }
    }
}

impl Codec for LineCommand {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            LineCommand::Open { id, ttl_ms, identity, fast_release, by } => {
                out.push(1);
                put_i64(out, id.0);
                put_u64(out, *ttl_ms);
                put_bytes(out, identity.as_bytes());
                put_bool(out, *fast_release);
                put_u64(out, *by);
            }
            LineCommand::Attach { id, by } => {
                out.push(2);
                put_i64(out, id.0);
                put_u64(out, *by);
            }
            LineCommand::End { id, how } => {
                out.push(3);
                put_i64(out, id.0);
                how.encode(out);
            }
            LineCommand::Ask { session, request, ask } => {
                out.push(4);
                put_i64(out, session.0);
                put_u64(out, *request);
                ask.encode(out);
            }
            LineCommand::Rule(rule) => {
                out.push(5);
                rule.encode(out);
            }
            LineCommand::Overdue(term, overdue) => {
                out.push(6);
                put_u64(out, term.0);
                put_u64(out, overdue.len() as u64);
                for overdue in overdue {
                    overdue.encode(out);
                }
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<LineCommand, DecodeError> {
        Ok(match input.u8()? {
            1 => LineCommand::Open {
                id: LeaseId(input.i64()?),
                ttl_ms: input.u64()?,
                identity: input.text()?,
                fast_release: input.bool()?,
                by: input.u64()?,
            },
            2 => LineCommand::Attach { id: LeaseId(input.i64()?), by: input.u64()? },
            3 => LineCommand::End { id: LeaseId(input.i64()?), how: Ended::decode(input)? },
            4 => LineCommand::Ask {
                session: LeaseId(input.i64()?),
                request: input.u64()?,
                ask: Ask::decode(input)?,
            },
            5 => LineCommand::Rule(Rule::decode(input)?),
            6 => LineCommand::Overdue(
                Term(input.u64()?),
                (0..input.count()?).map(|_| Overdue::decode(input)).collect::<Result<_, _>>()?,
            ),
            tag => return Err(DecodeError::UnknownTag { what: "line command", tag }),
        })
    }
}

impl Codec for Ended {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Ended::Closed { stopped } => {
                out.push(1);
                put_bool(out, *stopped);
            }
            Ended::ConnectionLost { attachment } => {
                out.push(2);
                put_u64(out, *attachment);
            }
            Ended::Revoked { stopped } => {
                out.push(3);
                put_bool(out, *stopped);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Ended, DecodeError> {
        Ok(match input.u8()? {
            1 => Ended::Closed { stopped: input.bool()? },
            2 => Ended::ConnectionLost { attachment: input.u64()? },
            3 => Ended::Revoked { stopped: input.bool()? },
            tag => return Err(DecodeError::UnknownTag { what: "end of a session", tag }),
        })
    }
}

impl Codec for Ask {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Ask::Join(join) => {
                out.push(1);
                join.encode(out);
            }
            Ask::Leave { name, token, stopped } => {
                out.push(2);
                put_bytes(out, name);
                put_option(out, token.map(|token| token.0), put_i64);
                put_bool(out, *stopped);
            }
            Ask::Proclaim { name, token, value } => {
                out.push(3);
                put_bytes(out, name);
                put_i64(out, token.0);
                put_bytes(out, value);
            }
            Ask::Health { name, unhealthy } => {
                out.push(4);
                put_bytes(out, name);
                put_bool(out, *unhealthy);
            }
            Ask::Yield { name, token, stay } => {
                out.push(5);
                put_bytes(out, name);
                put_i64(out, token.0);
                put_bool(out, *stay);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Ask, DecodeError> {
        Ok(match input.u8()? {
            1 => Ask::Join(Join::decode(input)?),
            2 => Ask::Leave {
                name: input.bytes()?,
                token: input.option(Reader::i64)?.map(Revision),
                stopped: input.bool()?,
            },
            3 => Ask::Proclaim {
                name: input.bytes()?,
                token: Revision(input.i64()?),
                value: input.bytes()?,
            },
            4 => Ask::Health { name: input.bytes()?, unhealthy: input.bool()? },
            5 => Ask::Yield {
                name: input.bytes()?,
                token: Revision(input.i64()?),
                stay: input.bool()?,
            },
            tag => return Err(DecodeError::UnknownTag { what: "session request", tag }),
        })
    }
}

impl Codec for Join {
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

    fn decode(input: &mut Reader<'_>) -> Result<Join, DecodeError> {
        Ok(Join {
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

impl Codec for Rule {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Rule::Transfer { name, to, within_ms } => {
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
            Rule::Evict { name, token } => {
                out.push(2);
                put_bytes(out, name);
                put_option(out, token.map(|token| token.0), put_i64);
            }
            Rule::Freeze(name) => {
                out.push(3);
                put_bytes(out, name);
            }
            Rule::Resume(name) => {
                out.push(4);
                put_bytes(out, name);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Rule, DecodeError> {
        Ok(match input.u8()? {
            1 => Rule::Transfer {
                name: input.bytes()?,
                to: match input.u8()? {
                    1 => Successor::Session(LeaseId(input.i64()?)),
                    2 => Successor::Identity(input.text()?),
                    tag => return Err(DecodeError::UnknownTag { what: "successor", tag }),
                },
                within_ms: input.u64()?,
            },
            2 => Rule::Evict {
                name: input.bytes()?,
                token: input.option(Reader::i64)?.map(Revision),
            },
            3 => Rule::Freeze(input.bytes()?),
            4 => Rule::Resume(input.bytes()?),
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
