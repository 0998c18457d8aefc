//! A server from its settings to its end.

mod authority;
mod bootstrap;
pub(crate) mod handshake;
mod listen;
mod metered;
mod serve;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use axum::Router;
use tenure_api::{ClusterId, MemberId};
use tenure_replica::{Moment, RaftRole, Replica, Retention, Status};
use tenure_tls::{ServerTls, TlsError};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tracing::{info, warn};

pub use self::listen::{ListenError, at as listen, owner_of};
pub(crate) use self::serve::stop_wanted;
use self::{bootstrap::Seat, handshake::Tls, listen::Listener};
use crate::{
    admission::{Admission, Calls, Connections, ReadThrottle},
    audit::{Audit, AuditError},
    auth::{Identities, Passwords, SimpleTokens, TokenKind, TokenSettingError, recover},
    backup::{self, BackupError},
    browsers::{Browsers, Guarded},
    config::{self, AutoCompaction, Config, Problem, UiMode, host, is_tls},
    disk::{DataDir, DiskError, Identity, RecoveredLog, Torn, snapshot},
    grpc,
    http::{self, UiFacts},
    metrics::{Counted, Metrics},
    node::{Alarms, Core, NodeHandle, Parts, Stopped},
    peer::{PeerSecurity, Transport, TransportConfig},
};

/// How often it is looked for tokens that were not used for too long.
const TOKEN_SWEEP: Duration = Duration::from_secs(1);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Settings that break rules, all of them.
    #[error("the settings cannot work:\n{}", list(.0))]
    Settings(Vec<Problem>),
    /// An address could not be listened to.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The audit log that was asked for cannot be kept.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// What users are to get that log in cannot be given.
    #[error(transparent)]
    Tokens(#[from] TokenSettingError),
    /// The files for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The newest snapshot cannot be used.
    #[error(transparent)]
    Snapshot(#[from] snapshot::LoadError),
    /// The data of a lost cluster cannot be taken over.
    #[error(transparent)]
    ForceNewCluster(#[from] BackupError),
    /// It shall join a running cluster, but the settings name no member of it.
    #[error(
        "{} is new and --initial-cluster-state is existing, but --initial-cluster names no other member: \
         use the line that tenure member add has printed",
        .0.display()
    )]
    NobodyToJoin(std::path::PathBuf),
    /// The cluster does not know this member.
    #[error(
        "cluster {cluster} has no member at {urls}: add it first with \
         tenure member add {name} --peer-urls={urls}, or check --initial-advertise-peer-urls"
    )]
    NotAdded {
        /// This member's name.
        name: String,
        /// Where it is reached.
        urls: String,
        /// Which cluster.
        cluster: ClusterId,
    },
    /// The cluster expects the data of a member that has run, not a new one.
    #[error(
        "member {member} of cluster {cluster}, at {urls}, has run before with another data directory than {}: start \
         it with that one. If it is lost, replace the member: tenure member remove {member}, then \
         tenure member add {name} --peer-urls={urls}",
        dir.display()
    )]
    RanBefore {
        /// This directory.
        dir: std::path::PathBuf,
        /// This member's name.
        name: String,
        /// Where it is reached.
        urls: String,
        /// The member that is known there.
        member: MemberId,
        /// Of which cluster.
        cluster: ClusterId,
    },
    /// The cluster uses commands that this release does not know.
    #[error(
        "the cluster uses commands of version {cluster}, this release knows them up to {}: install a newer one",
        tenure_replica::command::COMMAND_VERSION
    )]
    TooOld {
        /// The version in force there.
        cluster: u32,
    },
    /// The member that this directory belongs to is one no longer.
    #[error(
        "the member of {} was removed from the cluster; to join again, remove the directory and add it as a \
         new member (tenure member add)",
        .0.display()
    )]
    Removed(std::path::PathBuf),
    /// The data directory belongs to another member.
    #[error(
        "{} belongs to member {} of cluster {}, but the settings make this member {me} of cluster {cluster}: \
         use the settings it was made with, or another --data-dir (if the member joined a running cluster, \
         --initial-cluster-state must be existing){}",
        dir.display(), found.member_id, found.cluster_id, once_more(*found, *me)
    )]
    ForeignData {
        /// Which directory.
        dir: std::path::PathBuf,
        /// Whose it is.
        found: Identity,
        /// This member.
        me: MemberId,
        /// Of which cluster.
        cluster: ClusterId,
    },
}

