//! Starting, accepting connections, and stopping in order.
//!
//! There is one listener, whose connections are dealt out to the workers in turn. One listener for each worker
//! on the same port (`SO_REUSEPORT`) would spread them as well, but would also let a second proxy with
//! another state listen there by mistake.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tenure::fence::http::TokenRule;
use tenure::fence::{Gate, Horizon};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{interval, sleep, timeout};

use super::admission::AdmissionPolicy;
use super::log::RequestLog;
use super::metrics::{InFlight, Metrics};
use super::pool::Pool;
use super::{Args, ConnectionSlot, Proxy, Timeouts, WorkGuard, Worker, admin, connection};
use crate::args::ClientArgs;
use crate::exit::Exit;
use crate::files;
use crate::talk::say;

/// How long to wait when a connection cannot be accepted, usually for want of file descriptors.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(100);
/// How often idle connections to the upstream are looked at.
const CLOSE_OLD_EVERY: Duration = Duration::from_secs(1);

/// Runs the proxy until a signal stops it.
pub(crate) fn run(args: Args, client: ClientArgs) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(args, client))
}

async fn serve(args: Args, client: ClientArgs) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    files::allow_many();
    let (gate, was_open_before) = open_gate(&args)?;
    let horizon = match args.no_cluster {
        true => None,
        false => Some(Horizon::new(client.settings()?.client())),
    };
    let server_tls = args.tls.server()?;
    let upstream_tls = args.tls.upstream(&args.upstream)?;
    let listener = listen(args.listen, "--listen").await?;
    let address = listener.local_addr()?;
    let proxy = Arc::new(Proxy {
        upstream: args.upstream.clone(),
        tls: server_tls,
        upstream_tls,
        rewrite_host: args.rewrite_host,
        metrics: Metrics::new(&gate),
        admission: AdmissionPolicy {
            gate,
            rule: TokenRule {
                header: args.header.clone(),
                reads_need_token: args.reads_need_token,
            },
            resources: args.resource_rule(),
            horizon,
            election: args.election.clone(),
            tells_tokens: args.tell_tokens,
        },
        timeouts: Timeouts {
            upstream: args.upstream_timeout,
            client: args.client_timeout,
            settle: args.settle(),
        },
        log: RequestLog::default(),
    });
    if let Some(admin) = args.admin_listen {
        let listener = listen(admin, "--admin-listen").await?;
        say(format!("metrics on http://{}/metrics", listener.local_addr()?));
        tokio::spawn(admin::serve(listener, Arc::clone(&proxy)));
    }
    if let Some(horizon) = &proxy.admission.horizon
        && let Err(error) = horizon.look().await
    {
        say(format!("newer tokens get 503 until the cluster can be asked: {error}"));
    }
    say(format!("listening on {address}, in front of {}", args.upstream));
    // A proxy that was killed does not know which requests were under way. One with a new gate has seen no
    // token, cannot tell an old holder from a new one, and would win nothing by waiting.
    let settle = if was_open_before { args.settle() } else { Duration::ZERO };
    if !settle.is_zero() {
        say(format!(
            "requests wait for {settle:?}: requests from before the start may still be at work (--settle)"
        ));
    }
    tokio::select! {
        () = sleep(settle) => {}
        () = signals.next() => return Ok(Exit::Done),
    }
    let (stop, stopped) = watch::channel(false);
    let workers = Workers::start(&proxy, args.threads, &stopped)?;
    tokio::select! {
        never = accept(&listener, &workers, args.max_connections) => match never {},
        () = signals.next() => {}
    }
    drop(listener);
    say("stopping: no more requests are taken; a second signal ends those under way".to_owned());
    let _ = stop.send(true);
    tokio::select! {
        ended = timeout(args.grace, workers.stop()) => match ended {
            Ok(()) => Ok(Exit::Done),
            Err(_) => anyhow::bail!("requests under way did not end within {:?} (--grace)", args.grace),
        },
        () = signals.next() => Ok(Exit::Interrupted),
    }
}

