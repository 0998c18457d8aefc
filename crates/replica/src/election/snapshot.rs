//! Elections and sessions as bytes, for snapshots. Members compare checksums of these bytes, so equal
//! states give equal ones.

#[cfg(test)]
mod golden;

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{LeaseId, Revision};

use super::{
    Candidate, CandidateSpec, Delay, Election, Elections, EndReason, Mode, Refusal, SecretDigest,
    Session, Tenure, Transfer, history::TenureEnd,
};
use crate::{
    codec::{Codec, DecodeError, Reader, put_bool, put_bytes, put_i64, put_option, put_u64},
    command::{pairs, put_pairs},
};

const SESSION: u8 = 1;
const LINE: u8 = 2;
const DELAY: u8 = 3;
const FORGOTTEN: u8 = 4;
/// More candidates of the election before it.
const PLACES: u8 = 5;
/// A session that a user opened: its name stands before the rest. From command version 9 on.
const OWNED_SESSION: u8 = 6;
/// The digest of the secret of a session before it, if it has one, which is so from its command version on.
const SESSION_SECRET: u8 = 7;
/// The same of a delay.
const DELAY_SECRET: u8 = 8;

/// The bytes of candidates that one record takes. An election may have any number, and a record must
/// fit into a chunk.
const CANDIDATES_BYTES_MAX: usize = 128 << 10;

impl Elections {
    /// Each session, election and delay as one record, in order; and what was forgotten. A long election takes
    /// several records.
    pub(crate) fn records(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let sessions = self.sessions.iter().flat_map(|(id, session)| {
            let mut out = vec![if session.owner.is_some() { OWNED_SESSION } else { SESSION }];
            put_i64(&mut out, id.0);
            if let Some(owner) = &session.owner {
                put_bytes(&mut out, owner.as_bytes());
            }
            session.encode(&mut out);
            let secret = session.secret.map(|secret| secret_record(SESSION_SECRET, *id, secret));
            std::iter::once(out).chain(secret)
        });
        let elections = self
            .elections
            .iter()
            .flat_map(|(name, election)| election_records(name, election, CANDIDATES_BYTES_MAX));
        let delays = self.delays.iter().flat_map(|(session, delay)| {
            let mut out = vec![DELAY];
            put_i64(&mut out, session.0);
            put_u64(&mut out, delay.ttl_ms);
            put_i64(&mut out, delay.since.0);
            put_u64(&mut out, delay.names.len() as u64);
            for (name, token) in &delay.names {
                put_bytes(&mut out, name);
                put_i64(&mut out, token.0);
            }
            let secret = delay.secret.map(|secret| secret_record(DELAY_SECRET, *session, secret));
            std::iter::once(out).chain(secret)
        });
        let forgotten = (self.forgotten > Revision(0)).then(|| {
            let mut out = vec![FORGOTTEN];
            put_i64(&mut out, self.forgotten.0);
            out
        });
        sessions.chain(elections).chain(delays).chain(forgotten)
    }

    /// Reads one record.
    pub(crate) fn decode_one(&mut self, input: &mut Reader<'_>) -> Result<(), DecodeError> {
        match input.u8()? {
            SESSION => {
                let id = LeaseId(input.i64()?);
                self.sessions.insert(id, Arc::new(Session::decode(input)?));
            }
            OWNED_SESSION => {
                let id = LeaseId(input.i64()?);
                let owner = Some(input.text()?.into());
                let session = Session { owner, ..Session::decode(input)? };
                self.sessions.insert(id, Arc::new(session));
            }
            SESSION_SECRET => {
                let session = self.session_mut(LeaseId(input.i64()?));
                session.ok_or(DecodeError::Truncated)?.secret = Some(SecretDigest(input.array()?));
            }
            DELAY_SECRET => {
                let delay = self.delays.get_mut(&LeaseId(input.i64()?));
                delay.ok_or(DecodeError::Truncated)?.secret = Some(SecretDigest(input.array()?));
            }
            LINE => {
                let name = input.bytes()?;
                let election = Election::decode(input)?;
                if let Some(since) = election.idle_since {
                    self.idle.insert((since, name.clone()));
                }
                self.elections.insert(name, Arc::new(election));
            }
            DELAY => {
                let session = LeaseId(input.i64()?);
                let delay = Delay {
                    ttl_ms: input.u64()?,
                    since: Revision(input.i64()?),
                    names: (0..input.count()?)
                        .map(|_| Ok((input.bytes()?, Revision(input.i64()?))))
                        .collect::<Result<_, DecodeError>>()?,
                    secret: None,
                };
                self.delays.insert(session, delay);
            }
            PLACES => {
                let name = input.bytes()?;
                let election = self.elections.get_mut(&name).ok_or(DecodeError::Truncated)?;
                Arc::make_mut(election).candidates.append(&mut candidates(input)?);
            }
            FORGOTTEN => self.forgotten = Revision(input.i64()?),
            tag => return Err(DecodeError::UnknownTag { what: "queue record", tag }),
        }
        Ok(())
    }
}

