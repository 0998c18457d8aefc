//! Write a key, on a condition if you like.

mod condition;

use std::ffi::OsString;
use std::io::{self, Read};

use bytes::Bytes;
use tenure::api::LeaseId;
use tenure::api::op::{Put, PutLease};
use tenure::api::wire::etcdserverpb as pb;
use tenure::grpc::{Client, ClientError};

use self::condition::{ConditionArgs, Verdict};
use crate::args::{Settings, bytes, lease_id, whole_seconds};
use crate::exit::{Exit, usage};
use crate::output::Output;

/// What to write.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The key
    key: OsString,
    /// The value; read from stdin if not given
    value: Option<OsString>,
    /// Attach the key to this lease (hexadecimal)
    #[arg(long, value_name = "ID", value_parser = lease_id, default_value = "0", hide_default_value = true)]
    lease: i64,
    /// Show what was there before
    #[arg(long)]
    prev_kv: bool,
    /// Keep the value that is there
    #[arg(long, conflicts_with = "value")]
    ignore_value: bool,
    /// Keep the lease that is there
    #[arg(long)]
    ignore_lease: bool,
    /// Let the key die after this long: grants a lease for it
    #[arg(long, value_name = "DURATION", value_parser = whole_seconds, conflicts_with_all = ["lease", "ignore_lease"])]
    ttl: Option<i64>,
    #[command(flatten)]
    condition: ConditionArgs,
}

impl Args {
    /// The request, for use inside a transaction, where conditions have their own place.
    pub(crate) fn request(&self) -> anyhow::Result<pb::PutRequest> {
        if self.condition.condition().is_some() || self.ttl.is_some() {
            return Err(usage("--if-… and --ttl have no place inside a transaction"));
        }
        if self.value.is_none() && !self.ignore_value {
            return Err(usage("put needs a key and a value"));
        }
        let value = self.value.clone().map(bytes);
        Ok(self.put(value.unwrap_or_default(), LeaseId::from_wire(self.lease)).into())
    }

    fn put(&self, value: Bytes, lease: Option<LeaseId>) -> Put {
        Put {
            key: bytes(self.key.clone()),
            value: (!self.ignore_value).then_some(value),
            lease: if self.ignore_lease { PutLease::Keep } else { PutLease::Set(lease) },
            prev_kv: self.prev_kv,
        }
    }

    fn value(&self) -> io::Result<Bytes> {
        match &self.value {
            Some(value) => Ok(bytes(value.clone())),
            None if self.ignore_value => Ok(Bytes::new()),
            None => {
                let mut value = Vec::new();
                io::stdin().lock().read_to_end(&mut value)?;
                Ok(value.into())
            }
        }
    }
}

/// Writes, if the condition holds.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    if args.ignore_lease && args.lease != LeaseId::WIRE_NONE {
        return Err(usage("--ignore-lease keeps the lease that is there: leave --lease out"));
    }
    let value = args.value()?;
    let client = settings.client();
    let granted = match args.ttl {
        Some(ttl) => Some(client.lease().grant(pb::LeaseGrantRequest { ttl, id: 0 }).await?),
        None => None,
    };
    let lease = granted.as_ref().map_or(args.lease, |granted| granted.id);
    let put = args.put(value, LeaseId::from_wire(lease));

    let mut output = Output::stdout(&settings);
    let written = match args.condition.condition() {
        None => match client.kv().put(put.into()).await {
            Ok(response) => output.put(&response).map(|()| Verdict::Written),
            Err(error) => Err(error.into()),
        },
        Some(condition) => match client.kv().txn(condition.txn(put)).await {
            Ok(response) => condition.tell(&response, &mut output),
            Err(error) => Err(error.into()),
        },
    };
    output.flush()?;
    if let Some(granted) = granted {
        tell_lease(&client, &granted, &written).await;
    }
    Ok(match written? {
        Verdict::Written => Exit::Done,
        Verdict::NotTaken => Exit::NotTaken,
    })
}

/// A lease that no key hangs on is given back. After an unknown outcome one may: then it is left to
/// run out by itself.
async fn tell_lease(
    client: &Client,
    granted: &pb::LeaseGrantResponse,
    written: &anyhow::Result<Verdict>,
) {
    match written {
        Ok(Verdict::Written) => {
            eprintln!("lease {:016x} granted with TTL({}s)", granted.id, granted.ttl);
        }
        Err(error)
            if error.downcast_ref::<ClientError>().is_some_and(ClientError::outcome_unknown) => {}
        Ok(Verdict::NotTaken) | Err(_) => {
            if let Err(error) = client.lease().revoke(granted.id).await {
                eprintln!(
                    "lease {:016x} could not be revoked and ends in {}s: {error}",
                    granted.id, granted.ttl
                );
            }
        }
    }
}
