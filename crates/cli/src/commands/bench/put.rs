//! Write keys.

use bytes::Bytes;
use http::Uri;
use tenure::api::wire::etcdserverpb as pb;

use super::connection::{Connection, Fault, framed, path};
use super::drive::{Client, drive, for_each};
use super::key::{Dice, KeyArgs, value};
use super::load::{CLIENTS_DEFAULT, LoadArgs};
use super::report::Report;
use crate::args::Settings;

/// How to write.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    keys: KeyArgs,
    /// Bytes of a value
    #[arg(long, default_value_t = 256)]
    val_size: usize,
}

/// Runs it.
pub(super) async fn run(args: Args, settings: &Settings) -> anyhow::Result<Report> {
    let count = args.load.clients_or(CLIENTS_DEFAULT);
    let connections = args.load.connect(count, settings).await?;
    let clients = (0..count)
        .map(|index| {
            let keys = args.keys.clone();
            Writer::new(&connections[index % connections.len()], keys, args.val_size, index)
        })
        .collect();
    let (stage, clients) = drive(&args.load, clients).await;
    Ok(Report::of("put", &settings.endpoints, clients.len(), connections.len(), &stage))
}

/// A client that writes one random key after the other.
pub(super) struct Writer {
    connection: Connection,
    method: Uri,
    keys: KeyArgs,
    value: Bytes,
    dice: Dice,
}

impl Writer {
    pub(super) fn new(
        connection: &Connection,
        keys: KeyArgs,
        val_size: usize,
        index: usize,
    ) -> Writer {
        Writer {
            connection: connection.clone(),
            method: connection.method(path::PUT),
            keys,
            value: value(val_size),
            dice: Dice::new(index),
        }
    }
}

impl Client for Writer {
    async fn operate(&mut self) -> Result<(), Fault> {
        let key = self.keys.random(&mut self.dice);
        let put = pb::PutRequest { key, value: self.value.clone(), ..Default::default() };
        self.connection.unary(&self.method, framed(&put)).await.map(drop)
    }
}

/// Writes every key once, unmeasured, so that reads find something.
pub(super) async fn fill(
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
