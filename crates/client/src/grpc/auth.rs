//! Users, roles, and whether they count.

use tenure_api::wire::{authpb, etcdserverpb as pb};

use super::need::NeededRight;
use super::retry::Kind;
use super::stubs::AuthClient;
use super::{Client, ClientError, Password};

/// The service for users and roles.
#[derive(Debug)]
pub struct Auth<'a> {
    client: &'a Client,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident: $method:ident($request:ident) -> $response:ident, $kind:ident;)*) => {
        impl Auth<'_> {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// See [`ClientError`].
                pub async fn $name(&self, request: pb::$request) -> Result<pb::$response, ClientError> {
                    let send = async |channel, request| AuthClient::new(channel).$method(request).await;
                    self.client.call_for(NeededRight::Root, Kind::$kind, request, send).await
                }
            )*
        }
    };
}

calls! {
    /// Lets users and roles count from now on. Asked for again, it changes nothing.
    enable: auth_enable(AuthEnableRequest) -> AuthEnableResponse, Repeatable;
    /// Lets them count no more. Asked for again, it changes nothing.
    disable: auth_disable(AuthDisableRequest) -> AuthDisableResponse, Repeatable;
    /// Whether they count, and the revision of the last change to them.
    status: auth_status(AuthStatusRequest) -> AuthStatusResponse, Repeatable;
    /// All users.
    user_list: user_list(AuthUserListRequest) -> AuthUserListResponse, Repeatable;
    /// The roles of a user.
    user_get: user_get(AuthUserGetRequest) -> AuthUserGetResponse, Repeatable;
    /// Removes a user; its tokens are not accepted any more.
    user_delete: user_delete(AuthUserDeleteRequest) -> AuthUserDeleteResponse, Mutation;
    /// Gives a user a role. Asked for again, it changes nothing.
    user_grant_role: user_grant_role(AuthUserGrantRoleRequest) -> AuthUserGrantRoleResponse, Repeatable;
    /// Takes a role from a user.
    user_revoke_role: user_revoke_role(AuthUserRevokeRoleRequest) -> AuthUserRevokeRoleResponse, Mutation;
    /// Adds a role that allows nothing yet.
    role_add: role_add(AuthRoleAddRequest) -> AuthRoleAddResponse, Mutation;
    /// All roles.
    role_list: role_list(AuthRoleListRequest) -> AuthRoleListResponse, Repeatable;
    /// What a role allows.
    role_get: role_get(AuthRoleGetRequest) -> AuthRoleGetResponse, Repeatable;
    /// Removes a role, from all users too.
    role_delete: role_delete(AuthRoleDeleteRequest) -> AuthRoleDeleteResponse, Mutation;
    /// Lets a role read or write a range of keys.
    role_grant: role_grant_permission(AuthRoleGrantPermissionRequest) -> AuthRoleGrantPermissionResponse, Repeatable;
    /// Takes that back.
    role_revoke: role_revoke_permission(AuthRoleRevokePermissionRequest) -> AuthRoleRevokePermissionResponse, Mutation;
}

impl<'a> Auth<'a> {
    pub(super) fn new(client: &'a Client) -> Auth<'a> {
        Auth { client }
    }

    /// Adds a user with a password, or one that proves itself only by its certificate.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn user_add(
        &self,
        name: &str,
        password: Option<&Password>,
    ) -> Result<pb::AuthUserAddResponse, ClientError> {
        let request = pb::AuthUserAddRequest {
            name: name.to_owned(),
            password: password.map(|password| password.reveal().to_owned()).unwrap_or_default(),
            options: Some(authpb::UserAddOptions { no_password: password.is_none() }),
            hashed_password: String::new(),
        };
        let send = async |channel, request| AuthClient::new(channel).user_add(request).await;
        self.client.call_for(NeededRight::Root, Kind::Mutation, request, send).await
    }

    /// Gives a user another password; its tokens are not accepted any more.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn user_change_password(
        &self,
        name: &str,
        password: &Password,
    ) -> Result<pb::AuthUserChangePasswordResponse, ClientError> {
        let request = pb::AuthUserChangePasswordRequest {
            name: name.to_owned(),
            password: password.reveal().to_owned(),
            hashed_password: String::new(),
        };
        let send =
            async |channel, request| AuthClient::new(channel).user_change_password(request).await;
        self.client.call_for(NeededRight::Root, Kind::Mutation, request, send).await
    }
}
