//! A server with users, real etcd or ours, and what it is asked by hand.

use tenure::grpc::stubs::AuthClient;
use tenure::grpc::{Client, Credentials, Endpoint, Options};
use tenure_api::wire::authpb::{Permission, permission::Type};
use tenure_e2e::{Cluster, Ctl, Etcd, Plan, Side, pb};
use tonic::transport::Channel;

use crate::asking::Asker;

/// The password of a user of these tests.
pub(crate) fn password(user: &str) -> String {
    format!("{user}-secret")
}

/// One of the two servers, with these flags.
pub(crate) async fn etcd(members: usize, flags: &[&str]) -> Side {
    Side::Etcd(Etcd::with(members, flags).await)
}

/// The other one.
pub(crate) async fn tenure(members: usize, flags: &[&str]) -> Side {
    Side::Tenure(Cluster::with(members, Plan::flags(flags)).await)
}

/// A client that logs in.
pub(crate) fn client(side: &Side, user: &str) -> Client {
    Client::new(Endpoint::list(&side.endpoints()).unwrap(), options(user))
}

/// Options of a client that logs in.
pub(crate) fn options(user: &str) -> Options {
    let credentials = Some(Credentials::user(user, password(user)));
    Options { credentials, ..Options::default() }
}

/// etcdctl that logs in.
pub(crate) fn ctl(side: &Side, user: &str) -> Ctl {
    side.ctl().with_flags(&["--user".to_owned(), format!("{user}:{}", password(user))])
}

/// Adds a user with its password.
pub(crate) async fn add_user(client: &Client, name: &str) {
    client.auth().user_add(name, Some(&tenure::grpc::Password::new(password(name)))).await.unwrap();
}

/// Adds a role of the same name for a user, with these rights.
pub(crate) async fn allow(client: &Client, user: &str, rights: &[(Type, &str, &str)]) {
    let auth = client.auth();
    let role = pb::AuthRoleAddRequest { name: user.to_owned() };
    auth.role_add(role).await.unwrap();
    for (perm_type, key, end) in rights {
        let perm = permission(*perm_type, key, end);
        let grant = pb::AuthRoleGrantPermissionRequest { name: user.to_owned(), perm };
        auth.role_grant(grant).await.unwrap();
    }
    let grant = pb::AuthUserGrantRoleRequest { user: user.to_owned(), role: user.to_owned() };
    auth.user_grant_role(grant).await.unwrap();
}

/// A right as it is granted.
pub(crate) fn permission(perm_type: Type, key: &str, end: &str) -> Option<Permission> {
    Some(Permission {
        perm_type: perm_type as i32,
        key: key.to_owned().into(),
        range_end: end.to_owned().into(),
    })
}

/// The users of the transcript: alice has `foo/`, bob some keys, carol no role, nopw no password. Enables nothing.
pub(crate) async fn add_users(client: &Client) {
    for user in ["alice", "bob", "carol"] {
        add_user(client, user).await;
    }
    let auth = client.auth();
    auth.user_add("nopw", None).await.unwrap();
    allow(client, "alice", &[(Type::Readwrite, "foo/", "foo0")]).await;
    let bob = [
        (Type::Read, "k1", ""),
        (Type::Read, "m", "n"),
        (Type::Read, "n", "o"),
        (Type::Write, "w1", ""),
    ];
    allow(client, "bob", &bob).await;
}

/// Adds the user root, with its role, and lets users and roles count.
pub(crate) async fn enable(client: &Client) {
    add_user(client, "root").await;
    let auth = client.auth();
    let root = pb::AuthUserGrantRoleRequest { user: "root".into(), role: "root".into() };
    auth.user_grant_role(root).await.unwrap();
    auth.enable(pb::AuthEnableRequest {}).await.unwrap();
}

/// A server with the users of the transcript, which count.
pub(crate) async fn with_users(side: Side) -> Side {
    let client = Client::new(Endpoint::list(&side.endpoints()).unwrap(), Options::default());
    add_users(&client).await;
    enable(&client).await;
    side
}

/// Asks one member by hand.
pub(crate) async fn asker(side: &Side, member: usize) -> Asker {
    let endpoint = format!("http://{}", side.address(member));
    let channel = Channel::from_shared(endpoint).unwrap().connect().await.unwrap();
    Asker::new(channel)
}

/// A token for a user, by hand.
pub(crate) async fn token(
    asker: &Asker,
    name: &str,
    password: &str,
) -> Result<String, tonic::Status> {
    let request = pb::AuthenticateRequest { name: name.to_owned(), password: password.to_owned() };
    let answer = AuthClient::new(asker.channel()).authenticate(request).await?;
    Ok(answer.into_inner().token)
}
