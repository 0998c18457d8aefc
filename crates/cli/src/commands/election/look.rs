//! The leader, the candidates, past leaders.

use serde::Serialize;

use super::words::{Candidate, Tenure, write};
use crate::args::Settings;
use crate::exit::Exit;
use crate::output::{Format, visible};

/// Which election or lock.
#[derive(Debug, clap::Args)]
pub(crate) struct Name {
    /// The name of the election or lock
    name: String,
}

/// What programs read when none leads. The name says that it is an answer.
#[derive(Serialize)]
struct NoLeader {
    name: String,
    leader: Option<Candidate>,
    frozen: bool,
}

/// Shows the leader, or says that there is none.
pub(crate) async fn leader(args: Name, settings: Settings) -> anyhow::Result<Exit> {
    let election = settings.client().elections().candidates(args.name.clone()).await?;
    let leader = election.candidates.into_iter().find(|candidate| candidate.holds);
    if leader.is_none() {
        let why = if election.frozen { " (frozen)" } else { "" };
        eprintln!("nobody leads {}{why}", args.name);
        if settings.format != Format::Simple {
            let none = NoLeader { name: args.name, leader: None, frozen: election.frozen };
            write(&settings, [none], |_| String::new())?;
        }
        return Ok(Exit::NotTaken);
    }
    write(&settings, leader.map(Candidate::from), Candidate::election)?;
    Ok(Exit::Done)
}

/// Shows all candidates, in order.
pub(crate) async fn candidates(args: Name, settings: Settings) -> anyhow::Result<Exit> {
    let election = settings.client().elections().candidates(args.name.clone()).await?;
    if election.frozen {
        eprintln!("{} is frozen: tenure resume {} ends that", args.name, args.name);
    }
    write(&settings, election.candidates.into_iter().map(Candidate::from), Candidate::election)?;
    Ok(Exit::Done)
}

/// Shows past leaders, oldest first.
pub(crate) async fn history(args: Name, settings: Settings) -> anyhow::Result<Exit> {
    let history = settings.client().elections().history(args.name).await?;
    write(&settings, history.tenures.into_iter().map(Tenure::from), Tenure::election)?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Session {
    session: String,
    identity: String,
    ttl_ms: u64,
    remaining_ms: u64,
    fast_release: bool,
    candidate_in: Vec<String>,
}

/// Shows all sessions, and the elections and locks in which they are candidates.
pub(crate) async fn sessions(settings: Settings) -> anyhow::Result<Exit> {
    let sessions = settings.client().sessions().list().await?.sessions;
    let sessions = sessions.into_iter().map(|session| Session {
        session: format!("{:x}", session.session),
        identity: session.identity,
        ttl_ms: session.ttl_ms,
        remaining_ms: session.remaining_ms,
        fast_release: session.fast_release,
        candidate_in: session.candidacies.into_iter().map(|candidate| candidate.name).collect(),
    });
    write(&settings, sessions, |session| {
        format!(
            "{}\t{}\t{} of {} ms left\t{}",
            session.session,
            visible(&session.identity),
            session.remaining_ms,
            session.ttl_ms,
            visible(&session.candidate_in.join(" "))
        )
    })?;
    Ok(Exit::Done)
}
