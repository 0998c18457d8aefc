//! Read keys.

use http::Uri;
use tenure::api::wire::etcdserverpb as pb;

use crate::BenchTarget;
use crate::connection::{Connection, Fault, framed, path};
use crate::drive::{Client, drive};
use crate::key::{Dice, KeyArgs, value_size};
use crate::load::{CLIENTS_DEFAULT, LoadArgs};
use crate::put::fill;
use crate::report::Report;

/// How to read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    keys: KeyArgs,
    /// Size of a value: bytes, or as 4K
    #[arg(long, default_value = "256", value_name = "SIZE", value_parser = value_size)]
    val_size: usize,
    /// Linearizable or serializable
    #[arg(long, value_enum, default_value_t = Consistency::L)]
    consistency: Consistency,
    /// The keys are there already: do not write them first
    #[arg(long)]
    no_fill: bool,
}

/// How new an answer must be: the same two letters as in `tenure get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Consistency {
    /// The newest there is
    L,
    /// Whatever the asked member has
    S,
}

/// Runs it.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let count = args.load.clients_or(CLIENTS_DEFAULT);
    let connections = args.load.connect(count, target).await?;
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
    Ok(Report::of(name, &target.endpoints, clients.len(), connections.len(), &stage))
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
