//! More requests than a member takes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tenure::grpc::stubs::KvClient;
use tonic::transport::Channel;

use crate::{Address, eventually, pb, session::connect};

/// Connections that a flood comes over.
const CONNECTIONS: usize = 4;

/// What became of the requests.
#[derive(Debug, Default)]
pub struct Tally {
    /// Asked.
    pub offered: AtomicUsize,
    /// Answered.
    pub done: AtomicUsize,
    /// Answered with "too many requests".
    pub refused: AtomicUsize,
    /// Failed otherwise.
    pub otherwise: AtomicUsize,
    stop: AtomicBool,
}

impl Tally {
    async fn ask(&self, kv: &mut KvClient<Channel>, make: &impl Make) {
        let number = self.offered.fetch_add(1, Relaxed);
        match kv.txn(make(number)).await {
            Ok(_) => self.done.fetch_add(1, Relaxed),
            Err(status) if status.message() == "etcdserver: too many requests" => {
                self.refused.fetch_add(1, Relaxed)
            }
            Err(_) => self.otherwise.fetch_add(1, Relaxed),
        };
    }
}

/// Makes the request of a number.
pub trait Make: Fn(usize) -> pb::TxnRequest + Clone + Send + Sync + 'static {}

impl<F: Fn(usize) -> pb::TxnRequest + Clone + Send + Sync + 'static> Make for F {}

/// Load on one member until it is dropped, on a thread of its own so that measurements do not wait behind it.
#[derive(Debug)]
pub struct Flood {
    /// What became of it so far.
    pub tally: Arc<Tally>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn run(
        to: Address,
        flood: impl AsyncFnOnce(Vec<KvClient<Channel>>, Arc<Tally>) + Send + 'static,
    ) -> Flood {
        let tally = Arc::new(Tally::default());
        let shared = Arc::clone(&tally);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async move {
                let mut clients = Vec::new();
                for _ in 0..CONNECTIONS {
                    clients.push(KvClient::new(connect(to).await));
                }
                flood(clients, shared).await;
            });
        };
        Flood { tally, thread: Some(std::thread::spawn(run)) }
    }

    /// So many under way at once, as fast as they are answered.
    pub fn closed(to: Address, in_flight: usize, make: impl Make) -> Flood {
        Flood::run(to, async move |clients, tally| {
            let mut callers = tokio::task::JoinSet::new();
            for n in 0..in_flight {
                let (mut kv, tally) = (clients[n % CONNECTIONS].clone(), Arc::clone(&tally));
                let make = make.clone();
                callers.spawn(async move {
                    while !tally.stop.load(Relaxed) {
                        tally.ask(&mut kv, &make).await;
                    }
                });
            }
            callers.join_all().await;
        })
    }

    /// So many in a second, whatever becomes of those before.
    pub fn open(to: Address, per_second: f64, make: impl Make) -> Flood {
        Flood::run(to, async move |clients, tally| {
            let began = Instant::now();
            let mut begun = 0;
            while !tally.stop.load(Relaxed) {
                let due = (began.elapsed().as_secs_f64() * per_second) as usize;
                for n in begun..due {
                    let (mut kv, tally) = (clients[n % CONNECTIONS].clone(), Arc::clone(&tally));
                    let make = make.clone();
                    tokio::spawn(async move { tally.ask(&mut kv, &make).await });
                }
                begun = due;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    }

    /// Waits until so many were done.
    pub async fn progress(&self, count: usize) {
        eventually("something is done", async || {
            let done = self.tally.done.load(Relaxed);
            if done > count { Ok(()) } else { Err(format!("{:?}", self.tally)) }
        })
        .await;
    }

    /// How much is offered and how much is done in a second, while it is looked at.
    pub async fn per_second(&self, time: Duration) -> (f64, f64) {
        let seen = || (self.tally.offered.load(Relaxed), self.tally.done.load(Relaxed));
        let ((offered, done), began) = (seen(), Instant::now());
        tokio::time::sleep(time).await;
        let ((offered_then, done_then), took) = (seen(), began.elapsed().as_secs_f64());
        ((offered_then - offered) as f64 / took, (done_then - done) as f64 / took)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.tally.stop.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
