//! What each RPC needs: the table of `docs/reference/permissions.md`, held against what a member does.
//!
//! Every RPC of every service that is served is asked by six callers. One that is not in the table fails the test.

use std::{collections::BTreeSet, fmt::Write, sync::Arc, time::Duration};

use futures_util::StreamExt;
use prost_reflect::{DescriptorPool, DynamicMessage};
use tenure_api::{LeaseId, Principal, Proof, wire::DESCRIPTORS};
use tenure_replica::{
    Operation,
    auth::{Permission, PermissionKind},
    command::{AuthCommand, Command, ElectionCommand},
};
use tonic::{Request, Status};

use super::{Identities, Passwords, TokenKind};
use crate::{
    Admitted, Config, Server, admission::Admission, config::AutoCompaction, grpc,
    http::gateway::Method, node::NodeHandle,
};

/// What is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    User,
    Root,
    /// Root, or the one that it is about.
    Own,
    Read,
    Write,
    /// To read and to write.
    Both,
    Rule,
}

/// The callers, and what each has in the tests: a stranger; a user without a role; one with READ, with WRITE and with
/// `campaign` on what the requests are about; one with the role root.
const CALLERS: [&str; 6] = ["stranger", "user", "reader", "writer", "holder", "root"];

impl Needs {
    /// Whether each of the callers has it. None of them is the one that a request is about.
    fn allows(self) -> [bool; 6] {
        match self {
            Needs::Nothing => [true; 6],
            Needs::User => [false, true, true, true, true, true],
            Needs::Root | Needs::Own | Needs::Rule => [false, false, false, false, false, true],
            Needs::Read => [false, false, true, false, true, true],
            Needs::Write => [false, false, false, true, true, true],
            Needs::Both => [false, false, false, false, true, true],
        }
    }
}

use Needs::{Both, Nothing, Own, Read, Root, Rule, User, Write as Writing};

