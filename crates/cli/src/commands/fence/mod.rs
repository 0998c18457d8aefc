//! A reverse proxy that lets only the newest holder through, for services that cannot be changed.
//!
//! A request comes in on a connection ([`connection`]), its head is looked at ([`door`]: token,
//! [`resource`], is the token possible, does the gate open), and it becomes an [`exchange`] with the
//! upstream: a task of its own, which nobody's hanging up can cancel, and which is [`inside`] the gate
//! until the upstream has ended its part. The table of answers to those who do not come in is
//! the library's ([`tenure::fence::http`]); [`answer`] has the proxy's own. Before all that there is a
//! [`lane`] for what only passes: plain reads, byte by byte.
//!
//! Each worker is a thread with a runtime and a [`pool`] of connections of its own; they share the gate
//! and nothing else that is waited for. [`serve`] accepts connections, deals them out in turn, and ends
//! it all in order. [`head`] rewrites heads, [`upload`] and [`reply`] are the bodies on their way,
//! [`wire`] is a socket that can be closed with a reset, [`metrics`] and [`admin`] tell what happened, [`talk`] says so on stderr, but not
//! too often. [`patient`] ends with clients that do not read.

mod admin;
mod answer;
mod args;
mod connection;
mod door;
mod exchange;
#[cfg(test)]
mod fuzz;
mod head;
mod inside;
mod lane;
mod metrics;
mod patient;
mod pool;
mod reply;
mod resource;
mod serve;
mod talk;
mod upload;
mod upstream;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use self::answer::Failure;
pub(crate) use self::args::Args;
use self::door::Door;
use self::metrics::Metrics;
pub(crate) use self::serve::run;
use self::talk::Talk;
use self::upstream::Upstream;

/// What can go wrong with a body on its way.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What all workers share.
#[derive(Debug)]
struct Proxy {
    upstream: Upstream,
    /// Whether the upstream gets its own name in `Host`.
    rewrite_host: bool,
    door: Door,
    waits: Waits,
    metrics: Metrics,
    talk: Talk,
}

impl Proxy {
    /// A request has no answer of the upstream, or not all of it.
    fn failed(&self, failure: &Failure) {
        self.metrics.failed(failure.reason());
        self.talk.failed(failure);
    }
}

/// How long is waited for whom.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// For the upstream: to answer, to go on answering, to go on reading.
    upstream: Duration,
    /// For a client: to go on sending, to go on reading.
    client: Duration,
    /// How long the upstream may go on working on what it did not finish.
    settle: Duration,
}

/// Something that is alive, for those who wait until nothing is.
type Alive = tokio::sync::mpsc::Sender<std::convert::Infallible>;

/// A client's presence: its connection, and every exchange that it began, whether or not it is there.
#[derive(Clone, Debug)]
struct Stay {
    alive: Alive,
    /// One of `--max-connections`, until the last of them has ended.
    _room: Arc<OwnedSemaphorePermit>,
}

/// One thread's part.
#[derive(Debug)]
struct Worker {
    proxy: Arc<Proxy>,
    pool: Arc<pool::Pool>,
    stock: lane::Stock,
}
