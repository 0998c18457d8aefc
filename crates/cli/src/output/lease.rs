//! Answers about leases.

use std::io::Write;

use serde::Serialize;
use tenure::api::wire::etcdserverpb as pb;

use super::json::{Header, in_base64};
use super::text::quoted;
use super::{Format, Output, fields, no_table, table};

#[derive(Serialize)]
struct Granted<'a> {
    #[serde(flatten)]
    header: Header,
    #[serde(rename = "ID")]
    id: i64,
    #[serde(rename = "TTL")]
    ttl: i64,
    #[serde(rename = "Error")]
    error: &'a str,
}

#[derive(Serialize)]
struct Renewed {
    #[serde(flatten)]
    header: Header,
    #[serde(rename = "ID")]
    id: i64,
    #[serde(rename = "TTL")]
    ttl: i64,
}

#[derive(Serialize)]
struct Remaining {
    #[serde(flatten)]
    header: Header,
    id: i64,
    ttl: i64,
    #[serde(rename = "granted-ttl")]
    granted_ttl: i64,
    /// Go writes a list that was never made as null.
    keys: Option<Vec<String>>,
}

#[derive(Serialize)]
struct List {
    #[serde(flatten)]
    header: Header,
    leases: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    id: i64,
}

#[derive(Serialize)]
struct Revoked {
    header: Header,
}

