//! Users and roles. There are none yet: every request is served, and what would make one is refused.

use tenure_api::{Failure, wire::etcdserverpb as pb};
use tonic::{Response, Status};

use super::{reply::refuse, stubs};
use crate::node::NodeHandle;

/// etcd counts the changes of its users and roles from here.
const FIRST_REVISION: u64 = 1;

pub(super) struct Auth {
    node: NodeHandle,
}

impl Auth {
    pub(super) fn new(node: NodeHandle) -> Auth {
        Auth { node }
    }
}

type Answered<T> = Result<Response<T>, Status>;

fn not_yet() -> Status {
    Status::unimplemented("tenure: users and roles are not served yet")
}

#[tonic::async_trait]
impl stubs::auth_server::Auth for Auth {
    async fn auth_status(
        &self,
        request: tonic::Request<pb::AuthStatusRequest>,
    ) -> Answered<pb::AuthStatusResponse> {
        let (by, _) = self.node.admit(request)?;
        Ok(Response::new(pb::AuthStatusResponse {
            header: Some(self.node.header_now(&by)),
            enabled: false,
            auth_revision: FIRST_REVISION,
        }))
    }

    async fn authenticate(
        &self,
        _: tonic::Request<pb::AuthenticateRequest>,
    ) -> Answered<pb::AuthenticateResponse> {
        Err(refuse(Failure::AuthNotEnabled))
    }

    async fn auth_enable(
        &self,
        _: tonic::Request<pb::AuthEnableRequest>,
    ) -> Answered<pb::AuthEnableResponse> {
        Err(not_yet())
    }

    async fn auth_disable(
        &self,
        _: tonic::Request<pb::AuthDisableRequest>,
    ) -> Answered<pb::AuthDisableResponse> {
        Err(not_yet())
    }

    async fn user_add(
        &self,
        _: tonic::Request<pb::AuthUserAddRequest>,
    ) -> Answered<pb::AuthUserAddResponse> {
        Err(not_yet())
    }

    async fn user_get(
        &self,
        _: tonic::Request<pb::AuthUserGetRequest>,
    ) -> Answered<pb::AuthUserGetResponse> {
        Err(not_yet())
    }

    async fn user_list(
        &self,
        _: tonic::Request<pb::AuthUserListRequest>,
    ) -> Answered<pb::AuthUserListResponse> {
        Err(not_yet())
    }

    async fn user_delete(
        &self,
        _: tonic::Request<pb::AuthUserDeleteRequest>,
    ) -> Answered<pb::AuthUserDeleteResponse> {
        Err(not_yet())
    }

    async fn user_change_password(
        &self,
        _: tonic::Request<pb::AuthUserChangePasswordRequest>,
    ) -> Answered<pb::AuthUserChangePasswordResponse> {
        Err(not_yet())
    }

    async fn user_grant_role(
        &self,
        _: tonic::Request<pb::AuthUserGrantRoleRequest>,
    ) -> Answered<pb::AuthUserGrantRoleResponse> {
        Err(not_yet())
    }

    async fn user_revoke_role(
        &self,
        _: tonic::Request<pb::AuthUserRevokeRoleRequest>,
    ) -> Answered<pb::AuthUserRevokeRoleResponse> {
        Err(not_yet())
    }

    async fn role_add(
        &self,
        _: tonic::Request<pb::AuthRoleAddRequest>,
    ) -> Answered<pb::AuthRoleAddResponse> {
        Err(not_yet())
    }

    async fn role_get(
        &self,
        _: tonic::Request<pb::AuthRoleGetRequest>,
    ) -> Answered<pb::AuthRoleGetResponse> {
        Err(not_yet())
    }

    async fn role_list(
        &self,
        _: tonic::Request<pb::AuthRoleListRequest>,
    ) -> Answered<pb::AuthRoleListResponse> {
        Err(not_yet())
    }

    async fn role_delete(
        &self,
        _: tonic::Request<pb::AuthRoleDeleteRequest>,
    ) -> Answered<pb::AuthRoleDeleteResponse> {
        Err(not_yet())
    }

    async fn role_grant_permission(
        &self,
        _: tonic::Request<pb::AuthRoleGrantPermissionRequest>,
    ) -> Answered<pb::AuthRoleGrantPermissionResponse> {
        Err(not_yet())
    }

    async fn role_revoke_permission(
        &self,
        _: tonic::Request<pb::AuthRoleRevokePermissionRequest>,
    ) -> Answered<pb::AuthRoleRevokePermissionResponse> {
        Err(not_yet())
    }
}
