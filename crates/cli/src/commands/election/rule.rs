//! What an operator may do about an election or a lock.

use tenure::api::wire::tenure::v1 as pb;

use super::words::{Deed, write};
use crate::args::{Settings, duration};
use crate::exit::Exit;
use crate::output::visible;

/// The candidate that is to lead next.
#[derive(Debug, clap::Args)]
pub(crate) struct Transfer {
    /// The name of the election
    name: String,
    /// The identity of the successor, as tenure candidates shows it
    #[arg(long)]
    to: String,
    /// How long the leader may take to stop; then the successor leads anyway
    #[arg(long, default_value = "10s", value_parser = duration)]
    within: std::time::Duration,
}

/// The candidacy to take away.
#[derive(Debug, clap::Args)]
pub(crate) struct Evict {
    /// The name of the election or lock
    name: String,
    /// The token of the candidate to take away [default: the leader's]
    #[arg(long)]
    token: Option<i64>,
}

/// Which election or lock.
#[derive(Debug, clap::Args)]
pub(crate) struct Name {
    /// The name of the election or lock
    name: String,
}

/// Asks the leader to make room for a candidate.
pub(crate) async fn transfer(args: Transfer, settings: Settings) -> anyhow::Result<Exit> {
    let name = args.name.clone();
    let request = pb::TransferRequest {
        name: args.name,
        identity: args.to.clone(),
        within_ms: args.within.as_millis() as u64,
        ..Default::default()
    };
    let token = settings.client().elections().transfer(request).await?.token;
    let (identity, token) = (Some(args.to), Some(token));
    write(&settings, [Deed { name, done: "chosen", identity, token }], |deed| {
        let to = visible(deed.identity.as_deref().unwrap_or_default()).into_owned();
        format!("{to} leads with token {} when the leader has stopped", deed.token.unwrap_or(0))
    })?;
    Ok(Exit::Done)
}

/// Takes a candidacy away. The leader's token is looked up first: should this be repeated, the leader by then is not
/// the one that was meant.
pub(crate) async fn evict(args: Evict, settings: Settings) -> anyhow::Result<Exit> {
    let client = settings.client();
    let token = match args.token {
        Some(token) => Some(token),
        None => {
            let election = client.elections().candidates(args.name.clone()).await?;
            election.candidates.iter().find(|candidate| candidate.holds).map(|leader| leader.token)
        }
    };
    let Some(token) = token else {
        eprintln!("nobody leads {}", args.name);
        return Ok(Exit::NotTaken);
    };
    let request = pb::EvictRequest { name: args.name.clone(), token };
    let identity = client.elections().evict(request).await?.evicted.map(|evicted| evicted.identity);
    let done = if identity.is_some() { "evicted" } else { "gone already" };
    let deed = Deed { name: args.name, done, identity, token: Some(token) };
    write(&settings, [deed], |deed| match &deed.identity {
        Some(identity) => format!("evicted {} with token {token}", visible(identity)),
        None => format!("nobody has token {token} any more"),
    })?;
    Ok(Exit::Done)
}

/// Freezes a name: no candidate leads.
pub(crate) async fn freeze(args: Name, settings: Settings) -> anyhow::Result<Exit> {
    settings.client().elections().freeze(args.name.clone()).await?;
    let deed = Deed { name: args.name, done: "frozen", identity: None, token: None };
    write(&settings, [deed], |deed| {
        format!("{} is frozen: nobody leads until tenure resume {}", deed.name, deed.name)
    })?;
    Ok(Exit::Done)
}

/// Lets them lead again.
pub(crate) async fn resume(args: Name, settings: Settings) -> anyhow::Result<Exit> {
    settings.client().elections().resume(args.name.clone()).await?;
    let deed = Deed { name: args.name, done: "resumed", identity: None, token: None };
    write(&settings, [deed], |deed| format!("{} goes on", deed.name))?;
    Ok(Exit::Done)
}