/// The gate, and whether it may have admitted requests before.
fn open_gate(args: &Args) -> anyhow::Result<(Gate, bool)> {
    let limits = args.limits();
    let Some(file) = &args.state else {
        say("no state file: after a restart this proxy admits any token".to_owned());
        return Ok((Gate::in_memory(limits), false));
    };
    if args.state_must_exist {
        return Ok((Gate::open(file, limits)?, true));
    }
    let is_new = !file.exists();
    let gate = Gate::open_or_create(file, limits)?;
    if is_new {
        say(format!("{} is new: this proxy has seen no token yet", file.display()));
    }
    Ok((gate, !is_new))
}

async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}; choose another with {flag}"))
}

/// Accepts connections and deals them out to the workers.
async fn accept(
    listener: &TcpListener,
    workers: &Workers,
    connections_max: usize,
) -> std::convert::Infallible {
    let slots = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
    for turn in (0..workers.inboxes.len()).cycle() {
        let permit = Arc::clone(&slots).acquire_owned().await.expect("it is never closed");
        let (stream, peer) = loop {
            match listener.accept().await {
                Ok(accepted) => break accepted,
                Err(_) => sleep(ACCEPT_RETRY_AFTER).await,
            }
        };
        // A tokio socket belongs to one runtime. As a plain one it can go to another.
        if let Ok(stream) = stream.into_std() {
            let counted = workers.proxy.metrics.connected();
            let accepted = Accepted { stream, peer, permit: Arc::new(permit), _counted: counted };
            let _ = workers.inboxes[turn].send(accepted);
        }
    }
    unreachable!("there is at least one worker")
}

/// A connection on its way to a worker.
struct Accepted {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    permit: Arc<OwnedSemaphorePermit>,
    _counted: InFlight,
}

struct Workers {
    proxy: Arc<Proxy>,
    inboxes: Vec<mpsc::UnboundedSender<Accepted>>,
    /// Closed when all workers have stopped.
    stopped: mpsc::Receiver<std::convert::Infallible>,
}

impl Workers {
    fn start(
        proxy: &Arc<Proxy>,
        threads: Option<usize>,
        stopped: &watch::Receiver<bool>,
    ) -> anyhow::Result<Workers> {
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
        let (working, all_stopped) = mpsc::channel(1);
        let mut inboxes = Vec::new();
        for number in 0..threads.unwrap_or(cores) {
            let (inbox, accepted) = mpsc::unbounded_channel();
            inboxes.push(inbox);
            let pool = Pool::new(proxy.upstream.clone(), proxy.upstream_tls.clone());
            let worker = Arc::new(Worker { proxy: Arc::clone(proxy), pool });
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (stopped, working) = (stopped.clone(), working.clone());
            let thread = thread::Builder::new().name(format!("fence-{number}"));
            thread.spawn(move || runtime.block_on(work(worker, accepted, stopped, working)))?;
        }
        Ok(Workers { proxy: Arc::clone(proxy), inboxes, stopped: all_stopped })
    }

    /// Waits until no request is under way.
    async fn stop(mut self) {
        self.inboxes.clear();
        // Nothing is ever sent: it returns when the last sender is gone.
        let _ = self.stopped.recv().await;
    }
}

/// Serves connections until the listener is closed and everything under way has ended.
async fn work(
    worker: Arc<Worker>,
    mut inbox: mpsc::UnboundedReceiver<Accepted>,
    stopped: watch::Receiver<bool>,
    _working: WorkGuard,
) {
    let (working, mut all_ended) = mpsc::channel(1);
    let mut close_old = interval(CLOSE_OLD_EVERY);
    loop {
        let accepted = tokio::select! {
            accepted = inbox.recv() => match accepted {
                Some(accepted) => accepted,
                None => break,
            },
            _ = close_old.tick() => {
                worker.pool.close_old();
                continue;
            }
        };
        let (worker, stopped) = (Arc::clone(&worker), stopped.clone());
        let working = working.clone();
        tokio::spawn(async move {
            let Accepted { stream, peer, permit, _counted } = accepted;
            // Fails for a connection that was reset meanwhile.
            if let Ok(stream) = TcpStream::from_std(stream) {
                let slot = ConnectionSlot { working, _permit: permit };
                connection::serve(worker, stream, peer, stopped, slot).await;
            }
        });
    }
    drop(working);
    let _ = all_ended.recv().await;
}

/// Both signals that ask a process to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Signals> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Signals { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
