//! How hard and how long.

use std::time::Duration;

use tenure::grpc::{ClientError, Endpoint};

use crate::BenchTarget;
use crate::connection::Connection;
use crate::stage::Limit;
use tenure::api::duration::duration;

/// Clients of most loads, unless told otherwise.
pub(crate) const CLIENTS_DEFAULT: u32 = 64;

const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// The flags that all steady loads share.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// Clients, each with one request under way at a time [default: 64; cas: 32; watch: 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    clients: Option<u32>,
    /// Clients that share a connection; members get connections in turn
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) clients_per_connection: u32,
    /// Stop after so many operations
    #[arg(long, conflicts_with = "duration")]
    total: Option<u64>,
    /// Stop after this long [default: 10s]
    #[arg(long, value_parser = duration)]
    duration: Option<Duration>,
    /// Load without measuring for this long at first
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub(crate) warm_up: Duration,
    /// Operations a second of all clients together; latency then counts from when each was due
    #[arg(long)]
    pub(crate) rate: Option<f64>,
}

impl LoadArgs {
    /// How many clients, unless told otherwise.
    pub(crate) fn clients_or(&self, default: u32) -> usize {
        self.clients.unwrap_or(default) as usize
    }

    pub(crate) fn limit(&self) -> Limit {
        match self.total {
            Some(total) => Limit::Operations(total),
            None => Limit::For(self.duration.unwrap_or(DURATION_DEFAULT)),
        }
    }

    /// Opens as many connections as the clients need, and as many to each member.
    pub(crate) async fn connect(
        &self,
        clients: usize,
        target: &BenchTarget,
    ) -> anyhow::Result<Vec<Connection>> {
        let wanted = clients.div_ceil(self.clients_per_connection as usize);
        let members = target.endpoints.len().min(clients);
        let count = wanted.next_multiple_of(members);
        let mut connections = Vec::with_capacity(count);
        for endpoint in target.endpoints.iter().cycle().take(count) {
            connections.push(connect(endpoint, target).await?);
        }
        Ok(connections)
    }
}

/// Opens one connection, or says which member is not there.
pub(crate) async fn connect(
    endpoint: &Endpoint,
    target: &BenchTarget,
) -> Result<Connection, ClientError> {
    let opened = Connection::open(endpoint, &target.options).await;
    opened.map_err(|fault| ClientError::Unreachable {
        endpoints: endpoint.to_string(),
        cause: fault.text().to_owned(),
    })
}
