//! Read keys.

use http::Uri;
use tenure::api::wire::etcdserverpb as pb;

use super::connection::{Connection, Fault, framed, path};
use super::drive::{Client, drive};
use super::key::{Dice, KeyArgs};
use super::load::{CLIENTS_DEFAULT, LoadArgs};
use super::put::fill;
use super::report::Report;
use crate::args::Settings;
use crate::commands::get::Consistency;

/// How to read.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    keys: KeyArgs,
    /// Bytes of a value
    #[arg(long, default_value_t = 256)]
    val_size: usize,
    /// Linearizable or serializable
    #[arg(long, value_enum, default_value_t = Consistency::L)]
    consistency: Consistency,
    /// The keys are there already: do not write them first
    #[arg(long)]
    no_fill: bool,
}

/// Runs it.
pub(super) async fn run(args: Args, settings: &Settings) -> anyhow::Result<Report> {
    let count = args.load.clients_or(CLIENTS_DEFAULT);
    let connections = args.load.connect(count, settings).await?;
    if !args.no_fill {
        fill(&connections, &args.keys, args.val_size).await?;
    }
    let serializable = args.consistency == Consistency::S;
    let clients = (0..count)
        .map(|index| {
            let connection = connections[index % connections.len()].clone();
            Reader {
                method: connection.method(path::RANGE),
                connection,
                keys: args.keys.clone(),
                dice: Dice::new(index),
                serializable,
            }
        })
        .collect();
    let (stage, clients) = drive(&args.load, clients).await;
    let name = if serializable { "get serializable" } else { "get linearizable" };
    Ok(Report::of(name, &settings.endpoints, clients.len(), connections.len(), &stage))
}

struct Reader {
    connection: Connection,
    method: Uri,
    keys: KeyArgs,
    dice: Dice,
    serializable: bool,
}

impl Client for Reader {
    async fn operate(&mut self) -> Result<(), Fault> {
        let key = self.keys.random(&mut self.dice);
        let get = pb::RangeRequest { key, serializable: self.serializable, ..Default::default() };
        self.connection.unary(&self.method, framed(&get)).await.map(drop)
    }
}
