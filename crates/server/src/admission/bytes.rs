//! How much is read from clients before the core loop has its turn.
//!
//! Connections and core loop share a thread. Clients that send more than a member can take in would keep that thread reading,
//! and everything else would wait behind it: renewals of sessions, messages of other members, the clock. So reads are
//! throttled. In each *turn* connections may read so much, together; then they wait until the core loop has taken in what
//! they brought. What is not read stays with the clients, whose kernels and HTTP/2 windows are full soon.
//!
//! A member that is behind with what clients want has nothing to gain from reading more of it: it could only refuse it, and to
//! read and refuse a request may take longer than the member can afford. So the next turn then begins when it has caught up,
//! or when it has had a good while for other things.
//!
//! Two rules keep it fair. A connection that sends little is never held up: a session's renewals are heard whatever others
//! send. And connections that were held up share the next turn evenly.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::task::AtomicWaker;
use prometheus::IntCounter;
use tenure_api::Principal;
use tenure_replica::{Consistency, Operation, Read};
use tokio::sync::{Notify, watch};

use super::{Admitted, LIGHT_BYTES_MAX, REQUEST_BYTES, TURN_BYTES_MAX, calls::Calls};
use crate::{node::NodeHandle, server::stop_wanted};

/// While the member is behind, the next turn waits so many times as long as the core loop took to take in the last one, within
/// these bounds.
const RESTS: u32 = 4;
const REST_MIN: Duration = Duration::from_millis(10);
const REST_MAX: Duration = Duration::from_secs(2);

/// The throttle of a member.
#[derive(Clone, Debug)]
pub(crate) struct ReadThrottle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Which turn it is.
    turn: AtomicU64,
    /// What was read in it, by all.
    read: AtomicUsize,
    /// What each may read in it.
    share: AtomicUsize,
    /// Connections that wait for the next turn.
    held: Mutex<Vec<Arc<AtomicWaker>>>,
    /// Signals that a connection waits.
    wanted: Notify,
    /// There is no loop to begin the next turn any more, so all connections pass.
    is_open: AtomicBool,
    /// How often a connection had to wait.
    count: IntCounter,
}

impl ReadThrottle {
    pub(crate) fn new(count: IntCounter) -> ReadThrottle {
        ReadThrottle(Arc::new(Shared {
            turn: AtomicU64::new(1),
            read: AtomicUsize::new(0),
            share: AtomicUsize::new(TURN_BYTES_MAX),
            held: Mutex::default(),
            wanted: Notify::new(),
            is_open: AtomicBool::new(false),
            count,
        }))
    }

    /// For one connection.
    pub(crate) fn pass(&self) -> ReadPermit {
        let mine = Mine { turn: 0, read: 0, held_in: 0 };
        ReadPermit { shared: self.0.clone(), mine, asked: Asked::default(), waker: Arc::default() }
    }

    /// Lets waiting connections read, each time when the core loop has taken in what they brought, until the server is to stop.
    pub(crate) async fn serve(
        self,
        node: NodeHandle,
        calls: Calls,
        mut stopping: watch::Receiver<bool>,
    ) {
        self.turn(&CoreLoop { node, calls }, stop_wanted(&mut stopping)).await;
    }

    async fn turn(&self, core: &impl Core, stopped: impl Future<Output = ()>) {
        let turns = async {
            loop {
                self.0.wanted.notified().await;
                let began = Instant::now();
                if !core.had_its_turn().await {
                    return;
                }
                let rest = (RESTS * began.elapsed()).clamp(REST_MIN, REST_MAX);
                // Too late is fine: then they are let through although it is behind.
                let _ = tokio::time::timeout(rest, core.keeps_up()).await;
                self.0.begin_turn();
            }
        };
        tokio::select! {
            () = turns => {}
            () = stopped => {}
        }
        self.0.is_open.store(true, Relaxed);
        self.0.begin_turn();
    }
}

