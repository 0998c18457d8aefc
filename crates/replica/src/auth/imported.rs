//! Users and roles that come from elsewhere, all at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use super::{Auth, FIRST_REVISION, Permission, Role, Secret, User};

/// A user as it was elsewhere.
#[derive(Clone, Debug)]
pub struct ImportedUser {
    /// Its name.
    pub name: String,
    /// What bcrypt made of its password; none if it proves its name by a certificate only.
    pub password: Option<Secret>,
    /// Its roles.
    pub roles: Vec<String>,
}

impl Auth {
    /// What was elsewhere, as it counts from now on. Roles with permissions; of two for the same keys the first counts, as
    /// in etcd.
    pub fn imported(
        is_enabled: bool,
        revision: u64,
        users: impl IntoIterator<Item = ImportedUser>,
        roles: impl IntoIterator<Item = (String, Vec<Permission>)>,
    ) -> Auth {
        let revision = revision.max(FIRST_REVISION);
        let user = |user: ImportedUser| {
            let made = User {
                password: user.password,
                roles: user.roles.into_iter().map(Into::into).collect(),
                secret_since: revision,
                rights_since: revision,
                rights: OnceLock::new(),
            };
            (Arc::from(user.name), Arc::new(made))
        };
        let role = |(name, listed): (String, Vec<Permission>)| {
            let mut permissions = BTreeMap::new();
            for one in listed {
                permissions.entry((one.key, one.range_end)).or_insert(one.kind);
            }
            (Arc::from(name), Arc::new(Role { permissions }))
        };
        Auth {
            is_enabled,
            revision,
            users: users.into_iter().map(user).collect(),
            roles: roles.into_iter().map(role).collect(),
        }
    }
}
