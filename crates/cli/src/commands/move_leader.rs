//! Make another member the raft leader.

use anyhow::bail;
use serde::Serialize;
use tenure::api::wire::etcdserverpb::{MemberListRequest, MoveLeaderRequest};
use tenure::grpc::{Client, Endpoint};

use super::member::id_of;
use crate::args::Settings;
use crate::exit::Exit;
use crate::output::Output;

/// To which member.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The member that is to lead: its name or its id
    member: String,
}

#[derive(Serialize)]
struct Moved {
    from: String,
    to: String,
}

/// Only the raft leader can hand over, so it is looked for first.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let (leader, client) = find_leader(&settings).await?;
    let target_id = id_of(&client, &args.member).await?;
    client.maintenance().move_leader(MoveLeaderRequest { target_id }).await?;
    let (from, to) = (format!("{leader:x}"), format!("{target_id:x}"));
    let line = format!("Leadership transferred from {from} to {to}");
    let mut output = Output::stdout(&settings);
    output.records([Moved { from, to }], |_| line.clone())?;
    output.flush()?;
    Ok(Exit::Done)
}

/// The raft leader and a client of it alone: one of the endpoints, or where the cluster says it is.
async fn find_leader(settings: &Settings) -> anyhow::Result<(u64, Client)> {
    let client = settings.client();
    let mut followed = None;
    let mut failure = None;
    for (endpoint, member) in client.each_member() {
        match member.maintenance().status().await {
            Ok(status) if status.leader == 0 => {}
            Ok(status) if status.header.is_some_and(|h| h.member_id == status.leader) => {
                return Ok((status.leader, member));
            }
            Ok(status) => followed = Some((status.leader, member)),
            Err(error) => {
                eprintln!("no status of {endpoint}: {error}");
                failure = Some(error);
            }
        }
    }
    let Some((leader, follower)) = followed else {
        return Err(failure.map_or_else(|| anyhow::anyhow!("no raft leader"), Into::into));
    };
    let members = follower.cluster().member_list(MemberListRequest { linearizable: true }).await?;
    let urls = members.members.into_iter().find(|m| m.id == leader).map(|m| m.client_ur_ls);
    let Some(urls) = urls.filter(|urls| !urls.is_empty()) else {
        bail!("nobody knows where raft leader {leader:x} serves clients: name it with --endpoints");
    };
    let at = Endpoint::list(&urls.join(","))?;
    Ok((leader, Client::new(at, settings.options.clone())))
}
