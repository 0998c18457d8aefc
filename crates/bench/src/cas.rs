//! Compare and swap: every client its own key, each write on the condition of the last.

use bytes::Bytes;
use http::Uri;
use prost::Message;
use tenure::api::op::PutLease;
use tenure::api::wire::etcdserverpb as pb;
use tenure::api::wire::etcdserverpb::response_op::Response;
use tenure::api::{Compare, CompareResult, CompareTarget, Op, Put, Range, Revision, Span, Txn};

use crate::BenchTarget;
use crate::connection::{Connection, Fault, framed, path};
use crate::drive::{Client, drive};
use crate::key::{value, value_size};
use crate::load::LoadArgs;
use crate::report::Report;

/// One key each makes contention between clients impossible; more would only wait in line.
const CLIENTS_DEFAULT: u32 = 32;

/// How to do it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    /// Size of a value: bytes, or as 4K
    #[arg(long, default_value = "256", value_name = "SIZE", value_parser = value_size)]
    val_size: usize,
    /// What all keys begin with
    #[arg(long, default_value = "bench-cas/")]
    key_prefix: String,
}

/// Runs it.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let count = args.load.clients_or(CLIENTS_DEFAULT);
    let connections = args.load.connect(count, target).await?;
    let clients = (0..count)
        .map(|index| {
            let connection = connections[index % connections.len()].clone();
            Swapper {
                method: connection.method(path::TXN),
                connection,
                key: format!("{}{index:06}", args.key_prefix).into(),
                value: value(args.val_size),
                last: Revision(0),
            }
        })
        .collect();
    let (stage, clients) = drive(&args.load, clients).await;
    Ok(Report::of("cas", &target.endpoints, clients.len(), connections.len(), &stage))
}

struct Swapper {
    connection: Connection,
    method: Uri,
    key: Bytes,
    value: Bytes,
    /// The revision of our last write: what must be there for the next.
    last: Revision,
}

impl Swapper {
    fn request(&self) -> pb::TxnRequest {
        let span = Span::One(self.key.clone());
        let txn = Txn {
            compare: vec![Compare {
                span: span.clone(),
                result: CompareResult::Equal,
                target: CompareTarget::Mod(self.last),
            }],
            success: vec![Op::Put(Put {
                key: self.key.clone(),
                value: Some(self.value.clone()),
                lease: PutLease::Set(None),
                prev_kv: false,
            })],
            failure: vec![Op::Range(Range::all(span))],
        };
        txn.into()
    }
}

impl Client for Swapper {
    async fn operate(&mut self) -> Result<(), Fault> {
        let answer = self.connection.unary(&self.method, framed(&self.request())).await?;
        let answer =
            pb::TxnResponse::decode(answer).map_err(|error| Fault::Transport(error.to_string()))?;
        if answer.succeeded {
            self.last = Revision(answer.header.map_or(0, |header| header.revision));
            return Ok(());
        }
        // An earlier run left the key, or a write of ours was done though it was reported as failed.
        let found = match answer.responses.into_iter().next().and_then(|op| op.response) {
            Some(Response::ResponseRange(range)) => range.kvs.into_iter().next(),
            _ => None,
        };
        self.last = Revision(found.map_or(0, |kv| kv.mod_revision));
        Err(Fault::Status("the condition did not hold".into()))
    }
}
