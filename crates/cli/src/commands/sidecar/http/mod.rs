//! The HTTP interface for a container beside us.
//!
//! `answers` judges at the moment of each answer, `events` is `/sse`, `step_down` the one request that
//! changes something, `listen` carries connections, within limits, of which
//! `stall` is one.

mod answers;
mod events;
mod listen;
mod stall;
mod step_down;

use std::sync::Arc;
use std::time::Duration;

use tenure_server::browsers::Browsers;
use tokio::sync::{Semaphore, mpsc, watch};

pub(super) use self::listen::serve;
pub(super) use self::step_down::StepDownToken;
use super::campaign::StepDown;
use super::metrics::Counts;
use super::status_cache::StatusCache;

/// What `/healthz` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Healthz {
    /// As client-go has it: unhealthy only if we held the lease and could not renew it before its end
    Lease,
    /// Healthy only while leading
    Leader,
}

/// What every answer is made from.
#[derive(Clone, Debug)]
pub(super) struct AnswerContext {
    pub(super) status: Arc<StatusCache>,
    pub(super) counts: Arc<Counts>,
    pub(super) healthz: Healthz,
    pub(super) ready_when_leader: bool,
    /// How long a tenure is kept after our answers have stopped claiming it.
    pub(super) grace: Duration,
    pub(super) orders: mpsc::Sender<StepDown>,
    /// What a request to step down must show; none if any on loopback may.
    pub(super) step_down_token: Option<Arc<StepDownToken>>,
    pub(super) stop: watch::Receiver<bool>,
    /// What web pages may ask.
    pub(super) browsers: Arc<Browsers>,
    /// Streams of `/sse` that may still be opened.
    pub(super) streams: Arc<Semaphore>,
}

/// Streams of `/sse` at a time.
const STREAMS_MAX: usize = 64;

impl AnswerContext {
    /// How many streams may be open at a time.
    pub(super) fn streams() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(STREAMS_MAX))
    }
}
