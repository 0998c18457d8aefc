//! Starting, accepting connections, and ending in order.
//!
//! One listener, whose connections are dealt out to the workers in turn. Several listeners on one port
//! would share the work as well, but also with a second proxy that somebody starts by mistake, and
//! that one has another memory.

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

use super::door::Door;
use super::lane::Stock;
use super::metrics::{InFlight, Metrics};
use super::pool::Pool;
use super::talk::Talk;
use super::{Args, Proxy, Stay, Waits, Worker, admin, connection};
use crate::args::ClientArgs;
use crate::exit::Exit;
use crate::files;
use crate::talk::say;

/// How long to wait when there are no more file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// How often connections to the upstream that grew old are closed.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Runs the proxy until it is told to stop.
pub(crate) fn run(args: Args, client: ClientArgs) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(args, client))
}

async fn serve(args: Args, client: ClientArgs) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    files::allow_many();
    let (gate, remembers) = open_gate(&args)?;
    let horizon = match args.no_cluster {
        true => None,
        false => Some(Horizon::new(client.settings()?.client())),
    };
    let listener = listen(args.listen, "--listen").await?;
    let address = listener.local_addr()?;
    let proxy = Arc::new(Proxy {
        upstream: args.upstream.clone(),
        rewrite_host: args.rewrite_host,
        metrics: Metrics::new(&gate),
        door: Door {
            gate,
            rule: TokenRule {
                header: args.header.clone(),
                reads_need_token: args.reads_need_token,
            },
            naming: args.naming(),
            horizon,
        },
        waits: Waits {
            upstream: args.upstream_timeout,
            client: args.client_timeout,
            settle: args.settle(),
        },
        talk: Talk::default(),
    });
    if let Some(admin) = args.admin_listen {
        let listener = listen(admin, "--admin-listen").await?;
        say(format!("metrics on http://{}/metrics", listener.local_addr()?));
        tokio::spawn(admin::serve(listener, Arc::clone(&proxy)));
    }
    if let Some(horizon) = &proxy.door.horizon
        && let Err(error) = horizon.look().await
    {
        say(format!("newer tokens get 503 until the cluster can be asked: {error}"));
    }
    say(format!("listening on {address}, in front of {}", args.upstream));
    // A proxy that was killed has forgotten what was under way. One that has seen no token cannot tell
    // an old holder from a new one, and nothing is won by waiting.
    let settle = if remembers { args.settle() } else { Duration::ZERO };
    if !settle.is_zero() {
        say(format!(
            "requests wait for {settle:?}: what was under way before may go on (--settle)"
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
    say("stopping: no more requests are taken; a second signal ends what is under way".to_owned());
    let _ = stop.send(true);
    tokio::select! {
        ended = timeout(args.grace, workers.end()) => match ended {
            Ok(()) => Ok(Exit::Done),
            Err(_) => anyhow::bail!("what was under way did not end within {:?}", args.grace),
        },
        () = signals.next() => Ok(Exit::Interrupted),
    }
}

/// The gate, and whether it may have been open before.
fn open_gate(args: &Args) -> anyhow::Result<(Gate, bool)> {
    let limits = args.limits();
    let Some(file) = &args.state else {
        say("no state file: after a restart every token is as good as any other".to_owned());
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

/// Deals connections out for ever.
async fn accept(
    listener: &TcpListener,
    workers: &Workers,
    connections_max: usize,
) -> std::convert::Infallible {
    let room = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
    for turn in (0..workers.inboxes.len()).cycle() {
        let room = Arc::clone(&room).acquire_owned().await.expect("nobody closes it");
        let (stream, peer) = loop {
            match listener.accept().await {
                Ok(accepted) => break accepted,
                Err(_) => sleep(PAUSE).await,
            }
        };
        // A socket belongs to the runtime that watches it; here it changes hands.
        if let Ok(stream) = stream.into_std() {
            let counted = workers.proxy.metrics.connected();
            let arrival = Arrival { stream, peer, room: Arc::new(room), _counted: counted };
            let _ = workers.inboxes[turn].send(arrival);
        }
    }
    unreachable!("there is at least one worker")
}

/// A connection on its way to a worker.
struct Arrival {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    room: Arc<OwnedSemaphorePermit>,
    _counted: InFlight,
}

struct Workers {
    proxy: Arc<Proxy>,
    inboxes: Vec<mpsc::UnboundedSender<Arrival>>,
    ended: mpsc::Receiver<std::convert::Infallible>,
}

impl Workers {
    fn start(
        proxy: &Arc<Proxy>,
        threads: Option<usize>,
        stopped: &watch::Receiver<bool>,
    ) -> anyhow::Result<Workers> {
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
        let (alive, ended) = mpsc::channel(1);
        let mut inboxes = Vec::new();
        for number in 0..threads.unwrap_or(cores) {
            let (inbox, arrivals) = mpsc::unbounded_channel();
            inboxes.push(inbox);
            let pool = Arc::new(Pool::new(proxy.upstream.clone()));
            let stock = Stock::default();
            let worker = Arc::new(Worker { proxy: Arc::clone(proxy), pool, stock });
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (stopped, alive) = (stopped.clone(), alive.clone());
            let thread = thread::Builder::new().name(format!("fence-{number}"));
            thread.spawn(move || runtime.block_on(work(worker, arrivals, stopped, alive)))?;
        }
        Ok(Workers { proxy: Arc::clone(proxy), inboxes, ended })
    }

    /// Waits until nothing is under way.
    async fn end(mut self) {
        self.inboxes.clear();
        // Answers when the last one that was alive is gone.
        let _ = self.ended.recv().await;
    }
}

/// Serves whatever arrives, until nothing can any more and everything has ended.
async fn work(
    worker: Arc<Worker>,
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
    stopped: watch::Receiver<bool>,
    alive: super::Alive,
) {
    let (own_alive, mut ended) = mpsc::channel(1);
    let mut sweeps = interval(SWEEP_EVERY);
    loop {
        let arrival = tokio::select! {
            arrival = arrivals.recv() => match arrival {
                Some(arrival) => arrival,
                None => break,
            },
            _ = sweeps.tick() => {
                worker.pool.sweep();
                worker.stock.sweep();
                continue;
            }
        };
        let (worker, stopped) = (Arc::clone(&worker), stopped.clone());
        let alive = own_alive.clone();
        tokio::spawn(async move {
            let Arrival { stream, peer, room, _counted } = arrival;
            // A connection that was reset meanwhile is no news.
            if let Ok(stream) = TcpStream::from_std(stream) {
                let stay = Stay { alive, _room: room };
                connection::serve(worker, stream, peer, stopped, stay).await;
            }
        });
    }
    drop(own_alive);
    let _ = ended.recv().await;
    drop(alive);
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
