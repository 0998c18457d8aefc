//! How hard and how long.

use std::time::Duration;

use tenure::grpc::{ClientError, Endpoint};

use super::connection::Connection;
use super::stage::Limit;
use crate::args::{Settings, duration};

/// Clients of most loads, unless told otherwise.
pub(super) const CLIENTS_DEFAULT: u32 = 64;

const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// The flags that all steady loads share.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LoadArgs {
    /// Clients, each with one request under way at a time [default: 64; cas: 32; watch: 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    clients: Option<u32>,
    /// Clients that share a connection; members get connections in turn
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) clients_per_connection: u32,
    /// Stop after so many operations
    #[arg(long, conflicts_with = "duration")]
    total: Option<u64>,
    /// Stop after this long [default: 10s]
    #[arg(long, value_parser = duration)]
    duration: Option<Duration>,
    /// Load without measuring for this long at first
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub(super) warm_up: Duration,
    /// Operations a second of all clients together; latency then counts from when each was due
    #[arg(long)]
    pub(super) rate: Option<f64>,
}

impl LoadArgs {
    /// How many clients, unless told otherwise.
    pub(super) fn clients_or(&self, default: u32) -> usize {
        self.clients.unwrap_or(default) as usize
    }

    pub(super) fn limit(&self) -> Limit {
        match self.total {
            Some(total) => Limit::Operations(total),
            None => Limit::For(self.duration.unwrap_or(DURATION_DEFAULT)),
        }
    }

    /// Opens as many connections as the clients need, and as many to each member.
    pub(super) async fn connect(
        &self,
        clients: usize,
        settings: &Settings,
    ) -> anyhow::Result<Vec<Connection>> {
        let wanted = clients.div_ceil(self.clients_per_connection as usize);
        let members = settings.endpoints.len().min(clients);
        let count = wanted.next_multiple_of(members);
        let mut connections = Vec::with_capacity(count);
        for endpoint in settings.endpoints.iter().cycle().take(count) {
            connections.push(connect(endpoint, settings).await?);
        }
        Ok(connections)
    }
}

/// Opens one connection, or says which member is not there.
pub(super) async fn connect(
    endpoint: &Endpoint,
    settings: &Settings,
) -> Result<Connection, ClientError> {
    let opened = Connection::open(endpoint, settings.options.dial_timeout).await;
    opened.map_err(|fault| ClientError::Unreachable {
        endpoints: endpoint.to_string(),
        cause: fault.text().to_owned(),
    })
}
