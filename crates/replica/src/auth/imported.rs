//! Users and roles that come from elsewhere, all at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use super::{Auth, FIRST_REVISION, Permission, Role, Secret, User};
use crate::{command::COMMAND_VERSION, state::State};

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

impl State {
    /// The same with users and roles from elsewhere. If there are any, the cluster begins with all that this build knows: a
    /// member that does not judge requests must not come up with it, and what the members say of themselves before they
    /// agree on a version names no principal.
    #[must_use]
    pub fn with_imported(self, auth: Auth) -> State {
        if auth.is_untouched() {
            return self;
        }
        let cluster_version = self.cluster_version.max(COMMAND_VERSION);
        let mut state = State { auth, cluster_version, ..self };
        state.elections_from_keys();
        state
    }
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
