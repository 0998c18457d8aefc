//! How the members are.

use std::io::Write;

use serde::Serialize;
use tenure::api::wire::etcdserverpb as pb;

use super::json::{Header, is_zero};
use super::text::{quoted, size};
use super::{Format, Output, fields, table};

/// What one member said about itself.
#[derive(Debug)]
pub(crate) struct MemberStatus {
    /// Where it was asked.
    pub(crate) endpoint: String,
    /// What it answered.
    pub(crate) status: pb::StatusResponse,
}

/// The same, and what etcd's API does not tell.
#[derive(Debug)]
pub(crate) struct NamedStatus {
    /// What etcd's API tells.
    pub(crate) member: MemberStatus,
    /// The name of the member, if it has one.
    pub(crate) name: String,
    /// The release of tenure that it runs, if it is one.
    pub(crate) release: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct NamedEntry<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenure: Option<&'a str>,
    #[serde(flatten)]
    entry: Entry<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entry<'a> {
    endpoint: &'a str,
    status: Status<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    header: Header,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    db_size: i64,
    #[serde(skip_serializing_if = "is_zero")]
    leader: u64,
    #[serde(skip_serializing_if = "is_zero")]
    raft_index: u64,
    #[serde(skip_serializing_if = "is_zero")]
    raft_term: u64,
    #[serde(skip_serializing_if = "is_zero")]
    raft_applied_index: u64,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    errors: &'a [String],
    #[serde(skip_serializing_if = "is_zero")]
    db_size_in_use: i64,
    #[serde(skip_serializing_if = "is_zero")]
    is_learner: bool,
}

const HEADS: [&str; 10] = [
    "ENDPOINT",
    "ID",
    "VERSION",
    "DB SIZE",
    "IS LEADER",
    "IS LEARNER",
    "RAFT TERM",
    "RAFT INDEX",
    "RAFT APPLIED INDEX",
    "ERRORS",
];

impl<W: Write> Output<W> {
    /// Writes what the members said.
    pub(crate) fn status(&mut self, members: &[MemberStatus]) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                for member in members {
                    writeln!(self.out, "{}", member.row().join(", "))?;
                }
            }
            Format::Fields => {
                for member in members {
                    self.status_fields(member)?;
                }
            }
            Format::Json => {
                let entries: Vec<_> = members.iter().map(MemberStatus::entry).collect();
                self.json(&entries)?;
            }
            Format::Table => {
                let rows: Vec<_> = members.iter().map(MemberStatus::row).collect();
                table::draw(&mut self.out, HEADS, &rows)?;
            }
        }
        Ok(())
    }

    /// Writes how the members are, with their names and releases: one JSON object a line.
    pub(crate) fn named_status(&mut self, members: &[NamedStatus]) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                for member in members {
                    writeln!(self.out, "{}", member.row().join(", "))?;
                }
            }
            Format::Fields => {
                for NamedStatus { member, name, release } in members {
                    fields::field(&mut self.out, "Name", quoted(name.as_bytes()))?;
                    let release = release.as_deref().unwrap_or_default();
                    fields::field(&mut self.out, "Tenure", quoted(release.as_bytes()))?;
                    self.status_fields(member)?;
                }
            }
            Format::Json => {
                for NamedStatus { member, name, release } in members {
                    let (tenure, entry) = (release.as_deref(), member.entry());
                    self.json(&NamedEntry { name, tenure, entry })?;
                }
            }
            Format::Table => {
                let rows: Vec<_> = members.iter().map(NamedStatus::row).collect();
                let heads = with_name(HEADS.map(str::to_owned), "NAME".into(), "TENURE".into());
                table::draw(&mut self.out, heads, &rows)?;
            }
        }
        Ok(())
    }

    fn status_fields(&mut self, member: &MemberStatus) -> std::io::Result<()> {
        let status = &member.status;
        let out = &mut self.out;
        fields::header(out, status.header.as_ref())?;
        fields::field(out, "Version", quoted(status.version.as_bytes()))?;
        fields::field(out, "DBSize", status.db_size)?;
        fields::field(out, "Leader", status.leader)?;
        fields::field(out, "IsLearner", status.is_learner)?;
        fields::field(out, "RaftIndex", status.raft_index)?;
        fields::field(out, "RaftTerm", status.raft_term)?;
        fields::field(out, "RaftAppliedIndex", status.raft_applied_index)?;
        fields::field(out, "Errors", format_args!("[{}]", status.errors.join(" ")))?;
        fields::field(out, "Endpoint", quoted(member.endpoint.as_bytes()))?;
        writeln!(out)
    }
}

/// How many columns there are with name and release.
const NAMED: usize = HEADS.len() + 2;

/// Puts the name first, and the release before the version of the API.
fn with_name(row: [String; HEADS.len()], name: String, release: String) -> [String; NAMED] {
    let [endpoint, id, version, size, leads, learns, term, index, applied, errors] = row;
    [name, endpoint, id, release, version, size, leads, learns, term, index, applied, errors]
}

impl NamedStatus {
    fn row(&self) -> [String; NAMED] {
        let release = self.release.clone().unwrap_or_else(|| "-".to_owned());
        with_name(self.member.row(), self.name.clone(), release)
    }
}

impl MemberStatus {
    fn row(&self) -> [String; HEADS.len()] {
        let status = &self.status;
        let id = status.header.as_ref().map_or(0, |header| header.member_id);
        [
            self.endpoint.clone(),
            format!("{id:x}"),
            status.version.clone(),
            size(status.db_size),
            (status.leader == id).to_string(),
            status.is_learner.to_string(),
            status.raft_term.to_string(),
            status.raft_index.to_string(),
            status.raft_applied_index.to_string(),
            status.errors.join(", "),
        ]
    }

    fn entry(&self) -> Entry<'_> {
        let status = &self.status;
        Entry {
            endpoint: &self.endpoint,
            status: Status {
                header: Header::of(status.header.as_ref()),
                version: &status.version,
                db_size: status.db_size,
                leader: status.leader,
                raft_index: status.raft_index,
                raft_term: status.raft_term,
                raft_applied_index: status.raft_applied_index,
                errors: &status.errors,
                db_size_in_use: status.db_size_in_use,
                is_learner: status.is_learner,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::{header, written};
    use super::*;

    #[test]
    fn status_output_is_one_line_for_a_member() {
        let status = pb::StatusResponse {
            header: header(30),
            version: "3.5.1".into(),
            db_size: 24_576,
            db_size_in_use: 24_576,
            leader: 8,
            raft_index: 46,
            raft_applied_index: 46,
            raft_term: 2,
            ..Default::default()
        };
        let members = [MemberStatus { endpoint: "127.0.0.1:2379".into(), status }];
        assert_eq!(
            written(Format::Simple, |o| o.status(&members)),
            "127.0.0.1:2379, 8, 3.5.1, 25 kB, true, false, 2, 46, 46, \n"
        );
        assert_eq!(
            written(Format::Json, |o| o.status(&members)),
            concat!(
                r#"[{"Endpoint":"127.0.0.1:2379","Status":{"header":{"cluster_id":7,"member_id":8,"#,
                r#""revision":30,"raft_term":2},"version":"3.5.1","dbSize":24576,"leader":8,"#,
                r#""raftIndex":46,"raftTerm":2,"raftAppliedIndex":46,"dbSizeInUse":24576}}]"#,
                "\n"
            )
        );
    }
}
