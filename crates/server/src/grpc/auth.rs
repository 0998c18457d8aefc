//! Users and roles: the service. What it asks for is judged and done by the core; here passwords are made and checked, and
//! tokens are given out.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use tenure_api::{
    Failure, Principal,
    wire::{authpb, etcdserverpb as pb},
};
use tenure_replica::{
    AuthRead, AuthReply, Consistency, Operation, Outcome, PasswordCheck, Read, Reply,
    auth::{Need, Permission, PermissionKind, Secret},
    command::{AuthCommand, Command},
};
use tonic::{Response, Status};
use tracing::warn;

use super::{
    reply::{refuse, unexpected},
    stubs,
};
use crate::{
    admission::Admitted,
    auth::{Passwords, TokenKind, token_checksum, token_letters},
    node::NodeHandle,
};

/// How often a login is tried whose password changes while it is checked.
const LOGIN_TRIES: usize = 3;

pub(super) struct Auth {
    node: NodeHandle,
    passwords: Passwords,
    tokens: TokenKind,
}

type Answered<T> = Result<Response<T>, Status>;
type Header = Option<pb::ResponseHeader>;

impl Auth {
    pub(super) fn new(node: NodeHandle, passwords: Passwords, tokens: TokenKind) -> Auth {
        Auth { node, passwords, tokens }
    }

    async fn change(&self, by: &Admitted, command: AuthCommand) -> Result<Header, Status> {
        self.node.users_ready().await.map_err(refuse)?;
        let request = Operation::Write(Command::Auth(command));
        Ok(self.node.open(self.node.ask(by, request).await)?.0)
    }

    async fn read(&self, by: &Admitted, read: AuthRead) -> Result<(Header, AuthReply), Status> {
        let read = Operation::Read(Read::Auth(read), Consistency::Linearizable);
        match self.node.open(self.node.ask(by, read).await)? {
            (header, Reply::Auth(reply)) => Ok((header, reply)),
            (_, other) => Err(unexpected(&other)),
        }
    }

    async fn names(&self, by: &Admitted, read: AuthRead) -> Result<(Header, Vec<String>), Status> {
        match self.read(by, read).await? {
            (header, AuthReply::Names(names)) => {
                Ok((header, names.iter().map(ToString::to_string).collect()))
            }
            (_, other) => Err(unexpected(&Reply::Auth(other))),
        }
    }

    /// Before bcrypt is put to work: not for those that may not ask for it.
    async fn judge(&self, by: &Admitted) -> Result<(), Status> {
        let read = Operation::Read(Read::Judged(Need::Root), Consistency::Linearizable);
        self.node.open(self.node.ask(by, read).await).map(|_| ())
    }

    /// Checks a password; answers since when the user has it. Failures are those that etcd answers with; the log says more.
    async fn check(&self, name: &Arc<str>, password: String) -> Result<u64, Status> {
        let itself = Admitted::in_process(Principal::System);
        let check = match self.read(&itself, AuthRead::Password(name.clone())).await? {
            (_, AuthReply::Password(check)) => check,
            (_, other) => return Err(unexpected(&Reply::Auth(other))),
        };
        let (kept, since) = match check {
            PasswordCheck::NoPassword => {
                // It takes as long as any other, so that attempts are bounded like any other.
                self.passwords.check(password, None).await.map_err(refuse)?;
                warn!(user = ?name, "login refused: this user has no password");
                return Err(refuse(Failure::NoPasswordUser));
            }
            PasswordCheck::NoUser => (None, None),
            PasswordCheck::Password(kept, since) => (Some(kept), Some(since)),
        };
        let fits = self.passwords.check(password, kept).await.map_err(refuse)?;
        match since {
            Some(since) if fits => Ok(since),
            since => {
                let reason = if since.is_some() { "wrong password" } else { "no such user" };
                warn!(user = ?name, reason, "login refused");
                Err(refuse(Failure::AuthFailed))
            }
        }
    }

    /// The revision of users and roles that a signed token tells.
    async fn revision(&self) -> Result<(Header, u64), Status> {
        let itself = Admitted::in_process(Principal::System);
        match self.read(&itself, AuthRead::Status).await? {
            (header, AuthReply::Status(_, revision)) => Ok((header, revision)),
            (_, other) => Err(unexpected(&Reply::Auth(other))),
        }
    }

    /// Gives out a token that all members know.
    async fn log_in(
        &self,
        by: &Admitted,
        user: &Arc<str>,
        since: u64,
    ) -> Result<(Header, String), Status> {
        let no_chance = || Status::unavailable("tenure: the machine gives no random numbers");
        let letters = token_letters().ok_or_else(no_chance)?;
        let token = Bytes::copy_from_slice(&token_checksum(&letters)).into();
        let command = AuthCommand::LogIn { user: user.clone(), token, since };
        let request = Operation::Write(Command::Auth(command));
        let itself = Admitted::in_process(Principal::System).over(by.link().clone());
        match self.node.open(self.node.ask(&itself, request).await)? {
            (header, Reply::Wrote(Outcome::LoggedIn(index))) => {
                Ok((header, format!("{letters}.{index}")))
            }
            (_, other) => Err(unexpected(&other)),
        }
    }
}

