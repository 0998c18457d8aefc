//! The client itself: connections, the member in use, and one request from start to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_tls::{ClientOptions, ClientTls, TlsError};
use tokio::time::{Instant, timeout_at};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Extensions, Request, Response, Status};

use super::dial::{Connector, Dialer};
use super::login::{Credentials, LOGIN_TIME, Login, Password, Stamp, StreamLogin, is_busy};
use super::need::NeededRight;
use super::retry::{Attempts, Failed, Kind, Next, PAUSE};
use super::{
    Auth, ClientError, Cluster, Elections, Endpoint, Kv, Lease, Maintenance, Sessions, Watch,
};

/// A ping on an idle connection notices a member that vanished without a word. Stock etcd closes
/// connections that ping more often than every 5 s.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(6);

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long to wait for one connection.
    pub dial_timeout: Duration,
    /// How long a request may take, with all its attempts. Streams are not limited.
    pub request_timeout: Duration,
    /// What to log in with. A cluster without users ignores it.
    pub credentials: Option<Credentials>,
    /// TLS, for endpoints that say `https://` and those that say nothing. Without it, `https://` is spoken with the authorities
    /// of the system.
    pub tls: Option<Arc<ClientTls>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            dial_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(5),
            credentials: None,
            tls: None,
        }
    }
}

impl Options {
    /// The same, with no attempt that takes longer than this.
    #[must_use]
    pub fn within(&self, attempt_max: Duration) -> Options {
        Options {
            dial_timeout: self.dial_timeout.min(attempt_max),
            request_timeout: self.request_timeout.min(attempt_max),
            ..self.clone()
        }
    }

    /// The same by TLS.
    ///
    /// # Errors
    /// If the files cannot be used.
    pub fn with_tls(self, tls: ClientOptions) -> Result<Options, TlsError> {
        Ok(Options { tls: Some(Arc::new(ClientTls::new(tls)?)), ..self })
    }
}

/// A client of one cluster. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    members: Arc<Vec<Member>>,
    /// The member in use, counted up with every move.
    current: Arc<AtomicUsize>,
    login: Login,
    options: Arc<Options>,
}

#[derive(Clone, Debug)]
struct Member {
    endpoint: Endpoint,
    channel: Channel,
}

impl Client {
    /// A client of the members at these endpoints. Connects when first used, so it must be made
    /// inside a tokio runtime.
    ///
    /// # Panics
    /// If there is no endpoint.
    pub fn new(endpoints: Vec<Endpoint>, options: Options) -> Client {
        assert!(!endpoints.is_empty(), "a client needs an endpoint");
        let dialer = Dialer::new(options.tls.clone());
        let members = endpoints
            .into_iter()
            .map(|endpoint| {
                let connector = Connector { dialer: dialer.clone(), endpoint: endpoint.clone() };
                let channel = Channel::builder(dialer.uri(&endpoint))
                    .connect_timeout(options.dial_timeout)
                    .http2_keep_alive_interval(PING_INTERVAL)
                    .keep_alive_timeout(PING_TIMEOUT)
                    .connect_with_connector_lazy(connector);
                Member { endpoint, channel }
            })
            .collect();
        Client {
            members: Arc::new(members),
            current: Arc::new(AtomicUsize::new(0)),
            login: Login(options.credentials.clone()),
            options: Arc::new(options),
        }
    }

