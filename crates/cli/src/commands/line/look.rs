//! Who leads, who waits, who led before.

use serde::Serialize;

use super::words::{Candidate, Tenure, write};
use crate::args::Settings;
use crate::exit::Exit;
use crate::output::visible;

/// Which election or lock.
#[derive(Debug, clap::Args)]
pub(crate) struct Name {
    /// The name of the election or lock
    name: String,
}

/// Which of all.
#[derive(Debug, clap::Args)]
pub(crate) struct Prefix {
    /// Only names that begin so
    #[arg(default_value = "")]
    prefix: String,
}

/// Who to ask about.
#[derive(Debug, clap::Args)]
pub(crate) struct IsLeader {
    /// The name of the election
    name: String,
    /// Whose leadership to ask for; this host's name if nothing is said
    #[arg(long)]
    identity: Option<String>,
}

/// Shows the leader, or says that there is none.
pub(crate) async fn leader(args: Name, settings: Settings) -> anyhow::Result<Exit> {
    let line = settings.client().lines().candidates(args.name.clone()).await?;
    let leader = line.candidates.into_iter().find(|candidate| candidate.holds);
    if leader.is_none() {
        let why = if line.frozen { " (frozen)" } else { "" };
        eprintln!("nobody leads {}{why}", args.name);
        return Ok(Exit::NotTaken);
    }
    write(&settings, leader.map(Candidate::from), Candidate::line)?;
    Ok(Exit::Done)
}

/// Shows everybody in line, in order.
pub(crate) async fn candidates(args: Name, settings: Settings) -> anyhow::Result<Exit> {
    let line = settings.client().lines().candidates(args.name.clone()).await?;
    if line.frozen {
        eprintln!("{} is frozen: tenure resume {} ends that", args.name, args.name);
    }
    write(&settings, line.candidates.into_iter().map(Candidate::from), Candidate::line)?;
    Ok(Exit::Done)
}

/// Shows who led before, oldest first.
pub(crate) async fn history(args: Name, settings: Settings) -> anyhow::Result<Exit> {
    let history = settings.client().lines().history(args.name).await?;
    write(&settings, history.tenures.into_iter().map(Tenure::from), Tenure::line)?;
    Ok(Exit::Done)
}

/// Tells by its exit code whether somebody leads: for cron.
pub(crate) async fn is_leader(args: IsLeader, settings: Settings) -> anyhow::Result<Exit> {
    let line = settings.client().lines().candidates(args.name).await?;
    let identity = args.identity.unwrap_or_else(host_name);
    let leads = line.candidates.iter().any(|c| c.holds && c.identity == identity);
    Ok(if leads { Exit::Done } else { Exit::NotTaken })
}

/// What this machine is called.
pub(in crate::commands) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[derive(Serialize)]
struct Line {
    name: String,
    holders: u32,
    waiting: u32,
    frozen: bool,
    leader: Option<Candidate>,
}

/// Shows all elections and locks that somebody holds or waits for.
pub(crate) async fn locks(args: Prefix, settings: Settings) -> anyhow::Result<Exit> {
    let lines = settings.client().lines().list(args.prefix).await?.lines;
    let lines = lines.into_iter().map(|line| Line {
        name: line.name,
        holders: line.holders,
        waiting: line.waiting,
        frozen: line.frozen,
        leader: line.leader.map(Candidate::from),
    });
    write(&settings, lines, |line| {
        let leader = line.leader.as_ref().map_or("nobody leads".into(), Candidate::line);
        let frozen = if line.frozen { "\tfrozen" } else { "" };
        let name = visible(&line.name);
        format!("{name}\t{} hold, {} wait\t{leader}{frozen}", line.holders, line.waiting)
    })?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Session {
    session: String,
    identity: String,
    ttl_ms: u64,
    remaining_ms: u64,
    fast_release: bool,
    stands_for: Vec<String>,
}

/// Shows all sessions and what they stand for.
pub(crate) async fn sessions(settings: Settings) -> anyhow::Result<Exit> {
    let sessions = settings.client().sessions().list().await?.sessions;
    let sessions = sessions.into_iter().map(|session| Session {
        session: format!("{:x}", session.session),
        identity: session.identity,
        ttl_ms: session.ttl_ms,
        remaining_ms: session.remaining_ms,
        fast_release: session.fast_release,
        stands_for: session.places.into_iter().map(|place| place.name).collect(),
    });
    write(&settings, sessions, |session| {
        format!(
            "{}\t{}\t{} of {} ms left\t{}",
            session.session,
            visible(&session.identity),
            session.remaining_ms,
            session.ttl_ms,
            visible(&session.stands_for.join(" "))
        )
    })?;
    Ok(Exit::Done)
}
