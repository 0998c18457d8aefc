//! Users, roles and permissions: who may do what.
//!
//! All of it is replicated, and changed by `AuthCommand`s only, as everything else is by commands. The rules and their order
//! are etcd's. What a user may do is the union of what its roles may, as sets of keys ([`Rights`]), worked out when it is
//! first asked for after a change; a question costs a search in these sets, however many roles there are.
//!
//! Which right an operation needs is not known here: `state/permit.rs` has that table. Passwords arrive as bcrypt made them,
//! tokens as their checksums; neither can be turned back.

mod change;
mod imported;
mod judge;
mod permission;
mod rights;
mod secret;
mod snapshot;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use imbl::OrdMap;
use tenure_api::Failure;

pub use self::{
    change::AuthEvent,
    imported::ImportedUser,
    judge::Need,
    permission::{Permission, PermissionKind},
    rights::Rights,
    secret::Secret,
};
pub(crate) use self::{judge::Caller, permission::keys_of};
use crate::input::{AuthRead, AuthReply, PasswordCheck};

/// The user that can always be asked for, and the role that may do everything.
pub const ROOT: &str = "root";
/// The revision before the first change.
const FIRST_REVISION: u64 = 1;

/// Users and roles. Cloning is O(1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    is_enabled: bool,
    revision: u64,
    users: OrdMap<Arc<str>, Arc<User>>,
    roles: OrdMap<Arc<str>, Arc<Role>>,
}

/// One user.
#[derive(Clone, Debug)]
pub struct User {
    /// What bcrypt made of its password; none if it proves its name by a certificate only.
    pub password: Option<Secret>,
    /// Its roles.
    pub roles: BTreeSet<Arc<str>>,
    /// The revision at which it was made or got its password.
    pub secret_since: u64,
    /// The revision of the last change that concerned what it may do.
    pub rights_since: u64,
    rights: OnceLock<Rights>,
}

/// The rights that were worked out are no part of it.
impl PartialEq for User {
    fn eq(&self, other: &User) -> bool {
        let key = |user: &User| (user.secret_since, user.rights_since);
        key(self) == key(other) && self.password == other.password && self.roles == other.roles
    }
}

impl Eq for User {}

/// One role: the spans of keys, as (key, range_end) on the wire, and what may be done there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    permissions: BTreeMap<(Bytes, Bytes), PermissionKind>,
}

impl Role {
    /// What it permits, in order of the keys.
    pub fn permissions(&self) -> impl Iterator<Item = Permission> + '_ {
        self.permissions.iter().map(|((key, range_end), kind)| Permission {
            kind: *kind,
            key: key.clone(),
            range_end: range_end.clone(),
        })
    }
}

impl Default for Auth {
    fn default() -> Auth {
        Auth {
            is_enabled: false,
            revision: FIRST_REVISION,
            users: OrdMap::new(),
            roles: OrdMap::new(),
        }
    }
}

impl Auth {
    /// Whether requests are judged.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// How many changes there were, counted as etcd counts them.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The user of this name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name).map(|user| &**user)
    }

    /// All users, in order of their names.
    pub fn users(&self) -> impl Iterator<Item = (&Arc<str>, &User)> {
        self.users.iter().map(|(name, user)| (name, &**user))
    }

    /// The role of this name.
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name).map(|role| &**role)
    }

    /// All roles, in order of their names.
    pub fn roles(&self) -> impl Iterator<Item = (&Arc<str>, &Role)> {
        self.roles.iter().map(|(name, role)| (name, &**role))
    }

    /// Whether nothing was ever changed.
    pub(crate) fn is_untouched(&self) -> bool {
        *self == Auth::default()
    }

    /// What this user may do, worked out once.
    fn rights<'a>(&self, user: &'a User) -> &'a Rights {
        user.rights.get_or_init(|| {
            let roles = user.roles.iter().filter_map(|name| self.role(name));
            Rights::of(user.roles.contains(ROOT), roles.flat_map(Role::permissions))
        })
    }
}

impl Auth {
    /// What was asked of users and roles.
    pub(crate) fn read(&self, read: &AuthRead) -> Result<AuthReply, Failure> {
        Ok(match read {
            AuthRead::Status => AuthReply::Status(self.is_enabled, self.revision),
            AuthRead::User(name) => {
                let user = self.user(name).ok_or(Failure::UserNotFound)?;
                AuthReply::Names(user.roles.iter().cloned().collect())
            }
            AuthRead::Users => AuthReply::Names(self.users.keys().cloned().collect()),
            AuthRead::Role(name) => {
                let role = self.role(name).ok_or(Failure::RoleNotFound)?;
                AuthReply::Permissions(role.permissions().collect())
            }
            AuthRead::Roles => AuthReply::Names(self.roles.keys().cloned().collect()),
            AuthRead::Password(_) if !self.is_enabled => return Err(Failure::AuthNotEnabled),
            AuthRead::Password(name) => AuthReply::Password(match self.user(name) {
                None => PasswordCheck::NoUser,
                Some(User { password: None, .. }) => PasswordCheck::NoPassword,
                Some(User { password: Some(password), secret_since, .. }) => {
                    PasswordCheck::Password(password.clone(), *secret_since)
                }
            }),
        })
    }
}