impl Codec for Session {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.identity.as_bytes());
        put_u64(out, self.ttl_ms);
        put_bool(out, self.fast_release);
        put_u64(out, self.attachment);
        put_names(out, self.candidates.iter());
        put_u64(out, self.forgotten);
        put_u64(out, self.answered.len() as u64);
        for (request, answer) in &self.answered {
            put_u64(out, *request);
            match answer {
                Ok(tokens) => {
                    out.push(0);
                    put_u64(out, tokens.len() as u64);
                    for token in tokens {
                        put_i64(out, token.0);
                    }
                }
                Err(refusal) => out.push(*refusal as u8),
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Session, DecodeError> {
        let mut session = Session::new(input.text()?, input.u64()?, input.bool()?);
        session.attachment = input.u64()?;
        session.candidates = names(input)?.into_iter().collect();
        session.forgotten = input.u64()?;
        for _ in 0..input.count()? {
            let request = input.u64()?;
            let answer = match input.u8()? {
                0 => Ok((0..input.count()?)
                    .map(|_| input.i64().map(Revision))
                    .collect::<Result<_, _>>()?),
                tag => Err(Refusal::from_number(tag)
                    .ok_or(DecodeError::UnknownTag { what: "refusal", tag })?),
            };
            session.answered.push_back((request, answer));
        }
        Ok(session)
    }
}

/// An election, with as many of its candidates as a record takes; then the others.
fn election_records<'a>(
    name: &'a Bytes,
    election: &'a Election,
    candidates_bytes_max: usize,
) -> impl Iterator<Item = Vec<u8>> + 'a {
    let mut left = &election.candidates[..];
    let mut tag = Some(LINE);
    std::iter::from_fn(move || {
        let mut out = vec![tag.take().or_else(|| (!left.is_empty()).then_some(PLACES))?];
        let is_first = out[0] == LINE;
        put_bytes(&mut out, name);
        let mut bytes = Vec::new();
        let mut count = 0;
        while bytes.len() < candidates_bytes_max
            && let Some((candidate, rest)) = left.split_first()
        {
            candidate.encode(&mut bytes);
            count += 1;
            left = rest;
        }
        put_u64(&mut out, count);
        out.append(&mut bytes);
        if is_first {
            election.encode_rest(&mut out);
        }
        Some(out)
    })
}

fn secret_record(tag: u8, of: LeaseId, secret: SecretDigest) -> Vec<u8> {
    let mut out = vec![tag];
    put_i64(&mut out, of.0);
    out.extend(secret.0);
    out
}

fn candidates(input: &mut Reader<'_>) -> Result<Vec<Arc<Candidate>>, DecodeError> {
    (0..input.count()?).map(|_| Candidate::decode(input).map(Arc::new)).collect()
}

