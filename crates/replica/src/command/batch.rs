//! Batches: how commands travel, why none is ever done twice, and how much of them an entry may hold.

use bytes::Bytes;
use tenure_api::{MemberId, Op, Principal, Proof, Span, Txn};

use super::{Command, MemberChange};
use crate::codec::{Codec, DecodeError, Reader, put_bytes, put_u64};

/// The most commands of a batch that is read. Members make batches of half as many at most; but the
/// shortest command is one byte long and in memory as large as any, so that a peer's frame of such could
/// become a hundred times its size before it is checked.
pub(crate) const COMMANDS_MAX: usize = 4096;

/// A batch of commands from one member, applied at most once.
///
/// Members number their batches. The state remembers the last number applied for each member, and
/// applies only the one that follows. So a member may send a batch again, to this raft leader or the
/// next, until it sees it applied: a request survives a change of the raft leader without ever being
/// done twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The member that took the requests.
    pub origin: MemberId,
    /// Which life of that member: numbers start again at 1 in each.
    pub boot: u64,
    /// The batch's number in that life.
    pub sequence: u64,
    /// The commands, in order.
    pub commands: Vec<Attributed>,
}

/// A command and its principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributed {
    /// The principal that asks for it. Whether it may is judged in [`State::apply`](crate::state::State::apply).
    pub by: Principal,
    /// What.
    pub command: Command,
}

/// Which batch it is, of all that ever were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchNumber {
    pub(crate) origin: MemberId,
    pub(crate) boot: u64,
    pub(crate) sequence: u64,
}

impl Batch {
    pub(crate) fn number(&self) -> BatchNumber {
        BatchNumber { origin: self.origin, boot: self.boot, sequence: self.sequence }
    }

    /// The change of members that this batch carries to raft, if that is all it carries.
    pub(crate) fn change(&self) -> Option<&MemberChange> {
        match &self.commands[..] {
            [Attributed { command: Command::Members(change), .. }] if change.concerns_raft() => {
                Some(change)
            }
            _ => None,
        }
    }

    /// A change that concerns raft beside other commands. No member makes such a batch.
    pub(crate) fn is_mixed(&self) -> bool {
        self.commands.len() > 1 && self.commands.iter().any(|one| one.command.concerns_raft())
    }
}

impl Codec for Batch {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_batch_head(out, self.origin, self.boot, self.sequence, self.commands.len());
        for command in &self.commands {
            command.encode(out);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Batch, DecodeError> {
        let (origin, boot, sequence) = (MemberId(input.u64()?), input.u64()?, input.u64()?);
        let count = input.count()?;
        if count > COMMANDS_MAX {
            return Err(DecodeError::Overflow);
        }
        let commands = (0..count).map(|_| Attributed::decode(input)).collect::<Result<_, _>>()?;
        Ok(Batch { origin, boot, sequence, commands })
    }
}

impl Codec for Attributed {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_attributed(out, &self.by, &self.command);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Attributed, DecodeError> {
        let by = if input.skip_u8(BY) { Principal::decode(input)? } else { Principal::Anonymous };
        Ok(Attributed { by, command: Command::decode(input)? })
    }
}

/// Appends a command with its principal. Without one it is what it was before there were principals.
pub(crate) fn encode_attributed(out: &mut Vec<u8>, by: &Principal, command: &Command) {
    if *by != Principal::Anonymous {
        out.push(BY);
        by.encode(out);
    }
    command.encode(out);
}

impl Codec for Principal {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Principal::Anonymous => out.push(0),
            Principal::User { name, auth_revision, proof } => {
                out.push(match proof {
                    Proof::Claims => 1,
                    Proof::Held => 3,
                });
                put_bytes(out, name.as_bytes());
                put_u64(out, *auth_revision);
            }
            Principal::System => out.push(2),
            Principal::Unproven => out.push(4),
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Principal, DecodeError> {
        Ok(match input.u8()? {
            0 => Principal::Anonymous,
            tag @ (1 | 3) => Principal::User {
                name: input.text()?.into(),
                auth_revision: input.u64()?,
                proof: if tag == 1 { Proof::Claims } else { Proof::Held },
            },
            2 => Principal::System,
            4 => Principal::Unproven,
            tag => return Err(DecodeError::UnknownTag { what: "principal", tag }),
        })
    }
}

/// Stands before the principal of a command, from cluster version 7 on. No command has this tag.
const BY: u8 = 50;

/// Appends what stands before a batch's commands.
pub(crate) fn encode_batch_head(
    out: &mut Vec<u8>,
    origin: MemberId,
    boot: u64,
    sequence: u64,
    commands: usize,
) {
    put_u64(out, origin.0);
    put_u64(out, boot);
    put_u64(out, sequence);
    put_u64(out, commands as u64);
}

/// The clock of the raft leader that proposed an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryClock {
    /// Milliseconds since 1970, for people to read; 0 if the entry does not say.
    pub(crate) ms: u64,
    /// For how long nothing could be renewed so far, as far as that raft leader knew. It never decreases within a term.
    pub(crate) lost_ms: Option<u64>,
}

