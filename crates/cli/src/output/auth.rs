//! Answers about users and roles.

use std::io::Write;

use serde::Serialize;
use tenure::api::wire::authpb::permission::Type;
use tenure::api::wire::{authpb, etcdserverpb as pb};

use super::json::{Header, in_base64, is_zero};
use super::text::{quoted, visible};
use super::{Format, Output, fields, no_table, table};

#[derive(Serialize)]
struct Status {
    header: Header,
    #[serde(skip_serializing_if = "is_zero")]
    enabled: bool,
    #[serde(rename = "authRevision", skip_serializing_if = "is_zero")]
    auth_revision: u64,
}

#[derive(Serialize)]
struct Names<'a> {
    header: Header,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    users: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    roles: &'a [String],
}

#[derive(Serialize)]
struct Role {
    header: Header,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    perm: Vec<Permission>,
}

#[derive(Serialize)]
struct Permission {
    #[serde(rename = "permType", skip_serializing_if = "is_zero")]
    perm_type: i32,
    #[serde(skip_serializing_if = "String::is_empty")]
    key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    range_end: String,
}

impl<W: Write> Output<W> {
    /// Writes that something was done, in these words for people.
    pub(crate) fn auth_changed(
        &mut self,
        said: &str,
        header: Option<&pb::ResponseHeader>,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => Ok(writeln!(self.out, "{}", visible(said))?),
            Format::Fields => Ok(fields::header(&mut self.out, header)?),
            Format::Json => {
                self.json(&Names { header: Header::of(header), users: &[], roles: &[] })
            }
            Format::Table => Err(no_table()),
        }
    }

    /// Writes which keys a role has lost.
    pub(crate) fn permission_revoked(
        &mut self,
        role: &str,
        key: &[u8],
        range_end: &[u8],
        header: Option<&pb::ResponseHeader>,
    ) -> anyhow::Result<()> {
        let keys = match range_end {
            [] => format!("key {}", text(key)),
            end => format!("range {}", range(key, end)),
        };
        self.auth_changed(&format!("Permission of {keys} is revoked from role {role}"), header)
    }

    /// Writes whether users and roles count.
    pub(crate) fn auth_status(&mut self, status: &pb::AuthStatusResponse) -> anyhow::Result<()> {
        let (enabled, revision) = (status.enabled, status.auth_revision);
        match self.format {
            Format::Simple => {
                writeln!(self.out, "Authentication Status: {enabled}")?;
                Ok(writeln!(self.out, "AuthRevision: {revision}")?)
            }
            Format::Fields => {
                fields::header(&mut self.out, status.header.as_ref())?;
                fields::field(&mut self.out, "Enabled", enabled)?;
                Ok(fields::field(&mut self.out, "AuthRevision", revision)?)
            }
            Format::Json => {
                let header = Header::of(status.header.as_ref());
                self.json(&Status { header, enabled, auth_revision: revision })
            }
            Format::Table => {
                let row = [enabled.to_string(), revision.to_string()];
                Ok(table::draw(&mut self.out, ["ENABLED", "AUTH REVISION"], &[row])?)
            }
        }
    }

    /// Writes all users.
    pub(crate) fn user_list(&mut self, list: &pb::AuthUserListResponse) -> anyhow::Result<()> {
        self.names("Users", "USER", &list.users, list.header.as_ref())
    }

    /// Writes all roles.
    pub(crate) fn role_list(&mut self, list: &pb::AuthRoleListResponse) -> anyhow::Result<()> {
        self.names("Roles", "ROLE", &list.roles, list.header.as_ref())
    }

    fn names(
        &mut self,
        field: &str,
        head: &str,
        names: &[String],
        header: Option<&pb::ResponseHeader>,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                for name in names {
                    writeln!(self.out, "{}", visible(name))?;
                }
            }
            Format::Fields => {
                fields::header(&mut self.out, header)?;
                for name in names {
                    fields::field(&mut self.out, field, quoted(name.as_bytes()))?;
                }
            }
            Format::Json => {
                let header = Header::of(header);
                let (users, roles) =
                    if field == "Users" { (names, &[][..]) } else { (&[][..], names) };
                self.json(&Names { header, users, roles })?;
            }
            Format::Table => {
                let rows: Vec<_> = names.iter().map(|name| [visible(name).into_owned()]).collect();
                table::draw(&mut self.out, [head], &rows)?;
            }
        }
        Ok(())
    }

    /// Writes a user and its roles.
    pub(crate) fn user(
        &mut self,
        name: &str,
        user: &pb::AuthUserGetResponse,
    ) -> anyhow::Result<()> {
        let roles: Vec<_> = user.roles.iter().map(|role| visible(role)).collect();
        match self.format {
            Format::Simple => {
                writeln!(self.out, "User: {}", visible(name))?;
                writeln!(self.out, "Roles: {}", roles.join(" "))?;
            }
            Format::Fields => {
                fields::header(&mut self.out, user.header.as_ref())?;
                fields::field(&mut self.out, "User", quoted(name.as_bytes()))?;
                for role in &user.roles {
                    fields::field(&mut self.out, "Roles", quoted(role.as_bytes()))?;
                }
            }
            Format::Json => {
                let header = Header::of(user.header.as_ref());
                self.json(&Names { header, users: &[], roles: &user.roles })?;
            }
            Format::Table => {
                let row = [visible(name).into_owned(), roles.join(", ")];
                table::draw(&mut self.out, ["USER", "ROLES"], &[row])?;
            }
        }
        Ok(())
    }

    /// Writes the user that roles of follow.
    pub(crate) fn user_heading(&mut self, name: &str) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => Ok(writeln!(self.out, "User: {}", visible(name))?),
            Format::Fields | Format::Json | Format::Table => Ok(()),
        }
    }

    /// Writes one of the roles of a user.
    pub(crate) fn role_of_user(
        &mut self,
        name: &str,
        role: &pb::AuthRoleGetResponse,
    ) -> anyhow::Result<()> {
        if self.format == Format::Simple {
            writeln!(self.out)?;
        }
        self.role(name, role)
    }

    /// Writes what a role allows.
    pub(crate) fn role(
        &mut self,
        name: &str,
        role: &pb::AuthRoleGetResponse,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                writeln!(self.out, "Role {}", visible(name))?;
                for (heading, types) in [
                    ("KV Read:", &[Type::Read, Type::Readwrite][..]),
                    ("KV Write:", &[Type::Write, Type::Readwrite]),
                    ("Observe:", &[Type::Observe]),
                    ("Campaign:", &[Type::Campaign]),
                    ("Rule:", &[Type::Rule]),
                ] {
                    let is_one = |one: &&authpb::Permission| {
                        types.iter().any(|known| one.perm_type == *known as i32)
                    };
                    let mut some = role.perm.iter().filter(is_one).peekable();
                    // etcdctl always has the first two, and knows of no others.
                    if heading.starts_with("KV") || some.peek().is_some() {
                        writeln!(self.out, "{heading}")?;
                    }
                    for permission in some {
                        writeln!(self.out, "\t{}", keys(permission))?;
                    }
                }
            }
            Format::Fields => {
                fields::header(&mut self.out, role.header.as_ref())?;
                for permission in &role.perm {
                    // Two spaces, as etcdctl writes it.
                    let name = right(permission);
                    fields::field(&mut self.out, "PermType", format_args!(" {name}"))?;
                    fields::field(&mut self.out, "Key", quoted(&permission.key))?;
                    fields::field(&mut self.out, "RangeEnd", quoted(&permission.range_end))?;
                }
            }
            Format::Json => {
                let permission = |one: &authpb::Permission| Permission {
                    perm_type: one.perm_type,
                    key: in_base64(&one.key),
                    range_end: in_base64(&one.range_end),
                };
                let perm = role.perm.iter().map(permission).collect();
                self.json(&Role { header: Header::of(role.header.as_ref()), perm })?;
            }
            Format::Table => {
                let row = |one: &authpb::Permission| [right(one).to_lowercase(), keys(one)];
                let rows: Vec<_> = role.perm.iter().map(row).collect();
                table::draw(&mut self.out, ["PERMISSION", "KEYS"], &rows)?;
            }
        }
        Ok(())
    }
}

