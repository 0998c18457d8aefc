//! Elections and locks as a recipe over keys: for a real etcd, and for tenure.
//!
//! A candidate in the election `<name>` is the key `<name>/<lease in hex>`, bound to the session's lease, and
//! the order is that of the keys' create revisions: exactly what etcd's own clients do, so that all
//! are candidates in the same election. A candidate holds when, at one revision, its key lives and no live key
//! below `<name>/` that it must wait for is older. That is one transaction (`look`), made before
//! anything is reported; the watches in between only say when it is worth asking again, so a watch
//! that was compacted away, or came late, can delay and never lie.
//!
//! Kinds of locks that stock clients do not have are marked in the key, behind the lease:
//!
//! | mode | key | waits for |
//! |---|---|---|
//! | exclusive | `<name>/<lease>` | everything older |
//! | shared | `<name>/<lease>.shared` | everything older that is not shared |
//! | permit of *n* | `<name>/<lease>.permit.<n>` | until fewer than *n* are older |
//!
//! An unknown key counts as exclusive. So a stock client waits for all of these as it does for its like,
//! and none of them passes a stock client.
//!
//! Several names at once are entered by one transaction and so share one revision: the candidate with the lower one is
//! before the other in *every* election, and no two can wait for each other.
//!
//! What etcd's API cannot do: number the permits of a semaphore, hand over to a chosen successor, elect by priority,
//! tell whether a session expired or was revoked.

mod candidate;
mod candidates;
mod keys;
mod look;
mod names;
mod observe;
mod session;
mod txn;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::observe::called;
use super::{Backend, Boxed, Candidate, Mode, Observation, Opened, Opening};
use crate::grpc::{Client, Endpoint, Options};
use crate::host::Host;
use crate::{ElectionName, EngineError, FencingToken};
use keys::Key;
use tenure_api::LeaseId;

/// A cluster that speaks etcd's API.
#[derive(Clone, Debug)]
pub struct Etcd {
    endpoints: Vec<Endpoint>,
    options: Options,
}

/// No attempt may take longer than this part of a session's time to live, or the session would be
/// lost before a second one.
const ATTEMPTS_PER_TTL: u32 = 4;

impl Etcd {
    /// The cluster at these endpoints. Nothing is connected yet.
    pub fn new(endpoints: Vec<Endpoint>, options: Options) -> Etcd {
        Etcd { endpoints, options }
    }

    fn within(&self, attempt_max: Duration) -> Client {
        Client::new(self.endpoints.clone(), self.options.within(attempt_max))
    }
}

impl Backend for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn client(&self) -> Option<Client> {
        Some(self.within(self.options.request_timeout))
    }

    fn open(&self, opening: Opening) -> Boxed<'_, Result<Opened, EngineError>> {
        let client = self.within(opening.ttl / ATTEMPTS_PER_TTL);
        Box::pin(session::open(client, opening))
    }

    fn observe(
        &self,
        host: Arc<dyn Host>,
        name: ElectionName,
    ) -> Boxed<'_, Result<Box<dyn Observation>, EngineError>> {
        Box::pin(async move {
            let client = self.within(self.options.request_timeout);
            let seen = observe::Seen::open(client, host, name).await?;
            Ok(Box::new(seen) as Box<dyn Observation>)
        })
    }

    fn candidates(&self, name: ElectionName) -> Boxed<'_, Result<Vec<Candidate>, EngineError>> {
        Box::pin(async move {
            let client = self.within(self.options.request_timeout);
            let found = client.kv().range(txn::all_of(&name)).await?;
            Ok(in_order(&name, found.kvs))
        })
    }
}

/// The candidates behind the keys of an election, oldest first.
fn in_order(name: &ElectionName, kvs: Vec<tenure_api::wire::mvccpb::KeyValue>) -> Vec<Candidate> {
    let prefix = keys::prefix(name);
    let modes: Vec<Mode> = kvs.iter().map(|kv| Key::mode(&prefix, &kv.key)).collect();
    let candidate = |(at, kv): (usize, &tenure_api::wire::mvccpb::KeyValue)| {
        let token = FencingToken::from_revision(kv.create_revision)?;
        Some(Candidate {
            identity: called("", &kv.value, token),
            token,
            key: kv.key.to_vec(),
            value: kv.value.to_vec(),
            holds: look::is_free(modes[at], &modes[..at]),
            mode: modes[at],
            session: LeaseId::from_wire(kv.lease),
            priority: 0,
            unhealthy: false,
            since: None,
            leads_since: None,
            metadata: BTreeMap::new(),
        })
    };
    kvs.iter().enumerate().filter_map(candidate).collect()
}
