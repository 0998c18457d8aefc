//! Elections and locks in tenure's own words (`tenure.v1`).
//!
//! Here the server decides: when a place becomes the first of its line, the state machine knows it at
//! that revision and says so. One stream carries everything a session does and hears, renewals
//! included. The stream is not the session: when it breaks, it is opened again at another member,
//! and what was not answered is sent again under its old number, which the server does not do twice.
//!
//! - `exchange` is the conversation as a value: what was asked, what was heard, where one stands. It
//!   knows neither network nor time.
//! - `link` keeps a stream open and pumps.
//! - `session` and `place` are what the recipes see.

mod exchange;
mod link;
mod observe;
mod place;
mod session;
mod words;

use std::sync::Arc;
use std::time::Duration;

use super::{Backend, Boxed, Candidate, Observation, Opened, Opening};
use crate::grpc::{Client, Endpoint, Options};
use crate::host::Host;
use crate::{EngineError, LineName};

/// A cluster of tenure.
#[derive(Clone, Debug)]
pub struct Native {
    endpoints: Vec<Endpoint>,
    options: Options,
}

/// No attempt may take longer than this part of a session's time to live.
const ATTEMPTS_PER_TTL: u32 = 4;

impl Native {
    /// The cluster at these endpoints. Nothing is connected yet.
    pub fn new(endpoints: Vec<Endpoint>, options: Options) -> Native {
        Native { endpoints, options }
    }

    fn client(&self, attempt_max: Duration) -> Client {
        Client::new(self.endpoints.clone(), self.options.within(attempt_max))
    }
}

impl Backend for Native {
    fn name(&self) -> &'static str {
        "tenure"
    }

    fn open(&self, opening: Opening) -> Boxed<'_, Result<Opened, EngineError>> {
        let client = self.client(opening.ttl / ATTEMPTS_PER_TTL);
        Box::pin(session::open(client, opening))
    }

    fn observe(
        &self,
        host: Arc<dyn Host>,
        name: LineName,
    ) -> Boxed<'_, Result<Box<dyn Observation>, EngineError>> {
        Box::pin(async move {
            let client = self.client(self.options.request_timeout);
            let seen = observe::Seen::open(client, host, name).await?;
            Ok(Box::new(seen) as Box<dyn Observation>)
        })
    }

    fn candidates(&self, name: LineName) -> Boxed<'_, Result<Vec<Candidate>, EngineError>> {
        Box::pin(async move {
            let client = self.client(self.options.request_timeout);
            let found = client.lines().candidates(name.to_string()).await?;
            Ok(found.candidates.into_iter().filter_map(words::candidate).collect())
        })
    }
}
