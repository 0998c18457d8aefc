//! Elections and locks over tenure's own API (`tenure.v1`).
//!
//! Here the server decides: when a candidate becomes the first of its election, the state machine knows it at
//! that revision and says so. One stream carries everything a session does and hears, renewals
//! included. The stream is not the session: when it breaks, it is opened again at another member,
//! and what was not answered is sent again under its old number, which the server does not do twice.
//!
//! - `exchange` is the conversation as a value: what was asked, what was heard, where one stands. It
//!   knows neither network nor time.
//! - `link` keeps a stream open and pumps.
//! - `session` and `candidacy` are what the recipes see.
//! - `wire` is what carries all this to the members.

mod candidate;
mod convert;
mod exchange;
mod link;
mod observe;
mod session;
mod wire;

use std::sync::Arc;
use std::time::Duration;

pub use observe::ElectionEvents;
use wire::ByGrpc;
pub use wire::{Attached, Heard, Reach, Wire, stream_error};

use super::{Backend, Boxed, Candidate, Observation, Opened, Opening};
use crate::grpc::{Client, Endpoint, Options};
use crate::host::Host;
use crate::{ElectionName, EngineError};

/// A cluster of tenure.
#[derive(Clone, Debug)]
pub struct Native {
    reach: Arc<dyn Reach>,
    /// For what is asked outside of a session, and for opening one.
    request_timeout: Duration,
}

/// No attempt may take longer than this part of a session's time to live.
const ATTEMPTS_PER_TTL: u32 = 4;

impl Native {
    /// The cluster at these endpoints. Nothing is connected yet.
    pub fn new(endpoints: Vec<Endpoint>, options: Options) -> Native {
        let request_timeout = options.request_timeout;
        Native { reach: Arc::new(ByGrpc { endpoints, options }), request_timeout }
    }

    /// The cluster that is reached this way. For simulators.
    pub fn over(reach: impl Reach, request_timeout: Duration) -> Native {
        Native { reach: Arc::new(reach), request_timeout }
    }
}

impl Backend for Native {
    fn name(&self) -> &'static str {
        "tenure"
    }

    fn client(&self) -> Option<Client> {
        self.reach.client()
    }

    fn open(&self, opening: Opening) -> Boxed<'_, Result<Opened, EngineError>> {
        let reach = Arc::clone(&self.reach);
        Box::pin(async move {
            let members = reach.each(opening.ttl / ATTEMPTS_PER_TTL);
            session::open(members, opening, self.request_timeout).await
        })
    }

    fn observe(
        &self,
        host: Arc<dyn Host>,
        name: ElectionName,
    ) -> Boxed<'_, Result<Box<dyn Observation>, EngineError>> {
        Box::pin(async move {
            let members = self.reach.any(self.request_timeout);
            let seen = observe::Seen::open(members, host, name).await?;
            Ok(Box::new(seen) as Box<dyn Observation>)
        })
    }

    fn candidates(&self, name: ElectionName) -> Boxed<'_, Result<Vec<Candidate>, EngineError>> {
        Box::pin(async move {
            let members = self.reach.any(self.request_timeout);
            let found = members.candidates(name.to_string()).await?;
            Ok(found.candidates.into_iter().filter_map(convert::candidate).collect())
        })
    }
}
