//! Users and roles as the etcd-client crate manages them and logs in.
#![allow(clippy::unwrap_used)]

use etcd_client::{
    Client, ConnectOptions, Permission, RoleRevokePermissionOptions, UserAddOptions,
};
use tenure_e2e::Cluster;

async fn connect(cluster: &Cluster, user: Option<(&str, &str)>) -> Result<Client, String> {
    let endpoints: Vec<_> =
        cluster.members.iter().map(|member| member.client.to_string()).collect();
    let options = user.map(|(name, password)| ConnectOptions::new().with_user(name, password));
    Client::connect(endpoints, options).await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_client_manages_users_and_logs_in() {
    let cluster = Cluster::start(3).await;
    let error = connect(&cluster, Some(("root", "pw"))).await.err().unwrap();
    assert!(error.contains("authentication is not enabled"), "{error}");
    let mut client = connect(&cluster, None).await.unwrap();
    client.user_add("root", "pw", None).await.unwrap();
    client.role_add("root").await.unwrap();
    client.user_grant_role("root", "root").await.unwrap();
    client.user_add("app", "old", None).await.unwrap();
    let no_password = UserAddOptions::new().with_no_pwd();
    client.user_add("cert", "", Some(no_password)).await.unwrap();
    client.role_add("app").await.unwrap();
    let permission = Permission::read_write("app/").with_prefix();
    client.role_grant_permission("app", permission).await.unwrap();
    let role = client.role_get("app").await.unwrap();
    assert_eq!(role.permissions().len(), 1);
    client.user_grant_role("app", "app").await.unwrap();
    assert_eq!(client.user_get("app").await.unwrap().roles(), ["app"]);
    assert_eq!(client.user_list().await.unwrap().users(), ["app", "cert", "root"]);
    assert_eq!(client.role_list().await.unwrap().roles(), ["app", "root"]);
    client.user_change_password("app", "new").await.unwrap();
    client.auth_enable().await.unwrap();

    let error = connect(&cluster, Some(("app", "old"))).await.err().unwrap();
    assert!(error.contains("authentication failed"), "{error}");
    let mut app = connect(&cluster, Some(("app", "new"))).await.unwrap();
    app.put("app/a", "1", None).await.unwrap();
    assert_eq!(app.get("app/a", None).await.unwrap().kvs()[0].value(), b"1");
    let error = app.put("other", "1", None).await.unwrap_err().to_string();
    assert!(error.contains("permission denied"), "{error}");
    let error = client.get("app/a", None).await.unwrap_err().to_string();
    assert!(error.contains("user name is empty"), "{error}");

    let mut root = connect(&cluster, Some(("root", "pw"))).await.unwrap();
    root.role_revoke_permission(
        "app",
        "app/",
        Some(RoleRevokePermissionOptions::new().with_prefix()),
    )
    .await
    .unwrap();
    let error = app.put("app/a", "2", None).await.unwrap_err().to_string();
    assert!(error.contains("permission denied"), "{error}");
    root.user_revoke_role("app", "app").await.unwrap();
    root.role_delete("app").await.unwrap();
    root.user_delete("app").await.unwrap();
    let error = app.get("app/a", None).await.unwrap_err().to_string();
    // A member that hears of it while the read waits has taken the token for good, and knows no such user any more.
    let gone = ["invalid auth token", "permission denied"];
    assert!(gone.iter().any(|text| error.contains(text)), "{error}");
    root.auth_disable().await.unwrap();
    client.put("free", "1", None).await.unwrap();
}