/// The content of one log entry: batches of any members, in the order the raft leader chose, and its
/// clock, if every member can read that.
pub(crate) fn encode_entry(clock: EntryClock, batches: &[Bytes]) -> Vec<u8> {
    let size: usize = batches.iter().map(|batch| batch.len() + 5).sum();
    let mut out = Vec::with_capacity(size + 17);
    match clock {
        EntryClock { ms: 0, lost_ms: None } => out.push(ENTRY_FORMAT),
        EntryClock { ms, lost_ms: None } => {
            out.push(ENTRY_FORMAT_WITH_CLOCK);
            put_u64(&mut out, ms);
        }
        EntryClock { ms, lost_ms: Some(lost_ms) } => {
            out.push(ENTRY_FORMAT_WITH_LOST_TIME);
            put_u64(&mut out, ms);
            put_u64(&mut out, lost_ms);
        }
    }
    put_u64(&mut out, batches.len() as u64);
    for batch in batches {
        put_bytes(&mut out, batch);
    }
    out
}

/// Reads what [`encode_entry`] wrote.
pub(crate) fn decode_entry(data: &[u8]) -> Result<(EntryClock, Vec<Batch>), DecodeError> {
    let mut input = Reader::new(data);
    let clock = match input.u8()? {
        ENTRY_FORMAT => EntryClock::default(),
        ENTRY_FORMAT_WITH_CLOCK => EntryClock { ms: input.u64()?, lost_ms: None },
        ENTRY_FORMAT_WITH_LOST_TIME => EntryClock { ms: input.u64()?, lost_ms: Some(input.u64()?) },
        tag => return Err(DecodeError::UnknownTag { what: "entry format", tag }),
    };
    let batches =
        (0..input.count()?).map(|_| Batch::from_bytes(input.slice()?)).collect::<Result<_, _>>()?;
    input.finish()?;
    Ok((clock, batches))
}

/// The first byte of every entry that carries commands.
const ENTRY_FORMAT: u8 = 1;
/// The first byte of those that carry a clock, from cluster version 3 on.
const ENTRY_FORMAT_WITH_CLOCK: u8 = 2;
/// The first byte of those that also carry the time that was lost, from cluster version 6 on.
const ENTRY_FORMAT_WITH_LOST_TIME: u8 = 3;

// How much a command may turn out to be, as far as it can be told before it is done. An entry is applied in one go. What
// makes an entry is therefore limited not only in bytes and commands but also in weight: a few hundred bytes can ask for
// the greatest of many thousand values, a hundred times over.

/// What a step weighs that may look at many keys.
const WIDE: usize = 32;

impl Command {
    /// How many commands that touch one key it weighs.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Command::Txn(txn) => of_txn(txn),
            Command::DeleteRange(delete) => of_span(&delete.span),
            _ => 1,
        }
    }
}

/// Both branches: it is not known yet which one it will be.
fn of_txn(txn: &Txn) -> usize {
    let compares = txn.compare.iter().map(|compare| of_span(&compare.span));
    let steps = txn.success.iter().chain(&txn.failure).map(|op| match op {
        Op::Range(range) => of_span(&range.span),
        Op::DeleteRange(delete) => of_span(&delete.span),
        Op::Put(_) => 1,
        Op::Txn(inner) => of_txn(inner),
    });
    compares.chain(steps).sum::<usize>().max(1)
}

fn of_span(span: &Span) -> usize {
    if span.is_wide() { WIDE } else { 1 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenure_api::LeaseId;
    use tenure_damage::{damaged, frugally, hold};

    use super::*;

    /// Some batches in an entry, with a clock or without.
    fn entry() -> impl Strategy<Value = Vec<u8>> {
        let batch = (any::<(u64, u64, u64)>(), 0..4usize).prop_map(
            |((origin, boot, sequence), renewals)| {
                let renew = Command::LeaseRenew(LeaseId(7));
                let by = [Principal::Anonymous, Principal::System][renewals % 2].clone();
                let commands = vec![Attributed { by, command: renew }; renewals];
                Batch { origin: MemberId(origin), boot, sequence, commands }.to_bytes().into()
            },
        );
        (any::<(u64, Option<u64>)>(), prop::collection::vec(batch, 0..4)).prop_map(
            |((ms, lost_ms), batches): (_, Vec<Bytes>)| {
                encode_entry(EntryClock { ms, lost_ms }, &batches)
            },
        )
    }

    #[test]
    fn batch_entry_that_is_damaged_is_refused_or_read() {
        hold(500, damaged(entry()), |bytes| {
            let Ok(read) = frugally(bytes.len(), || decode_entry(&bytes)) else { return Ok(()) };
            let batches: Vec<Bytes> = read.1.iter().map(|batch| batch.to_bytes().into()).collect();
            prop_assert_eq!(decode_entry(&encode_entry(read.0, &batches)), Ok(read));
            Ok(())
        });
    }
}
