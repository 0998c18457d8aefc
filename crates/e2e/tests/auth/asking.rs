//! Requests by hand: with any token or none, and what is said to them in the shorthand of the transcript.

use tenure::grpc::stubs::{
    AuthClient, ClusterClient, ElectionClient, KvClient, LeaseClient, LockClient,
    MaintenanceClient, WatchClient,
};
use tenure_e2e::{electionpb, lockpb, pb};
use tokio_stream::{StreamExt, iter, pending};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

/// A connection, and what is shown on it.
#[derive(Clone)]
pub(crate) struct Asker {
    channel: Channel,
    metadata: Vec<(&'static str, String)>,
}

/// The shorthand for refusals.
const SHORT: [(&str, Code, &str); 18] = [
    ("UE", Code::InvalidArgument, "etcdserver: user name is empty"),
    ("RE", Code::InvalidArgument, "etcdserver: role name is empty"),
    ("AF", Code::InvalidArgument, "etcdserver: authentication failed, invalid user ID or password"),
    ("PV", Code::InvalidArgument, "etcdserver: permission not given"),
    ("IM", Code::InvalidArgument, "etcdserver: invalid auth management"),
    ("OR", Code::InvalidArgument, "etcdserver: revision of auth store is old"),
    ("PD", Code::PermissionDenied, "etcdserver: permission denied"),
    ("IT", Code::Unauthenticated, "etcdserver: invalid auth token"),
    ("NE", Code::FailedPrecondition, "etcdserver: authentication is not enabled"),
    ("RU", Code::FailedPrecondition, "etcdserver: root user does not exist"),
    ("RR", Code::FailedPrecondition, "etcdserver: root user does not have root role"),
    ("UX", Code::FailedPrecondition, "etcdserver: user name already exists"),
    ("UN", Code::FailedPrecondition, "etcdserver: user name not found"),
    ("RX", Code::FailedPrecondition, "etcdserver: role name already exists"),
    ("RN", Code::FailedPrecondition, "etcdserver: role name not found"),
    ("RG", Code::FailedPrecondition, "etcdserver: role is not granted to the user"),
    ("PG", Code::FailedPrecondition, "etcdserver: permission is not granted to the role"),
    ("NP", Code::Unknown, "auth: authentication failed, password was given for no password user"),
];

/// What was said, in short: `OK`, `UE`, or a code and a text.
pub(crate) fn short<T>(said: Result<Response<T>, Status>) -> String {
    match said {
        Ok(_) => "OK".to_owned(),
        Err(status) => refusal(status.code(), status.message()),
    }
}

/// A refusal in short.
pub(crate) fn refusal(code: Code, text: &str) -> String {
    let known = SHORT.iter().find(|(_, known, said)| *known == code && *said == text);
    match known {
        Some((short, ..)) => (*short).to_owned(),
        None => {
            let text = text.strip_prefix("etcdserver: ").unwrap_or(text);
            format!("{} {text}", code as i32)
        }
    }
}

/// The request with what is shown on it.
macro_rules! unary {
    ($($name:ident: $client:ident.$method:ident($request:ty);)*) => {
        impl Asker {
            $(
                pub(crate) async fn $name(&self, request: $request) -> String {
                    short($client::new(self.channel()).$method(self.shown(request)).await)
                }
            )*
        }
    };
}

unary! {
    range: KvClient.range(pb::RangeRequest);
    put: KvClient.put(pb::PutRequest);
    delete: KvClient.delete_range(pb::DeleteRangeRequest);
    txn: KvClient.txn(pb::TxnRequest);
    compact: KvClient.compact(pb::CompactionRequest);
    grant: LeaseClient.lease_grant(pb::LeaseGrantRequest);
    revoke: LeaseClient.lease_revoke(pb::LeaseRevokeRequest);
    time_to_live: LeaseClient.lease_time_to_live(pb::LeaseTimeToLiveRequest);
    leases: LeaseClient.lease_leases(pb::LeaseLeasesRequest);
    members: ClusterClient.member_list(pb::MemberListRequest);
    member_remove: ClusterClient.member_remove(pb::MemberRemoveRequest);
    status: MaintenanceClient.status(pb::StatusRequest);
    alarm: MaintenanceClient.alarm(pb::AlarmRequest);
    defragment: MaintenanceClient.defragment(pb::DefragmentRequest);
    lock: LockClient.lock(lockpb::LockRequest);
    enable: AuthClient.auth_enable(pb::AuthEnableRequest);
    disable: AuthClient.auth_disable(pb::AuthDisableRequest);
    auth_status: AuthClient.auth_status(pb::AuthStatusRequest);
    authenticate: AuthClient.authenticate(pb::AuthenticateRequest);
    user_add: AuthClient.user_add(pb::AuthUserAddRequest);
    user_get: AuthClient.user_get(pb::AuthUserGetRequest);
    user_list: AuthClient.user_list(pb::AuthUserListRequest);
    user_delete: AuthClient.user_delete(pb::AuthUserDeleteRequest);
    change_password: AuthClient.user_change_password(pb::AuthUserChangePasswordRequest);
    grant_role: AuthClient.user_grant_role(pb::AuthUserGrantRoleRequest);
    revoke_role: AuthClient.user_revoke_role(pb::AuthUserRevokeRoleRequest);
    role_add: AuthClient.role_add(pb::AuthRoleAddRequest);
    role_delete: AuthClient.role_delete(pb::AuthRoleDeleteRequest);
    role_grant: AuthClient.role_grant_permission(pb::AuthRoleGrantPermissionRequest);
}

impl Asker {
    pub(crate) fn new(channel: Channel) -> Asker {
        Asker { channel, metadata: vec![] }
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The same with this shown, too.
    pub(crate) fn with(&self, name: &'static str, value: impl Into<String>) -> Asker {
        let mut asker = self.clone();
        asker.metadata.push((name, value.into()));
        asker
    }

    /// The same with this token.
    pub(crate) fn token(&self, token: &str) -> Asker {
        self.with("token", token)
    }

    pub(crate) fn shown<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        for (name, value) in &self.metadata {
            request.metadata_mut().insert(*name, value.parse().unwrap());
        }
        request
    }

