//! What changes users and roles.

use std::sync::{Arc, OnceLock};

use tenure_api::Failure;

use super::{Auth, ROOT, Role, Secret, User};
use crate::{command::AuthCommand, log::LogIndex};

/// What a change means for those that are logged in. Each member keeps their tokens by itself, and forgets them when it stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthEvent {
    /// A user logged in.
    LoggedIn {
        /// The user.
        user: Arc<str>,
        /// The checksum of its token.
        token: Secret,
        /// The entry of the log, which is part of the token.
        index: LogIndex,
        /// The revision of the user's password.
        since: u64,
    },
    /// All tokens of a user are void.
    TokensEnded(Arc<str>),
    /// All tokens are void.
    AllTokensEnded,
    /// Something else changed.
    Changed,
}

impl Auth {
    /// Carries out a command that is permitted.
    pub(crate) fn change(
        &mut self,
        command: &AuthCommand,
        at: LogIndex,
    ) -> Result<Option<AuthEvent>, Failure> {
        match command {
            AuthCommand::Enable => return self.enable(),
            AuthCommand::Disable => {
                if !self.is_enabled {
                    return Ok(None);
                }
                self.is_enabled = false;
                self.revision += 1;
                return Ok(Some(AuthEvent::AllTokensEnded));
            }
            AuthCommand::LogIn { user, token, since } => {
                return self.log_in(user, token, *since, at).map(Some);
            }
            AuthCommand::UserAdd { name, password } => self.add_user(name, password.clone())?,
            AuthCommand::UserDelete(name) => {
                if self.is_enabled && &**name == ROOT {
                    return Err(Failure::InvalidAuthManagement);
                }
                self.users.remove(name).ok_or(Failure::UserNotFound)?;
                self.revision += 1;
                return Ok(Some(AuthEvent::TokensEnded(name.clone())));
            }
            AuthCommand::UserPassword { name, password } => {
                let revision = self.revision + 1;
                let user = self.user_mut(name)?;
                if user.password.is_some() {
                    user.password = Some(password.clone());
                }
                user.secret_since = revision;
                self.revision = revision;
                return Ok(Some(AuthEvent::TokensEnded(name.clone())));
            }
            AuthCommand::UserGrant { user, role } => return self.grant(user, role),
            AuthCommand::UserRevoke { user, role } => self.revoke(user, role)?,
            AuthCommand::RoleAdd(name) => {
                if name.is_empty() {
                    return Err(Failure::RoleEmpty);
                }
                if self.roles.contains_key(name) {
                    return Err(Failure::RoleExists);
                }
                self.roles.insert(name.clone(), Arc::default());
                self.revision += 1;
                // What was imported may have users with a role that there was not.
                self.concern_all_with(name, false);
            }
            AuthCommand::RoleDelete(name) => {
                if self.is_enabled && &**name == ROOT {
                    return Err(Failure::InvalidAuthManagement);
                }
                self.roles.remove(name).ok_or(Failure::RoleNotFound)?;
                self.revision += 1;
                self.concern_all_with(name, true);
            }
            AuthCommand::RoleGrant { role, permission } => {
                let Some(permission) = permission else { return Err(Failure::PermissionNotGiven) };
                if !permission.is_grantable() {
                    return Err(Failure::InvalidAuthManagement);
                }
                let key = (permission.key.clone(), permission.range_end.clone());
                self.role_mut(role)?.permissions.insert(key, permission.kind);
                self.revision += 1;
                self.concern_all_with(role, false);
            }
            AuthCommand::RoleRevoke { role, key, range_end } => {
                let span = (key.clone(), range_end.clone());
                let permissions = &mut self.role_mut(role)?.permissions;
                permissions.remove(&span).ok_or(Failure::PermissionNotGranted)?;
                self.revision += 1;
                self.concern_all_with(role, false);
            }
            AuthCommand::Recover { password } => {
                self.recover(password);
                return Ok(Some(AuthEvent::AllTokensEnded));
            }
        }
        Ok(Some(AuthEvent::Changed))
    }

    fn enable(&mut self) -> Result<Option<AuthEvent>, Failure> {
        if self.is_enabled {
            return Ok(None);
        }
        let root = self.user(ROOT).ok_or(Failure::RootUserMissing)?;
        if !root.roles.contains(ROOT) {
            return Err(Failure::RootRoleMissing);
        }
        self.is_enabled = true;
        Ok(Some(AuthEvent::Changed))
    }

