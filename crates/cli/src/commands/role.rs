//! Shows and changes roles.

use std::ffi::OsString;

use clap::{Subcommand, ValueEnum};
use tenure::api::Span;
use tenure::api::wire::authpb::permission::Type;
use tenure::api::wire::{authpb, etcdserverpb as pb};
use tenure::grpc::{Client, ClientError, Code};

use crate::args::{Settings, SpanArgs};
use crate::exit::Exit;
use crate::output::Output;

/// What to do about roles.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a role, which allows nothing yet
    Add {
        /// The role
        name: String,
    },
    /// Remove a role, from all users too
    Delete {
        /// The role
        name: String,
    },
    /// Show what a role allows
    Get {
        /// The role
        name: String,
    },
    /// Show all roles
    List,
    /// Let a role read or write keys, or observe, campaign in or rule elections
    GrantPermission {
        /// The role
        name: String,
        /// What it may do
        #[arg(value_enum, ignore_case = true)]
        permission: Permission,
        #[command(flatten)]
        keys: SpanArgs,
    },
    /// Take keys, or elections, from a role
    RevokePermission {
        /// The role
        name: String,
        #[command(flatten)]
        keys: SpanArgs,
    },
}

/// What a role may do. The last three are about elections and locks: KEY is their name, or what their names begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Permission {
    /// Read and watch keys
    Read,
    /// Write and delete keys
    Write,
    /// Both
    Readwrite,
    /// See who leads and who waits
    Observe,
    /// Be a candidate, and observe
    Campaign,
    /// Transfer, evict, freeze and resume, and observe
    Rule,
}

impl Permission {
    /// As it is granted. A real etcd knows rights to keys only: there an election is its candidates' keys.
    fn granted(self, knows_elections: bool) -> Type {
        match self {
            Permission::Read => Type::Read,
            Permission::Write => Type::Write,
            Permission::Readwrite => Type::Readwrite,
            Permission::Observe if knows_elections => Type::Observe,
            Permission::Campaign if knows_elections => Type::Campaign,
            Permission::Rule if knows_elections => Type::Rule,
            Permission::Observe => Type::Read,
            Permission::Campaign | Permission::Rule => Type::Readwrite,
        }
    }

    fn is_about_elections(self) -> bool {
        matches!(self, Permission::Observe | Permission::Campaign | Permission::Rule)
    }
}

/// Does it.
pub(crate) async fn run(command: Command, settings: Settings) -> anyhow::Result<Exit> {
    let client = settings.client();
    let auth = client.auth();
    let mut output = Output::stdout(&settings);
    match command {
        Command::Add { name } => {
            let added = auth.role_add(pb::AuthRoleAddRequest { name: name.clone() }).await?;
            output.auth_changed(&format!("Role {name} created"), added.header.as_ref())?;
        }
        Command::Delete { name } => {
            let request = pb::AuthRoleDeleteRequest { role: name.clone() };
            let deleted = auth.role_delete(request).await?;
            output.auth_changed(&format!("Role {name} deleted"), deleted.header.as_ref())?;
        }
        Command::Get { name } => {
            let role = auth.role_get(pb::AuthRoleGetRequest { role: name.clone() }).await?;
            output.role(&name, &role)?;
        }
        Command::List => output.role_list(&auth.role_list(pb::AuthRoleListRequest {}).await?)?,
        Command::GrantPermission { name, permission, keys } => {
            let (key, range_end) = granted(permission, keys)?.to_wire();
            let named = permission.is_about_elections() && knows_elections(&client).await?;
            let perm_type = permission.granted(named) as i32;
            let perm = Some(authpb::Permission { perm_type, key, range_end });
            let request = pb::AuthRoleGrantPermissionRequest { name: name.clone(), perm };
            let granted = auth.role_grant(request).await?;
            output.auth_changed(&format!("Role {name} updated"), granted.header.as_ref())?;
        }
        Command::RevokePermission { name, keys } => {
            let (key, range_end) = keys.span()?.to_wire();
            let request = pb::AuthRoleRevokePermissionRequest {
                role: name.clone(),
                key: key.clone(),
                range_end: range_end.clone(),
            };
            let revoked = auth.role_revoke(request).await?;
            output.permission_revoked(&name, &key, &range_end, revoked.header.as_ref())?;
        }
    }
    output.flush()?;
    Ok(Exit::Done)
}

/// Whether it is tenure.
async fn knows_elections(client: &Client) -> Result<bool, ClientError> {
    match client.cluster().health().await {
        Ok(_) | Err(ClientError::Denied { .. }) => Ok(true),
        Err(ClientError::Refused { code: Code::PermissionDenied, .. }) => Ok(true),
        Err(ClientError::Refused { code: Code::Unimplemented | Code::Unknown, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The keys that a permission is about: those below the name of an election, and of all whose names begin with it.
fn granted(permission: Permission, mut keys: SpanArgs) -> anyhow::Result<Span> {
    if permission.is_about_elections() && keys.range_end.is_none() && !keys.from_key {
        let name = keys.key.to_string_lossy();
        if !keys.prefix && !name.is_empty() && !name.ends_with('/') {
            keys.key = OsString::from(format!("{name}/"));
        }
        keys.prefix = true;
    }
    keys.span()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_permission_on_elections_is_one_on_the_keys_below_their_names() {
        let span = |permission, key: &str, prefix| {
            let keys = SpanArgs { key: key.into(), range_end: None, prefix, from_key: false };
            let (key, end) = granted(permission, keys).unwrap().to_wire();
            (String::from_utf8_lossy(&key).into_owned(), String::from_utf8_lossy(&end).into_owned())
        };
        let pair = |key: &str, end: &str| (key.to_owned(), end.to_owned());
        assert_eq!(span(Permission::Campaign, "nightly", false), pair("nightly/", "nightly0"));
        assert_eq!(span(Permission::Rule, "nightly/", false), pair("nightly/", "nightly0"));
        assert_eq!(span(Permission::Observe, "nig", true), pair("nig", "nih"));
        assert_eq!(span(Permission::Observe, "", false), pair("\0", "\0"));
        assert_eq!(span(Permission::Read, "nightly", false), pair("nightly", ""));
    }
}