impl<W: Write> Output<W> {
    /// Writes the answer to a grant.
    pub(crate) fn lease_granted(&mut self, lease: &pb::LeaseGrantResponse) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                writeln!(self.out, "lease {:016x} granted with TTL({}s)", lease.id, lease.ttl)?;
            }
            Format::Fields => {
                fields::header(&mut self.out, lease.header.as_ref())?;
                fields::field(&mut self.out, "ID", lease.id)?;
                fields::field(&mut self.out, "TTL", lease.ttl)?;
            }
            Format::Json => self.json(&Granted {
                header: Header::of(lease.header.as_ref()),
                id: lease.id,
                ttl: lease.ttl,
                error: &lease.error,
            })?,
            Format::Table => return Err(no_table()),
        }
        Ok(())
    }

    /// Writes the answer to a revocation.
    pub(crate) fn lease_revoked(
        &mut self,
        id: i64,
        response: &pb::LeaseRevokeResponse,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => writeln!(self.out, "lease {id:016x} revoked")?,
            Format::Fields => fields::header(&mut self.out, response.header.as_ref())?,
            Format::Json => {
                self.json(&Revoked { header: Header::of(response.header.as_ref()) })?;
            }
            Format::Table => return Err(no_table()),
        }
        Ok(())
    }

    /// Writes one renewal and lets it be seen at once.
    pub(crate) fn lease_renewed(
        &mut self,
        lease: &pb::LeaseKeepAliveResponse,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                writeln!(self.out, "lease {:016x} keepalived with TTL({})", lease.id, lease.ttl)?;
            }
            Format::Fields => {
                fields::header(&mut self.out, lease.header.as_ref())?;
                fields::field(&mut self.out, "ID", lease.id)?;
                fields::field(&mut self.out, "TTL", lease.ttl)?;
            }
            Format::Json => self.json(&Renewed {
                header: Header::of(lease.header.as_ref()),
                id: lease.id,
                ttl: lease.ttl,
            })?,
            Format::Table => return Err(no_table()),
        }
        Ok(self.flush()?)
    }

    /// Writes how long a lease still has; `with_keys` if its keys were asked for.
    pub(crate) fn lease_remaining(
        &mut self,
        lease: &pb::LeaseTimeToLiveResponse,
        with_keys: bool,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Simple if lease.granted_ttl == 0 && lease.ttl == -1 => {
                writeln!(self.out, "lease {:016x} already expired", lease.id)?;
            }
            Format::Simple => {
                write!(
                    self.out,
                    "lease {:016x} granted with TTL({}s), remaining({}s)",
                    lease.id, lease.granted_ttl, lease.ttl
                )?;
                if with_keys {
                    let keys: Vec<_> = lease.keys.iter().map(|key| self.shown(key)).collect();
                    write!(self.out, ", attached keys([{}])", keys.join(" "))?;
                }
                writeln!(self.out)?;
            }
            Format::Fields => {
                fields::header(&mut self.out, lease.header.as_ref())?;
                fields::field(&mut self.out, "ID", lease.id)?;
                fields::field(&mut self.out, "TTL", lease.ttl)?;
                fields::field(&mut self.out, "GrantedTTL", lease.granted_ttl)?;
                for key in &lease.keys {
                    fields::field(&mut self.out, "Key", quoted(key))?;
                }
            }
            Format::Json => self.json(&Remaining {
                header: Header::of(lease.header.as_ref()),
                id: lease.id,
                ttl: lease.ttl,
                granted_ttl: lease.granted_ttl,
                keys: (!lease.keys.is_empty())
                    .then(|| lease.keys.iter().map(|key| in_base64(key)).collect()),
            })?,
            Format::Table => return Err(no_table()),
        }
        Ok(())
    }

    /// Writes all leases.
    pub(crate) fn lease_list(&mut self, response: &pb::LeaseLeasesResponse) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                writeln!(self.out, "found {} leases", response.leases.len())?;
                for lease in &response.leases {
                    writeln!(self.out, "{:016x}", lease.id)?;
                }
            }
            Format::Fields => {
                fields::header(&mut self.out, response.header.as_ref())?;
                for lease in &response.leases {
                    fields::field(&mut self.out, "ID", lease.id)?;
                }
            }
            Format::Json => self.json(&List {
                header: Header::of(response.header.as_ref()),
                leases: response.leases.iter().map(|lease| Listed { id: lease.id }).collect(),
            })?,
            Format::Table => {
                let rows: Vec<_> =
                    response.leases.iter().map(|lease| [format!("{:016x}", lease.id)]).collect();
                table::draw(&mut self.out, ["LEASE"], &rows)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::{header, written};
    use super::*;

    #[test]
    fn lease_output_is_in_etcdctls_words() {
        let granted =
            pb::LeaseGrantResponse { header: header(9), id: 0x1a, ttl: 100, error: String::new() };
        assert_eq!(
            written(Format::Simple, |o| o.lease_granted(&granted)),
            "lease 000000000000001a granted with TTL(100s)\n"
        );
        assert_eq!(
            written(Format::Json, |o| o.lease_granted(&granted)),
            "{\"cluster_id\":7,\"member_id\":8,\"revision\":9,\"raft_term\":2,\"ID\":26,\"TTL\":100,\"Error\":\"\"}\n"
        );
        let list = pb::LeaseLeasesResponse {
            header: header(9),
            leases: vec![pb::LeaseStatus { id: 0x1a }],
        };
        assert_eq!(
            written(Format::Simple, |o| o.lease_list(&list)),
            "found 1 leases\n000000000000001a\n"
        );
    }

    #[test]
    fn lease_time_left_comes_with_the_keys_if_asked() {
        let lease = pb::LeaseTimeToLiveResponse {
            header: header(9),
            id: 0x1a,
            ttl: 99,
            granted_ttl: 100,
            keys: vec!["a".into(), "b".into()],
        };
        assert_eq!(
            written(Format::Simple, |o| o.lease_remaining(&lease, true)),
            "lease 000000000000001a granted with TTL(100s), remaining(99s), attached keys([a b])\n"
        );
        let gone = pb::LeaseTimeToLiveResponse { ttl: -1, granted_ttl: 0, keys: vec![], ..lease };
        assert_eq!(
            written(Format::Simple, |o| o.lease_remaining(&gone, true)),
            "lease 000000000000001a already expired\n"
        );
        assert_eq!(
            written(Format::Json, |o| o.lease_remaining(&gone, true)),
            "{\"cluster_id\":7,\"member_id\":8,\"revision\":9,\"raft_term\":2,\"id\":26,\"ttl\":-1,\"granted-ttl\":0,\"keys\":null}\n"
        );
    }
}