/// What the throttle wants to know of the core loop.
trait Core {
    /// Waits until it has taken in what was handed to it so far. False if there is none any more.
    async fn had_its_turn(&self) -> bool;

    /// Waits until it is not behind with what clients want.
    async fn keeps_up(&self);
}

struct CoreLoop {
    node: NodeHandle,
    calls: Calls,
}

impl Core for CoreLoop {
    async fn had_its_turn(&self) -> bool {
        let nothing = Operation::Read(Read::Freshness, Consistency::Serializable);
        let by = Admitted::in_process(Principal::System);
        self.node.ask(&by, nothing).await.is_ok()
    }

    async fn keeps_up(&self) {
        self.node.status_when(|status| !status.is_behind && !self.calls.are_many()).await;
    }
}

impl Shared {
    fn begin_turn(&self) {
        let held = std::mem::take(&mut *self.held());
        self.share.store((TURN_BYTES_MAX / held.len().max(1)).max(LIGHT_BYTES_MAX), Relaxed);
        self.read.store(0, Relaxed);
        self.turn.fetch_add(1, Relaxed);
        held.iter().for_each(|waker| waker.wake());
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<Arc<AtomicWaker>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's permit to read.
#[derive(Debug)]
pub(crate) struct ReadPermit {
    shared: Arc<Shared>,
    mine: Mine,
    asked: Asked,
    waker: Arc<AtomicWaker>,
}

/// What a connection did.
#[derive(Debug)]
struct Mine {
    /// In which turn.
    turn: u64,
    /// What it read in that.
    read: usize,
    /// In which turn it was last made to wait.
    held_in: u64,
}

/// Requests that came over a connection and are not counted yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Arc<AtomicUsize>);

impl Asked {
    /// One more.
    pub(crate) fn one(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl ReadPermit {
    /// Where requests are counted.
    pub(crate) fn asked(&self) -> Asked {
        self.asked.clone()
    }

    /// Whether this connection may read now; if not, it is woken when it may.
    pub(crate) fn poll_enter(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let asked = self.asked.0.swap(0, Relaxed);
        self.count(asked * REQUEST_BYTES);
        let ReadPermit { shared, mine, .. } = self;
        let is_share_left =
            mine.read < shared.share.load(Relaxed) && shared.read.load(Relaxed) < TURN_BYTES_MAX;
        if mine.read < LIGHT_BYTES_MAX || is_share_left || shared.is_open.load(Relaxed) {
            return Poll::Ready(());
        }
        self.waker.register(cx.waker());
        if mine.held_in != mine.turn {
            mine.held_in = mine.turn;
            shared.count.inc();
            shared.held().push(self.waker.clone());
            shared.wanted.notify_one();
            // If it was opened just before, this task would not be woken any more.
            if shared.is_open.load(Relaxed) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// So much was read.
    pub(crate) fn read(&mut self, bytes: usize) {
        self.count(bytes);
    }

    fn count(&mut self, read: usize) {
        let turn = self.shared.turn.load(Relaxed);
        if self.mine.turn != turn {
            self.mine = Mine { turn, read: 0, ..self.mine };
        }
        self.mine.read += read;
        self.shared.read.fetch_add(read, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker;
    use tokio::sync::mpsc;

    use super::*;

    fn throttle() -> ReadThrottle {
        ReadThrottle::new(IntCounter::new("held", "of a test").unwrap())
    }

    fn may_read(pass: &mut ReadPermit) -> bool {
        pass.poll_enter(&mut Context::from_waker(&noop_waker())).is_ready()
    }

    /// Reads in pieces for as long as it may; answers how much that was.
    fn read_all(pass: &mut ReadPermit) -> usize {
        const PIECE: usize = 1 << 10;
        let pieces = std::iter::from_fn(|| may_read(pass).then(|| pass.read(PIECE)));
        pieces.count() * PIECE
    }

    #[test]
    fn who_says_little_is_never_held_up() {
        let throttle = throttle();
        let (mut loud, mut quiet) = (throttle.pass(), throttle.pass());
        assert_eq!(read_all(&mut loud), TURN_BYTES_MAX);
        assert!(!may_read(&mut loud));
        assert_eq!(read_all(&mut quiet), LIGHT_BYTES_MAX);
        throttle.0.begin_turn();
        assert!(may_read(&mut loud) && may_read(&mut quiet));
    }

    #[test]
    fn those_who_were_held_up_share_the_next_turn() {
        let throttle = throttle();
        let mut passes: Vec<ReadPermit> = (0..4).map(|_| throttle.pass()).collect();
        assert_eq!(read_all(&mut passes[0]), TURN_BYTES_MAX);
        for pass in &mut passes[1..] {
            assert_eq!(read_all(pass), LIGHT_BYTES_MAX);
        }
        throttle.0.begin_turn();
        for pass in &mut passes {
            assert_eq!(read_all(pass), TURN_BYTES_MAX / 4);
        }
    }

    #[test]
    fn requests_count_however_small_they_are() {
        let throttle = throttle();
        let mut pass = throttle.pass();
        let asked = pass.asked();
        (0..TURN_BYTES_MAX / REQUEST_BYTES).for_each(|_| asked.one());
        assert!(!may_read(&mut pass));
        assert_eq!(throttle.0.count.get(), 1);
        assert!(!may_read(&mut pass), "asked again, it waits in one place");
        assert_eq!(throttle.0.held().len(), 1);
    }

    /// A core loop that has its turn when it is told so, and is behind until it is told otherwise.
    struct Told {
        turns: tokio::sync::Mutex<mpsc::UnboundedReceiver<()>>,
        keeps_up: watch::Receiver<bool>,
    }

    impl Core for Told {
        async fn had_its_turn(&self) -> bool {
            self.turns.lock().await.recv().await.is_some()
        }

        async fn keeps_up(&self) {
            let _ = self.keeps_up.clone().wait_for(|keeps_up| *keeps_up).await;
        }
    }

    async fn until_it_may_read(pass: &mut ReadPermit) {
        std::future::poll_fn(|cx| pass.poll_enter(cx)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_begins_when_the_core_loop_had_one_and_keeps_up() {
        let throttle = throttle();
        let (turns, seen) = mpsc::unbounded_channel();
        let (keeps_up, keeping_up) = watch::channel(true);
        let told = Told { turns: tokio::sync::Mutex::new(seen), keeps_up: keeping_up };
        let mut pass = throttle.pass();
        let turning = throttle.turn(&told, std::future::pending());
        let story = async {
            assert_eq!(read_all(&mut pass), TURN_BYTES_MAX);
            tokio::time::sleep(REST_MAX).await;
            assert!(!may_read(&mut pass), "the core loop had no turn yet");
            turns.send(()).unwrap();
            until_it_may_read(&mut pass).await;
            keeps_up.send_replace(false);
            assert_eq!(read_all(&mut pass), TURN_BYTES_MAX);
            turns.send(()).unwrap();
            tokio::time::sleep(REST_MIN / 2).await;
            assert!(!may_read(&mut pass), "it is behind");
            keeps_up.send_replace(true);
            until_it_may_read(&mut pass).await;
            keeps_up.send_replace(false);
            assert_eq!(read_all(&mut pass), TURN_BYTES_MAX);
            turns.send(()).unwrap();
            let began = tokio::time::Instant::now();
            until_it_may_read(&mut pass).await;
            let waited = began.elapsed();
            assert!(
                waited >= REST_MIN && waited <= 2 * REST_MIN,
                "{waited:?}, though it is behind"
            );
            assert_eq!(read_all(&mut pass), TURN_BYTES_MAX);
            drop(turns);
            until_it_may_read(&mut pass).await;
            pass.read(10 * TURN_BYTES_MAX);
            assert!(may_read(&mut pass), "there is no core loop to wait for");
        };
        tokio::join!(turning, story);
    }
}