    /// Keys.
    pub fn kv(&self) -> Kv<'_> {
        Kv::new(self)
    }

    /// Watches.
    pub fn watch(&self) -> Watch<'_> {
        Watch::new(self)
    }

    /// Leases.
    pub fn lease(&self) -> Lease<'_> {
        Lease::new(self)
    }

    /// Sessions, on tenure.
    pub fn sessions(&self) -> Sessions<'_> {
        Sessions::new(self)
    }

    /// Elections and locks, on tenure.
    pub fn elections(&self) -> Elections<'_> {
        Elections::new(self)
    }

    /// Members.
    pub fn cluster(&self) -> Cluster<'_> {
        Cluster::new(self)
    }

    /// Users and roles.
    pub fn auth(&self) -> Auth<'_> {
        Auth::new(self)
    }

    /// State and upkeep.
    pub fn maintenance(&self) -> Maintenance<'_> {
        Maintenance::new(self)
    }

    /// One client for each endpoint, over the same connections: for what must be asked of every
    /// member, not of any.
    pub fn each_member(&self) -> impl Iterator<Item = (Endpoint, Client)> + '_ {
        self.members.iter().map(|member| {
            let alone = Client {
                members: Arc::new(vec![member.clone()]),
                current: Arc::new(AtomicUsize::new(0)),
                login: self.login.clone(),
                options: Arc::clone(&self.options),
            };
            (member.endpoint.clone(), alone)
        })
    }

    /// The connection to the member in use, for the generated [`stubs`](super::stubs).
    pub fn channel(&self) -> Channel {
        self.at(self.turn()).channel.clone()
    }

    /// A request for the generated [`stubs`](super::stubs), with the token of the user on it.
    ///
    /// # Errors
    /// If the user is not logged in. See [`ClientError`].
    pub async fn request<T>(&self, message: T) -> Result<Request<T>, ClientError> {
        let metadata = self.call(Kind::Repeatable, (), stamp_only).await?;
        Ok(Request::from_parts(metadata, Extensions::default(), message))
    }

    /// The token itself, which is sent as the metadata `token`. None without credentials, and from a cluster without
    /// users.
    ///
    /// # Errors
    /// If the user is not logged in. See [`ClientError`].
    pub async fn token(&self) -> Result<Option<Password>, ClientError> {
        let metadata = self.call(Kind::Repeatable, (), stamp_only).await?;
        let token = metadata.get("token").and_then(|token| token.to_str().ok());
        Ok(token.map(Password::new))
    }

    /// The endpoint of the member in use.
    pub fn endpoint(&self) -> Endpoint {
        self.at(self.turn()).endpoint.clone()
    }

    /// Makes one request: adds the token, retries as its kind allows, keeps the time. Of a stream,
    /// only the opening is timed. A member that had no answer, in time or at all, is not the first to be
    /// asked next time: it may be up and have a disk that stands still.
    pub(super) async fn call<Req, Res, Sent>(
        &self,
        kind: Kind,
        request: Req,
        send: impl Fn(Channel, Request<Req>) -> Sent,
    ) -> Result<Res, ClientError>
    where
        Req: Clone,
        Sent: Future<Output = Result<Response<Res>, Status>>,
    {
        let after = self.options.request_timeout;
        let mut deadline = Instant::now() + after;
        let mut attempts = Attempts::new(kind, self.login.renews());
        loop {
            let turn = self.turn();
            let channel = self.at(turn).channel.clone();
            let mut request = Request::new(request.clone());
            // What a member takes to check a password is not taken from the time of the request.
            let began = Instant::now();
            let login_until = deadline.max(began + LOGIN_TIME);
            let stamped = timeout_at(login_until, self.login.stamp(&channel, &mut request)).await;
            deadline += began.elapsed();
            let (logged_in, sent) = match stamped {
                Ok(Ok(stamp)) => {
                    let sent = timeout_at(deadline, send(channel, request)).await;
                    (Some(stamp), sent)
                }
                Ok(Err(status)) => (None, Ok(Err(status))),
                Err(late) => (None, Err(late)),
            };
            let status = match sent {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => {
                    self.leave(turn);
                    return Err(attempts.timed_out(after, logged_in.is_some()));
                }
            };
            let failed = match (&logged_in, self.login.user()) {
                (Some(_), _) | (None, None) => Failed::Request,
                (None, Some(_)) if is_busy(&status) => Failed::BusyLogin,
                (None, Some(user)) => Failed::Login(user),
            };
            match attempts.failed(&status, failed, &self.at(turn).endpoint, &self.addresses()) {
                Next::GiveUp(error) => {
                    if !error.is_refused() {
                        self.leave(turn);
                    }
                    return Err(error);
                }
                Next::Authenticate => {
                    self.renew_login(&logged_in.unwrap_or_default());
                }
                Next::Elsewhere => {
                    self.leave(turn);
                    if attempts.round_is_over(self.members.len()) {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
    }

    /// The same for a request that needs a right: says which, if that is why it is refused.
    pub(super) async fn call_for<Req, Res, Sent>(
        &self,
        need: NeededRight,
        kind: Kind,
        request: Req,
        send: impl Fn(Channel, Request<Req>) -> Sent,
    ) -> Result<Res, ClientError>
    where
        Req: Clone,
        Sent: Future<Output = Result<Response<Res>, Status>>,
    {
        self.call(kind, request, send).await.map_err(|error| self.denied(error, need))
    }

    /// Says what the user lacks, if that is why a request was refused.
    pub(super) fn denied(&self, error: ClientError, need: NeededRight) -> ClientError {
        error.denied(self.login.user(), need)
    }

    /// The login of a stream that was opened just now.
    pub(crate) fn stream_login(&self) -> StreamLogin {
        StreamLogin::now(&self.login)
    }

    /// Lets the next request log in again, unless another one has since this stamp; false where that is not possible.
    pub(super) fn renew_login(&self, stamp: &Stamp) -> bool {
        self.login.forget(stamp);
        self.login.renews()
    }

    /// Moves on from a member that failed, unless another request has done so already.
    pub(crate) fn leave(&self, turn: usize) {
        let _ = self.current.compare_exchange(
            turn,
            turn.wrapping_add(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    pub(crate) fn turn(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    fn at(&self, turn: usize) -> &Member {
        &self.members[turn % self.members.len()]
    }

    fn addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| member.endpoint.to_string()).collect()
    }
}

/// Sends nothing: the login is what was wanted.
async fn stamp_only(_: Channel, request: Request<()>) -> Result<Response<MetadataMap>, Status> {
    Ok(Response::new(request.into_parts().0))
}