/// Method, what it is about if that makes a difference, a request as JSON, what is needed, the same in words.
const TABLE: &[(&str, &str, &str, Needs, &str)] = &[
    ("etcdserverpb.KV.Range", "", r#"{"key":"dC9r"}"#, Read, "READ on the range"),
    ("etcdserverpb.KV.Put", "", r#"{"key":"dC9r"}"#, Writing, "WRITE on the key"),
    (
        "etcdserverpb.KV.Put",
        "`prev_kv`",
        r#"{"key":"dC9r","prev_kv":true}"#,
        Both,
        "and READ on the key",
    ),
    (
        "etcdserverpb.KV.Put",
        "a lease",
        r#"{"key":"dC9r","lease":"77"}"#,
        Writing,
        "and WRITE on every key on the lease; that of a session is its owner's",
    ),
    ("etcdserverpb.KV.DeleteRange", "", r#"{"key":"dC9h"}"#, Writing, "WRITE on the range"),
    (
        "etcdserverpb.KV.DeleteRange",
        "`prev_kv`",
        r#"{"key":"dC9h","prev_kv":true}"#,
        Both,
        "and READ on the range",
    ),
    (
        "etcdserverpb.KV.Txn",
        "",
        r#"{"compare":[{"key":"dC9r","target":"VERSION"}],"failure":[{"requestPut":{"key":"dC9r"}}]}"#,
        Both,
        "READ on what is compared; for the operations of both branches, and of transactions in them, what each needs by itself",
    ),
    ("etcdserverpb.KV.Txn", "empty", "{}", User, "a user"),
    ("etcdserverpb.KV.Compact", "", r#"{"revision":"1"}"#, Root, "the role root"),
    (
        "etcdserverpb.Watch.Watch",
        "",
        r#"{"create_request":{"key":"dC9r"}}"#,
        Read,
        "READ on the range; it ends when that is withdrawn",
    ),
    ("etcdserverpb.Lease.LeaseGrant", "", r#"{"TTL":"60"}"#, User, "a user"),
    (
        "etcdserverpb.Lease.LeaseRevoke",
        "",
        r#"{"ID":"77"}"#,
        Writing,
        "WRITE on every key on the lease; that of a session is its owner's",
    ),
    ("etcdserverpb.Lease.LeaseKeepAlive", "", r#"{"ID":"77"}"#, Writing, "the same"),
    ("etcdserverpb.Lease.LeaseTimeToLive", "", r#"{"ID":"77"}"#, User, "a user"),
    (
        "etcdserverpb.Lease.LeaseTimeToLive",
        "`keys`",
        r#"{"ID":"77","keys":true}"#,
        Read,
        "READ on every key on the lease",
    ),
    ("etcdserverpb.Lease.LeaseLeases", "", "{}", Read, "READ on every key on any lease"),
    ("etcdserverpb.Cluster.MemberList", "", "{}", User, "a user"),
    (
        "etcdserverpb.Cluster.MemberAdd",
        "",
        r#"{"peerURLs":["http://127.0.0.1:0"]}"#,
        Root,
        "the role root",
    ),
    ("etcdserverpb.Cluster.MemberRemove", "", r#"{"ID":"5"}"#, Root, "the role root"),
    (
        "etcdserverpb.Cluster.MemberUpdate",
        "",
        r#"{"ID":"5","peerURLs":["http://127.0.0.1:1"]}"#,
        Root,
        "the role root",
    ),
    ("etcdserverpb.Cluster.MemberPromote", "", r#"{"ID":"5"}"#, Root, "the role root"),
    ("etcdserverpb.Maintenance.Status", "", "{}", User, "a user"),
    ("etcdserverpb.Maintenance.Alarm", "GET", "{}", User, "a user"),
    (
        "etcdserverpb.Maintenance.Alarm",
        "others",
        r#"{"action":"DEACTIVATE"}"#,
        Root,
        "the role root",
    ),
    ("etcdserverpb.Maintenance.Defragment", "", "{}", Root, "the role root"),
    ("etcdserverpb.Maintenance.Hash", "", "{}", Root, "the role root"),
    ("etcdserverpb.Maintenance.HashKV", "", "{}", Root, "the role root"),
    ("etcdserverpb.Maintenance.Snapshot", "", "{}", Root, "the role root"),
    ("etcdserverpb.Maintenance.MoveLeader", "", r#"{"targetID":"5"}"#, Root, "the role root"),
    ("etcdserverpb.Maintenance.Downgrade", "", "{}", Root, "the role root"),
    ("etcdserverpb.Auth.AuthEnable", "", "{}", Root, "the role root"),
    ("etcdserverpb.Auth.AuthStatus", "", "{}", Root, "the role root"),
    (
        "etcdserverpb.Auth.Authenticate",
        "",
        r#"{"name":"reader","password":"wrong"}"#,
        Nothing,
        "nothing",
    ),
    (
        "etcdserverpb.Auth.UserAdd",
        "",
        r#"{"name":"spare","options":{"no_password":true}}"#,
        Root,
        "the role root",
    ),
    (
        "etcdserverpb.Auth.UserGet",
        "",
        r#"{"name":"spare"}"#,
        Own,
        "the role root, or to be that user",
    ),
    ("etcdserverpb.Auth.UserList", "", "{}", Root, "the role root"),
    ("etcdserverpb.Auth.UserDelete", "", r#"{"name":"none"}"#, Root, "the role root"),
    ("etcdserverpb.Auth.UserChangePassword", "", r#"{"name":"none"}"#, Root, "the role root"),
    (
        "etcdserverpb.Auth.UserGrantRole",
        "",
        r#"{"user":"none","role":"spare"}"#,
        Root,
        "the role root",
    ),
    (
        "etcdserverpb.Auth.UserRevokeRole",
        "",
        r#"{"name":"none","role":"spare"}"#,
        Root,
        "the role root",
    ),
    ("etcdserverpb.Auth.RoleAdd", "", r#"{"name":"spare"}"#, Root, "the role root"),
    (
        "etcdserverpb.Auth.RoleGet",
        "",
        r#"{"role":"spare"}"#,
        Own,
        "the role root, or to have that role",
    ),
    ("etcdserverpb.Auth.RoleList", "", "{}", Root, "the role root"),
    ("etcdserverpb.Auth.RoleDelete", "", r#"{"role":"none"}"#, Root, "the role root"),
    (
        "etcdserverpb.Auth.RoleGrantPermission",
        "",
        r#"{"name":"none","perm":{"key":"YQ=="}}"#,
        Root,
        "the role root",
    ),
    (
        "etcdserverpb.Auth.RoleRevokePermission",
        "",
        r#"{"role":"none","key":"YQ=="}"#,
        Root,
        "the role root",
    ),
    (
        "v3electionpb.Election.Campaign",
        "",
        r#"{"name":"dC9j","lease":"78","value":"dg=="}"#,
        Both,
        "READ and WRITE on the keys below the name; without a lease, a user",
    ),
    (
        "v3electionpb.Election.Proclaim",
        "",
        r#"{"leader":{"name":"dC9j","key":"dC9jLzRl","rev":"1"}}"#,
        Both,
        "READ and WRITE on the key",
    ),
    (
        "v3electionpb.Election.Leader",
        "",
        r#"{"name":"dC9j"}"#,
        Read,
        "READ on the keys below the name",
    ),
    (
        "v3electionpb.Election.Observe",
        "",
        r#"{"name":"dC9j"}"#,
        Read,
        "the same; without it the stream ends at once, as in etcd",
    ),
    (
        "v3electionpb.Election.Resign",
        "",
        r#"{"leader":{"name":"dC9j","key":"dC9jLzRl","rev":"1"}}"#,
        Both,
        "READ and WRITE on the key",
    ),
    (
        "v3lockpb.Lock.Lock",
        "",
        r#"{"name":"dC9s","lease":"78"}"#,
        Both,
        "READ and WRITE on the keys below the name; without a lease, a user",
    ),
    ("v3lockpb.Lock.Unlock", "", r#"{"key":"dC9sLzRl"}"#, Writing, "WRITE on the key"),
    (
        "tenure.v1.Sessions.Session",
        "",
        r#"{"open":{"ttl_ms":"5000","identity":"i"}}"#,
        User,
        "a user, to open one; to attach, and for all requests, to be the user that opened it, or the role root; `campaign` on what it joins",
    ),
    (
        "tenure.v1.Sessions.End",
        "",
        r#"{"session":"88"}"#,
        Own,
        "the role root, or to be the user that opened it",
    ),
    ("tenure.v1.Sessions.List", "", "{}", User, "a user, who sees its own; the role root sees all"),
    ("tenure.v1.Elections.Candidates", "", r#"{"name":"t/e"}"#, Read, "`observe` on the election"),
    (
        "tenure.v1.Elections.Observe",
        "",
        r#"{"name":"t/e"}"#,
        Read,
        "`observe` on the election; it ends when that is withdrawn",
    ),
    ("tenure.v1.Elections.History", "", r#"{"name":"t/e"}"#, Read, "`observe` on the election"),
    (
        "tenure.v1.Elections.List",
        "",
        "{}",
        User,
        "a user, who sees the elections on which it has `observe`",
    ),
    ("tenure.v1.Elections.Follow", "", "{}", User, "the same"),
    (
        "tenure.v1.Elections.Transfer",
        "",
        r#"{"name":"t/e","identity":"i"}"#,
        Rule,
        "`rule` on the election",
    ),
    ("tenure.v1.Elections.Evict", "", r#"{"name":"t/e"}"#, Rule, "`rule` on the election"),
    ("tenure.v1.Elections.Freeze", "", r#"{"name":"t/f"}"#, Rule, "`rule` on the election"),
    ("tenure.v1.Elections.Resume", "", r#"{"name":"t/f"}"#, Rule, "`rule` on the election"),
    ("tenure.v1.Members.Health", "", "{}", User, "a user"),
    ("grpc.health.v1.Health.Check", "", "{}", Nothing, "nothing"),
    ("grpc.health.v1.Health.Watch", "", "{}", Nothing, "nothing"),
    // The last one: nothing is judged after it.
    ("etcdserverpb.Auth.AuthDisable", "", "{}", Root, "the role root"),
];

/// The rows as the docs have them.
fn page() -> String {
    let mut page = String::new();
    for (method, about, _, _, words) in TABLE {
        let about = if about.is_empty() { String::new() } else { format!(", {about}") };
        let _ = writeln!(page, "| `{method}`{about} | {words} |");
    }
    page
}

/// How long an answer is waited for that may not come: a lock that another caller has, say. A refusal comes at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// A cluster of one, on free ports.
pub(super) fn alone(dir: &tempfile::TempDir) -> Config {
    let port_0 = || vec!["http://127.0.0.1:0".to_owned()];
    Config {
        data_dir: dir.path().join("data"),
        listen_client_urls: port_0(),
        advertise_client_urls: port_0(),
        listen_peer_urls: port_0(),
        initial_advertise_peer_urls: port_0(),
        initial_cluster: "default=http://127.0.0.1:0".into(),
        auto_compaction: AutoCompaction::Off,
        bcrypt_cost: 4,
        ..Config::default()
    }
}

struct Stage {
    server: Server,
    services: Admission,
    pool: DescriptorPool,
    tokens: Vec<Option<String>>,
    _dir: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Stage {
        let dir = tempfile::TempDir::new().unwrap();
        let config = alone(&dir);
        let server = Server::start(config.clone()).await.unwrap();
        let node = server.node().clone();
        let limits = grpc::RequestLimits {
            request_bytes_max: config.max_request_bytes,
            txn_ops_max: config.max_txn_ops,
            leaderless_max: Duration::from_secs(3),
        };
        let routes = grpc::routes(&node, limits, Passwords::new(4), TokenKind::Simple);
        let identities = Arc::new(Identities::new(node.clone(), TokenKind::Simple));
        let services = Admission::new(routes.into_axum_router(), identities);
        let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
        node.users_ready().await.unwrap();
        let mut stage = Stage { server, services, pool, tokens: vec![None], _dir: dir };
        for caller in &CALLERS[1..] {
            stage.add(caller).await;
        }
        stage.add("spare").await;
        stage.auth(AuthCommand::Enable).await;
        for caller in &CALLERS[1..] {
            let request = format!(r#"{{"name":"{caller}","password":"p"}}"#);
            let answer = stage.ask("etcdserverpb.Auth.Authenticate", &request, None).await.unwrap();
            let token = answer.unwrap().get_field_by_name("token").unwrap().into_owned();
            stage.tokens.push(Some(token.as_str().unwrap().to_owned()));
        }
        stage
    }

    fn node(&self) -> &NodeHandle {
        self.server.node()
    }

    async fn itself(&self, by: Principal, command: Command) {
        let by = Admitted::in_process(by);
        let _ = self.node().ask(&by, Operation::Write(command)).await.unwrap();
    }

    async fn auth(&self, command: AuthCommand) {
        self.itself(Principal::System, Command::Auth(command)).await;
    }

    /// A user, and the role of its name.
    async fn add(&self, name: &str) {
        let (user, role): (Arc<str>, Arc<str>) = (name.into(), name.into());
        let password = Passwords::new(4).make("p".to_owned()).await.ok();
        self.auth(AuthCommand::UserAdd { name: user.clone(), password }).await;
        self.auth(AuthCommand::RoleAdd(role.clone())).await;
        let kind = match name {
            "reader" => Some(PermissionKind::Read),
            "writer" => Some(PermissionKind::Write),
            "holder" => Some(PermissionKind::Campaign),
            _ => None,
        };
        if let Some(kind) = kind {
            let permission = Permission { kind, key: "t/".into(), range_end: "t0".into() };
            let permission = Some(permission);
            self.auth(AuthCommand::RoleGrant { role: role.clone(), permission }).await;
        }
        if name != "user" {
            self.auth(AuthCommand::UserGrant { user, role }).await;
        }
    }

    /// What the requests are about: a lease with a key, one without, and a session of root's.
    async fn prepare(&self) {
        let root = Principal::User {
            name: "root".into(),
            auth_revision: self.node().tokens.revision(),
            proof: Proof::Held,
        };
        for id in [77, 78] {
            let grant = Command::LeaseGrant { id: LeaseId(id), ttl_secs: 600 };
            self.itself(Principal::System, grant).await;
        }
        let put = tenure_api::Put {
            key: "t/k".into(),
            value: Some("v".into()),
            lease: tenure_api::op::PutLease::Set(Some(LeaseId(77))),
            prev_kv: false,
        };
        self.itself(Principal::System, Command::Put(put)).await;
        let open = ElectionCommand::Open {
            id: LeaseId(88),
            ttl_ms: 60_000,
            identity: "root/i".into(),
            fast_release: false,
            by: 0,
        };
        self.itself(root, Command::Election(open)).await;
    }

    /// The first answer; none if there is none, or none in time.
    async fn ask(
        &self,
        method: &str,
        json: &str,
        token: Option<&str>,
    ) -> Result<Option<DynamicMessage>, Status> {
        let method = Method::find(&self.pool, method, self.services.clone(), 1 << 20).unwrap();
        let mut json = serde_json::Deserializer::from_str(json);
        let message = DynamicMessage::deserialize(method.input.clone(), &mut json).unwrap();
        // A stream of requests stays open: some services end with it.
        let asked = futures_util::stream::once(async { message });
        let asked = asked.chain(futures_util::stream::pending());
        let asked: std::pin::Pin<Box<dyn futures_util::Stream<Item = DynamicMessage> + Send>> =
            match method.takes_stream {
                true => Box::pin(asked),
                false => Box::pin(asked.take(1)),
            };
        let mut request = Request::new(asked);
        if let Some(token) = token {
            request.metadata_mut().insert("token", token.parse().unwrap());
        }
        let answered = async { method.converse(request).await?.message().await };
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(answered) => answered,
            Err(_) => Ok(Some(DynamicMessage::new(method.output.clone()))),
        }
    }

    /// Whether a caller may.
    async fn may(&self, method: &str, json: &str, caller: usize) -> bool {
        self.prepare().await;
        let refusals = ["permission denied", "user name is empty", "invalid auth token"];
        let refuses = |text: &str| refusals.iter().any(|refusal| text.contains(refusal));
        match self.ask(method, json, self.tokens[caller].as_deref()).await {
            Err(status) => !refuses(status.message()),
            // As in etcd.
            Ok(None) => method != "v3electionpb.Election.Observe",
            Ok(Some(answer)) => {
                let reason = answer.get_field_by_name("cancel_reason");
                !reason.is_some_and(|reason| reason.as_str().is_some_and(refuses))
            }
        }
    }
}

#[test]
fn permissions_table_names_every_rpc() {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let served: BTreeSet<String> = pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|method| method.full_name().to_owned())
        .collect();
    let named: BTreeSet<String> = TABLE.iter().map(|row| row.0.to_owned()).collect();
    let missing: Vec<_> = served.symmetric_difference(&named).collect();
    assert!(missing.is_empty(), "no row, or no RPC: {missing:?}");
}

#[test]
fn permissions_page_is_that_of_the_docs() {
    let docs = include_str!("../../../../docs/reference/permissions.md");
    let page = page();
    assert!(docs.contains(&page), "print these in docs/reference/permissions.md:\n{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_of_every_rpc_are_as_in_the_table() {
    let stage = Stage::new().await;
    let mut wrong = String::new();
    for (method, about, json, needs, _) in TABLE {
        for (caller, allowed) in needs.allows().into_iter().enumerate() {
            let may = stage.may(method, json, caller).await;
            if may != allowed {
                let verdict = if may { "is allowed" } else { "is refused" };
                let _ = writeln!(wrong, "{} {verdict}: {method} {about}", CALLERS[caller]);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
