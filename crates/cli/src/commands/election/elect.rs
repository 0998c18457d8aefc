//! Become a candidate in an election, and lead until interrupted.

use std::time::Duration;

use tenure::ElectionName;
use tenure::backend::{JoinSpec, Mode};

use super::words::{Deed, write};
use crate::args::{CandidateArgs, Settings, duration, patience};
use crate::commands::hold::Holding;
use crate::exit::{Exit, usage};
use crate::output::visible;
use crate::talk::talk;

/// How to campaign.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of the election
    name: String,
    /// What others read of the leader: its address, say
    #[arg(default_value = "")]
    value: String,
    /// How long the session lives without a sign of life
    #[arg(long, default_value = "10s", value_parser = duration)]
    ttl: Duration,
    #[command(flatten)]
    candidate: CandidateArgs,
    /// Do not wait: exit with 3 if another candidate leads
    #[arg(long, short = 'n')]
    nonblock: bool,
    /// Wait no longer than this to lead: exit with 3. A bare number is seconds (-w is the format here)
    #[arg(long, visible_alias = "max-wait", value_parser = patience, value_name = "DURATION", conflicts_with = "nonblock")]
    timeout: Option<Duration>,
    /// When leadership is lost, whatever the reason, do not campaign again: exit with 4
    #[arg(long)]
    once: bool,
}

/// Leads until interrupted, then resigns.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let name = ElectionName::try_from(args.name).map_err(|error| usage(error.to_string()))?;
    let options = args.candidate.session(args.ttl);
    let mut join = JoinSpec::one(name.clone(), Mode::Exclusive);
    join.value = args.value.into();
    join.priority = args.candidate.priority;
    join.try_only = args.nonblock;
    if !args.nonblock {
        talk!("waiting to lead {name}");
    }
    let identity = options.identity.clone();
    let holding = Holding {
        join,
        options,
        waits: args.candidate.wait_for_server.unwrap_or(false),
        timeout: args.timeout,
        once: args.once,
        conflict: Exit::NotTaken,
        gave_up: "resigned",
        announce: |held: &tenure::Held| {
            let (identity, token) = (Some(identity.clone()), Some(held.token().get()));
            let deed = Deed { name: held.name().to_string(), done: "leads", identity, token };
            write(&settings, [deed], |deed| {
                format!("leading {} with token {}", visible(&deed.name), held.token())
            })
        },
    };
    holding.run(&settings).await
}
