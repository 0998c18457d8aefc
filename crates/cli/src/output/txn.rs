//! Answers to transactions.

use std::io::Write;

use tenure::api::wire::etcdserverpb as pb;
use tenure::api::wire::etcdserverpb::response_op::Response;

use super::kv::Show;
use super::{Format, Output, fields, json, no_table};

impl<W: Write> Output<W> {
    /// Writes the answer to a transaction.
    pub(crate) fn txn(&mut self, response: &pb::TxnResponse) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                writeln!(self.out, "{}", if response.succeeded { "SUCCESS" } else { "FAILURE" })?;
                for op in &response.responses {
                    writeln!(self.out)?;
                    self.step(op)?;
                }
            }
            Format::Fields => {
                fields::header(&mut self.out, response.header.as_ref())?;
                fields::field(&mut self.out, "Succeeded", response.succeeded)?;
                response.responses.iter().try_for_each(|op| self.step(op))?;
            }
            Format::Json => self.json(&json::Txn::from(response))?,
            Format::Table => return Err(no_table()),
        }
        Ok(())
    }

    /// Writes the answer to a write whose condition did not hold. Nothing in the simple format: what
    /// was expected and found is talk, and goes to stderr.
    pub(crate) fn not_written(&mut self, response: &pb::TxnResponse) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => Ok(()),
            _ => self.txn(response),
        }
    }

    fn step(&mut self, op: &pb::ResponseOp) -> anyhow::Result<()> {
        match &op.response {
            Some(Response::ResponseRange(range)) => self.get(range, Show::All),
            Some(Response::ResponsePut(put)) => self.put(put),
            Some(Response::ResponseDeleteRange(del)) => self.del(del),
            Some(Response::ResponseTxn(txn)) => self.txn(txn),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::{header, kv, written};
    use super::*;

    fn done() -> pb::TxnResponse {
        let inner = || Some(pb::ResponseHeader { revision: 11, ..Default::default() });
        let step = |response| pb::ResponseOp { response: Some(response) };
        pb::TxnResponse {
            header: header(11),
            succeeded: true,
            responses: vec![
                step(Response::ResponsePut(pb::PutResponse { header: inner(), prev_kv: None })),
                step(Response::ResponseRange(pb::RangeResponse {
                    header: inner(),
                    kvs: vec![kv("k1", "hi", 11)],
                    more: false,
                    count: 1,
                })),
                step(Response::ResponseDeleteRange(pb::DeleteRangeResponse {
                    header: inner(),
                    deleted: 1,
                    prev_kvs: vec![],
                })),
            ],
        }
    }

    #[test]
    fn txn_output_puts_an_empty_line_before_each_step() {
        assert_eq!(written(Format::Simple, |o| o.txn(&done())), "SUCCESS\n\nOK\n\nk1\nhi\n\n1\n");
        let failed = pb::TxnResponse { succeeded: false, responses: vec![], ..done() };
        assert_eq!(written(Format::Simple, |o| o.txn(&failed)), "FAILURE\n");
    }

    #[test]
    fn txn_json_shows_the_union_as_go_does() {
        assert_eq!(
            written(Format::Json, |o| o.txn(&done())),
            concat!(
                r#"{"header":{"cluster_id":7,"member_id":8,"revision":11,"raft_term":2},"#,
                r#""succeeded":true,"responses":["#,
                r#"{"Response":{"response_put":{"header":{"revision":11}}}},"#,
                r#"{"Response":{"response_range":{"header":{"revision":11},"kvs":[{"key":"azE=","#,
                r#""create_revision":11,"mod_revision":11,"version":1,"value":"aGk="}],"count":1}}},"#,
                r#"{"Response":{"response_delete_range":{"header":{"revision":11},"deleted":1}}}]}"#,
                "\n"
            )
        );
    }
}