/// For a founder whose list was rewritten before its directory knew it.
fn once_more(found: Identity, me: MemberId) -> &'static str {
    if found.member_id == me && !found.joined {
        "; it remembers the --initial-cluster it was made with once it was started with it by this release"
    } else {
        ""
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
}

/// A server that runs.
pub struct Server {
    node: NodeHandle,
    client_addresses: Vec<SocketAddr>,
    client_urls: Vec<String>,
    stop: watch::Sender<bool>,
    core: JoinHandle<Result<(), Stopped>>,
    doors: Vec<JoinHandle<()>>,
    election_timeout: std::time::Duration,
    data_dir: std::path::PathBuf,
    identity: Identity,
}

impl Server {
    /// Starts a server; when this returns, it listens.
    pub async fn start(config: Config) -> Result<Server, StartError> {
        Server::start_with(config, Router::new()).await
    }

    /// The same, with more to be served over HTTP to clients, under the same rules for browsers.
    pub async fn start_with(config: Config, more: Router) -> Result<Server, StartError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(StartError::Settings(problems));
        }
        let token_kind = TokenKind::read(&config.auth_token)?;
        config.warnings().iter().for_each(|warning| warn!("{warning}"));
        let clients = listen::all(&config.listen_client_urls, "listen-client-urls").await?;
        let watchers = listen::all(&config.listen_metrics_urls, "listen-metrics-urls").await?;
        let listener = listen::one(&config.listen_peer_urls, "listen-peer-urls").await?;
        if config.force_new_cluster {
            backup::force_new_cluster(&config)?;
        }
        let (mut disk, recovered) = DataDir::open(&config.data_dir, config.wal_dir.as_deref())?;
        if !config.force_new_cluster {
            disk.forget_forced()?;
        }
        let tls = client_tls(&config)?;
        let bootstrap = Seat::find(&config, &recovered).await?;
        let (me, cluster) = (bootstrap.me(), bootstrap.cluster());
        let audit = config.audit_log.as_ref().map(|target| Audit::open(&config.name, target));
        let audit = audit.transpose()?.unwrap_or_default();
        claim(&mut disk, recovered.torn.as_ref(), &bootstrap)?;
        let clock = Instant::now();
        let boot = recovered.boot;
        let directory = recovered.directory;
        let snapshots = disk.snapshots();
        let replica = replica(&config, &bootstrap, recovered)?;
        let (events_sender, events) = mpsc::unbounded_channel();
        let log_events = events_sender.clone();
        let writer = disk.start_writer(move |event| {
            let _ = log_events.send(crate::node::CoreEvent::Log(event));
        });
        let (peer_sender, peer_events) = mpsc::unbounded_channel();
        let setup = TransportConfig {
            me,
            cluster_id: cluster,
            boot,
            directory,
            command_version: tenure_replica::command::COMMAND_VERSION,
            listener,
            peers: bootstrap.peers(),
            snapshots: snapshots.clone(),
            security: PeerSecurity::new(&config)?,
        };
        let transport = Transport::start(setup, peer_sender);
        let parts = Parts {
            replica,
            clock,
            writer,
            transport,
            others: bootstrap.peers(),
            peers: peer_events,
            events: (events_sender, events),
            snapshots,
            metrics: Arc::new(Metrics::new(&config)),
            alarms: Alarms {
                heartbeat: config.heartbeat_interval,
                slow_apply: config.warning_apply_duration,
            },
            token_ttl: config.token_ttl(),
        };
        let (core, node) = Core::new(me, cluster, parts);
        let node = node.audited(audit);
        let identities = Arc::new(Identities::new(node.clone(), token_kind.clone()));
        let (stop, stopping) = watch::channel(false);
        let limits = grpc::RequestLimits {
            request_bytes_max: config.max_request_bytes,
            txn_ops_max: config.max_txn_ops,
            leaderless_max: 3 * config.election_timeout,
        };
        let passwords = Passwords::new(config.bcrypt_cost);
        let services = grpc::routes(&node, limits, passwords, token_kind);
        let services = services.into_axum_router().fallback(http::nothing_here);
        let admission = Admission::new(services.clone(), identities.clone());
        let mut gateway = http::gateway::routes(&admission, limits.request_bytes_max);
        let judge = http::gateway::keep_certificates_out;
        gateway = gateway.layer(axum::middleware::from_fn_with_state(node.clone(), judge));
        if config.ui == UiMode::ReadOnly {
            gateway = gateway.layer(axum::middleware::from_fn(http::keep_pages_reading));
        }
        let mut router = services.merge(http::routes(node.clone())).merge(gateway).merge(more);
        if config.ui != UiMode::Off {
            let facts = UiFacts::of_member(config.ui, config.lab);
            router = router.merge(http::ui_routes(facts, Some(node.clone())));
        }
        let client_addresses =
            clients.iter().filter_map(|listener| listener.socket.local_addr().ok()).collect();
        let client_urls = clients.iter().filter_map(Listener::url).collect();
        let guarded = |router, listeners: &[Listener]| {
            let router = Admission::new(router, identities.clone());
            let counted = Counted { router, metrics: node.metrics.clone() };
            let local = |listener: &Listener| Some(listener.socket.local_addr().ok()?.ip());
            let (cors, names) = (&config.cors, &config.host_whitelist);
            let advertised = &config.advertise_client_urls;
            let listens = listeners.iter().filter_map(local);
            let browsers = Arc::new(Browsers::new(cors, names, advertised, listens));
            Guarded { browsers, inner: counted }
        };
        let patience = serve::Patience::of(&config);
        let throttle = ReadThrottle::new(node.metrics.network.client_held.clone());
        let calls = Calls::default();
        tokio::spawn(recover(config.data_dir.clone(), node.clone()));
        tokio::spawn(sweep(node.tokens.clone(), stopping.clone()));
        tokio::spawn(throttle.clone().serve(node.clone(), calls.clone(), stopping.clone()));
        let connections = Connections::of_clients();
        let of_clients = serve::Limits { patience, throttle, calls, connections };
        let connections = Connections::for_metrics();
        let for_metrics = serve::Limits { connections, ..of_clients.clone() };
        let serve = |listener: Listener, router: &Guarded<Counted>, limits: &serve::Limits| {
            let (tls, limits, stopping) = (tls.clone(), limits.clone(), stopping.clone());
            tokio::spawn(serve::clients(listener, tls, router.clone(), limits, stopping))
        };
        let metrics = http::routes(node.clone()).fallback(http::nothing_here);
        let watched = guarded(metrics, &watchers);
        let router = guarded(router, &clients);
        let doors = clients.into_iter().map(|listener| serve(listener, &router, &of_clients));
        let watchers = watchers.into_iter().map(|listener| serve(listener, &watched, &for_metrics));
        let doors = doors.chain(watchers).collect();
        Ok(Server {
            client_addresses,
            client_urls,
            stop,
            core: tokio::spawn(core.run()),
            doors,
            election_timeout: config.election_timeout,
            data_dir: config.data_dir,
            identity: bootstrap.identity,
            node,
        })
    }

    /// Where clients are listened to.
    pub fn client_addresses(&self) -> &[SocketAddr] {
        &self.client_addresses
    }

    /// The same as URLs, `https` where TLS is spoken.
    pub fn client_urls(&self) -> &[String] {
        &self.client_urls
    }

    /// The node's handle, for a program that runs the server inside itself.
    pub fn node(&self) -> &NodeHandle {
        &self.node
    }

    /// Waits until the member cannot go on, or until `signal`; then hands over and stops.
    pub async fn run_until(mut self, signal: impl Future<Output = ()>) -> Result<(), Stopped> {
        tokio::select! {
            ended = &mut self.core => {
                let ended = ended.unwrap_or(Ok(()));
                if let Err(Stopped::Removed(_)) = &ended {
                    self.retire().await;
                }
                return ended;
            }
            () = signal => {}
        }
        self.hand_over().await;
        self.close_doors().await;
        self.core.abort();
        let _ = (&mut self.core).await;
        Ok(())
    }

    async fn close_doors(&mut self) {
        self.node.close();
        self.stop.send_replace(true);
        for node in &mut self.doors {
            let _ = node.await;
        }
    }

    /// Remembers that the cluster goes on without this member, and lets its last answers out.
    async fn retire(&mut self) {
        if let Err(cause) = DataDir::mark_removed(&self.data_dir, self.identity) {
            warn!(%cause, "cannot note that this member was removed; it will be told again");
        }
        self.close_doors().await;
    }

    /// A leader that just left would leave a vacancy; it hands over first and stops then.
    async fn hand_over(&self) {
        let alone = self.node.status().voters == 1;
        if alone || self.node.status().role != RaftRole::Leader {
            return;
        }
        info!("handing over before stopping");
        self.node.hand_over();
        let follows = |status: &std::sync::Arc<Status>| {
            status.role != RaftRole::Leader && status.leader.is_some()
        };
        let handed = self.node.status_when(follows);
        if tokio::time::timeout(2 * self.election_timeout, handed).await.is_err() {
            warn!("nobody took over in time");
        }
    }
}

