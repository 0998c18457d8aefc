//! Write keys.

use bytes::Bytes;
use http::Uri;
use tenure::api::wire::etcdserverpb as pb;

use crate::BenchTarget;
use crate::connection::{Connection, Fault, framed, path};
use crate::drive::{Client, drive, for_each};
use crate::gateway::GatewayWriter;
use crate::key::{Dice, KeyArgs, value, value_size};
use crate::load::{CLIENTS_DEFAULT, LoadArgs};
use crate::report::Report;

/// How to write.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    keys: KeyArgs,
    /// Size of a value: bytes, or as 4K
    #[arg(long, default_value = "256", value_name = "SIZE", value_parser = value_size)]
    val_size: usize,
    /// Write the keys in order, each client its own share, instead of at random
    #[arg(long)]
    sequential: bool,
    /// Write as JSON through the gateway, each client over an HTTP/1 connection of its own
    #[arg(long)]
    gateway: bool,
}

/// Runs it.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let count = args.load.clients_or(CLIENTS_DEFAULT);
    let choice = |index: usize| KeyChoice {
        keys: args.keys.clone(),
        dice: Dice::new(index),
        in_order: args.sequential.then_some((index as u64, count as u64)),
    };
    if args.gateway {
        let endpoints = target.endpoints.iter().cycle().take(count);
        let clients = (0..)
            .zip(endpoints)
            .map(|(index, endpoint)| {
                GatewayWriter::new(endpoint, &target.options, choice(index), args.val_size)
            })
            .collect();
        let (stage, clients) = drive(&args.load, clients).await;
        return Ok(Report::of("put as JSON", &target.endpoints, clients.len(), count, &stage));
    }
    let connections = args.load.connect(count, target).await?;
    let clients = (0..count)
        .map(|index| {
            let connection = &connections[index % connections.len()];
            Writer::new(connection, choice(index), args.val_size)
        })
        .collect();
    let (stage, clients) = drive(&args.load, clients).await;
    Ok(Report::of("put", &target.endpoints, clients.len(), connections.len(), &stage))
}

/// Which key a client writes next.
pub(crate) struct KeyChoice {
    keys: KeyArgs,
    dice: Dice,
    /// The next key's number and how far apart this client's keys are, if they come in order.
    in_order: Option<(u64, u64)>,
}

impl KeyChoice {
    pub(crate) fn next(&mut self) -> Bytes {
        match &mut self.in_order {
            None => self.keys.random(&mut self.dice),
            Some((next, step)) => {
                let number = *next;
                *next = (number + *step) % self.keys.key_space;
                self.keys.key(number)
            }
        }
    }
}

/// A client that writes one key after the other.
pub(crate) struct Writer {
    connection: Connection,
    method: Uri,
    value: Bytes,
    choice: KeyChoice,
}

impl Writer {
    fn new(connection: &Connection, choice: KeyChoice, val_size: usize) -> Writer {
        Writer {
            connection: connection.clone(),
            method: connection.method(path::PUT),
            value: value(val_size),
            choice,
        }
    }
}

impl Client for Writer {
    async fn operate(&mut self) -> Result<(), Fault> {
        let key = self.choice.next();
        let put = pb::PutRequest { key, value: self.value.clone(), ..Default::default() };
        self.connection.unary(&self.method, framed(&put)).await.map(drop)
    }
}

/// Writes every key once, unmeasured, so that reads find something.
pub(crate) async fn fill(
    connections: &[Connection],
    keys: &KeyArgs,
    val_size: usize,
) -> anyhow::Result<()> {
    const AT_ONCE: usize = 128;
    let value = value(val_size);
    for_each(0..keys.key_space, AT_ONCE, |index, number| {
        let mut connection = connections[index % connections.len()].clone();
        let put =
            pb::PutRequest { key: keys.key(number), value: value.clone(), ..Default::default() };
        async move {
            let method = connection.method(path::PUT);
            connection.unary(&method, framed(&put)).await.map(drop)
        }
    })
    .await
    .map(drop)
}