fn is(status: &Status, failure: Failure) -> bool {
    status.message() == failure.text()
}

fn permission(permission: authpb::Permission) -> Permission {
    Permission {
        kind: PermissionKind::from_number(permission.perm_type),
        key: permission.key,
        range_end: permission.range_end,
    }
}

#[tonic::async_trait]
impl stubs::auth_server::Auth for Auth {
    async fn auth_status(
        &self,
        request: tonic::Request<pb::AuthStatusRequest>,
    ) -> Answered<pb::AuthStatusResponse> {
        let (by, _) = self.node.admit(request)?;
        match self.read(&by, AuthRead::Status).await? {
            (header, AuthReply::Status(enabled, auth_revision)) => {
                Ok(Response::new(pb::AuthStatusResponse { header, enabled, auth_revision }))
            }
            (_, other) => Err(unexpected(&Reply::Auth(other))),
        }
    }

    async fn authenticate(
        &self,
        request: tonic::Request<pb::AuthenticateRequest>,
    ) -> Answered<pb::AuthenticateResponse> {
        let (by, request) = self.node.admit(request)?;
        let name: Arc<str> = request.name.into();
        let mut tries = 0;
        loop {
            tries += 1;
            // Before the password is looked at: should that change meanwhile, the claims do not count.
            let as_of = self.revision().await?;
            let since = match self.check(&name, request.password.clone()).await {
                Ok(since) => since,
                Err(status) => {
                    self.node.audit.login_failed(&name, by.link().from(), status.message());
                    return Err(status);
                }
            };
            let logged_in = match &self.tokens {
                TokenKind::Simple => self.log_in(&by, &name, since).await,
                TokenKind::Jwt(jwt) => {
                    let (header, revision) = &as_of;
                    let token = jwt.sign(&name, *revision).map_err(refuse);
                    token.map(|token| (*header, token))
                }
                TokenKind::Nothing => Err(refuse(Failure::AuthFailed)),
            };
            match logged_in {
                Err(status) if is(&status, Failure::OldAuthRevision) && tries < LOGIN_TRIES => {}
                Err(status) => return Err(status),
                Ok((header, token)) => {
                    return Ok(Response::new(pb::AuthenticateResponse { header, token }));
                }
            }
        }
    }

    async fn auth_enable(
        &self,
        request: tonic::Request<pb::AuthEnableRequest>,
    ) -> Answered<pb::AuthEnableResponse> {
        let (by, _) = self.node.admit(request)?;
        let header = self.change(&by, AuthCommand::Enable).await?;
        Ok(Response::new(pb::AuthEnableResponse { header }))
    }

    async fn auth_disable(
        &self,
        request: tonic::Request<pb::AuthDisableRequest>,
    ) -> Answered<pb::AuthDisableResponse> {
        let (by, _) = self.node.admit(request)?;
        let header = self.change(&by, AuthCommand::Disable).await?;
        Ok(Response::new(pb::AuthDisableResponse { header }))
    }

    async fn user_add(
        &self,
        request: tonic::Request<pb::AuthUserAddRequest>,
    ) -> Answered<pb::AuthUserAddResponse> {
        let (by, request) = self.node.admit(request)?;
        self.judge(&by).await?;
        let has_password = !request.options.unwrap_or_default().no_password;
        let password = match has_password && !request.name.is_empty() {
            true => Some(self.passwords.make(request.password).await.map_err(refuse)?),
            false => None,
        };
        let command = AuthCommand::UserAdd { name: request.name.into(), password };
        let header = self.change(&by, command).await?;
        Ok(Response::new(pb::AuthUserAddResponse { header }))
    }

    async fn user_get(
        &self,
        request: tonic::Request<pb::AuthUserGetRequest>,
    ) -> Answered<pb::AuthUserGetResponse> {
        let (by, request) = self.node.admit(request)?;
        let (header, roles) = self.names(&by, AuthRead::User(request.name.into())).await?;
        Ok(Response::new(pb::AuthUserGetResponse { header, roles }))
    }

    async fn user_list(
        &self,
        request: tonic::Request<pb::AuthUserListRequest>,
    ) -> Answered<pb::AuthUserListResponse> {
        let (by, _) = self.node.admit(request)?;
        let (header, users) = self.names(&by, AuthRead::Users).await?;
        Ok(Response::new(pb::AuthUserListResponse { header, users }))
    }

    async fn user_delete(
        &self,
        request: tonic::Request<pb::AuthUserDeleteRequest>,
    ) -> Answered<pb::AuthUserDeleteResponse> {
        let (by, request) = self.node.admit(request)?;
        let header = self.change(&by, AuthCommand::UserDelete(request.name.into())).await?;
        Ok(Response::new(pb::AuthUserDeleteResponse { header }))
    }

