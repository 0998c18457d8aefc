//! Grant leases.

use http::Uri;
use prost::Message;
use tenure::api::wire::etcdserverpb as pb;

use crate::BenchTarget;
use crate::connection::{Connection, Fault, framed, path};
use crate::drive::{Client, drive, for_each};
use crate::load::{CLIENTS_DEFAULT, LoadArgs};
use crate::report::Report;
use tenure::api::duration::whole_seconds;

/// How to grant.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    /// Time to live of the leases
    #[arg(long, default_value = "60s", value_parser = whole_seconds)]
    ttl: i64,
    /// Leave the leases to run out instead of revoking them afterwards
    #[arg(long)]
    leave: bool,
}

/// Runs it.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let count = args.load.clients_or(CLIENTS_DEFAULT);
    let connections = args.load.connect(count, target).await?;
    let clients = (0..count)
        .map(|index| {
            let connection = connections[index % connections.len()].clone();
            Granter {
                method: connection.method(path::LEASE_GRANT),
                connection,
                ttl: args.ttl,
                granted: Vec::new(),
            }
        })
        .collect();
    let (stage, clients) = drive(&args.load, clients).await;
    let report =
        Report::of("lease-grant", &target.endpoints, clients.len(), connections.len(), &stage);
    if !args.leave {
        revoke(&connections, clients.into_iter().flat_map(|client| client.granted)).await?;
    }
    Ok(report)
}

struct Granter {
    connection: Connection,
    method: Uri,
    ttl: i64,
    granted: Vec<i64>,
}

impl Client for Granter {
    async fn operate(&mut self) -> Result<(), Fault> {
        let lease = grant(&mut self.connection, &self.method, self.ttl).await?;
        self.granted.push(lease.id);
        Ok(())
    }
}

pub(crate) async fn grant(
    connection: &mut Connection,
    method: &Uri,
    ttl: i64,
) -> Result<pb::LeaseGrantResponse, Fault> {
    let request = framed(&pb::LeaseGrantRequest { ttl, id: 0 });
    let answer = connection.unary(method, request).await?;
    pb::LeaseGrantResponse::decode(answer).map_err(|error| Fault::Transport(error.to_string()))
}

/// Takes leases back, unmeasured, so that the next run finds the member as this one did.
pub(crate) async fn revoke(
    connections: &[Connection],
    leases: impl IntoIterator<Item = i64>,
) -> anyhow::Result<()> {
    const AT_ONCE: usize = 128;
    for_each(leases, AT_ONCE, |index, id| {
        let mut connection = connections[index % connections.len()].clone();
        async move {
            let method = connection.method(path::LEASE_REVOKE);
            match connection.unary(&method, framed(&pb::LeaseRevokeRequest { id })).await {
                // One that has run out meanwhile is gone just as well.
                Ok(_) | Err(Fault::Status(_)) => Ok(()),
                Err(fault) => Err(fault),
            }
        }
    })
    .await
    .map(drop)
}
