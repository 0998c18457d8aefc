//! Grant, renew, inspect and revoke leases.

use std::time::Duration;

use clap::Subcommand;
use tenure::api::wire::etcdserverpb as pb;
use tenure::grpc::{Client, ClientError};
use tokio::signal::ctrl_c;

use crate::args::{Settings, lease_id, whole_seconds};
use crate::exit::Exit;
use crate::output::Output;

/// How many times a second, at most, a renewal is tried while no member answers.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// What to do about leases.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask for a lease
    Grant {
        /// Seconds it lives without a renewal (or a duration: 1m30s)
        #[arg(value_parser = whole_seconds)]
        ttl: i64,
    },
    /// End a lease and delete its keys
    Revoke {
        /// The lease, in hexadecimal
        #[arg(value_name = "LEASE", value_parser = lease_id)]
        id: i64,
    },
    /// Show how long a lease still has
    Timetolive {
        /// The lease, in hexadecimal
        #[arg(value_name = "LEASE", value_parser = lease_id)]
        id: i64,
        /// Show the keys that die with it
        #[arg(long)]
        keys: bool,
    },
    /// Show all leases
    List,
    /// Renew a lease, again and again
    KeepAlive {
        /// The lease, in hexadecimal
        #[arg(value_name = "LEASE", value_parser = lease_id)]
        id: i64,
        /// Renew once only
        #[arg(long)]
        once: bool,
    },
}

/// Does it.
pub(crate) async fn run(command: Command, settings: Settings) -> anyhow::Result<Exit> {
    let client = settings.client();
    let mut output = Output::stdout(&settings);
    let lease = client.lease();
    match command {
        Command::Grant { ttl } => {
            output.lease_granted(&lease.grant(pb::LeaseGrantRequest { ttl, id: 0 }).await?)?;
        }
        Command::Revoke { id } => output.lease_revoked(id, &lease.revoke(id).await?)?,
        Command::Timetolive { id, keys } => {
            let request = pb::LeaseTimeToLiveRequest { id, keys };
            output.lease_remaining(&lease.time_to_live(request).await?, keys)?;
        }
        Command::List => output.lease_list(&lease.leases().await?)?,
        Command::KeepAlive { id, once: true } => {
            let renewed = lease.renewals(id).await?.answer().await?;
            if renewed.ttl <= 0 {
                return Err(gone().into());
            }
            output.lease_renewed(&renewed)?;
        }
        Command::KeepAlive { id, once: false } => {
            tokio::select! {
                ended = keep_alive(&client, id, &mut output) => ended?,
                _ = ctrl_c() => return Ok(Exit::Interrupted),
            }
            eprintln!("lease {id:016x} expired or revoked.");
            return Ok(Exit::Error);
        }
    }
    output.flush()?;
    Ok(Exit::Done)
}

/// Renews at a third of the TTL until the lease is gone. A broken stream is opened again, on
/// another member if need be, for as long as the lease may still live.
async fn keep_alive<W: std::io::Write>(
    client: &Client,
    id: i64,
    output: &mut Output<W>,
) -> anyhow::Result<()> {
    let mut alive_until = None;
    loop {
        let error = match renew(client, id, output, &mut alive_until).await? {
            Ended::LeaseGone => return Ok(()),
            Ended::StreamBroken(error) => error,
        };
        if alive_until.is_none_or(|until| tokio::time::Instant::now() >= until) {
            return Err(error.into());
        }
        eprintln!("renewing elsewhere: {error}");
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

enum Ended {
    LeaseGone,
    StreamBroken(ClientError),
}

async fn renew<W: std::io::Write>(
    client: &Client,
    id: i64,
    output: &mut Output<W>,
    alive_until: &mut Option<tokio::time::Instant>,
) -> anyhow::Result<Ended> {
    let mut sent = tokio::time::Instant::now();
    let mut renewals = match client.lease().renewals(id).await {
        Ok(renewals) => renewals,
        Err(error) => return Ok(Ended::StreamBroken(error)),
    };
    loop {
        let renewed = match renewals.answer().await {
            Ok(renewed) if renewed.ttl <= 0 => return Ok(Ended::LeaseGone),
            Ok(renewed) => renewed,
            Err(error) => return Ok(Ended::StreamBroken(error)),
        };
        output.lease_renewed(&renewed)?;
        let ttl = Duration::from_secs(renewed.ttl.unsigned_abs());
        // Counted from when the renewal was sent: the member's own count began no earlier.
        *alive_until = Some(sent + ttl);
        tokio::time::sleep(ttl / 3).await;
        sent = tokio::time::Instant::now();
        if let Err(error) = renewals.renew().await {
            return Ok(Ended::StreamBroken(error));
        }
    }
}

/// A member says so with a TTL of 0; etcdctl's users know it by this text.
fn gone() -> ClientError {
    ClientError::Refused {
        code: tenure::grpc::Code::NotFound,
        text: tenure::api::Failure::LeaseNotFound.text().into(),
    }
}
