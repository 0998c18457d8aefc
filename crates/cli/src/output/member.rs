//! Answers about members.

use std::io::Write;

use serde::Serialize;
use tenure::api::wire::etcdserverpb as pb;

use super::json::{Header, is_zero};
use super::text::quoted;
use super::{Format, Output, fields, no_table, table};

#[derive(Serialize)]
struct Members<'a> {
    header: Header,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<Member<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<Member<'a>>,
}

#[derive(Serialize)]
struct Member<'a> {
    #[serde(rename = "ID", skip_serializing_if = "is_zero")]
    id: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(rename = "peerURLs", skip_serializing_if = "<[String]>::is_empty")]
    peer_urls: &'a [String],
    #[serde(rename = "clientURLs", skip_serializing_if = "<[String]>::is_empty")]
    client_urls: &'a [String],
    #[serde(rename = "isLearner", skip_serializing_if = "is_zero")]
    is_learner: bool,
}

impl<'a> From<&'a pb::Member> for Member<'a> {
    fn from(member: &'a pb::Member) -> Self {
        Member {
            id: member.id,
            name: &member.name,
            peer_urls: &member.peer_ur_ls,
            client_urls: &member.client_ur_ls,
            is_learner: member.is_learner,
        }
    }
}

const HEADS: [&str; 6] = ["ID", "STATUS", "NAME", "PEER ADDRS", "CLIENT ADDRS", "IS LEARNER"];

/// A member without a name has never started.
fn row(member: &pb::Member) -> [String; 6] {
    let status = if member.name.is_empty() { "unstarted" } else { "started" };
    [
        format!("{:x}", member.id),
        status.to_owned(),
        member.name.clone(),
        member.peer_ur_ls.join(","),
        member.client_ur_ls.join(","),
        member.is_learner.to_string(),
    ]
}

