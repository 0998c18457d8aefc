//! The users of members that speak TLS: the certificate for clients is the login of one that may do everything.

use std::time::Duration;

use tenure::api::wire::etcdserverpb as pb;
use tenure::grpc::{Client, ClientError};

use super::plan::CLIENT;

/// Not asked for by its name here; but without it users cannot count.
const ROOT: &str = "root";
/// A cluster that has just begun does not know at once that all its members can have users.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes them and lets them count, unless that was done before. They have no passwords.
pub(super) async fn make(client: &Client) -> anyhow::Result<()> {
    let made = tokio::time::timeout(PATIENCE, make_all(client)).await;
    made.map_err(|_| anyhow::anyhow!("no answer within {PATIENCE:?}"))?.map_err(Into::into)
}

async fn make_all(client: &Client) -> Result<(), ClientError> {
    let auth = client.auth();
    if auth.status(pb::AuthStatusRequest {}).await?.enabled {
        return Ok(());
    }
    let known = auth.user_list(pb::AuthUserListRequest {}).await?.users;
    for user in [ROOT, CLIENT] {
        if !known.iter().any(|name| name == user) {
            auth.user_add(user, None).await?;
        }
        let role = ROOT.to_owned();
        auth.user_grant_role(pb::AuthUserGrantRoleRequest { user: user.to_owned(), role }).await?;
    }
    auth.enable(pb::AuthEnableRequest {}).await.map(|_| ())
}
