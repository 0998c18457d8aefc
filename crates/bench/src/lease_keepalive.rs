//! Renew leases over streams.

use prost::Message;
use tenure::api::wire::etcdserverpb as pb;

use crate::BenchTarget;
use crate::connection::{Connection, Fault, Stream, framed, path};
use crate::drive::{Client, drive, for_each};
use crate::lease_grant::{grant, revoke};
use crate::load::{CLIENTS_DEFAULT, LoadArgs};
use crate::report::Report;
use tenure::api::duration::whole_seconds;

/// How to renew.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Every client has one stream and renews its share of the leases on it, one after the other
    #[command(flatten)]
    load: LoadArgs,
    /// How many leases
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    leases: u32,
    /// Time to live of the leases
    #[arg(long, default_value = "60s", value_parser = whole_seconds)]
    ttl: i64,
}

/// Says on stderr when all leases are there, so that others can begin to measure.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    const GRANTS_AT_ONCE: usize = 128;
    let count = args.load.clients_or(CLIENTS_DEFAULT);
    let connections = args.load.connect(count, target).await?;
    let ttl = args.ttl;
    let leases = for_each(0..args.leases, GRANTS_AT_ONCE, |index, _| {
        let mut connection = connections[index % connections.len()].clone();
        async move {
            let method = connection.method(path::LEASE_GRANT);
            Ok(grant(&mut connection, &method, ttl).await?.id)
        }
    })
    .await?;
    eprintln!("the leases are granted");
    let clients = (0..count)
        .map(|index| Renewer {
            connection: connections[index % connections.len()].clone(),
            stream: None,
            // With fewer leases than streams, some are renewed by several.
            leases: leases.iter().copied().skip(index % leases.len()).step_by(count).collect(),
            turn: 0,
        })
        .collect();
    let (stage, clients) = drive(&args.load, clients).await;
    let mut report =
        Report::of("lease-keepalive", &target.endpoints, clients.len(), connections.len(), &stage);
    report.figure("leases", leases.len());
    revoke(&connections, leases).await?;
    Ok(report)
}

struct Renewer {
    connection: Connection,
    stream: Option<Stream>,
    leases: Vec<i64>,
    turn: usize,
}

impl Client for Renewer {
    async fn operate(&mut self) -> Result<(), Fault> {
        let id = self.leases[self.turn % self.leases.len()];
        self.turn += 1;
        let renewal = framed(&pb::LeaseKeepAliveRequest { id });
        let stream = match &mut self.stream {
            Some(stream) => {
                stream.send(renewal)?;
                stream
            }
            none => {
                let method = self.connection.method(path::LEASE_KEEP_ALIVE);
                none.insert(self.connection.stream(&method, renewal).await?)
            }
        };
        let answer = stream.next().await;
        if !matches!(answer, Ok(Some(_))) {
            self.stream = None;
        }
        let answer = answer?.ok_or_else(|| Fault::Transport("the stream has ended".into()))?;
        let renewed = pb::LeaseKeepAliveResponse::decode(answer)
            .map_err(|error| Fault::Transport(error.to_string()))?;
        if renewed.ttl <= 0 {
            return Err(Fault::Status("the lease is gone".into()));
        }
        Ok(())
    }
}
