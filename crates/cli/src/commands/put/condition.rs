//! Compare and swap: write only if what is there is what was expected.

use std::ffi::OsString;
use std::io::Write;

use bytes::Bytes;
use tenure::api::wire::etcdserverpb as pb;
use tenure::api::wire::etcdserverpb::response_op::Response;
use tenure::api::wire::mvccpb;
use tenure::api::{Compare, CompareResult, CompareTarget, Op, Put, Range, Revision, Span, Txn};

use crate::args::bytes;
use crate::output::{Output, quoted};

/// At most one condition.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(super) struct ConditionArgs {
    /// Write only if the key does not exist
    #[arg(long, help_heading = "Conditions (exit code 3 if they do not hold)")]
    if_absent: bool,
    /// Write only if the key has this value
    #[arg(
        long,
        value_name = "VALUE",
        help_heading = "Conditions (exit code 3 if they do not hold)"
    )]
    if_value: Option<OsString>,
    /// Write only if the key was last changed at this revision
    #[arg(
        long,
        value_name = "REVISION",
        help_heading = "Conditions (exit code 3 if they do not hold)"
    )]
    if_revision: Option<i64>,
}

impl ConditionArgs {
    pub(super) fn condition(&self) -> Option<Condition> {
        if self.if_absent {
            return Some(Condition::Absent);
        }
        let value = self.if_value.clone().map(|value| Condition::Value(bytes(value)));
        value.or(self.if_revision.map(|revision| Condition::Revision(Revision(revision))))
    }
}

/// What must be there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Nothing.
    Absent,
    /// This value.
    Value(Bytes),
    /// A version of this revision.
    Revision(Revision),
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The key is written.
    Written,
    /// The condition did not hold, and nothing was changed.
    NotTaken,
}

impl Condition {
    /// The transaction that writes if the condition holds and else reads what is there.
    pub(super) fn txn(&self, put: Put) -> pb::TxnRequest {
        let span = Span::One(put.key.clone());
        let target = match self {
            Condition::Absent => CompareTarget::Create(Revision(0)),
            Condition::Value(value) => CompareTarget::Value(value.clone()),
            Condition::Revision(revision) => CompareTarget::Mod(*revision),
        };
        let txn = Txn {
            compare: vec![Compare { span: span.clone(), result: CompareResult::Equal, target }],
            success: vec![Op::Put(put)],
            failure: vec![Op::Range(Range::all(span))],
        };
        txn.into()
    }

    /// Writes the answer out; if nothing was written, says on stderr what was expected and found.
    pub(super) fn tell<W: Write>(
        &self,
        response: &pb::TxnResponse,
        output: &mut Output<W>,
    ) -> anyhow::Result<Verdict> {
        let step = response.responses.first().and_then(|op| op.response.as_ref());
        match step {
            Some(Response::ResponsePut(put)) if response.succeeded => {
                // The answer of the step knows the revision only.
                output.put(&pb::PutResponse {
                    header: response.header,
                    prev_kv: put.prev_kv.clone(),
                })?;
                Ok(Verdict::Written)
            }
            Some(Response::ResponseRange(found)) => {
                output.not_written(response)?;
                eprintln!("not written: {}", self.explain(found.kvs.first()));
                Ok(Verdict::NotTaken)
            }
            _ => anyhow::bail!("the member's answer does not fit the request"),
        }
    }

    fn explain(&self, found: Option<&mvccpb::KeyValue>) -> String {
        let expected = match self {
            Condition::Absent => "no such key".to_owned(),
            Condition::Value(value) => format!("value {}", quoted(value)),
            Condition::Revision(revision) => format!("revision {revision}"),
        };
        let found = match found {
            None => "no such key".to_owned(),
            Some(kv) => format!("value {} of revision {}", quoted(&kv.value), kv.mod_revision),
        };
        format!("expected {expected}, found {found}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn put_condition_shows_what_was_expected_and_what_was_found() {
        let kv = mvccpb::KeyValue { value: "b".into(), mod_revision: 7, ..Default::default() };
        assert_eq!(
            Condition::Value("a".into()).explain(Some(&kv)),
            r#"expected value "a", found value "b" of revision 7"#
        );
        assert_eq!(
            Condition::Absent.explain(Some(&kv)),
            r#"expected no such key, found value "b" of revision 7"#
        );
        assert_eq!(
            Condition::Revision(Revision(3)).explain(None),
            "expected revision 3, found no such key"
        );
    }
}