    async fn user_change_password(
        &self,
        request: tonic::Request<pb::AuthUserChangePasswordRequest>,
    ) -> Answered<pb::AuthUserChangePasswordResponse> {
        let (by, request) = self.node.admit(request)?;
        self.judge(&by).await?;
        let password: Secret = if request.password.is_empty() {
            // Made elsewhere, as etcd's members send it to each other.
            let made = BASE64_STANDARD.decode(&request.hashed_password);
            Bytes::from(made.map_err(|_| refuse(Failure::NoPasswordUser))?).into()
        } else {
            self.passwords.make(request.password).await.map_err(refuse)?
        };
        let command = AuthCommand::UserPassword { name: request.name.into(), password };
        let header = self.change(&by, command).await?;
        Ok(Response::new(pb::AuthUserChangePasswordResponse { header }))
    }

    async fn user_grant_role(
        &self,
        request: tonic::Request<pb::AuthUserGrantRoleRequest>,
    ) -> Answered<pb::AuthUserGrantRoleResponse> {
        let (by, request) = self.node.admit(request)?;
        let (user, role) = (request.user.into(), request.role.into());
        let header = self.change(&by, AuthCommand::UserGrant { user, role }).await?;
        Ok(Response::new(pb::AuthUserGrantRoleResponse { header }))
    }

    async fn user_revoke_role(
        &self,
        request: tonic::Request<pb::AuthUserRevokeRoleRequest>,
    ) -> Answered<pb::AuthUserRevokeRoleResponse> {
        let (by, request) = self.node.admit(request)?;
        let (user, role) = (request.name.into(), request.role.into());
        let header = self.change(&by, AuthCommand::UserRevoke { user, role }).await?;
        Ok(Response::new(pb::AuthUserRevokeRoleResponse { header }))
    }

    async fn role_add(
        &self,
        request: tonic::Request<pb::AuthRoleAddRequest>,
    ) -> Answered<pb::AuthRoleAddResponse> {
        let (by, request) = self.node.admit(request)?;
        let header = self.change(&by, AuthCommand::RoleAdd(request.name.into())).await?;
        Ok(Response::new(pb::AuthRoleAddResponse { header }))
    }

    async fn role_get(
        &self,
        request: tonic::Request<pb::AuthRoleGetRequest>,
    ) -> Answered<pb::AuthRoleGetResponse> {
        let (by, request) = self.node.admit(request)?;
        let permissions = match self.read(&by, AuthRead::Role(request.role.into())).await? {
            (header, AuthReply::Permissions(permissions)) => (header, permissions),
            (_, other) => return Err(unexpected(&Reply::Auth(other))),
        };
        let (header, permissions) = permissions;
        let perm = permissions.into_iter().map(|one| authpb::Permission {
            perm_type: one.kind.number(),
            key: one.key,
            range_end: one.range_end,
        });
        Ok(Response::new(pb::AuthRoleGetResponse { header, perm: perm.collect() }))
    }

    async fn role_list(
        &self,
        request: tonic::Request<pb::AuthRoleListRequest>,
    ) -> Answered<pb::AuthRoleListResponse> {
        let (by, _) = self.node.admit(request)?;
        let (header, roles) = self.names(&by, AuthRead::Roles).await?;
        Ok(Response::new(pb::AuthRoleListResponse { header, roles }))
    }

    async fn role_delete(
        &self,
        request: tonic::Request<pb::AuthRoleDeleteRequest>,
    ) -> Answered<pb::AuthRoleDeleteResponse> {
        let (by, request) = self.node.admit(request)?;
        let header = self.change(&by, AuthCommand::RoleDelete(request.role.into())).await?;
        Ok(Response::new(pb::AuthRoleDeleteResponse { header }))
    }

    async fn role_grant_permission(
        &self,
        request: tonic::Request<pb::AuthRoleGrantPermissionRequest>,
    ) -> Answered<pb::AuthRoleGrantPermissionResponse> {
        let (by, request) = self.node.admit(request)?;
        let (role, permission) = (request.name.into(), request.perm.map(permission));
        let header = self.change(&by, AuthCommand::RoleGrant { role, permission }).await?;
        Ok(Response::new(pb::AuthRoleGrantPermissionResponse { header }))
    }

    async fn role_revoke_permission(
        &self,
        request: tonic::Request<pb::AuthRoleRevokePermissionRequest>,
    ) -> Answered<pb::AuthRoleRevokePermissionResponse> {
        let (by, request) = self.node.admit(request)?;
        let (role, key, range_end) = (request.role.into(), request.key, request.range_end);
        let header = self.change(&by, AuthCommand::RoleRevoke { role, key, range_end }).await?;
        Ok(Response::new(pb::AuthRoleRevokePermissionResponse { header }))
    }
}