impl<W: Write> Output<W> {
    /// Writes all members.
    pub(crate) fn member_list(&mut self, list: &pb::MemberListResponse) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                for member in &list.members {
                    writeln!(self.out, "{}", row(member).join(", "))?;
                }
            }
            Format::Fields => {
                fields::header(&mut self.out, list.header.as_ref())?;
                for member in &list.members {
                    self.member_fields(member)?;
                }
            }
            Format::Json => self.members_json(list.header.as_ref(), None, &list.members)?,
            Format::Table => {
                let rows: Vec<_> = list.members.iter().map(row).collect();
                table::draw(&mut self.out, HEADS, &rows)?;
            }
        }
        Ok(())
    }

    /// Writes what was added, as settings for it and as the command that starts it.
    pub(crate) fn member_added(
        &mut self,
        name: &str,
        as_learner: bool,
        added: &pb::MemberAddResponse,
    ) -> anyhow::Result<()> {
        let member = added.member.clone().unwrap_or_default();
        let cluster = added.header.as_ref().map_or(0, |header| header.cluster_id);
        match self.format {
            Format::Simple => {}
            Format::Json => {
                let members = &added.members;
                return self.members_json(added.header.as_ref(), Some(&member), members);
            }
            Format::Fields | Format::Table => return Err(no_table()),
        }
        let named = |other: &pb::Member| {
            let called = if other.id == member.id { name } else { &other.name };
            let urls = other.peer_ur_ls.iter().map(|url| format!("{called}={url}"));
            urls.collect::<Vec<_>>().join(",")
        };
        // A member that has not started yet has no name, and cannot be asked anything anyway.
        let known = |other: &&pb::Member| other.id == member.id || !other.name.is_empty();
        let initial: Vec<_> = added.members.iter().filter(known).map(named).collect();
        let (initial, urls) = (initial.join(","), member.peer_ur_ls.join(","));
        writeln!(self.out, "Member {:16x} added to cluster {cluster:16x}", member.id)?;
        writeln!(self.out, "\nETCD_NAME=\"{name}\"")?;
        writeln!(self.out, "ETCD_INITIAL_CLUSTER=\"{initial}\"")?;
        writeln!(self.out, "ETCD_INITIAL_ADVERTISE_PEER_URLS=\"{urls}\"")?;
        writeln!(self.out, "ETCD_INITIAL_CLUSTER_STATE=\"existing\"")?;
        writeln!(
            self.out,
            "\ntenure serve --name {name} --initial-cluster-state existing --initial-cluster {initial} \
             --initial-advertise-peer-urls {urls} --listen-peer-urls {urls}"
        )?;
        if member.is_learner && !as_learner {
            writeln!(self.out, "\nIt gets its vote by itself when it has started and caught up.")?;
        }
        Ok(())
    }

    /// Writes that a member was changed, and how.
    pub(crate) fn members_changed(
        &mut self,
        how: &str,
        id: u64,
        header: Option<pb::ResponseHeader>,
        members: &[pb::Member],
    ) -> anyhow::Result<()> {
        let cluster = header.as_ref().map_or(0, |header| header.cluster_id);
        match self.format {
            Format::Simple => writeln!(self.out, "Member {id:16x} {how} cluster {cluster:16x}")?,
            Format::Json => self.members_json(header.as_ref(), None, members)?,
            Format::Fields | Format::Table => return Err(no_table()),
        }
        Ok(())
    }

    fn member_fields(&mut self, member: &pb::Member) -> anyhow::Result<()> {
        fields::field(&mut self.out, "ID", member.id)?;
        fields::field(&mut self.out, "Name", quoted(member.name.as_bytes()))?;
        for url in &member.peer_ur_ls {
            fields::field(&mut self.out, "PeerURL", quoted(url.as_bytes()))?;
        }
        for url in &member.client_ur_ls {
            fields::field(&mut self.out, "ClientURL", quoted(url.as_bytes()))?;
        }
        fields::field(&mut self.out, "IsLearner", member.is_learner)?;
        Ok(writeln!(self.out)?)
    }

    fn members_json(
        &mut self,
        header: Option<&pb::ResponseHeader>,
        member: Option<&pb::Member>,
        members: &[pb::Member],
    ) -> anyhow::Result<()> {
        self.json(&Members {
            header: Header::of(header),
            member: member.map(Into::into),
            members: members.iter().map(Into::into).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::{header, written};
    use super::*;

    fn member(id: u64, name: &str) -> pb::Member {
        pb::Member {
            id,
            name: name.into(),
            peer_ur_ls: vec![format!("http://h{id}:2380")],
            client_ur_ls: vec![],
            is_learner: false,
        }
    }

    #[test]
    fn member_list_is_one_line_for_a_member() {
        let list = pb::MemberListResponse {
            header: header(0),
            members: vec![member(17, "a"), member(18, "")],
        };
        assert_eq!(
            written(Format::Simple, |o| o.member_list(&list)),
            "11, started, a, http://h17:2380, , false\n12, unstarted, , http://h18:2380, , false\n"
        );
        assert_eq!(
            written(Format::Json, |o| o.member_list(&list)),
            concat!(
                r#"{"header":{"cluster_id":7,"member_id":8,"raft_term":2},"members":["#,
                r#"{"ID":17,"name":"a","peerURLs":["http://h17:2380"]},"#,
                r#"{"ID":18,"peerURLs":["http://h18:2380"]}]}"#,
                "\n"
            )
        );
    }

    #[test]
    fn member_add_says_how_to_start_the_member() {
        let added = pb::MemberAddResponse {
            header: header(3),
            member: Some(member(18, "")),
            members: vec![member(17, "a"), member(18, "")],
        };
        assert_eq!(
            written(Format::Simple, |o| o.member_added("b", false, &added)),
            "\
Member               12 added to cluster                7

ETCD_NAME=\"b\"
ETCD_INITIAL_CLUSTER=\"a=http://h17:2380,b=http://h18:2380\"
ETCD_INITIAL_ADVERTISE_PEER_URLS=\"http://h18:2380\"
ETCD_INITIAL_CLUSTER_STATE=\"existing\"

tenure serve --name b --initial-cluster-state existing --initial-cluster a=http://h17:2380,b=http://h18:2380 \
--initial-advertise-peer-urls http://h18:2380 --listen-peer-urls http://h18:2380
"
        );
    }

    #[test]
    fn member_add_says_when_the_member_will_vote_later() {
        let added = |as_learner| {
            let member = Some(pb::Member { is_learner: true, ..member(18, "") });
            let added = pb::MemberAddResponse { header: header(3), member, members: vec![] };
            written(Format::Simple, |o| o.member_added("b", as_learner, &added))
        };
        let word = "\nIt gets its vote by itself when it has started and caught up.\n";
        assert!(added(false).ends_with(word));
        assert!(!added(true).contains("vote"));
    }
}
