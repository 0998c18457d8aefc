//! Stand for an election and lead until interrupted.

use std::time::Duration;

use tenure::{Election, Session, SessionOptions};
use tokio::signal::ctrl_c;

use super::words::{Deed, write};
use crate::args::{Settings, duration};
use crate::exit::Exit;
use crate::output::visible;

/// How to stand.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of the election
    name: String,
    /// What others shall know of the leader: its address, say
    #[arg(default_value = "")]
    value: String,
    /// How long the session lives without a sign of life
    #[arg(long, default_value = "10s", value_parser = duration)]
    ttl: Duration,
    /// Who this is, for people [default: host name and process id]
    #[arg(long)]
    identity: Option<String>,
    /// Whoever has more leads before whoever has less, 0 to 1000
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    priority: u32,
    /// Do not wait: exit with 3 if somebody else leads
    #[arg(long, short = 'n')]
    nonblock: bool,
}

/// Leads until interrupted, then resigns. What is lost on the way is told, and ends it with 4.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let mut options = SessionOptions { fast_release: true, ..SessionOptions::new(args.ttl) };
    if let Some(identity) = args.identity {
        options.identity = identity;
    }
    let identity = options.identity.clone();
    let session = Session::open_with(&settings.engine(), options).await?;
    let election = Election::new(&session, args.name.clone())?;
    let candidacy = election.candidate(args.value).priority(args.priority);
    let leads = if args.nonblock {
        match candidacy.try_campaign().await {
            Ok(leads) => leads,
            Err(tenure::AcquireError::Taken { .. }) => {
                eprintln!("somebody else leads {}", args.name);
                return Ok(Exit::NotTaken);
            }
            Err(error) => return Err(error.into()),
        }
    } else {
        eprintln!("waiting to lead {}", args.name);
        tokio::select! {
            elected = candidacy.campaign() => elected?,
            interrupted = ctrl_c() => {
                interrupted?;
                session.close().await;
                return Ok(Exit::Interrupted);
            }
        }
    };
    let (identity, token) = (Some(identity), Some(leads.token().get()));
    let deed = Deed { name: args.name.clone(), done: "leads", identity, token };
    write(&settings, [deed], |_| format!("leading {} with token {}", args.name, leads.token()))?;
    tokio::select! {
        loss = leads.lost() => {
            eprintln!("lost {}: {loss}", args.name);
            Ok(Exit::Lost)
        }
        drain = leads.drain() => {
            eprintln!("making room in {} for {}", args.name, visible(&drain.successor));
            leads.resign().await?;
            Ok(Exit::Done)
        }
        interrupted = ctrl_c() => {
            interrupted?;
            leads.resign().await?;
            session.close().await;
            Ok(Exit::Done)
        }
    }
}
