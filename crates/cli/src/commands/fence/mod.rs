//! `tenure fence`: a reverse proxy that fences off replaced leaders, for services that cannot be changed.
//!
//! hyper speaks HTTP/1.1 on both sides. A client's [`connection`] hands each request to the [`handler`].
//! [`admission`] checks its token and resource and waits at the gate; [`headers`] rewrites its head; an
//! [`exchange`] sends it to the upstream and hands the answer back, and holds the [`passage`] through the
//! gate until the upstream has ended its part. [`request_body`] and [`response_body`] are the bodies on
//! their way. Refusals are the library's ([`tenure::fence::http`]); a [`failure`] is the proxy's own answer
//! when the upstream or the client did not do its part.
//!
//! [`serve`] accepts connections, deals them out to workers in turn, and stops in order. A worker is a thread
//! with a runtime and a [`pool`] of connections to the upstream; workers share the gate and nothing else that
//! is waited for. [`socket`] and [`idle_timeout`] are what hyper's connections run on, [`metrics`] and
//! [`admin`] report what happened, [`log`] writes about it on stderr.

mod admin;
mod admission;
mod args;
mod connection;
mod exchange;
mod failure;
#[cfg(test)]
mod fuzz;
mod handler;
mod headers;
mod idle_timeout;
mod log;
mod metrics;
mod passage;
mod pool;
mod request_body;
mod resource;
mod response_body;
mod serve;
mod socket;
mod tls;
mod upstream;

use std::sync::Arc;
use std::time::Duration;

use tenure::tls::{ClientTls, ServerTls};
use tokio::sync::OwnedSemaphorePermit;

use self::admission::AdmissionPolicy;
pub(crate) use self::args::Args;
use self::failure::Failure;
use self::log::RequestLog;
use self::metrics::Metrics;
pub(crate) use self::serve::run;
use self::upstream::Upstream;

/// Why a body on its way failed.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What all workers share.
#[derive(Debug)]
struct Proxy {
    upstream: Upstream,
    /// Clients speak TLS.
    tls: Option<Arc<ServerTls>>,
    /// The upstream does.
    upstream_tls: Option<Arc<ClientTls>>,
    /// Whether the upstream gets its own name in `Host`.
    rewrite_host: bool,
    admission: AdmissionPolicy,
    timeouts: Timeouts,
    metrics: Metrics,
    log: RequestLog,
}

impl Proxy {
    /// Counts and logs a request that has no answer of the upstream, or not all of it.
    fn failed(&self, failure: &Failure) {
        self.metrics.failed(failure.reason());
        self.log.failed(failure);
    }
}

/// How long the proxy waits.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    /// For the upstream to answer, to go on answering, to go on reading.
    upstream: Duration,
    /// For a client to go on sending, to go on reading.
    client: Duration,
    /// For the upstream to be done with a request that it did not finish.
    settle: Duration,
}

/// Held by everything that a worker waits for before it stops.
type WorkGuard = tokio::sync::mpsc::Sender<std::convert::Infallible>;

/// One of `--max-connections`: held by a client's connection, and by every exchange that it began, also
/// when the client has hung up.
#[derive(Clone, Debug)]
struct ConnectionSlot {
    working: WorkGuard,
    _permit: Arc<OwnedSemaphorePermit>,
}

/// What the requests on one thread share.
#[derive(Debug)]
struct Worker {
    proxy: Arc<Proxy>,
    pool: pool::Pool,
}