/// Forgets tokens that were not used for too long.
async fn sweep(tokens: SimpleTokens, mut stopping: watch::Receiver<bool>) {
    let mut every = tokio::time::interval(TOKEN_SWEEP);
    loop {
        tokio::select! {
            _ = every.tick() => tokens.sweep(Instant::now()),
            () = stop_wanted(&mut stopping) => return,
        }
    }
}

/// TLS with clients, if an address asks for it.
fn client_tls(config: &Config) -> Result<Option<Tls>, TlsError> {
    let urls = || {
        let all = config.listen_client_urls.iter().chain(&config.listen_metrics_urls);
        all.filter(|url| is_tls(url))
    };
    if urls().next().is_none() {
        return Ok(None);
    }
    let settings = &config.client_tls;
    let pair = match settings.pair() {
        Some(pair) => pair,
        None => {
            let hosts = urls().filter_map(|url| host(url)).collect();
            let dir = config.data_dir.join("fixtures").join("client");
            config::auto_pair(&dir, hosts, config.self_signed_cert_validity)?
        }
    };
    let protocol = config.tls_protocol.read().unwrap_or_default();
    let server = ServerTls::new(settings.server(pair, protocol))?;
    Ok(Some(Tls::new(server, settings.client_cert_auth)))
}

/// Makes the directory this member's.
fn claim(disk: &mut DataDir, torn: Option<&Torn>, bootstrap: &Seat) -> Result<(), StartError> {
    if let Some(torn) = torn {
        warn!(
            file = %torn.file.display(), offset = torn.offset, bytes = torn.bytes,
            "cut a torn end off the log: it was being written when the machine or process stopped"
        );
    }
    if !bootstrap.first_members.is_empty() {
        disk.keep_founders(&bootstrap.first_members)?;
    }
    Ok(disk.claim(bootstrap.identity)?)
}

