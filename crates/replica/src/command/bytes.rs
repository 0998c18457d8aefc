//! Commands as bytes. A tag, once given, is never reused.

use tenure_api::{Alarm, AlarmKind, DeleteRange, LeaseId, MemberId, Put, Revision, Term, Txn};

use super::{AuthCommand, ChangeRefusal, Command, ElectionCommand, Expiry, MemberChange};
use crate::codec::{Codec, DecodeError, Reader, put_bytes, put_i64, put_u64};

impl Codec for Command {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Command::Put(put) => {
                out.push(1);
                put.encode(out);
            }
            Command::DeleteRange(delete) => {
                out.push(2);
                delete.encode(out);
            }
            Command::Txn(txn) => {
                out.push(3);
                txn.encode(out);
            }
            Command::Compact(revision) => {
                out.push(4);
                put_i64(out, revision.0);
            }
            Command::LeaseGrant { id, ttl_secs } => {
                out.push(5);
                put_i64(out, id.0);
                put_i64(out, *ttl_secs);
            }
            Command::LeaseRevoke(id) => {
                out.push(6);
                put_i64(out, id.0);
            }
            Command::LeaseRenew(id) => {
                out.push(7);
                put_i64(out, id.0);
            }
            Command::LeaseExpire(term, leases) => {
                out.push(8);
                put_u64(out, term.0);
                put_u64(out, leases.len() as u64);
                for expiry in leases {
                    expiry.encode(out);
                }
            }
            Command::Publish { member, name, client_urls, command_version, directory } => {
                out.push(9);
                put_u64(out, member.0);
                put_bytes(out, name.as_bytes());
                put_u64(out, client_urls.len() as u64);
                for url in client_urls {
                    put_bytes(out, url.as_bytes());
                }
                put_u64(out, u64::from(*command_version));
                put_u64(out, *directory);
            }
            Command::ClusterVersion(version) => {
                out.push(10);
                put_u64(out, u64::from(*version));
            }
            Command::LeaseEndUnused { id, ttl_secs } => {
                out.push(11);
                put_i64(out, id.0);
                put_i64(out, *ttl_secs);
            }
            Command::Members(change) => change.encode(out),
            Command::MembersRefused(refusal) => {
                out.push(24);
                refusal.encode(out);
            }
            Command::LetGo(member) => {
                out.push(25);
                put_u64(out, member.0);
            }
            Command::RaiseAlarm(alarm) => {
                out.push(30);
                alarm.encode(out);
            }
            Command::LowerAlarm(alarm) => {
                out.push(31);
                alarm.encode(out);
            }
            Command::Audit => out.push(32),
            Command::Election(command) => {
                out.push(40);
                command.encode(out);
            }
            Command::Auth(command) => {
                out.push(60);
                command.encode(out);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Command, DecodeError> {
        Ok(match input.u8()? {
            1 => Command::Put(Put::decode(input)?),
            2 => Command::DeleteRange(DeleteRange::decode(input)?),
            3 => Command::Txn(Txn::decode(input)?),
            4 => Command::Compact(Revision(input.i64()?)),
            5 => Command::LeaseGrant { id: LeaseId(input.i64()?), ttl_secs: input.i64()? },
            6 => Command::LeaseRevoke(LeaseId(input.i64()?)),
            7 => Command::LeaseRenew(LeaseId(input.i64()?)),
            8 => Command::LeaseExpire(
                Term(input.u64()?),
                (0..input.count()?).map(|_| Expiry::decode(input)).collect::<Result<_, _>>()?,
            ),
            9 => Command::Publish {
                member: MemberId(input.u64()?),
                name: input.text()?,
                client_urls: (0..input.count()?).map(|_| input.text()).collect::<Result<_, _>>()?,
                command_version: version(input)?,
                directory: input.u64()?,
            },
            10 => Command::ClusterVersion(version(input)?),
            11 => Command::LeaseEndUnused { id: LeaseId(input.i64()?), ttl_secs: input.i64()? },
            tag @ (20..=23 | 26) => Command::Members(MemberChange::decode(tag, input)?),
            24 => Command::MembersRefused(ChangeRefusal::decode(input)?),
            25 => Command::LetGo(MemberId(input.u64()?)),
            30 => Command::RaiseAlarm(Alarm::decode(input)?),
            31 => Command::LowerAlarm(Alarm::decode(input)?),
            32 => Command::Audit,
            40 => Command::Election(ElectionCommand::decode(input)?),
            60 => Command::Auth(AuthCommand::decode(input)?),
            tag => return Err(DecodeError::UnknownTag { what: "command", tag }),
        })
    }
}

impl Codec for Alarm {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self.kind {
            AlarmKind::NoSpace => 1,
            AlarmKind::Corrupt => 2,
        });
        put_u64(out, self.member.0);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Alarm, DecodeError> {
        let kind = match input.u8()? {
            1 => AlarmKind::NoSpace,
            2 => AlarmKind::Corrupt,
            tag => return Err(DecodeError::UnknownTag { what: "alarm", tag }),
        };
        Ok(Alarm { member: MemberId(input.u64()?), kind })
    }
}

fn version(input: &mut Reader<'_>) -> Result<u32, DecodeError> {
    u32::try_from(input.u64()?).map_err(|_| DecodeError::Overflow)
}