    /// The password was checked outside the log, at the revision `since`. If it changed since, the check is void.
    fn log_in(
        &self,
        name: &Arc<str>,
        token: &Secret,
        since: u64,
        index: LogIndex,
    ) -> Result<AuthEvent, Failure> {
        if !self.is_enabled {
            return Err(Failure::AuthNotEnabled);
        }
        let user = self.user(name).ok_or(Failure::AuthFailed)?;
        if user.secret_since != since {
            return Err(Failure::OldAuthRevision);
        }
        Ok(AuthEvent::LoggedIn { user: name.clone(), token: token.clone(), index, since })
    }

    fn add_user(&mut self, name: &Arc<str>, password: Option<Secret>) -> Result<(), Failure> {
        if name.is_empty() {
            return Err(Failure::UserEmpty);
        }
        if self.users.contains_key(name) {
            return Err(Failure::UserExists);
        }
        self.revision += 1;
        let user = User {
            password,
            roles: Default::default(),
            secret_since: self.revision,
            rights_since: self.revision,
            rights: OnceLock::new(),
        };
        self.users.insert(name.clone(), Arc::new(user));
        Ok(())
    }

    fn grant(&mut self, name: &str, role: &Arc<str>) -> Result<Option<AuthEvent>, Failure> {
        let user = self.user(name).ok_or(Failure::UserNotFound)?;
        if &**role != ROOT && !self.roles.contains_key(role) {
            return Err(Failure::RoleNotFound);
        }
        if user.roles.contains(role) {
            return Ok(None);
        }
        self.revision += 1;
        let revision = self.revision;
        let user = self.user_mut(name)?;
        user.roles.insert(role.clone());
        user.concern(revision);
        Ok(Some(AuthEvent::Changed))
    }

    fn revoke(&mut self, name: &str, role: &str) -> Result<(), Failure> {
        if self.is_enabled && name == ROOT && role == ROOT {
            return Err(Failure::InvalidAuthManagement);
        }
        let revision = self.revision + 1;
        let user = self.user(name).ok_or(Failure::UserNotFound)?;
        if !user.roles.contains(role) {
            return Err(Failure::RoleNotGranted);
        }
        let user = self.user_mut(name)?;
        user.roles.remove(role);
        user.concern(revision);
        self.revision = revision;
        Ok(())
    }

    /// Root is there again, with this password and its role. What else there is stays.
    fn recover(&mut self, password: &Secret) {
        self.revision += 1;
        let revision = self.revision;
        let root: Arc<str> = ROOT.into();
        let mut user = self.user(ROOT).cloned().unwrap_or_else(|| User {
            password: None,
            roles: Default::default(),
            secret_since: revision,
            rights_since: revision,
            rights: OnceLock::new(),
        });
        user.password = Some(password.clone());
        user.secret_since = revision;
        user.roles.insert(root.clone());
        user.concern(revision);
        self.users.insert(root, Arc::new(user));
    }

    fn user_mut(&mut self, name: &str) -> Result<&mut User, Failure> {
        self.users.get_mut(name).map(Arc::make_mut).ok_or(Failure::UserNotFound)
    }

    fn role_mut(&mut self, name: &str) -> Result<&mut Role, Failure> {
        self.roles.get_mut(name).map(Arc::make_mut).ok_or(Failure::RoleNotFound)
    }

    /// A role became another one, or is no more: so did what its users may do.
    fn concern_all_with(&mut self, role: &str, is_gone: bool) {
        let names = self.users.iter().filter(|(_, user)| user.roles.contains(role));
        let names: Vec<Arc<str>> = names.map(|(name, _)| name.clone()).collect();
        let revision = self.revision;
        for name in names {
            if let Ok(user) = self.user_mut(&name) {
                if is_gone {
                    user.roles.remove(role);
                }
                user.concern(revision);
            }
        }
    }
}

impl User {
    /// What it may do changed at this revision.
    fn concern(&mut self, revision: u64) {
        self.rights_since = revision;
        if !canary!(RevokedRightsStay) {
            self.rights = OnceLock::new();
        }
    }
}