fn replica(
    config: &Config,
    bootstrap: &Seat,
    recovered: RecoveredLog,
) -> Result<Replica, StartError> {
    let mut settings =
        tenure_replica::ReplicaConfig::new(bootstrap.me(), bootstrap.first_members.clone());
    settings.name.clone_from(&config.name);
    settings.client_urls.clone_from(&config.advertise_client_urls);
    settings.directory = recovered.directory;
    settings.seed = recovered.directory;
    settings.clock_start_ms = unix_ms();
    settings.heartbeat = config.heartbeat_interval;
    settings.tick = settings.tick.min(config.heartbeat_interval);
    settings.election_timeout = config.election_timeout;
    settings.request_timeout = std::time::Duration::from_secs(5) + 2 * config.election_timeout;
    settings.pre_vote = config.pre_vote;
    settings.snapshot_entries = config.snapshot_count;
    settings.watch.progress_interval = config.watch_progress_notify_interval;
    settings.quota_bytes = config.quota();
    settings.retention = retention(config.auto_compaction);
    settings.audit_interval = config.corrupt_check_time;
    let snapshot = match &recovered.snapshot {
        Some(saved) => Some(snapshot::load(&saved.path)?),
        None => None,
    };
    let recovered = tenure_replica::Recovered {
        boot: recovered.boot,
        snapshot,
        hard_state: recovered.hard_state,
        entries: recovered.entries,
    };
    Ok(Replica::new(Moment::ZERO, settings, recovered))
}

/// The wall clock, for people to read.
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn retention(setting: AutoCompaction) -> Retention {
    match setting {
        AutoCompaction::Off => Retention::All,
        AutoCompaction::Periodic(period) => Retention::Period(period),
        AutoCompaction::Revisions(kept) => Retention::Revisions(kept.min(i64::MAX as u64) as i64),
    }
}
