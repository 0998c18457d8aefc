//! Changes of users and roles, as they are logged.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    auth::{Permission, PermissionKind, Secret},
    codec::{Codec, DecodeError, Reader, put_bytes, put_i64, put_option, put_u64},
};

/// A change of users, roles and permissions. Passwords are what bcrypt made of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthCommand {
    /// From now on requests are judged.
    Enable,
    /// From now on they are not.
    Disable,
    /// A new user.
    UserAdd {
        /// Its name.
        name: Arc<str>,
        /// Its password; none if it proves its name by a certificate only.
        password: Option<Secret>,
    },
    /// A user is deleted.
    UserDelete(Arc<str>),
    /// A user has another password.
    UserPassword {
        /// Which.
        name: Arc<str>,
        /// The password.
        password: Secret,
    },
    /// A user gets a role.
    UserGrant {
        /// The user.
        user: Arc<str>,
        /// The role.
        role: Arc<str>,
    },
    /// A user loses a role.
    UserRevoke {
        /// The user.
        user: Arc<str>,
        /// The role.
        role: Arc<str>,
    },
    /// A new role.
    RoleAdd(Arc<str>),
    /// A role is deleted, and taken from all users.
    RoleDelete(Arc<str>),
    /// A role gets a permission.
    RoleGrant {
        /// The role.
        role: Arc<str>,
        /// The permission, if the request named one.
        permission: Option<Permission>,
    },
    /// A role loses a permission.
    RoleRevoke {
        /// The role.
        role: Arc<str>,
        /// The first key of the permission's span.
        key: Bytes,
        /// Its end.
        range_end: Bytes,
    },
    /// A user has proven its name by its password, and got a token.
    LogIn {
        /// The user.
        user: Arc<str>,
        /// The checksum of the token.
        token: Secret,
        /// The revision of the password that was checked.
        since: u64,
    },
    /// Root gets this password and its role back. An operator has asked for it at the machine of a member.
    Recover {
        /// The password.
        password: Secret,
    },
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn name(input: &mut Reader<'_>) -> Result<Arc<str>, DecodeError> {
    input.text().map(Into::into)
}

impl Codec for AuthCommand {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            AuthCommand::Enable => out.push(1),
            AuthCommand::Disable => out.push(2),
            AuthCommand::UserAdd { name, password } => {
                out.push(3);
                put_text(out, name);
                put_option(out, password.as_ref(), |out, password| password.encode(out));
            }
            AuthCommand::UserDelete(name) => {
                out.push(4);
                put_text(out, name);
            }
            AuthCommand::UserPassword { name, password } => {
                out.push(5);
                put_text(out, name);
                password.encode(out);
            }
            AuthCommand::UserGrant { user, role } => {
                out.push(6);
                put_text(out, user);
                put_text(out, role);
            }
            AuthCommand::UserRevoke { user, role } => {
                out.push(7);
                put_text(out, user);
                put_text(out, role);
            }
            AuthCommand::RoleAdd(name) => {
                out.push(8);
                put_text(out, name);
            }
            AuthCommand::RoleDelete(name) => {
                out.push(9);
                put_text(out, name);
            }
            AuthCommand::RoleGrant { role, permission } => {
                out.push(10);
                put_text(out, role);
                put_option(out, permission.as_ref(), |out, permission| permission.encode(out));
            }
            AuthCommand::RoleRevoke { role, key, range_end } => {
                out.push(11);
                put_text(out, role);
                put_bytes(out, key);
                put_bytes(out, range_end);
            }
            AuthCommand::LogIn { user, token, since } => {
                out.push(12);
                put_text(out, user);
                token.encode(out);
                put_u64(out, *since);
            }
            AuthCommand::Recover { password } => {
                out.push(13);
                password.encode(out);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<AuthCommand, DecodeError> {
        Ok(match input.u8()? {
            1 => AuthCommand::Enable,
            2 => AuthCommand::Disable,
            3 => {
                AuthCommand::UserAdd { name: name(input)?, password: input.option(Secret::decode)? }
            }
            4 => AuthCommand::UserDelete(name(input)?),
            5 => AuthCommand::UserPassword { name: name(input)?, password: Secret::decode(input)? },
            6 => AuthCommand::UserGrant { user: name(input)?, role: name(input)? },
            7 => AuthCommand::UserRevoke { user: name(input)?, role: name(input)? },
            8 => AuthCommand::RoleAdd(name(input)?),
            9 => AuthCommand::RoleDelete(name(input)?),
            10 => AuthCommand::RoleGrant {
                role: name(input)?,
                permission: input.option(Permission::decode)?,
            },
            11 => AuthCommand::RoleRevoke {
                role: name(input)?,
                key: input.bytes()?,
                range_end: input.bytes()?,
            },
            12 => AuthCommand::LogIn {
                user: name(input)?,
                token: Secret::decode(input)?,
                since: input.u64()?,
            },
            13 => AuthCommand::Recover { password: Secret::decode(input)? },
            tag => return Err(DecodeError::UnknownTag { what: "auth command", tag }),
        })
    }
}

impl Codec for Permission {
    fn encode(&self, out: &mut Vec<u8>) {
        put_i64(out, self.kind.number().into());
        put_bytes(out, &self.key);
        put_bytes(out, &self.range_end);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Permission, DecodeError> {
        let number = i32::try_from(input.i64()?).map_err(|_| DecodeError::Overflow)?;
        let kind = PermissionKind::from_number(number);
        Ok(Permission { kind, key: input.bytes()?, range_end: input.bytes()? })
    }
}