/// The name of a right; the number of one that only a newer server knows.
fn right(permission: &authpb::Permission) -> String {
    let known = Type::try_from(permission.perm_type);
    known.map_or_else(|_| permission.perm_type.to_string(), |known| known.as_str_name().to_owned())
}

fn text(key: &[u8]) -> String {
    visible(&String::from_utf8_lossy(key)).into_owned()
}

/// As etcdctl writes it, down to the bracket that it leaves open.
fn range(key: &[u8], end: &[u8]) -> String {
    match end {
        [0] => format!("[{}, <open ended>", text(key)),
        end => format!("[{}, {})", text(key), text(end)),
    }
}

fn keys(permission: &authpb::Permission) -> String {
    let (key, end) = (&permission.key, &permission.range_end);
    if end.is_empty() {
        return text(key);
    }
    let of_prefix = tenure::api::span::after_prefix(key);
    match !key.is_empty() && of_prefix.as_ref().map_or(&b"\0"[..], |end| end) == &end[..] {
        true => format!("{} (prefix {})", range(key, end), text(key)),
        false => range(key, end),
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::{header, written};
    use super::*;

    fn ops() -> pb::AuthRoleGetResponse {
        let permission = |perm_type: Type, key: &'static str, range_end: &'static str| {
            let perm_type = perm_type as i32;
            authpb::Permission { perm_type, key: key.into(), range_end: range_end.into() }
        };
        pb::AuthRoleGetResponse {
            header: header(1),
            perm: vec![
                permission(Type::Readwrite, "a", "b"),
                permission(Type::Read, "foo/", "foo0"),
                permission(Type::Read, "k1", ""),
                permission(Type::Write, "z", "\0"),
            ],
        }
    }

    #[test]
    fn output_of_a_role_is_that_of_etcdctl() {
        let write = |format| written(format, |o| o.role("ops", &ops()));
        assert_eq!(
            write(Format::Simple),
            "Role ops\nKV Read:\n\t[a, b) (prefix a)\n\t[foo/, foo0) (prefix foo/)\n\tk1\n\
             KV Write:\n\t[a, b) (prefix a)\n\t[z, <open ended>\n"
        );
        assert_eq!(
            write(Format::Fields),
            "\"ClusterID\" : 7\n\"MemberID\" : 8\n\"Revision\" : 1\n\"RaftTerm\" : 2\n\
             \"PermType\" :  READWRITE\n\"Key\" : \"a\"\n\"RangeEnd\" : \"b\"\n\
             \"PermType\" :  READ\n\"Key\" : \"foo/\"\n\"RangeEnd\" : \"foo0\"\n\
             \"PermType\" :  READ\n\"Key\" : \"k1\"\n\"RangeEnd\" : \"\"\n\
             \"PermType\" :  WRITE\n\"Key\" : \"z\"\n\"RangeEnd\" : \"\\x00\"\n"
        );
        assert_eq!(
            write(Format::Json),
            "{\"header\":{\"cluster_id\":7,\"member_id\":8,\"revision\":1,\"raft_term\":2},\"perm\":[\
             {\"permType\":2,\"key\":\"YQ==\",\"range_end\":\"Yg==\"},\
             {\"key\":\"Zm9vLw==\",\"range_end\":\"Zm9vMA==\"},{\"key\":\"azE=\"},\
             {\"permType\":1,\"key\":\"eg==\",\"range_end\":\"AA==\"}]}\n"
        );
        let table = write(Format::Table);
        assert!(
            table.contains("|  readwrite | ") && table.contains(" [a, b) (prefix a) |"),
            "{table}"
        );
    }

    #[test]
    fn output_of_users_and_changes_is_that_of_etcdctl() {
        let user =
            pb::AuthUserGetResponse { header: header(1), roles: vec!["ops".into(), "r".into()] };
        let simple = written(Format::Simple, |o| o.user("ann", &user));
        assert_eq!(simple, "User: ann\nRoles: ops r\n");
        let status = pb::AuthStatusResponse { header: header(1), enabled: true, auth_revision: 88 };
        let simple = written(Format::Simple, |o| o.auth_status(&status));
        assert_eq!(simple, "Authentication Status: true\nAuthRevision: 88\n");
        let json = written(Format::Json, |o| o.auth_status(&status));
        assert!(json.ends_with("},\"enabled\":true,\"authRevision\":88}\n"), "{json}");
        let revoked = |key: &str, end: &str| {
            written(Format::Simple, |o| {
                o.permission_revoked("ops", key.as_bytes(), end.as_bytes(), None)
            })
        };
        assert_eq!(revoked("a", "b"), "Permission of range [a, b) is revoked from role ops\n");
        assert_eq!(
            revoked("z", "\0"),
            "Permission of range [z, <open ended> is revoked from role ops\n"
        );
        assert_eq!(revoked("k1", ""), "Permission of key k1 is revoked from role ops\n");
        let list = pb::AuthUserListResponse { header: header(1), users: vec!["ann".into()] };
        let json = written(Format::Json, |o| o.user_list(&list));
        assert!(json.ends_with("},\"users\":[\"ann\"]}\n"), "{json}");
    }
}
