//! Answers to put, get and del.

use std::io::Write;

use tenure::api::wire::{etcdserverpb as pb, mvccpb};

use super::text::quoted;
use super::{Format, Output, fields, json, no_table, table};

/// What of a get to show in the simple format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Keys and values.
    All,
    /// Values, without their keys.
    ValuesOnly,
    /// How many there are.
    CountOnly,
}

impl<W: Write> Output<W> {
    /// Writes the answer to a put.
    pub(crate) fn put(&mut self, response: &pb::PutResponse) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                writeln!(self.out, "OK")?;
                response.prev_kv.iter().try_for_each(|kv| self.simple_kv(kv))?;
            }
            Format::Fields => {
                fields::header(&mut self.out, response.header.as_ref())?;
                if let Some(kv) = &response.prev_kv {
                    fields::kv(&mut self.out, "Prev", kv)?;
                }
            }
            Format::Json => self.json(&json::Put::from(response))?,
            Format::Table => return Err(no_table()),
        }
        Ok(())
    }

    /// Writes the answer to a get.
    pub(crate) fn get(&mut self, response: &pb::RangeResponse, show: Show) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => match show {
                Show::All => response.kvs.iter().try_for_each(|kv| self.simple_kv(kv))?,
                Show::ValuesOnly => {
                    response.kvs.iter().try_for_each(|kv| self.line(&kv.value))?;
                }
                Show::CountOnly => writeln!(self.out, "{}", response.count)?,
            },
            Format::Fields => {
                fields::header(&mut self.out, response.header.as_ref())?;
                for kv in &response.kvs {
                    fields::kv(&mut self.out, "", kv)?;
                }
                fields::field(&mut self.out, "More", response.more)?;
                fields::field(&mut self.out, "Count", response.count)?;
            }
            Format::Json => self.json(&json::Range::from(response))?,
            Format::Table => self.get_table(response)?,
        }
        Ok(())
    }

    /// Writes the answer to a del.
    pub(crate) fn del(&mut self, response: &pb::DeleteRangeResponse) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                writeln!(self.out, "{}", response.deleted)?;
                response.prev_kvs.iter().try_for_each(|kv| self.simple_kv(kv))?;
            }
            Format::Fields => {
                fields::header(&mut self.out, response.header.as_ref())?;
                fields::field(&mut self.out, "Deleted", response.deleted)?;
                for kv in &response.prev_kvs {
                    fields::kv(&mut self.out, "Prev", kv)?;
                }
            }
            Format::Json => self.json(&json::DeleteRange::from(response))?,
            Format::Table => return Err(no_table()),
        }
        Ok(())
    }

    pub(super) fn simple_kv(&mut self, kv: &mvccpb::KeyValue) -> std::io::Result<()> {
        self.line(&kv.key)?;
        self.line(&kv.value)
    }

    fn get_table(&mut self, response: &pb::RangeResponse) -> std::io::Result<()> {
        let row = |kv: &mvccpb::KeyValue| {
            [
                quoted(&kv.key),
                quoted(&kv.value),
                kv.create_revision.to_string(),
                kv.mod_revision.to_string(),
                kv.version.to_string(),
                if kv.lease == 0 { String::new() } else { format!("{:016x}", kv.lease) },
            ]
        };
        let heads = ["KEY", "VALUE", "CREATED AT", "MODIFIED AT", "VERSION", "LEASE"];
        let rows: Vec<_> = response.kvs.iter().map(row).collect();
        table::draw(&mut self.out, heads, &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::{header, kv, written};
    use super::*;

    fn found() -> pb::RangeResponse {
        pb::RangeResponse {
            header: header(9),
            kvs: vec![kv("k1", "v2", 8), kv("k2", "v 2", 9)],
            more: false,
            count: 2,
        }
    }

    #[test]
    fn kv_output_of_get_is_keys_and_values() {
        let simple = |show| written(Format::Simple, |o| o.get(&found(), show));
        assert_eq!(simple(Show::All), "k1\nv2\nk2\nv 2\n");
        assert_eq!(simple(Show::ValuesOnly), "v2\nv 2\n");
        assert_eq!(simple(Show::CountOnly), "2\n");
        assert_eq!(
            written(Format::Json, |o| o.get(&found(), Show::All)),
            concat!(
                r#"{"header":{"cluster_id":7,"member_id":8,"revision":9,"raft_term":2},"#,
                r#""kvs":[{"key":"azE=","create_revision":8,"mod_revision":8,"version":1,"value":"djI="},"#,
                r#"{"key":"azI=","create_revision":9,"mod_revision":9,"version":1,"value":"diAy"}],"#,
                r#""count":2}"#,
                "\n"
            )
        );
    }

    #[test]
    fn kv_fields_come_in_etcdctls_order() {
        let found = pb::RangeResponse { kvs: vec![kv("k", "a\nb", 3)], ..found() };
        let expected = "\
\"ClusterID\" : 7
\"MemberID\" : 8
\"Revision\" : 9
\"RaftTerm\" : 2
\"Key\" : \"k\"
\"CreateRevision\" : 3
\"ModRevision\" : 3
\"Version\" : 1
\"Value\" : \"a\\nb\"
\"Lease\" : 0
\"More\" : false
\"Count\" : 2
";
        assert_eq!(written(Format::Fields, |o| o.get(&found, Show::All)), expected);
    }

    #[test]
    fn kv_output_of_put_and_del_shows_what_was_there_before() {
        let put = pb::PutResponse { header: header(4), prev_kv: Some(kv("k", "old", 3)) };
        assert_eq!(written(Format::Simple, |o| o.put(&put)), "OK\nk\nold\n");
        assert!(written(Format::Fields, |o| o.put(&put)).contains("\"PrevValue\" : \"old\"\n"));
        let del = pb::DeleteRangeResponse { header: header(5), deleted: 0, prev_kvs: vec![] };
        assert_eq!(written(Format::Simple, |o| o.del(&del)), "0\n");
        assert_eq!(
            written(Format::Json, |o| o.del(&del)),
            "{\"header\":{\"cluster_id\":7,\"member_id\":8,\"revision\":5,\"raft_term\":2}}\n"
        );
    }

    #[test]
    fn kv_bytes_can_be_shown_in_hexadecimal() {
        let mut output =
            Output { out: Vec::new(), format: Format::Simple, hex: true, on_terminal: false };
        let found = pb::RangeResponse { kvs: vec![kv("a1", "x", 3)], ..found() };
        output.get(&found, Show::All).unwrap();
        assert_eq!(output.out, b"\\x61\\x31\n\\x78\n");
    }
}
