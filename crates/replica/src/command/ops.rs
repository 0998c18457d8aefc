//! Operations on keys as bytes: what puts, deletions and transactions are made of.

use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, LeaseId, Op, Put, Range, Revision,
    SortOrder, SortTarget, Span, Txn,
    op::{PutLease, Window},
};

use crate::codec::{Codec, DecodeError, Reader, put_bool, put_bytes, put_i64, put_option, put_u64};

/// How deep transactions may be nested in a command; the services refuse deeper ones long before.
const TXN_DEPTH_MAX: usize = 64;

impl Codec for Put {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.key);
        put_option(out, self.value.as_ref(), |out, value| put_bytes(out, value));
        match self.lease {
            PutLease::Keep => put_bool(out, true),
            PutLease::Set(lease) => {
                put_bool(out, false);
                put_i64(out, LeaseId::to_wire(lease));
            }
        }
        put_bool(out, self.prev_kv);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Put, DecodeError> {
        Ok(Put {
            key: input.bytes()?,
            value: input.option(Reader::bytes)?,
            lease: match input.bool()? {
                true => PutLease::Keep,
                false => PutLease::Set(LeaseId::from_wire(input.i64()?)),
            },
            prev_kv: input.bool()?,
        })
    }
}

impl Codec for DeleteRange {
    fn encode(&self, out: &mut Vec<u8>) {
        self.span.encode(out);
        put_bool(out, self.prev_kv);
    }

    fn decode(input: &mut Reader<'_>) -> Result<DeleteRange, DecodeError> {
        Ok(DeleteRange { span: Span::decode(input)?, prev_kv: input.bool()? })
    }
}

impl Codec for Span {
    fn encode(&self, out: &mut Vec<u8>) {
        let (key, end) = self.to_wire();
        put_bytes(out, &key);
        put_bytes(out, &end);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Span, DecodeError> {
        Ok(Span::from_wire(input.bytes()?, input.bytes()?))
    }
}

impl Codec for Txn {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.compare.len() as u64);
        for compare in &self.compare {
            compare.encode(out);
        }
        for branch in [&self.success, &self.failure] {
            put_u64(out, branch.len() as u64);
            for op in branch {
                encode_op(op, out);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Txn, DecodeError> {
        decode_txn(input, TXN_DEPTH_MAX)
    }
}

fn decode_txn(input: &mut Reader<'_>, depth: usize) -> Result<Txn, DecodeError> {
    let depth = depth.checked_sub(1).ok_or(DecodeError::Overflow)?;
    Ok(Txn {
        compare: (0..input.count()?).map(|_| Compare::decode(input)).collect::<Result<_, _>>()?,
        success: decode_branch(input, depth)?,
        failure: decode_branch(input, depth)?,
    })
}

fn decode_branch(input: &mut Reader<'_>, depth: usize) -> Result<Vec<Op>, DecodeError> {
    (0..input.count()?)
        .map(|_| {
            Ok(match input.u8()? {
                1 => Op::Range(Range::decode(input)?),
                2 => Op::Put(Put::decode(input)?),
                3 => Op::DeleteRange(DeleteRange::decode(input)?),
                4 => Op::Txn(decode_txn(input, depth)?),
                tag => return Err(DecodeError::UnknownTag { what: "operation", tag }),
            })
        })
        .collect()
}

fn encode_op(op: &Op, out: &mut Vec<u8>) {
    match op {
        Op::Range(range) => {
            out.push(1);
            range.encode(out);
        }
        Op::Put(put) => {
            out.push(2);
            put.encode(out);
        }
        Op::DeleteRange(delete) => {
            out.push(3);
            delete.encode(out);
        }
        Op::Txn(txn) => {
            out.push(4);
            txn.encode(out);
        }
    }
}

impl Codec for Compare {
    fn encode(&self, out: &mut Vec<u8>) {
        self.span.encode(out);
        out.push(match self.result {
            CompareResult::Equal => 0,
            CompareResult::Greater => 1,
            CompareResult::Less => 2,
            CompareResult::NotEqual => 3,
        });
        match &self.target {
            CompareTarget::Version(version) => {
                out.push(0);
                put_i64(out, *version);
            }
            CompareTarget::Create(revision) => {
                out.push(1);
                put_i64(out, revision.0);
            }
            CompareTarget::Mod(revision) => {
                out.push(2);
                put_i64(out, revision.0);
            }
            CompareTarget::Value(value) => {
                out.push(3);
                put_bytes(out, value);
            }
            CompareTarget::Lease(lease) => {
                out.push(4);
                put_i64(out, LeaseId::to_wire(*lease));
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Compare, DecodeError> {
        Ok(Compare {
            span: Span::decode(input)?,
            result: match input.u8()? {
                0 => CompareResult::Equal,
                1 => CompareResult::Greater,
                2 => CompareResult::Less,
                3 => CompareResult::NotEqual,
                tag => return Err(DecodeError::UnknownTag { what: "comparison", tag }),
            },
            target: match input.u8()? {
                0 => CompareTarget::Version(input.i64()?),
                1 => CompareTarget::Create(Revision(input.i64()?)),
                2 => CompareTarget::Mod(Revision(input.i64()?)),
                3 => CompareTarget::Value(input.bytes()?),
                4 => CompareTarget::Lease(LeaseId::from_wire(input.i64()?)),
                tag => return Err(DecodeError::UnknownTag { what: "compare target", tag }),
            },
        })
    }
}

impl Codec for Range {
    fn encode(&self, out: &mut Vec<u8>) {
        self.span.encode(out);
        put_option(out, self.limit, |out, limit| put_u64(out, limit as u64));
        put_option(out, self.revision, |out, revision| put_i64(out, revision.0));
        out.push(self.sort_order as u8);
        out.push(self.sort_target as u8);
        put_bool(out, self.keys_only);
        put_bool(out, self.count_only);
        for window in [&self.mod_revision, &self.create_revision] {
            put_option(out, window.min, |out, revision| put_i64(out, revision.0));
            put_option(out, window.max, |out, revision| put_i64(out, revision.0));
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Range, DecodeError> {
        let revision = |input: &mut Reader<'_>| input.i64().map(Revision);
        let window = |input: &mut Reader<'_>| -> Result<Window, DecodeError> {
            Ok(Window { min: input.option(revision)?, max: input.option(revision)? })
        };
        Ok(Range {
            span: Span::decode(input)?,
            limit: input
                .option(|input| usize::try_from(input.u64()?).map_err(|_| DecodeError::Overflow))?,
            revision: input.option(revision)?,
            sort_order: match input.u8()? {
                0 => SortOrder::None,
                1 => SortOrder::Ascend,
                2 => SortOrder::Descend,
                tag => return Err(DecodeError::UnknownTag { what: "sort order", tag }),
            },
            sort_target: match input.u8()? {
                0 => SortTarget::Key,
                1 => SortTarget::Version,
                2 => SortTarget::Create,
                3 => SortTarget::Mod,
                4 => SortTarget::Value,
                tag => return Err(DecodeError::UnknownTag { what: "sort target", tag }),
            },
            keys_only: input.bool()?,
            count_only: input.bool()?,
            mod_revision: window(input)?,
            create_revision: window(input)?,
        })
    }
}
