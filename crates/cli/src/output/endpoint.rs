//! What every member was asked: its health, a checksum of its keys.

use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use tenure::api::wire::etcdserverpb as pb;

use super::json::{Header, is_zero};
use super::text::quoted;
use super::{Format, Output, fields, table};

/// How one member is.
#[derive(Debug)]
pub(crate) struct MemberHealth {
    /// Where it was asked.
    pub(crate) endpoint: String,
    /// How long it took to answer, or to give up.
    pub(crate) took: Duration,
    /// What is wrong with it.
    pub(crate) error: Option<String>,
}

/// A member's checksum.
#[derive(Debug)]
pub(crate) struct MemberHash {
    /// Where it was asked.
    pub(crate) endpoint: String,
    /// What it answered.
    pub(crate) hash: pb::HashKvResponse,
}

#[derive(Serialize)]
struct Health<'a> {
    endpoint: &'a str,
    health: bool,
    took: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entry<'a> {
    endpoint: &'a str,
    #[serde(rename = "HashKV")]
    hash_kv: HashKv,
}

#[derive(Serialize)]
struct HashKv {
    header: Header,
    #[serde(skip_serializing_if = "is_zero")]
    hash: u32,
    #[serde(skip_serializing_if = "is_zero")]
    compact_revision: i64,
    /// etcdctl 3.6 shows it; without it there is no telling whether two checksums may be compared.
    #[serde(skip_serializing_if = "is_zero")]
    hash_revision: i64,
}

impl<W: Write> Output<W> {
    /// Writes how the members are. In the simple format, bad news goes to stderr, as etcdctl's does.
    pub(crate) fn health(&mut self, members: &[MemberHealth]) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                for MemberHealth { endpoint, took, error } in members {
                    match error {
                        None => writeln!(
                            self.out,
                            "{endpoint} is healthy: successfully committed proposal: took = {took:?}"
                        )?,
                        Some(error) => {
                            eprintln!("{endpoint} is unhealthy: failed to commit proposal: {error}")
                        }
                    }
                }
            }
            Format::Fields => {
                for MemberHealth { endpoint, took, error } in members {
                    let out = &mut self.out;
                    fields::field(out, "Endpoint", quoted(endpoint.as_bytes()))?;
                    fields::field(out, "Health", error.is_none())?;
                    fields::field(out, "Took", format_args!("{took:?}"))?;
                    fields::field(out, "Error", error.as_deref().unwrap_or_default())?;
                    writeln!(out)?;
                }
            }
            Format::Json => {
                let entries: Vec<_> = members.iter().map(MemberHealth::entry).collect();
                self.json(&entries)?;
            }
            Format::Table => {
                let rows: Vec<_> = members.iter().map(MemberHealth::row).collect();
                table::draw(&mut self.out, ["ENDPOINT", "HEALTH", "TOOK", "ERROR"], &rows)?;
            }
        }
        Ok(())
    }

    /// Writes the members' checksums.
    pub(crate) fn hashes(&mut self, members: &[MemberHash]) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                for MemberHash { endpoint, hash } in members {
                    writeln!(self.out, "{endpoint}, {}", hash.hash)?;
                }
            }
            Format::Fields => {
                for MemberHash { endpoint, hash } in members {
                    let out = &mut self.out;
                    fields::header(out, hash.header.as_ref())?;
                    fields::field(out, "Endpoint", quoted(endpoint.as_bytes()))?;
                    fields::field(out, "Hash", hash.hash)?;
                    writeln!(out)?;
                }
            }
            Format::Json => {
                let entries: Vec<_> = members.iter().map(MemberHash::entry).collect();
                self.json(&entries)?;
            }
            Format::Table => {
                let row =
                    |member: &MemberHash| [member.endpoint.clone(), member.hash.hash.to_string()];
                let rows: Vec<_> = members.iter().map(row).collect();
                table::draw(&mut self.out, ["ENDPOINT", "HASH"], &rows)?;
            }
        }
        Ok(())
    }
}

impl MemberHealth {
    fn entry(&self) -> Health<'_> {
        Health {
            endpoint: &self.endpoint,
            health: self.error.is_none(),
            took: format!("{:?}", self.took),
            error: self.error.as_deref(),
        }
    }

    fn row(&self) -> [String; 4] {
        [
            self.endpoint.clone(),
            self.error.is_none().to_string(),
            format!("{:?}", self.took),
            self.error.clone().unwrap_or_default(),
        ]
    }
}

impl MemberHash {
    fn entry(&self) -> Entry<'_> {
        let hash = &self.hash;
        Entry {
            endpoint: &self.endpoint,
            hash_kv: HashKv {
                header: Header::of(hash.header.as_ref()),
                hash: hash.hash,
                compact_revision: hash.compact_revision,
                hash_revision: hash.hash_revision,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::{header, written};
    use super::*;

    #[test]
    fn endpoint_health_is_in_etcdctls_words() {
        let took = Duration::from_nanos(3_510_321);
        let member = |endpoint: &str, error: Option<&str>| MemberHealth {
            endpoint: endpoint.into(),
            took,
            error: error.map(str::to_owned),
        };
        let members = [member("a:1", None), member("b:1", Some("no"))];
        assert_eq!(
            written(Format::Simple, |o| o.health(&members)),
            "a:1 is healthy: successfully committed proposal: took = 3.510321ms\n"
        );
        assert_eq!(
            written(Format::Json, |o| o.health(&members)),
            concat!(
                r#"[{"endpoint":"a:1","health":true,"took":"3.510321ms"},"#,
                r#"{"endpoint":"b:1","health":false,"took":"3.510321ms","error":"no"}]"#,
                "\n"
            )
        );
    }

    #[test]
    fn endpoint_checksum_says_up_to_where_it_goes() {
        let hash = pb::HashKvResponse {
            header: header(9),
            hash: 77,
            compact_revision: 3,
            hash_revision: 9,
        };
        let members = [MemberHash { endpoint: "a:1".into(), hash }];
        assert_eq!(written(Format::Simple, |o| o.hashes(&members)), "a:1, 77\n");
        assert_eq!(
            written(Format::Json, |o| o.hashes(&members)),
            concat!(
                r#"[{"Endpoint":"a:1","HashKV":{"header":{"cluster_id":7,"member_id":8,"revision":9,"#,
                r#""raft_term":2},"hash":77,"compact_revision":3,"hash_revision":9}}]"#,
                "\n"
            )
        );
    }
}
