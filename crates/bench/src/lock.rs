//! Take a lock and give it back, through etcd's lock service.

use http::Uri;
use prost::Message;
use tenure::api::wire::v3lockpb as pb;

use crate::BenchTarget;
use crate::connection::{Connection, Fault, framed, path};
use crate::drive::{Client, drive};
use crate::lease_grant::{grant, revoke};
use crate::load::LoadArgs;
use crate::report::Report;

/// Long enough for any run; nobody renews.
const LEASE_TTL_SECS: i64 = 3600;

/// How to lock.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    /// Locks; clients take them in turn, so more clients than locks wait for each other
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    locks: u32,
    /// What all names begin with
    #[arg(long, default_value = "bench-lock/")]
    key_prefix: String,
}

/// Runs it.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let count = args.load.clients_or(1);
    let connections = args.load.connect(count, target).await?;
    let mut clients = Vec::with_capacity(count);
    for index in 0..count {
        let mut connection = connections[index % connections.len()].clone();
        let method = connection.method(path::LEASE_GRANT);
        let lease = grant(&mut connection, &method, LEASE_TTL_SECS)
            .await
            .map_err(|fault| anyhow::anyhow!("setting up: {}", fault.text()))?;
        let name = format!("{}{}", args.key_prefix, index as u32 % args.locks);
        clients.push(Locker {
            lock: connection.method(path::LOCK),
            unlock: connection.method(path::UNLOCK),
            connection,
            request: pb::LockRequest { name: name.into(), lease: lease.id },
        });
    }
    let (stage, clients) = drive(&args.load, clients).await;
    let report = Report::of("lock", &target.endpoints, clients.len(), connections.len(), &stage);
    revoke(&connections, clients.into_iter().map(|client| client.request.lease)).await?;
    Ok(report)
}

struct Locker {
    connection: Connection,
    lock: Uri,
    unlock: Uri,
    request: pb::LockRequest,
}

impl Client for Locker {
    async fn operate(&mut self) -> Result<(), Fault> {
        let answer = self.connection.unary(&self.lock, framed(&self.request)).await?;
        let held = pb::LockResponse::decode(answer)
            .map_err(|error| Fault::Transport(error.to_string()))?;
        let unlock = pb::UnlockRequest { key: held.key, ..Default::default() };
        self.connection.unary(&self.unlock, framed(&unlock)).await.map(drop)
    }
}