impl Election {
    /// What follows the first candidates.
    fn encode_rest(&self, out: &mut Vec<u8>) {
        // A transfer that was carried out is encoded without a leader to move from.
        let done = self.chosen.map(|to| {
            let why = EndReason::Transferred;
            Transfer { to, from: Revision(0), within_ms: 0, why }
        });
        put_option(out, self.transfer.or(done), |out, transfer| {
            put_i64(out, transfer.to.0);
            put_i64(out, transfer.from.0);
            put_u64(out, transfer.within_ms);
            out.push(transfer.why as u8);
        });
        put_u64(out, self.delays.len() as u64);
        for session in &self.delays {
            put_i64(out, session.0);
        }
        put_option(out, self.tenure.as_ref(), |out, tenure| tenure.encode(out));
        put_u64(out, self.history.len() as u64);
        for tenure in &self.history {
            tenure.encode(out);
        }
        put_i64(out, self.forgotten.0);
        put_option(out, self.idle_since.map(|since| since.0), put_i64);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Election, DecodeError> {
        let candidates = candidates(input)?;
        let transfer = input.option(|input| {
            Ok(Transfer {
                to: LeaseId(input.i64()?),
                from: Revision(input.i64()?),
                within_ms: input.u64()?,
                why: reason(input)?,
            })
        })?;
        let is_done = |transfer: &Transfer| transfer.from == Revision(0);
        Ok(Election {
            candidates,
            transfer: transfer.filter(|transfer| !is_done(transfer)),
            chosen: transfer.filter(is_done).map(|transfer| transfer.to),
            delays: (0..input.count()?)
                .map(|_| input.i64().map(LeaseId))
                .collect::<Result<_, _>>()?,
            tenure: input.option(Tenure::decode)?,
            history: (0..input.count()?)
                .map(|_| Tenure::decode(input))
                .collect::<Result<_, _>>()?,
            forgotten: Revision(input.i64()?),
            idle_since: input.option(Reader::i64)?.map(Revision),
            vacated: false,
        })
    }
}

impl Codec for Candidate {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.key);
        put_i64(out, self.created.0);
        put_option(out, self.lease.map(|lease| lease.0), put_i64);
        put_u64(out, self.since_ms);
        put_option(out, self.spec.as_ref(), |out, spec| spec.encode(out));
        put_option(out, self.slot.map(u64::from), put_u64);
        put_bool(out, self.told);
        put_bool(out, self.unhealthy);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Candidate, DecodeError> {
        Ok(Candidate {
            key: input.bytes()?,
            created: Revision(input.i64()?),
            lease: input.option(Reader::i64)?.map(LeaseId),
            since_ms: input.u64()?,
            spec: input.option(CandidateSpec::decode)?.map(Arc::new),
            slot: input.option(number)?,
            told: input.bool()?,
            unhealthy: input.bool()?,
        })
    }
}

impl Codec for CandidateSpec {
    fn encode(&self, out: &mut Vec<u8>) {
        put_i64(out, self.session.0);
        self.mode.encode(out);
        put_u64(out, u64::from(self.priority));
        put_bool(out, self.preempts);
        put_bool(out, self.no_overlap);
        put_pairs(out, &self.metadata);
        put_names(out, self.together.iter());
    }

    fn decode(input: &mut Reader<'_>) -> Result<CandidateSpec, DecodeError> {
        Ok(CandidateSpec {
            session: LeaseId(input.i64()?),
            mode: Mode::decode(input)?,
            priority: number(input)?,
            preempts: input.bool()?,
            no_overlap: input.bool()?,
            metadata: pairs(input)?,
            together: names(input)?,
        })
    }
}

impl Codec for Mode {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Mode::Exclusive => out.push(0),
            Mode::Shared => out.push(1),
            Mode::Permit(permits) => {
                out.push(2);
                put_u64(out, u64::from(*permits));
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Mode, DecodeError> {
        Ok(match input.u8()? {
            0 => Mode::Exclusive,
            1 => Mode::Shared,
            2 => Mode::Permit(number(input)?),
            tag => return Err(DecodeError::UnknownTag { what: "mode", tag }),
        })
    }
}

impl Codec for Tenure {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.identity.as_bytes());
        put_i64(out, self.token.0);
        put_bytes(out, &self.value);
        put_i64(out, self.from.0);
        put_u64(out, self.from_ms);
        put_option(out, self.end.as_ref(), |out, end| {
            put_i64(out, end.at.0);
            put_u64(out, end.at_ms);
            out.push(end.why as u8);
            put_bool(out, end.stopped);
        });
    }

    fn decode(input: &mut Reader<'_>) -> Result<Tenure, DecodeError> {
        Ok(Tenure {
            identity: input.text()?,
            token: Revision(input.i64()?),
            value: input.bytes()?,
            from: Revision(input.i64()?),
            from_ms: input.u64()?,
            end: input.option(|input| {
                Ok(TenureEnd {
                    at: Revision(input.i64()?),
                    at_ms: input.u64()?,
                    why: reason(input)?,
                    stopped: input.bool()?,
                })
            })?,
        })
    }
}

fn reason(input: &mut Reader<'_>) -> Result<EndReason, DecodeError> {
    let tag = input.u8()?;
    EndReason::from_number(tag).ok_or(DecodeError::UnknownTag { what: "reason", tag })
}

fn number(input: &mut Reader<'_>) -> Result<u32, DecodeError> {
    u32::try_from(input.u64()?).map_err(|_| DecodeError::Overflow)
}

fn put_names<'a>(out: &mut Vec<u8>, names: impl ExactSizeIterator<Item = &'a Bytes>) {
    put_u64(out, names.len() as u64);
    for name in names {
        put_bytes(out, name);
    }
}

fn names(input: &mut Reader<'_>) -> Result<Vec<Bytes>, DecodeError> {
    (0..input.count()?).map(|_| input.bytes()).collect()
}