    /// Reads a key.
    pub(crate) async fn get(&self, key: &str) -> String {
        self.get_range(key, "").await
    }

    /// Reads a range of keys.
    pub(crate) async fn get_range(&self, key: &str, end: &str) -> String {
        let (key, range_end) = (key.to_owned().into(), end.to_owned().into());
        self.range(pb::RangeRequest { key, range_end, ..Default::default() }).await
    }

    /// Opens a watch: `OK`, or the id and the reason of its refusal.
    pub(crate) async fn watch(&self, key: &str, end: &str, id: i64) -> String {
        let create = pb::WatchCreateRequest {
            key: key.to_owned().into(),
            range_end: end.to_owned().into(),
            watch_id: id,
            ..Default::default()
        };
        let create = pb::watch_request::RequestUnion::CreateRequest(create);
        let first = pb::WatchRequest { request_union: Some(create) };
        let stream = iter([first]).chain(pending());
        let mut client = WatchClient::new(self.channel());
        let mut answers = match client.watch(self.shown(stream)).await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return refusal(status.code(), status.message()),
        };
        match answers.message().await {
            Ok(Some(answer)) if answer.canceled => {
                assert!(answer.created, "{answer:?}");
                format!("{} {}", answer.watch_id, of_go(&answer.cancel_reason))
            }
            Ok(Some(answer)) => {
                assert!(answer.created, "{answer:?}");
                "OK".to_owned()
            }
            Ok(None) => "the end".to_owned(),
            Err(status) => refusal(status.code(), status.message()),
        }
    }

    /// Sends one renewal.
    pub(crate) async fn keep_alive(&self, id: i64) -> String {
        let stream = iter([pb::LeaseKeepAliveRequest { id }]);
        let mut client = LeaseClient::new(self.channel());
        let mut answers = match client.lease_keep_alive(self.shown(stream)).await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return refusal(status.code(), status.message()),
        };
        match answers.message().await {
            Ok(_) => "OK".to_owned(),
            Err(status) => refusal(status.code(), status.message()),
        }
    }

    /// Observes an election: the first thing that is told.
    pub(crate) async fn observe(&self, name: &'static str) -> String {
        let request = electionpb::LeaderRequest { name: name.into() };
        let mut client = ElectionClient::new(self.channel());
        match client.observe(self.shown(request)).await {
            Ok(answers) => match answers.into_inner().message().await {
                Ok(Some(_)) => "a leader".to_owned(),
                Ok(None) => "ends OK".to_owned(),
                Err(status) => refusal(status.code(), status.message()),
            },
            Err(status) => refusal(status.code(), status.message()),
        }
    }
}

/// A whole Go error in short.
fn of_go(reason: &str) -> String {
    let parts =
        reason.strip_prefix("rpc error: code = ").and_then(|rest| rest.split_once(" desc = "));
    match parts {
        Some(("PermissionDenied", text)) => refusal(Code::PermissionDenied, text),
        Some(("Unauthenticated", text)) => refusal(Code::Unauthenticated, text),
        Some(("InvalidArgument", text)) => refusal(Code::InvalidArgument, text),
        _ => reason.to_owned(),
    }
}
