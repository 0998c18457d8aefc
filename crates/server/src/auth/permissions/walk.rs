//! Six callers ask for everything that is in the table.

use std::{fmt::Write, sync::Arc, time::Duration};

use futures_util::StreamExt;
use prost_reflect::{DescriptorPool, DynamicMessage};
use tenure_api::{LeaseId, Principal, Proof, wire::DESCRIPTORS};
use tenure_replica::{
    Operation,
    auth::{Permission, PermissionKind},
    command::{AuthCommand, Command, ElectionCommand},
};
use tonic::{Request, Status};

use super::{CALLERS, TABLE};
use crate::auth::{Identities, Passwords, TokenKind};
use crate::{
    Admitted, Config, Server, admission::Admission, config::AutoCompaction, grpc,
    http::gateway::Method, node::NodeHandle,
};

/// How long an answer is waited for that may not come: a lock that another caller has, say. A refusal comes at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// A cluster of one, on free ports.
pub(in crate::auth) fn alone(dir: &tempfile::TempDir) -> Config {
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
            secret: None,
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
